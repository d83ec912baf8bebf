"""Records to batches: how many go into one, the columns of their headers, and the bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from kafkalog_cli.actions.append.reading import Incoming, NewRecord
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
"""What a record can have besides key, value and headers (DefaultRecord.MAX_RECORD_OVERHEAD)."""
BLOCK_BYTES = 1 << 20
BLOCK_RECORDS = 1 << 14


@dataclass(frozen=True, slots=True)
class BatchStyle:
    """What all batches of a run have. `append_time_ms`: the broker's clock, where the topic wants that.

    `batch_bytes`: a batch of several records has no more before it is packed.
    """

    codec: int = 0
    level: int | None = None
    batch_bytes: int = 16_384
    leader_epoch: int = 0
    append_time_ms: int | None = None
    producer_id: int = -1
    producer_epoch: int = -1
    is_transactional: bool = False

    @property
    def attributes(self) -> int:
        """The attributes of the headers."""
        bits = TIMESTAMP_TYPE_MASK if self.append_time_ms is not None else 0
        return self.codec | bits | (TRANSACTIONAL_MASK if self.is_transactional else 0)


class Block(NamedTuple):
    """Some whole batches: rows of RecordColumns with offsets from 0 on, and where each batch ends."""

    buffer: bytearray
    rows: list[tuple[int, ...]]
    ends: list[int]


def blocks(
    records: Incoming,
    style: BatchStyle,
    now_ms: int,
    *,
    most_records: int = BLOCK_RECORDS,
    is_due: Callable[[], bool] = lambda: False,
) -> Iterator[Block]:
    """Records gathered into batches, some batches at a time. `now_ms` is for records without a timestamp.

    A block has `most_records` or less, and ends early where `is_due` says so, asked when none comes for a while.
    """
    buffer = bytearray()
    rows: list[tuple[int, ...]] = []
    ends: list[int] = []
    batch_bytes = RECORD_BATCH.size
    for record in records:
        if record is None or len(rows) >= most_records:
            if rows and (record is not None or is_due()):
                yield Block(buffer, rows, [*ends, len(rows)])
                buffer, rows, ends, batch_bytes = bytearray(), [], [], RECORD_BATCH.size
            if record is None:
                continue
        start = len(buffer)
        row = _put(buffer, record, len(rows), now_ms)
        size = RECORD_OVERHEAD_BYTES + len(buffer) - start
        begun = ends[-1] if ends else 0
        if batch_bytes + size > style.batch_bytes and len(rows) > begun:
            ends.append(len(rows))
            batch_bytes = RECORD_BATCH.size
            if start > BLOCK_BYTES or len(rows) > BLOCK_RECORDS // 2:
                yield Block(buffer[:start], rows, ends)
                buffer, rows, ends = bytearray(), [], []
                row = _put(buffer, record, 0, now_ms)
        rows.append(row)
        batch_bytes += size
    if rows:
        yield Block(buffer, rows, [*ends, len(rows)])


def _put(buffer: bytearray, record: NewRecord, offset: int, now_ms: int) -> tuple[int, ...]:
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
    """Makes the bytes of blocks; `next_sequence` goes on from batch to batch where there is a producer."""

    def __init__(
        self, style: BatchStyle, next_sequence: int = NO_SEQUENCE, kernels: KernelChoice | None = None
    ) -> None:
        self.style = style
        self.next_sequence = next_sequence
        self._encoder = BatchEncoder(style.level)
        self._kernels = kernels

    def encode(self, block: Block, base_offset: int) -> EncodedBatches:
        """The block's batches, the first of which is at `base_offset`; they live until the next call."""
        begins = [0, *block.ends[:-1]]
        headers = BatchColumns.from_rows(
            [
                self._header(base_offset + begin, base_offset + end - 1)
                for begin, end in zip(begins, block.ends, strict=True)
            ]
        )
        kernels = None if self._kernels is None else self._kernels.compiled(len(block.rows), len(block.rows))
        records = _columns(block.rows, base_offset, compiled=kernels is not None)
        return self._encoder.encode(memoryview(block.buffer), records, WantedBatches(headers, begins, block.ends))

    def _header(self, first: int, last: int) -> Batch:
        style, sequence = self.style, self.next_sequence
        if style.producer_id >= 0:
            self.next_sequence = increment_sequence(sequence, last - first + 1)
        timestamp = -1 if style.append_time_ms is None else style.append_time_ms
        producer = (style.producer_id, style.producer_epoch, sequence)
        return Batch(0, 0, first, last, style.leader_epoch, 2, 0, style.attributes, -1, timestamp, *producer, 0, 1)


def _columns(rows: list[tuple[int, ...]], base_offset: int, *, compiled: bool) -> RecordColumns:
    if not compiled:
        return RecordColumns.from_rows([(base_offset + row[0], *row[1:]) for row in rows])
    import numpy as np

    matrix = np.array(rows, dtype=np.int64).T
    matrix[0] += base_offset
    return RecordColumns.from_matrix(matrix)
