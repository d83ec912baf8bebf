"""The limits of decompression for a reader that runs ahead of its consumer, next to other readers."""

from __future__ import annotations

from kafkalog_cli.format.batch import BatchColumns
from kafkalog_cli.format.fault import FaultKind
from kafkalog_cli.format.limits import Limits
from kafkalog_cli.format.records import RecordBlock, RecordColumns
from kafkalog_cli.log.reading.large_turn import LARGE_BYTES

ARENA_BYTES = 2 << 20
"""Number of decompressed bytes after which a block is complete."""
AHEAD_BYTES = LARGE_BYTES
"""Largest output of one batch that is decompressed ahead.

A larger batch is decompressed in its turn, so that its memory is used once and not once per thread.
"""
NOT_YET = RecordBlock(memoryview(b""), BatchColumns.from_rows([]), 0, 0, (), RecordColumns.from_rows([]))
"""Placeholder for a block that must be requested again when its turn comes."""


class Allowance:
    """The limits that currently apply: reduced until the first block is out if blocks are read ahead, then complete."""

    def __init__(self, limits: Limits, *, ahead: bool) -> None:
        self._all = limits
        self._reduced = limits._replace(max_output_bytes=min(limits.max_output_bytes, AHEAD_BYTES))
        self.limits = self._reduced if ahead else limits

    def is_short(self, kind: FaultKind) -> bool:
        """Whether a fault of this kind may disappear with the complete limits, when it is the block's turn."""
        return kind is FaultKind.OUTPUT_TOO_LARGE and self.limits != self._all

    def grant(self) -> None:
        """Apply the complete limits: it is now the block's turn."""
        self.limits = self._all

    def reduce(self) -> None:
        """Apply the reduced limits again: the next large batch needs a turn of its own."""
        self.limits = self._reduced
