"""The largest timestamp of a segment: what its time index says, and what the headers of its batches say."""

from __future__ import annotations

import struct
from enum import Enum, unique
from typing import NamedTuple

from kafkalog_cli.format.batch import LOG_OVERHEAD_BYTES, NO_TIMESTAMP, RECORD_BATCH
from kafkalog_cli.format.fault import Fault
from kafkalog_cli.format.index import OffsetIndex
from kafkalog_cli.format.timeindex import TimeIndex
from kafkalog_cli.storage.fs import Filesystem, ReadableFile
from kafkalog_cli.storage.partition import Segment
from kafkalog_cli.storage.reading.scan import read_readable
from kafkalog_cli.storage.segments.index_end import last_entries
from kafkalog_cli.storage.segments.log_end import HeaderChain


@unique
class TimestampOrigin(Enum):
    """Where a largest timestamp comes from. The value is the word that machine output uses."""

    BATCHES = "batches"
    TIME_INDEX = "time-index"  # and the batch that the entry speaks of has that timestamp
    MTIME = "mtime"  # no batch has a timestamp


class LargestTimestamp(NamedTuple):
    """The largest timestamp of a segment in ms, and where it is from.

    `believed_ms` is what a broker goes by after a clean start: the time index, or without entries the file's mtime.
    `fault` is what kept the headers from being read to the end, `index_fault` what kept the time index from it.
    """

    timestamp_ms: int
    origin: TimestampOrigin
    believed_ms: int
    fault: Fault | None = None
    index_fault: Fault | None = None

    @property
    def is_disputed(self) -> bool:
        """Whether a broker goes by another timestamp (KAFKA-10207)."""
        return self.index_fault is None and self.believed_ms != self.timestamp_ms


def largest_timestamp(fs: Filesystem, segment: Segment, enough_ms: int | None = None) -> LargestTimestamp:
    """The largest timestamp of `segment`, by the headers of all its batches; of a 0.7 segment the file's mtime.

    With `enough_ms` a time index whose last entry is that young is believed, if the batch that it names has the
    timestamp: then the segment is at least as young. Raises what `open_read` raises for the log.
    """
    mtime_ms = segment.log.mtime_ms
    if segment.is_seven:
        return LargestTimestamp(mtime_ms, TimestampOrigin.MTIME, mtime_ms)
    (indexed_ms, offset), index_fault = _last_indexed(fs, segment)
    believed_ms = indexed_ms if indexed_ms >= 0 else mtime_ms
    if enough_ms is not None and indexed_ms >= max(0, enough_ms) and _has(fs, segment, offset, indexed_ms):
        return LargestTimestamp(indexed_ms, TimestampOrigin.TIME_INDEX, believed_ms)
    largest, fault = _of_headers(fs, segment)
    if fault is not None:  # nothing goes for being old of which a part cannot be read
        largest = max(largest, indexed_ms)
    if largest < 0:
        return LargestTimestamp(mtime_ms, TimestampOrigin.MTIME, believed_ms, fault, index_fault)
    return LargestTimestamp(largest, TimestampOrigin.BATCHES, believed_ms, fault, index_fault)


def _last_indexed(fs: Filesystem, segment: Segment) -> tuple[tuple[int, int], Fault | None]:
    """The last entry of the time index: timestamp and offset; -1 and the base offset without one."""
    if segment.time_index is None:
        return (NO_TIMESTAMP, segment.base_offset), None
    entries, faults = last_entries(fs, segment.time_index.path, TimeIndex, segment.base_offset, in_use=True)
    return entries.last_entry, faults[0] if faults else None


def _has(fs: Filesystem, segment: Segment, offset: int, timestamp: int) -> bool:
    """Whether the batch that holds `offset` has that timestamp."""
    if segment.offset_index is None:
        return False
    # Sought from the last entries on: the largest timestamp is mostly near the end.
    entries, _ = last_entries(fs, segment.offset_index.path, OffsetIndex, segment.base_offset, in_use=True)
    position = max(0, entries.lookup(offset).position) if len(entries) else 0
    with fs.open_read(segment.log.path) as log:
        for batch in HeaderChain(log, position):
            if batch.last_offset >= offset:
                return batch.max_timestamp == timestamp
    return False


def _of_headers(fs: Filesystem, segment: Segment) -> tuple[int, Fault | None]:
    with fs.open_read(segment.log.path) as log:
        swift, position = _of_plain_headers(log)
        chain = HeaderChain(log, position)
        largest = max((batch.max_timestamp for batch in chain), default=NO_TIMESTAMP)
    return max(swift, largest), chain.fault


_PIECE_BYTES, _PAGE_BYTES = 1 << 16, 1 << 12
_V2 = 2
_START = RECORD_BATCH.struct_of("base_offset", "batch_length", "partition_leader_epoch", "magic")
_TIMESTAMP = struct.Struct(">q")


def _of_plain_headers(log: ReadableFile) -> tuple[int, int]:
    """The largest timestamp of the v2 batches up to the first that is odd in any way, and where that begins.

    Many headers at a read where batches are small, a page a header where they are large.
    """
    largest, position, buffer = NO_TIMESTAMP, 0, bytearray(_PIECE_BYTES)
    at, got = 0, 0  # of the buffer, which ends at `position - at + got`
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
