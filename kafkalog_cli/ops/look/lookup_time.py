"""Look up records of one partition by time: the true record, and a broker's answer if it differs (ListOffsets)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import nlargest
from typing import NamedTuple

from kafkalog_cli.disk.fs import Filesystem, ReadableFile
from kafkalog_cli.errors import AfterLastTime, NoRecordAtTime, NoTimestamps
from kafkalog_cli.format.batch import NO_TIMESTAMP, Batch
from kafkalog_cli.format.fault import FaultKind
from kafkalog_cli.format.index import TimeIndexEntry
from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits
from kafkalog_cli.log.log_end import LogBounds
from kafkalog_cli.log.partition import Partition, Segment
from kafkalog_cli.log.reading.header import Headers
from kafkalog_cli.log.segment_search import SegmentIndexes, StartingPoint
from kafkalog_cli.ops.look.lookup_offset import Found, first_record, largest_timestamp_in, with_remarks
from kafkalog_cli.ops.option_values import time_words
from kafkalog_cli.ops.ranges import Range


class TimeFound(NamedTuple):
    """The true answer (None: no such record), and the broker's answer if it differs.

    `notes` are about damage that the search found; notes about the record are in `found`. `remote` says which offsets
    only remote storage has, where a broker searches first; "" if none.
    """

    found: Found | None
    broker: BrokerAnswer | None = None
    notes: tuple[str, ...] = ()
    remote: str = ""

    @property
    def offset(self) -> int | None:
        """The offset of the record, None if there is none."""
        return None if self.found is None else self.found.record_offset

    def first_to_read(self, partition: Partition) -> int | None:
        """Return an offset before which no record of the partition is as late; None if no record is.

        A damaged log may have a record at an offset of a later segment. A read skips such a record, so that segment's
        base offset is returned if it is smaller.
        """
        if self.found is None or self.found.record_offset is None:
            return None
        base, offset = self.found.segment.base_offset, self.found.record_offset
        later = (segment.base_offset for segment in partition.segments if segment.base_offset > base)
        return min(offset, next(later, offset))


def lookup_time(fs: Filesystem, partition: Partition, timestamp_ms: int, limits: Limits = DEFAULT_LIMITS) -> TimeFound:
    """Return the first record, by offset, at or after a time and from the log's start on (fetchOffsetByTimestamp).

    `timestamp_ms` is 0 or more. Raises as `Partition.bounds` and `open_read` do.
    """
    bounds, search = partition.bounds, TimeSearch(fs, limits)
    answer = search.first_in(partition, timestamp_ms, bounds.start)
    of_broker = BrokerSearch(fs, partition, search).first(timestamp_ms, bounds.start, limits)
    return _compared(answer, of_broker, search, partition, bounds)._replace(remote=bounds.remote_offsets)


def lookup_max_timestamp(fs: Filesystem, partition: Partition) -> TimeFound:
    """Return the first record with the largest timestamp of the log (ListOffsets -3).

    Raises as `Partition.bounds` and `open_read` do.
    """
    search = TimeSearch(fs, DEFAULT_LIMITS)
    best = search.latest_in(partition)
    of_broker = BrokerSearch(fs, partition, search).latest(DEFAULT_LIMITS)
    return _compared(best, of_broker, search, partition, partition.bounds)


def outside_times(fs: Filesystem, partition: Partition, what: str, answer: TimeFound) -> NoRecordAtTime:
    """Return the error that no record is at or after a time.

    `what` is the time in words, and `answer` the result of its look-up.
    """
    damage = "; ".join(answer.notes)
    what = f"{what} on this disk (earlier offsets are in remote storage)" if answer.remote else what
    largest = lookup_max_timestamp(fs, partition).found
    record = None if largest is None else largest.record
    if record is None:
        what = f"{what} ({damage})" if damage else what
        return NoTimestamps(path=partition.path, what=what, damage=damage, first="none", last="none")
    last, newest = record.timestamp, "; ".join((time_words(record.timestamp), *answer.notes))
    return AfterLastTime(path=partition.path, what=what, damage=damage, first="any time", last=last, newest=newest)


def joined_errors(errors: Sequence[NoRecordAtTime]) -> list[NoRecordAtTime]:
    """Return one error for all partitions of a log directory that have no such record, and no damage.

    `errors` are those of one question. Damaged partitions keep errors of their own.
    """
    groups: dict[tuple[type[NoRecordAtTime], str], list[NoRecordAtTime]] = {}
    joined: list[NoRecordAtTime] = []
    for error in errors:
        if error.details["damage"]:
            joined.append(error)
        else:
            groups.setdefault((type(error), str(error.details["path"]).rpartition("/")[0] or "/"), []).append(error)
    for (kind, directory), group in groups.items():
        newest = max(group, key=_last_ms)
        if len(group) > 1:
            newest = kind(
                **{**newest.details, "path": directory, "what": f"{newest.details['what']} in {len(group)} partitions"}
            )
        joined.append(newest)
    return joined


def _last_ms(error: NoRecordAtTime) -> int:
    last = error.details["last"]
    return last if isinstance(last, int) else -1


LATEST, EARLIEST = -1, -2
"""The words for the end and the start of a log, where a request has a time."""


def offsets_before(partition: Partition, timestamp_ms: int, most: int, bounds: LogBounds, now_ms: int) -> list[int]:
    """Return at most `most` offsets before a time, newest first, by file times (getOffsetsBefore, until 0.10).

    A segment's start has the time of its file, and the end of a log whose last segment is not empty the time `now_ms`.
    LATEST takes all of them, EARLIEST only the start of the first segment.
    """
    starts = [(max(segment.base_offset, bounds.start), segment.log.mtime_ms) for segment in partition.segments]
    if partition.segments[-1].log.size_bytes:
        starts.append((bounds.next_offset, now_ms))
    if timestamp_ms == EARLIEST:
        starts = starts[:1]
    elif timestamp_ms != LATEST:
        last = max((i for i, (_, time_ms) in enumerate(starts) if time_ms <= timestamp_ms), default=-1)
        starts = starts[: last + 1]
    return [offset for offset, _ in reversed(starts)][:most]


def _compared(
    answer: Found | None, of_broker: BrokerAnswer | None, search: TimeSearch, partition: Partition, bounds: LogBounds
) -> TimeFound:
    answer = None if answer is None else with_remarks(answer, partition, bounds)
    compared = TimeFound(answer, of_broker, tuple(search.notes))
    same = of_broker is None or (not of_broker.failure and of_broker.offset == compared.offset)
    return compared._replace(broker=None) if same else compared


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

    def __init__(self, fs: Filesystem, partition: Partition, truth: TimeSearch) -> None:
        self._fs = fs
        self._partition = partition
        self._truth = truth

    def first(self, timestamp_ms: int, start_offset: int, limits: Limits) -> BrokerAnswer | None:
        """Return the first record at or after a time; None for a 0.7 log, which no broker since 0.10.1 can search."""
        for segment in self._partition.segments:
            if segment.is_v07:
                return None
            largest = self._largest(segment)
            # A segment without timestamps is searched by the time of its file (LogSegment.largestTimestamp).
            if (largest if largest >= 0 else segment.log.mtime_ms) < timestamp_ms:
                continue
            why = f"its time index goes up to {largest}" if largest >= 0 else f"its file is of {segment.log.mtime_ms}"
            reason = f"it looks only into the segment at {segment.base_offset}, as {why}"
            if not self._partition.believes_indexes(segment):
                record = self._truth.first(segment, timestamp_ms, start_offset)
                return BrokerAnswer(None if record is None else record.record_offset, reason)
            indexes = self._truth.indexes(segment)
            offset = max(indexes.whole_time_index.lookup(timestamp_ms).offset, start_offset)
            wanted = Range(from_offset=start_offset, since_ms=timestamp_ms)
            return self._scan(segment, offset, lambda b: b.max_timestamp >= timestamp_ms, wanted, limits, reason)
        return BrokerAnswer(None, "by its time indexes no segment goes up to that time")

    def latest(self, limits: Limits) -> BrokerAnswer | None:
        """Return the first record with the largest timestamp; None if a broker's answer cannot be predicted."""
        segments = [segment for segment in self._partition.segments if not segment.is_v07]
        segment = max(segments, key=self._largest, default=None)
        if segment is None:
            return None
        largest = self._largest(segment)
        reason = f"by its time indexes the largest timestamp is {largest}, in the segment at {segment.base_offset}"
        if not self._partition.believes_indexes(segment):
            record = self._truth.latest(segment)
            if record is None or record.record_timestamp != largest:
                return None  # the batch is damaged, and a broker cuts the log there before it answers
            return BrokerAnswer(record.record_offset, reason)
        offset = self._truth.indexes(segment).whole_time_index.last_entry.offset
        wanted = Range(since_ms=largest, until_ms=largest + 1)
        return self._scan(segment, offset, lambda b: b.max_timestamp == largest, wanted, limits, reason, once=True)

    def _largest(self, segment: Segment) -> int:
        if not self._partition.believes_indexes(segment):
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
            reader = Headers(log, start=position)
            for header in filter(fits, reader):
                if once and header.magic == 0:  # RecordBatch.offsetOfMaxTimestamp finds no offset then
                    return BrokerAnswer(None, reason)
                record = self._truth.found_in(segment, header, wanted)
                if record is not None:
                    return BrokerAnswer(record.record_offset, reason)
                block, fault = first_record(log, header, limits, wanted)
                if block is not None:
                    return BrokerAnswer(int(block.records.offset[0]), reason)
                if fault is not None:
                    return BrokerAnswer(None, reason, fault.message)
                if once:
                    return BrokerAnswer(None, reason)
        torn = reader.fault is None or reader.fault.kind is FaultKind.TRAILING_BYTES
        return BrokerAnswer(None, reason, "" if torn or reader.fault is None else reader.fault.message)


_BATCHES_AT_ONCE = 64


_Begin = tuple[StartingPoint, TimeIndexEntry | None, tuple[str, ...]]
"""Where a search begins, the time index entry that led there, and notes on indexes that were not used."""


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
            if not segment.is_v07:
                with self._fs.open_read(segment.log.path) as log:
                    self._largest[base] = self.indexes(segment).largest_timestamp(log)
        return self._largest[base]

    def first_in(self, partition: Partition, timestamp_ms: int, start_offset: int) -> Found | None:
        """Return the first record of a partition at or after a time and at or above an offset, None if none."""
        records = (self.first(segment, timestamp_ms, start_offset) for segment in partition.segments)
        return next((record for record in records if record is not None), None)

    def latest_in(self, partition: Partition) -> Found | None:
        """Return the first record with the largest timestamp in a partition, among the readable records."""
        best: Found | None = None
        largest = -1
        for segment in partition.segments:
            if self.largest_timestamp(segment) > largest:
                record = self.latest(segment)
                timestamp = None if record is None else record.record_timestamp
                if timestamp is not None and timestamp > largest:
                    best, largest = record, timestamp
                del record  # frees the memory of its record
        return best

    def first(self, segment: Segment, timestamp_ms: int, start_offset: int) -> Found | None:
        """Return the first record of a segment at or after a time and at or above an offset, None if none."""
        question = (segment.base_offset, timestamp_ms, start_offset)
        if question not in self._first:
            self._first[question] = None
            if not segment.is_v07:
                wanted = Range(from_offset=start_offset, since_ms=timestamp_ms)
                with self._fs.open_read(segment.log.path) as log:
                    begin = self._begin(log, segment, timestamp_ms, start_offset)
                    self._first[question] = next(self._records(log, segment, begin, wanted), None)
        return self._first[question]

    def found_in(self, segment: Segment, batch: Batch, wanted: Range) -> Found | None:
        """Return the answer of `first` for this range, if the batch holds it: the batch is not read twice then."""
        record = self._first.get((segment.base_offset, wanted.since_ms or 0, wanted.from_offset or 0))
        return record if record is not None and record.batch.position == batch.position else None

    def latest(self, segment: Segment) -> Found | None:
        """Return the first record with the largest timestamp in a segment, among the readable records."""
        base, largest = segment.base_offset, self.largest_timestamp(segment)
        if base not in self._latest:
            self._latest[base] = None
            if largest >= 0:
                with self._fs.open_read(segment.log.path) as log:
                    begin = self._begin(log, segment, largest, base)
                    record = next(self._records(log, segment, begin, Range(since_ms=largest)), None)
                    self._latest[base] = record or self._latest_readable(log, segment)
        return self._latest[base]

    def _begin(self, log: ReadableFile, segment: Segment, timestamp_ms: int, start_offset: int) -> _Begin:
        indexes = self.indexes(segment)
        older, entry = indexes.before_time(log, timestamp_ms)
        start = indexes.before_offset(log, max(older + 1, start_offset))
        doubts = tuple(dict.fromkeys(filter(None, (indexes.time_doubt, start.doubt))))
        if start.entry is None:
            return start._replace(doubt="; ".join(doubts)), entry, ()
        return start, entry, doubts

    def _records(self, log: ReadableFile, segment: Segment, begin: _Begin, wanted: Range) -> Iterator[Found]:
        """Yield the first wanted record of each batch."""
        since_ms, from_offset = wanted.since_ms or 0, wanted.from_offset
        start, entry, notes = begin
        reader = Headers(log, start=start.position)
        for header in reader:
            if header.max_timestamp < since_ms or (from_offset is not None and header.last_offset < from_offset):
                continue
            block, fault = first_record(log, header, self._limits, wanted)
            if block is not None:
                batch = block.batches.row(block.first_row)
                yield Found(segment, start, batch, block, notes, entry)
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
        headers = (header for header in Headers(log) if header.max_timestamp >= 0)
        rest = (header for header in headers if last is None or _by_time(header) < last)
        some = nlargest(_BATCHES_AT_ONCE, rest, key=_by_time)
        yield from some
        if len(some) < _BATCHES_AT_ONCE:
            return
        last = _by_time(some[-1])


def _by_time(header: Batch) -> tuple[int, int]:
    return header.max_timestamp, -header.position
