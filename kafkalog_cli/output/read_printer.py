"""Prints the records that were read: as kafka-console-consumer does, as NDJSON, or raw batches as fetch responses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from kafkalog_cli.format.batch import Batch, encode_start
from kafkalog_cli.format.columns import Integers, Octets
from kafkalog_cli.format.java_text import java_string
from kafkalog_cli.format.kernels import native
from kafkalog_cli.format.records import Header, RecordBlock, field_bytes, header_views, read_headers, view_of
from kafkalog_cli.log.reading.read_ahead import Read
from kafkalog_cli.ops.read.log_read import Fetch
from kafkalog_cli.output.block_lines import BlockLines, BlockRenderer, Render, WriteBytes, can_render, kernel_arguments
from kafkalog_cli.output.kernels import READ_RECORDS
from kafkalog_cli.output.large_fields import is_large, java_pieces, pieces, utf8_pieces
from kafkalog_cli.output.stream import FLUSH_BYTES, ResultStream, printable

if TYPE_CHECKING:
    from kafkalog_cli.output.decoded_values import DecodedValues


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


class CompiledReadText(BlockRenderer):
    """The compiled twin of `ReadText`, for output without escapes."""

    def __init__(self, fields: frozenset[str], partition: int) -> None:
        # The partition's entry is its number plus two: -1 is a directory without a number.
        self._numbers = [int(name in fields) * (partition + 2 if name == "partition" else 1) for name in FIELDS]

    def render(self, block: RecordBlock) -> Render:
        """Return the function that renders the lines of the block's records."""
        import numpy as np

        arguments, kernel = kernel_arguments(block), native.function(READ_RECORDS)
        fields = np.array(self._numbers, dtype=np.int64)

        def render(state: Integers, out: Octets) -> int:
            size: int = kernel(*arguments, fields, state, out)
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
        return read() if self._lines is None else self._lines.ahead(read)

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
            if size >= FLUSH_BYTES:
                write(b"".join(lines))
                lines, size = [], 0
        write(b"".join(lines))


def write_fetch(fetch: Fetch, write: WriteBytes) -> None:
    """Write a MessageSetSend of these batches."""
    write(encode_start(fetch.size_bytes))
    for part in fetch.parts:
        write(part)


FIELDS = ("timestamp", "partition", "offset", "epoch", "headers", "key", "value")
"""The possible fields of a line, in the order in which the real tool prints them."""

NULL = b"null"
NO_HEADERS = b"NO_HEADERS"


class ReadText:
    """Renders records with some of FIELDS. `escape`: for a terminal, control characters of records are escaped.

    `values` decodes keys and values; what it cannot decode is shown as it is stored.
    """

    def __init__(
        self,
        fields: frozenset[str],
        partition: int,
        *,
        escape: bool,
        is_seven: bool = False,
        values: DecodedValues | None = None,
    ) -> None:
        self._fields = fields
        self._partition = b"Partition:%d" % partition
        self._escape = escape
        self._is_seven = is_seven
        self._values = values

    def lines(self, block: RecordBlock) -> Iterator[bytes]:
        """Iterate over the lines of records; a large record's line comes in pieces."""
        for batch, rows in block.batch_rows():
            for row in rows:
                yield from self.line(block.buffer, row, batch)

    def line(self, buffer: memoryview, row: tuple[int, ...], batch: Batch) -> Iterator[bytes]:
        """Yield the line of one record, in pieces if it is large."""
        if self._values is not None or is_large(buffer, row):
            yield from self._large_line(buffer, row, batch)
        else:
            yield self._line(buffer, row, batch)

    def _line(self, buffer: memoryview, row: tuple[int, ...], batch: Batch) -> bytes:
        offset, timestamp, _, key_at, key_size, value_at, value_size, headers_at, header_count = row[:9]
        parts = []
        if "timestamp" in self._fields:
            kind = "NoTimestampType" if self._is_seven else batch.timestamp_type
            parts.append(b"NO_TIMESTAMP" if kind == "NoTimestampType" else b"%s:%d" % (kind.encode(), timestamp))
        if "partition" in self._fields:
            parts.append(self._partition)
        if "offset" in self._fields:
            parts.append(b"Offset:%d" % offset)
        if "epoch" in self._fields:
            parts.append(b"Epoch:NOT_PRESENT" if batch.leader_epoch < 0 else b"Epoch:%d" % batch.leader_epoch)
        if "headers" in self._fields:
            parts.append(self._headers(read_headers(buffer, headers_at, header_count)) if header_count else NO_HEADERS)
        if "key" in self._fields:
            parts.append(self.shown(field_bytes(buffer, key_at, key_size)))
        if "value" in self._fields:
            parts.append(self.shown(field_bytes(buffer, value_at, value_size)))
        return b"\t".join(parts) + b"\n"

    def _large_line(self, buffer: memoryview, row: tuple[int, ...], batch: Batch) -> Iterator[bytes]:
        """Iterate over the line of `_line`, in pieces."""
        _, _, _, key_at, key_size, value_at, value_size, headers_at, header_count = row[:9]
        large = self._fields & {"headers", "key", "value"}
        small = ReadText(self._fields - large, 0, escape=self._escape, is_seven=self._is_seven)
        small._partition = self._partition
        start = small._line(buffer, row, batch)[:-1]
        yield start
        separator = b"\t" if self._fields - large else b""
        if "headers" in large:
            yield separator
            separator = b"\t"
            for number, (key, value) in enumerate(header_views(buffer, headers_at, header_count)):
                yield b"," if number else b""
                for text in java_pieces(key):
                    yield (printable(text) if self._escape else text).encode()
                yield b":"
                yield from self._pieces(value)
            yield b"" if header_count else NO_HEADERS
        for name, position, size in (("key", key_at, key_size), ("value", value_at, value_size)):
            if name in large:
                yield separator
                separator = b"\t"
                decoded = None if self._values is None else self._values.text(name, buffer, row)
                if decoded is None:
                    yield from self._pieces(view_of(buffer, position, size))
                else:
                    yield (printable(decoded) if self._escape else decoded).encode("utf-8", "replace")
        yield b"\n"

    def _pieces(self, data: memoryview | None) -> Iterator[bytes]:
        if data is None:
            yield NULL
        elif self._escape:
            for piece in utf8_pieces(data):
                yield self.shown(piece)
        else:
            yield from map(bytes, pieces(data))

    def _headers(self, headers: Iterator[Header]) -> bytes:
        """Return the headers as text: consumers read keys as strings and replace bytes that are not UTF-8."""
        keys = ((java_string(header.key), header.value) for header in headers)
        texts = ((printable(key) if self._escape else key, value) for key, value in keys)
        return b",".join(key.encode() + b":" + self.shown(value) for key, value in texts)

    def shown(self, data: bytes | None) -> bytes:
        """Return a key, a value or the value of a header as text."""
        if data is None:
            return NULL
        return printable(data.decode("utf-8", "replace")).encode() if self._escape else data
