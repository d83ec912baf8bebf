"""Divides ranges of logs into tasks: large ranges are cut at batch ends, by the indexes; small ranges share a task."""

from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import NamedTuple

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.errors import UsageError
from kafkalog_cli.format.batch import NO_OFFSET, Batch
from kafkalog_cli.log.partition import Partition, Segment
from kafkalog_cli.log.reading.header import Headers, header_at
from kafkalog_cli.log.segment_search import SegmentIndexes
from kafkalog_cli.ops.scans.offsets import OffsetRange

SPLIT_BYTES = 128 << 20
"""A larger range is divided into several tasks."""
PACK_BYTES = 32 << 20
"""Smaller ranges share a task: a task costs more than reading them."""
TIMES_OF_HEADERS = 4
"""The factor by which tasks are larger that read only batch headers."""
TIMES_OF_FILES = 2
"""The factor by which tasks are larger that write a file: each waits for the disk, and few large files read better."""
MOST_TASKS = 100_000


class LogCut(NamedTuple):
    """A cut in a log: the batch with the first offset after the cut starts at byte `position` of a segment.

    `segment` is the segment's base offset; cuts are in the order of the log by (segment, position).
    """

    offset: int
    segment: int
    position: int

    @property
    def at(self) -> tuple[int, int]:
        """The (segment, position) of the cut, which compares with that of a fault."""
        return self.segment, self.position


class Piece(NamedTuple):
    """A range of offsets of a partition that one task reads; `end` None: to the log's end.

    The piece reports the damage before `ends_at` (None: it is the last piece). A piece does not see anything before its
    own first batch.
    """

    path: str
    topic: str
    partition: int
    first: int
    end: int | None
    ends_at: tuple[int, int] | None
    size_bytes: int

    def reports(self, at: tuple[int, int]) -> bool:
        """Whether this piece reports damage at that position; if not, a later piece that reads the same batch does."""
        return self.ends_at is None or at < self.ends_at


Task = tuple[Piece, ...]


def tasks_of(
    fs: Filesystem, ranges: list[OffsetRange], min_partitions: int | None, max_records: int | None, *, times: int = 1
) -> list[Task]:
    """Return the tasks, in the order of the ranges.

    A task has about `times` SPLIT_BYTES, or the size that minPartitions and maxRecordsPerPartition set. Those two
    options count offsets, as in Spark's source. Raises UsageError for too many tasks, and the exceptions of
    `open_read`.
    """
    if min_partitions is None and max_records is None:
        split = SPLIT_BYTES * times
        pieces = [
            piece for log_range in ranges for piece in _pieces(log_range, _by_bytes(fs, log_range.partition, split), fs)
        ]
        return list(_packed(pieces, split, PACK_BYTES * times))
    most = _most_offsets(ranges, min_partitions, max_records)
    if sum(1 + _length(log_range) // size for log_range, size in zip(ranges, most, strict=True)) > MOST_TASKS:
        raise UsageError(reason=f"that would make more than {MOST_TASKS} tasks")
    return [
        (piece,)
        for log_range, size in zip(ranges, most, strict=True)
        for piece in _pieces(log_range, list(_by_offsets(fs, log_range, size)), fs)
    ]


def _length(log_range: OffsetRange) -> int:
    end = log_range.log_end if log_range.end is None else min(log_range.end, log_range.log_end)
    return max(end - log_range.first, 0)


def _most_offsets(ranges: list[OffsetRange], min_partitions: int | None, max_records: int | None) -> list[int]:
    """Return the most offsets of a task per range; parts are in proportion to length (KafkaOffsetRangeCalculator)."""
    total = sum(map(_length, ranges)) or 1
    least = min_partitions if min_partitions is not None and min_partitions > len(ranges) else 0
    offsets = []
    for log_range in ranges:
        length = _length(log_range)
        size = length // max(round(length / total * least), 1)
        offsets.append(max(size if max_records is None else min(size, max_records), 1))
    return offsets


def _pieces(log_range: OffsetRange, candidates: list[LogCut], fs: Filesystem) -> Iterator[Piece]:
    partition = log_range.partition
    end = log_range.end
    reached = log_range.log_end if end is None else end  # a candidate may be after the end if offsets decrease
    cuts: list[LogCut] = []
    for cut in candidates:  # a damaged index may lead backwards
        begins, at = (cuts[-1].offset, cuts[-1].at) if cuts else (log_range.first, cut.at)
        if begins < cut.offset < reached and at <= cut.at:
            cuts.append(cut)
    sizes = _Sizes(fs, partition)
    offsets = [log_range.first, *(cut.offset for cut in cuts), end]
    ends_at = [*(cut.at for cut in cuts), None]
    edges = [sizes.before(log_range.first), *(sizes.up_to(cut) for cut in cuts)]
    edges.append(sizes.total if end is None else max(sizes.before(end), edges[-1]))
    for (first, behind), ends, (start, stop) in zip(pairwise(offsets), ends_at, pairwise(edges), strict=True):
        assert first is not None
        yield Piece(partition.path, partition.topic, partition.number, first, behind, ends, stop - start)


class _Sizes:
    """The number of bytes in a log before an offset or a cut."""

    def __init__(self, fs: Filesystem, partition: Partition) -> None:
        self._fs = fs
        self._segments = partition.segments
        self._bases = [segment.base_offset for segment in partition.segments]
        self._starts = [0, *accumulate(segment.log.size_bytes for segment in partition.segments)]

    @property
    def total(self) -> int:
        return self._starts[-1]

    def before(self, offset: int) -> int:
        """Return the number of bytes before `offset`, as precisely as the offset index allows."""
        at = bisect_right(self._bases, offset) - 1
        if at < 0:
            return 0
        segment = self._segments[at]
        if offset == segment.base_offset or segment.is_v07:
            return self._starts[at]
        with self._fs.open_read(segment.log.path) as log:
            return self._starts[at] + SegmentIndexes(self._fs, segment).before_offset(log, offset).position

    def up_to(self, cut: LogCut) -> int:
        return self._starts[self._bases.index(cut.segment)] + cut.position


def _by_bytes(fs: Filesystem, partition: Partition, split_bytes: int) -> list[LogCut]:
    """Return the starts of segments, and in large segments cuts about `split_bytes` apart."""
    candidates: list[LogCut] = []
    for number, segment in enumerate(partition.segments):
        if number:
            candidates.append(LogCut(segment.base_offset, segment.base_offset, 0))
        if segment.log.size_bytes > split_bytes + split_bytes // 2 and not segment.is_v07:
            candidates += _in_segment(fs, segment, split_bytes)
    return candidates


def _in_segment(fs: Filesystem, segment: Segment, split_bytes: int) -> Iterator[LogCut]:
    """Iterate over cuts after batches in the index: only there the next offset is known in all formats."""
    indexes = SegmentIndexes(fs, segment)
    index = indexes.whole_offset_index.in_use()
    parts = round(segment.log.size_bytes / split_bytes)
    with fs.open_read(segment.log.path) as log:
        for part in range(1, parts):
            position = segment.log.size_bytes * part // parts
            at = bisect_right(index, position, key=lambda entry: entry.position) - 1
            if at < 0:
                continue
            header = header_at(log, indexes.before_offset(log, index[at].offset).position)
            if isinstance(header, Batch) and segment.base_offset <= header.last_offset:
                yield LogCut(header.last_offset + 1, segment.base_offset, header.position + header.size_bytes)


def _by_offsets(fs: Filesystem, log_range: OffsetRange, most: int) -> Iterator[LogCut]:
    """Iterate over cuts every `most` offsets, each moved back to its batch's start if that is after the last cut."""
    at, end = log_range.first, log_range.first + _length(log_range)
    segments = log_range.partition.segments
    bases = [segment.base_offset for segment in segments]
    indexes: SegmentIndexes | None = None
    of: Segment | None = None
    while at + most < end:
        segment = segments[max(bisect_right(bases, at + most) - 1, 0)]
        if segment.is_v07:  # offsets are bytes in this format; a file is read whole
            at += most
            continue
        if indexes is None or segment is not of:
            indexes, of = SegmentIndexes(fs, segment), segment
        cut = _cut_at(fs, segment, indexes, at + most)
        if cut.offset <= at:
            cut = cut._replace(offset=at + most)
        at = cut.offset
        yield cut


def _cut_at(fs: Filesystem, segment: Segment, indexes: SegmentIndexes, offset: int) -> LogCut:
    with fs.open_read(segment.log.path) as log:
        near = indexes.before_offset(log, offset).position
        reader = Headers(log, start=near)
        batch = next((header for header in reader if header.last_offset >= offset), None)
    if batch is None:
        # The next segment begins with a message set that starts below its base offset, or the rest is damaged. Then
        # each piece sees the damage, and this piece reports it.
        return LogCut(offset, segment.base_offset, reader.end_position if reader.fault is None else near)
    begins = offset if batch.base_offset == NO_OFFSET else min(batch.base_offset, offset)
    return LogCut(begins, segment.base_offset, batch.position)


def _packed(pieces: list[Piece], split_bytes: int, pack_bytes: int) -> Iterator[Task]:
    task: list[Piece] = []
    size = 0
    for piece in pieces:
        limit = split_bytes if task and task[-1].path == piece.path else pack_bytes
        if task and size + piece.size_bytes > limit:
            yield tuple(task)
            task, size = [], 0
        joined = _join(task[-1], piece) if task else None
        if joined is not None:
            task[-1] = joined
        else:
            task.append(piece)
        size += piece.size_bytes
    if task:
        yield tuple(task)


def _join(piece: Piece, following: Piece) -> Piece | None:
    """Join two adjacent pieces of a log into one piece; return None if they are not adjacent."""
    if piece.path != following.path or piece.end != following.first:
        return None
    size_bytes = piece.size_bytes + following.size_bytes
    return piece._replace(end=following.end, ends_at=following.ends_at, size_bytes=size_bytes)
