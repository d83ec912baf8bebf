"""Prints one segment as NDJSON: a line per batch, each followed by the lines of its records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kafkalog_cli.format.batch import BatchColumns
from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.format.records import RecordBlock
from kafkalog_cli.output.dump_text import Abort
from kafkalog_cli.output.record_json import RecordJsonOptions, SegmentContext, record_form
from kafkalog_cli.output.rendering import BlockLines, without_records
from kafkalog_cli.output.stream import ResultStream

if TYPE_CHECKING:
    from kafkalog_cli.log.reading.records import Read


class JsonPrinter:
    """A `SegmentPrinter` for NDJSON; counts the batches and records that it prints."""

    def __init__(self, out: ResultStream, context: SegmentContext, options: RecordJsonOptions) -> None:
        self.aborted: Abort | None = None
        self.batch_count = 0
        self.record_count = 0
        self._out = out
        self.values = options.values_shown
        self._lines = BlockLines(record_form(context, options))

    def ahead(self, read: Read) -> Iterator[RecordBlock]:
        """Iterate over the blocks, rendered as far as possible."""
        return self._lines.ahead(read)

    def batches(self, batches: BatchColumns) -> None:
        """Print batches without records."""
        self.batch_count += len(batches)
        self._lines.write(without_records(batches), self._out.write_bytes)

    def block(self, block: RecordBlock) -> None:
        """Print batches with their records."""
        self.batch_count += block.batch_count
        self.record_count += block.record_count
        self._lines.write(block, self._out.write_bytes)
        for fault in block.faults.values():
            self.aborted = Abort(fault.position, fault.message, fault.kind.value)

    def ending(self, fault: Fault | None, valid_bytes: int) -> None:
        """Set `aborted` for damage, but not for trailing bytes: the caller reports these, as in text."""
        del valid_bytes
        if fault is not None and fault.kind is not FaultKind.TRAILING_BYTES:
            self.aborted = Abort(fault.position, fault.message, fault.kind.value)
