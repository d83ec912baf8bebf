"""Plan the undo of one run on one partition, and apply it: restore the files and the checkpoint lines."""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, NamedTuple

from kafkalog_cli.change.clean_marker import hold_marker, release_marker, waits_for
from kafkalog_cli.change.journal_undo import check_partition, check_undo, sweep, undo
from kafkalog_cli.change.manifest import ChangeKind, Manifest, PlannedChange, RunState, read_manifest
from kafkalog_cli.change.new_partition import retire_partition
from kafkalog_cli.change.runs import run_ids
from kafkalog_cli.disk.durable import half_changed, marker_left_away, not_changed
from kafkalog_cli.disk.fs import Filesystem, WritableFilesystem
from kafkalog_cli.disk.lock import real_directory
from kafkalog_cli.errors import (
    ExitCode,
    HalfChanged,
    KafkalogError,
    NothingSelected,
    Refused,
    SyncFailed,
    shell_word,
)
from kafkalog_cli.log.partition import Partition, open_partition
from kafkalog_cli.ops.change.refusals import Action, AppliedRule, Intent, RuleOutcome, judge, raise_refusals
from kafkalog_cli.ops.option_values import Clock
from kafkalog_cli.ops.ownership import Places
from kafkalog_cli.results import Hidden, PathName, keywords, of, result


class UndoStep(NamedTuple):
    """A step of an undo."""

    what: Annotated[str, keywords(enum=("restore", "cut", "rename", "remove", "checkpoint"))]
    name: Annotated[PathName, "the file"]
    to: Annotated[str | None, "the file's name or the checkpoint's line afterwards"] = None
    size_bytes: Annotated[int | None, "the number of bytes restored to the file, or the size to which it is cut"] = None


@result("kafkalog.undo/1")
@dataclass(frozen=True, slots=True)
class Undo:
    """A run on a partition that was undone, or would be.

    `manifest` is None if the run changed nothing, `log_dir` if the partition is in no log directory.
    """

    path: Annotated[PathName, "the partition directory"]
    name: Hidden[str]
    run_id: Hidden[str]
    log_dir: Hidden[str | None]
    manifest: Hidden[Manifest | None]
    run: ClassVar[str] = of("run_id")
    action: ClassVar[Annotated[str | None, "the command; null if the run ended before it changed anything"]] = of(
        "manifest.run.action"
    )
    started_ms: ClassVar[int | None] = of("manifest.run.now_ms")
    state: ClassVar[Annotated[RunState | None, "the progress of the run before the undo"]] = of("manifest.state")
    dry_run: bool = True
    undone: Annotated[bool, "whether this call undid it"] = False
    steps: Annotated[tuple[UndoStep, ...], "last change first"] = ()
    clean_shutdown_marker: Annotated[
        bool | None, "whether .kafka_cleanshutdown is back; null in a dry run, or if the run did not remove it"
    ] = None
    warnings: Hidden[tuple[AppliedRule, ...]] = ()

    @property
    def needs_undo(self) -> bool:
        """Whether the run was not undone before."""
        return self.manifest is None or self.manifest.state is not RunState.UNDONE

    @property
    def has_work(self) -> bool:
        """Whether files are restored, or would be."""
        return self.needs_undo and self.manifest is not None

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to report."""
        return not self.needs_undo

    @property
    def exit_code(self) -> ExitCode:
        """Always OK: if a run cannot be undone, an exception is raised."""
        return ExitCode.OK

    @property
    def moves_marker(self) -> bool:
        """Whether the run removed the clean shutdown marker."""
        return self.log_dir is not None and self.manifest is not None and self.manifest.run.holds_marker


def has_run(fs: Filesystem, partition: Partition, run_id: str) -> bool:
    """Whether the partition has a directory of that run, or the clean shutdown marker waits for the run.

    A run that changed nothing may have left only the removed marker (`MarkerKept`).
    """
    if run_id in run_ids(fs, partition.path):
        return True
    log_dir = partition.log_dir
    return log_dir is not None and waits_for(fs, log_dir, run_id, partition.name)


def plan_undo(
    fs: WritableFilesystem, partition: Partition, run_id: str, clock: Clock, places: Places | None = None
) -> Undo:
    """Plan the undo of a run. Raises NothingSelected (no such run), Refused (changed since the run)."""
    path = partition.path
    if not has_run(fs, partition, run_id):
        raise NothingSelected(reason=f"{path} has no run {run_id}")
    log_dir = partition.log_dir
    try:
        manifest = read_manifest(fs, path, run_id)
        if manifest is None or manifest.state is RunState.UNDONE:
            return Undo(path, partition.name, run_id, log_dir, manifest)
        cuts = frozenset(change.name for change in manifest.changes if change.kind in (ChangeKind.CUT, ChangeKind.GROW))
        warnings = check_refusals(fs, partition, Action.UNDO, clock, places, cuts)
        check_partition(path, manifest, partition.topic, partition.number)
        check_undo(fs, path, manifest, log_dir)
    except OSError as error:
        raise not_changed(path, error) from error
    return Undo(path, partition.name, run_id, log_dir, manifest, steps=_steps(manifest), warnings=warnings)


def apply_undo(fs: WritableFilesystem, plan: Undo) -> Undo:
    """Apply the plan, and return it with what was done.

    The caller holds the locks of log directory and partition. A second call completes an interrupted one. Raises
    HalfChanged, MarkerLeftAway, NotChanged, NoSpace.
    """
    manifest = plan.manifest
    if manifest is None or not plan.needs_undo:
        is_back = _finish_earlier(fs, plan)
        _retire(fs, plan)
        is_undone = manifest is None or is_back is not None
        return replace(plan, dry_run=False, undone=is_undone, clean_shutdown_marker=is_back)
    run_id, log_dir = plan.run_id, plan.log_dir
    try:
        is_held = plan.moves_marker and log_dir is not None and hold_marker(fs, log_dir, run_id, [plan.name])
    except SyncFailed as error:
        raise half_changed(plan.path, run_id, error, without_marker=True) from error
    try:
        undo(fs, plan.path, manifest, log_dir)
    except (HalfChanged, Refused):  # the error is already the right one
        raise
    except (OSError, KafkalogError) as error:
        raise half_changed(plan.path, run_id, error, without_marker=is_held) from error
    is_back = None if not is_held or log_dir is None else _release(fs, plan, log_dir)
    _retire(fs, plan)
    return replace(plan, dry_run=False, undone=True, clean_shutdown_marker=is_back)


def _retire(fs: WritableFilesystem, plan: Undo) -> None:
    """Remove the partition directory if the run created it, or its empty segment."""
    if plan.manifest is None or not (plan.manifest.run.makes_directory or plan.manifest.run.makes_files):
        return
    try:
        retire_partition(fs, real_directory(fs, plan.path), plan.manifest)
    except (OSError, SyncFailed) as error:
        raise half_changed(plan.path, plan.run_id, error) from error


def _finish_earlier(fs: WritableFilesystem, plan: Undo) -> bool | None:
    """Remove the leftovers of a run that did not start or was already undone, and restore its marker.

    Returns whether the clean shutdown marker was restored; None if it did not wait for this run.
    """
    try:
        sweep(fs, plan.path)
    except OSError as error:
        raise not_changed(plan.path, error) from error
    if plan.log_dir is None or not waits_for(fs, plan.log_dir, plan.run_id, plan.name):
        return None
    return _release(fs, plan, plan.log_dir)


def _release(fs: WritableFilesystem, plan: Undo, log_dir: str) -> bool:
    """Restore the clean shutdown marker, see `release_marker`. Raises MarkerLeftAway, NoSpace."""
    try:
        return release_marker(fs, log_dir, plan.run_id, [plan.name])
    except (OSError, KafkalogError) as error:
        command = f"kafkalog undo {shell_word(plan.path)} {shell_word(plan.run_id)}"
        raise marker_left_away(log_dir, command, error) from error


def _steps(manifest: Manifest) -> tuple[UndoStep, ...]:
    steps = [_step(change) for change in reversed(manifest.changes)]
    for old in manifest.before.checkpoint_lines:
        steps += [UndoStep("checkpoint", old.file.value, line.text) for line in old.lines]
    steps += [UndoStep("remove", name) for name in reversed(manifest.run.makes_files)]
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


def check_refusals(  # noqa: PLR0913, PLR0917
    fs: WritableFilesystem,
    partition: Partition,
    action: Action,
    clock: Clock,
    places: Places | None = None,
    in_place: frozenset[str] = frozenset(),
) -> tuple[AppliedRule, ...]:
    """Return the warnings that apply. Raises Refused or UnsupportedFormat for refusals. Reads no metadata log."""
    intent = Intent(action, clock.now_ms, places or {}, now_is_given=clock.is_given, in_place=in_place)
    verdicts = judge(open_partition(fs, partition.path), intent)
    raise_refusals(verdicts)
    return tuple(verdict for verdict in verdicts if verdict.outcome is RuleOutcome.WARNING)


def take_back(
    fs: WritableFilesystem, partition: Partition, run_id: str, clock: Clock, places: Places | None = None
) -> None:
    """Undo the run, under the locks of log directory and partition. Raises as `plan_undo` and `apply_undo`."""
    apply_undo(fs, plan_undo(fs, partition, run_id, clock, places))
