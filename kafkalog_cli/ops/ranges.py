"""Ranges of offsets, times and keys: finds the bytes of a segment that may contain a range, and cuts records to it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import replace
from itertools import pairwise, zip_longest
from typing import TYPE_CHECKING, NamedTuple

from kafkalog_cli.disk.fs import Filesystem, ReadableFile
from kafkalog_cli.disk.names import offset_of_file_name
from kafkalog_cli.format.batch import NO_OFFSET, TIMESTAMP_TYPE_MASK, Batch, BatchColumns
from kafkalog_cli.format.columns import column_of, rows_where
from kafkalog_cli.format.records import RecordBlock
from kafkalog_cli.log.partition import Segment, segment_of_file
from kafkalog_cli.log.reading.header import Headers, header_at
from kafkalog_cli.log.reading.scan import Scan
from kafkalog_cli.log.segment_search import SegmentIndexes, first_batch_reaching

if TYPE_CHECKING:
    from kafkalog_cli.ops.keys import WantedKey


class Range(NamedTuple):
    """A range of records. `from_offset` and `since_ms` are inclusive, `to_offset` and `until_ms` exclusive.

    None means no limit. `key`: only records with this key. Times are in epoch milliseconds. A batch is in the range if
    it may contain a record of the range.
    """

    from_offset: int | None = None
    to_offset: int | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    key: WantedKey | None = None


def window(fs: Filesystem, segment: Segment, log: ReadableFile, wanted: Range) -> tuple[int, int] | None:
    """Return the bytes of a segment (from, to) that contain all batches of the range; None if there are none.

    The indexes are used where they are valid. `until_ms` does not limit the bytes, because later batches may be older.
    """
    indexes = SegmentIndexes(fs, segment)
    first = segment.base_offset if wanted.from_offset is None else max(wanted.from_offset, segment.base_offset)
    if wanted.since_ms is not None:
        older, _ = indexes.before_time(log, wanted.since_ms)
        first = max(first, older + 1)
    start = 0
    if first > segment.base_offset:
        batch = first_batch_reaching(log, indexes.before_offset(log, first).position, first)
        if batch is None:
            return _behind_damage(log, indexes.before_offset(log, first).position)
        start = batch.position
    if wanted.to_offset is None:
        return start, log.size_bytes
    if wanted.to_offset <= segment.base_offset:
        below = batch_from_below(segment, log, wanted.to_offset)
        return None if below is None or below.position < start else (below.position, below.size_bytes)
    near = max(start, indexes.before_offset(log, wanted.to_offset - 1).position)
    last = first_batch_reaching(log, near, wanted.to_offset - 1)
    return start, log.size_bytes if last is None else last.position + last.size_bytes


def batch_from_below(segment: Segment, log: ReadableFile, to_offset: int) -> Batch | None:
    """Return a segment's first batch if it contains records below `to_offset`, which is not above the base offset.

    LogSegment.append checks only the largest offset of a batch. So a segment may start in the middle of a batch, for
    example when a follower that starts at its leader's log start writes a message set. A fetch of an offset below the
    base offset ends in that batch, as LocalLog.read skips a segment without a batch that reaches the offset.
    """
    if segment.is_v07:
        return None
    first = header_at(log, 0)
    if not isinstance(first, Batch):
        return None
    begins: int | None = first.base_offset
    if begins == NO_OFFSET:  # only the records of a message set have its first offset
        blocks = Scan.of_batch(log, first).blocks()
        begins = next((int(block.records.offset[0]) for block in blocks if len(block.records)), None)
    return first if begins is not None and begins < to_offset else None


def begins_below(fs: Filesystem, segment: Segment, to_offset: int) -> bool:
    """Whether the first batch of a segment has records below `to_offset`, which is not above the base offset.

    Raises the exceptions of `open_read`.
    """
    with fs.open_read(segment.log.path) as log:
        return batch_from_below(segment, log, to_offset) is not None


def _behind_damage(log: ReadableFile, position: int) -> tuple[int, int] | None:
    """Return the bytes from the first damage on, None without damage.

    Called if no batch reaches an offset: the segment ended before it, or damage follows, which the caller must see.
    """
    reader = Headers(log, start=position)
    for _ in reader:
        pass
    return None if reader.fault is None else (reader.end_position, log.size_bytes)


def segments_in_range(fs: Filesystem, files: list[str], wanted: Range) -> list[str]:
    """Return `files` without the segments outside the range, by their names and their neighbours' names.

    The first segment with a base offset above the range is kept if its first batch starts in the range. Raises the
    exceptions of `open_read`.
    """
    kept = []
    begins_in: str | None = None  # the folder in which a segment with a base offset above the range was checked
    for path, following in zip_longest(files, files[1:]):
        folder, _, name = path.rpartition("/")
        base, end = offset_of_file_name(name), None
        if following is not None and following.rpartition("/")[0] == folder:
            end = offset_of_file_name(following.rpartition("/")[2])
        if wanted.from_offset is not None and end is not None and end <= wanted.from_offset:
            continue
        if wanted.to_offset is not None and base is not None and base >= wanted.to_offset:
            segment = None if begins_in == folder else segment_of_file(fs, path)
            if segment is None or not segment.log.size_bytes:
                continue
            begins_in = folder
            if not begins_below(fs, segment, wanted.to_offset):
                continue
        kept.append(path)
    return kept


def rows_in_range(batches: BatchColumns, wanted: Range) -> list[tuple[int, int]]:
    """Return runs (first, end) of the rows whose batches may contain a record of the range, by their headers."""
    low, high, oldest, newest = _limits(wanted)
    rows = rows_where(
        lambda base, last, largest, bits, magic: (
            (last >= low)
            & ((base == NO_OFFSET) | (base <= high))
            & (largest >= oldest)
            & ((bits & TIMESTAMP_TYPE_MASK == 0) | (magic <= 0) | (largest <= newest))
        ),
        batches.base_offset, batches.last_offset, batches.max_timestamp, batches.attributes, batches.magic,
    )  # fmt: skip
    return _runs(rows)


def _limits(wanted: Range) -> tuple[int, int, int, int]:
    """Return the first and last offset of a range, and its first and last time."""
    low, oldest = (_LEAST if limit is None else limit for limit in (wanted.from_offset, wanted.since_ms))
    high, newest = (_MOST if limit is None else limit - 1 for limit in (wanted.to_offset, wanted.until_ms))
    return low, high, oldest, newest


_LEAST, _MOST = -(1 << 63), (1 << 63) - 1


def _runs(rows: list[int]) -> list[tuple[int, int]]:
    """Return the runs (first, end) of ascending rows."""
    if not rows:
        return []
    edges = (
        [at for at in range(1, len(rows)) if rows[at] != rows[at - 1] + 1] if rows[-1] - rows[0] >= len(rows) else []
    )
    return [(rows[first], rows[end - 1] + 1) for first, end in pairwise([0, *edges, len(rows)])]


def cut(block: RecordBlock, wanted: Range, most_records: int | None = None) -> RecordBlock:
    """Return the block with only the records of the range, and no more than `most_records`. All batches stay."""
    low, high, oldest, newest = _limits(wanted)
    rows = rows_where(
        lambda offset, time: (offset >= low) & (offset <= high) & (time >= oldest) & (time <= newest),
        block.records.offset, block.records.timestamp,
    )  # fmt: skip
    if wanted.key is not None:
        with_key = set(wanted.key.rows(block))
        rows = [row for row in rows if row in with_key]
    return block.with_rows(rows[:most_records])


def with_records(block: RecordBlock) -> list[RecordBlock]:
    """Return the block without its empty batches, as blocks of consecutive batches."""
    ends = [0, *block.record_ends]
    parts = []
    for first, end in _runs([row for row, (before, after) in enumerate(pairwise(ends)) if after > before]):
        records = block.records.part(ends[first], ends[end])
        shifted = column_of(at - ends[first] for at in ends[first + 1 : end + 1])
        rows = range(block.first_row + first, block.first_row + end)
        faults = {row: fault for row, fault in block.faults.items() if row in rows}
        parts.append(replace(block, first_row=rows.start, end_row=rows.stop, record_ends=shifted, records=records,
                             faults=faults))  # fmt: skip
    return parts


def part_of(block: RecordBlock, first: int, end: int) -> RecordBlock:
    """Return the records `first` to `end` (exclusive) of a block, with their batches and without its faults."""
    ends = block.record_ends
    low, high = bisect_right(ends, first), bisect_left(ends, end) + 1
    counts = column_of(min(count, end) - first for count in ends[low:high])
    records, at = block.records.part(first, end), block.first_row
    return replace(
        block, first_row=at + low, end_row=at + high, record_ends=counts, records=records, faults={}, goes_on=False
    )
