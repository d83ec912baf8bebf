"""Moves the start of a log forward, as a client's DeleteRecords does, and removes whole segments below it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from kafkalog_cli.broker.load_error import LoadFailed
from kafkalog_cli.broker.open_log import changed_epochs, mark_deleted
from kafkalog_cli.broker.retention import RetainedSegment, RetentionBounds, RetentionLimits, retain
from kafkalog_cli.change.changes import in_log_order, keeping
from kafkalog_cli.change.draft import Draft
from kafkalog_cli.disk.fs import Filesystem, WritableFilesystem
from kafkalog_cli.disk.names import FileKind
from kafkalog_cli.errors import ExitCode, OffsetOutOfRange
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops.call.call import Call, Run
from kafkalog_cli.ops.call.options import Paths, VerbOptions
from kafkalog_cli.ops.call.target import Changed, Target
from kafkalog_cli.ops.change.apply_changes import Applied, MarkerUse, apply_changes
from kafkalog_cli.ops.change.plans import (
    LogPlan,
    Remark,
    Unready,
    check_logs,
    delay_or_setting,
    fingerprints_of,
    refused,
    whole_end_of,
)
from kafkalog_cli.ops.change.purge import DELAY
from kafkalog_cli.ops.change.refusals import Action
from kafkalog_cli.ops.change.retain.retain import line_edits
from kafkalog_cli.results import Count, result

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from kafkalog_cli.change.manifest import RunInfo

HIGH_WATERMARK = -1
"""As an offset: delete all replicated records (DeleteRecordsRequest.HIGH_WATERMARK)."""


@result("kafkalog.deleted-records/1")
@dataclass(frozen=True, slots=True)
class DeleteRecordsPlan(LogPlan):
    """The result of delete-records for a partition, or of its dry run.

    Records below the start that share a segment with later records stay on disk, but clients do not get them.
    """

    old_start_offset: Annotated[int | None, "the log's start before; null if refused"] = None
    removed: Annotated[tuple[int, ...], "base offsets of the removed segments"] = ()
    removed_bytes: Annotated[Count, "sizes of their logs"] = 0
    delay_ms: Annotated[Count, "how long the removed files stay as .deleted"] = 0

    @property
    def drops_valid(self) -> bool:
        """See ChangePlan."""
        return self.has_work


def plan_delete_records(
    fs: Filesystem, partition: Partition, before_offset: int, *, delay_ms: int | None = None, keeps: bool = False
) -> DeleteRecordsPlan:
    """Plan the removal of the records below `before_offset` (`HIGH_WATERMARK`: all replicated records).

    Removed segments stay for `delay_ms` as `.deleted`; None: as file.delete.delay.ms says. `keeps`: the run keeps them
    instead.

    The plan has no changes if the log already starts there or later. Raises OffsetOutOfRange for an offset above the
    high watermark, UnsupportedFormat for 0.7, the exceptions of `SettingsSource.metadata`, and those of opening the
    files.
    """
    config, prints = partition.config, fingerprints_of(fs, partition.path)
    plan = DeleteRecordsPlan.of(
        partition, fingerprints=prints, settings=(config[DELAY],), delay_ms=delay_or_setting(config, delay_ms)
    )
    try:
        check_logs(partition)
        end_offset = whole_end_of(fs, partition)
    except Unready as unready:
        return refused(plan, unready)
    old_start_offset = max(partition.log_start, partition.segments[0].base_offset)
    high_watermark = partition.high_watermark(end_offset)
    wanted = high_watermark.offset if before_offset == HIGH_WATERMARK else before_offset
    if not 0 <= wanted <= high_watermark.offset:
        what = f"offset {before_offset}"
        raise OffsetOutOfRange(path=partition.path, what=what, first=old_start_offset, last=high_watermark.offset)
    start_offset = max(wanted, old_start_offset)
    plan = replace(
        plan,
        log_start_offset=start_offset,
        log_end_offset=end_offset,
        high_watermark=high_watermark,
        old_start_offset=old_start_offset,
    )
    if start_offset == old_start_offset:
        return plan
    plan = _with_changes(fs, partition, plan, RetentionBounds(start_offset, end_offset, high_watermark.offset))
    return replace(plan, changes=keeping(plan.changes)) if keeps else plan


def _with_changes(
    fs: Filesystem, partition: Partition, plan: DeleteRecordsPlan, bounds: RetentionBounds
) -> DeleteRecordsPlan:
    segments = [RetainedSegment(segment.base_offset, segment.log.size_bytes) for segment in partition.segments]
    retention = retain(segments, bounds, RetentionLimits(deletes=False), 0, lambda _: 0)
    gone, left = segments[: len(retention.passes)], segments[len(retention.passes) :]
    draft = Draft(fs, partition.path)
    try:
        mark_deleted(draft, [segment.base_offset for segment in gone])
        with changed_epochs(draft) as epochs:
            epochs.truncate_from_start(bounds.log_start_offset)
    except LoadFailed as failure:
        return refused(plan, failure)
    if not (partition.log_dir and partition.has_lines) and bounds.log_start_offset > left[0].base_offset:
        message = (
            f"it is not in a log directory: only {FileKind.LOG_START_CHECKPOINT.value} there can hold the new log start"
        )
        return replace(plan, remarks=(Remark(partition.path, message, ExitCode.REFUSED),), is_refused=True)
    return replace(
        plan,
        changes=in_log_order(draft.changes()),
        line_edits=line_edits(partition, bounds.log_start_offset, left[0].base_offset),
        removed=tuple(segment.base_offset for segment in gone),
        removed_bytes=sum(segment.size_bytes for segment in gone),
    )


def delete_records(
    path: Paths, before_offset: int, *, delay_ms: int | None = None, keep: bool = False, **options: Unpack[VerbOptions]
) -> Run[Changed[DeleteRecordsPlan]]:
    """Move the log start offset of one partition to `before_offset`; -1: to the high watermark. Raises as `recover`.

    See `plan_delete_records` for the rest.
    """

    def delete_from_one(target: Target) -> Changed[DeleteRecordsPlan]:
        target.begin()
        target.check(Action.DELETE_RECORDS)
        plan = plan_delete_records(target.fs, target.partition, before_offset, delay_ms=delay_ms, keeps=keep)
        return target.change(plan, _apply, warns_first=True)

    call = Call("delete-records", path, options)
    return call.change_each(call.one_partition(), delete_from_one)


def _apply(fs: WritableFilesystem, plan: DeleteRecordsPlan, run: RunInfo) -> Applied | None:
    run = replace(run, settings={**run.settings, DELAY: plan.delay_ms})
    return apply_changes(fs, plan, run, MarkerUse.LEFT)
