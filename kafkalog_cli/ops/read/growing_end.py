"""The end of a log that may be growing, as its readers see it: after the last whole batch whose CRC is right."""

from __future__ import annotations

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.log.open_transactions import headers_of, newest_snapshot, open_transactions, parts_to_replay
from kafkalog_cli.log.partition import Partition, Segment
from kafkalog_cli.log.reading.segment_reader import DamagePolicy, SegmentReader
from kafkalog_cli.log.segments.log_end import last_indexed
from kafkalog_cli.ops.partition_state import log_bounds
from kafkalog_cli.ops.read.request import Isolation


def growing_end(fs: Filesystem, partition: Partition, isolation: Isolation = Isolation.READ_UNCOMMITTED) -> int:
    """Return the offset up to which records will stay; later records begin at this offset.

    A batch at the end that is incomplete or has a wrong CRC is not included. Damage followed by valid batches is,
    because it will not change. With read_committed, the end is at most the first open transaction (the last stable
    offset). Raises NothingSelected for a partition without segments, and as `open_read` does.
    """
    if not partition.segments or partition.segments[-1].is_seven:
        return log_bounds(fs, partition).end
    end = _good_end(fs, partition.segments[-1])
    return end if isolation is Isolation.READ_UNCOMMITTED else _stable(fs, partition, end)


def _good_end(fs: Filesystem, segment: Segment) -> int:
    """Return the end of the segment: search from the last index entry, or from byte 0 if no valid batch follows it."""
    _, position, _ = last_indexed(fs, segment, believe=False)
    with fs.open_read(segment.log.path) as log:
        for start in dict.fromkeys((position, 0)):
            end: int | None = None
            for batches in SegmentReader(log, DamagePolicy.RESYNC, start=start).batches():
                good = batches.last_valid_row()
                end = end if good is None else int(batches.last_offset[good]) + 1
            if end is not None:
                return end
    return segment.base_offset


def _stable(fs: Filesystem, partition: Partition, end: int) -> int:
    from_offset, snapshot = newest_snapshot(fs, partition, end)
    parts = parts_to_replay(fs, partition.segments, from_offset or 0)
    found = open_transactions(partition.path, snapshot, headers_of(fs, parts, []), from_offset or 0, end)
    return found[0].first_offset if found else end
