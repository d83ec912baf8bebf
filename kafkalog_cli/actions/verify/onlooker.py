"""Somebody who looks on while a partition is verified: what the check reads of its log is read once for both."""

from __future__ import annotations

from typing import Protocol

from kafkalog_cli.actions.reports.segment_walk import SegmentWalk, Stretch
from kafkalog_cli.actions.verify.log import LogCheck
from kafkalog_cli.errors import ExitCode
from kafkalog_cli.format.batch import BatchColumns
from kafkalog_cli.format.records import RecordBlock
from kafkalog_cli.storage.partition import Segment


class Onlooker(Protocol):
    """Sees the batches of a log in its order, of which the level may not have checked the CRCs.

    `wants_records`: also the records in those whose CRCs hold, whatever the level; they come before their batches.
    """

    wants_records: bool

    def batches(self, batches: BatchColumns) -> None:
        """Some batches."""

    def records(self, block: RecordBlock) -> None:
        """The records of some batches."""


class Together:
    """A check and an onlooker as one LogObserver; the check sees what it would see alone."""

    def __init__(self, check: LogCheck, onlooker: Onlooker) -> None:
        self.wants_records = check.wants_records or onlooker.wants_records
        self._check = check
        self._onlooker = onlooker

    def begin(self, segment: Segment, next_offset: int | None) -> bool:
        """See LogObserver."""
        return self._check.begin(segment, next_offset)

    def see(self, stretch: Stretch) -> None:
        """See LogObserver."""
        self._check.see(stretch)
        self._onlooker.batches(stretch.batches)

    def records(self, block: RecordBlock) -> None:
        """See LogObserver."""
        if self._check.wants_records:
            self._check.records(block)
        self._onlooker.records(block)

    def end(self, walk: SegmentWalk, code: ExitCode) -> None:
        """See LogObserver."""
        self._check.end(walk, code)
