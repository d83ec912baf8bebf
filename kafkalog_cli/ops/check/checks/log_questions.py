"""Collects the offsets that sidecar files need from a log before it is walked, so that one pass answers all."""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from itertools import islice
from typing import NamedTuple

from kafkalog_cli.format.batch import CONTROL_MASK, NO_OFFSET, Batch, BatchColumns
from kafkalog_cli.format.columns import as_array, is_many, least_and_largest, rows_where
from kafkalog_cli.format.producer_snapshot import ProducerEntry
from kafkalog_cli.log.log_end import LogBounds
from kafkalog_cli.log.open_transactions import TransactionReplay
from kafkalog_cli.log.partition import PartitionFile
from kafkalog_cli.ops.check.checks.segment_walk import BatchRun


class Answer(NamedTuple):
    """The first batch that reaches an offset (None: no batch does), and whether it contains the offset.

    `is_damaged`: damaged bytes are between this batch and the batch before it, and may have contained the offset.
    """

    batch: Batch | None = None
    holds: bool = False
    is_damaged: bool = False


MOST_QUESTIONS = 150_000
"""The most offsets whose batches are in memory: some 900 bytes each."""


ReadProducers = Callable[[], Iterable[ProducerEntry]]
"""A function that reads a snapshot."""


class EndedTxn(NamedTuple):
    """A transaction that ended at its marker: its first offset in the log, and the last stable offset at that time.

    `first_offset` is None if no batch of it is left.
    """

    first_offset: int | None
    last_stable_offset: int


class ProducerTrail:
    """Follows producers and their transactions through the whole log, to find errors in snapshots and indexes.

    `snapshots` maps snapshot offsets to readers. `markers` are the offsets of the ABORT markers to note. `missed` maps
    snapshot offset and producer id to the problem: facts below that offset that the snapshot lacks. `ended` contains
    the transactions that ended with the markers.
    """

    def __init__(self, snapshots: dict[int, ReadProducers], markers: frozenset[int]) -> None:
        self.missed: dict[int, dict[int, str]] = {}
        self.ended: dict[int, EndedTxn] = {}
        self._snapshots = snapshots
        self._markers = markers
        self._producers = {entry.producer_id for read in snapshots.values() for entry in read()}
        self._last_data: dict[int, int] = {}
        self._last_marker: dict[int, int] = {}
        self._replay = TransactionReplay()
        self._due = sorted(snapshots)

    def see(self, batch_run: BatchRun) -> None:
        """Note the batches of producers."""
        batches, first = batch_run.batches, 0
        last_offset = batches.last_offset
        while self._due and least_and_largest(last_offset[first:])[1] >= (due := self._due[0]):
            end = first + rows_where(lambda last, due=due: last >= due, last_offset[first:])[0]
            self._follow(batches.part(first, end))
            self._compare(self._due.pop(0))
            first = end
        self._follow(batches.part(first, len(batches)) if first else batches)

    def reach(self, snapshot_offset: int) -> None:
        """Compare the snapshots up to `snapshot_offset`: all batches below it were seen."""
        while self._due and self._due[0] <= snapshot_offset:
            self._compare(self._due.pop(0))

    def _follow(self, batches: BatchColumns) -> None:
        """Note batches between which no snapshot lies."""
        if self._producers:
            last_data = _last_data(batches)
            self._last_data.update((producer, last_data[producer]) for producer in self._producers & last_data.keys())
        for marker, first_offset in self._replay.ended(batches.of_transactions()):
            if marker.last_offset in self._markers:
                stable = min(self._replay.first_offsets.values(), default=marker.last_offset + 1)
                self.ended[marker.last_offset] = EndedTxn(first_offset, stable)
            if marker.producer_id in self._producers:
                self._last_marker[marker.producer_id] = marker.last_offset

    def _compare(self, snapshot_offset: int) -> None:
        missed = self.missed[snapshot_offset] = {}
        for entry in self._snapshots[snapshot_offset]():
            problem = self._problem(entry)
            if problem:
                missed[entry.producer_id] = problem

    def _problem(self, entry: ProducerEntry) -> str:
        last_data = self._last_data.get(entry.producer_id, NO_OFFSET)
        if entry.has_batch and last_data > entry.last_offset:
            return f"a newer batch of the producer ends with offset {last_data}"
        marker = self._last_marker.get(entry.producer_id, NO_OFFSET)
        began = entry.open_txn_first_offset
        if began is not None:
            return f"its transaction ended with the marker at offset {marker}" if marker > began else ""
        still_open = self._replay.first_offsets.get(entry.producer_id)
        return "" if still_open is None else f"a transaction of the producer is open since offset {still_open}"


def _last_data(batches: BatchColumns) -> dict[int, int]:
    """Return the last offset of the last data batch per producer id."""
    if not is_many(len(batches)):
        columns = zip(batches.producer_id, batches.last_offset, batches.attributes, strict=True)
        return {producer: last for producer, last, bits in columns if producer >= 0 and not bits & CONTROL_MASK}
    import numpy as np

    producer_id, last_offset, attributes = map(as_array, (batches.producer_id, batches.last_offset, batches.attributes))
    rows = ((producer_id >= 0) & (attributes & CONTROL_MASK == 0)).nonzero()[0][::-1]
    producers, at = np.unique(producer_id[rows], return_index=True)
    return dict(zip(producers.tolist(), last_offset[rows[at]].tolist(), strict=True))


class LogQuestions:
    """The offsets whose batches sidecar files need. Ask first, then give `see` every BatchRun of the log in order.

    `log` has the offsets of the partition. `unasked` are the paths of files with too many entries to be compared with
    the log.
    """

    def __init__(self, log: LogBounds) -> None:
        self.log = log
        self.trail: ProducerTrail | None = None
        self.unasked: set[str] = set()
        self._pending: list[int] = []
        self._answers: dict[int, Answer] = {}

    def ask(self, file: PartitionFile, offsets: Callable[[], Iterable[int]]) -> bool:
        """Request the batches of the entries of a file, unless memory lacks room for all; return whether it did."""
        room = max(0, MOST_QUESTIONS - len(self._answers))
        if len(list(islice(offsets(), room + 1))) > room:
            self.unasked.add(file.status.path)
            return False
        self.ask_all(offsets())
        return True

    def ask_all(self, offsets: Iterable[int]) -> None:
        """Request the batches of many offsets at once."""
        new = set(offsets).difference(self._answers)
        self._answers.update(dict.fromkeys(new, Answer()))
        self._pending = sorted([*self._pending, *new])

    def answer(self, offset: int) -> Answer:
        """Return the answer for an offset; an empty answer if it was not requested or not reached."""
        return self._answers.get(offset, Answer())

    def is_pending_below(self, offset: int) -> bool:
        """Whether an answer is missing that a segment below `offset` may give."""
        return bool(self._pending) and self._pending[0] < offset

    def see(self, batch_run: BatchRun) -> None:
        """Answer the pending offsets that `batch_run` reaches, and follow its producers."""
        end = bisect_left(self._pending, batch_run.last_reached + 1)
        for offset in self._pending[:end]:
            row = batch_run.first_reaching(offset)
            holds = batch_run.holds(row, offset)
            damaged = not holds and row == 0 and batch_run.is_after_damage
            self._answers[offset] = Answer(batch_run.batches.row(row), holds, damaged)
        del self._pending[:end]
        if self.trail is not None:
            self.trail.see(batch_run)
