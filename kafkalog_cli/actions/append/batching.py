"""Gather records into batches: how many are in each, the columns of the batch headers, and the bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple

from kafkalog_cli.actions.append.columns import Arriving, RecordRun
from kafkalog_cli.actions.append.reading import NewRecord, RecordOrigin
from kafkalog_cli.format.batch import (
    NO_SEQUENCE,
    RECORD_BATCH,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
    Batch,
    BatchColumns,
    increment_sequence,
)
from kafkalog_cli.format.batch_encoder import BatchEncoder, EncodedBatches, WantedBatches
from kafkalog_cli.format.records import RecordColumns
from kafkalog_cli.format.varint import encode_zigzag
from kafkalog_cli.storage.kernels import KernelChoice

RECORD_OVERHEAD_BYTES = 21
"""The largest size of a record apart from key, value and headers (DefaultRecord.MAX_RECORD_OVERHEAD)."""
BLOCK_BYTES = 1 << 20
BLOCK_RECORDS = 1 << 14
_RECORD_ROWS = 11
MOST_DELTA = (1 << 31) - 1
"""The largest difference between the first and the last offset of a batch."""


@dataclass(frozen=True, slots=True)
class BatchStyle:
    """The properties that all batches of a run have in common.

    `append_time_ms` is the broker's time, if the topic wants LogAppendTime. `batch_bytes` is the largest size of a
    batch of several records before compression. `keeps_codecs`: a batch is compressed with the codec of the batch that
    its records come from. This is also so if offsets are kept.
    """

    codec: int = 0
    level: int | None = None
    batch_bytes: int = 16_384
    leader_epoch: int = 0
    append_time_ms: int | None = None
    producer_id: int = -1
    producer_epoch: int = -1
    is_transactional: bool = False
    keeps_offsets: bool = False
    keeps_codecs: bool = False

    @property
    def follows_origins(self) -> bool:
        """Whether records from other batches keep some properties of those batches."""
        return self.keeps_offsets or self.keeps_codecs

    @property
    def attributes(self) -> int:
        """The attributes field of the batch headers."""
        bits = TIMESTAMP_TYPE_MASK if self.append_time_ms is not None else 0
        return self.codec | bits | (TRANSACTIONAL_MASK if self.is_transactional else 0)

    def of(self, origin: RecordOrigin, timestamp: int | None) -> BatchStyle:
        """Return the style of a batch for a record with this origin.

        If offsets are kept, its epoch, append time and codec are kept too.
        """
        if not self.follows_origins:
            return self
        if not self.keeps_offsets:
            return self if origin.codec in (None, self.codec) else replace(self, codec=origin.codec)
        epoch = self.leader_epoch if origin.leader_epoch is None else origin.leader_epoch
        append_time_ms = timestamp if origin.is_append_time else None
        codec = self.codec if origin.codec is None else origin.codec
        if (epoch, append_time_ms, codec) == (self.leader_epoch, self.append_time_ms, self.codec):
            return self
        return replace(self, leader_epoch=epoch, append_time_ms=append_time_ms, codec=codec)


class Block(NamedTuple):
    """Several whole batches: rows of RecordColumns, the end row of each batch, and the style of each.

    Offsets start at 0; if offsets are kept, they are those of the input.
    """

    buffer: bytearray
    rows: list[tuple[int, ...]]
    ends: list[int]
    styles: list[BatchStyle]


class ColumnBlock(NamedTuple):
    """Several whole batches of one style, as columns of a RecordRun; its offsets are used only if they are kept."""

    buffer: Any
    matrix: Any
    ends: list[int]
    style: BatchStyle


def blocks(
    records: Arriving,
    style: BatchStyle,
    now_ms: int,
    *,
    most_records: int = BLOCK_RECORDS,
    is_due: Callable[[], bool] = lambda: False,
) -> Iterator[Block | ColumnBlock]:
    """Gather records into batches, and yield several batches at a time.

    `now_ms` is the timestamp of records without one. A batch has at most BLOCK_RECORDS records. If `most_records` is
    less, a block ends after that many records. It ends earlier if `is_due` returns True, which is asked when no record
    comes for a while.
    """
    gathered, arriving, came = _Gathered(style, now_ms), iter(records), 0
    for record in arriving:
        if isinstance(record, RecordRun):  # from now on all records are columns, with those gathered
            from kafkalog_cli.actions.append.column_batches import ColumnBatches

            columns = ColumnBatches(gathered.first_style, now_ms, most_records)
            yield from columns.blocks(chain(gathered.records, (record,), arriving), is_due)
            return
        if record is None:
            if gathered.rows and is_due():
                yield gathered.block()
                gathered, came = _Gathered(gathered.style, now_ms), 0
            continue
        if not gathered.has_room(record) and gathered.end_batch():
            yield gathered.block()
            gathered = _Gathered(gathered.style, now_ms)
        gathered.add(record)
        came += 1
        if BLOCK_RECORDS > most_records <= came:
            yield gathered.block()
            gathered, came = _Gathered(gathered.style, now_ms), 0
    if gathered.rows:
        yield gathered.block()


class _Gathered:
    """Batches being filled."""

    def __init__(self, style: BatchStyle, now_ms: int) -> None:
        self.rows: list[tuple[int, ...]] = []
        self.style = self.first_style = style
        self._buffer = bytearray()
        self._now_ms = now_ms
        self._ends: list[int] = []
        self._styles: list[BatchStyle] = []
        self._batch_bytes = RECORD_BATCH.size
        self.records: list[NewRecord] = []

    def has_room(self, record: NewRecord) -> bool:
        """Whether the record fits into the current batch; an empty batch has room for any record."""
        begun = self._ends[-1] if self._ends else 0
        if len(self.rows) == begun:
            return True
        if len(self.rows) - begun >= BLOCK_RECORDS:
            return False
        style = self.style
        if style.of(record.origin, record.timestamp) is not style:
            return False
        if style.keeps_offsets and (record.origin.offset or 0) - self.rows[begun][0] > MOST_DELTA:
            return False
        return self._batch_bytes + _most_bytes(record) <= style.batch_bytes

    def end_batch(self) -> bool:
        """End the current batch, and return whether the block is full."""
        self._ends.append(len(self.rows))
        self._styles.append(self.style)
        self._batch_bytes = RECORD_BATCH.size
        return len(self._buffer) > BLOCK_BYTES or len(self.rows) > BLOCK_RECORDS // 2

    def add(self, record: NewRecord) -> None:
        self.style = self.style.of(record.origin, record.timestamp)
        offset = record.origin.offset if self.style.keeps_offsets else None
        self._batch_bytes += _most_bytes(record)
        self.records.append(record)
        self.rows.append(put_record(self._buffer, record, len(self.rows) if offset is None else offset, self._now_ms))

    def block(self) -> Block:
        """Return everything as a block; this also ends the last batch."""
        if len(self.rows) > (self._ends[-1] if self._ends else 0):
            self.end_batch()
        return Block(self._buffer, self.rows, self._ends, self._styles)


def _most_bytes(record: NewRecord) -> int:
    """Return the largest size in bytes that the record may have in a batch."""
    size = RECORD_OVERHEAD_BYTES + len(record.key or b"") + len(record.value or b"")
    for key, value in record.headers:
        size += _length_bytes(len(key)) + len(key)
        size += 1 if value is None else _length_bytes(len(value)) + len(value)
    return size


def _length_bytes(length: int) -> int:
    return len(encode_zigzag(length))


def put_record(buffer: bytearray, record: NewRecord, offset: int, now_ms: int) -> tuple[int, ...]:
    """Append the record's key, value and headers to `buffer`; return its row, as in RecordColumns."""
    places: list[int] = []
    for field in (record.key, record.value):
        places += (len(buffer), -1 if field is None else len(field))
        buffer += field or b""
    headers_at = len(buffer)
    for key, value in record.headers:
        buffer += encode_zigzag(len(key))
        buffer += key
        buffer += encode_zigzag(-1 if value is None else len(value))
        buffer += value or b""
    timestamp = now_ms if record.timestamp is None else record.timestamp
    return (offset, timestamp, NO_SEQUENCE, *places, headers_at, len(record.headers), -1, 1)


class BatchMaker:
    """Encodes blocks; if there is a producer, `next_sequence` is the sequence of the next batch."""

    def __init__(
        self, style: BatchStyle, next_sequence: int = NO_SEQUENCE, kernels: KernelChoice | None = None
    ) -> None:
        self.style = style
        self.next_sequence = next_sequence
        self._encoder = BatchEncoder(style.level)
        self._kernels = kernels

    def encode(self, block: Block | ColumnBlock, base_offset: int) -> EncodedBatches:
        """Return the block's batches, the first at `base_offset`; they are valid until the next call.

        If offsets are kept, `base_offset` is ignored.
        """
        base_offset = 0 if self.style.keeps_offsets else base_offset
        begins = [0, *block.ends[:-1]]
        if isinstance(block, ColumnBlock):
            records = _of_matrix(block.matrix, None if self.style.keeps_offsets else base_offset)
            offsets_of: Any = records.offset
            numbers, style = offsets_of - base_offset, block.style
            offsets = [
                (int(numbers[begin]), int(numbers[end - 1]), style)
                for begin, end in zip(begins, block.ends, strict=True)
            ]
        else:
            batches = zip(begins, block.ends, block.styles, strict=True)
            offsets = [(block.rows[begin][0], block.rows[end - 1][0], style) for begin, end, style in batches]
            kernels = None if self._kernels is None else self._kernels.compiled(len(block.rows), len(block.rows))
            records = _columns(block.rows, base_offset, compiled=kernels is not None)
        headers = BatchColumns.from_rows(
            [self._header(base_offset + first, base_offset + last, style) for first, last, style in offsets]
        )
        return self._encoder.encode(memoryview(block.buffer), records, WantedBatches(headers, begins, block.ends))

    def _header(self, first: int, last: int, style: BatchStyle) -> Batch:
        sequence = self.next_sequence
        if style.producer_id >= 0:
            self.next_sequence = increment_sequence(sequence, last - first + 1)
        timestamp = -1 if style.append_time_ms is None else style.append_time_ms
        producer = (style.producer_id, style.producer_epoch, sequence)
        return Batch(0, 0, first, last, style.leader_epoch, 2, 0, style.attributes, -1, timestamp, *producer, 0, 1)


def _of_matrix(matrix: Any, base_offset: int | None) -> RecordColumns:
    """Return records numbered from `base_offset` on; if it is None, they keep their offsets."""
    import numpy as np

    numbered: Any = matrix[:_RECORD_ROWS].copy()
    if base_offset is not None:
        numbered[0] = np.arange(base_offset, base_offset + matrix.shape[1])
    return RecordColumns.from_matrix(numbered)


def _columns(rows: list[tuple[int, ...]], base_offset: int, *, compiled: bool) -> RecordColumns:
    if not compiled:
        return RecordColumns.from_rows([(base_offset + row[0], *row[1:]) for row in rows])
    import numpy as np

    matrix = np.array(rows, dtype=np.int64).T
    matrix[0] += base_offset
    return RecordColumns.from_matrix(matrix)
