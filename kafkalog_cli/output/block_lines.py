"""Lines of record blocks by compiled kernels, a buffer full at a time; the first in the thread that reads the block."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kafkalog_cli.format.records import RecordBlock
from kafkalog_cli.output.large_fields import has_large

if TYPE_CHECKING:
    from kafkalog_cli.storage.reading.read_ahead import Read
    from kafkalog_cli.storage.reading.read_compiled import AtOnce

OUT_BYTES = 12 << 20
"""What a chunk of a segment usually becomes; only what is written of a buffer takes memory."""

WriteBytes = Callable[[memoryview | bytes], None]
Render = Callable[[Any, Any], int]
"""Renders lines of a block from a state on, as far as they fit into a buffer; the bytes written.

The state: batch, record, whether the batch's line is out, and the room that a line wants which is larger than the
buffer, else 0.
"""


class BlockRenderer(Protocol):
    """Renders blocks that come as matrices."""

    def render(self, block: RecordBlock) -> Render:
        """What renders this block."""

    def at_once(self, out: Any) -> AtOnce | None:
        """What decodes batches and renders them into `out` as RenderedBlock; None if there is no such kernel."""


class Lines(Protocol):
    """Lines that are rendered, or will be."""

    def write(self, write: WriteBytes) -> None:
        """Hand over all of them."""


class _Lines:
    """The lines of one block; `out` is the buffer that they go through."""

    def __init__(self, render: Render, block: RecordBlock, out: Any) -> None:
        import numpy as np

        self._render = render
        self._batches = block.end_row - block.first_row
        self._out = out
        self._state = np.array([0, 0, block.begun > 0, 0], dtype=np.int64)
        self._part = self._next()

    def write(self, write: WriteBytes) -> None:
        """Hand over all lines, the first buffer of them as it was rendered when this was made."""
        while self._part is not None:
            write(self._part)
            self._part = self._next()

    def _next(self) -> memoryview | None:
        import numpy as np

        if self._state[0] >= self._batches:
            return None
        # A line larger than the buffer gets one of its own, which is not kept.
        wanted = int(self._state[3])
        out: Any = np.empty(wanted, dtype=np.uint8) if wanted else self._out
        return memoryview(out)[: self._render(self._state, out)]


class ReadyLines(NamedTuple):
    """Lines of one buffer."""

    part: memoryview

    def write(self, write: WriteBytes) -> None:
        """See Lines."""
        write(self.part)


@dataclass(frozen=True, slots=True, eq=False)
class RenderedBlock(RecordBlock):
    """A block with its lines; without columns of records if it was decoded and rendered at once."""

    lines: Lines | None = None

    @property
    def is_compiled(self) -> bool:
        """See RecordBlock."""
        return True


def can_render(block: RecordBlock) -> bool:
    """Whether compiled kernels render the block, or have rendered it: large records are rendered piece by piece."""
    if isinstance(block, RenderedBlock) and block.lines is not None:
        return True
    return block.is_compiled and not has_large(block)


class _Buffer(NamedTuple):
    """Room for lines, and what decodes and renders into it."""

    out: Any
    at_once: AtOnce | None


class BlockLines:
    """Renders blocks where they are read, in several threads at a time; each holds its buffer until its lines are out.

    A buffer's size also bounds what is rendered ahead: whoever prints the block renders the rest.
    """

    def __init__(self, renderer: BlockRenderer, out_bytes: int = OUT_BYTES) -> None:
        self._renderer = renderer
        self._out_bytes = out_bytes
        self._free: deque[_Buffer] = deque()

    def ahead(self, read: Read) -> Iterator[RecordBlock]:
        """The blocks, with their lines where compiled kernels read them."""
        buffer = self._take()
        try:
            for block in read(buffer.at_once):
                is_plain = block.records.matrix is None or has_large(block)
                yield block if is_plain or isinstance(block, RenderedBlock) else self._with_lines(block, buffer.out)
        finally:
            self._free.append(buffer)

    def write(self, block: RecordBlock, write: WriteBytes) -> None:
        """Hand over the lines of a block that compiled kernels read, rendered already or not."""
        if isinstance(block, RenderedBlock) and block.lines is not None:
            block.lines.write(write)
            return
        buffer = self._take()
        _Lines(self._renderer.render(block), block, buffer.out).write(write)
        self._free.append(buffer)

    def _with_lines(self, block: RecordBlock, out: Any) -> RenderedBlock:
        lines = _Lines(self._renderer.render(block), block, out)
        return RenderedBlock(
            block.buffer, block.batches, block.first_row, block.end_row, block.record_ends, block.records,
            block.faults, block.begun, block.goes_on, lines,
        )  # fmt: skip

    def _take(self) -> _Buffer:
        import numpy as np

        try:
            return self._free.pop()
        except IndexError:
            out = np.empty(self._out_bytes, dtype=np.uint8)
            return _Buffer(out, self._renderer.at_once(out))
