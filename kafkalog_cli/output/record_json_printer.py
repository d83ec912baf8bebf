"""Prints one segment as NDJSON: a line per batch, each followed by the lines of its records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kafkalog_cli.format.batch import BatchColumns
from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.format.records import RecordBlock
from kafkalog_cli.output.block_lines import BlockLines, can_render
from kafkalog_cli.output.dump_text import Abort
from kafkalog_cli.output.record_json import RecordJson, RecordJsonOptions, SegmentContext
from kafkalog_cli.output.record_json_compiled import CompiledRecordJson
from kafkalog_cli.output.stream import ResultStream

if TYPE_CHECKING:
    from kafkalog_cli.log.reading.read_ahead import Read


class JsonPrinter:
    """A `SegmentPrinter` for NDJSON; counts the batches and records that it prints."""

    def __init__(self, out: ResultStream, context: SegmentContext, options: RecordJsonOptions) -> None:
        self.aborted: Abort | None = None
        self.batch_count = 0
        self.record_count = 0
        self._out = out
        self._context = context
        self._options = options
        self.values = options.values_shown
        self._plain = RecordJson(context, options)
        self._lines: BlockLines | None = None

    def ahead(self, read: Read) -> Iterator[RecordBlock]:
        """Iterate over the blocks, rendered by compiled kernels if possible."""
        return self._compiled_lines().ahead(read) if CompiledRecordJson.can_render(self._options) else read(None)

    def batches(self, batches: BatchColumns) -> None:
        """Print batches without records."""
        self.batch_count += len(batches)
        for line in self._plain.batches(batches.rows()):
            self._out.write(line)

    def block(self, block: RecordBlock) -> None:
        """Print batches with their records."""
        self.batch_count += block.batch_count
        self.record_count += block.record_count
        if block.is_compiled and CompiledRecordJson.can_render(self._options) and can_render(block):
            self._compiled_lines().write(block, self._out.write_bytes)
        else:
            for line in self._plain.block(block):
                self._out.write(line)
        for fault in block.faults.values():
            self.aborted = Abort(fault.position, fault.message, fault.kind.value)

    def ending(self, fault: Fault | None, valid_bytes: int) -> None:
        """Set `aborted` for damage, but not for trailing bytes: the caller reports these, as in text."""
        del valid_bytes
        if fault is not None and fault.kind is not FaultKind.TRAILING_BYTES:
            self.aborted = Abort(fault.position, fault.message, fault.kind.value)

    def _compiled_lines(self) -> BlockLines:
        if self._lines is None:  # created late: it imports numpy
            self._lines = BlockLines(CompiledRecordJson(self._context, self._options))
        return self._lines
