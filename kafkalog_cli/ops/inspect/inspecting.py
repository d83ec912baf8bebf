"""The verb `inspect`: what the files of a partition, and the plans of retention and compaction, say together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, unique

from kafkalog_cli.broker.cleaning.choosing import Dirt
from kafkalog_cli.broker.retention import RetentionPass
from kafkalog_cli.errors import ExitCode, KafkalogError
from kafkalog_cli.log.open_transactions import OpenTransaction
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops.compact.plan import Choice, CompactPlan
from kafkalog_cli.ops.inspect.log_walk import Hole, LogWalk, WalkedSegment
from kafkalog_cli.ops.listing.freeable import PlanRequests, Plans, requests_of
from kafkalog_cli.ops.listing.listing import PartitionListing, list_partition
from kafkalog_cli.ops.listing.root import LogDirRoot, broker_root
from kafkalog_cli.ops.retain.plan import SIZE_LIMIT, TIME_LIMIT, RetainPlan
from kafkalog_cli.ops.session.session import Session
from kafkalog_cli.ops.session.verb import Verb
from kafkalog_cli.ops.session.work import Work
from kafkalog_cli.ops.stats.contents import TimeCounts


@unique
class CleaningPart(Enum):
    """The part of a compacted log in which a segment lies. The value is its word in the output.

    A segment with records on both sides of the first dirty offset is dirty. UNCLEANABLE: no cleaning reads it now.
    """

    CLEAN = "clean"
    DIRTY = "dirty"
    UNCLEANABLE = "uncleanable"


@dataclass(frozen=True, slots=True)
class InspectedSegment:
    """A segment on the time axis. `part` is None for a log that is not compacted, or if that is not known.

    `removed_by` is the pass of retention that removes it now, None if it is kept. `next_offset` is the base offset of
    the next segment, or the log end.
    """

    base_offset: int
    next_offset: int
    size_bytes: int
    batches: int
    first_timestamp_ms: int | None
    last_timestamp_ms: int | None
    part: CleaningPart | None = None
    removed_by: RetentionPass | None = None


@dataclass(frozen=True, slots=True)
class RetentionOutlook:
    """The effect of retention on a log, now and next. None: without a limit, or not known.

    `horizon_ms`: segments with no record from this time on are removed. `next_due_ms` is the time at which the time
    limit removes the first segment that is kept now.
    """

    retention_ms: int | None
    retention_bytes: int | None
    horizon_ms: int | None
    removable_segments: int
    removable_bytes: int
    next_due_ms: int | None


@dataclass(frozen=True, slots=True)
class CleaningOutlook:
    """The clean and the dirty part of a compacted log. `is_due`: a broker cleans it now. `least_ratio` is its limit."""

    dirt: Dirt
    is_due: bool
    least_ratio: float


@dataclass(frozen=True, slots=True)
class InspectedPartition:
    """A partition on the time axis. Offsets are None where the log does not show them.

    `retention` and `cleaning` are None if they are not known, and `cleaning` for a log that is not compacted;
    `unknown_because` has the reasons. `open_transactions` is None if they were not searched for. `holes` are the
    largest of `hole_count`.
    """

    partition: Partition
    log_start_offset: int | None
    log_end_offset: int | None
    high_watermark: int | None
    size_bytes: int
    segments: tuple[InspectedSegment, ...]
    bytes_over_time: TimeCounts
    holes: tuple[Hole, ...]
    hole_count: int
    hole_offsets: int
    open_transactions: Sequence[OpenTransaction] | None
    retention: RetentionOutlook | None
    cleaning: CleaningOutlook | None
    unknown_because: tuple[str, ...] = ()
    exit_code: ExitCode = ExitCode.OK

    @property
    def span_ms(self) -> tuple[int, int] | None:
        """The first and the last timestamp, None without one."""
        first = [one.first_timestamp_ms for one in self.segments if one.first_timestamp_ms is not None]
        last = [one.last_timestamp_ms for one in self.segments if one.last_timestamp_ms is not None]
        return (min(first), max(last)) if first and last else None

    @property
    def batches(self) -> int:
        """The number of batches whose headers were read."""
        return sum(one.batches for one in self.segments)


def common_span(partitions: Sequence[InspectedPartition]) -> tuple[int, int] | None:
    """Return the first and the last timestamp of all partitions, None without one."""
    spans = [one.span_ms for one in partitions if one.span_ms is not None]
    return (min(first for first, _ in spans), max(last for _, last in spans)) if spans else None


@dataclass(frozen=True, slots=True)
class InspectRequest:
    """The requests of the two verbs whose plans are asked, and the state of each log directory."""

    plans: PlanRequests
    roots: Mapping[str, LogDirRoot | None] = field(default_factory=dict)


def inspect_request(session: Session, partitions: Sequence[Partition]) -> InspectRequest:
    """Return the request for a session, which is a dry run and takes no lock. Raises as `Session.settings`."""
    fs = session.context.fs
    roots = {log_dir: broker_root(fs, log_dir) for log_dir in session.log_dirs(partitions)}
    return InspectRequest(requests_of(session, partitions), roots)


def _run(work: Work, request: InspectRequest) -> InspectedPartition:
    log_dir = work.log_dir
    root = None if log_dir is None else request.roots.get(log_dir)
    listing = list_partition(work.fs, work.partition, root)
    for located in listing.faults:
        work.note(located.fault.kind.value, located.fault.message, located.path)
    codes = [ExitCode.CORRUPTION if located.is_corruption else ExitCode.WARNINGS for located in listing.faults]
    walk = LogWalk(work.fs, listing.log_start_offset, request.plans.retain.kernels)
    walked: list[WalkedSegment] = []
    for segment in work.partition.segments:
        try:
            walked.append(walk.follow(segment))
        except (KafkalogError, OSError) as error:
            walked.append(WalkedSegment())
            codes.append(ExitCode.FAILURE)
            work.note("unreadable", f"cannot be read: {error}", segment.log.path)
    known = {located.path for located in listing.faults}
    for path, fault in walk.faults:
        if path not in known:
            work.note(fault.kind.value, f"its batches are known only up to here: {fault.message}", path)
    outlook = _Outlook(work, request)
    return InspectedPartition(
        work.partition,
        listing.log_start_offset,
        listing.log_end_offset,
        listing.high_watermark,
        listing.bytes_by_kind.total,
        tuple(_segments(listing, walked, outlook)),
        walk.bytes_over_time,
        walk.largest_holes,
        walk.hole_count,
        walk.hole_offsets,
        listing.open_transactions,
        outlook.retention,
        outlook.cleaning,
        tuple(dict.fromkeys(outlook.unknown)),
        _worst([*codes, *walk.codes]),
    )


INSPECT = Verb("inspect", _run)
"""Describes each partition on the time axis. Its session is a dry run."""


def _worst(codes: Sequence[ExitCode]) -> ExitCode:
    ranks = (ExitCode.FAILURE, ExitCode.CORRUPTION, ExitCode.WARNINGS)
    return next((code for code in ranks if code in codes), ExitCode.OK)


class _Outlook:
    """The results of the two plans, if they are not refused. Only controllers change the metadata log: it has none."""

    def __init__(self, work: Work, request: InspectRequest) -> None:
        self.unknown: list[str] = []
        self.retain_plan: RetainPlan | None = None
        self.compact_plan: CompactPlan | None = None
        self._now_ms = request.plans.retain.now_ms
        try:
            root, facts = work.begin(), work.facts()
        except (KafkalogError, OSError) as error:
            self.unknown.append(str(error))
            return
        if facts.is_metadata_log:
            return
        self._config = facts.config
        plans = Plans(work, request.plans, root, facts)
        self.retain_plan = plans.planned("retention", plans.retain_plan)
        if facts.config.is_compacted:
            self.compact_plan = plans.planned("compaction", plans.compact_plan)
        self.unknown += plans.unknown

    @property
    def retention(self) -> RetentionOutlook | None:
        plan = self.retain_plan
        if plan is None:
            return None
        config = self._config
        is_limited = config.is_deleted
        limit_ms = config.retention_ms if is_limited and config.is_known(TIME_LIMIT) else -1
        limit_bytes = config.retention_bytes if is_limited and config.is_known(SIZE_LIMIT) else -1
        kept = next((fate for fate in plan.fates if fate.goes is None), None)
        return RetentionOutlook(
            None if limit_ms < 0 else limit_ms,
            None if limit_bytes < 0 else limit_bytes,
            None if limit_ms < 0 else self._now_ms - limit_ms,
            len(plan.removed),
            plan.removed_bytes,
            None if kept is None else kept.due_ms,
        )

    @property
    def cleaning(self) -> CleaningOutlook | None:
        plan = self.compact_plan
        if plan is None or plan.dirt is None:
            return None
        return CleaningOutlook(
            plan.dirt, plan.choice in (Choice.DIRTY, Choice.OVERDUE), self._config.min_cleanable_dirty_ratio
        )


def _segments(
    listing: PartitionListing, walked: Sequence[WalkedSegment], outlook: _Outlook
) -> Iterator[InspectedSegment]:
    segments, plan, cleaning = listing.partition.segments, outlook.retain_plan, outlook.cleaning
    removed = {} if plan is None else {fate.base_offset: fate.goes for fate in plan.removed}
    for at, (segment, found) in enumerate(zip(segments, walked, strict=True)):
        is_last = at + 1 == len(segments)
        following = listing.log_end_offset if is_last else segments[at + 1].base_offset
        following = segment.base_offset if following is None else max(following, segment.base_offset)
        part = None
        if cleaning is not None:
            dirt = cleaning.dirt
            is_clean = following <= dirt.first_dirty
            is_dirty = segment.base_offset < dirt.first_uncleanable
            part = CleaningPart.CLEAN if is_clean else CleaningPart.DIRTY if is_dirty else CleaningPart.UNCLEANABLE
        yield InspectedSegment(
            segment.base_offset, following, segment.log.size_bytes, *found, part, removed.get(segment.base_offset)
        )  # fmt: skip
