"""Rolling: when a broker closes the active segment, and the new segment (LogSegment.shouldRoll, UnifiedLog.roll)."""

from __future__ import annotations

from enum import Enum, unique
from typing import NamedTuple

from kafkalog_cli.broker.load_error import LoadFailed
from kafkalog_cli.broker.open_log import OpenLog
from kafkalog_cli.format.index import MAX_RELATIVE_OFFSET, OFFSET_INDEX_ENTRY
from kafkalog_cli.format.timeindex import TIME_INDEX_ENTRY

SMALLEST_BATCH_BYTES = 68
"""Size of a v2 batch with one record that has neither key nor value."""


@unique
class RollCause(Enum):
    """Why a segment is rolled, in the order in which a broker checks. The value is the word in JSON output."""

    SIZE = "size"
    TIME = "time"
    OFFSET_INDEX_FULL = "offset-index-full"
    TIME_INDEX_FULL = "time-index-full"
    OFFSET_RANGE = "offset-range"


class Arriving(NamedTuple):
    """Records that are about to be appended: their size in bytes, largest timestamp in ms, and last offset."""

    size_bytes: int
    max_timestamp: int
    last_offset: int


class ActiveSegment(NamedTuple):
    """The properties of the active segment that decide whether it is rolled.

    `first_timestamp` is the largest timestamp of its first batch, -1 if there is none. Its age then counts from
    `created_ms`, when the broker opened or emptied the segment. The entries are counts of its two indexes.
    """

    base_offset: int
    size_bytes: int
    first_timestamp: int
    created_ms: int
    offset_entries: int
    time_entries: int

    def waited_ms(self, arriving: Arriving, now_ms: int) -> int:
        """Return the age of the segment in ms (LogSegment.timeWaitedForRoll), by record timestamps if it has one."""
        if self.first_timestamp >= 0:
            return arriving.max_timestamp - self.first_timestamp
        return now_ms - self.created_ms


class RollLimits(NamedTuple):
    """Topic settings; `segment_ms` is LogConfig.maxSegmentMs minus the random jitter, if there is any."""

    segment_bytes: int
    segment_ms: int
    segment_index_bytes: int


def roll_cause(active: ActiveSegment, arriving: Arriving, limits: RollLimits, now_ms: int) -> RollCause | None:
    """Return why a broker rolls the segment before it appends `arriving`, None if it does not."""
    if active.size_bytes > limits.segment_bytes - arriving.size_bytes:
        return RollCause.SIZE
    if active.size_bytes > 0 and active.waited_ms(arriving, now_ms) > limits.segment_ms:
        return RollCause.TIME
    if active.offset_entries >= limits.segment_index_bytes // OFFSET_INDEX_ENTRY.size:
        return RollCause.OFFSET_INDEX_FULL
    # One entry is reserved for closing the segment.
    if active.time_entries >= limits.segment_index_bytes // TIME_INDEX_ENTRY.size - 1:
        return RollCause.TIME_INDEX_FULL
    relative_offset = arriving.last_offset - active.base_offset
    return None if 0 <= relative_offset <= MAX_RELATIVE_OFFSET else RollCause.OFFSET_RANGE


def roll(log: OpenLog) -> None:
    """Close the active segment and create an empty segment at the log's end.

    An empty active segment stays as it is. Raises LoadFailed where a broker throws: a segment with that base offset
    or a later one exists.
    """
    active, end_offset = log.active(), log.log_end_offset
    if active.base_offset == end_offset and not active.size_bytes:
        return
    if active.base_offset >= end_offset:
        reason = f"a new segment would begin at {end_offset}, and {active.log_name} is there"
        raise LoadFailed("KafkaException", reason)
    if log.knows_times(active):
        log.close_time_index(active)
    for name, entries in ((active.index_name, active.offset_index()), (active.time_index_name, active.time_index())):
        log.draft.cut(name, len(entries) * entries.layout.size)
    log.create_segment(end_offset)
    log.take_snapshot_at_end()
