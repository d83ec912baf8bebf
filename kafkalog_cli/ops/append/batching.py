"""Gather records into batches by the options of an append, and encode them: common fields, columns of headers."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from kafkalog_cli.errors import UsageError
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
from kafkalog_cli.format.columns import IntColumn
from kafkalog_cli.format.compression import Codec, codec_name, compress
from kafkalog_cli.format.control import ABORT, COMMIT
from kafkalog_cli.format.records import RecordColumns
from kafkalog_cli.ops.append.columns import Arriving, PlainRun, RecordRun, joined
from kafkalog_cli.ops.append.reading import NewRecord, RecordOrigin


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
    """Several whole batches of one style: the records and the end row of each batch.

    The offsets of the records are used only if offsets are kept.
    """

    buffer: memoryview
    records: RecordColumns
    ends: list[int]
    style: BatchStyle


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
        records, begins = block.records, [0, *block.ends[:-1]]
        if not self.style.keeps_offsets:
            records = records.numbered(base_offset)
        headers = BatchColumns.from_rows(
            self._header(records.offset[begin], records.offset[end - 1], block.style)
            for begin, end in zip(begins, block.ends, strict=True)
        )
        return self._encoder.encode(block.buffer, records, WantedBatches(headers, begins, block.ends))

    def _header(self, first: int, last: int, style: BatchStyle) -> Batch:
        sequence = self.next_sequence
        if style.producer_id >= 0:
            self.next_sequence = increment_sequence(sequence, last - first + 1)
        timestamp = -1 if style.append_time_ms is None else style.append_time_ms
        producer = (style.producer_id, style.producer_epoch, sequence)
        return Batch(0, 0, first, last, style.leader_epoch, 2, 0, style.attributes, -1, timestamp, *producer, 0, 1)


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
MOST_DELTA = (1 << 31) - 1
"""The largest difference between the first and the last offset of a batch."""


def blocks(
    records: Arriving,
    style: BatchStyle,
    now_ms: int,
    *,
    most_records: int = BLOCK_RECORDS,
    is_due: Callable[[], bool] = lambda: False,
) -> Iterator[Block]:
    """Gather records into batches, and yield several batches at a time.

    `now_ms` is the timestamp of records without one. A batch has at most BLOCK_RECORDS records. If `most_records` is
    less, a block ends after that many records. It ends earlier if `is_due` returns True, which is asked when no record
    comes for a while.
    """
    gathered = _Gathered(style, now_ms, most_records)
    for found in records:
        if found is None:
            if is_due():
                yield from gathered.taken(all_of_it=True)
            continue
        if style.follows_origins and not gathered.goes_on(found):
            yield from gathered.taken(all_of_it=True)
        if gathered.add(found):
            yield from gathered.taken(all_of_it=False)
    yield from gathered.taken(all_of_it=True)


class _Gathered:
    """Records of one style that are not in a block yet."""

    def __init__(self, style: BatchStyle, now_ms: int, most_records: int) -> None:
        self._style = style
        self._now_ms = now_ms
        self._most_records = most_records
        self._runs: list[RecordRun | PlainRun] = []
        self._size_bytes = self._count = 0
        self._due_bytes, self._due_count = BLOCK_BYTES, min(BLOCK_RECORDS // 2, most_records)
        self._first_offset = 0

    def goes_on(self, found: NewRecord | RecordRun) -> bool:
        """Whether a record or run may be in one batch with the records held, as far as origins decide it."""
        if not self._count:
            return True
        last = found.last_offset if isinstance(found, RecordRun) else found.origin.offset or 0
        return self._style_of(found) is self._style and last - self._first_offset <= MOST_DELTA

    def _style_of(self, found: NewRecord | RecordRun) -> BatchStyle:
        return self._style.of(found.origin, found.timestamp)

    def add(self, found: NewRecord | RecordRun) -> bool:
        """Hold more records, and return whether the records held are worth a block.

        If origins are followed, `goes_on` is true for them, or all others were taken.
        """
        if not self._count and self._style.follows_origins:
            self._style = self._style_of(found)
            self._first_offset = found.first_offset if isinstance(found, RecordRun) else found.origin.offset or 0
        if isinstance(found, RecordRun):
            self._hold(found)
        else:
            run = self._runs[-1] if self._runs else None
            if not isinstance(run, PlainRun):
                run = PlainRun()
                self._runs.append(run)
            self._size_bytes += run.add(found, self._now_ms)
            self._count += 1
        return self._size_bytes > self._due_bytes or self._count >= self._due_count

    def _hold(self, run: RecordRun | PlainRun) -> None:
        self._runs.append(run)
        self._size_bytes += len(run.buffer)
        self._count += len(run)

    def taken(self, *, all_of_it: bool) -> Iterator[Block]:
        """Yield the full batches, or all of them; the records left over stay for the next call."""
        if not self._count:
            return
        run, done = joined(self._runs), 0
        for first, end, ends in self._parts(run, all_of_it=all_of_it):
            yield Block(run.view, run.records(first, end), ends, self._style)
            done = end
        self._runs, self._size_bytes, self._count = [], 0, 0
        if done < len(run):
            rest = run.rest(done)
            self._first_offset = rest.first_offset
            self._hold(rest)
        self._due_bytes = max(BLOCK_BYTES, 2 * self._size_bytes)
        self._due_count = min(max(BLOCK_RECORDS // 2, 2 * self._count), self._most_records)

    def _parts(self, run: RecordRun | PlainRun, *, all_of_it: bool) -> Iterator[tuple[int, int, list[int]]]:
        """Yield the blocks of the run: first row, end row, and the ends of its batches relative to the first row."""
        most = self._most_records
        if most >= BLOCK_RECORDS:
            ends = _batch_ends(run.sizes(0, len(run)), self._style.batch_bytes)
            ends = ends if all_of_it else ends[:-1]
            if ends:
                yield 0, ends[-1], ends
            return
        for first in range(0, len(run), most):
            end = min(first + most, len(run))
            if all_of_it or end - first == most:
                yield first, end, _batch_ends(run.sizes(first, end), self._style.batch_bytes)


def _batch_ends(sizes: IntColumn, batch_bytes: int) -> list[int]:
    """Return where batches end; the last batch ends with the last record. `sizes`: of all records up to each."""
    room, begin, ends = batch_bytes - RECORD_BATCH.size, 0, []
    while begin < len(sizes):
        before = sizes[begin - 1] if begin else 0
        full = bisect_left(sizes, before + room + 1)
        begin = min(max(full, begin + 1), begin + BLOCK_RECORDS)
        ends.append(begin)
    return ends
