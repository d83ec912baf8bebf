"""Notes facts about batches while a repair checks a partition: which segments have markers, and the order of epochs."""

from __future__ import annotations

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.errors import ExitCode
from kafkalog_cli.format.batch import CONTROL_MASK
from kafkalog_cli.format.columns import any_row, integers, least_and_largest
from kafkalog_cli.format.records import RecordBlock
from kafkalog_cli.log.partition import Segment
from kafkalog_cli.ops.checks.segment_walk import BatchRun, SegmentWalk
from kafkalog_cli.ops.verify.txns import AbortedCheck


class BatchMarks:
    """Which segments contain producers' control batches, and whether the leader epochs of batches decrease.

    `without_entry`: segments with an aborted transaction that their transaction index does not contain.
    """

    wants_records = False

    def __init__(self, fs: Filesystem) -> None:
        self.in_segments: set[int] = set()
        self.without_entry: set[int] = set()
        self._aborted = AbortedCheck(fs)
        self.epochs_go_down = False
        self._epoch = -1
        self._segment = 0

    def begin(self, segment: Segment, next_offset: int | None) -> bool:
        """See LogObserver."""
        del next_offset
        self._segment = segment.base_offset
        return True

    def see(self, batch_run: BatchRun) -> None:
        """See LogObserver."""
        self._aborted.see(batch_run)
        batches = batch_run.batches
        if any_row(
            lambda bits, producer, magic: (bits & CONTROL_MASK != 0) & (producer >= 0) & (magic >= 2),
            batches.attributes, batches.producer_id, batches.magic,
        ):  # fmt: skip
            self.in_segments.add(self._segment)
        least, largest = least_and_largest(batches.leader_epoch)
        if least < largest or least < self._epoch:  # most segments have one epoch
            for epoch in integers(batches.leader_epoch):
                if epoch >= 0:
                    self.epochs_go_down |= epoch < self._epoch
                    self._epoch = epoch
        else:
            self._epoch = largest

    def records(self, block: RecordBlock) -> None:
        """See LogObserver."""

    def end(self, walk: SegmentWalk, code: ExitCode) -> None:
        """See LogObserver."""
        if any(self._aborted.findings(walk.file)):
            self.without_entry.add(self._segment)
