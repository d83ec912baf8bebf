"""Taking a run on a partition back: what there was before it, file for file, and its lines in the checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from shlex import quote

from kafkalog_cli.actions.partition_facts import Places
from kafkalog_cli.actions.refusals import Action, Verdict
from kafkalog_cli.actions.runs import Clock, check_refusals
from kafkalog_cli.errors import HalfChanged, KafkalogError, NothingSelected, Refused, SyncFailed
from kafkalog_cli.storage.appending.new_partition import retire_partition
from kafkalog_cli.storage.changing.clean_marker import hold_marker, release_marker, waits_for
from kafkalog_cli.storage.changing.durable import half_changed, marker_left_away, not_changed
from kafkalog_cli.storage.changing.journal_undo import check_undo, sweep, undo
from kafkalog_cli.storage.changing.lock import log_dir_of, real_directory
from kafkalog_cli.storage.changing.manifest import ChangeKind, Manifest, PlannedChange, RunState, read_manifest, run_ids
from kafkalog_cli.storage.fs import Filesystem, WritableFilesystem
from kafkalog_cli.storage.partition import Partition


@dataclass(frozen=True, slots=True)
class UndoStep:
    """One thing that is taken back. `what` is a word for programs: restore, cut, rename, remove or checkpoint.

    `size_bytes` is what comes back into the file, or what is left of it; `to` the name or text that is there
    afterwards.
    """

    what: str
    name: str
    to: str | None = None
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class UndoPlan:
    """A run and what undoing it does, last change first; no `manifest`: it ended before it changed anything.

    `log_dir` None: the partition lies in none. `moves_marker`: the clean-shutdown marker was taken away by the run.
    """

    path: str
    name: str
    run_id: str
    log_dir: str | None
    manifest: Manifest | None
    steps: tuple[UndoStep, ...] = ()
    warnings: tuple[Verdict, ...] = ()

    @property
    def has_work(self) -> bool:
        """Whether the run was not taken back before."""
        return self.manifest is None or self.manifest.state is not RunState.UNDONE

    @property
    def moves_marker(self) -> bool:
        """Whether the marker of a clean shutdown waits for this run."""
        return self.log_dir is not None and self.manifest is not None and self.manifest.run.holds_marker


@dataclass(frozen=True, slots=True)
class UndoResult:
    """`marker`: whether the clean-shutdown marker is there again; None if the run had not taken it away."""

    undone: bool
    marker: bool | None = None


def has_run(fs: Filesystem, partition: Partition, run_id: str) -> bool:
    """Whether the partition has a directory of that run, or the marker of the clean shutdown is away for it.

    A run that could change nothing may have left only that (`MarkerKept`).
    """
    if run_id in run_ids(fs, partition.path):
        return True
    log_dir = log_dir_of(fs, partition.path)
    return log_dir is not None and waits_for(fs, log_dir, run_id, partition.name)


def last_first(fs: Filesystem, partitions: Sequence[Partition], run_id: str) -> list[Partition]:
    """Partitions of one run so that each finds the checkpoints as it left them: the last change first."""

    def place(numbered: tuple[int, Partition]) -> tuple[int, int]:
        try:
            manifest = read_manifest(fs, numbered[1].path, run_id)
        except (KafkalogError, OSError):  # said when its turn comes
            manifest = None
        return 0 if manifest is None else manifest.order, numbered[0]

    return [partition for _, partition in sorted(enumerate(partitions), key=place, reverse=True)]


def plan_undo(
    fs: WritableFilesystem, partition: Partition, run_id: str, clock: Clock, places: Places | None = None
) -> UndoPlan:
    """What there is to take back. Raises NothingSelected (no such run), Refused (not as the run left it)."""
    path = partition.path
    if not has_run(fs, partition, run_id):
        raise NothingSelected(reason=f"{path} has no run {run_id}")
    log_dir = log_dir_of(fs, path)
    try:
        manifest = read_manifest(fs, path, run_id)
        if manifest is None or manifest.state is RunState.UNDONE:
            return UndoPlan(path, partition.name, run_id, log_dir, manifest)
        cuts = frozenset(change.name for change in manifest.changes if change.kind in (ChangeKind.CUT, ChangeKind.GROW))
        warnings = check_refusals(fs, partition, Action.UNDO, clock, places, cuts)
        check_undo(fs, path, manifest, log_dir)
    except OSError as error:
        raise not_changed(path, error) from error
    return UndoPlan(path, partition.name, run_id, log_dir, manifest, _steps(manifest), warnings)


def apply_undo(fs: WritableFilesystem, plan: UndoPlan) -> UndoResult:
    """Do what the plan says, under the locks of log directory and partition; a second call completes a first.

    Raises HalfChanged, MarkerLeftAway, NotChanged, NoSpace.
    """
    manifest = plan.manifest
    if manifest is None or not plan.has_work:
        is_back = _finish_earlier(fs, plan)
        _retire(fs, plan)
        return UndoResult(manifest is None or is_back is not None, is_back)
    run_id, log_dir = plan.run_id, plan.log_dir
    try:
        is_held = plan.moves_marker and log_dir is not None and hold_marker(fs, log_dir, run_id, [plan.name])
    except SyncFailed as error:
        raise half_changed(plan.path, run_id, error, without_marker=True) from error
    try:
        undo(fs, plan.path, manifest, log_dir)
    except (HalfChanged, Refused):  # no undo can do better, or it says so itself
        raise
    except (OSError, KafkalogError) as error:
        raise half_changed(plan.path, run_id, error, without_marker=is_held) from error
    is_back = None if not is_held or log_dir is None else _release(fs, plan, log_dir)
    _retire(fs, plan)
    return UndoResult(True, is_back)


def _retire(fs: WritableFilesystem, plan: UndoPlan) -> None:
    """The run made the partition: it goes too."""
    if plan.manifest is None or not plan.manifest.run.makes_directory:
        return
    try:
        retire_partition(fs, real_directory(fs, plan.path), plan.manifest)
    except (OSError, SyncFailed) as error:
        raise half_changed(plan.path, plan.run_id, error) from error


def _finish_earlier(fs: WritableFilesystem, plan: UndoPlan) -> bool | None:
    """Remove what a run left that had not begun, or one that was undone; its marker may still wait.

    Whether the marker is there again; None if it did not wait for this run.
    """
    try:
        sweep(fs, plan.path)
    except OSError as error:
        raise not_changed(plan.path, error) from error
    if plan.log_dir is None or not waits_for(fs, plan.log_dir, plan.run_id, plan.name):
        return None
    return _release(fs, plan, plan.log_dir)


def _release(fs: WritableFilesystem, plan: UndoPlan, log_dir: str) -> bool:
    """See `release_marker`. Raises MarkerLeftAway, NoSpace."""
    try:
        return release_marker(fs, log_dir, plan.run_id, [plan.name])
    except (OSError, KafkalogError) as error:
        command = f"kafkalog undo {quote(plan.path)} {plan.run_id}"
        raise marker_left_away(log_dir, command, error) from error


def _steps(manifest: Manifest) -> tuple[UndoStep, ...]:
    steps = [_step(change) for change in reversed(manifest.changes)]
    for old in manifest.before.lines:
        steps += [UndoStep("checkpoint", old.kind.value, line.text) for line in old.lines]
    if manifest.run.makes_directory:
        steps.append(UndoStep("remove", manifest.directory.rpartition("/")[2]))
    return tuple(steps)


def _step(change: PlannedChange) -> UndoStep:
    if change.kind is ChangeKind.CUT:
        return UndoStep("restore", change.name, size_bytes=change.from_bytes - change.to_bytes)
    if change.kind is ChangeKind.MOVE:
        return UndoStep("rename", str(change.new_name), change.name)
    if change.kind is ChangeKind.MAKE or (change.kind is ChangeKind.PUT and not change.replaces):
        return UndoStep("remove", change.name)
    if change.kind is ChangeKind.GROW:
        return UndoStep("cut", change.name, size_bytes=change.from_bytes)
    return UndoStep("restore", change.name)
