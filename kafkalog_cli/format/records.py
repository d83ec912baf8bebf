"""Records as columns: the positions of each record's key, value and headers in a buffer."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NamedTuple

from kafkalog_cli.format.batch import Batch, BatchColumns
from kafkalog_cli.format.columns import Column, IntColumn, Matrix, all_set, column_of
from kafkalog_cli.format.fault import Fault

Row = tuple[int, ...]
"""The values of one record, in the order of RecordColumns."""
RECORDS_AT_ONCE = 1 << 15
"""Number of records of one batch that are read at a time.

A record needs only 7 bytes, so that a small batch can contain many millions.
"""
RowsAndFault = tuple[list[Row], Fault | None]
"""Records of a batch, in order. The last part has the batch's fault, if there is one."""
OUTSIDE = -1
"""Position of a key or value whose stored size exceeds the bytes left in its message."""
UNUSUAL_HEADER = 2
"""`Record.valid` of a record with a header whose value has a length below -1. Kafka takes such a value as null."""


class Header(NamedTuple):
    """One record header. A null value is None. Duplicates and order are kept."""

    key: bytes
    value: bytes | None


class Record(NamedTuple):
    """One record as values, for display and for code outside the hot path.

    `crc` and `valid` belong to a message v0, v1 or 0.7. They are -1 and 1 or UNUSUAL_HEADER in v2, where the batch has
    the CRC.
    `sequence` is -1 if the record has no producer.
    """

    offset: int
    timestamp: int
    sequence: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    crc: int
    valid: int
    batch: Batch


class RecordColumns(Matrix):
    """Records as columns of equal length.

    Positions are in the block's buffer; sizes are in bytes. A size below 0 means null, and is kept as stored: damaged
    legacy messages contain negative sizes other than -1. The position `OUTSIDE` marks a key or value whose size exceeds
    the bytes left in its message. `headers_position` is the start of the first header.
    """

    __slots__ = ()
    names = (
        "offset", "timestamp", "sequence", "key_position", "key_size", "value_position", "value_size",
        "headers_position", "header_count", "crc", "valid",
    )  # fmt: skip

    offset, timestamp, sequence, key_position, key_size, value_position, value_size = map(Column, range(7))
    headers_position, header_count, crc, valid = map(Column, range(7, 11))

    def rows(self) -> Iterator[Row]:
        """Return an iterator over the rows, in the order of `names`."""
        return self.tuples()

    def all_valid(self) -> bool:
        """Whether no message of v0, v1 or 0.7 has a bad CRC."""
        return all_set(self.valid)


NO_RECORDS = RecordColumns.from_rows([])


@dataclass(frozen=True, slots=True, eq=False)
class RecordBlock:
    """The records of consecutive batches.

    `batches` are the batch columns of a chunk; this block covers the rows `first_row` to `end_row` (exclusive).
    `record_ends[i]` is the number of records up to and including the i-th of these batches.

    `faults` maps the row of a damaged batch to its fault. The block contains the records before the damage as far as
    Kafka's own iterator returns them: all of them for an uncompressed batch, none for a compressed batch.

    A batch with many records is read in parts, each in a block of its own. `begun` is the number of its records in
    earlier blocks. If `goes_on` is true, the next block contains more records of the batch, or the fault of its last
    part. `is_usual`: all batches are undamaged ones of v2 with data, so that no record needs a check of its own.
    """

    buffer: memoryview
    batches: BatchColumns
    first_row: int
    end_row: int
    record_ends: IntColumn
    records: RecordColumns
    faults: dict[int, Fault] = field(default_factory=dict)
    begun: int = 0
    goes_on: bool = False
    is_usual: bool = False

    @property
    def batch_count(self) -> int:
        """Number of batches that start in this block."""
        return 0 if self.begun else self.end_row - self.first_row

    @property
    def record_count(self) -> int:
        """Number of records in this block, also if the block has no record columns."""
        return self.record_ends[-1] if len(self.record_ends) else 0

    def rows(self) -> Iterator[Record]:
        """Yield the records as values, each with its batch."""
        return (self._record(row, batch) for batch, rows in self.batch_rows() for row in rows)

    def batch_rows(self) -> Iterator[tuple[Batch, Iterator[Row]]]:
        """Yield the batches with the rows of their records. Take all rows of a batch before the next batch."""
        return zip(self.batches.rows(self.first_row, self.end_row), self.rows_by_batch(), strict=True)

    def rows_by_batch(self) -> Iterator[Iterator[Row]]:
        """Yield the rows of the records of each batch. Take all rows of a batch before the next batch."""
        rows, begin = self.records.rows(), 0
        for end in self.record_ends:
            yield islice(rows, end - begin)
            begin = end

    def with_rows(self, rows: Sequence[int]) -> RecordBlock:
        """Return the block with only these records, in ascending order. All batches stay."""
        if len(rows) == len(self.records):
            return self
        ends = column_of(bisect_left(rows, end) for end in self.record_ends)
        return replace(self, records=self.records.select(rows), record_ends=ends)

    def _record(self, row: Row, batch: Batch) -> Record:
        offset, timestamp, sequence, key_at, key_size, value_at, value_size, headers_at, count, crc, valid = row
        return Record(
            offset,
            timestamp,
            sequence,
            field_bytes(self.buffer, key_at, key_size),
            field_bytes(self.buffer, value_at, value_size),
            tuple(read_headers(self.buffer, headers_at, count)) if count else (),
            crc,
            valid,
            batch,
        )


def field_bytes(buffer: memoryview, position: int, size: int) -> bytes | None:
    """Return a copy of a key or value: None if it is null, empty bytes if its position is `OUTSIDE`."""
    if size < 0:
        return None
    return b"" if position == OUTSIDE else bytes(buffer[position : position + size])


def view_of(buffer: memoryview, position: int, size: int) -> memoryview | None:
    """Return a key or value of `size` bytes as `field_bytes` does, without a copy."""
    if size < 0:
        return None
    return buffer[:0] if position == OUTSIDE else buffer[position : position + size]


def read_headers(buffer: memoryview, position: int, count: int) -> Iterator[Header]:
    """Yield `count` headers from `position` on. They were checked when the record was decoded."""
    for key, value in header_views(buffer, position, count):
        yield Header(bytes(key), None if value is None else bytes(value))


def header_views(buffer: memoryview, position: int, count: int) -> Iterator[tuple[memoryview, memoryview | None]]:
    """Yield the key and value of `count` headers from `position` on, as views of the buffer."""
    for _ in range(count):
        size, position = _varint(buffer, position)
        key = buffer[position : position + size]
        size, position = _varint(buffer, position + size)
        if size < 0:
            yield key, None
        else:
            yield key, buffer[position : position + size]
            position += size


def headers_end(buffer: memoryview, position: int, count: int) -> int:
    """Return the position after `count` headers that start at `position`."""
    for _ in range(count):
        size, position = _varint(buffer, position)
        size, position = _varint(buffer, position + size)
        position += max(size, 0)
    return position


def _varint(buffer: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            value &= 0xFFFFFFFF
            return (value >> 1) ^ -(value & 1), position
        shift += 7
