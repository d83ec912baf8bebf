"""Recovers a partition: chooses the rules and settings, makes the plan, and applies it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kafkalog_cli.change.draft import Draft
from kafkalog_cli.change.manifest import RunInfo
from kafkalog_cli.disk.fs import Filesystem, LockHandle, WritableFilesystem
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops.apply_changes import Applied, MarkerUse, apply_changes
from kafkalog_cli.ops.log_request import LogRequest
from kafkalog_cli.ops.partition_state import PartitionState
from kafkalog_cli.ops.recover.like_broker import plan_like_broker, refused_by_checkpoint
from kafkalog_cli.ops.recover.plan import RecoverMode, RecoverPlan
from kafkalog_cli.ops.recover.repair import Scope, plan_repair
from kafkalog_cli.ops.recover.topic_identity import with_topic_id


@dataclass(frozen=True, slots=True)
class RecoverRequest(LogRequest):
    """The rules of a recovery. `since_recovery_point`: only segments from the recovery point on are checked.

    `discard`: removed data is not kept for undo.
    """

    mode: RecoverMode = RecoverMode.REPAIR
    since_recovery_point: bool = False
    discard: bool = False


def plan_recovery(fs: Filesystem, partition: Partition, root: PartitionState, request: RecoverRequest) -> RecoverPlan:
    """Plan the recovery of a partition, with the settings that are used. Raises Unreadable as `plan_repair` does."""
    root.check_start()
    start, log_dir = root.start, root.log_dir
    used = request.used_settings(log_dir, partition.topic)
    settings = request.load_settings_of(used)
    if request.mode is RecoverMode.LIKE_BROKER:
        plan = refused_by_checkpoint(partition, root) or plan_like_broker(
            fs, partition, root.broker_start, settings, has_root=log_dir is not None
        )
    else:
        since = start.recovery_point if request.since_recovery_point else None
        scope = Scope(request.mode is RecoverMode.INDEXES_ONLY, since, dict(root.lines))
        draft = Draft(fs, partition.path)
        plan = plan_repair(draft, partition, start, settings, scope)
        if request.mode is RecoverMode.REPAIR:
            plan = with_topic_id(draft, partition, replace(plan, log_dir=log_dir), request.settings)
    is_like_broker = request.mode is RecoverMode.LIKE_BROKER
    line = root.broker_line if is_like_broker else root.line
    edits = tuple(edit for edit in plan.line_edits if log_dir is not None and line(edit.kind) != edit.offset)
    return replace(plan, settings=used, log_dir=log_dir, line_edits=edits)


def apply_recovery(
    fs: WritableFilesystem,
    plan: RecoverPlan,
    run: RunInfo,
    request: RecoverRequest,
    *,
    held: LockHandle | None,
) -> Applied | None:
    """Make the changes of a plan, and return None if it has none. `held` is the lock of the partition.

    The clean shutdown marker is removed meanwhile, and restored if no record was removed and the partition is sound.
    Raises Refused if a file has changed since the plan was made, and the exceptions of `journal.apply`.
    """
    marker = MarkerUse.DROPPED if plan.drops_records else MarkerUse.GIVEN_BACK
    settings = request.load_settings_of(plan.settings)
    return apply_changes(fs, plan, run, marker, settings, discard=request.discard, held=held)
