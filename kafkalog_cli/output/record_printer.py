"""Prints one segment as NDJSON, by the plain or the compiled renderer as its batches come; counts what it printed."""

from __future__ import annotations

from collections.abc import Callable

from kafkalog_cli.format.batch import BatchColumns
from kafkalog_cli.format.fault import Fault
from kafkalog_cli.format.records import RecordBlock
from kafkalog_cli.output.dump_text import Abort
from kafkalog_cli.output.record_json import RecordJson, RecordJsonOptions, SegmentContext
from kafkalog_cli.output.record_json_compiled import CompiledRecordJson
from kafkalog_cli.output.stream import ResultStream


class JsonPrinter:
    """A `SegmentPrinter` of NDJSON. It never gives up: damage goes to `on_fault`, what can be read is printed."""

    def __init__(
        self,
        out: ResultStream,
        context: SegmentContext,
        options: RecordJsonOptions,
        on_fault: Callable[[Fault], None],
    ) -> None:
        self.aborted: Abort | None = None
        self.batch_count = 0
        self.record_count = 0
        self._out = out
        self._context = context
        self._options = options
        self._on_fault = on_fault
        self._plain = RecordJson(context, options)
        self._compiled: CompiledRecordJson | None = None

    def batches(self, batches: BatchColumns) -> None:
        """Print batch lines."""
        self.batch_count += len(batches)
        compiled = self._compiled_renderer() if batches.matrix is not None else None
        if compiled is not None:
            compiled.batches(batches, self._out.write_bytes, lambda row: self._write_batch(batches, row))
            return
        for line in self._plain.batches(batches.rows()):
            self._out.write(line)

    def block(self, block: RecordBlock) -> None:
        """Print record lines, with those of their batches if the options want them."""
        self.batch_count += block.end_row - block.first_row
        self.record_count += len(block.records)
        compiled = self._compiled_renderer() if block.records.matrix is not None else None
        if compiled is not None:
            compiled.block(block, self._out.write_bytes)
        else:
            for line in self._plain.block(block):
                self._out.write(line)
        for fault in block.faults.values():
            self._on_fault(fault)

    def ending(self, fault: Fault | None, valid_bytes: int) -> None:
        """Tell what ended the segment early, if anything."""
        del valid_bytes
        if fault is not None:
            self._on_fault(fault)

    def _write_batch(self, batches: BatchColumns, row: int) -> None:
        self._out.write(self._plain.batch(batches.row(row)))

    def _compiled_renderer(self) -> CompiledRecordJson | None:
        if self._compiled is None and CompiledRecordJson.can_render(self._options):
            self._compiled = CompiledRecordJson(self._context, self._options)
        return self._compiled
