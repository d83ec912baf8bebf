"""Prints what was read: the lines of a segment's records, as text or as NDJSON, or raw batches in fetch responses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from kafkalog_cli.actions.read.fetches import Fetch
from kafkalog_cli.format.message_set_send import encode_start
from kafkalog_cli.format.records import RecordBlock
from kafkalog_cli.output.block_lines import BlockLines, WriteBytes, can_render
from kafkalog_cli.output.read_text import ReadText
from kafkalog_cli.output.read_text_compiled import CompiledReadText
from kafkalog_cli.output.stream import FLUSH_CHARACTERS, ResultStream
from kafkalog_cli.storage.reading.read_ahead import Read


class RecordPrinter(Protocol):
    """Prints the records of blocks."""

    def ahead(self, read: Read) -> Iterator[RecordBlock]:
        """The blocks, with what of printing them can be done beforehand; they are iterated for in other threads."""

    def block(self, block: RecordBlock) -> None:
        """Print the records."""


class ReadPrinter:
    """The text of kafka-console-consumer; `compiled` renders what comes as matrices, None: nothing."""

    def __init__(self, out: ResultStream, text: ReadText, compiled: CompiledReadText | None) -> None:
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
    """A MessageSetSend of these batches."""
    write(encode_start(fetch.size_bytes))
    for part in fetch.parts:
        write(part)
