"""Lines of record blocks from compiled kernels, one buffer at a time.

The reading thread renders the first buffer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from kafkalog_cli.format.columns import IntColumn, Integers, Octets
from kafkalog_cli.format.records import RecordBlock
from kafkalog_cli.output.large_fields import has_large

if TYPE_CHECKING:
    from kafkalog_cli.log.reading.read_ahead import Read


OUT_BYTES = 12 << 20
"""The usual size of a chunk's lines; only the written part of a buffer takes memory."""

WriteBytes = Callable[[memoryview | bytes], None]
Render = Callable[[Any, Any], int]
"""Renders lines of a block from a state on, until the buffer is full, and returns the bytes written.

The state is: batch, record, whether the batch's line is written, and the room that a line needs which is larger than
the buffer (else 0).
"""


def kernel_arguments(block: RecordBlock) -> tuple[Octets, Integers, IntColumn, Integers]:
    """Return what each rendering kernel takes first: the bytes, the batches, the ends of their records, the records."""
    import numpy as np

    batches = block.batches.arrays().matrix[:, block.first_row : block.end_row]
    return np.frombuffer(block.buffer, dtype=np.uint8), batches, block.record_ends, block.records.arrays().matrix


class BlockRenderer(Protocol):
    """Renders blocks that compiled kernels have read."""

    def render(self, block: RecordBlock) -> Render:
        """Return the function that renders this block."""


class Lines(Protocol):
    """Lines that are rendered, or will be when they are written."""

    def write(self, write: WriteBytes) -> None:
        """Pass all lines to `write`."""


class _Lines:
    """The lines of one block; `out` is the buffer that they are rendered into."""

    def __init__(self, render: Render, block: RecordBlock, out: Octets) -> None:
        import numpy as np

        self._render = render
        self._batches = block.end_row - block.first_row
        self._out = out
        self._state = np.array([0, 0, block.begun > 0, 0], dtype=np.int64)
        self._part = self._next()

    def write(self, write: WriteBytes) -> None:
        """Pass all lines to `write`; the first buffer of them was rendered in the constructor."""
        while self._part is not None:
            write(self._part)
            self._part = self._next()

    def _next(self) -> memoryview | None:
        import numpy as np

        if self._state[0] >= self._batches:
            return None
        # A line larger than the buffer gets its own buffer, which is not kept.
        wanted = int(self._state[3])
        out = np.empty(wanted, dtype=np.uint8) if wanted else self._out
        return out.data[: self._render(self._state, out)]


@dataclass(frozen=True, slots=True, eq=False)
class RenderedBlock(RecordBlock):
    """A block with its lines; it has no record columns if it was decoded and rendered in one step."""

    lines: Lines | None = None

    @property
    def is_compiled(self) -> bool:
        """See RecordBlock."""
        return True


def can_render(block: RecordBlock) -> bool:
    """Whether compiled kernels can render the block, or have rendered it.

    A block with large records is rendered in pieces.
    """
    if isinstance(block, RenderedBlock) and block.lines is not None:
        return True
    return block.is_compiled and not has_large(block)


class BlockLines:
    """Renders blocks in the threads that read them; each keeps its buffer until its lines are written.

    A buffer's size also limits how much is rendered ahead: the printing thread renders the rest of a block.
    """

    def __init__(self, renderer: BlockRenderer, out_bytes: int = OUT_BYTES) -> None:
        self._renderer = renderer
        self._out_bytes = out_bytes
        self._free: deque[Octets] = deque()

    def ahead(self, read: Read) -> Iterator[RecordBlock]:
        """Iterate over the blocks; blocks that compiled kernels read have their lines."""
        buffer = self._take()
        try:
            for block in read():
                is_plain = not block.is_compiled or has_large(block)
                yield block if is_plain or isinstance(block, RenderedBlock) else self._with_lines(block, buffer)
        finally:
            self._free.append(buffer)

    def write(self, block: RecordBlock, write: WriteBytes) -> None:
        """Pass the lines of a block that compiled kernels read to `write`, and render them if they are not."""
        if isinstance(block, RenderedBlock) and block.lines is not None:
            block.lines.write(write)
            return
        buffer = self._take()
        _Lines(self._renderer.render(block), block, buffer).write(write)
        self._free.append(buffer)

    def _with_lines(self, block: RecordBlock, out: Octets) -> RenderedBlock:
        lines = _Lines(self._renderer.render(block), block, out)
        return RenderedBlock(
            block.buffer, block.batches, block.first_row, block.end_row, block.record_ends, block.records,
            block.faults, block.begun, block.goes_on, lines,
        )  # fmt: skip

    def _take(self) -> Octets:
        import numpy as np

        try:
            return self._free.pop()
        except IndexError:
            return np.empty(self._out_bytes, dtype=np.uint8)
