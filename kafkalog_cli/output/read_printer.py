"""Prints the records that were read as text or NDJSON lines, or writes raw batches as fetch responses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from kafkalog_cli.format.message_set_send import encode_start
from kafkalog_cli.format.records import RecordBlock
from kafkalog_cli.log.reading.read_ahead import Read
from kafkalog_cli.ops.read.fetches import Fetch
from kafkalog_cli.output.block_lines import BlockLines, WriteBytes, can_render
from kafkalog_cli.output.read_text_compiled import CompiledReadText
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
