"""What sidecar files ask of a log, gathered before it is walked, so that one pass over each segment answers all."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable
from typing import NamedTuple

from kafkalog_cli.actions.segment_walk import Stretch
from kafkalog_cli.format.batch import CONTROL_MASK, NO_OFFSET, Batch

MAX_EPOCH_RUNS = 10_000


class Answer(NamedTuple):
    """The first batch that reaches an offset (None: the log does not), and whether it holds it.

    `is_damaged`: bytes that are no batches lie between it and the batch before, so one may have held the offset.
    """

    batch: Batch | None = None
    holds: bool = False
    is_damaged: bool = False


class OffsetQuestions:
    """Offsets whose batches are wanted. Ask first, then give `see` every stretch of the log in order."""

    def __init__(self) -> None:
        self._pending: list[int] = []
        self._answers: dict[int, Answer] = {}

    def ask(self, offset: int) -> None:
        """Want the batch that holds `offset`, or the first after it."""
        if offset not in self._answers:
            self._answers[offset] = Answer()
            insort(self._pending, offset)

    def ask_all(self, offsets: Iterable[int]) -> None:
        """Many at once."""
        new = set(offsets).difference(self._answers)
        self._answers.update(dict.fromkeys(new, Answer()))
        self._pending = sorted([*self._pending, *new])

    def answer(self, offset: int) -> Answer:
        """What was found; of an offset that was not asked for, nothing."""
        return self._answers.get(offset, Answer())

    def is_pending_below(self, offset: int) -> bool:
        """Whether an answer is still missing that a segment up to `offset` may give."""
        return bool(self._pending) and self._pending[0] < offset

    def see(self, stretch: Stretch) -> None:
        """Answer what `stretch` answers."""
        end = bisect_left(self._pending, stretch.reached[-1] + 1)
        for offset in self._pending[:end]:
            row = stretch.first_reaching(offset)
            holds = stretch.holds(row, offset)
            damaged = not holds and row == 0 and stretch.is_after_damage
            self._answers[offset] = Answer(stretch.batches.row(row), holds, damaged)
        del self._pending[:end]


class EpochRuns:
    """Where the leader epoch of the batches changes: `runs` are (leader epoch, base offset), in log order."""

    def __init__(self) -> None:
        self.runs: list[tuple[int, int]] = []
        self._epoch: int | None = None

    def see(self, stretch: Stretch) -> None:
        """Note the changes in `stretch`."""
        column = stretch.batches.leader_epoch
        if self._epoch is not None and all(epoch == self._epoch for epoch in column):
            return
        for row, epoch in enumerate(column):
            if epoch != self._epoch:
                self._epoch = int(epoch)
                if epoch >= 0 and len(self.runs) < MAX_EPOCH_RUNS:
                    self.runs.append((int(epoch), stretch.base_offset[row]))


LastOffsets = Callable[[], Iterable[tuple[int, int]]]
"""Reads a snapshot: (producer id, last offset) of the producers with a batch."""


class ProducerTrail:
    """Follows the last batch of data of each producer, to find snapshots that miss one.

    `snapshots` are by their offsets. `newer` holds, by snapshot offset and producer id, the last offset of a batch
    that was written before the snapshot's offset and after the batch that the snapshot knows.
    """

    def __init__(self, snapshots: dict[int, LastOffsets]) -> None:
        self.newer: dict[int, dict[int, int]] = {}
        self._snapshots = dict(sorted(snapshots.items()))
        self._producers = {producer for read in snapshots.values() for producer, _ in read()}
        self._latest: dict[int, int] = {}
        self._due = sorted(snapshots)

    def see(self, stretch: Stretch) -> None:
        """Note the batches of producers that any snapshot knows."""
        if not self._producers:
            return
        wanted, latest, due = self._producers, self._latest, self._due
        batches = stretch.batches
        for producer, last, attributes in zip(
            batches.producer_id, stretch.last_offset, batches.attributes, strict=True
        ):
            while due and last >= due[0]:
                self._compare(due.pop(0))
            if producer in wanted and not attributes & CONTROL_MASK:
                latest[int(producer)] = last

    def reach(self, snapshot_offset: int) -> None:
        """All batches below `snapshot_offset` were seen."""
        while self._due and self._due[0] <= snapshot_offset:
            self._compare(self._due.pop(0))

    def _compare(self, snapshot_offset: int) -> None:
        found = {}
        for producer, last_offset in self._snapshots[snapshot_offset]():
            latest = self._latest.get(producer, NO_OFFSET)
            if latest > last_offset:
                found[producer] = latest
        self.newer[snapshot_offset] = found
