"""Prints one segment as dump-log's text; the form of its batches decides for the plain or the compiled renderer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

from kafkalog_cli.format.batch import BatchArrays, BatchColumns
from kafkalog_cli.format.fault import Fault
from kafkalog_cli.format.records import RecordBlock
from kafkalog_cli.output.dump_text import Abort, LogText
from kafkalog_cli.output.seven_text import SevenText
from kafkalog_cli.output.stream import ResultStream

if TYPE_CHECKING:  # a small dump must start at once
    from kafkalog_cli.log.reading.read_ahead import Read
    from kafkalog_cli.output.block_lines import BlockLines
    from kafkalog_cli.output.dump_compiled import CompiledLogText


class SegmentPrinter(Protocol):
    """Prints the parts of one segment; `aborted` is set where the real tool gives up."""

    aborted: Abort | None

    def ahead(self, read: Read) -> Iterator[RecordBlock]:
        """Iterate over the blocks, prepared for printing as far as possible; this runs in other threads."""

    def batches(self, batches: BatchColumns) -> None:
        """Print batches without records."""

    def block(self, block: RecordBlock) -> None:
        """Print batches with their records."""

    def ending(self, fault: Fault | None, valid_bytes: int) -> None:
        """Print the text after the last batch."""


class TextPrinter:
    """Prints kafka-dump-log's text. `compiled` makes the compiled renderer; None if a decoder needs plain rendering."""

    def __init__(
        self,
        out: ResultStream,
        text: LogText,
        compiled: Callable[[], CompiledLogText] | None,
        file_name: str,
        *,
        whole_file: bool,
    ) -> None:
        self._out = out
        self._text = text
        self._compiled = compiled
        self._block_lines: BlockLines | None = None
        self._file_name = file_name
        self._whole_file = whole_file

    @property
    def aborted(self) -> Abort | None:
        """The place where the real tool gives up; None if it has not so far."""
        return self._text.aborted

    @aborted.setter
    def aborted(self, value: Abort | None) -> None:
        self._text.aborted = value

    def ahead(self, read: Read) -> Iterator[RecordBlock]:
        """Iterate over the blocks, rendered by compiled kernels if possible."""
        lines = self._lines()
        return read(None) if lines is None else lines.ahead(read)

    def batches(self, batches: BatchColumns) -> None:
        """Print batch lines."""
        if not isinstance(batches, BatchArrays) or self._compiled is None:
            for line in self._text.batches(batches.rows()):
                self._out.write(line)
            return

        def one(row: int) -> bool:
            self._out.write(self._text.batch(batches.row(row)))
            return self._text.aborted is None

        self._compiled().batches(batches, self._out.write_bytes, one)

    def block(self, block: RecordBlock) -> None:
        """Print batch lines, each followed by its record lines."""
        if block.is_compiled and (lines := self._lines()) is not None and _can_render(block):
            lines.write(block, self._out.write_bytes)
            return
        for line in self._text.block(block):
            self._out.write(line)

    def ending(self, fault: Fault | None, valid_bytes: int) -> None:
        """Print the invalid bytes at the end, if any."""
        del valid_bytes
        self._out.write(self._text.ending(fault, self._file_name, whole_file=self._whole_file))

    def _lines(self) -> BlockLines | None:
        if self._block_lines is None and self._compiled is not None:
            from kafkalog_cli.output.block_lines import BlockLines

            self._block_lines = BlockLines(self._compiled())
        return self._block_lines


def _can_render(block: RecordBlock) -> bool:
    from kafkalog_cli.output.block_lines import can_render

    return can_render(block)


class SevenPrinter:
    """The text of 0.7's tool for a `.kafka` file that starts at `base_offset`; damage never makes it abort."""

    def __init__(self, out: ResultStream, text: SevenText, base_offset: int) -> None:
        self.aborted: Abort | None = None
        self._out = out
        self._text = text
        self._base_offset = base_offset

    def ahead(self, read: Read) -> Iterator[RecordBlock]:
        """Iterate over the blocks unchanged."""
        return read(None)

    def batches(self, batches: BatchColumns) -> None:
        """Print message lines."""
        for batch in batches.rows():
            self._out.write(self._text.message(batch))

    def block(self, block: RecordBlock) -> None:
        """Print message lines with the contents of the messages."""
        for line in self._text.block(block):
            self._out.write(line)
        for fault in block.faults.values():
            self.aborted = Abort(fault.position, fault.message, fault.kind.value)

    def ending(self, fault: Fault | None, valid_bytes: int) -> None:
        """Print the offset at which the log ends."""
        del fault
        self._out.write(self._text.tail(self._base_offset + valid_bytes))
