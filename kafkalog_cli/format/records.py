"""Records as columns: where each record's key, value and headers lie in a buffer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from kafkalog_cli.format.batch import Batch, BatchColumns, IntColumn
from kafkalog_cli.format.fault import Fault

OUTSIDE = -1
"""Position of a key or value that claims more bytes than its message has."""


class Header(NamedTuple):
    """One record header; a null value is None, duplicates and order are kept."""

    key: bytes
    value: bytes | None


class Record(NamedTuple):
    """One record, for people and for code off the hot path.

    `crc` and `valid` are those of a message v0, v1 or 0.7 (-1 and 1 in v2, where the batch has them).
    `sequence` is -1 without a producer.
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


@dataclass(frozen=True, slots=True, eq=False)
class RecordColumns:
    """Records as columns of equal length.

    Positions are in the block's buffer, sizes in bytes: a size below 0 is null (as stored: damaged
    legacy messages hold other negative sizes), a position of `OUTSIDE` marks a key or value that claims
    more bytes than there are. `headers_position` is where the first header starts. `matrix` holds the same
    columns as one numpy array where compiled kernels made them.
    """

    offset: IntColumn
    timestamp: IntColumn
    sequence: IntColumn
    key_position: IntColumn
    key_size: IntColumn
    value_position: IntColumn
    value_size: IntColumn
    headers_position: IntColumn
    header_count: IntColumn
    crc: IntColumn
    valid: IntColumn
    matrix: Any = None

    def __len__(self) -> int:
        return len(self.offset)

    @classmethod
    def from_rows(cls, rows: list[tuple[int, ...]]) -> RecordColumns:
        """Columns of the given rows, each in the order of the fields."""
        columns = tuple(zip(*rows, strict=True))
        return cls(*(columns or ((),) * len(RECORD_COLUMN_NAMES)))

    @classmethod
    def from_matrix(cls, matrix: Any) -> RecordColumns:
        """Columns over a numpy matrix, which stays at hand for the kernels that take it whole."""
        return cls(**dict(zip(RECORD_COLUMN_NAMES, matrix, strict=True)), matrix=matrix)

    def rows(self) -> Iterator[tuple[int, ...]]:
        """Rows of plain Python integers, in the order of the fields."""
        columns = [getattr(self, name) for name in RECORD_COLUMN_NAMES]
        return zip(*(c.tolist() if hasattr(c, "tolist") else c for c in columns), strict=True)


RECORD_COLUMN_NAMES = tuple(column.name for column in fields(RecordColumns) if column.name != "matrix")


@dataclass(frozen=True, slots=True, eq=False)
class RecordBlock:
    """The records of some consecutive batches.

    `batches` are rows `first_row` to `end_row` of the chunk's batch columns; `record_ends[i]` is the
    number of records up to and with the i-th of them. `faults` tells, by row, which batches could not
    be read to their end; of such a batch the records before the damage are there as far as Kafka's own
    iterator would have given them (an uncompressed batch: all before it; a compressed one: none).

    A batch of many records comes in parts, each alone in its block: `begun` of its records were in blocks before,
    and if it `goes_on` the next block has more of it, or the fault that the last part has.
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

    @property
    def batch_count(self) -> int:
        """The batches that begin in this block."""
        return 0 if self.begun else self.end_row - self.first_row

    @property
    def is_compiled(self) -> bool:
        """Whether compiled kernels read it, so that others can take it."""
        return self.records.matrix is not None

    @property
    def record_count(self) -> int:
        """The records in this block, also where there are no columns of them."""
        return int(self.record_ends[-1]) if len(self.record_ends) else 0

    def rows(self) -> Iterator[Record]:
        """The records as values, each with its batch."""
        rows = self.records.rows()
        begin = 0
        for batch, end in zip(self.batches.rows(self.first_row, self.end_row), self.record_ends, strict=True):
            for _ in range(int(end) - begin):
                yield self._record(next(rows), batch)
            begin = int(end)

    def _record(self, row: tuple[int, ...], batch: Batch) -> Record:
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
    """A key or value; None if null. Of one that claims too much, nothing: empty bytes."""
    if size < 0:
        return None
    return b"" if position == OUTSIDE else bytes(buffer[position : position + size])


def view_of(buffer: memoryview, position: int, size: int) -> memoryview | None:
    """The same without a copy."""
    if size < 0:
        return None
    return buffer[:0] if position == OUTSIDE else buffer[position : position + size]


def read_headers(buffer: memoryview, position: int, count: int) -> Iterator[Header]:
    """`count` headers from `position` on, already checked when the record was decoded."""
    for key, value in header_views(buffer, position, count):
        yield Header(bytes(key), None if value is None else bytes(value))


def header_views(buffer: memoryview, position: int, count: int) -> Iterator[tuple[memoryview, memoryview | None]]:
    """The same without a copy: key and value of each header, where they lie in the buffer."""
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
    """Where `count` headers end that begin at `position`."""
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
