"""Which segments a broker's retention takes, and for what (UnifiedLog.deleteOldSegments)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum, unique
from typing import NamedTuple

UNLIMITED = -1


@unique
class RetentionPass(Enum):
    """The passes, in their order. The value is the word that machine output uses for what went in one."""

    LOG_START = "log-start-offset"
    SIZE = "size"
    TIME = "time"


class RetainedSegment(NamedTuple):
    """A segment as retention sees it: its base offset, and the size of its log."""

    base_offset: int
    size_bytes: int


class RetentionLimits(NamedTuple):
    """How much is kept, -1 for no limit. `deletes`: the cleanup policy has "delete", else only the log start counts."""

    retention_ms: int = UNLIMITED
    retention_bytes: int = UNLIMITED
    deletes: bool = True


class LogBounds(NamedTuple):
    """Offsets of a log: where it starts, where it ends, and up to where it is replicated."""

    log_start_offset: int
    log_end_offset: int
    high_watermark: int


class Retention(NamedTuple):
    """What the passes came to: for what each of the first segments goes, and the log start afterwards.

    `rolls`: all of them go, and an empty segment at the log's end takes their place.
    """

    passes: tuple[RetentionPass, ...]
    log_start_offset: int
    rolls: bool = False


def retain(
    segments: Sequence[RetainedSegment],
    bounds: LogBounds,
    limits: RetentionLimits,
    now_ms: int,
    largest_timestamp: Callable[[int], int],
) -> Retention:
    """What goes of `segments` (ascending) at `now_ms`. `largest_timestamp` gives that of one, by its place, in ms.

    It is asked only of segments that the time limit may take, and of the first that it does not.
    """
    log = _Log(segments, bounds)
    log.take(RetentionPass.LOG_START, lambda _, upper: upper is not None and upper <= log.log_start_offset)
    if limits.deletes and limits.retention_bytes >= 0 and log.size_bytes >= limits.retention_bytes:
        log.take(RetentionPass.SIZE, _Excess(log, limits.retention_bytes).takes)
    if limits.deletes and limits.retention_ms >= 0:
        # Strictly more: a segment that is exactly as old as the limit stays.
        log.take(RetentionPass.TIME, lambda at, _: now_ms - largest_timestamp(at) > limits.retention_ms)
    return Retention(tuple(log.passes), log.log_start_offset, log.rolls)


class _Excess:
    """What a log has above its size limit; segments go as long as the rest is no smaller than the limit."""

    def __init__(self, log: _Log, retention_bytes: int) -> None:
        self._log = log
        self._bytes = log.size_bytes - retention_bytes

    def takes(self, at: int, _: int | None) -> bool:
        """Whether the segment is within the excess, which then is that much less."""
        size_bytes = self._log.segments[at].size_bytes
        if self._bytes < size_bytes:
            return False
        self._bytes -= size_bytes
        return True


class _Log:
    """The segments that are left; those that went are the first `len(passes)`."""

    def __init__(self, segments: Sequence[RetainedSegment], bounds: LogBounds) -> None:
        self.segments = segments
        self.passes: list[RetentionPass] = []
        self.rolls = False
        self.log_start_offset = bounds.log_start_offset
        self._bounds = bounds

    @property
    def size_bytes(self) -> int:
        """The size of all segments that are left."""
        return sum(segment.size_bytes for segment in self.segments[len(self.passes) :])

    def take(self, why: RetentionPass, goes: Callable[[int, int | None], bool]) -> None:
        """Take segments from the first on, as long as `goes` (its place, the next base offset) holds for them."""
        first = len(self.passes)
        for at in range(first, len(self.segments)):
            is_last = at + 1 == len(self.segments)
            following = None if is_last else self.segments[at + 1].base_offset
            upper = self._bounds.log_end_offset if following is None else following
            # The order matters to `goes`, which counts bytes: what is not replicated is not counted.
            if self._bounds.high_watermark < upper or not goes(at, following):
                break
            if is_last and not self.segments[at].size_bytes:
                break
            self.passes.append(why)
        if len(self.passes) > first:
            self._advance()

    def _advance(self) -> None:
        """The log start moves to the first segment that is left."""
        if len(self.passes) == len(self.segments):
            self.rolls = True
            base_offset = self._bounds.log_end_offset
        else:
            base_offset = self.segments[len(self.passes)].base_offset
        self.log_start_offset = max(self.log_start_offset, base_offset)
