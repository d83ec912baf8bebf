"""Decides which segments a broker's retention removes, and why (UnifiedLog.deleteOldSegments)."""

from collections.abc import Callable, Sequence
from enum import Enum, unique
from typing import NamedTuple

UNLIMITED = -1


@unique
class RetentionPass(Enum):
    """The passes of retention, in a broker's order. In JSON output the value is the cause of a segment's removal."""

    LOG_START = "log-start-offset"
    SIZE = "size"
    TIME = "time"


class RetainedSegment(NamedTuple):
    """The properties of a segment that retention needs: its base offset, and the size of its log."""

    base_offset: int
    size_bytes: int


class RetentionLimits(NamedTuple):
    """Retention limits in ms and bytes, -1 for no limit.

    `deletes`: the cleanup policy contains "delete"; without it only the log start offset removes segments.
    """

    retention_ms: int = UNLIMITED
    retention_bytes: int = UNLIMITED
    deletes: bool = True


class RetentionBounds(NamedTuple):
    """Offsets of a log: its start, its end, and its high watermark."""

    log_start_offset: int
    log_end_offset: int
    high_watermark: int


class Retention(NamedTuple):
    """Result of retention: the pass that removes each of the first segments, and the log start offset afterwards.

    `rolls`: all segments are removed, and an empty segment at the log's end replaces them.
    """

    passes: tuple[RetentionPass, ...]
    log_start_offset: int
    rolls: bool = False


def retain(
    segments: Sequence[RetainedSegment],
    bounds: RetentionBounds,
    limits: RetentionLimits,
    now_ms: int,
    largest_timestamp: Callable[[int], int],
) -> Retention:
    """Decide which of `segments` (in ascending order) retention removes at `now_ms`.

    `largest_timestamp` returns the largest timestamp in ms of a segment, given its position in `segments`. It is
    called only for segments that the time limit may remove, and for the first segment that it keeps.
    """
    log = _Log(segments, bounds)
    log.take(RetentionPass.LOG_START, lambda _, upper: upper is not None and upper <= log.log_start_offset)
    if limits.deletes and limits.retention_bytes >= 0 and log.size_bytes >= limits.retention_bytes:
        log.take(RetentionPass.SIZE, _Excess(log, limits.retention_bytes).takes)
    if limits.deletes and limits.retention_ms >= 0:
        # A segment that is exactly as old as the limit stays.
        log.take(RetentionPass.TIME, lambda at, _: now_ms - largest_timestamp(at) > limits.retention_ms)
    return Retention(tuple(log.passes), log.log_start_offset, log.rolls)


class _Excess:
    """The bytes of a log above its size limit; segments are removed while the rest is not below the limit."""

    def __init__(self, log: "_Log", retention_bytes: int) -> None:
        self._log = log
        self._bytes = log.size_bytes - retention_bytes

    def takes(self, at: int, _: int | None) -> bool:
        """Whether the segment fits in the excess; if so, its size is subtracted from the excess."""
        size_bytes = self._log.segments[at].size_bytes
        if self._bytes < size_bytes:
            return False
        self._bytes -= size_bytes
        return True


class _Log:
    """The segments of a log during retention; the first `len(passes)` of them are removed."""

    def __init__(self, segments: Sequence[RetainedSegment], bounds: RetentionBounds) -> None:
        self.segments = segments
        self.passes: list[RetentionPass] = []
        self.rolls = False
        self.log_start_offset = bounds.log_start_offset
        self._bounds = bounds

    @property
    def size_bytes(self) -> int:
        """Total size of the remaining segments."""
        return sum(segment.size_bytes for segment in self.segments[len(self.passes) :])

    def take(self, why: RetentionPass, goes: Callable[[int, int | None], bool]) -> None:
        """Remove segments from the first on, while `goes` returns True for them.

        The arguments of `goes` are the position of the segment and the next base offset, None for the last segment.
        Segments above the high watermark and an empty active segment stay.
        """
        first = len(self.passes)
        for at in range(first, len(self.segments)):
            is_last = at + 1 == len(self.segments)
            following = None if is_last else self.segments[at + 1].base_offset
            upper = self._bounds.log_end_offset if following is None else following
            # The high watermark is checked first: `goes` counts bytes, and must not count a segment that stays.
            if self._bounds.high_watermark < upper or not goes(at, following):
                break
            if is_last and not self.segments[at].size_bytes:
                break
            self.passes.append(why)
        if len(self.passes) > first:
            self._advance()

    def _advance(self) -> None:
        """Move the log start offset to the first remaining segment."""
        if len(self.passes) == len(self.segments):
            self.rolls = True
            base_offset = self._bounds.log_end_offset
        else:
            base_offset = self.segments[len(self.passes)].base_offset
        self.log_start_offset = max(self.log_start_offset, base_offset)
