"""Records as kafka-console-consumer prints them (DefaultMessageFormatter), one line per record."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kafkalog_cli.format.batch import Batch
from kafkalog_cli.format.java_string import java_string
from kafkalog_cli.format.records import Header, RecordBlock, field_bytes, header_views, read_headers, view_of
from kafkalog_cli.output.large_fields import is_large, java_pieces, pieces, utf8_pieces
from kafkalog_cli.output.stream import printable

if TYPE_CHECKING:
    from kafkalog_cli.output.decoded_values import DecodedValues

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
        rows, begin = block.records.rows(), 0
        for batch, end in zip(block.batches.rows(block.first_row, block.end_row), block.record_ends, strict=True):
            for _ in range(begin, int(end)):
                yield from self.line(block.buffer, next(rows), batch)
            begin = int(end)

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
