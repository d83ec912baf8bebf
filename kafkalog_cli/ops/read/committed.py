"""Find what read_committed hides: batches of aborted transactions, and all from the first open transaction on."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.disk.kernels import KernelChoice
from kafkalog_cli.format.batch import NO_OFFSET, Batch, BatchColumns
from kafkalog_cli.format.fault import Fault
from kafkalog_cli.format.limits import Limits
from kafkalog_cli.log.open_transactions import (
    OpenTransaction,
    SegmentPart,
    TransactionsByProducer,
    newest_snapshot,
    open_transactions,
    parts_to_replay,
)
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.log.reading.segment_reader import DamagePolicy, SegmentReader
from kafkalog_cli.log.transaction_ends import Ending, TransactionEnds

_MOST_TOLD_OF = 1000
"""The most transactions without a marker that are reported one by one."""


class ReadNote(NamedTuple):
    """A remark about what was read that is not damage of the log; `kind` is a word for JSON output."""

    kind: str
    path: str
    message: str


class Committed:
    """Selects the batches that a read_committed consumer gets; ask about them in order, from `first_offset` on.

    `parts` are the rest of the log from `first_offset` on. `last_stable_offset` is None until an open transaction is
    found. Methods raise as `open_read` does.
    """

    def __init__(  # noqa: PLR0913, PLR0917
        self,
        fs: Filesystem,
        partition: Partition,
        parts: Sequence[SegmentPart],
        first_offset: int,
        end_offset: int,
        limits: Limits,
        choice: KernelChoice | None,
        notes: deque[ReadNote],
    ) -> None:
        self.last_stable_offset: int | None = None
        self._fs = fs
        self._partition = partition
        self._end_offset = end_offset
        self._notes = notes
        self._ends = TransactionEnds(fs, parts, first_offset, limits, choice, self._note)
        self._at_end: tuple[int | None, TransactionsByProducer] | None = None
        self._told_of: set[int] = set()
        for found in self._open_before(first_offset, limits, choice):
            ending = self._ends.ending(found.producer_id, found.first_offset, first_offset - 1, hides=False)
            if (
                ending is Ending.OPEN
                and self._stays_open(found.producer_id, found.first_offset)
                and not self._was_aborted(found, first_offset, limits, choice)
            ):
                self._stop_at(found.producer_id, found.first_offset)
                return

    def ending(self, producer_id: int, base_offset: int, last_offset: int) -> Ending:
        """Return what ends the transaction of a batch; with an OPEN transaction the log ends for the consumer."""
        ending = self._ends.ending(producer_id, base_offset, last_offset)
        if ending is not Ending.OPEN:
            return ending
        if not self._stays_open(producer_id, base_offset):
            return Ending.COMMITTED
        self._stop_at(producer_id, base_offset)
        return Ending.OPEN

    def close(self) -> None:
        """Close the file being read."""
        self._ends.close()

    def _stop_at(self, producer_id: int, offset: int) -> None:
        self.last_stable_offset = offset
        message = f"a transaction of producer {producer_id} is open since offset {offset}: read_committed ends there"
        self._notes.append(ReadNote("open-transaction", self._partition.path, message))

    def _open_before(self, first_offset: int, limits: Limits, choice: KernelChoice | None) -> Sequence[OpenTransaction]:
        """Return the transactions open at `first_offset`, from the newest snapshot below it and the later batches."""
        offset, known = newest_snapshot(self._fs, self._partition, first_offset, self._ignore)
        path = self._partition.path
        segments = self._partition.segments
        begin = segments[0].base_offset if offset is None else offset
        if begin >= first_offset:
            return open_transactions(path, known, (), begin, first_offset)
        parts = self._parts(begin, first_offset)
        batches = transactional_batches(self._fs, parts, first_offset, limits, choice)
        return open_transactions(path, known, batches, begin, first_offset)

    def _parts(self, begin: int, end: int) -> list[SegmentPart]:
        """Return the parts of the log from offset `begin` on, without segments that begin at or above `end`."""
        parts = parts_to_replay(self._fs, self._partition.segments, begin)
        return [part for part in parts if part.segment.base_offset < end]

    def _was_aborted(
        self, found: OpenTransaction, first_offset: int, limits: Limits, choice: KernelChoice | None
    ) -> bool:
        """Whether a transaction index shows that the transaction ended below `first_offset`.

        Damage may hide the marker itself.
        """
        parts = self._parts(found.first_offset, first_offset)
        if not any(part.segment.txn_index for part in parts):
            return False
        ends = TransactionEnds(self._fs, parts, found.first_offset, limits, choice, lambda path, message: None)
        try:
            ending = ends.ending(found.producer_id, found.first_offset, found.first_offset, hides=False)
            return ending is not Ending.OPEN
        finally:
            ends.close()

    def _stays_open(self, producer_id: int, offset: int) -> bool:
        """Whether a transaction without a marker is also open for a broker.

        If compaction removed the marker, the producer snapshot still shows that the transaction ended.
        """
        if self._at_end is None:
            snapshot_offset, known = newest_snapshot(self._fs, self._partition, self._end_offset, self._ignore)
            self._at_end = snapshot_offset, TransactionsByProducer(self._partition.path, known)
        snapshot_offset, still_open = self._at_end
        if snapshot_offset is None or offset >= snapshot_offset:
            return True
        is_open = still_open.get(producer_id) is not None
        if not is_open and producer_id not in self._told_of and len(self._told_of) < _MOST_TOLD_OF:
            self._told_of.add(producer_id)
            message = (
                f"no marker ends the transaction of producer {producer_id} at offset {offset}; "
                f"the producer snapshot {snapshot_offset} has none open: its records are shown, as a broker does"
            )
            if len(self._told_of) == _MOST_TOLD_OF:
                message += ". Further transactions of this kind are not reported"
            self._notes.append(ReadNote("no-marker", self._partition.path, message))
        return is_open

    def _note(self, path: str, message: str) -> None:
        self._notes.append(ReadNote("transaction-index", path, message))

    @staticmethod
    def _ignore(path: str, faults: list[Fault]) -> None:
        """Ignore damage of a snapshot: `verify` reports it, and an older snapshot is used here."""


def transactional_batches(
    fs: Filesystem, parts: Sequence[SegmentPart], end_offset: int, limits: Limits, choice: KernelChoice | None
) -> Iterator[Batch]:
    """Yield the batches of transactions and markers below an offset whose CRCs are right.

    Raises as `open_read` does.
    """
    for part in parts:
        yield from _transactional_in(fs, part, end_offset, limits, choice)


def _transactional_in(
    fs: Filesystem, part: SegmentPart, end_offset: int, limits: Limits, choice: KernelChoice | None
) -> Iterator[Batch]:
    with fs.open_read(part.segment.log.path) as log:
        reader = SegmentReader(log, DamagePolicy.RESYNC, start=part.position, limits=limits, kernels=choice)
        for batches in reader.batches():
            yield from map(batches.row, _transactional_rows(batches))
            first = int(batches.base_offset[0])
            if first != NO_OFFSET and first >= end_offset:
                return


def _transactional_rows(batches: BatchColumns) -> list[int]:
    return [row for row in batches.in_transactions() if batches.valid[row]]
