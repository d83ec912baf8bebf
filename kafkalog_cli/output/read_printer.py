"""Prints the records that were read as text or NDJSON lines, or writes raw batches as fetch responses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from kafkalog_cli.format.columns import Integers, Octets
from kafkalog_cli.format.kernels import native
from kafkalog_cli.format.message_set_send import encode_start
from kafkalog_cli.format.records import RecordBlock
from kafkalog_cli.log.reading.read_ahead import Read
from kafkalog_cli.ops.read.fetches import Fetch
from kafkalog_cli.output.block_lines import BlockLines, Render, WriteBytes, can_render
from kafkalog_cli.output.kernels import READ_RECORDS
from kafkalog_cli.output.read_text import FIELDS
from kafkalog_cli.output.stream import FLUSH_CHARACTERS, ResultStream


class RecordPrinter(Protocol):
    """Prints the records of blocks."""

    def ahead(self, read: Read) -> Iterator[RecordBlock]:
        """Iterate over the blocks, prepared for printing as far as possible; this runs in other threads."""

    def block(self, block: RecordBlock) -> None:
        """Print the records."""


class RecordText(Protocol):
    """Renders the records of blocks as text."""

    def lines(self, block: RecordBlock) -> Iterator[bytes]:
        """Iterate over the text of the records; that of a large record comes in pieces."""


class CompiledReadText:
    """The compiled twin of `ReadText`, for output without escapes."""

    def __init__(self, fields: frozenset[str], partition: int) -> None:
        # The partition's entry is its number plus two: -1 is a directory without a number.
        self._numbers = [int(name in fields) * (partition + 2 if name == "partition" else 1) for name in FIELDS]

    @staticmethod
    def at_once(out: Octets) -> None:
        """Return None: no kernel decodes and renders in one step."""
        del out

    def render(self, block: RecordBlock) -> Render:
        """Return the function that renders the lines of the block's records."""
        import numpy as np

        buffer = np.frombuffer(block.buffer, dtype=np.uint8)
        batches = block.batches.arrays().matrix[:, block.first_row : block.end_row]
        records, ends = block.records.arrays().matrix, block.record_ends
        fields = np.array(self._numbers, dtype=np.int64)
        kernel = native.function(READ_RECORDS)

        def render(state: Integers, out: Octets) -> int:
            size: int = kernel(buffer, batches, ends, records, fields, state, out)
            return size

        return render


class ReadPrinter:
    """Prints records as text.

    `compiled` renders blocks in matrices; None: all is rendered by `text`.
    """

    def __init__(self, out: ResultStream, text: RecordText, compiled: CompiledReadText | None) -> None:
        self._out = out
        self._text = text
        self._lines = None if compiled is None else BlockLines(compiled)

    def ahead(self, read: Read) -> Iterator[RecordBlock]:
        """See RecordPrinter."""
        return read(None) if self._lines is None else self._lines.ahead(read)

    def block(self, block: RecordBlock) -> None:
        """See RecordPrinter."""
        if self._lines is not None and can_render(block):
            self._lines.write(block, self._out.write_bytes)
            return
        write: WriteBytes = self._out.write_bytes
        lines: list[bytes] = []
        size = 0
        for line in self._text.lines(block):
            lines.append(line)
            size += len(line)
            if size >= FLUSH_CHARACTERS:
                write(b"".join(lines))
                lines, size = [], 0
        write(b"".join(lines))


def write_fetch(fetch: Fetch, write: WriteBytes) -> None:
    """Write a MessageSetSend of these batches."""
    write(encode_start(fetch.size_bytes))
    for part in fetch.parts:
        write(part)
