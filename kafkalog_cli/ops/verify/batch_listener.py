"""Observers of a partition's verification: the log is read only once for the check and the observer."""

from __future__ import annotations

from typing import Protocol

from kafkalog_cli.errors import ExitCode
from kafkalog_cli.format.batch import BatchColumns
from kafkalog_cli.format.records import RecordBlock
from kafkalog_cli.log.partition import Segment
from kafkalog_cli.ops.checks.segment_walk import BatchRun, SegmentWalk
from kafkalog_cli.ops.verify.log import LogCheck


class BatchListener(Protocol):
    """Receives the batches of a log in order; their CRCs may be unchecked, depending on the level.

    If `wants_records`, it also receives the records of batches whose CRCs are right, at any level. Records come before
    their batches.
    """

    wants_records: bool

    def batches(self, batches: BatchColumns) -> None:
        """Receive several batches."""

    def records(self, block: RecordBlock) -> None:
        """Receive the records of several batches."""


class BatchListeners:
    """A check and a listener as one LogObserver; the check receives the same calls as it would alone."""

    def __init__(self, check: LogCheck, listener: BatchListener) -> None:
        self.wants_records = check.wants_records or listener.wants_records
        self._check = check
        self._listener = listener

    def begin(self, segment: Segment, next_offset: int | None) -> bool:
        """See LogObserver."""
        return self._check.begin(segment, next_offset)

    def see(self, batch_run: BatchRun) -> None:
        """See LogObserver."""
        self._check.see(batch_run)
        self._listener.batches(batch_run.batches)

    def records(self, block: RecordBlock) -> None:
        """See LogObserver."""
        if self._check.wants_records:
            self._check.records(block)
        self._listener.records(block)

    def end(self, walk: SegmentWalk, code: ExitCode) -> None:
        """See LogObserver."""
        self._check.end(walk, code)
