"""Look-ups in one partition by time: what a broker answers (ListOffsets), and the true first record."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kafkalog_cli.actions.lookup import Found, first_record
from kafkalog_cli.actions.ranges import Range
from kafkalog_cli.format.batch import NO_TIMESTAMP
from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits
from kafkalog_cli.format.timeindex import TimeIndexEntry
from kafkalog_cli.storage.fs import Filesystem, ReadableFile
from kafkalog_cli.storage.log_end import HeaderChain
from kafkalog_cli.storage.partition import Partition, Segment
from kafkalog_cli.storage.segment_search import SegmentIndexes, StartingPoint


class TimeFound(NamedTuple):
    """The true answer (None: no such record), and the broker's offset where it would answer otherwise.

    `time_entry` is the time index entry that the search began at. `broker_offset` is -1 where a broker says
    that there is no such record; None where it answers the same.
    """

    found: Found | None
    time_entry: TimeIndexEntry | None
    broker_offset: int | None
    notes: tuple[str, ...] = ()


def lookup_time(
    fs: Filesystem, partition: Partition, timestamp_ms: int, start_offset: int, limits: Limits = DEFAULT_LIMITS
) -> TimeFound:
    """The first record, by offset, at or after a time and at or above `start_offset` (fetchOffsetByTimestamp).

    Raises what `open_read` raises.
    """
    notes: list[str] = []
    answer: Found | None = None
    entry: TimeIndexEntry | None = None
    for segment in partition.segments:
        answer, entry = _first_in_segment(fs, segment, timestamp_ms, start_offset, limits, notes)
        if answer is not None:
            break
    broker = _broker_answer(fs, partition, timestamp_ms, start_offset, limits)
    true_offset = -1 if answer is None or answer.record is None else answer.record.offset
    return TimeFound(answer, entry, None if broker == true_offset else broker, tuple(notes))


def lookup_max_timestamp(fs: Filesystem, partition: Partition, limits: Limits = DEFAULT_LIMITS) -> Found | None:
    """The first record with the largest timestamp of the log (ListOffsets -3); None where no record has one.

    Raises what `open_read` raises.
    """
    best: tuple[int, Segment] | None = None
    for segment in partition.segments:
        with fs.open_read(segment.log.path) as log:
            largest = SegmentIndexes(fs, segment).largest_timestamp(log)
        if largest >= 0 and (best is None or largest > best[0]):
            best = largest, segment
    if best is None:
        return None
    found, _ = _first_in_segment(fs, best[1], best[0], best[1].base_offset, limits, [])
    return found


def offsets_before(  # noqa: PLR0913
    fs: Filesystem, partition: Partition, timestamp_ms: int | None, most: int, *, end_offset: int, now_ms: int
) -> list[int]:
    """At most `most` offsets before a time, newest first, by file times (getOffsetsBefore, before 0.10.1).

    A segment's start counts with the time of its file, the log's end with now; `timestamp_ms` None: the
    earliest only.
    """
    starts = [(segment.base_offset, segment.log.mtime_ms) for segment in partition.segments]
    if partition.segments and partition.segments[-1].log.size_bytes:
        starts.append((end_offset, now_ms))
    if timestamp_ms is None:
        return [offset for offset, _ in starts[:1]][:most]
    last = max((i for i, (_, time_ms) in enumerate(starts) if time_ms <= timestamp_ms), default=-1)
    return [offset for offset, _ in reversed(starts[: last + 1])][:most]


def _first_in_segment(  # noqa: PLR0913, PLR0917 the search's state
    fs: Filesystem, segment: Segment, timestamp_ms: int, start_offset: int, limits: Limits, notes: list[str]
) -> tuple[Found | None, TimeIndexEntry | None]:
    if segment.is_seven:
        return None, None
    indexes = SegmentIndexes(fs, segment)
    with fs.open_read(segment.log.path) as log:
        older, entry = indexes.before_time(log, timestamp_ms)
        start = indexes.before_offset(log, max(older + 1, start_offset))
        doubt = indexes.time_doubt or start.doubt
        for record_found in _records(log, segment, start, timestamp_ms, start_offset, limits, notes):
            return record_found._replace(notes=(doubt,) if doubt else ()), entry
    return None, entry


def _records(  # noqa: PLR0913, PLR0917 the search's state
    log: ReadableFile, segment: Segment, start: StartingPoint, timestamp_ms: int, start_offset: int,
    limits: Limits, notes: list[str],
) -> Iterator[Found]:  # fmt: skip
    chain = HeaderChain(log, start.position)
    for header in chain:
        if header.max_timestamp < timestamp_ms or header.last_offset < start_offset:
            continue
        block, fault = first_record(log, header, limits, Range(from_offset=start_offset, since_ms=timestamp_ms))
        if block is not None:
            yield Found(segment, start, block.batches.row(block.first_row), block)
        if fault is not None:
            notes.append(f"the batch at byte {header.position} of {segment.log.path} cannot be read: {fault.message}")
    if chain.fault is not None:
        notes.append(f"{segment.log.path} is damaged at byte {chain.position}: {chain.fault.message}")


def _broker_answer(fs: Filesystem, partition: Partition, timestamp_ms: int, start_offset: int, limits: Limits) -> int:
    """The offset that a broker gives: it believes the time index, and looks into one segment only. -1: none."""
    for segment in partition.segments:
        indexes = SegmentIndexes(fs, segment)
        largest = indexes.time_index.last_entry.timestamp if len(indexes.time_index) else NO_TIMESTAMP
        # Without a timestamp the file's time stands in (LogSegment.largestTimestamp).
        if (largest if largest >= 0 else segment.log.mtime_ms) < timestamp_ms or segment.is_seven:
            continue
        offset = indexes.time_index.lookup(timestamp_ms).offset
        position = indexes.offset_index.lookup(max(offset, start_offset)).position
        with fs.open_read(segment.log.path) as log:
            for header in HeaderChain(log, position):
                if header.max_timestamp < timestamp_ms:
                    continue
                block, _ = first_record(log, header, limits, Range(from_offset=start_offset, since_ms=timestamp_ms))
                if block is not None:
                    return int(block.records.offset[0])
        return -1
    return -1
