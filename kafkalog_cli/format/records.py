"""Records as columns: the positions of each record's key, value and headers in a buffer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from kafkalog_cli.format.batch import Batch, BatchColumns
from kafkalog_cli.format.columns import IntColumn, Integers, all_set, integers
from kafkalog_cli.format.fault import Fault

Row = tuple[int, ...]
"""The values of one record, in the order of RecordColumns."""
PART_RECORDS = 1 << 15
"""Number of records of one batch that are read at a time.

A record needs only 7 bytes, so that a small batch can contain many millions.
"""
Part = tuple[list[Row], Fault | None]
"""Records of a batch, in order. The last part has the batch's fault, if there is one."""
OUTSIDE = -1
"""Position of a key or value whose stored size exceeds the bytes left in its message."""
ODD_HEADER = 2
"""`Record.valid` of a record with a header whose value has a length below -1. Kafka takes such a value as null."""


class Header(NamedTuple):
    """One record header. A null value is None. Duplicates and order are kept."""

    key: bytes
    value: bytes | None


class Record(NamedTuple):
    """One record as values, for display and for code outside the hot path.

    `crc` and `valid` belong to a message v0, v1 or 0.7. They are -1 and 1 or ODD_HEADER in v2, where the batch has
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


@dataclass(frozen=True, slots=True, eq=False)
class RecordColumns:
    """Records as columns of equal length.

    Positions are in the block's buffer; sizes are in bytes. A size below 0 means null, and is kept as stored: damaged
    legacy messages contain negative sizes other than -1. The position `OUTSIDE` marks a key or value whose size exceeds
    the bytes left in its message.

    `headers_position` is the start of the first header. In large logs the columns are arrays (`RecordArrays`).
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

    def __len__(self) -> int:
        return len(self.offset)

    @staticmethod
    def from_rows(rows: Iterable[tuple[int, ...]]) -> RecordColumns:
        """Return the columns of `rows`, each in the order of the fields."""
        columns = tuple(zip(*rows, strict=True))
        return RecordColumns(*(columns or ((),) * len(RECORD_COLUMN_NAMES)))

    @staticmethod
    def from_memory(memory: bytearray | memoryview, stride: int, rows: int) -> RecordColumns:
        """Return the first `rows` rows of columns that are 64-bit integers in memory, `stride` of them per column."""
        column = memoryview(memory).cast("q")
        return RecordColumns(*(column[at * stride : at * stride + rows] for at in range(len(RECORD_COLUMN_NAMES))))

    @staticmethod
    def from_matrix(matrix: Integers) -> RecordArrays:
        """Return columns over the rows of an array with two dimensions, in the order of the fields."""
        return RecordArrays(matrix)

    def rows(self) -> Iterator[tuple[int, ...]]:
        """Return an iterator over the rows as plain Python integers, in the order of the fields."""
        return zip(*map(integers, self.columns()), strict=True)

    def columns(self) -> list[IntColumn]:
        """Return the columns in the order of the fields."""
        return [getattr(self, name) for name in RECORD_COLUMN_NAMES]

    def part(self, first: int, end: int) -> RecordColumns:
        """Return the rows `first` to `end` (exclusive) as columns."""
        return RecordColumns(*(column[first:end] for column in self.columns()))

    def all_valid(self) -> bool:
        """Whether no message of v0, v1 or 0.7 has a bad CRC."""
        return all_set(self.valid)

    def numbered(self, first: int) -> RecordColumns:
        """Return the records with offsets from `first` on."""
        return replace(self, offset=range(first, first + len(self)))

    def arrays(self) -> RecordArrays:
        """Return the same records as arrays: these or, of plain integers, a copy."""
        import numpy as np

        return RecordColumns.from_matrix(np.array(self.columns(), dtype=np.int64))


RECORD_COLUMN_NAMES = tuple(column.name for column in fields(RecordColumns))
NO_RECORDS = RecordColumns.from_rows([])


class RecordArrays(RecordColumns):
    """Records as arrays. `matrix` has a row for each column of RECORD_COLUMN_NAMES, for questions about all."""

    __slots__ = ("matrix",)

    if TYPE_CHECKING:
        offset: Integers
        timestamp: Integers
        sequence: Integers
        key_position: Integers
        key_size: Integers
        value_position: Integers
        value_size: Integers
        headers_position: Integers
        header_count: Integers
        crc: Integers
        valid: Integers
        matrix: Integers

    def __init__(self, matrix: Integers) -> None:
        super().__init__(*matrix)
        object.__setattr__(self, "matrix", matrix)

    def part(self, first: int, end: int) -> RecordArrays:
        """See RecordColumns; the arrays are views."""
        return RecordColumns.from_matrix(self.matrix[:, first:end])

    def numbered(self, first: int) -> RecordArrays:
        """See RecordColumns."""
        import numpy as np

        matrix = self.matrix.copy()
        matrix[0] = np.arange(first, first + len(self))
        return RecordColumns.from_matrix(matrix)

    def arrays(self) -> RecordArrays:
        """See RecordColumns."""
        return self


@dataclass(frozen=True, slots=True, eq=False)
class RecordBlock:
    """The records of consecutive batches.

    `batches` are the batch columns of a chunk; this block covers the rows `first_row` to `end_row` (exclusive).
    `record_ends[i]` is the number of records up to and including the i-th of these batches.

    `faults` maps the row of a damaged batch to its fault. The block contains the records before the damage as far as
    Kafka's own iterator returns them: all of them for an uncompressed batch, none for a compressed batch.

    A batch with many records is read in parts, each in a block of its own. `begun` is the number of its records in
    earlier blocks. If `goes_on` is true, the next block contains more records of the batch, or the fault of its last
    part.
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
        """Number of batches that start in this block."""
        return 0 if self.begun else self.end_row - self.first_row

    @property
    def is_compiled(self) -> bool:
        """Whether the columns are arrays, and its records usual ones of a large log."""
        return isinstance(self.records, RecordArrays)

    @property
    def record_count(self) -> int:
        """Number of records in this block, also if the block has no record columns."""
        return int(self.record_ends[-1]) if len(self.record_ends) else 0

    def rows(self) -> Iterator[Record]:
        """Yield the records as values, each with its batch."""
        return (self._record(row, batch) for batch, rows in self.batch_rows() for row in rows)

    def batch_rows(self) -> Iterator[tuple[Batch, Iterator[Row]]]:
        """Yield the batches with the rows of their records. Take all rows of a batch before the next batch."""
        return zip(self.batches.rows(self.first_row, self.end_row), self.rows_by_batch(), strict=True)

    def rows_by_batch(self) -> Iterator[Iterator[Row]]:
        """Yield the rows of the records of each batch. Take all rows of a batch before the next batch."""
        rows, begin = self.records.rows(), 0
        for end in map(int, self.record_ends):
            yield islice(rows, end - begin)
            begin = end

    def only(self, is_wanted: Callable[[Row], bool]) -> RecordBlock:
        """Return the block with only these records, as plain integers. All batches stay."""
        kept: list[Row] = []
        ends: list[int] = []
        for rows in self.rows_by_batch():
            kept += filter(is_wanted, rows)
            ends.append(len(kept))
        return replace(self, records=RecordColumns.from_rows(kept), record_ends=tuple(ends))

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
