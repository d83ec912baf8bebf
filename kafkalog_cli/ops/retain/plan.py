"""The plan of retention for a partition, segment by segment, and why a segment stays or is removed."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, unique
from itertools import accumulate
from typing import Annotated, ClassVar, NamedTuple

from kafkalog_cli.broker.retention import Retention, RetentionBounds, RetentionLimits, RetentionPass
from kafkalog_cli.errors import ExitCode
from kafkalog_cli.log.log_end import LargestTimestamp
from kafkalog_cli.log.partition import Segment
from kafkalog_cli.log.settings.topic_config import CLEANUP_POLICY, Setting, Settings
from kafkalog_cli.ops.plans import LogPlan, Remark
from kafkalog_cli.ops.purge import PurgePlan
from kafkalog_cli.ops.steps import REBUILD_INDEXES, VERIFY, Step
from kafkalog_cli.ops.timestamp_units import TimestampOddity, unit_of
from kafkalog_cli.results import ABSENT, FLAT, NULL_IS_ZERO, NUMBER_OF, Count, Hidden, Named, of, result


@unique
class Stay(Enum):
    """Why a segment is kept. The value is the word in machine output."""

    EMPTY = "empty-active"  # the last segment, without a record
    POLICY = "cleanup-policy"  # cleanup.policy has no "delete"
    NO_LIMIT = "no-limit"  # no source sets a limit
    LIMITS = "within-limits"
    FUTURE = "future-timestamp"  # the largest timestamp is in the future
    UNIT = "timestamp-unit"  # the largest timestamp is in micro- or nanoseconds
    NOT_REPLICATED = "high-watermark"
    BEHIND = "behind"  # the segment is old enough, but an earlier segment is kept


class SegmentFate(NamedTuple):
    """Whether a segment is removed, and why. Exactly one of `goes` and `stays` has the reason."""

    base_offset: int
    next_offset: int
    size_bytes: Annotated[Count, "of its log"]
    goes: Annotated[RetentionPass | None, "the limit that removes it"] = None
    stays: Annotated[Stay | None, "why it is kept"] = None
    setting: Annotated[Setting | None, "the setting that decides; null: another reason decides"] = None
    largest: Annotated[LargestTimestamp | None, FLAT] = None
    odd: Annotated[TimestampOddity | None, Named("timestamp_is"), "the oddity of the timestamp"] = None
    due_ms: Annotated[int | None, "when the time limit removes it and all before it; null: never"] = None
    due_after_bytes: Annotated[
        Count | None, "the size of appends after which the size limit removes it; null: never"
    ] = None


class RemovedSegment(NamedTuple):
    """A segment that retention removes."""

    base_offset: int
    next_offset: Annotated[int, "the base offset of the next segment, or the log's end"]
    size_bytes: Annotated[Count, "of its log"]
    limit: Annotated[RetentionPass, "the limit that removes it"]


@result("kafkalog.retention/1")
@dataclass(frozen=True, slots=True)
class RetainPlan(LogPlan):
    """The result of retain for a partition, or of its dry run.

    `due` contains files that earlier runs renamed to `.deleted` and that are removed now.
    """

    removed: ClassVar[Annotated[list[RemovedSegment], "the removed segments"]] = of(
        lambda plan: [RemovedSegment(*fate[:4]) for fate in plan.fates if fate.goes is not None]
    )
    removed_bytes: ClassVar[Annotated[Count, "sizes of their logs"]] = of(
        lambda plan: sum(one.size_bytes for one in plan.removed)
    )
    rolls: Annotated[
        bool, Named("rolled"), "all segments are removed, and an empty segment starts at the log's end"
    ] = False
    delay_ms: Annotated[Count, "how long the removed files stay as .deleted"] = 0
    due: Hidden[PurgePlan | None] = None
    unlinked_files: ClassVar[Annotated[Count, NUMBER_OF, "files of earlier runs that were due"]] = of("due.files")
    unlinked_bytes: ClassVar[Annotated[Count, NULL_IS_ZERO, "their sizes"]] = of("due.size_bytes")
    fates: Hidden[tuple[SegmentFate, ...]] = ()
    explains: Hidden[bool] = False
    segments: ClassVar[
        Annotated[tuple[SegmentFate, ...] | None, ABSENT, "the fate of every segment; only with --explain"]
    ] = of(lambda plan: plan.fates if plan.explains else None)

    @property
    def drops_valid(self) -> bool:
        """See ChangePlan."""
        return bool(self.removed)

    @property
    def has_work(self) -> bool:
        """Whether the plan changes anything."""
        is_due = self.due is not None and bool(self.due.files)
        return not self.is_refused and (bool(self.changes or self.line_edits) or is_due)


TIME_LIMIT, SIZE_LIMIT = "retention.ms", "retention.bytes"


class Retained(NamedTuple):
    """A log and the decisions of retention. `times` maps a segment's position to its timestamp, where it was read."""

    segments: Sequence[Segment]
    bounds: RetentionBounds
    limits: RetentionLimits
    retention: Retention
    times: Mapping[int, LargestTimestamp]
    now_ms: int


def fates_of(retained: Retained, config: Settings) -> Iterator[SegmentFate]:
    """Yield the fate of each segment."""
    segments, limits = retained.segments, retained.limits
    total = sum(segment.log.size_bytes for segment in segments)
    up_to = accumulate(segment.log.size_bytes for segment in segments)
    youngest = -1
    for at, (segment, bytes_up_to) in enumerate(zip(segments, up_to, strict=True)):
        largest = retained.times.get(at)
        youngest = max(youngest, -1 if largest is None else largest.timestamp_ms)
        is_timed = limits.deletes and limits.retention_ms >= 0 and largest is not None
        is_sized = limits.deletes and limits.retention_bytes >= 0
        goes = retained.retention.passes[at] if at < len(retained.retention.passes) else None
        stays = None if goes is not None else _why_it_stays(retained, at, total - bytes_up_to)
        yield SegmentFate(
            segment.base_offset,
            _next_base(retained, at),
            segment.log.size_bytes,
            goes,
            stays,
            _setting(config, goes, stays, limits),
            largest,
            None if largest is None else unit_of(largest.timestamp_ms, retained.now_ms),
            youngest + limits.retention_ms + 1 if is_timed else None,
            max(0, limits.retention_bytes + bytes_up_to - total) if is_sized else None,
        )


_REBUILD = (Step("", REBUILD_INDEXES, " rebuilds it"),)


def remarks_of(paths: Iterable[str], fates: Iterable[SegmentFate], disputable: Iterable[bool]) -> Iterator[Remark]:
    """Yield warnings about the timestamps that decide. `disputable`: a broker would read the same time index."""
    for path, fate, is_disputable in zip(paths, fates, disputable, strict=True):
        largest = fate.largest
        if largest is None:
            continue
        if largest.fault is not None:
            message = f"the headers of its batches end in damage: {largest.fault.message}"
            steps = (Step("", VERIFY, " prints the next step"),)
            yield Remark(path, message, ExitCode.WARNINGS, largest.fault.position, steps)
        if largest.index_fault is not None:
            message = (
                "its time index cannot be read, so the timestamps of its batches are used:"
                f" {largest.index_fault.message}"
            )
            yield Remark(path, message, ExitCode.WARNINGS, steps=_REBUILD)
        if largest.is_disputed and is_disputable:
            message = (
                f"its largest timestamp is {largest.timestamp_ms} ({largest.origin.value}), which is used; a broker"
                f" would use {largest.believed_ms}, from the time index or the file's mtime (KAFKA-10207)"
            )
            yield Remark(path, message, ExitCode.WARNINGS, steps=_REBUILD)
        if fate.odd is not None:
            verb = "the segment is kept for that reason" if fate.goes is None else "the segment is still removed"
            message = f"its largest timestamp, {largest.timestamp_ms}, is {fate.odd.value}: {verb}"
            if fate.goes is RetentionPass.TIME or fate.stays in (Stay.FUTURE, Stay.UNIT):
                yield Remark(path, message, ExitCode.WARNINGS)


def _next_base(retained: Retained, at: int) -> int:
    if at + 1 < len(retained.segments):
        return retained.segments[at + 1].base_offset
    return max(retained.bounds.log_end_offset, retained.segments[at].base_offset)


def _why_it_stays(retained: Retained, at: int, bytes_behind: int) -> Stay:
    """Return the reason why a segment is kept. `bytes_behind` is the size of the segments after it."""
    limits = retained.limits
    if at + 1 == len(retained.segments) and not retained.segments[at].log.size_bytes:
        return Stay.EMPTY
    largest = retained.times.get(at)
    is_old = limits.retention_ms >= 0 and largest is not None
    is_old = is_old and largest is not None and retained.now_ms - largest.timestamp_ms > limits.retention_ms
    is_excess = 0 <= limits.retention_bytes <= bytes_behind
    if limits.deletes and (is_old or is_excess):
        is_replicated = retained.bounds.high_watermark >= _next_base(retained, at)
        return Stay.BEHIND if is_replicated else Stay.NOT_REPLICATED
    if not limits.deletes:
        return Stay.POLICY
    if limits.retention_ms < 0 and limits.retention_bytes < 0:
        return Stay.NO_LIMIT
    odd = None if largest is None or limits.retention_ms < 0 else unit_of(largest.timestamp_ms, retained.now_ms)
    if odd in (TimestampOddity.MICROSECONDS, TimestampOddity.NANOSECONDS):
        return Stay.UNIT
    return Stay.FUTURE if odd is TimestampOddity.FUTURE else Stay.LIMITS


_SETTING_OF = {
    RetentionPass.TIME: TIME_LIMIT,
    RetentionPass.SIZE: SIZE_LIMIT,
    Stay.POLICY: CLEANUP_POLICY,
    Stay.NO_LIMIT: TIME_LIMIT,
    Stay.FUTURE: TIME_LIMIT,
    Stay.UNIT: TIME_LIMIT,
}


def _setting(
    config: Settings, goes: RetentionPass | None, stays: Stay | None, limits: RetentionLimits
) -> Setting | None:
    """Return the setting that decides, None if no setting does."""
    if stays is Stay.LIMITS:
        return config[TIME_LIMIT if limits.retention_ms >= 0 else SIZE_LIMIT]
    name = _SETTING_OF.get(goes) if goes is not None else _SETTING_OF.get(stays) if stays is not None else None
    return None if name is None else config[name]
