"""Prints one segment as NDJSON: a line per batch, each followed by the lines of its records; plain or compiled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kafkalog_cli.format.batch import BatchArrays, BatchColumns
from kafkalog_cli.format.columns import Integers, Octets
from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.format.kernels import native
from kafkalog_cli.format.records import RecordBlock, RecordColumns
from kafkalog_cli.log.reading.read_compiled import AtOnce
from kafkalog_cli.output.block_lines import BlockLines, ReadyLines, Render, RenderedBlock, can_render, kernel_arguments
from kafkalog_cli.output.dump_text import Abort
from kafkalog_cli.output.kernels import JSON_FROM_BATCHES, JSON_RECORDS
from kafkalog_cli.output.record_json import BATCH, RECORD, RecordJson, RecordJsonOptions, SegmentContext, line_start
from kafkalog_cli.output.stream import ResultStream

if TYPE_CHECKING:
    from kafkalog_cli.log.reading.read_ahead import Read

SCRATCH_RECORDS = (1 << 12) + 8
"""The most records of a batch to decode and render at once; with a power of two, columns would share cache lines."""
TEMPLATE_BYTES = 1024
"""Room for the parts that the lines of a batch share."""


class CompiledRecordJson:
    """The compiled twin of `RecordJson`. Accepts only options for which `can_render` is true."""

    def __init__(self, context: SegmentContext, options: RecordJsonOptions | None = None) -> None:
        import numpy as np

        self._options = options or RecordJsonOptions()
        starts = line_start(BATCH, context), line_start(RECORD, context)
        self._starts = tuple(np.frombuffer(start.encode(), dtype=np.uint8) for start in starts)
        redaction = self._options.redaction
        self._showing = np.array([redaction.keys, redaction.values, redaction.headers], dtype=np.int64)

    @staticmethod
    def can_render(options: RecordJsonOptions) -> bool:
        """Whether the compiled kernels support these options: no decoder, no hashes."""
        return options.decode_shown is None and options.values_shown is None and not options.redaction.has_hash

    def at_once(self, out: Octets) -> AtOnce:
        """See BlockRenderer."""
        return _DecodedLines(self._starts, self._template(), self._showing, self._options.with_batches, out)

    def _template(self) -> Octets:
        import numpy as np

        return np.empty(2 * len(self._starts[1]) + TEMPLATE_BYTES, dtype=np.uint8)

    def render(self, block: RecordBlock) -> Render:
        """Return the function that renders lines of the block's records, and of its batches if the options say so."""
        arguments, kernel = kernel_arguments(block), native.function(JSON_RECORDS)
        template, with_batches = self._template(), self._options.with_batches

        def render(state: Integers, out: Octets) -> int:
            size: int = kernel(*arguments, self._starts, template, self._showing, with_batches, state, out)
            return size

        return render


class _DecodedLines:
    """Decodes and renders batches into `out` in one step."""

    def __init__(
        self, starts: tuple[Octets, ...], template: Octets, showing: Integers, with_batches: bool, out: Octets
    ) -> None:
        import numpy as np

        from kafkalog_cli.format.kernels.compiled import RECORD_COLUMNS

        self._how = (starts, template, showing, with_batches, np.zeros(4, dtype=np.int64), out)
        self._scratch = np.empty((RECORD_COLUMNS, SCRATCH_RECORDS), dtype=np.int64)
        self._out = out

    def block(
        self, view: memoryview, batches: BatchArrays, begin: int, regions: tuple[Integers, Integers]
    ) -> RenderedBlock | None:
        """See AtOnce."""
        import numpy as np

        starts, ends = regions
        record_ends = np.empty(len(starts), dtype=np.int64)
        part = batches.matrix[:, begin : begin + len(starts)]
        done, size = native.function(JSON_FROM_BATCHES)(
            np.frombuffer(view, dtype=np.uint8), starts, ends, part, self._scratch, record_ends, *self._how
        )
        if not done:
            return None
        lines = ReadyLines(self._out.data[:size])
        end = begin + done
        return RenderedBlock(view, batches, begin, end, record_ends[:done], RecordColumns.from_rows([]), lines=lines)


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
