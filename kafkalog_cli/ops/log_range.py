"""Finds the offsets in a partition's log, from the batches of its last segment and not from its index alone."""

from __future__ import annotations

from kafkalog_cli.disk.fs import Filesystem, ReadableFile
from kafkalog_cli.disk.kernels import KernelChoice
from kafkalog_cli.format.fault import Fault
from kafkalog_cli.format.index import OffsetIndex
from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits
from kafkalog_cli.log.partition import Partition, Segment
from kafkalog_cli.log.reading.header import header_at
from kafkalog_cli.log.reading.segment_reader import SegmentReader
from kafkalog_cli.log.segments.log_end import LogBounds, last_entries
from kafkalog_cli.ops.checks.segment_walk import SegmentWalk

TRIED_ENTRIES = 16
"""Index entries to try from the end, before the whole segment is read: any of them may not point at a good batch."""
UNKNOWN_RANGE = LogBounds(0, (1 << 63) - 1)


def log_range(
    fs: Filesystem, partition: Partition, limits: Limits = DEFAULT_LIMITS, choice: KernelChoice | None = None
) -> LogBounds | None:
    """Return the offset range that the batches give; None if there is no segment.

    In a damaged last segment, the range ends after the last batch that can be found. A broker may end the log earlier.
    In 0.7 the offsets are byte positions. Raises the exceptions of `open_read`.
    """
    if not partition.segments:
        return None
    first, last = partition.segments[0], partition.segments[-1]
    with fs.open_read(last.log.path) as file:
        return LogBounds(first.base_offset, _end_offset(fs, file, last, limits, choice))


def _end_offset(
    fs: Filesystem, file: ReadableFile, segment: Segment, limits: Limits, choice: KernelChoice | None
) -> int:
    if segment.is_seven:
        reader = SegmentReader(file, limits=limits, seven_base_offset=segment.base_offset)
        return segment.base_offset + reader.run().end_position
    walk = SegmentWalk(file, limits, choice, start=good_start(fs, file, segment, limits))
    walk.run()
    return segment.base_offset if walk.last_offset is None else walk.last_offset + 1


def good_start(fs: Filesystem, file: ReadableFile, segment: Segment, limits: Limits) -> int:
    """Return the position of an index entry near the end where a batch with a valid CRC starts; 0 if there is none."""
    if segment.offset_index is None:
        return 0
    index, _ = last_entries(fs, segment.offset_index.path, OffsetIndex, segment.base_offset, in_use=True)
    for slot in range(len(index) - 1, max(-1, len(index) - 1 - TRIED_ENTRIES), -1):
        position = index[slot].position
        if 0 < position < file.size_bytes and _is_good_batch(file, position, limits):
            return position
    return 0


def _is_good_batch(file: ReadableFile, position: int, limits: Limits) -> bool:
    header = header_at(file, position)
    if header is None or isinstance(header, Fault) or header.size_bytes > limits.max_batch_bytes:
        return False
    return any(batches.valid[0] for batches in SegmentReader.of_batch(file, header, limits).batches())
