"""Plans and applies retention as a broker does: by log start offset, size and time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from kafkalog_cli.broker.load_error import LoadFailed
from kafkalog_cli.broker.open_log import changed_epochs, mark_deleted, roll
from kafkalog_cli.broker.retention import (
    UNLIMITED,
    RetainedSegment,
    Retention,
    RetentionBounds,
    RetentionLimits,
    RetentionPass,
)
from kafkalog_cli.broker.retention import retain as decide_retention
from kafkalog_cli.change.changes import Change, Drop, in_log_order, keeping
from kafkalog_cli.change.draft import Draft
from kafkalog_cli.change.manifest import RunInfo
from kafkalog_cli.change.removal import partly
from kafkalog_cli.disk.durable import NOTHING_CHANGED, tells_nothing_changed
from kafkalog_cli.disk.fs import WritableFilesystem
from kafkalog_cli.disk.names import FileKind, WorkState, segment_file_name
from kafkalog_cli.errors import ExitCode, NoSpace, NoSpaceToRetain, Refused
from kafkalog_cli.log.log_dir import LineEdit
from kafkalog_cli.log.log_end import LargestTimestamp, largest_timestamp
from kafkalog_cli.log.partition import Partition, Segment, open_partition
from kafkalog_cli.log.settings.topic_config import CLEANUP_POLICY, Setting, Settings
from kafkalog_cli.ops.call.call import Call, Run
from kafkalog_cli.ops.call.options import Paths, VerbOptions
from kafkalog_cli.ops.call.target import Changed, Target
from kafkalog_cli.ops.change.apply_changes import Applied, MarkerUse, apply_changes
from kafkalog_cli.ops.change.plans import (
    RECOVER_FIRST,
    Remark,
    Unready,
    check_finished,
    check_unchanged,
    delay_or_setting,
    end_of,
    fingerprints_of,
    load_settings,
    open_log,
    refused,
)
from kafkalog_cli.ops.change.purge import DELAY, NEVER_MS, apply_purge, plan_purge
from kafkalog_cli.ops.change.refusals import Action
from kafkalog_cli.ops.change.retain.plan import SIZE_LIMIT, TIME_LIMIT, RetainPlan, SegmentFate, Stay
from kafkalog_cli.ops.option_values import Clock
from kafkalog_cli.ops.ownership import Places
from kafkalog_cli.ops.steps import REBUILD_INDEXES, VERIFY, Step
from kafkalog_cli.ops.timestamp_units import TimestampOddity, unit_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from kafkalog_cli.ops.change.compact.plan import CompactPlan


def plan_retain(  # noqa: PLR0913
    fs: WritableFilesystem,
    partition: Partition,
    clock: Clock,
    places: Places | None = None,
    *,
    delay_ms: int | None = None,
    keeps: bool = False,
    explains: bool = False,
) -> RetainPlan:
    """Plan what retention removes now. The table of refusals decides whether it may run.

    `delay_ms`: how long `.deleted` files stay; None: as file.delete.delay.ms says. `keeps`: removed files are kept by
    the run instead of renamed to `.deleted`. `explains`: the timestamps of all segments are read, including segments
    that are kept in any case.

    Only known limits are followed: limits that a source sets, or defaults if every source was read and none sets them.
    Reads headers, the ends of indexes, and checkpoints. Raises as `SettingsSource.metadata` does, and the exceptions of
    listing and opening the files.
    """
    config = partition.config
    plan = RetainPlan.of(
        partition,
        fingerprints=fingerprints_of(fs, partition.path),
        settings=tuple(config[name] for name in (CLEANUP_POLICY, TIME_LIMIT, SIZE_LIMIT, DELAY)),
        delay_ms=delay_or_setting(config, delay_ms),
        explains=explains,
    )
    try:
        check_finished(partition)
        if not partition.segments:
            return plan
        due = plan_purge(fs, partition, NEVER_MS, clock, places)
        plan = _Planning(fs, partition, clock.now_ms, explains=explains).complete(replace(plan, due=due))
    except Unready as unready:
        return refused(plan, unready)
    return replace(plan, changes=keeping(plan.changes)) if keeps else plan


def followed_limits(config: Settings) -> RetentionLimits:
    """Return the known limits of a topic, which a broker has too. An unknown limit counts as unlimited."""
    return RetentionLimits(
        config.retention_ms if config.is_known(TIME_LIMIT) else UNLIMITED,
        config.retention_bytes if config.is_known(SIZE_LIMIT) else UNLIMITED,
        config.is_deleted,
    )


def apply_retain(fs: WritableFilesystem, plan: RetainPlan, run: RunInfo) -> Applied | None:
    """Remove due files and make the changes; return None if no segment is removed. The caller holds the lock.

    Files of this run stay as `.deleted` for `plan.delay_ms`. With 0 they are removed at once, and the run cannot be
    undone. Raises Refused if a file has changed since the plan was made, and the exceptions of `journal.apply` and
    `apply_purge`.
    """
    if not plan.has_work:
        return None
    try:
        with after_due_files(fs, plan, run) as begun:
            rest = replace(plan, fingerprints=fingerprints_of(fs, plan.path), due=None)
            done = apply_changes(fs, rest, begun, MarkerUse.LEFT)
    except NoSpace as error:
        if tells_nothing_changed(error):
            raise NoSpaceToRetain(path=plan.path, reason=NOTHING_CHANGED) from error
        raise
    if done is not None and not plan.delay_ms:
        unlink_at_once(fs, plan.path, run.now_ms)
    return done


@contextmanager
def after_due_files(fs: WritableFilesystem, plan: RetainPlan | CompactPlan, run: RunInfo) -> Iterator[RunInfo]:
    """Remove the plan's due files, then yield the run with its delay as a setting.

    An I/O error in the block becomes PartlyRemoved if files were removed. Raises Refused if a file has changed since
    the plan was made, and the exceptions of `apply_purge`.
    """
    check_unchanged(fs, plan)
    if plan.due is not None:
        apply_purge(fs, plan.due)
    with partly(plan.path, is_begun=plan.due is not None and bool(plan.due.files)):
        yield replace(run, settings={**run.settings, DELAY: plan.delay_ms})


def unlink_at_once(fs: WritableFilesystem, path: str, now_ms: int) -> None:
    """Remove the `.deleted` files that are due: those of a run without a delay, and of earlier runs.

    Raises as `apply_purge`, but I/O errors as PartlyRemoved.
    """
    with partly(path, is_begun=True):
        apply_purge(fs, plan_purge(fs, open_partition(fs, path), NEVER_MS, Clock(now_ms, is_given=True)))


_REBUILD = (Step("", REBUILD_INDEXES, "rebuilds it"),)
_SETTING_OF: dict[RetentionPass | Stay | None, str] = {
    RetentionPass.TIME: TIME_LIMIT,
    RetentionPass.SIZE: SIZE_LIMIT,
    Stay.POLICY: CLEANUP_POLICY,
    Stay.NO_LIMIT: TIME_LIMIT,
    Stay.FUTURE: TIME_LIMIT,
    Stay.UNIT: TIME_LIMIT,
}


class _Planning:
    """Plans retention for one partition that has segments."""

    def __init__(self, fs: WritableFilesystem, partition: Partition, now_ms: int, *, explains: bool) -> None:
        self._fs = fs
        self._partition = partition
        self._now_ms = now_ms
        self._explains = explains
        self._config = partition.config
        self._segments = partition.segments
        self._limits = followed_limits(self._config)
        self._times: dict[int, LargestTimestamp] = {}
        self._remarks: list[Remark] = []
        self._is_v07 = self._segments[-1].is_v07

    def complete(self, plan: RetainPlan) -> RetainPlan:
        """Return the plan with its changes. Raises Unready."""
        bounds = self._bounds()
        sizes = [RetainedSegment(segment.base_offset, segment.log.size_bytes) for segment in self._segments]
        retention = decide_retention(sizes, bounds, self._limits, self._now_ms, self._largest_ms)
        if self._explains:
            for at in range(len(self._segments)):
                self._largest_ms(at)
        fates = tuple(self._fates(bounds, retention))
        remarks = (*self._remarks, *(remark for at, fate in enumerate(fates) for remark in self._remarks_of(at, fate)))
        plan = replace(
            plan,
            log_start_offset=retention.log_start_offset,
            log_end_offset=bounds.log_end_offset,
            high_watermark=None if self._is_v07 else self._partition.high_watermark(bounds.log_end_offset),
            fates=fates,
            rolls=retention.rolls,
            remarks=remarks,
        )
        return self._with_changes(plan, bounds, len(retention.passes)) if retention.passes else plan

    def _bounds(self) -> RetentionBounds:
        first, last = self._segments[0], self._segments[-1]
        if self._is_v07:
            end_offset = last.base_offset + last.log.size_bytes
            return RetentionBounds(first.base_offset, end_offset, end_offset)
        end = end_of(self._fs, self._partition, last)
        log_start_offset = max(first.base_offset, self._partition.log_start)
        if end.next_offset < log_start_offset:
            raise Unready(self._partition.path, f"it ends at {end.next_offset}, but would start at {log_start_offset}")
        high_watermark = self._partition.high_watermark(end.next_offset).offset
        faults = (*end.faults, *(end.index_faults if self._partition.is_clean else ()))
        if faults:
            message = f"it is damaged at its end, and stays: {faults[0].message}"
            self._remarks.append(Remark(last.log.path, message, ExitCode.WARNINGS, faults[0].position, RECOVER_FIRST))
            high_watermark = min(high_watermark, last.base_offset)
        return RetentionBounds(log_start_offset, end.next_offset, high_watermark)

    def _largest_ms(self, at: int) -> int:
        if at not in self._times:
            limit_ms = self._limits.retention_ms
            is_for_sure = not self._explains and limit_ms >= 0
            enough_ms = self._now_ms - limit_ms if is_for_sure else None
            self._times[at] = largest_timestamp(self._fs, self._segments[at], enough_ms)
        return self._times[at].timestamp_ms

    # -- why each segment stays or is removed

    def _fates(self, bounds: RetentionBounds, retention: Retention) -> Iterator[SegmentFate]:
        segments, limits = self._segments, self._limits
        bytes_behind = sum(segment.log.size_bytes for segment in segments)
        youngest = -1
        for at, segment in enumerate(segments):
            bytes_behind -= segment.log.size_bytes
            largest = self._times.get(at)
            youngest = max(youngest, -1 if largest is None else largest.timestamp_ms)
            is_timed = limits.deletes and limits.retention_ms >= 0 and largest is not None
            is_sized = limits.deletes and limits.retention_bytes >= 0
            following = segments[at + 1].base_offset if at + 1 < len(segments) else bounds.log_end_offset
            next_offset = max(following, segment.base_offset)
            goes = retention.passes[at] if at < len(retention.passes) else None
            is_replicated = bounds.high_watermark >= next_offset
            stays = None if goes is not None else self._why_it_stays(at, bytes_behind, is_replicated=is_replicated)
            yield SegmentFate(
                segment.base_offset,
                next_offset,
                segment.log.size_bytes,
                goes,
                stays,
                self._deciding_setting(goes, stays),
                largest,
                None if largest is None else unit_of(largest.timestamp_ms, self._now_ms),
                youngest + limits.retention_ms + 1 if is_timed else None,
                max(0, limits.retention_bytes - bytes_behind) if is_sized else None,
            )

    def _why_it_stays(self, at: int, bytes_behind: int, *, is_replicated: bool) -> Stay:
        """Return the reason why a segment is kept. `bytes_behind` is the size of the segments after it."""
        limits, largest = self._limits, self._times.get(at)
        if at + 1 == len(self._segments) and not self._segments[at].log.size_bytes:
            return Stay.EMPTY
        is_old = largest is not None and 0 <= limits.retention_ms < self._now_ms - largest.timestamp_ms
        is_excess = 0 <= limits.retention_bytes <= bytes_behind
        if limits.deletes and (is_old or is_excess):
            return Stay.BEHIND if is_replicated else Stay.NOT_REPLICATED
        if not limits.deletes:
            return Stay.POLICY
        if limits.retention_ms < 0 and limits.retention_bytes < 0:
            return Stay.NO_LIMIT
        odd = None if largest is None or limits.retention_ms < 0 else unit_of(largest.timestamp_ms, self._now_ms)
        if odd in (TimestampOddity.MICROSECONDS, TimestampOddity.NANOSECONDS):
            return Stay.UNIT
        return Stay.FUTURE if odd is TimestampOddity.FUTURE else Stay.LIMITS

    def _deciding_setting(self, goes: RetentionPass | None, stays: Stay | None) -> Setting | None:
        if stays is Stay.LIMITS:
            return self._config[TIME_LIMIT if self._limits.retention_ms >= 0 else SIZE_LIMIT]
        name = _SETTING_OF.get(goes or stays)
        return None if name is None else self._config[name]

    def _remarks_of(self, at: int, fate: SegmentFate) -> Iterator[Remark]:
        """Yield warnings about the timestamp that decides."""
        path, largest = self._segments[at].log.path, fate.largest
        if largest is None:
            return
        if largest.fault is not None:
            message = f"the headers of its batches end in damage: {largest.fault.message}"
            steps = (Step("", VERIFY, "prints the next step"),)
            yield Remark(path, message, ExitCode.WARNINGS, largest.fault.position, steps)
        if largest.index_fault is not None:
            message = (
                "its time index cannot be read, so the timestamps of its batches are used:"
                f" {largest.index_fault.message}"
            )
            yield Remark(path, message, ExitCode.WARNINGS, steps=_REBUILD)
        # A broker reads the same time index, but after an unclean stop it rebuilds the last segment's.
        if largest.is_disputed and (self._partition.is_clean or at + 1 < len(self._segments)):
            message = (
                f"its largest timestamp is {largest.timestamp_ms} ({largest.origin.value}), which is used; a broker"
                f" would use {largest.believed_ms}, from the time index or the file's mtime (KAFKA-10207)"
            )
            yield Remark(path, message, ExitCode.WARNINGS, steps=_REBUILD)
        if fate.odd is not None and (fate.goes is RetentionPass.TIME or fate.stays in (Stay.FUTURE, Stay.UNIT)):
            verb = "the segment is kept for that reason" if fate.goes is None else "the segment is still removed"
            message = f"its largest timestamp, {largest.timestamp_ms}, is {fate.odd.value}: {verb}"
            yield Remark(path, message, ExitCode.WARNINGS)

    # -- changes

    def _with_changes(self, plan: RetainPlan, bounds: RetentionBounds, count: int) -> RetainPlan:
        draft = Draft(self._fs, self._partition.path)
        gone = self._segments[:count]
        log_start_offset = plan.log_start_offset or 0
        try:
            if self._is_v07:
                _mark_seven_deleted(draft, gone, bounds.log_end_offset if plan.rolls else None)
                edits: tuple[LineEdit, ...] = ()
            else:
                self._mark_deleted(draft, gone, bounds, rolls=plan.rolls)
                # This happens even if the log start does not move, as at a broker's start-up (LogLoader). Otherwise
                # verify would treat an epoch below the first segment as a sign of lost records.
                with changed_epochs(draft) as epochs:
                    epochs.truncate_from_start(log_start_offset)
                first = bounds.log_end_offset if plan.rolls else self._segments[count].base_offset
                edits = line_edits(self._partition, log_start_offset, first)
        except LoadFailed as failure:
            raise Unready(self._partition.path, str(failure)) from failure
        due = {file.name for file in plan.due.files} if plan.due is not None else set()
        changes: list[Change] = [c for c in draft.changes() if not (isinstance(c, Drop) and c.name in due)]
        return replace(plan, changes=in_log_order(changes), line_edits=edits)

    def _mark_deleted(self, draft: Draft, gone: tuple[Segment, ...], bounds: RetentionBounds, *, rolls: bool) -> None:
        if rolls:
            settings = load_settings(self._partition, self._now_ms)
            roll(open_log(draft, self._partition, settings, bounds.log_end_offset))
        mark_deleted(draft, [segment.base_offset for segment in gone])


def line_edits(partition: Partition, log_start_offset: int, first_base_offset: int) -> tuple[LineEdit, ...]:
    """Return the edits of checkpoint lines for a log that starts at `log_start_offset`.

    The log start has a line only if it is above the first segment's base offset. Recovery point and cleaner checkpoint
    are raised to the log start.
    """
    is_told = log_start_offset <= first_base_offset
    return (
        *partition.edit(FileKind.LOG_START_CHECKPOINT, None if is_told else log_start_offset),
        *partition.lift(FileKind.RECOVERY_POINT_CHECKPOINT, log_start_offset),
        *partition.lift(FileKind.CLEANER_CHECKPOINT, log_start_offset),
    )


def _mark_seven_deleted(draft: Draft, gone: tuple[Segment, ...], new_base_offset: int | None) -> None:
    """Mark segments of 0.7 as deleted; 0.7 has no files but logs."""
    if new_base_offset is not None:
        draft.put(segment_file_name(new_base_offset, FileKind.SEVEN_LOG), b"")
    for segment in gone:
        name = segment.log.path.rpartition("/")[2]
        draft.move(name, name + WorkState.DELETED.value)


def retain(
    paths: Paths,
    *,
    delay_ms: int | None = None,
    keep: bool = False,
    explain: bool = False,
    **options: Unpack[VerbOptions],
) -> Run[Changed[RetainPlan]]:
    """Remove the segments that are past retention as `kafkalog retain` does, see `plan_retain`. Raises as `recover`.

    `explain`: a partition that is refused gets a plan, too, that explains each segment.
    """

    def retain_one(target: Target) -> Changed[RetainPlan]:
        target.begin()
        reason = None
        try:
            target.check(Action.RETAIN)
        except Refused as error:
            if not explain:
                raise
            reason = str(error.details["reason"])
        plan = plan_retain(
            target.fs, target.partition, target.clock, target.places, delay_ms=delay_ms, keeps=keep, explains=explain
        )
        if reason is not None:
            remark = Remark(plan.path, reason, ExitCode.REFUSED)
            plan = replace(plan, remarks=(remark, *plan.remarks), is_refused=True, changes=(), line_edits=(), due=None)
        return target.change(plan, apply_retain)

    call = Call("retain", paths, options)
    return call.change_each(call.writable_partitions(), retain_one)
