"""What a reader may decompress while others do so beside it, ahead of those who use their blocks."""

from __future__ import annotations

from kafkalog_cli.format.batch import BatchColumns
from kafkalog_cli.format.fault import FaultKind
from kafkalog_cli.format.limits import MEBIBYTE, Limits
from kafkalog_cli.format.records import RecordBlock, RecordColumns

AHEAD_BYTES = 16 * MEBIBYTE
"""Output of one batch that is made ahead; more takes memory once, not once a thread."""

NOT_YET = RecordBlock(memoryview(b""), BatchColumns.from_rows([]), 0, 0, (), RecordColumns.from_rows([]))
"""In place of a block that is to be asked for once more, in its turn."""


class Allowance:
    """`limits` are those of the moment: less than all until the first block is out, if blocks are read ahead."""

    def __init__(self, limits: Limits, *, ahead: bool) -> None:
        self._all = limits
        self.limits = limits._replace(max_output_bytes=min(limits.max_output_bytes, AHEAD_BYTES)) if ahead else limits

    def is_short(self, kind: FaultKind) -> bool:
        """Whether a fault of this kind may be none when it is the block's turn."""
        return kind is FaultKind.OUTPUT_TOO_LARGE and self.limits != self._all

    def grant(self) -> None:
        """The block's turn has come."""
        self.limits = self._all
