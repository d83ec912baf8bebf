"""The request of a consumer, its range of offsets, the end of a growing log, and several partitions in one order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum, unique
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.errors import InRemoteStorage, KafkalogError, OffsetOutOfRange
from kafkalog_cli.format.batch import CODEC_MASK
from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits
from kafkalog_cli.format.records import RecordBlock
from kafkalog_cli.log.log_end import last_indexed
from kafkalog_cli.log.open_transactions import headers_of, open_at
from kafkalog_cli.log.partition import Partition, Segment
from kafkalog_cli.log.reading.scan import CHUNK_BYTES as DEFAULT_CHUNK_BYTES
from kafkalog_cli.log.reading.scan import DamagePolicy, Scan
from kafkalog_cli.ops.choices import Isolation
from kafkalog_cli.ops.look.lookup_time import lookup_time, outside_times
from kafkalog_cli.ops.option_values import time_words
from kafkalog_cli.ops.ranges import part_of

if TYPE_CHECKING:
    from kafkalog_cli.ops.keys import WantedKey

NO_END = (1 << 63) - 1


@unique
class Start(Enum):
    """Where to begin, if not at an offset or a time."""

    EARLIEST = "earliest"
    LATEST = "latest"


class ReadRequest(NamedTuple):
    """The choices of a consumer.

    `start` is an offset or a Start; `from_time_ms` (ms since the epoch), if given, overrides it. `to_offset` and
    `until_ms` are exclusive, None for no end. A log is read in chunks of `chunk_bytes`, which double until one batch
    fits, up to `limits.max_batch_bytes`. `since_ms` leaves out earlier records, wherever the reading starts.
    `with_control` also shows control records, which a consumer does not get. `key`: only records with this key. Without
    `read_ahead`, no threads read what was not requested yet.
    """

    start: int | Start = Start.EARLIEST
    from_time_ms: int | None = None
    to_offset: int | None = None
    until_ms: int | None = None
    max_records: int | None = None
    isolation: Isolation = Isolation.READ_UNCOMMITTED
    limits: Limits = DEFAULT_LIMITS
    chunk_bytes: int = DEFAULT_CHUNK_BYTES
    since_ms: int | None = None
    with_control: bool = False
    key: WantedKey | None = None
    read_ahead: bool = True

    @property
    def is_whole(self) -> bool:
        """Whether all records of its offsets are wanted, so that blocks need not be cut."""
        return self.since_ms is None and self.until_ms is None and self.max_records is None and self.key is None


def first_offset(fs: Filesystem, partition: Partition, request: ReadRequest) -> int:
    """Return the first offset of a request.

    Raises OffsetOutOfRange if a fetch would fail or no record is at or after the time. Raises NothingSelected for a
    partition without segments, and as `open_read` does.
    """
    bounds = partition.bounds
    if request.from_time_ms is not None:
        answer = lookup_time(fs, partition, request.from_time_ms, request.limits)
        first = answer.first_to_read(partition)
        if first is None:
            raise outside_times(fs, partition, time_words(request.from_time_ms), answer)
        return first
    if isinstance(request.start, Start):
        return bounds.start if request.start is Start.EARLIEST else bounds.end
    if not bounds.start <= request.start <= bounds.end:
        what = f"offset {request.start}"
        if bounds.is_remote(request.start):
            raise InRemoteStorage(path=partition.path, what=what, first=bounds.start, last=bounds.end)
        raise OffsetOutOfRange(path=partition.path, what=what, first=bounds.start, last=bounds.end)
    return request.start


def first_in_log(fs: Filesystem, partition: Partition, request: ReadRequest) -> int | None:
    """Return the first offset of a request. A start before the log is moved into it; None for a start after its end.

    None also if no record is at or after the time. Raises as `first_offset`.
    """
    bounds = partition.bounds
    if isinstance(request.start, int) and request.from_time_ms is None:
        start = max(request.start, bounds.start)
        return None if start > bounds.end else start
    try:
        return max(first_offset(fs, partition, request), bounds.start)
    except OffsetOutOfRange:
        return None


def growing_end(fs: Filesystem, partition: Partition, isolation: Isolation = Isolation.READ_UNCOMMITTED) -> int:
    """Return the offset up to which records will stay; later records begin at this offset.

    A batch at the end that is incomplete or has a wrong CRC is not included. Damage followed by valid batches is,
    because it will not change. With read_committed, the end is at most the first open transaction (the last stable
    offset). Raises NothingSelected for a partition without segments, and as `open_read` does.
    """
    if not partition.segments or partition.segments[-1].is_v07:
        return partition.bounds.end
    end = _good_end(fs, partition.segments[-1])
    if isolation is Isolation.READ_UNCOMMITTED:
        return end
    transactions = open_at(fs, partition, end, lambda parts: headers_of(fs, parts, []))
    return transactions[0].first_offset if transactions else end


def _good_end(fs: Filesystem, segment: Segment) -> int:
    """Return the end of the segment: search from the last index entry, or from byte 0 if no valid batch follows it."""
    _, position, _ = last_indexed(fs, segment, believe=False)
    with fs.open_read(segment.log.path) as log:
        for start in dict.fromkeys((position, 0)):
            end: int | None = None
            for batches in Scan(log, DamagePolicy.RESYNC, start=start).batches():
                good = batches.last_valid_row()
                end = end if good is None else int(batches.last_offset[good]) + 1
            if end is not None:
                return end
    return segment.base_offset


_RECORD_BYTES = 300
"""Memory for the columns of a record, in plain Python integers."""

Key = tuple[int, int]
"""The timestamp of a record in ms, and the number of its source. The smallest key comes first."""


class _Source:
    """The blocks of one partition, and its next record."""

    def __init__(self, number: int, blocks: Iterator[RecordBlock]) -> None:
        self._number = number
        self._blocks = blocks
        self._block: RecordBlock | None = None
        self._timestamps: list[int] = []
        self._at = 0
        self.memory_bytes = 0

    @property
    def key(self) -> Key | None:
        """The key of the next record; None at the end. The previous block is no longer valid."""
        while self._at >= len(self._timestamps):
            self._block = None
            self._block = next(self._blocks, None)
            self.memory_bytes = 0 if self._block is None else _memory_bytes(self._block)
            if self._block is None:
                return None
            self._timestamps, self._at = self._block.records.timestamp.tolist(), 0
        return self._timestamps[self._at], self._number

    def take(self, before: Key | None, most: int | None) -> RecordBlock:
        """Return the next record, and the records after it in its block while their keys are below `before`.

        There are at most `most` records.
        """
        assert self._block is not None
        first, end = self._at, len(self._timestamps)
        if most is not None:
            end = min(end, first + most)
        self._at += 1
        while self._at < end and (before is None or (self._timestamps[self._at], self._number) < before):
            self._at += 1
        return part_of(self._block, first, self._at)


def merged_by_time(
    sources: Sequence[Iterator[RecordBlock]], most_records: int | None = None, most_bytes: int | None = None
) -> Iterator[tuple[int, RecordBlock]]:
    """Yield the records of `sources`, the oldest next record first, and no more than `most_records`.

    Each item has the number of the source, and a block of records that follow each other there. It is valid until the
    next item is requested. Of equal timestamps the earlier source comes first. Raises KafkalogError if the blocks that
    have the next records of all sources take more than `most_bytes` of memory.
    """
    cursors: list[_Source] = []
    memory_bytes = 0
    heap: list[Key] = []
    for number, blocks in enumerate(sources):
        cursors.append(_Source(number, blocks))
        if (first := cursors[number].key) is not None:
            heap.append(first)
        memory_bytes += cursors[number].memory_bytes
        _check_memory(memory_bytes, most_bytes, len(sources))
    heapify(heap)
    left = most_records
    while heap and left != 0:
        _, number = heappop(heap)
        cursor = cursors[number]
        block = cursor.take(heap[0] if heap else None, left)
        left = None if left is None else left - len(block.records)
        yield number, block
        del block
        before_bytes = cursor.memory_bytes
        key = cursor.key if left != 0 else None
        memory_bytes += cursor.memory_bytes - before_bytes
        _check_memory(memory_bytes, most_bytes, len(sources))
        if key is not None:
            heappush(heap, key)


def _check_memory(memory_bytes: int, most_bytes: int | None, sources: int) -> None:
    if most_bytes is not None and memory_bytes > most_bytes:
        reason = f"the next batches of {sources} partitions take more than {most_bytes} bytes in memory"
        raise KafkalogError(reason=f"{reason}: merge fewer of them, or raise the limit with --max-output-bytes")


def _memory_bytes(block: RecordBlock) -> int:
    """Return about how much memory a source holds while a record of the block is its next record."""
    records, size_bytes = block.records, len(block.buffer)
    if block.is_usual and len(records):  # the buffer may be a large arena of which this block uses the beginning
        value_end = records.value_position[-1] + max(records.value_size[-1], 0)
        size_bytes = min(size_bytes, max(value_end, records.headers_position[-1]))
    batches, row = block.batches, block.first_row
    stored_bytes = batches.size_bytes[row] if batches.attributes[row] & CODEC_MASK else 0
    return size_bytes + stored_bytes + (2 if block.goes_on else 1) * _RECORD_BYTES * len(records)
