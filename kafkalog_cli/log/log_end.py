"""Find the end of a segment, by the last entries of its index and the headers after them, and its largest timestamp."""

from collections.abc import Sequence
from enum import Enum, unique
from typing import Annotated, Any, NamedTuple, TypeVar

from kafkalog_cli.disk.fs import Filesystem, ReadableFile, check_size, read_all
from kafkalog_cli.disk.names import FileKind
from kafkalog_cli.errors import KafkalogError
from kafkalog_cli.format.batch import NO_TIMESTAMP, Batch, wrap_int64
from kafkalog_cli.format.fault import Fault, FaultKind, unreadable
from kafkalog_cli.format.index import OffsetIndex, SegmentIndex, TimeIndex
from kafkalog_cli.format.layout import Layout
from kafkalog_cli.log.partition import Segment
from kafkalog_cli.log.reading.header import Headers, header_at
from kafkalog_cli.log.reading.readable import read_readable
from kafkalog_cli.log.reading.scan import Scan
from kafkalog_cli.results import Hidden, Named


class SegmentEnd(NamedTuple):
    """The end of a segment according to headers only: no CRC is checked.

    `next_offset` is the offset after the last batch, or the base offset in an empty segment. `end_position` is the byte
    after the last batch. `max_timestamp` is the largest timestamp in the headers that were read, in ms, or -1. `faults`
    are in the log, `index_faults` in the index. `last_position` is the byte at which the last batch begins, None
    without a batch.
    """

    next_offset: int
    end_position: int = 0
    max_timestamp: int = NO_TIMESTAMP
    faults: tuple[Fault, ...] = ()
    index_faults: tuple[Fault, ...] = ()
    last_position: int | None = None


class LogBounds(NamedTuple):
    """The start and end of a log: `start` is inclusive, `end` is the offset after the last batch.

    `high_watermark` is None if no checkpoint has the partition. `broker_end` is the end that a broker would find, None
    if it is `end`. A broker trusts the last index entry, and loses the batches that it cannot reach from there.
    `last_position` is the byte of the last segment at which its last batch begins, None if it has no batch.
    `remote_start` is where a tiered log starts in remote storage, None if it starts at `start`.
    """

    start: int
    end: int
    high_watermark: int | None = None
    broker_end: int | None = None
    last_position: int | None = None
    remote_start: int | None = None

    @property
    def next_offset(self) -> int:
        """The offset that a broker assigns to the next record."""
        return self.end if self.broker_end is None else self.broker_end

    @property
    def remote_offsets(self) -> str:
        """The offsets that only remote storage has, in words; "" if there are none."""
        if self.remote_start is None:
            return ""
        return f"offsets {self.remote_start} to {self.start - 1} are in the remote storage of this tiered log"

    def is_remote(self, offset: int) -> bool:
        """Whether only remote storage has the offset."""
        return self.remote_start is not None and self.remote_start <= offset < self.start


class _Walk(NamedTuple):
    """The result of a walk over headers.

    It has the last batch, the end position, the largest offset and timestamp, and the fault that ended the walk.
    """

    last: Batch | None
    end_position: int
    max_offset: int
    max_timestamp: int
    fault: Fault | None


def segment_end(fs: Filesystem, segment: Segment, *, like_clean_start: bool) -> SegmentEnd:
    """Return the end of `segment`, which must not be of 0.7.

    Batches before the last index entry are read only if that entry is not in the log. `like_clean_start`: the result is
    what a broker finds after a clean shutdown, when it trusts the whole index. If the last index entry is not in the
    log, the segment then ends at its base offset. Otherwise such an index is ignored, and the chain of batches is
    followed from the start. Raises what `open_read` raises for the log.
    """
    [end] = segment_ends(fs, segment, [like_clean_start])
    return end


def segment_ends(fs: Filesystem, segment: Segment, like_clean_start: Sequence[bool]) -> list[SegmentEnd]:
    """Return what `segment_end` returns for each value of `like_clean_start`; the log is opened once."""
    if not segment.log.size_bytes:
        return [SegmentEnd(segment.base_offset)] * len(like_clean_start)
    # The index is read before the size of the log is taken, so that it has no newer entry.
    found = [(is_clean, last_indexed(fs, segment, believe=is_clean)) for is_clean in like_clean_start]
    with fs.open_read(segment.log.path) as log:
        return [_end_in(log, segment, indexed, like_clean_start=is_clean) for is_clean, indexed in found]


def v07_end(fs: Filesystem, segment: Segment) -> SegmentEnd:
    """Return the end of a 0.7 segment, where offsets are byte positions, by its messages."""
    with fs.open_read(segment.log.path) as log:
        reader = Scan(log, v07_base_offset=segment.base_offset).run()
    end, faults = reader.end_position, () if reader.fault is None else (reader.fault,)
    return SegmentEnd(segment.base_offset + end, end, faults=faults)


def _end_in(
    log: ReadableFile, segment: Segment, indexed: tuple[int, int, list[Fault]], *, like_clean_start: bool
) -> SegmentEnd:
    offset, position, index_faults = indexed
    walk = _walk(log, position)
    if walk.last is not None and walk.max_offset >= offset:
        return _end(segment, walk, index_faults)
    whole = _walk(log, 0) if position else walk
    lost = f"the last entry, offset {offset} at position {position}, is not in the log"
    if like_clean_start and whole.last is not None:
        lost += (
            f": a broker uses {segment.base_offset} as the end of the log, although batches continue to"
            f" {_next(whole.last)}"
        )
    lies = [*index_faults, Fault(FaultKind.INVALID_ENTRY, 0, lost, base_offset=offset, last_offset=offset)]
    if whole.last is None or like_clean_start:
        faults = () if whole.fault is None else (whole.fault,)
        stale = index_faults if whole.last is None and offset <= segment.base_offset else lies
        return SegmentEnd(segment.base_offset, whole.end_position, whole.max_timestamp, faults, tuple(stale))
    # An incomplete log explains an index entry after its end. If the log is complete, the index is wrong.
    return _end(segment, whole, index_faults if whole.fault is not None else lies)


def _end(segment: Segment, walk: _Walk, index_faults: list[Fault]) -> SegmentEnd:
    assert walk.last is not None
    faults = [] if walk.fault is None else [walk.fault]
    end = _next(walk.last)
    if end <= segment.base_offset:
        message = f"the last batch ends with offset {end - 1}, below the segment's base offset {segment.base_offset}"
        faults.insert(0, Fault(FaultKind.INVALID_ENTRY, walk.last.position, message, last_offset=end - 1))
    return SegmentEnd(
        end, walk.end_position, walk.max_timestamp, tuple(faults), tuple(index_faults), walk.last.position
    )


def _next(batch: Batch) -> int:
    return wrap_int64(batch.last_offset + 1)


def _walk(log: ReadableFile, position: int) -> _Walk:
    reader = Headers(log, start=position)
    last: Batch | None = None
    max_offset = max_timestamp = NO_TIMESTAMP
    if 0 <= position < log.size_bytes:
        for last in reader:
            max_offset = max(max_offset, last.last_offset)
            max_timestamp = max(max_timestamp, last.max_timestamp)
    return _Walk(last, reader.end_position, max_offset, max_timestamp, reader.fault)


def last_indexed(fs: Filesystem, segment: Segment, *, believe: bool) -> tuple[int, int, list[Fault]]:
    """Return the offset of the last index entry, the position that Kafka's search finds for it, and faults.

    Without an entry they are the base offset and 0. `believe`: all bytes of the index are entries, as for a broker.
    Otherwise the zero tail and an incomplete last entry are ignored.
    """
    if segment.offset_index is None:
        return segment.base_offset, 0, []
    path = segment.offset_index.path
    end, faults = last_entries(fs, path, OffsetIndex, segment.base_offset, in_use=not believe)
    offset = end.last_entry.offset
    is_whole = len(end) == segment.offset_index.size_bytes // end.layout.size
    if believe and len(end) and not is_whole and end[0].offset >= offset:
        # The entries are unsorted or end in zeros, so that Kafka's search needs the whole index.
        end, more = all_entries(fs, path, OffsetIndex, segment.base_offset)
        faults = faults or more
    return offset, max(0, end.lookup(offset).position), faults  # LogSegment.translateOffset starts at 0 or later


IndexT = TypeVar("IndexT", bound=SegmentIndex[Any])

WARM_ENTRIES = 8192 // 8 + 1
"""Number of entries that Kafka's search for the last entry reads in an undamaged offset index.

See AbstractIndex.warmEntries.
"""


def entries_in_use(fs: Filesystem, path: str, kind: type[IndexT], base_offset: int) -> tuple[IndexT, list[Fault]]:
    """Return the index without its unused zero tail, and a fault if it cannot be read. Never raises.

    The tail is found by bisection, so entries after a zero in a damaged index are not found. If too many entries are in
    use to be read, there is a fault.
    """
    try:
        with fs.open_read(path) as file:
            count = _count_in_use(file, kind.layout)
            check_size(path, count * kind.layout.size)
            return _read(file, kind, base_offset, 0, count)
    except KafkalogError as error:
        return kind(b"", base_offset), [unreadable(error)]


def last_entries(
    fs: Filesystem, path: str, kind: type[IndexT], base_offset: int, *, in_use: bool
) -> tuple[IndexT, list[Fault]]:
    """Return the last entries, at most `WARM_ENTRIES`, and a fault if they cannot be read. Never raises.

    `in_use`: the last entries before the zero tail. Otherwise they are the last entries in the file, whose length
    decides.
    """
    try:
        with fs.open_read(path) as file:
            count = _count_in_use(file, kind.layout) if in_use else file.size_bytes // kind.layout.size
            return _read(file, kind, base_offset, max(0, count - WARM_ENTRIES), count)
    except KafkalogError as error:
        return kind(b"", base_offset), [unreadable(error)]


def all_entries(fs: Filesystem, path: str, kind: type[IndexT], base_offset: int) -> tuple[IndexT, list[Fault]]:
    """Return every entry in the file, including the zero tail, and a fault if the file cannot be read. Never raises."""
    try:
        return kind(read_all(fs, path), base_offset), []
    except (KafkalogError, OSError) as error:
        return kind(b"", base_offset), [unreadable(error)]


def _read(file: ReadableFile, kind: type[IndexT], base_offset: int, first: int, end: int) -> tuple[IndexT, list[Fault]]:
    size = kind.layout.size
    buffer = bytearray((end - first) * size)
    got, fault = read_readable(file, first * size, memoryview(buffer))
    return kind(bytes(buffer[:got]), base_offset), [] if fault is None else [fault]


def _count_in_use(file: ReadableFile, layout: Layout) -> int:
    """Return the number of entries before the zero tail.

    The tail starts at the first entry, after entry 0, whose relative offset is 0. It is found by bisection.
    """
    low, high = 1, file.size_bytes // layout.size
    if high <= low or not _is_unused(file, layout, high - 1):
        return high
    high -= 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if _is_unused(file, layout, middle) else (middle + 1, high)
    return low


def _is_unused(file: ReadableFile, layout: Layout, slot: int) -> bool:
    buffer = bytearray(4)
    position = slot * layout.size + layout.offset["relative_offset"]
    read_readable(file, position, memoryview(buffer))
    return not any(buffer)


@unique
class TimestampOrigin(Enum):
    """The source of a largest timestamp. The value is the word in JSON output."""

    BATCHES = "batches"
    TIME_INDEX = "time-index"  # and the batch that the entry names has that timestamp
    MTIME = "mtime"  # no batch has a timestamp


class LargestTimestamp(NamedTuple):
    """The largest timestamp of a segment, and its source.

    `fault` is the reason why the headers were not read to the end, `index_fault` why the time index was not read.
    """

    timestamp_ms: Annotated[int, Named("largest_timestamp_ms"), "null: it was not read"]
    origin: Annotated[TimestampOrigin, Named("largest_timestamp_from")]
    believed_ms: Annotated[
        int,
        Named("timestamp_of_broker_ms"),
        "the timestamp that a broker uses: of the time index, or the mtime",
    ]
    fault: Hidden[Fault | None] = None
    index_fault: Hidden[Fault | None] = None

    @property
    def is_disputed(self) -> bool:
        """Whether a broker uses another timestamp (KAFKA-10207)."""
        return self.index_fault is None and self.believed_ms != self.timestamp_ms


def largest_timestamp(fs: Filesystem, segment: Segment, enough_ms: int | None = None) -> LargestTimestamp:
    """Return the largest timestamp of `segment`, from the headers of all its batches.

    For a 0.7 segment it is the mtime. `enough_ms`: if the last entry of the time index is not older than this, its
    timestamp is returned instead. The batch that the entry names must have that timestamp; then the segment is at least
    as young. Raises what `open_read` raises for the log.
    """
    mtime_ms = segment.log.mtime_ms
    if segment.is_v07:
        return LargestTimestamp(mtime_ms, TimestampOrigin.MTIME, mtime_ms)
    (indexed_ms, offset), index_fault = _last_indexed(fs, segment)
    believed_ms = indexed_ms if indexed_ms >= 0 else mtime_ms
    if enough_ms is not None and indexed_ms >= max(0, enough_ms) and _has(fs, segment, offset, indexed_ms):
        return LargestTimestamp(indexed_ms, TimestampOrigin.TIME_INDEX, believed_ms)
    largest, fault = _of_headers(fs, segment)
    if fault is not None:  # a segment that cannot be read in full must not look older than it is
        largest = max(largest, indexed_ms)
    if largest < 0:
        return LargestTimestamp(mtime_ms, TimestampOrigin.MTIME, believed_ms, fault, index_fault)
    return LargestTimestamp(largest, TimestampOrigin.BATCHES, believed_ms, fault, index_fault)


def _last_indexed(fs: Filesystem, segment: Segment) -> tuple[tuple[int, int], Fault | None]:
    """Return the timestamp and offset of the time index's last entry; -1 and the base offset if it has none."""
    if segment.time_index is None:
        return (NO_TIMESTAMP, segment.base_offset), None
    entries, faults = last_entries(fs, segment.time_index.path, TimeIndex, segment.base_offset, in_use=True)
    return entries.last_entry, faults[0] if faults else None


def _has(fs: Filesystem, segment: Segment, offset: int, timestamp: int) -> bool:
    """Whether the batch that contains `offset` has that timestamp."""
    if segment.offset_index is None:
        return False
    # The search starts at the last entries, because the largest timestamp is usually near the end.
    entries, _ = last_entries(fs, segment.offset_index.path, OffsetIndex, segment.base_offset, in_use=True)
    position = max(0, entries.lookup(offset).position) if len(entries) else 0
    with fs.open_read(segment.log.path) as log:
        for batch in Headers(log, start=position):
            if batch.last_offset >= offset:
                return batch.max_timestamp == timestamp
    return False


def _of_headers(fs: Filesystem, segment: Segment) -> tuple[int, Fault | None]:
    with fs.open_read(segment.log.path) as log:
        headers = Headers(log)
        largest = max((max(columns.max_timestamp) for columns in headers.columns()), default=NO_TIMESTAMP)
    return largest, headers.fault


def is_index_missing(fs: Filesystem, segment: Segment, kind: FileKind) -> bool:
    """Whether an index is missing that a broker would have beside this log."""
    status = segment.offset_index if kind is FileKind.OFFSET_INDEX else segment.time_index
    if status is not None or segment.is_v07 or not segment.log.size_bytes:
        return False
    try:
        with fs.open_read(segment.log.path) as file:
            first = header_at(file, 0)
    except (KafkalogError, OSError):
        return False
    # Time indexes exist since 0.10.1.
    return isinstance(first, Batch) and (kind is FileKind.OFFSET_INDEX or first.magic >= 2)
