"""Notes facts about batches while a repair checks a partition: which segments have markers, and the order of epochs."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from kafkalog_cli.actions.reports.segment_walk import BatchRun, SegmentWalk
from kafkalog_cli.actions.verify.txns import AbortedCheck
from kafkalog_cli.errors import ExitCode
from kafkalog_cli.format.batch import CONTROL_MASK
from kafkalog_cli.format.records import RecordBlock
from kafkalog_cli.storage.fs import Filesystem
from kafkalog_cli.storage.partition import Segment


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
        columns: Any = batch_run.batches
        if columns.matrix is not None:
            import numpy as np

            is_control = columns.attributes & CONTROL_MASK != 0
            marks = is_control & (columns.producer_id >= 0) & (columns.magic >= 2)
            epochs = columns.leader_epoch[columns.leader_epoch >= 0]
            self._note(
                bool(marks.any()),
                bool((np.diff(epochs, prepend=self._epoch) < 0).any()),
                int(epochs.max(initial=self._epoch)),
            )
            return
        rows = zip(columns.attributes, columns.producer_id, columns.magic, strict=True)
        has_marker = any(bits & CONTROL_MASK and producer >= 0 and magic >= 2 for bits, producer, magic in rows)
        known = [self._epoch, *(epoch for epoch in columns.leader_epoch if epoch >= 0)]
        self._note(has_marker, any(after < before for before, after in pairwise(known)), max(known))

    def _note(self, has_marker: bool, goes_down: bool, epoch: int) -> None:
        if has_marker:
            self.in_segments.add(self._segment)
        self.epochs_go_down |= goes_down
        self._epoch = epoch

    def records(self, block: RecordBlock) -> None:
        """See LogObserver."""

    def end(self, walk: SegmentWalk, code: ExitCode) -> None:
        """See LogObserver."""
        if any(self._aborted.findings(walk.file)):
            self.without_entry.add(self._segment)
