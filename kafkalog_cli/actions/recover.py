"""Recovers partitions: which rules and settings hold for one, its plan, and the changes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

from kafkalog_cli.actions.apply_changes import Applied, MarkerUse, apply_changes
from kafkalog_cli.actions.recover_like_broker import plan_like_broker
from kafkalog_cli.actions.recover_plan import RecoverMode, RecoverPlan
from kafkalog_cli.actions.recover_repair import Scope, plan_repair
from kafkalog_cli.actions.root_state import RootState
from kafkalog_cli.actions.settings import SettingsSource
from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits
from kafkalog_cli.storage.fs import Filesystem, LockHandle, WritableFilesystem
from kafkalog_cli.storage.kernels import KernelChoice
from kafkalog_cli.storage.loaded_segment import LoadSettings
from kafkalog_cli.storage.manifest import RunInfo
from kafkalog_cli.storage.partition import Partition
from kafkalog_cli.storage.topic_config import Setting


@dataclass(frozen=True, slots=True)
class RecoverRequest:
    """How to recover: by which rules, with settings from where, at which time."""

    mode: RecoverMode
    now_ms: int
    settings: SettingsSource
    since_recovery_point: bool = False
    discard: bool = False
    limits: Limits = DEFAULT_LIMITS
    kernels: KernelChoice | None = None


def plan_recovery(fs: Filesystem, partition: Partition, root: RootState, request: RecoverRequest) -> RecoverPlan:
    """What is to be done to the partition, and which settings that follows. Raises Unreadable as `plan_repair` does."""
    root.check_start()
    start, log_dir = root.start, root.log_dir
    used = used_settings(partition.topic, log_dir, request.settings)
    settings = load_settings(used, request)
    if request.mode is RecoverMode.LIKE_BROKER:
        plan = plan_like_broker(fs, partition, start, settings, has_root=log_dir is not None)
    else:
        since = start.recovery_point if request.since_recovery_point else None
        scope = Scope(request.mode is RecoverMode.INDEXES_ONLY, since)
        plan = plan_repair(fs, partition, start, settings, scope)
    edits = tuple(edit for edit in plan.line_edits if log_dir is not None and root.line(edit.kind) != edit.offset)
    return replace(plan, settings=used, log_dir=log_dir, line_edits=edits)


def used_settings(topic: str, log_dir: str | None, source: SettingsSource) -> tuple[Setting, ...]:
    """The settings that recovery follows, each with where it comes from."""
    config = source.topic_config(log_dir, topic)
    expiration = source.broker_settings(log_dir)["producer.id.expiration.ms"]
    return config["segment.index.bytes"], config["index.interval.bytes"], expiration


def load_settings(used: tuple[Setting, ...], request: RecoverRequest) -> LoadSettings:
    """`used_settings` for those who load segments."""
    index_bytes, interval_bytes, expiration_ms = (cast(int, setting.value) for setting in used)
    return LoadSettings(request.now_ms, index_bytes, interval_bytes, expiration_ms, request.limits, request.kernels)


def apply_recovery(
    fs: WritableFilesystem,
    plan: RecoverPlan,
    run: RunInfo,
    request: RecoverRequest,
    *,
    held: LockHandle | None,
) -> Applied | None:
    """Make the changes of a plan; None if there are none. `held` is the lock of the partition.

    The marker of a clean shutdown is away meanwhile, and comes back if no record went and the partition is sound.
    Raises Refused if the partition is not what the plan was made for, and what `journal.apply` raises.
    """
    marker = MarkerUse.DROPPED if plan.drops_records else MarkerUse.GIVEN_BACK
    settings = load_settings(plan.settings, request)
    return apply_changes(fs, plan, run, marker, settings, discard=request.discard, held=held)
