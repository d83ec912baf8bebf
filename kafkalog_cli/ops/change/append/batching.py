"""Gather records into batches by the options of an append, and encode them: common fields, columns of headers."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from kafkalog_cli.errors import UsageError
from kafkalog_cli.format import native
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
from kafkalog_cli.format.columns import column_of
from kafkalog_cli.format.compression import Codec, codec_name, compress
from kafkalog_cli.format.control import ABORT, COMMIT
from kafkalog_cli.ops.change.append.records import Arriving, NewRecordColumns, NewRecords, join_records


@dataclass(frozen=True, slots=True)
class BatchStyle:
    """The properties that all batches of a run have in common.

    `append_time_ms` is the broker's time, if the topic wants LogAppendTime. `batch_bytes` is the largest size of a
    batch of several records before compression. Records keep their offsets with their append times, their leader
    epochs, or the codec of the batch that they come from.
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
    keeps_epochs: bool = False
    keeps_codecs: bool = False

    @property
    def attributes(self) -> int:
        """The attributes of batches that keep nothing of their records' origins."""
        bits = TIMESTAMP_TYPE_MASK if self.append_time_ms is not None else 0
        return self.codec | bits | (TRANSACTIONAL_MASK if self.is_transactional else 0)

    @property
    def kept(self) -> int:
        """What batches keep of their records' origins, as `native.batch_ends` takes it."""
        kinds = (
            (self.keeps_codecs, native.KEEPS_CODECS),
            (self.keeps_epochs, native.KEEPS_EPOCHS),
            (self.keeps_offsets, native.KEEPS_OFFSETS),
        )
        return sum(kind for is_kept, kind in kinds if is_kept)

    def of(self, columns: NewRecordColumns, row: int) -> BatchStyle:
        """Return the style of the batch of a record, with what is kept of the record's origin."""
        append_time_ms = self.append_time_ms
        if self.keeps_offsets:
            append_time_ms = columns.timestamp[row] if columns.is_append_time[row] == 1 else None
        return replace(
            self,
            codec=columns.codec[row] if self.keeps_codecs else self.codec,
            leader_epoch=columns.leader_epoch[row] if self.keeps_epochs else self.leader_epoch,
            append_time_ms=append_time_ms,
        )


class Block(NamedTuple):
    """Several whole batches: the records, and the row after each batch. The offsets count only if offsets are kept."""

    records: NewRecords
    ends: list[int]


class BatchMaker:
    """Encodes blocks; if there is a producer, `next_sequence` is the sequence of the next batch."""

    def __init__(self, style: BatchStyle, next_sequence: int = NO_SEQUENCE) -> None:
        self.style = style
        self.next_sequence = next_sequence
        self._encoder = BatchEncoder(style.level)

    def encode(self, block: Block, base_offset: int) -> EncodedBatches:
        """Return the block's batches, the first at `base_offset`; they are valid until the next call.

        If offsets are kept, `base_offset` is ignored.
        """
        columns, begins = block.records.columns, [0, *block.ends[:-1]]
        if not self.style.keeps_offsets:
            columns.offset[:] = column_of(range(base_offset, base_offset + len(columns)))
        headers = BatchColumns.from_rows(
            self._header(columns, begin, end) for begin, end in zip(begins, block.ends, strict=True)
        )
        buffer = memoryview(block.records.buffer)
        return self._encoder.encode(buffer, block.records.stored, WantedBatches(headers, begins, block.ends))

    def _header(self, columns: NewRecordColumns, begin: int, end: int) -> Batch:
        """Return the header of a batch. Its records have in common what is kept of their origins."""
        style, sequence = self.style, self.next_sequence
        first, last = columns.offset[begin], columns.offset[end - 1]
        if style.kept:
            style = style.of(columns, begin)
        if style.producer_id >= 0:
            self.next_sequence = increment_sequence(sequence, last - first + 1)
        largest = -1 if style.append_time_ms is None else style.append_time_ms
        producer = (style.producer_id, style.producer_epoch, sequence)
        return Batch(0, 0, first, last, style.leader_epoch, 2, 0, style.attributes, -1, largest, *producer, 0, 1)


CODECS = tuple(codec_name(codec) for codec in Codec)
ENDS = {"commit": COMMIT, "abort": ABORT, "open": None}
"""How a transaction is left, and the type of the marker that ends it; None for no marker."""

_INT16, _INT32, _INT64 = ((1 << bits) - 1 for bits in (15, 31, 63))
_RANGES = {
    "batch_bytes": (1, _INT32),
    "leader_epoch": (0, _INT32),
    "producer_id": (0, _INT64),
    "producer_epoch": (0, _INT16),
    "first_sequence": (0, _INT32),
    "coordinator_epoch": (0, _INT32),
}
"""The smallest and the largest value that a batch can hold for each option."""


@dataclass(frozen=True, slots=True)
class Writing:
    """The choices of the caller, under the names of the options.

    `codec` is used if the topic's compression.type leaves the choice to the producer. `compression_level` None is the
    codec's default. `batch_bytes` is the largest size of a batch of several records before compression. `leader_epoch`
    None is the latest. `first_sequence` None continues after the producer's last sequence. `transaction` is one of
    ENDS, None for no transaction. `keep_offsets`: records already have offsets, timestamp types and leader epochs, as
    records that a follower fetches (UnifiedLog.appendAsFollower).
    """

    codec: str = "none"
    compression_level: int | None = None
    batch_bytes: int = 16_384
    leader_epoch: int | None = None
    producer_id: int | None = None
    producer_epoch: int = 0
    first_sequence: int | None = None
    transaction: str | None = None
    coordinator_epoch: int = 0
    keep_offsets: bool = False

    def check(self, spelled: Callable[[str], str] = str) -> None:
        """Raise UsageError if options contradict each other, or if no batch can hold a value.

        `spelled` returns the name of a field as the caller knows it.
        """
        for name, known in (("codec", CODECS), ("transaction", (None, *ENDS))):
            if getattr(self, name) not in known:
                names = ", ".join(one for one in known if one is not None)
                raise UsageError(reason=f"{spelled(name)} {getattr(self, name)!r}: choose one of {names}")
        for name, (least, most) in _RANGES.items():
            number = getattr(self, name)
            if number is not None and not least <= number <= most:
                raise UsageError(reason=f"{spelled(name)} {number} is not from {least} to {most}")
        for name in ("transaction", "first_sequence"):
            if getattr(self, name) is not None and self.producer_id is None:
                raise UsageError(reason=f"{spelled(name)} needs a {spelled('producer_id')}")
        if self.keep_offsets and (self.producer_id is not None or self.leader_epoch is not None):
            others = f"{spelled('producer_id')} or {spelled('leader_epoch')}"
            raise UsageError(reason=f"{spelled('keep_offsets')} cannot be combined with {others}")
        try:
            compress(self.codec_id, b"", level=self.compression_level)
        except ValueError as error:
            raise UsageError(reason=f"{spelled('compression_level')}: {error}") from error

    @property
    def codec_id(self) -> Codec:
        """The codec with the name `codec`."""
        return Codec[self.codec.upper()]


BLOCK_BYTES = 1 << 20
BLOCK_RECORDS = 1 << 14


def blocks(
    records: Arriving,
    style: BatchStyle,
    *,
    most_records: int = BLOCK_RECORDS,
    is_due: Callable[[], bool] = lambda: False,
) -> Iterator[Block]:
    """Gather records into batches, and yield several batches at a time.

    A batch has at most BLOCK_RECORDS records. If `most_records` is less, a block ends after that many records. It ends
    earlier if `is_due` returns True, which is asked when no record comes for a while.
    """
    gathered = _Gathered(style, most_records)
    for found in records:
        if found is not None:
            gathered.add(found)
            if gathered.is_worth_a_block:
                yield from gathered.take_blocks(all_of_it=False)
        elif is_due():
            yield from gathered.take_blocks(all_of_it=True)
    yield from gathered.take_blocks(all_of_it=True)


class _Gathered:
    """Records that are not in a block yet."""

    def __init__(self, style: BatchStyle, most_records: int) -> None:
        self._style = style
        self._most_records = most_records
        self._parts: list[NewRecords] = []
        self._size_bytes = self._count = 0
        self._due_bytes, self._due_count = BLOCK_BYTES, min(BLOCK_RECORDS // 2, most_records)
        self._current = array("q", (style.leader_epoch, style.codec))

    @property
    def is_worth_a_block(self) -> bool:
        """Whether there are so many records that they are encoded."""
        return self._size_bytes > self._due_bytes or self._count >= self._due_count

    def add(self, records: NewRecords) -> None:
        """Hold more records."""
        self._parts.append(records)
        self._size_bytes += records.size_bytes
        self._count += len(records)

    def take_blocks(self, *, all_of_it: bool) -> Iterator[Block]:
        """Yield the full batches, or all of them; the records left over stay for the next call."""
        if not self._count:
            return
        records, done = join_records(self._parts), 0
        for end, ends in self._blocks_of(self._ends(records), all_of_it=all_of_it):
            yield Block(records.part(done, end), [row - done for row in ends])
            done = end
        self._parts, self._size_bytes, self._count = [], 0, 0
        if done < len(records):
            self.add(records.part(done, len(records)))
        self._due_bytes = max(BLOCK_BYTES, 2 * self._size_bytes)
        self._due_count = min(max(BLOCK_RECORDS // 2, 2 * self._count), self._most_records)

    def _ends(self, records: NewRecords) -> list[int]:
        """Return the row after each batch."""
        style = self._style
        most = self._most_records if self._most_records < BLOCK_RECORDS else len(records)
        room = style.batch_bytes - RECORD_BATCH.size
        columns = native.columns_of(records.columns)
        return native.batch_ends(columns, room, BLOCK_RECORDS, most, style.kept, self._current).tolist()

    def _blocks_of(self, ends: list[int], *, all_of_it: bool) -> Iterator[tuple[int, list[int]]]:
        """Yield the row after each block, and after its batches."""
        if self._most_records >= BLOCK_RECORDS:
            ends = ends if all_of_it else ends[:-1]
            if ends:
                yield ends[-1], ends
            return
        block: list[int] = []
        done = 0
        for end in ends:
            if block and end - done > self._most_records:
                yield block[-1], block
                block, done = [], block[-1]
            block.append(end)
        if block and (all_of_it or block[-1] - done == self._most_records):
            yield block[-1], block
