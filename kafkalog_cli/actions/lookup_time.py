"""Look-ups in one partition by time: the true first record, and what a broker answers (ListOffsets)."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import nlargest
from typing import NamedTuple

from kafkalog_cli.actions.broker_answers import BrokerAnswer, BrokerSearch, SegmentRecord
from kafkalog_cli.actions.broker_view import LogBounds, broker_view, log_bounds
from kafkalog_cli.actions.lookup import Found, with_remarks
from kafkalog_cli.actions.one_record import first_record
from kafkalog_cli.actions.ranges import Range
from kafkalog_cli.format.batch import Batch
from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits
from kafkalog_cli.storage.fs import Filesystem, ReadableFile
from kafkalog_cli.storage.log_end import HeaderChain
from kafkalog_cli.storage.partition import Partition, Segment
from kafkalog_cli.storage.segment_search import SegmentIndexes, StartingPoint

_BATCHES_AT_ONCE = 64


class TimeFound(NamedTuple):
    """The true answer (None: no such record), and the broker's where it would answer otherwise.

    `notes` are about the search; those about the record are in `found`.
    """

    found: Found | None
    broker: BrokerAnswer | None = None
    notes: tuple[str, ...] = ()

    @property
    def offset(self) -> int | None:
        """The offset of the record, None if there is none."""
        return None if self.found is None or self.found.record is None else self.found.record.offset


def lookup_time(
    fs: Filesystem, partition: Partition, timestamp_ms: int, bounds: LogBounds, limits: Limits = DEFAULT_LIMITS
) -> TimeFound:
    """The first record, by offset, at or after a time and at or above the log's start (fetchOffsetByTimestamp).

    `timestamp_ms` is 0 or more. Raises what `open_read` raises.
    """
    search = _TimeSearch(fs, limits)
    answer: Found | None = None
    for segment in partition.segments:
        answer = search.first(segment, timestamp_ms, bounds.start)
        if answer is not None:
            break
    broker = BrokerSearch(fs, partition, broker_view(fs, partition), limits, search.indexes)

    def true_first(segment: Segment) -> SegmentRecord | None:
        return _plain(search.first(segment, timestamp_ms, bounds.start))

    said = broker.first(timestamp_ms, bounds.start, true_first)
    return _compared(answer, said, bounds, tuple(search.notes))


def lookup_max_timestamp(fs: Filesystem, partition: Partition, limits: Limits = DEFAULT_LIMITS) -> TimeFound:
    """The first record with the largest timestamp of the log (ListOffsets -3).

    Raises what `log_bounds` and `open_read` raise.
    """
    search = _TimeSearch(fs, limits)
    best: tuple[int, Found] | None = None
    records: dict[int, Found | None] = {}
    for segment in partition.segments:
        largest = search.largest_timestamp(segment)
        if largest < 0 or (best is not None and largest <= best[0]):
            continue
        found = records[segment.base_offset] = search.latest(segment, largest)
        record = None if found is None else found.record
        if found is not None and record is not None and (best is None or record.timestamp > best[0]):
            best = record.timestamp, found
    broker = BrokerSearch(fs, partition, broker_view(fs, partition), limits, search.indexes)

    def true_latest(segment: Segment) -> SegmentRecord | None:
        return _plain(records.get(segment.base_offset))

    said = broker.latest(search.largest_timestamp, true_latest)
    return _compared(None if best is None else best[1], said, log_bounds(fs, partition), tuple(search.notes))


def offsets_before(
    partition: Partition, timestamp_ms: int, most: int, bounds: LogBounds, *, now_ms: int
) -> list[int]:
    """At most `most` offsets before a time, newest first, by file times (getOffsetsBefore, until 0.10).

    A segment's start counts with the time of its file, the log's end with now.
    """
    starts = _starts(partition, bounds, now_ms)
    last = max((i for i, (_, time_ms) in enumerate(starts) if time_ms <= timestamp_ms), default=-1)
    return [offset for offset, _ in reversed(starts[: last + 1])][:most]


def latest_offsets(partition: Partition, most: int, bounds: LogBounds) -> list[int]:
    """The log's end, where its last segment is not empty, and the starts of segments, newest first, at most `most`."""
    return [offset for offset, _ in reversed(_starts(partition, bounds, 0))][:most]


def earliest_offsets(partition: Partition, most: int, bounds: LogBounds) -> list[int]:
    """The log's start (at most one offset, as a broker answers)."""
    return [offset for offset, _ in _starts(partition, bounds, 0)[:1]][:most]


def _starts(partition: Partition, bounds: LogBounds, now_ms: int) -> list[tuple[int, int]]:
    starts = [(max(segment.base_offset, bounds.start), segment.log.mtime_ms) for segment in partition.segments]
    if partition.segments and partition.segments[-1].log.size_bytes:
        starts.append((bounds.next_offset, now_ms))
    return starts


def _compared(answer: Found | None, said: BrokerAnswer | None, bounds: LogBounds, notes: tuple[str, ...]) -> TimeFound:
    answer = None if answer is None else with_remarks(answer, bounds)
    found = TimeFound(answer, said, notes)
    same = said is None or (not said.failure and said.offset == found.offset)
    return found._replace(broker=None) if same else found


def _plain(found: Found | None) -> SegmentRecord | None:
    record = None if found is None else found.record
    return None if record is None else SegmentRecord(record.offset, record.timestamp)


class _TimeSearch:
    """Searches segments by time; remembers their indexes and what it found."""

    def __init__(self, fs: Filesystem, limits: Limits) -> None:
        self.notes: list[str] = []
        self._fs = fs
        self._limits = limits
        self._indexes: dict[int, SegmentIndexes] = {}
        self._first: dict[tuple[int, int, int], Found | None] = {}

    def indexes(self, segment: Segment) -> SegmentIndexes:
        """The indexes of a segment."""
        if segment.base_offset not in self._indexes:
            self._indexes[segment.base_offset] = SegmentIndexes(self._fs, segment)
        return self._indexes[segment.base_offset]

    def largest_timestamp(self, segment: Segment) -> int:
        """The largest timestamp of a segment by its headers, in ms, -1 if none."""
        if segment.is_seven:
            return -1
        with self._fs.open_read(segment.log.path) as log:
            return self.indexes(segment).largest_timestamp(log)

    def first(self, segment: Segment, timestamp_ms: int, start_offset: int) -> Found | None:
        """The first record of a segment at or after a time and at or above an offset."""
        question = (segment.base_offset, timestamp_ms, start_offset)
        if question not in self._first:
            self._first[question] = self._search(segment, timestamp_ms, start_offset)
        return self._first[question]

    def latest(self, segment: Segment, largest_ms: int) -> Found | None:
        """The first record with the largest timestamp that is in a segment; `largest_ms` is that of its headers."""
        with self._fs.open_read(segment.log.path) as log:
            for found in self._records(log, segment, self._start(log, segment, largest_ms), Range(since_ms=largest_ms)):
                return found
            return self._latest_readable(log, segment)

    def _search(self, segment: Segment, timestamp_ms: int, start_offset: int) -> Found | None:
        if segment.is_seven:
            return None
        with self._fs.open_read(segment.log.path) as log:
            found = self._start(log, segment, timestamp_ms, start_offset)
            wanted = Range(from_offset=start_offset, since_ms=timestamp_ms)
            return next(self._records(log, segment, found, wanted), None)

    def _start(self, log: ReadableFile, segment: Segment, timestamp_ms: int, start_offset: int = 0) -> Found | None:
        """Where to begin, as a `Found` without batch."""
        raise NotImplementedError
