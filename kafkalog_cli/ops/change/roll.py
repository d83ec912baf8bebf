"""Starts a new segment where a broker would at its next append, or on request."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, ClassVar

from kafkalog_cli.broker.load_error import LoadFailed
from kafkalog_cli.broker.open_log import (
    SMALLEST_BATCH_BYTES,
    ActiveSegment,
    Arriving,
    OpenLog,
    RollCause,
    RollLimits,
    roll_cause,
)
from kafkalog_cli.broker.open_log import roll as start_segment
from kafkalog_cli.change.changes import in_log_order
from kafkalog_cli.change.draft import Draft
from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.format.batch import NO_TIMESTAMP
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.log.reading.header import first_timestamp
from kafkalog_cli.log.settings.topic_config import Setting, Settings
from kafkalog_cli.ops.call.call import Call, Run
from kafkalog_cli.ops.call.options import Paths, VerbOptions
from kafkalog_cli.ops.call.target import Changed, Target
from kafkalog_cli.ops.change.apply_changes import MarkerUse, apply_changes
from kafkalog_cli.ops.change.plans import (
    LogPlan,
    Unready,
    check_logs,
    fingerprints_of,
    in_place,
    load_settings,
    open_log,
    refused,
    whole_end_of,
)
from kafkalog_cli.ops.change.refusals import Action
from kafkalog_cli.results import Named, of, result

if TYPE_CHECKING:
    from typing_extensions import Unpack


@result("kafkalog.roll/1")
@dataclass(frozen=True, slots=True)
class RollPlan(LogPlan):
    """The result of roll for a partition, or of its dry run.

    `due_ms` is None if the first batch has no timestamp: a broker then counts from its own start.
    """

    rolled: ClassVar[Annotated[bool, "whether a new segment starts at the log's end, or would"]] = of(
        lambda plan: bool(plan.changes)
    )
    cause: Annotated[RollCause | None, "why a broker would roll; null: it would not"] = None
    is_forced: Annotated[bool, Named("forced"), "--force"] = False
    active: Annotated[ActiveSegment | None, "the last segment before it is rolled; null if refused"] = None
    due_ms: Annotated[int | None, "the time at which it would be rolled for its age; null: never"] = None

    @property
    def is_empty(self) -> bool:
        """Whether the active segment has no record, so that there is nothing to roll."""
        return self.active is not None and not self.active.size_bytes


def plan_roll(
    fs: Filesystem,
    partition: Partition,
    now_ms: int,
    *,
    force: bool = False,
    arriving_bytes: int = SMALLEST_BATCH_BYTES,
) -> RollPlan:
    """Decide whether to roll the active segment, and plan the changes. Reads headers and the ends of indexes.

    `force`: roll without a cause. `arriving_bytes`: the size of the append for which a broker would check. Its records
    have the current time, and the log end offset as their only offset.

    Raises UnsupportedFormat for 0.7, as `SettingsSource.metadata` does, and the exceptions of opening the files.
    """
    config = partition.config
    plan = RollPlan.of(partition, fingerprints=fingerprints_of(fs, partition.path), settings=_used(config))
    try:
        check_logs(partition)
        end_offset = whole_end_of(fs, partition)
        draft = Draft(fs, partition.path)
        log = open_log(draft, partition, load_settings(partition, now_ms), end_offset)
        active = _active(log, now_ms)
        plan = replace(
            plan,
            log_start_offset=log.log_start_offset,
            log_end_offset=end_offset,
            high_watermark=partition.high_watermark(end_offset),
            active=active,
        )
        if plan.is_empty:
            return plan
        limits = RollLimits(config.segment_bytes, config.max_segment_ms, config.segment_index_bytes)
        cause = roll_cause(active, Arriving(arriving_bytes, now_ms, end_offset), limits, now_ms)
        due_ms = active.first_timestamp + limits.segment_ms + 1 if active.first_timestamp >= 0 else None
        plan = replace(plan, cause=cause, is_forced=force, due_ms=due_ms)
        if cause is None and not force:
            return plan
        start_segment(log)
        return replace(plan, changes=in_log_order(draft.changes()))
    except (Unready, LoadFailed) as error:
        return refused(plan, error)


def _used(config: Settings) -> tuple[Setting, ...]:
    times = ("segment.ms", "max.compaction.lag.ms") if config.is_compacted else ("segment.ms",)
    return (config.segment_size, *(config[name] for name in times), config["segment.index.bytes"])


def _active(log: OpenLog, now_ms: int) -> ActiveSegment:
    segment = log.segments()[-1]
    if not segment.size_bytes:  # a broker that was killed may not have created its indexes yet
        return ActiveSegment(segment.base_offset, 0, NO_TIMESTAMP, now_ms, 0, 0)
    segment = log.active()
    with log.draft.reader(segment.log_name) as file:
        first_ms = first_timestamp(file)
    return ActiveSegment(
        segment.base_offset,
        segment.size_bytes,
        first_ms,
        now_ms,  # without timestamps, a broker that starts now counts from now
        len(segment.offset_index()),
        len(segment.time_index()),
    )


def roll(paths: Paths, *, force: bool = False, **options: Unpack[VerbOptions]) -> Run[Changed[RollPlan]]:
    """Start new segments as `kafkalog roll` does. `force`: also where a broker would not. Raises as `recover`."""

    def roll_one(target: Target) -> Changed[RollPlan]:
        target.begin()
        partition, now_ms = target.partition, target.clock.now_ms
        plan = plan_roll(target.fs, partition, now_ms, force=force)
        target.check(Action.ROLL, in_place=in_place(plan))
        apply = partial(apply_changes, marker=MarkerUse.GIVEN_BACK, settings=load_settings(partition, now_ms))
        return target.change(plan, apply)

    call = Call("roll", paths, options)
    return call.change_each(call.writable_partitions(), roll_one)
