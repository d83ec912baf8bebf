"""What plans of roll, retain, truncate and delete-records share: what the log directory says, and applying them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum, unique
from threading import Lock
from typing import cast

from kafkalog_cli.actions.recover import Applied, Marker, used_settings
from kafkalog_cli.actions.recover_plan import Fingerprint, Remark, fingerprints_of
from kafkalog_cli.actions.recover_repair import plan_repair
from kafkalog_cli.actions.settings import SettingsSource
from kafkalog_cli.errors import ExitCode, KafkalogError, Refused, SyncFailed, UnsupportedFormat
from kafkalog_cli.format.fault import Fault
from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits
from kafkalog_cli.storage import journal
from kafkalog_cli.storage.changes import Change
from kafkalog_cli.storage.checkpoints import (
    HighWatermark,
    LineEdit,
    RootCheckpoints,
    high_watermark,
    read_root_checkpoints,
)
from kafkalog_cli.storage.clean_marker import hold_marker, release_marker
from kafkalog_cli.storage.fs import Filesystem, LockHandle, WritableFilesystem
from kafkalog_cli.storage.journal import CheckpointEdits
from kafkalog_cli.storage.kernels import KernelChoice
from kafkalog_cli.storage.loaded_segment import LoadSettings
from kafkalog_cli.storage.log_end import SegmentEnd, segment_end
from kafkalog_cli.storage.log_loader import StartState
from kafkalog_cli.storage.manifest import RunInfo, read_manifest
from kafkalog_cli.storage.names import FileKind, WorkState
from kafkalog_cli.storage.partition import Partition, open_partition
from kafkalog_cli.storage.topic_config import Setting

RECOVER_FIRST = "recover it first"
_ROOM_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class LogRequest:
    """At which time to act, and with settings from where."""

    now_ms: int
    settings: SettingsSource
    limits: Limits = DEFAULT_LIMITS
    kernels: KernelChoice | None = None

    def load_settings(self, log_dir: str | None, topic: str) -> LoadSettings:
        """What decides how segments are opened. Raises as `SettingsSource.metadata` does."""
        index_bytes, interval_bytes, expiration_ms = (
            cast(int, setting.value) for setting in used_settings(topic, log_dir, self.settings)
        )
        return LoadSettings(self.now_ms, index_bytes, interval_bytes, expiration_ms, self.limits, self.kernels)


_LINES = (
    FileKind.RECOVERY_POINT_CHECKPOINT,
    FileKind.LOG_START_CHECKPOINT,
    FileKind.REPLICATION_CHECKPOINT,
    FileKind.CLEANER_CHECKPOINT,
)


@dataclass(frozen=True, slots=True)
class RootState:
    """What a log directory says of one partition: whether it was stopped cleanly, and the lines of its checkpoints."""

    log_dir: str | None
    topic: str
    partition: int
    is_clean: bool = False
    lines: tuple[tuple[FileKind, int], ...] = ()
    faults: tuple[tuple[str, Fault], ...] = ()
    """What is wrong with a checkpoint, by its path: then the lines that it seems not to have may be lost."""

    def line(self, kind: FileKind) -> int | None:
        """The partition's offset in a checkpoint, None without one."""
        return dict(self.lines).get(kind)

    @property
    def log_start(self) -> int:
        """What a broker is told when it starts: 0 without a line."""
        return self.line(FileKind.LOG_START_CHECKPOINT) or 0

    def high_watermark(self, log_end_offset: int) -> HighWatermark:
        """See storage/checkpoints.py."""
        return high_watermark(log_end_offset, self.line(FileKind.REPLICATION_CHECKPOINT))

    def edit(self, kind: FileKind, offset: int | None) -> tuple[LineEdit, ...]:
        """The change that makes a line say `offset` (None: there shall be none); nothing if it does, or no root is."""
        if self.log_dir is None or self.line(kind) == offset:
            return ()
        return (LineEdit(kind, self.topic, self.partition, offset),)

    def lower(self, kind: FileKind, offset: int) -> tuple[LineEdit, ...]:
        """The change that has a line say no more than `offset`."""
        line = self.line(kind)
        return () if line is None or line <= offset else self.edit(kind, offset)

    def lift(self, kind: FileKind, offset: int) -> tuple[LineEdit, ...]:
        """The change that has a line, where there is one, say no less than `offset`."""
        line = self.line(kind)
        return () if line is None or line >= offset else self.edit(kind, offset)


class Roots:
    """The states of log directories, each as it was when it was first asked for; threads share it."""

    def __init__(self, fs: Filesystem) -> None:
        self._fs = fs
        self._reading = Lock()
        self._found: dict[str, tuple[bool, RootCheckpoints]] = {}

    def checkpoints(self, log_dir: str | None) -> RootCheckpoints | None:
        """The checkpoints of a log directory, None where there is none."""
        return None if log_dir is None else self._of(log_dir)[1]

    def state(self, log_dir: str | None, partition: Partition) -> RootState:
        """What is said of a partition of `log_dir` (None: it lies in none)."""
        if log_dir is None:
            return RootState(None, partition.topic, partition.number)
        is_clean, checkpoints = self._of(log_dir)
        found = ((kind, checkpoints.offset(kind, partition.topic, partition.number)) for kind in _LINES)
        lines = tuple((kind, offset) for kind, offset in found if offset is not None)
        return RootState(log_dir, partition.topic, partition.number, is_clean, lines, checkpoints.faults)

    def _of(self, log_dir: str) -> tuple[bool, RootCheckpoints]:
        with self._reading:  # who asks second must not look when the first has taken the marker away
            if log_dir not in self._found:
                is_clean = self._fs.status(f"{log_dir}/{FileKind.CLEAN_SHUTDOWN.value}") is not None
                self._found[log_dir] = is_clean, read_root_checkpoints(self._fs, log_dir)
            return self._found[log_dir]


@unique
class MarkerUse(Enum):
    """What becomes of the marker of a clean shutdown (safety.md)."""

    LEFT = "left"  # whole closed segments go
    GIVEN_BACK = "given-back"  # an active segment is touched, nothing is lost
    DROPPED = "dropped"  # records below the log's end go


@dataclass(frozen=True, slots=True)
class LogPlan:
    """What is to be done to the log of one partition, and what that leaves; offsets are None where a plan is refused.

    `is_refused`: nothing may be done, and a remark says why. `settings` are those that were followed.
    """

    path: str
    topic: str
    partition: int
    log_dir: str | None = None
    changes: tuple[Change, ...] = ()
    line_edits: tuple[LineEdit, ...] = ()
    log_start_offset: int | None = None
    log_end_offset: int | None = None
    high_watermark: HighWatermark | None = None
    remarks: tuple[Remark, ...] = ()
    fingerprints: tuple[Fingerprint, ...] = ()
    settings: tuple[Setting, ...] = ()
    is_refused: bool = False

    @property
    def has_work(self) -> bool:
        """Whether anything is to be changed."""
        return not self.is_refused and bool(self.changes or self.line_edits)

    @property
    def exit_code(self) -> ExitCode:
        """REFUSED; or WARNINGS or CORRUPTION if a remark tells of damage."""
        if self.is_refused:
            return ExitCode.REFUSED
        codes = {remark.code for remark in self.remarks}
        return next((code for code in (ExitCode.CORRUPTION, ExitCode.WARNINGS) if code in codes), ExitCode.OK)


class Unready(Exception):
    """The log is not in a state in which it may be changed; the remark says why."""

    def __init__(self, path: str, message: str, position: int | None = None) -> None:
        self.remark = Remark(path, message, ExitCode.REFUSED, position, RECOVER_FIRST)
        super().__init__(message)


def check_logs(partition: Partition) -> None:
    """Raises UnsupportedFormat where there are segments of 0.7, Unready as `check_finished` or if there are none."""
    if any(segment.is_seven for segment in partition.segments):
        raise UnsupportedFormat(path=partition.path, reason="a log of 0.7: of these commands only retain knows it")
    check_finished(partition)
    if not partition.segments:
        raise Unready(partition.path, "it has no segment")


def check_finished(partition: Partition) -> None:
    """Raises Unready where a cleaning or a split was cut off: what is in place may not be the log."""
    for file in partition.leftovers:
        if file.name.state in (WorkState.SWAP, WorkState.CLEANED) and file.name.offset is not None:
            raise Unready(file.status.path, "a cleaning or a split did not come to its end")


def end_of(fs: Filesystem, partition: Partition, root: RootState) -> SegmentEnd:
    """Where the log ends, as a broker would find it. Raises Unready if a checkpoint is damaged, as `open_read` does."""
    for path, fault in root.faults:
        raise Unready(path, f"what it says of the partition cannot be known: {fault.message}", fault.position)
    return segment_end(fs, partition.segments[-1], like_clean_start=root.is_clean)


def whole_end_of(fs: Filesystem, partition: Partition, root: RootState) -> int:
    """The log end offset. Raises Unready if the log is damaged at its end, or ends before it starts."""
    end = end_of(fs, partition, root)
    last = partition.segments[-1]
    for fault in end.faults:
        raise Unready(last.log.path, f"it is damaged at its end: {fault.message}", fault.position)
    for fault in end.index_faults if root.is_clean else ():
        path = last.log.path if last.offset_index is None else last.offset_index.path
        raise Unready(path, f"it is wrong at its end: {fault.message}", fault.position)
    if end.next_offset < root.log_start:
        raise Unready(partition.path, f"it ends at {end.next_offset}, and is to start at {root.log_start}")
    return end.next_offset


def apply_plan(  # noqa: PLR0913
    fs: WritableFilesystem,
    plan: LogPlan,
    run: RunInfo,
    marker: MarkerUse,
    settings: LoadSettings,
    *,
    discard: bool = False,
    held: LockHandle | None,
) -> Applied | None:
    """Make the changes of a plan; None if there are none. `held` is the lock of the partition.

    Raises Refused if the partition is not what the plan was made for, and what `journal.apply` raises.
    """
    if not plan.has_work:
        return None
    if fingerprints_of(fs, plan.path) != plan.fingerprints:
        raise Refused(path=plan.path, reason="a file has changed since the plan was made")
    name = plan.path.rpartition("/")[2]
    is_held = False
    try:
        if marker is not MarkerUse.LEFT and plan.log_dir is not None:
            is_held = hold_marker(fs, plan.log_dir, run.run_id, [name])
        edits = CheckpointEdits(plan.log_dir, plan.line_edits) if plan.log_dir and plan.line_edits else None
        info = replace(run, holds_marker=is_held)
        manifest = journal.apply(fs, plan.path, plan.changes, run=info, discard=discard, checkpoints=edits, held=held)
        assert manifest is not None
        if not is_held or plan.log_dir is None:
            return Applied(manifest, Marker.NONE)
        if marker is MarkerUse.DROPPED or not _is_sound(fs, plan.path, settings):
            return Applied(manifest, Marker.AWAY)
        is_back = release_marker(fs, plan.log_dir, run.run_id, [name])
        return Applied(manifest, Marker.BACK if is_back else Marker.NONE)
    except BaseException as error:
        if marker is not MarkerUse.LEFT:
            _give_marker_back(fs, plan, run.run_id, error)
        raise


def _give_marker_back(fs: WritableFilesystem, plan: LogPlan, run_id: str, error: BaseException) -> None:
    """After an error that left all as it was there is no run that could be undone, and that the marker waits for.

    Where a sync failed nothing is given back: what the disk has is not known.
    """
    if plan.log_dir is None or isinstance(error, SyncFailed) or isinstance(error.__cause__, SyncFailed):
        return
    with suppress(OSError, KafkalogError):
        if read_manifest(fs, plan.path, run_id) is None:
            release_marker(fs, plan.log_dir, run_id, [plan.path.rpartition("/")[2]])


def _is_sound(fs: Filesystem, path: str, settings: LoadSettings) -> bool:
    """Whether nothing is wrong with the partition, looked at again: every CRC, index, epoch and snapshot."""
    # With room for all entries: one made full under another setting is still right.
    roomy = replace(settings, segment_index_bytes=max(settings.segment_index_bytes, _ROOM_BYTES))
    again = plan_repair(fs, open_partition(fs, path), StartState(is_clean=False), roomy)
    return not again.is_refused and not again.changes and again.exit_code is not ExitCode.CORRUPTION
