"""Decides which segments a broker's retention removes, and why (UnifiedLog.deleteOldSegments)."""

from collections.abc import Callable, Sequence
from enum import Enum, unique
from itertools import accumulate
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

    Each pass removes segments from the first on, until one stays. Segments above the high watermark and an empty active
    segment stay. The size limit removes a segment if the segments after it have as many bytes as the limit.
    `largest_timestamp` returns the largest timestamp in ms of a segment, given its position in `segments`. It is
    called only for segments that the time limit may remove, and for the first segment that it keeps.
    """
    following = [*(segment.base_offset for segment in segments[1:]), bounds.log_end_offset]
    sizes = [segment.size_bytes for segment in segments]
    total, last = sum(sizes), len(segments) - 1
    behind = [total - up_to for up_to in accumulate(sizes)]
    checks: list[tuple[RetentionPass, Callable[[int], bool]]] = [
        (RetentionPass.LOG_START, lambda at: at < last and following[at] <= bounds.log_start_offset)
    ]
    if limits.deletes and limits.retention_bytes >= 0:
        checks.append((RetentionPass.SIZE, lambda at: behind[at] >= limits.retention_bytes))
    if limits.deletes and limits.retention_ms >= 0:
        # A segment that is exactly as old as the limit stays.
        checks.append((RetentionPass.TIME, lambda at: now_ms - largest_timestamp(at) > limits.retention_ms))
    passes: list[RetentionPass] = []
    for why, goes in checks:
        for at in range(len(passes), len(segments)):
            if bounds.high_watermark < following[at] or not goes(at) or (at == last and not sizes[at]):
                break
            passes.append(why)
    log_start_offset = max(bounds.log_start_offset, following[len(passes) - 1]) if passes else bounds.log_start_offset
    return Retention(tuple(passes), log_start_offset, bool(passes) and len(passes) == len(segments))
