"""Ranges of logs as tasks: cut where batches end, by the indexes; small ones put together."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import NamedTuple

from kafkalog_cli.errors import UsageError
from kafkalog_cli.format.batch import NO_OFFSET, Batch
from kafkalog_cli.spark.offsets import LogRange
from kafkalog_cli.storage.fs import Filesystem
from kafkalog_cli.storage.partition import Partition, Segment
from kafkalog_cli.storage.reading.header import header_at
from kafkalog_cli.storage.segments.log_end import HeaderChain
from kafkalog_cli.storage.segments.segment_search import SegmentIndexes

SPLIT_BYTES = 128 << 20
"""A range larger than this makes several tasks."""
PACK_BYTES = 32 << 20
"""Ranges smaller than this go together into one: a task costs more than reading them does."""
TIMES_OF_HEADERS = 4
"""So much larger are tasks that read nothing but the headers of batches."""
TIMES_OF_FILES = 2
"""So much larger are tasks that write a file: each waits for the disk, and few large ones are what readers like."""
MOST_TASKS = 100_000


class Place(NamedTuple):
    """Where a log is cut: the batch with the first offset behind the cut starts at `position` of a segment.

    `segment` is its base offset; places are in the order of the log by (segment, position).
    """

    offset: int
    segment: int
    position: int

    @property
    def at(self) -> tuple[int, int]:
        """Where in the log, to compare with where a fault is."""
        return self.segment, self.position


class Piece(NamedTuple):
    """Offsets of a partition that one task reads; `end` None: to where the log ends.

    What is damaged before `ends_at` is this piece's to tell (None: no piece is behind); none sees what is before its
    own first batch.
    """

    path: str
    topic: str
    partition: int
    first: int
    end: int | None
    ends_at: tuple[int, int] | None
    size_bytes: int

    def tells_of(self, at: tuple[int, int]) -> bool:
        """Whether damage there is this piece's to tell, or that of one behind, which reads the same batch."""
        return self.ends_at is None or at < self.ends_at


Task = tuple[Piece, ...]


def tasks_of(
    fs: Filesystem,
    ranges: list[LogRange],
    min_partitions: int | None,
    max_records: int | None,
    *,
    times: int = 1,
) -> list[Task]:
    """The tasks, in the order of the ranges.

    They are of about `times` SPLIT_BYTES, or as minPartitions and maxRecordsPerPartition say. Those two count offsets,
    as Spark's source does. Raises UsageError for too many tasks, and what `open_read` raises.
    """
    if min_partitions is None and max_records is None:
        split = SPLIT_BYTES * times
        pieces = [piece for one in ranges for piece in _pieces(one, _by_bytes(fs, one.partition, split), fs)]
        return list(_packed(pieces, split, PACK_BYTES * times))
    most = _most_offsets(ranges, min_partitions, max_records)
    if sum(1 + _length(one) // size for one, size in zip(ranges, most, strict=True)) > MOST_TASKS:
        raise UsageError(reason=f"that would make more than {MOST_TASKS} tasks")
    return [
        (piece,)
        for one, size in zip(ranges, most, strict=True)
        for piece in _pieces(one, list(_by_offsets(fs, one, size)), fs)
    ]


def _length(one: LogRange) -> int:
    end = one.log_end if one.end is None else min(one.end, one.log_end)
    return max(end - one.first, 0)


def _most_offsets(ranges: list[LogRange], min_partitions: int | None, max_records: int | None) -> list[int]:
    """How many offsets a task of each range may have; the parts are by length (KafkaOffsetRangeCalculator)."""
    total = sum(map(_length, ranges)) or 1
    wanted = min_partitions if min_partitions is not None and min_partitions > len(ranges) else 0
    found = []
    for one in ranges:
        length = _length(one)
        size = length // max(round(length / total * wanted), 1)
        found.append(max(size if max_records is None else min(size, max_records), 1))
    return found


def _pieces(one: LogRange, places: list[Place], fs: Filesystem) -> Iterator[Piece]:
    partition = one.partition
    end = one.end
    reached = one.log_end if end is None else end  # where offsets go back, some places are behind the log's end
    cuts: list[Place] = []
    for place in places:  # an index that lies may lead back
        begins, at = (cuts[-1].offset, cuts[-1].at) if cuts else (one.first, place.at)
        if begins < place.offset < reached and at <= place.at:
            cuts.append(place)
    sizes = _Sizes(fs, partition)
    offsets = [one.first, *(place.offset for place in cuts), end]
    ends_at = [*(place.at for place in cuts), None]
    edges = [sizes.before(one.first), *(sizes.up_to(place) for place in cuts)]
    edges.append(sizes.total if end is None else max(sizes.before(end), edges[-1]))
    for (first, behind), ends, (start, stop) in zip(pairwise(offsets), ends_at, pairwise(edges), strict=True):
        assert first is not None
        yield Piece(partition.path, partition.topic, partition.number, first, behind, ends, stop - start)


class _Sizes:
    """How many bytes of a log are before an offset or a place."""

    def __init__(self, fs: Filesystem, partition: Partition) -> None:
        self._fs = fs
        self._segments = partition.segments
        self._bases = [segment.base_offset for segment in partition.segments]
        self._starts = [0, *accumulate(segment.log.size_bytes for segment in partition.segments)]

    @property
    def total(self) -> int:
        return self._starts[-1]

    def before(self, offset: int) -> int:
        """As the index has it."""
        at = bisect_right(self._bases, offset) - 1
        if at < 0:
            return 0
        segment = self._segments[at]
        if offset == segment.base_offset or segment.is_seven:
            return self._starts[at]
        with self._fs.open_read(segment.log.path) as log:
            return self._starts[at] + SegmentIndexes(self._fs, segment).before_offset(log, offset).position

    def up_to(self, place: Place) -> int:
        return self._starts[self._bases.index(place.segment)] + place.position


def _by_bytes(fs: Filesystem, partition: Partition, split_bytes: int) -> list[Place]:
    """Where segments begin, and in large ones places about so far apart."""
    places: list[Place] = []
    for number, segment in enumerate(partition.segments):
        if number:
            places.append(Place(segment.base_offset, segment.base_offset, 0))
        if segment.log.size_bytes > split_bytes + split_bytes // 2 and not segment.is_seven:
            places += _in_segment(fs, segment, split_bytes)
    return places


def _in_segment(fs: Filesystem, segment: Segment, split_bytes: int) -> Iterator[Place]:
    """Behind batches that the index knows: only there the next offset is known in all formats."""
    indexes = SegmentIndexes(fs, segment)
    index = indexes.whole_offset_index.in_use()
    parts = round(segment.log.size_bytes / split_bytes)
    with fs.open_read(segment.log.path) as log:
        for part in range(1, parts):
            wanted = segment.log.size_bytes * part // parts
            at = bisect_right(index, wanted, key=lambda entry: entry.position) - 1
            if at < 0:
                continue
            header = header_at(log, indexes.before_offset(log, index[at].offset).position)
            if isinstance(header, Batch) and segment.base_offset <= header.last_offset:
                yield Place(header.last_offset + 1, segment.base_offset, header.position + header.size_bytes)


def _by_offsets(fs: Filesystem, one: LogRange, most: int) -> Iterator[Place]:
    """Every so many offsets, moved down to where the batch begins if that is not before the cut before."""
    at, end = one.first, one.first + _length(one)
    segments = one.partition.segments
    bases = [segment.base_offset for segment in segments]
    indexes: SegmentIndexes | None = None
    of: Segment | None = None
    while at + most < end:
        segment = segments[max(bisect_right(bases, at + most) - 1, 0)]
        if segment.is_seven:  # offsets are bytes; a file is read whole
            at += most
            continue
        if indexes is None or segment is not of:
            indexes, of = SegmentIndexes(fs, segment), segment
        place = _place(fs, segment, indexes, at + most)
        if place.offset <= at:
            place = place._replace(offset=at + most)
        at = place.offset
        yield place


def _place(fs: Filesystem, segment: Segment, indexes: SegmentIndexes, offset: int) -> Place:
    with fs.open_read(segment.log.path) as log:
        near = indexes.before_offset(log, offset).position
        chain = HeaderChain(log, near)
        batch = next((header for header in chain if header.last_offset >= offset), None)
    if batch is None:
        # The next segment begins with a message set that reaches below its name, or the rest is damaged: then each
        # piece sees the damage, and this one tells of it.
        return Place(offset, segment.base_offset, chain.position if chain.fault is None else near)
    begins = offset if batch.base_offset == NO_OFFSET else min(batch.base_offset, offset)
    return Place(begins, segment.base_offset, batch.position)


def _packed(pieces: list[Piece], split_bytes: int, pack_bytes: int) -> Iterator[Task]:
    task: list[Piece] = []
    size = 0
    for piece in pieces:
        limit = split_bytes if task and task[-1].path == piece.path else pack_bytes
        if task and size + piece.size_bytes > limit:
            yield tuple(task)
            task, size = [], 0
        joined = _joined(task[-1], piece) if task else None
        if joined is not None:
            task[-1] = joined
        else:
            task.append(piece)
        size += piece.size_bytes
    if task:
        yield tuple(task)


def _joined(one: Piece, other: Piece) -> Piece | None:
    """Two that follow each other in a log as one."""
    if one.path != other.path or one.end != other.first:
        return None
    return one._replace(end=other.end, ends_at=other.ends_at, size_bytes=one.size_bytes + other.size_bytes)
