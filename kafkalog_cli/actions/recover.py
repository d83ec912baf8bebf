"""Recovers partitions: which rules and settings hold for one, its plan, and the changes."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum, unique
from threading import Lock
from typing import NamedTuple, cast

from kafkalog_cli.actions.recover_like_broker import plan_like_broker
from kafkalog_cli.actions.recover_plan import RecoverMode, RecoverPlan, fingerprints_of
from kafkalog_cli.actions.recover_repair import Scope, plan_repair
from kafkalog_cli.actions.settings import SettingsSource
from kafkalog_cli.errors import ExitCode, KafkalogError, Refused, SyncFailed
from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits
from kafkalog_cli.storage import journal
from kafkalog_cli.storage.checkpoints import LineEdit, RootCheckpoints, read_root_checkpoints
from kafkalog_cli.storage.clean_marker import hold_marker, release_marker
from kafkalog_cli.storage.fs import Filesystem, LockHandle, WritableFilesystem
from kafkalog_cli.storage.journal import CheckpointEdits
from kafkalog_cli.storage.kernels import KernelChoice
from kafkalog_cli.storage.loaded_segment import LoadSettings
from kafkalog_cli.storage.log_loader import StartState
from kafkalog_cli.storage.manifest import Manifest, RunInfo, read_manifest
from kafkalog_cli.storage.names import FileKind
from kafkalog_cli.storage.partition import Partition, open_partition
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


def plan_recovery(
    fs: Filesystem, partition: Partition, log_dir: str | None, starts: StartStates, request: RecoverRequest
) -> RecoverPlan:
    """What is to be done to the partition of `log_dir` (None: it lies in none), and which settings that follows."""
    start = starts.of(log_dir, partition)
    used = used_settings(partition.topic, log_dir, request.settings)
    settings = load_settings(used, request)
    if request.mode is RecoverMode.LIKE_BROKER:
        plan = plan_like_broker(fs, partition, start, settings, has_root=log_dir is not None)
    else:
        since = start.recovery_point if request.since_recovery_point else None
        scope = Scope(request.mode is RecoverMode.INDEXES_ONLY, since)
        plan = plan_repair(fs, partition, start, settings, scope)
    edits = tuple(edit for edit in plan.line_edits if starts.is_news(log_dir, edit))
    return replace(plan, settings=used, log_dir=log_dir, line_edits=edits)


class StartStates:
    """What a broker would know of each partition when it starts; of a log directory as it is when it is first asked.

    Recovering one partition takes the marker away for a while, which says nothing of the next.
    """

    def __init__(self, fs: Filesystem) -> None:
        self._fs = fs
        self._reading = Lock()
        self._roots: dict[str, tuple[bool, RootCheckpoints]] = {}  # by where they really are

    def of(self, log_dir: str | None, partition: Partition) -> StartState:
        """The state of a partition of `log_dir`; where that is None nothing is known."""
        if log_dir is None:
            return StartState(is_clean=False)
        is_clean, checkpoints = self._root(log_dir)
        kinds = (FileKind.RECOVERY_POINT_CHECKPOINT, FileKind.LOG_START_CHECKPOINT)
        offsets = (checkpoints.offset(kind, partition.topic, partition.number) or 0 for kind in kinds)
        return StartState(is_clean, *offsets)

    def is_news(self, log_dir: str | None, edit: LineEdit) -> bool:
        """Whether the line is to be another than it is."""
        if log_dir is None:
            return False
        return self._root(log_dir)[1].offset(edit.kind, edit.topic, edit.partition) != edit.offset

    def _root(self, log_dir: str) -> tuple[bool, RootCheckpoints]:
        path = os.path.realpath(log_dir)
        with self._reading:  # who asks second must not look when the first has taken the marker away
            if path not in self._roots:
                is_clean = self._fs.status(f"{log_dir}/{FileKind.CLEAN_SHUTDOWN.value}") is not None
                self._roots[path] = is_clean, read_root_checkpoints(self._fs, log_dir)
            return self._roots[path]


def used_settings(topic: str, log_dir: str | None, source: SettingsSource) -> tuple[Setting, ...]:
    """The settings that recovery follows, each with where it comes from."""
    config = source.topic_config(log_dir, topic)
    expiration = source.broker_settings(log_dir)["producer.id.expiration.ms"]
    return config["segment.index.bytes"], config["index.interval.bytes"], expiration


def load_settings(used: tuple[Setting, ...], request: RecoverRequest) -> LoadSettings:
    """`used_settings` for those who load segments."""
    index_bytes, interval_bytes, expiration_ms = (cast(int, setting.value) for setting in used)
    return LoadSettings(request.now_ms, index_bytes, interval_bytes, expiration_ms, request.limits, request.kernels)


@unique
class Marker(Enum):
    """What became of the marker of a clean shutdown."""

    NONE = "none"  # there was none, or another run waits for it
    BACK = "back"
    AWAY = "away"


MARKER_STAYS_AWAY = (
    "the marker of the clean shutdown stays away, since records below the log's end are gone or the partition is not"
    " sound: the broker recovers all partitions when it starts, and leaves every ISR"
)


class Applied(NamedTuple):
    """A recovery that was made."""

    manifest: Manifest
    marker: Marker


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
    if not plan.has_work:
        return None
    if fingerprints_of(fs, plan.path) != plan.fingerprints:
        raise Refused(path=plan.path, reason="a file has changed since the plan was made")
    try:
        return _apply(fs, plan, run, request, held)
    except BaseException as error:
        _give_marker_back(fs, plan, run.run_id, error)
        raise


def _apply(
    fs: WritableFilesystem, plan: RecoverPlan, run: RunInfo, request: RecoverRequest, held: LockHandle | None
) -> Applied:
    names = [plan.path.rpartition("/")[2]]
    is_held = plan.log_dir is not None and hold_marker(fs, plan.log_dir, run.run_id, names)
    edits = CheckpointEdits(plan.log_dir, plan.line_edits) if plan.log_dir and plan.line_edits else None
    info = replace(run, holds_marker=is_held)
    manifest = journal.apply(
        fs, plan.path, plan.changes, run=info, discard=request.discard, checkpoints=edits, held=held
    )
    assert manifest is not None
    if not is_held or plan.log_dir is None:
        return Applied(manifest, Marker.NONE)
    if plan.drops_records or not _is_sound(fs, plan, request):
        return Applied(manifest, Marker.AWAY)
    is_back = release_marker(fs, plan.log_dir, run.run_id, names)
    return Applied(manifest, Marker.BACK if is_back else Marker.NONE)


def _give_marker_back(fs: WritableFilesystem, plan: RecoverPlan, run_id: str, error: BaseException) -> None:
    """After an error that left all as it was there is no run that could be undone, and that the marker waits for.

    Where a sync failed nothing is given back: what the disk has is not known.
    """
    if plan.log_dir is None or isinstance(error, SyncFailed) or isinstance(error.__cause__, SyncFailed):
        return
    with suppress(OSError, KafkalogError):
        if read_manifest(fs, plan.path, run_id) is None:
            release_marker(fs, plan.log_dir, run_id, [plan.path.rpartition("/")[2]])


def _is_sound(fs: Filesystem, plan: RecoverPlan, request: RecoverRequest) -> bool:
    """Whether nothing is wrong with the partition, looked at again."""
    again = plan_repair(
        fs, open_partition(fs, plan.path), StartState(is_clean=False), load_settings(plan.settings, request)
    )
    return not again.is_refused and not again.changes and again.exit_code is not ExitCode.CORRUPTION
