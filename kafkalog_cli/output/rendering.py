"""Lines of record blocks, which a program of `line_program` renders into one buffer after another.

The reading thread renders the first buffer of a block.
"""

from __future__ import annotations

import mmap
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from kafkalog_cli.format import native
from kafkalog_cli.format.batch import CONTROL_MASK, Batch, BatchColumns
from kafkalog_cli.format.columns import any_bit, column_of
from kafkalog_cli.format.records import NO_RECORDS, RecordBlock
from kafkalog_cli.output.line_program import Form
from kafkalog_cli.output.stream import printable

if TYPE_CHECKING:
    from kafkalog_cli.format.records import Row
    from kafkalog_cli.log.reading.records import Read

OUT_BYTES = 12 << 20
"""The usual size of a chunk's lines; only the written part of a buffer takes memory."""
READY_BYTES = 1 << 20
READY_RECORDS = 1 << 12
"""Texts are made for so many contents, or so many records, at a time."""

_NO_BYTES = memoryview(b"")

WriteBytes = Callable[[memoryview | bytes], None]


class Stop:
    """Stands in place of a text where all rendering ends."""


_SIZE_OF_NONE, _SIZE_OF_STOP, _SIZE_OF_FORMS = -1, -2, -10
"""As READY_ of native/render.h."""

Text = bytes | Form | Stop | None
MakeTexts = Callable[[memoryview, "Row", Batch], tuple[Text, ...]]
"""Makes the ready texts of a record, one for each column. A Form stands for contents as they are stored."""


class LineForm(NamedTuple):
    """How lines are made: by a program, with texts for its `ready_columns`.

    `escape`: for a terminal, the program's forms escape control characters that are ASCII, and other control
    characters are escaped afterwards, but for those that are `unescaped`.
    """

    program: native.RenderProgram
    texts: MakeTexts | None = None
    ready_columns: int = 0
    escape: bool = False
    unescaped: frozenset[str] = frozenset()
    needs_texts: Callable[[RecordBlock], bool] = lambda block: True


class _Output:
    """A buffer for lines. Only the part of it that was written takes memory."""

    def __init__(self, size_bytes: int) -> None:
        data = mmap.mmap(-1, size_bytes)
        self.view = memoryview(data)
        self.memory = native.Memory(data)


class Lines:
    """The lines of one block; `stopped_at` is (row of the batch, record or None) where the program ended early."""

    def __init__(self, form: LineForm, block: RecordBlock, end_row: int | None = None) -> None:
        self.records = block.records
        self.stopped_at: tuple[int, int | None] | None = None
        self._form = form
        self._block = block
        batches = native.columns_of(block.batches.part(block.first_row, block.end_row if end_row is None else end_row))
        has_texts = form.texts is not None and form.needs_texts(block)
        self._rows = _rows(block) if has_texts else None
        self._rendering = native.Rendering(
            form.program, block.buffer, batches, block.record_ends, native.columns_of(block.records),
            ready_columns=form.ready_columns if has_texts else 0, skips_batch_line=block.begun > 0,
        )  # fmt: skip

    def pieces(self, output: _Output) -> Iterator[memoryview | bytes]:
        """Iterate over the text; a piece is valid until the next is requested."""
        while (piece := self.next_piece(output)) is not None:
            yield piece

    def next_piece(self, output: _Output) -> memoryview | bytes | None:
        """Return the next piece of the text; None at the end."""
        rendering = self._rendering
        while rendering.state.status not in {native.RENDER_DONE, native.RENDER_STOPPED}:
            if rendering.state.status == native.RENDER_NEEDS_READY:
                self._make_ready(rendering.state.record)
            size = rendering.into(output.memory)
            if rendering.state.status == native.RENDER_STOPPED:
                record = rendering.state.record if rendering.state.in_records else None
                self.stopped_at = self._block.first_row + rendering.state.batch, record
            if size:
                piece = output.view[:size]
                return escape_controls(piece, self._form.unescaped) if self._form.escape else piece
        return None

    def _make_ready(self, first: int) -> None:
        assert self._rows is not None and self._form.texts is not None  # noqa: PT018
        starts: list[array[int]] = [array("q") for _ in range(self._form.ready_columns)]
        sizes: list[array[int]] = [array("q") for _ in range(self._form.ready_columns)]
        joined, contents, count = bytearray(), 0, 0
        for batch, row in self._rows:
            for column, text in enumerate(self._form.texts(self._block.buffer, row, batch)):
                starts[column].append(len(joined))
                if isinstance(text, bytes):
                    sizes[column].append(len(text))
                    joined += text
                else:
                    sizes[column].append(_SIZE_OF_NONE if text is None else _size_of(text))
            contents += max(row[4], 0) + max(row[6], 0)
            count += 1
            if contents >= READY_BYTES or count >= READY_RECORDS or sizes[0][-1] == _SIZE_OF_STOP:
                break
        ranges: array[int] = array("q")
        for start, size in zip(starts, sizes, strict=True):
            ranges += start + size
        self._rendering.set_ready(first, count, ranges, bytes(joined))


def _size_of(text: Form | Stop) -> int:
    return _SIZE_OF_FORMS - text if isinstance(text, Form) else _SIZE_OF_STOP


def _rows(block: RecordBlock) -> Iterator[tuple[Batch, Row]]:
    return ((batch, row) for batch, rows in block.batch_rows() for row in rows)


def without_records(batches: BatchColumns) -> RecordBlock:
    """Return a block of these batches that has no records."""
    ends = memoryview(bytes(8 * len(batches))).cast("q")
    return RecordBlock(_NO_BYTES, batches, 0, len(batches), ends, NO_RECORDS)


def only_batch(block: RecordBlock, number: int) -> RecordBlock:
    """Return the block with only the batch of this number, counted from its first, and its records."""
    begin = block.record_ends[number - 1] if number else 0
    end, row = block.record_ends[number], block.first_row + number
    return replace(
        block,
        first_row=row,
        end_row=row + 1,
        record_ends=column_of((end - begin,)),
        records=block.records.part(begin, end),
    )


def has_control(block: RecordBlock) -> bool:
    """Whether a batch of the block may have control records."""
    return any_bit(CONTROL_MASK, block.batches.attributes[block.first_row : block.end_row])


def escape_controls(text: memoryview | bytes, unescaped: frozenset[str] = frozenset()) -> bytes:
    """Return text with escapes for control characters outside of ASCII, but for those that stay `unescaped`."""
    characters = str(text, "utf-8", "surrogateescape")
    if characters.isascii() or characters.isprintable():
        return bytes(text)
    pieces = (
        character
        if character < "\x80" or "\udc80" <= character <= "\udcff" or character in unescaped
        else printable(character)
        for character in characters
    )
    return "".join(pieces).encode("utf-8", "surrogateescape")


@dataclass(frozen=True, slots=True, eq=False)
class RenderedBlock(RecordBlock):
    """A block whose first lines are rendered into `output`; they are no longer its lines if its records are others."""

    lines: Lines | None = None
    first_piece: memoryview | bytes | None = None
    output: _Output | None = None


class BlockLines:
    """Renders blocks in the threads that read them; each keeps its buffer until its lines are written.

    A buffer's size also limits how much is rendered ahead: the printing thread renders the rest of a block.
    """

    def __init__(self, form: LineForm, out_bytes: int = OUT_BYTES) -> None:
        self._form = form
        self._out_bytes = out_bytes
        self._free: deque[_Output] = deque()

    def ahead(self, read: Read) -> Iterator[RecordBlock]:
        """Iterate over the blocks, with lines if these need no texts of Python."""
        output = self._take()
        try:
            for block in read():
                if block.is_usual and not self._needs_texts(block):
                    lines = Lines(self._form, block)
                    yield RenderedBlock(
                        block.buffer, block.batches, block.first_row, block.end_row, block.record_ends, block.records,
                        block.faults, block.begun, block.goes_on, True, lines, lines.next_piece(output), output,
                    )  # fmt: skip
                else:
                    yield block
        finally:
            self._free.append(output)

    def write(self, block: RecordBlock, write: WriteBytes, end_row: int | None = None) -> tuple[int, int | None] | None:
        """Pass the lines of a block, up to a row of its batches, to `write`; return where the program ended early."""
        if (
            isinstance(block, RenderedBlock) and end_row is None
            and block.lines is not None and block.output is not None and block.lines.records is block.records
        ):  # fmt: skip
            if block.first_piece is not None:
                write(block.first_piece)
            for piece in block.lines.pieces(block.output):
                write(piece)
            return block.lines.stopped_at
        lines = Lines(self._form, block, end_row)
        for piece in self._pieces(lines):
            write(piece)
        return lines.stopped_at

    def pieces(self, block: RecordBlock) -> Iterator[memoryview | bytes]:
        """Iterate over the lines of a block as pieces of whole characters, each valid until the next is requested."""
        return self._pieces(Lines(self._form, block))

    def _pieces(self, lines: Lines) -> Iterator[memoryview | bytes]:
        output = self._take()
        yield from lines.pieces(output)
        self._free.append(output)

    def _needs_texts(self, block: RecordBlock) -> bool:
        return self._form.texts is not None and self._form.needs_texts(block)

    def _take(self) -> _Output:
        try:
            return self._free.pop()
        except IndexError:
            return _Output(self._out_bytes)
