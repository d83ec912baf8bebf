"""Find the end of a segment: the last entries of its index, then the batch headers after them (readNextOffset)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

from kafkalog_cli.disk.fs import Filesystem, ReadableFile, check_size, read_all
from kafkalog_cli.errors import KafkalogError
from kafkalog_cli.format.batch import NO_TIMESTAMP, Batch, wrap_int64
from kafkalog_cli.format.fault import Fault, FaultKind, unreadable
from kafkalog_cli.format.index import OffsetIndex
from kafkalog_cli.format.index_entries import SegmentIndex
from kafkalog_cli.format.layout import Layout
from kafkalog_cli.log.partition import Segment
from kafkalog_cli.log.reading.scan import read_readable
from kafkalog_cli.log.reading.segment_reader import SegmentReader


class SegmentEnd(NamedTuple):
    """The end of a segment according to headers only: no CRC is checked.

    `next_offset` is the offset after the last batch, or the base offset in an empty segment. `end_position` is the byte
    after the last batch. `max_timestamp` is the largest timestamp in the headers that were read, in ms, or -1. `faults`
    are in the log, `index_faults` in the index.
    """

    next_offset: int
    end_position: int = 0
    max_timestamp: int = NO_TIMESTAMP
    faults: tuple[Fault, ...] = ()
    index_faults: tuple[Fault, ...] = ()


class LogBounds(NamedTuple):
    """The start and end of a log: `start` is inclusive, `end` is the offset after the last batch.

    `high_watermark` is None if no checkpoint has the partition. `broker_end` is the end that a broker would find, None
    if it is `end`. A broker trusts the last index entry, and loses the batches that it cannot reach from there.
    """

    start: int
    end: int
    high_watermark: int | None = None
    broker_end: int | None = None

    @property
    def next_offset(self) -> int:
        """The offset that a broker assigns to the next record."""
        return self.end if self.broker_end is None else self.broker_end


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
    if end < segment.base_offset:
        message = f"the last batch ends with offset {end - 1}, below the segment's base offset {segment.base_offset}"
        faults.insert(0, Fault(FaultKind.INVALID_ENTRY, walk.last.position, message, last_offset=end - 1))
    return SegmentEnd(end, walk.end_position, walk.max_timestamp, tuple(faults), tuple(index_faults))


def _next(batch: Batch) -> int:
    return wrap_int64(batch.last_offset + 1)


def _walk(log: ReadableFile, position: int) -> _Walk:
    reader = SegmentReader(log, start=position)
    last: Batch | None = None
    max_offset = max_timestamp = NO_TIMESTAMP
    if 0 <= position < log.size_bytes:
        for last in reader.headers():
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
