"""Records on their way into a log: one form from every input to the batches, and its copies in temporary files."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from errno import EIO
from typing import NamedTuple, Protocol

from kafkalog_cli.format import native
from kafkalog_cli.format.batch import NO_SEQUENCE
from kafkalog_cli.format.columns import Column, IntColumn, Matrix, column_of, least_and_largest, rows_in_order
from kafkalog_cli.format.records import Header, RecordColumns
from kafkalog_cli.format.varint import encode_zigzag

UNKNOWN = -2
"""An offset, or a fact about where a record comes from, that the input does not say. -1 is a leader epoch, too."""


class NewRecordColumns(Matrix):
    """The columns of RecordColumns, the size of all headers as stored, the start of the record's bytes, and its origin.

    `is_append_time`: the timestamp is an append time. `codec` is the number of the codec of the batch that the record
    comes from, `topic` a number that the reader of an input gives to the name.
    """

    __slots__ = ()
    names = (
        *RecordColumns.names, "headers_size", "begin",
        "leader_epoch", "is_append_time", "codec", "partition", "topic", "is_transactional",
    )  # fmt: skip

    offset, timestamp, _, key_position, key_size, value_position, value_size = map(Column, range(7))
    headers_size, begin = map(Column, range(11, 13))
    leader_epoch, is_append_time, codec, partition, topic, is_transactional = map(Column, range(13, 19))


class RecordOrigin(NamedTuple):
    """Where a record comes from; UNKNOWN where the input does not say. See NewRecordColumns."""

    partition: int = UNKNOWN
    offset: int = UNKNOWN
    leader_epoch: int = UNKNOWN
    is_append_time: bool = False
    codec: int = UNKNOWN
    topic: int = UNKNOWN
    is_transactional: bool = False


NO_ORIGIN = RecordOrigin()


class NewRecord(NamedTuple):
    """One record of a line that Python parses. `timestamp` in ms is -1 for no timestamp, None for the current time."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[Header] = ()
    timestamp: int | None = None
    origin: RecordOrigin = NO_ORIGIN


@dataclass(frozen=True, slots=True, eq=False)
class NewRecords:
    """Consecutive records: their bytes in `buffer`, record after record, and their columns."""

    buffer: native.Buffer
    columns: NewRecordColumns

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def stored(self) -> RecordColumns:
        """The columns that a record has in a log."""
        first, stride = self.columns.address_rows
        return RecordColumns(self.columns.data, stride, len(self), first)

    @property
    def size_bytes(self) -> int:
        """The bytes of all records; there is at least one."""
        return self._end(len(self) - 1) - self.columns.begin[0]

    def _end(self, row: int) -> int:
        columns = self.columns
        sizes = columns.key_size[row], columns.value_size[row], columns.headers_size[row]
        return columns.begin[row] + sum(max(size, 0) for size in sizes)

    def part(self, first: int, end: int) -> NewRecords:
        """Return the records `first` to `end` (exclusive), in the same memory."""
        return NewRecords(self.buffer, self.columns.part(first, end))

    def chosen(self, rows: IntColumn) -> NewRecords:
        """Return a copy of the records in these rows, in their order; each row is there once at most."""
        return _copy_records([(self, rows)], self.size_bytes, len(rows))

    def groups(self, numbers: IntColumn) -> Iterator[tuple[int, NewRecords]]:
        """Yield the records of each number, in their order; record i has numbers[i]."""
        least, largest = least_and_largest(numbers)
        if least == largest:
            yield least, self
            return
        order, begin = rows_in_order(numbers), 0
        copy = self.chosen(order)
        while begin < len(order):
            number = numbers[order[begin]]
            end = bisect_right(order, number, begin, key=numbers.__getitem__)
            yield number, copy.part(begin, end)
            begin = end


def join_records(parts: Sequence[NewRecords]) -> NewRecords:
    """Return the records of all parts, of which each has at least one."""
    if len(parts) == 1:
        return parts[0]
    return _copy_records([(part, None) for part in parts], sum(part.size_bytes for part in parts), sum(map(len, parts)))


def _copy_records(parts: Sequence[tuple[NewRecords, IntColumn | None]], size_bytes: int, count: int) -> NewRecords:
    buffer, (data, target) = bytearray(size_bytes), native.new_matrix(native.NEW_COLUMNS, count)
    at = row = 0
    for part, rows in parts:
        at = native.copy_records(part.buffer, native.columns_of(part.columns), rows, buffer, at, target, row)
        row += len(part) if rows is None else len(rows)
    return NewRecords(buffer, NewRecordColumns(data, count, count))


Arriving = Iterable["NewRecords | None"]
"""Records as they come; None if none has come for a while."""

_SPARE_BYTES = 64
"""The kernel writes 8 bytes at once, past the end of the data."""
_BYTES_OF_A_RECORD = 64
"""Assumed bytes of text per record; smaller records take several rounds."""


class RecordMaker:
    """Makes records from a text of `size_bytes`, which they do not exceed. `now_ms`: the time of those without one.

    `lines` is the most records that the text can have.
    """

    def __init__(self, size_bytes: int, now_ms: int, lines: int = 1 << 20) -> None:
        self._most = min(lines, size_bytes // _BYTES_OF_A_RECORD + 1)
        self._now_ms = now_ms
        self._buffer = bytearray(size_bytes + _SPARE_BYTES)
        self._matrix = memoryview(bytearray(8 * native.NEW_COLUMNS * self._most)).cast("q")
        self._size = self._count = 0
        self._added: list[int] = []

    @property
    def is_full(self) -> bool:
        """Whether no further record can be added."""
        return self._count == self._most

    def read_lines(self, text: bytearray, at: int) -> tuple[int, int]:
        """Add records of NDJSON from byte `at` on, up to a line that Python must parse.

        Return the position after the lines, and their number. Eight bytes follow the last line.
        """
        self._place_added()
        end, self._size, self._count, lines = native.read_lines(
            text, at, self._now_ms, self._buffer, self._size, self._matrix, self._count
        )
        return end, lines

    def add(self, record: NewRecord) -> None:
        """Add a record."""
        key, value, headers, timestamp, origin = record
        data, begin = bytearray(key or b""), self._size
        value_at = begin + len(data)
        data += value or b""
        headers_at = begin + len(data)
        for name, content in headers:
            data += encode_zigzag(len(name)) + name
            data += encode_zigzag(-1 if content is None else len(content)) + (content or b"")
        end = begin + len(data)
        self._buffer[begin:end] = data
        key_size, value_size = -1 if key is None else len(key), -1 if value is None else len(value)
        is_append_time = origin.is_append_time and timestamp is not None  # the current time is not the time it had
        self._added += (
            origin.offset, self._now_ms if timestamp is None else timestamp, NO_SEQUENCE,
            begin, key_size, value_at, value_size, headers_at, len(headers), -1, 1, end - headers_at, begin,
            origin.leader_epoch, is_append_time, origin.codec,
            origin.partition, origin.topic, origin.is_transactional,
        )  # fmt: skip
        self._size = end
        self._count += 1

    def _place_added(self) -> None:
        """Put the columns of records that were added last in their place, many at once."""
        rows, self._added = column_of(self._added), []
        first = self._count - len(rows) // native.NEW_COLUMNS
        for number in range(native.NEW_COLUMNS if rows else 0):
            column = number * self._most
            self._matrix[column + first : column + self._count] = rows[number :: native.NEW_COLUMNS]

    def records(self) -> Iterator[NewRecords]:
        """Yield the records, all at once, if there are any; no record can be added afterwards."""
        self._place_added()
        if self._count:
            yield NewRecords(self._buffer, NewRecordColumns(self._matrix, self._most, self._count))


# ---- in temporary files


class _WritableStream(Protocol):
    def write(self, data: memoryview, /) -> object: ...


class _ReadableStream(Protocol):
    def read(self, size: int, /) -> bytes: ...


def write_records(file: _WritableStream, records: NewRecords) -> None:
    """Write records."""
    if records.columns.begin[0]:
        records = _copy_records([(records, None)], records.size_bytes, len(records))
    size = records.size_bytes
    for column in (column_of((len(records), size)), *records.columns.columns()):
        file.write(column.cast("B"))
    file.write(memoryview(records.buffer)[:size])


def read_records(file: _ReadableStream) -> Iterator[NewRecords]:
    """Yield the records of a file that `write_records` has written, in the same portions."""
    while head := file.read(16):
        count, size = array("q", head)
        matrix, fields = bytearray(file.read(8 * count * native.NEW_COLUMNS)), file.read(size)
        if len(matrix) + len(fields) < 8 * count * native.NEW_COLUMNS + size:
            raise OSError(EIO, "a temporary file of records is cut off")
        yield NewRecords(fields, NewRecordColumns(matrix, count, count))
