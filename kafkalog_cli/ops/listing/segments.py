"""Describe a segment for `ls`: its range of offsets and times, by the first and last headers and the indexes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kafkalog_cli.disk.fs import FileStatus, Filesystem, ReadableFile
from kafkalog_cli.disk.names import FileKind
from kafkalog_cli.errors import KafkalogError, shell_word
from kafkalog_cli.format.batch import NO_TIMESTAMP, Batch
from kafkalog_cli.format.fault import Fault, FaultKind, unreadable
from kafkalog_cli.format.index import OFFSET_INDEX_ENTRY
from kafkalog_cli.format.layout import Layout
from kafkalog_cli.format.timeindex import TIME_INDEX_ENTRY, TimeIndex
from kafkalog_cli.format.txnindex import ABORTED_TXN
from kafkalog_cli.log.partition import MAX_SEGMENT_BYTES, Partition, Segment
from kafkalog_cli.log.reading.header import header_at
from kafkalog_cli.log.reading.segment_reader import SegmentReader
from kafkalog_cli.log.segments.log_end import SegmentEnd, last_entries, segment_end
from kafkalog_cli.ops.listing.reads import FaultNotes, LocatedFault

SEVEN_SCAN_BYTES = 64 << 20
"""The end of a larger 0.7 file is taken from its size: without an index, all messages would have to be read."""


@dataclass(frozen=True, slots=True)
class SegmentListing:
    """A segment. Timestamps are in ms, None if there is none or if it cannot be found cheaply.

    `format` is that of the first batch. `next_offset` is the offset after the last batch. `first_timestamp` is that of
    the first record, and `max_timestamp` the largest in the time index and the last headers.
    """

    partition: Partition
    segment: Segment
    is_active: bool
    format: str | None
    first_offset: int | None
    next_offset: int
    first_timestamp: int | None
    max_timestamp: int | None
    faults: tuple[LocatedFault, ...]


class SegmentStart(NamedTuple):
    """The first batch of a segment: its format, and the offset and timestamp of its first record."""

    format: str | None = None
    offset: int | None = None
    timestamp: int | None = None


def list_segment(fs: Filesystem, partition: Partition, segment: Segment, *, clean: bool) -> SegmentListing:
    """Describe one segment of `partition`; `clean`: the broker stopped cleanly.

    Damage in the files becomes faults, never an exception.
    """
    notes = FaultNotes(fs)
    is_active = segment is partition.segments[-1]
    sidecar_lengths(segment, notes)
    start = start_of(segment, notes)
    end = end_of(segment, notes, clean=clean and is_active, is_active=is_active)
    largest = max(largest_indexed_timestamp(segment, notes), end.max_timestamp)
    return SegmentListing(
        partition,
        segment,
        is_active,
        start.format,
        start.offset,
        end.next_offset,
        start.timestamp,
        None if largest < 0 else largest,
        notes.found,
    )


def start_of(segment: Segment, notes: FaultNotes) -> SegmentStart:
    """Return the first batch of a segment; empty if the segment is empty or does not begin with a batch."""
    if segment.is_seven:
        return SegmentStart("0.7", segment.base_offset if segment.log.size_bytes else None)
    if not segment.log.size_bytes:
        return SegmentStart()
    try:
        with notes.fs.open_read(segment.log.path) as log:
            header = header_at(log, 0)
            return _start(log, header) if isinstance(header, Batch) else SegmentStart()
    except (KafkalogError, OSError) as error:
        notes.add(segment.log.path, [unreadable(error)])
        return SegmentStart()


def end_of(segment: Segment, notes: FaultNotes, *, clean: bool, is_active: bool) -> SegmentEnd:
    """Return the end of a segment, by headers (see `log.segments.log_end`).

    Damage before the last segment is corruption.
    """
    try:
        found = _seven_end(segment, notes, clean=clean) if segment.is_seven else None
        end = found or segment_end(notes.fs, segment, like_clean_start=clean)
    except (KafkalogError, OSError) as error:
        notes.add(segment.log.path, [unreadable(error)])
        return SegmentEnd(segment.base_offset)
    notes.add(segment.log.path, end.faults, is_corruption=not is_active)
    if segment.offset_index is not None:
        notes.add(segment.offset_index.path, end.index_faults)
    return end


def largest_indexed_timestamp(segment: Segment, notes: FaultNotes) -> int:
    """Return the timestamp of the last used entry of the time index, -1 if there is none."""
    if segment.time_index is None or segment.time_index.size_bytes < TIME_INDEX_ENTRY.size:
        return NO_TIMESTAMP
    path = segment.time_index.path
    entries, faults = last_entries(notes.fs, path, TimeIndex, segment.base_offset, in_use=True)
    notes.add(path, faults)
    last = entries.last_entry
    # An index that was preallocated and never written has a single entry of zeros.
    return NO_TIMESTAMP if tuple(last) == (0, segment.base_offset) and len(entries) == 1 else last.timestamp


def sidecar_lengths(segment: Segment, notes: FaultNotes) -> None:
    """Note files with lengths that no broker leaves, and missing indexes."""
    for status, layout in (
        (segment.offset_index, OFFSET_INDEX_ENTRY),
        (segment.time_index, TIME_INDEX_ENTRY),
        (segment.txn_index, ABORTED_TXN),
    ):
        if status is not None and status.size_bytes % layout.size:
            notes.add(status.path, [_odd_length(status, layout)])
    for kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX):
        if is_index_missing(notes.fs, segment, kind):
            path = segment.log.path.removesuffix(FileKind.LOG.value) + kind.value
            command = f"kafkalog recover {shell_word(path.rpartition('/')[0] or '.')} --indexes-only"
            notes.add(path, [Fault(FaultKind.MISSING, 0, f"missing: `{command}` rebuilds it")])
    if segment.log.size_bytes > MAX_SEGMENT_BYTES:
        size, most = str(segment.log.size_bytes), str(MAX_SEGMENT_BYTES)
        message = f"{size} bytes: a broker opens no segment over {most} bytes"
        notes.add(segment.log.path, [Fault(FaultKind.INVALID_LENGTH, 0, message, expected=most, got=size)])


def is_index_missing(fs: Filesystem, segment: Segment, kind: FileKind) -> bool:
    """Whether an index is missing that a broker would have beside this log."""
    status = segment.offset_index if kind is FileKind.OFFSET_INDEX else segment.time_index
    if status is not None or segment.is_seven or not segment.log.size_bytes:
        return False
    try:
        with fs.open_read(segment.log.path) as file:
            first = header_at(file, 0)
    except (KafkalogError, OSError):
        return False
    # Time indexes exist since 0.10.1.
    return isinstance(first, Batch) and (kind is FileKind.OFFSET_INDEX or first.magic >= 2)


def _odd_length(status: FileStatus, layout: Layout) -> Fault:
    rest = status.size_bytes % layout.size
    message = f"{status.size_bytes} bytes are not a multiple of {layout.size}"
    expected, got = f"a multiple of {layout.size}", str(status.size_bytes)
    return Fault(FaultKind.INVALID_LENGTH, status.size_bytes - rest, message, rest, expected, got)


def _start(log: ReadableFile, header: Batch) -> SegmentStart:
    form = f"v{min(header.magic, 2)}"
    # The first offset of a compressed set is only inside it, and a delete horizon replaces the base timestamp.
    if (header.magic < 2 and header.codec) or header.delete_horizon_ms is not None:
        offset, timestamp = _first_record(log, header)
    else:
        offset, timestamp = header.base_offset, header.base_timestamp
    if header.is_log_append_time:
        timestamp = header.max_timestamp
    return SegmentStart(form, offset, None if timestamp is None or timestamp < 0 else timestamp)


def _first_record(log: ReadableFile, header: Batch) -> tuple[int | None, int | None]:
    for block in SegmentReader.of_batch(log, header).blocks():
        if len(block.records):
            return int(block.records.offset[0]), int(block.records.timestamp[0])
    return (header.base_offset if header.magic >= 2 else None), None


def _seven_end(segment: Segment, notes: FaultNotes, *, clean: bool) -> SegmentEnd:
    """Return the end of a 0.7 segment: offsets are byte positions, so it is the end of the last whole message."""
    size = segment.log.size_bytes
    if clean or not size or size > SEVEN_SCAN_BYTES:
        return SegmentEnd(segment.base_offset + size, size)
    with notes.fs.open_read(segment.log.path) as log:
        reader = SegmentReader(log, seven_base_offset=segment.base_offset).run()
        faults = () if reader.fault is None else (reader.fault,)
        return SegmentEnd(segment.base_offset + reader.end_position, reader.end_position, faults=faults)
