"""The verb `inspect`: what the files of a partition, and the plans of retention and compaction, say together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, unique
from heapq import nlargest
from itertools import starmap
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple

from kafkalog_cli.broker.cleaning.choosing import Dirt, UpTo
from kafkalog_cli.broker.retention import RetentionPass
from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.errors import ExitCode, KafkalogError, worst_exit_code
from kafkalog_cli.format.batch import (
    DELETE_HORIZON_MASK,
    NO_OFFSET,
    RECORD_BATCH_MAGIC,
    TIMESTAMP_TYPE_MASK,
)
from kafkalog_cli.format.columns import Arrays
from kafkalog_cli.format.fault import Fault
from kafkalog_cli.format.limits import DEFAULT_LIMITS
from kafkalog_cli.log.open_transactions import OpenTransaction
from kafkalog_cli.log.partition import Partition, Segment
from kafkalog_cli.log.reading.header import Headers
from kafkalog_cli.ops.call.call import Call, Run
from kafkalog_cli.ops.call.options import Paths, VerbOptions
from kafkalog_cli.ops.call.target import Target
from kafkalog_cli.ops.change.compact.plan import Choice, CompactPlan
from kafkalog_cli.ops.change.retain.plan import SIZE_LIMIT, TIME_LIMIT, RetainPlan
from kafkalog_cli.ops.damage import DamageSeen
from kafkalog_cli.ops.look.listing.freeable import Plans
from kafkalog_cli.ops.look.listing.listing import list_partition
from kafkalog_cli.ops.look.log_contents import TimeCounts
from kafkalog_cli.results import Count, Hidden, Named, PathName, of, result

if TYPE_CHECKING:
    from typing_extensions import Unpack


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
    """A segment."""

    base_offset: int
    next_offset: Annotated[int, "the base offset of the next segment, or the log end"]
    size_bytes: Count
    batches: Annotated[Count, "up to the first damage"]
    first_timestamp_ms: Annotated[int | None, "the smallest in the batch headers"]
    last_timestamp_ms: Annotated[int | None, "the largest in the batch headers"]
    part: Annotated[CleaningPart | None, "the part of a compacted log; null for other logs, or if it is not known"] = (
        None
    )
    removed_by: Annotated[RetentionPass | None, "the pass of retention that removes it now; null if it is kept"] = None


@dataclass(frozen=True, slots=True)
class RetentionOutlook:
    """The effect of retention, now and next."""

    retention_ms: Annotated[int | None, "null: no limit, or not known"]
    retention_bytes: Annotated[int | None, "null: no limit, or not known"]
    horizon_ms: Annotated[int | None, "segments with no timestamp from here on are removed"]
    removable_segments: Count
    removable_bytes: Count
    next_due_ms: Annotated[int | None, "when the time limit removes the first segment that is kept now"]


@dataclass(frozen=True, slots=True)
class CleaningOutlook:
    """The clean and the dirty part of a compacted log."""

    dirt: Hidden[Dirt]
    first_dirty: ClassVar[Annotated[int, "an offset"]] = of("dirt.first_dirty")
    first_uncleanable: ClassVar[Annotated[int, "an offset"]] = of("dirt.first_uncleanable")
    clean_bytes: ClassVar[Count] = of("dirt.clean_bytes")
    cleanable_bytes: ClassVar[Count] = of("dirt.cleanable_bytes")
    ratio: ClassVar[Annotated[float, "cleanable bytes as a part of clean and cleanable bytes"]] = of("dirt.ratio")
    least_ratio: Annotated[float, "min.cleanable.dirty.ratio"]
    up_to: ClassVar[Annotated[UpTo, "the limit that ends the cleanable part"]] = of("dirt.up_to")
    is_due: Annotated[bool, "whether a broker cleans the log now"]


class InspectedOpenTransaction(NamedTuple):
    """A transaction without a marker."""

    producer_id: int
    producer_epoch: int
    first_offset: int
    last_timestamp: Annotated[int, "in ms, of the last batch; -1 without one"]


class Hole(NamedTuple):
    """Offsets that no batch covers."""

    first_offset: int
    last_offset: int
    before_ms: Annotated[int | None, "timestamp of the batch before"]
    after_ms: Annotated[int | None, "timestamp of the batch after"]

    @property
    def offsets(self) -> int:
        """The number of missing offsets."""
        return self.last_offset - self.first_offset + 1


class PeriodBytes(NamedTuple):
    """The bytes of a period."""

    start_ms: int
    bytes: Count


@result("kafkalog.inspected/1")
@dataclass(frozen=True, slots=True)
class InspectedPartition:
    """A partition on the time axis."""

    partition: Hidden[Partition]
    topic: ClassVar[PathName] = of("partition.topic")
    number: ClassVar[Annotated[int, Named("partition")]] = of("partition.number")
    path: ClassVar[PathName] = of("partition.path")
    log_start_offset: int | None
    log_end_offset: int | None
    high_watermark: int | None
    size_bytes: Annotated[Count, "of all files"]
    segments: tuple[InspectedSegment, ...]
    holes: Annotated[tuple[Hole, ...], "the largest 20, in the order of their offsets"]
    hole_count: Count
    hole_offsets: Annotated[Count, "the offsets in all holes"]
    open_transactions: Hidden[Sequence[OpenTransaction] | None]
    transactions: ClassVar[
        Annotated[list[InspectedOpenTransaction] | None, Named("open_transactions"), "null: they were not searched for"]
    ] = of(lambda found: found.open_transactions and [*starmap(InspectedOpenTransaction, found.open_transactions)])
    retention: Annotated[RetentionOutlook | None, "null: not known"]
    cleaning: Annotated[CleaningOutlook | None, "null: not compacted, or not known"]
    unknown_because: tuple[str, ...]
    bytes_over_time: Hidden[TimeCounts]
    period_ms: ClassVar[Annotated[Count, "the length of a period"]] = of("bytes_over_time.period_ms")
    over_time: ClassVar[Annotated[list[PeriodBytes], "bytes of batches by their largest timestamps"]] = of(
        lambda found: [PeriodBytes(*period) for period in found.bytes_over_time.periods()]
    )
    exit_code: Hidden[ExitCode] = ExitCode.OK

    @property
    def span_ms(self) -> tuple[int, int] | None:
        """The first and the last timestamp, None without one."""
        first = [segment.first_timestamp_ms for segment in self.segments if segment.first_timestamp_ms is not None]
        last = [segment.last_timestamp_ms for segment in self.segments if segment.last_timestamp_ms is not None]
        return (min(first), max(last)) if first and last else None

    @property
    def batches(self) -> int:
        """The number of batches whose headers were read."""
        return sum(segment.batches for segment in self.segments)


def common_span(partitions: Sequence[InspectedPartition]) -> tuple[int, int] | None:
    """Return the first and the last timestamp of all partitions, None without one."""
    spans = [partition.span_ms for partition in partitions if partition.span_ms is not None]
    return (min(first for first, _ in spans), max(last for _, last in spans)) if spans else None


def inspect(paths: Paths, **options: Unpack[VerbOptions]) -> Run[InspectedPartition]:
    """Describe partitions on a time axis as `kafkalog inspect` does; each result is one partition.

    It has the time spans of segments, bytes over time, holes, open transactions, and what retention and compaction
    would do. Raises UsageError, PathNotFound, NotKafkaLayout, NothingSelected. Failures of single partitions are in
    `errors`.
    """
    own: VerbOptions = {**options, "dry_run": True}
    call = Call("inspect", paths, own)
    return call.change_each(call.partitions(), _inspect_one)


def _inspect_one(work: Target) -> InspectedPartition:
    listing = list_partition(work.fs, work.partition, None)
    for located in listing.faults:
        work.note(located.fault.kind.value, located.fault.message, located.path)
    codes = [ExitCode.CORRUPTION if located.is_corruption else ExitCode.WARNINGS for located in listing.faults]
    walk = LogWalk(work.fs, listing.log_start_offset)
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
    outlook = _Outlook(work)
    return InspectedPartition(
        work.partition,
        listing.log_start_offset,
        listing.log_end_offset,
        listing.high_watermark,
        listing.bytes_by_kind.total,
        tuple(_segments(listing.log_end_offset, work.partition.segments, walked, outlook)),
        walk.largest_holes,
        walk.hole_count,
        walk.hole_offsets,
        listing.open_transactions,
        outlook.retention,
        outlook.cleaning,
        tuple(dict.fromkeys(outlook.unknown)),
        walk.bytes_over_time,
        worst_exit_code({*codes, *walk.codes}),
    )


class _Outlook:
    """The results of the two plans, if they are not refused. Only controllers change the metadata log: it has none."""

    def __init__(self, work: Target) -> None:
        self.unknown: list[str] = []
        self.retain_plan: RetainPlan | None = None
        self.compact_plan: CompactPlan | None = None
        self._now_ms = work.clock.now_ms
        try:
            work.begin()
            self._config = work.partition.config
        except (KafkalogError, OSError) as error:
            self.unknown.append(str(error))
            return
        if work.partition.directory.is_metadata_log:
            return
        plans = Plans(work)
        self.retain_plan = plans.planned("retention", plans.retain_plan)
        if self._config.is_compacted:
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
            plan.dirt, self._config.min_cleanable_dirty_ratio, plan.choice in (Choice.DIRTY, Choice.OVERDUE)
        )


def _segments(
    log_end: int | None, segments: Sequence[Segment], walked: Sequence[WalkedSegment], outlook: _Outlook
) -> Iterator[InspectedSegment]:
    plan, cleaning = outlook.retain_plan, outlook.cleaning
    removed = {} if plan is None else {segment.base_offset: segment.limit for segment in plan.removed}
    for at, (segment, walk) in enumerate(zip(segments, walked, strict=True)):
        is_last = at + 1 == len(segments)
        following = log_end if is_last else segments[at + 1].base_offset
        following = segment.base_offset if following is None else max(following, segment.base_offset)
        part = None
        if cleaning is not None:
            dirt = cleaning.dirt
            is_clean = following <= dirt.first_dirty
            is_dirty = segment.base_offset < dirt.first_uncleanable
            part = CleaningPart.CLEAN if is_clean else CleaningPart.DIRTY if is_dirty else CleaningPart.UNCLEANABLE
        yield InspectedSegment(
            segment.base_offset, following, segment.log.size_bytes, *walk, part, removed.get(segment.base_offset)
        )  # fmt: skip


MOST_PERIODS = 128
"""Periods of a partition: thousands of partitions are kept in memory until all are printed on one axis."""
MOST_HOLES = 20
"""Holes of a partition that are kept one by one, the largest."""
_KEPT_HOLES = 1000


class WalkedSegment(NamedTuple):
    """The batches of a segment. Timestamps in ms are those of batch headers, None without one."""

    batches: int = 0
    first_timestamp_ms: int | None = None
    last_timestamp_ms: int | None = None


class LogWalk:
    """Follows the segments of one log in order. Offsets below `log_start` (None: unknown) are in no hole.

    `bytes_over_time` are those of batches, by their largest timestamps. A segment is followed up to its first damage.
    Segments of Kafka 0.7 have no headers and are left out.
    """

    def __init__(self, fs: Filesystem, log_start: int | None) -> None:
        self._fs = fs
        self._log_start = log_start or 0
        self.bytes_over_time = TimeCounts(MOST_PERIODS)
        self._holes: list[Hole] = []
        self._next_offset: int | None = None
        self._last_ms: int | None = None
        self.hole_count = 0
        self.hole_offsets = 0
        self.faults: list[tuple[str, Fault]] = []
        self.codes: list[ExitCode] = []

    def follow(self, segment: Segment) -> WalkedSegment:
        """Follow one segment. Raises the exceptions of `open_read`."""
        if segment.is_v07:
            return WalkedSegment()
        path, walk = segment.log.path, WalkedSegment()
        if self._next_offset is None:
            self._next_offset = segment.base_offset
        with self._fs.open_read(path) as file:
            reader = Headers(file)
            for columns in reader.columns():
                walk = self._take(columns.arrays(), walk)
            if reader.fault is not None:
                damage = DamageSeen()
                damage.fault(reader.fault)
                self.codes.append(damage.exit_code(self._fs, file, reader.end_position, DEFAULT_LIMITS))
                self.faults.append((path, reader.fault))
                self._next_offset = None  # damage hides offsets, which are not missing
        return walk

    @property
    def largest_holes(self) -> tuple[Hole, ...]:
        """The largest holes, in the order of their offsets."""
        return tuple(sorted(nlargest(MOST_HOLES, self._holes, key=lambda hole: hole.offsets)))

    def _take(self, batches: Arrays, walk: WalkedSegment) -> WalkedSegment:
        import numpy as np

        last_ms = batches.max_timestamp
        # A delete horizon replaces the base timestamp, and the producer's does not count with LogAppendTime.
        has_first = (batches.magic >= RECORD_BATCH_MAGIC) & (
            batches.attributes & (DELETE_HORIZON_MASK | TIMESTAMP_TYPE_MASK) == 0
        )
        first_ms = np.where(has_first, batches.base_timestamp, last_ms)
        self._find_holes(batches)
        timed = np.flatnonzero(last_ms >= 0)
        if len(timed):
            self.bytes_over_time.add(last_ms[timed], batches.size_bytes[timed])
        first, last = _least(first_ms[first_ms >= 0].tolist(), walk.first_timestamp_ms), walk.last_timestamp_ms
        if len(timed):
            last = max(int(last_ms.max()), -1 if last is None else last)
        return WalkedSegment(walk.batches + len(batches), first, last)

    def _find_holes(self, batches: Arrays) -> None:
        """Note the offsets between batches. Compressed message sets do not say where they begin."""
        import numpy as np

        bases, lasts, times = batches.base_offset, batches.last_offset, batches.max_timestamp
        expected = int(bases[0]) if self._next_offset is None else self._next_offset
        ends = np.concatenate(([expected], lasts[:-1] + 1))
        for row in np.flatnonzero((bases != NO_OFFSET) & (bases > ends)).tolist():
            first, last = max(int(ends[row]), self._log_start), int(bases[row]) - 1
            if first <= last:
                before = int(times[row - 1]) if row else self._last_ms
                self._add(Hole(first, last, _known(before), _known(int(times[row]))))
        self._next_offset, self._last_ms = int(lasts[-1]) + 1, int(times[-1])

    def _add(self, hole: Hole) -> None:
        self.hole_count += 1
        self.hole_offsets += hole.offsets
        self._holes.append(hole)
        if len(self._holes) > _KEPT_HOLES:
            self._holes = nlargest(MOST_HOLES, self._holes, key=lambda hole: hole.offsets)


def _least(values: list[int], known: int | None) -> int | None:
    return min((*values, *([] if known is None else [known])), default=None)


def _known(timestamp_ms: int | None) -> int | None:
    return None if timestamp_ms is None or timestamp_ms < 0 else timestamp_ms
