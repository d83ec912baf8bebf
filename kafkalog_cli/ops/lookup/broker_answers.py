"""A broker's answer to a look-up by time: it relies on its indexes and searches one segment only."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.format.batch import Batch
from kafkalog_cli.format.fault import FaultKind
from kafkalog_cli.format.limits import Limits
from kafkalog_cli.log.partition import Partition, Segment
from kafkalog_cli.log.reading.segment_reader import SegmentReader
from kafkalog_cli.ops.lookup.by_offset import first_record
from kafkalog_cli.ops.lookup.time_search import TimeSearch
from kafkalog_cli.ops.partition_state import PartitionState
from kafkalog_cli.ops.ranges import Range


class BrokerAnswer(NamedTuple):
    """The answer of a broker to a look-up by time.

    `offset` is None if the broker answers that there is no such record. `reason` explains the answer. `failure` is the
    error with which the broker answers instead, "" if none.
    """

    offset: int | None
    reason: str
    failure: str = ""


class BrokerSearch:
    """Searches as UnifiedLog.fetchOffsetByTimestamp does, in the indexes that a broker has.

    Indexes that a broker rebuilds, or has in memory, are right: for their segments the answer comes from `truth`.
    """

    def __init__(self, fs: Filesystem, partition: Partition, view: PartitionState, truth: TimeSearch) -> None:
        self._fs = fs
        self._partition = partition
        self._view = view
        self._truth = truth

    def first(self, timestamp_ms: int, start_offset: int, limits: Limits) -> BrokerAnswer | None:
        """Return the first record at or after a time; None for a 0.7 log, which no broker since 0.10.1 can search."""
        for segment in self._partition.segments:
            if segment.is_seven:
                return None
            largest = self._largest(segment)
            # A segment without timestamps is searched by the time of its file (LogSegment.largestTimestamp).
            if (largest if largest >= 0 else segment.log.mtime_ms) < timestamp_ms:
                continue
            why = f"its time index goes up to {largest}" if largest >= 0 else f"its file is of {segment.log.mtime_ms}"
            reason = f"it looks only into the segment at {segment.base_offset}, as {why}"
            if not self._believes(segment):
                found = self._truth.first(segment, timestamp_ms, start_offset)
                return BrokerAnswer(None if found is None else found.record_offset, reason)
            indexes = self._truth.indexes(segment)
            offset = max(indexes.whole_time_index.lookup(timestamp_ms).offset, start_offset)
            wanted = Range(from_offset=start_offset, since_ms=timestamp_ms)
            return self._scan(segment, offset, lambda b: b.max_timestamp >= timestamp_ms, wanted, limits, reason)
        return BrokerAnswer(None, "by its time indexes no segment goes up to that time")

    def latest(self, limits: Limits) -> BrokerAnswer | None:
        """Return the first record with the largest timestamp; None if a broker's answer cannot be predicted."""
        segments = [segment for segment in self._partition.segments if not segment.is_seven]
        segment = max(segments, key=self._largest, default=None)
        if segment is None:
            return None
        largest = self._largest(segment)
        reason = f"by its time indexes the largest timestamp is {largest}, in the segment at {segment.base_offset}"
        if not self._believes(segment):
            found = self._truth.latest(segment)
            if found is None or found.record_timestamp != largest:
                return None  # the batch is damaged, and a broker cuts the log there before it answers
            return BrokerAnswer(found.record_offset, reason)
        offset = self._truth.indexes(segment).whole_time_index.last_entry.offset
        wanted = Range(since_ms=largest, until_ms=largest + 1)
        return self._scan(segment, offset, lambda b: b.max_timestamp == largest, wanted, limits, reason, once=True)

    def _believes(self, segment: Segment) -> bool:
        return self._view.believes_indexes(self._partition, segment)

    def _largest(self, segment: Segment) -> int:
        if not self._believes(segment):
            return self._truth.largest_timestamp(segment)
        return self._truth.indexes(segment).whole_time_index.last_entry.timestamp

    def _scan(  # noqa: PLR0913, PLR0917 the search's state
        self, segment: Segment, offset: int, fits: Callable[[Batch], bool], wanted: Range, limits: Limits,
        reason: str, *, once: bool = False,
    ) -> BrokerAnswer:  # fmt: skip
        """Return the first wanted record in the batches that fit, starting where the index points.

        `once`: only the first batch that fits is read.
        """
        position = self._truth.indexes(segment).whole_offset_index.lookup(offset).position
        reason += f", and there from byte {position} on"
        if position < 0:
            return BrokerAnswer(None, reason, "no such position")
        with self._fs.open_read(segment.log.path) as log:
            reader = SegmentReader(log, start=position)
            for header in filter(fits, reader.headers()):
                if once and header.magic == 0:  # RecordBatch.offsetOfMaxTimestamp finds no offset then
                    return BrokerAnswer(None, reason)
                block, fault = first_record(log, header, limits, wanted)
                if block is not None:
                    return BrokerAnswer(int(block.records.offset[0]), reason)
                if fault is not None:
                    return BrokerAnswer(None, reason, fault.message)
                if once:
                    return BrokerAnswer(None, reason)
        torn = reader.fault is None or reader.fault.kind is FaultKind.TRAILING_BYTES
        return BrokerAnswer(None, reason, "" if torn or reader.fault is None else reader.fault.message)
