"""Read one batch of a segment, and the first wanted record in it."""

from __future__ import annotations

from dataclasses import replace

from kafkalog_cli.disk.fs import ReadableFile
from kafkalog_cli.format.batch import NO_TIMESTAMP, Batch
from kafkalog_cli.format.fault import Fault
from kafkalog_cli.format.limits import Limits
from kafkalog_cli.format.records import RecordBlock
from kafkalog_cli.log.reading.segment_reader import SegmentReader
from kafkalog_cli.ops.ranges import Range, cut


def first_record(
    log: ReadableFile, header: Batch, limits: Limits, wanted: Range
) -> tuple[RecordBlock | None, Fault | None]:
    """Return the first record of a batch in a range, alone in its block, or the fault that prevents reading it."""
    reader = SegmentReader.of_batch(log, header, limits)
    for block in reader.blocks():
        first = cut(block, wanted, 1)
        if len(first.records):
            return replace(first, begun=0, goes_on=False), None
        for fault in block.faults.values():
            return None, fault
    return None, reader.fault


def checked_batch(log: ReadableFile, header: Batch, limits: Limits) -> Batch:
    """Return the batch with its CRC checked; unchanged if the batch cannot be loaded."""
    return next((batches.row(0) for batches in SegmentReader.of_batch(log, header, limits).batches()), header)


def largest_timestamp_in(log: ReadableFile, header: Batch, limits: Limits) -> int:
    """Return the largest timestamp, in ms, among the readable records of a batch; -1 if none."""
    blocks = SegmentReader.of_batch(log, header, limits).blocks()
    return max((int(timestamp) for block in blocks for timestamp in block.records.timestamp), default=NO_TIMESTAMP)
