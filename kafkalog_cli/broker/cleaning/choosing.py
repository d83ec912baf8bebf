"""Finds the part of a log that may be cleaned, how urgent that is, and which segments become one (LogToClean)."""

from collections.abc import Callable, Sequence
from enum import Enum, unique
from typing import NamedTuple

from kafkalog_cli.format.index import MAX_RELATIVE_OFFSET


class LogSegmentSize(NamedTuple):
    """The base offset and sizes of a segment in bytes; an index counts with its complete entries."""

    base_offset: int
    size_bytes: int
    offset_index_bytes: int = 0
    time_index_bytes: int = 0


class LogEnds(NamedTuple):
    """The offsets that bound a log; `last_stable` is not above the high watermark."""

    log_start: int
    log_end: int
    last_stable: int


class CleaningLimits(NamedTuple):
    """Topic settings that decide when a log is cleaned: lags in ms, and the ratio from 0 to 1."""

    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = (1 << 63) - 1


class SegmentTimes(NamedTuple):
    """Functions from a segment's position to a time in ms: its largest timestamp, and that of its first batch."""

    largest_ms: Callable[[int], int]
    first_batch_ms: Callable[[int], int]


@unique
class UpTo(Enum):
    """The limit that ends the cleanable part of a log. The value is the word in JSON output."""

    ACTIVE_SEGMENT = "active-segment"
    LAST_STABLE_OFFSET = "last-stable-offset"
    MIN_COMPACTION_LAG = "min-compaction-lag"


@unique
class CheckpointState(Enum):
    """Whether the line in cleaner-offset-checkpoint is used, or why not. The value is the word in JSON output."""

    NONE = "none"
    USED = "used"
    BELOW_LOG_START = "below-log-start"
    ABOVE_LOG_END = "above-log-end"


class Dirt(NamedTuple):
    """The cleanable part of a log: offsets from `first_dirty` to `first_uncleanable`, the base offset of a segment.

    `clean_bytes` and `cleanable_bytes` count whole segments: both include a segment that contains records below and
    above the first dirty offset. `delay_ms` is the time since max.compaction.lag.ms passed, 0 if it has not.
    """

    first_dirty: int
    first_uncleanable: int
    clean_bytes: int
    cleanable_bytes: int
    up_to: UpTo
    checkpoint: CheckpointState
    delay_ms: int = 0

    @property
    def total_bytes(self) -> int:
        """Clean and cleanable bytes: the size of the segments that a cleaning reads."""
        return self.clean_bytes + self.cleanable_bytes

    @property
    def ratio(self) -> float:
        """Cleanable bytes as a part of all bytes that a cleaning reads, 0 if there are none."""
        return self.cleanable_bytes / self.total_bytes if self.total_bytes else 0.0

    def is_due(self, limits: CleaningLimits) -> bool:
        """Whether a broker would clean the log now."""
        if not self.cleanable_bytes:
            return False
        return self.delay_ms > 0 or self.ratio > limits.min_cleanable_dirty_ratio


def places_between(segments: Sequence[LogSegmentSize], from_offset: int, to_offset: int) -> range:
    """Return the positions of the segments from the segment with `from_offset` to the last based below `to_offset`.

    Mirrors LogSegments.values. Raises ValueError where Kafka throws: `to_offset` is below `from_offset`.
    """
    if to_offset < from_offset:
        raise ValueError(f"Invalid range: {from_offset} is greater than {to_offset}")
    if from_offset == to_offset:
        return range(0)
    first = max((at for at, segment in enumerate(segments) if segment.base_offset <= from_offset), default=0)
    end = sum(segment.base_offset < to_offset for segment in segments)
    return range(first, max(first, end))


def find_dirt(  # noqa: PLR0913, PLR0917
    segments: Sequence[LogSegmentSize],
    ends: LogEnds,
    checkpoint: int | None,
    limits: CleaningLimits,
    now_ms: int,
    times: SegmentTimes,
) -> Dirt:
    """Return the part of a log that a broker would clean at `now_ms`.

    `segments` are in ascending order, the active segment last. `checkpoint` is the offset in
    cleaner-offset-checkpoint, None without a line. The functions of `times` are called only if a lag is set.
    """
    first_dirty, state = _first_dirty(ends, checkpoint)
    active = segments[-1].base_offset
    dirty = _closed_from(segments, first_dirty)
    limit, up_to = min((ends.last_stable, UpTo.LAST_STABLE_OFFSET), (active, UpTo.ACTIVE_SEGMENT), key=lambda at: at[0])
    if limits.min_compaction_lag_ms > 0:
        young_ms = now_ms - limits.min_compaction_lag_ms
        young = next((at for at in dirty if times.largest_ms(at) > young_ms), None)
        if young is not None and segments[young].base_offset < limit:
            limit, up_to = segments[young].base_offset, UpTo.MIN_COMPACTION_LAG
    first_uncleanable = _rounded(segments, max(first_dirty, limit))
    cleanable = places_between(segments, min(first_dirty, first_uncleanable), first_uncleanable)
    return Dirt(
        first_dirty,
        first_uncleanable,
        sum(segment.size_bytes for segment in segments if segment.base_offset < first_dirty),
        sum(segments[at].size_bytes for at in cleanable),
        up_to,
        state,
        _delay_ms(dirty, limits.max_compaction_lag_ms, now_ms, times),
    )


def _first_dirty(ends: LogEnds, checkpoint: int | None) -> tuple[int, CheckpointState]:
    if checkpoint is None:
        return ends.log_start, CheckpointState.NONE
    if checkpoint < ends.log_start:
        return ends.log_start, CheckpointState.BELOW_LOG_START
    if checkpoint > ends.log_end:
        return ends.log_start, CheckpointState.ABOVE_LOG_END
    return checkpoint, CheckpointState.USED


def _closed_from(segments: Sequence[LogSegmentSize], offset: int) -> range:
    """Return the positions of closed segments from that with `offset` on (UnifiedLog.nonActiveLogSegmentsFrom)."""
    active = segments[-1].base_offset
    return range(0) if offset > active else places_between(segments, offset, active)


def _rounded(segments: Sequence[LogSegmentSize], limit: int) -> int:
    """Return the base offset of the segment that contains `limit`."""
    closed = _closed_from(segments, limit)
    return segments[closed[0] if closed else -1].base_offset


def _delay_ms(dirty: range, max_lag_ms: int, now_ms: int, times: SegmentTimes) -> int:
    until_ms = now_ms - max(max_lag_ms, 0)
    if until_ms <= 0:
        return 0  # only timestamps above 0 count, and none of them is that old
    firsts = [first_ms for at in dirty if (first_ms := times.first_batch_ms(at)) > 0]
    return max(0, until_ms - min(firsts)) if firsts else 0


def group_segments(
    segments: Sequence[LogSegmentSize], segment_bytes: int, segment_index_bytes: int, first_uncleanable: int
) -> list[range]:
    """Return groups of adjacent segments, as ranges of positions; each group is cleaned into one segment.

    The logs and each kind of index of a group together are within the limits, by their sizes before cleaning. The
    offsets must fit into one segment; a segment is assumed to end just below the next base offset.
    """
    groups: list[range] = []
    at = 0
    while at < len(segments):
        end = at + 1
        sizes = segments[at][1:]
        while end < len(segments):
            log, offset_index, time_index = together = _sum(sizes, segments[end][1:])
            if log > segment_bytes or max(offset_index, time_index) > segment_index_bytes:
                break
            last_offset = _last_offset(segments, end, first_uncleanable)
            if segments[end].size_bytes and last_offset - segments[at].base_offset > MAX_RELATIVE_OFFSET:
                break
            sizes, end = together, end + 1
        groups.append(range(at, end))
        at = end
    return groups


def _sum(sizes: tuple[int, int, int], more: tuple[int, int, int]) -> tuple[int, int, int]:
    return sizes[0] + more[0], sizes[1] + more[1], sizes[2] + more[2]


def _last_offset(segments: Sequence[LogSegmentSize], at: int, first_uncleanable: int) -> int:
    """Return the largest offset that the segment at position `at` can contain."""
    behind = segments[at + 1].base_offset if at + 1 < len(segments) else first_uncleanable
    return behind - 1
