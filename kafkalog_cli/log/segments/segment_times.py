"""The largest timestamp of a segment, from its time index and from the headers of its batches."""

from __future__ import annotations

import struct
from enum import Enum, unique
from typing import NamedTuple

from kafkalog_cli.disk.fs import Filesystem, ReadableFile
from kafkalog_cli.format.batch import LOG_OVERHEAD_BYTES, NO_TIMESTAMP, RECORD_BATCH
from kafkalog_cli.format.fault import Fault
from kafkalog_cli.format.index import OffsetIndex
from kafkalog_cli.format.timeindex import TimeIndex
from kafkalog_cli.log.partition import Segment
from kafkalog_cli.log.reading.scan import read_readable
from kafkalog_cli.log.reading.segment_reader import SegmentReader
from kafkalog_cli.log.segments.log_end import last_entries


@unique
class TimestampOrigin(Enum):
    """The source of a largest timestamp. The value is the word in JSON output."""

    BATCHES = "batches"
    TIME_INDEX = "time-index"  # and the batch that the entry names has that timestamp
    MTIME = "mtime"  # no batch has a timestamp


class LargestTimestamp(NamedTuple):
    """The largest timestamp of a segment in ms, and its source.

    `believed_ms` is the timestamp that a broker uses after a clean start: that of the time index, or the file's mtime
    if the index has no entries. `fault` is the reason why the headers were not read to the end, and `index_fault` the
    reason why the time index could not be read.
    """

    timestamp_ms: int
    origin: TimestampOrigin
    believed_ms: int
    fault: Fault | None = None
    index_fault: Fault | None = None

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
    if segment.is_seven:
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
        for batch in SegmentReader(log, start=position).headers():
            if batch.last_offset >= offset:
                return batch.max_timestamp == timestamp
    return False


def _of_headers(fs: Filesystem, segment: Segment) -> tuple[int, Fault | None]:
    with fs.open_read(segment.log.path) as log:
        swift, position = _of_plain_headers(log)
        reader = SegmentReader(log, start=position)
        largest = max((batch.max_timestamp for batch in reader.headers()), default=NO_TIMESTAMP)
    return max(swift, largest), reader.fault


_PIECE_BYTES, _PAGE_BYTES = 1 << 16, 1 << 12
_V2 = 2
_START = RECORD_BATCH.struct_of("base_offset", "batch_length", "partition_leader_epoch", "magic")
_TIMESTAMP = struct.Struct(">q")


def _of_plain_headers(log: ReadableFile) -> tuple[int, int]:
    """Return the largest timestamp of the v2 batches before the first unusual batch, and that batch's position.

    It reads many headers at once if batches are small, and one page per header if they are large.
    """
    largest, position, buffer = NO_TIMESTAMP, 0, bytearray(_PIECE_BYTES)
    at, got = 0, 0  # position and size in the buffer, which ends at byte `position - at + got` of the file
    while True:
        if at + RECORD_BATCH.size > got:
            piece = _PAGE_BYTES if at - got > _PAGE_BYTES else _PIECE_BYTES
            at, got = 0, read_readable(log, position, memoryview(buffer)[:piece])[0]
            if got < RECORD_BATCH.size:
                return largest, position
        _, length, _, magic = _START.unpack_from(buffer, at)
        following = position + LOG_OVERHEAD_BYTES + length
        if magic != _V2 or length < RECORD_BATCH.size - LOG_OVERHEAD_BYTES or following > log.size_bytes:
            return largest, position
        largest = max(largest, _TIMESTAMP.unpack_from(buffer, at + RECORD_BATCH.offset["max_timestamp"])[0])
        at += following - position
        position = following
