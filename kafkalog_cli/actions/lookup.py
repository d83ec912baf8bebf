"""Look-ups in one partition by offset: the record, its batch, and how it was found."""

from __future__ import annotations

from typing import NamedTuple

from kafkalog_cli.actions.ranges import Range, cut
from kafkalog_cli.errors import NothingSelected, OffsetOutOfRange
from kafkalog_cli.format.batch import Batch
from kafkalog_cli.format.fault import Fault
from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits
from kafkalog_cli.format.records import Record, RecordBlock
from kafkalog_cli.storage.fs import Filesystem, ReadableFile
from kafkalog_cli.storage.log_end import HeaderChain, segment_end
from kafkalog_cli.storage.partition import Partition, Segment
from kafkalog_cli.storage.read import RecordReader
from kafkalog_cli.storage.scan import Scan
from kafkalog_cli.storage.segment_search import SegmentIndexes, StartingPoint


class LogBounds(NamedTuple):
    """Where a log begins and ends: `start` inclusive, `end` the next offset; the watermark where one is known."""

    start: int
    end: int
    high_watermark: int | None = None


class Found(NamedTuple):
    """What a look-up found. `block` holds the one record, None where only the batch was wanted or can be read.

    `start` tells how: by which index entry, or from where and why not. `notes` are what a reader of the answer
    should know.
    """

    segment: Segment
    start: StartingPoint
    batch: Batch
    block: RecordBlock | None
    notes: tuple[str, ...] = ()

    @property
    def record(self) -> Record | None:
        """The record, if one was wanted and could be read."""
        return None if self.block is None else next(self.block.rows())


def log_bounds(fs: Filesystem, partition: Partition) -> LogBounds:
    """Earliest and latest offset, by the checkpoints beside the partition and the batches of its last segment.

    Raises NothingSelected for a partition without segments, and what `open_read` raises.
    """
    from kafkalog_cli.actions.listing_root import root_above

    if not partition.segments:
        raise NothingSelected(reason=f"{partition.path} has no segments")
    first, last = partition.segments[0], partition.segments[-1]
    if last.is_seven:
        with fs.open_read(last.log.path) as log:
            scan = Scan(log, seven_base_offset=last.base_offset)
            for _ in scan:
                pass
            return LogBounds(first.base_offset, last.base_offset + scan.valid_bytes)
    root = root_above(fs, partition.path)
    lines = None if root is None else root.offsets_of(partition.topic, partition.number)
    start = first.base_offset
    if lines is not None and lines.log_start is not None:
        start = max(start, lines.log_start)
    end = segment_end(fs, last, like_clean_start=False).next_offset
    watermark = None if lines is None or lines.high_watermark is None else min(end, lines.high_watermark)
    return LogBounds(start, end, watermark)


def lookup_offset(
    fs: Filesystem, partition: Partition, offset: int, *, batch_only: bool = False, limits: Limits = DEFAULT_LIMITS
) -> Found:
    """The record at `offset`, or the next one where compaction or a marker left a gap (UnifiedLog.read).

    Raises OffsetOutOfRange outside of the log, and what `open_read` raises.
    """
    bounds = log_bounds(fs, partition)
    if not bounds.start <= offset < bounds.end:
        what = f"offset {offset}"
        raise OffsetOutOfRange(path=partition.path, what=what, first=bounds.start, last=bounds.end - 1)
    at = max(i for i, segment in enumerate(partition.segments) if segment.base_offset <= offset)
    notes: list[str] = []
    for segment in partition.segments[at:]:
        found = _in_segment(fs, segment, offset, batch_only, limits, notes)
        if found is not None:
            return _with_watermark(found, bounds, offset)
    raise OffsetOutOfRange(
        path=partition.path, what=f"offset {offset} ({'; '.join(notes) or 'no record'})", first=bounds.start,
        last=bounds.end - 1,
    )  # fmt: skip


def _with_watermark(found: Found, bounds: LogBounds, offset: int) -> Found:
    notes = list(found.notes)
    reached = found.batch.last_offset if found.record is None else found.record.offset
    if found.record is not None and reached != offset:
        notes.append(f"no record has offset {offset}: this is the next one")
    if bounds.high_watermark is not None and reached >= bounds.high_watermark:
        notes.append(f"at or above the high watermark {bounds.high_watermark}: consumers do not see it yet")
    return found._replace(notes=tuple(notes))


def _in_segment(  # noqa: PLR0913, PLR0917 the search's state
    fs: Filesystem, segment: Segment, offset: int, batch_only: bool, limits: Limits, notes: list[str]
) -> Found | None:
    with fs.open_read(segment.log.path) as log:
        if segment.is_seven:
            return _in_seven(log, segment, offset, limits)
        start = SegmentIndexes(fs, segment).before_offset(log, offset)
        chain = HeaderChain(log, start.position)
        for header in chain:
            if header.last_offset < offset:
                continue
            if batch_only:
                return Found(segment, start, _checked(log, header, limits), None, tuple(notes))
            block, fault = first_record(log, header, limits, Range(from_offset=offset))
            if block is not None:
                return Found(segment, start, block.batches.row(block.first_row), block, tuple(notes))
            if fault is not None:
                reason = f"its records cannot be read: {fault.message}"
                return Found(segment, start, _checked(log, header, limits), None, (*notes, reason))
        if chain.fault is not None:
            notes.append(f"{segment.log.path} is damaged at byte {chain.position}: {chain.fault.message}")
    return None


def _in_seven(log: ReadableFile, segment: Segment, offset: int, limits: Limits) -> Found | None:
    """0.7: offsets are byte positions, there are no indexes."""
    reader = RecordReader(limits)
    for chunk in Scan(log, limits=limits, seven_base_offset=segment.base_offset):
        for row, batch in enumerate(chunk.batches.rows()):
            if batch.base_offset >= offset:
                for block in reader.blocks(chunk, row, row + 1):
                    first = cut(block, Range(), 1)
                    return Found(segment, StartingPoint(0), batch, first if len(first.records) else None)
    return None


def first_record(
    log: ReadableFile, header: Batch, limits: Limits, wanted: Range
) -> tuple[RecordBlock | None, Fault | None]:
    """The first record of a batch in a range, alone in its block; or what keeps it from being read."""
    scan = Scan(log, start=header.position, end=header.position + header.size_bytes, limits=limits)
    reader = RecordReader(limits)
    for chunk in scan:
        for block in reader.blocks(chunk):
            first = cut(block, wanted, 1)
            if len(first.records):
                return first, None
            for fault in block.faults.values():
                return None, fault
    return None, scan.fault


def _checked(log: ReadableFile, header: Batch, limits: Limits) -> Batch:
    """The batch with its CRC looked at; as it is where it cannot be loaded."""
    scan = Scan(log, start=header.position, end=header.position + header.size_bytes, limits=limits)
    return next((chunk.batches.row(0) for chunk in scan), header)
