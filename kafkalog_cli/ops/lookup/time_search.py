"""Search single segments for records by time, whether or not their indexes are right."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import nlargest
from typing import NamedTuple

from kafkalog_cli.disk.fs import Filesystem, ReadableFile
from kafkalog_cli.format.batch import NO_TIMESTAMP, Batch
from kafkalog_cli.format.limits import Limits
from kafkalog_cli.format.timeindex import TimeIndexEntry
from kafkalog_cli.log.partition import Segment
from kafkalog_cli.log.reading.segment_reader import SegmentReader
from kafkalog_cli.log.segments.segment_search import SegmentIndexes, StartingPoint
from kafkalog_cli.ops.lookup.by_offset import Found, first_record, largest_timestamp_in
from kafkalog_cli.ops.ranges import Range

_BATCHES_AT_ONCE = 64


class _Begin(NamedTuple):
    """Where a search begins, the time index entry that led there, and notes on indexes that were not used."""

    start: StartingPoint
    entry: TimeIndexEntry | None
    notes: tuple[str, ...] = ()


class TimeSearch:
    """Searches segments by time; caches their indexes and its results. `notes` are about damage that it found.

    Methods raise as `open_read` does.
    """

    def __init__(self, fs: Filesystem, limits: Limits) -> None:
        self.notes: list[str] = []
        self._fs = fs
        self._limits = limits
        self._indexes: dict[int, SegmentIndexes] = {}
        self._largest: dict[int, int] = {}
        self._latest: dict[int, Found | None] = {}
        self._first: dict[tuple[int, int, int], Found | None] = {}

    def indexes(self, segment: Segment) -> SegmentIndexes:
        """Return the indexes of a segment."""
        if segment.base_offset not in self._indexes:
            self._indexes[segment.base_offset] = SegmentIndexes(self._fs, segment)
        return self._indexes[segment.base_offset]

    def largest_timestamp(self, segment: Segment) -> int:
        """Return the largest timestamp in the headers of a segment, in ms; -1 if none, as always in 0.7."""
        base = segment.base_offset
        if base not in self._largest:
            self._largest[base] = NO_TIMESTAMP
            if not segment.is_seven:
                with self._fs.open_read(segment.log.path) as log:
                    self._largest[base] = self.indexes(segment).largest_timestamp(log)
        return self._largest[base]

    def first(self, segment: Segment, timestamp_ms: int, start_offset: int) -> Found | None:
        """Return the first record of a segment at or after a time and at or above an offset, None if none."""
        question = (segment.base_offset, timestamp_ms, start_offset)
        if question not in self._first:
            self._first[question] = None
            if not segment.is_seven:
                wanted = Range(from_offset=start_offset, since_ms=timestamp_ms)
                with self._fs.open_read(segment.log.path) as log:
                    begin = self._begin(log, segment, timestamp_ms, start_offset)
                    self._first[question] = next(self._records(log, segment, begin, wanted), None)
        return self._first[question]

    def latest(self, segment: Segment) -> Found | None:
        """Return the first record with the largest timestamp in a segment, among the readable records."""
        base, largest = segment.base_offset, self.largest_timestamp(segment)
        if base not in self._latest:
            self._latest[base] = None
            if largest >= 0:
                with self._fs.open_read(segment.log.path) as log:
                    begin = self._begin(log, segment, largest, base)
                    found = next(self._records(log, segment, begin, Range(since_ms=largest)), None)
                    self._latest[base] = found or self._latest_readable(log, segment)
        return self._latest[base]

    def _begin(self, log: ReadableFile, segment: Segment, timestamp_ms: int, start_offset: int) -> _Begin:
        indexes = self.indexes(segment)
        older, entry = indexes.before_time(log, timestamp_ms)
        start = indexes.before_offset(log, max(older + 1, start_offset))
        doubts = tuple(dict.fromkeys(filter(None, (indexes.time_doubt, start.doubt))))
        if start.entry is None:
            return _Begin(start._replace(doubt="; ".join(doubts)), entry)
        return _Begin(start, entry, doubts)

    def _records(self, log: ReadableFile, segment: Segment, begin: _Begin, wanted: Range) -> Iterator[Found]:
        """Yield the first wanted record of each batch."""
        since_ms, from_offset = wanted.since_ms or 0, wanted.from_offset
        reader = SegmentReader(log, start=begin.start.position)
        for header in reader.headers():
            if header.max_timestamp < since_ms or (from_offset is not None and header.last_offset < from_offset):
                continue
            block, fault = first_record(log, header, self._limits, wanted)
            if block is not None:
                batch = block.batches.row(block.first_row)
                yield Found(segment, begin.start, batch, block, begin.notes, begin.entry)
            if fault is not None:
                self._note(segment, f"the batch at byte {header.position} cannot be read: {fault.message}")
        if reader.fault is not None:
            self._note(segment, f"damaged at byte {reader.end_position}: {reader.fault.message}")

    def _latest_readable(self, log: ReadableFile, segment: Segment) -> Found | None:
        """Return the same as `latest`, by reading the batches with the largest timestamps in their headers.

        It is needed if the batch with the largest timestamp has no readable record with that timestamp.
        """
        best: Found | None = None
        best_ms = NO_TIMESTAMP
        for header in _by_timestamp(log):
            if header.max_timestamp <= best_ms:
                break
            largest = largest_timestamp_in(log, header, self._limits)
            if largest > best_ms:
                block, _ = first_record(log, header, self._limits, Range(since_ms=largest))
                if block is not None:
                    start = StartingPoint(0, None, "no readable record has the largest timestamp of its batch header")
                    best, best_ms = Found(segment, start, block.batches.row(block.first_row), block), largest
        return best

    def _note(self, segment: Segment, what: str) -> None:
        note = f"{segment.log.path}: {what}"
        if note not in self.notes:
            self.notes.append(note)


def _by_timestamp(log: ReadableFile) -> Iterator[Batch]:
    """Yield the batch headers of a segment that have a timestamp, the largest timestamp first."""
    last: tuple[int, int] | None = None
    while True:
        headers = (header for header in SegmentReader(log).headers() if header.max_timestamp >= 0)
        rest = (header for header in headers if last is None or _by_time(header) < last)
        some = nlargest(_BATCHES_AT_ONCE, rest, key=_by_time)
        yield from some
        if len(some) < _BATCHES_AT_ONCE:
            return
        last = _by_time(some[-1])


def _by_time(header: Batch) -> tuple[int, int]:
    return header.max_timestamp, -header.position
