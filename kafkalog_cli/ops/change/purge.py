"""Permanently removes the files that writers keep: due `.deleted` files, old runs, and leftovers of killed imports."""

from __future__ import annotations

import os
from contextlib import nullcontext
from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple

from kafkalog_cli.change.clean_marker import keep_marker_away
from kafkalog_cli.change.journal_undo import is_ours
from kafkalog_cli.change.manifest import ChangeKind, Manifest, PlannedChange, RunState, read_manifest
from kafkalog_cli.change.new_partitions import import_leftovers, is_staged
from kafkalog_cli.change.removal import partly, remove_directory, remove_files, remove_run_directory
from kafkalog_cli.change.runs import begun_ms, run_directory, run_ids
from kafkalog_cli.disk.directory_contents import check_layout
from kafkalog_cli.disk.durable import not_changed
from kafkalog_cli.disk.fs import FileStatus, WritableFilesystem
from kafkalog_cli.disk.lock import LockPolicy, lock_imports, log_dir_of
from kafkalog_cli.disk.names import WorkState
from kafkalog_cli.disk.posix_lock import import_owner
from kafkalog_cli.errors import ExitCode, KafkalogError, Refused, shell_word
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops.call.call import Call, Run
from kafkalog_cli.ops.call.options import Paths, VerbOptions
from kafkalog_cli.ops.call.target import Target
from kafkalog_cli.ops.change.refusals import Action, AppliedRule
from kafkalog_cli.ops.change.undo.plan import check_refusals
from kafkalog_cli.ops.option_values import Clock
from kafkalog_cli.ops.ownership import Places
from kafkalog_cli.results import Before, Hidden, Named, PathName, of, result

if TYPE_CHECKING:
    from typing_extensions import Unpack

NEVER_MS = 1 << 62
"""Older than any run, so that `plan_purge` finds only due files."""

DELAY = "file.delete.delay.ms"
DEFAULT_DELAY_MS = 60_000
"""Kafka's default of file.delete.delay.ms: the time between the renaming and the removal of a file."""


@dataclass(frozen=True, slots=True)
class DueFile:
    """A .deleted file that is due."""

    file: Hidden[FileStatus]
    name: ClassVar[PathName] = of(lambda due: due.file.path.rpartition("/")[2])
    size_bytes: ClassVar[int] = of("file.size_bytes")
    due_ms: int
    run_id: Annotated[str | None, Named("run"), "the run that renamed it, if it is known"]


class OldRun(NamedTuple):
    """A run that is removed, with the files that it keeps."""

    run_id: Annotated[str, Named("run")]
    state: Annotated[RunState | None, "null: it ended before it changed anything"]
    files: int
    size_bytes: int


class KeptRun(NamedTuple):
    """An old run that is not removed."""

    run_id: Annotated[str, Named("run")]
    reason: str


class Leftover(NamedTuple):
    """The directory of an import that did not end."""

    files: int
    size_bytes: int


@result("kafkalog.purge/1")
@dataclass(frozen=True, slots=True)
class PurgePlan:
    """The files and runs of a partition that were permanently removed, or would be."""

    path: Annotated[PathName, "the partition directory"]
    files: tuple[DueFile, ...] = ()
    runs: tuple[OldRun, ...] = ()
    kept: Annotated[tuple[KeptRun, ...], "runs that are kept, whatever their age"] = ()
    waiting: Annotated[int, "files and runs that are not due yet"] = 0
    warnings: Hidden[tuple[AppliedRule, ...]] = ()
    leftover: Annotated[
        Leftover | None, Before("kept"), "the whole directory is removed: an import left it that did not end"
    ] = None
    dry_run: Annotated[bool, Before("files")] = False

    @property
    def has_work(self) -> bool:
        """Whether anything is removed."""
        return bool(self.files or self.runs or self.leftover)

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to report."""
        return not self.has_work

    @property
    def exit_code(self) -> ExitCode:
        """WARNINGS if an old run is kept, else OK."""
        return ExitCode.WARNINGS if self.kept else ExitCode.OK

    @property
    def size_bytes(self) -> Annotated[int, "of all removed files"]:
        """The size of all removed files. A file with another hard link frees no space."""
        found = sum(due.file.size_bytes for due in self.files) + sum(run.size_bytes for run in self.runs)
        return found + (0 if self.leftover is None else self.leftover.size_bytes)


def plan_purge(
    fs: WritableFilesystem, partition: Partition, older_than_ms: int, clock: Clock, places: Places | None = None
) -> PurgePlan:
    """Plan the removal of files that are due and runs that are old.

    Raises Refused, UnsupportedFormat, Unreadable, NotChanged.
    """
    if is_staged(partition.directory.name):
        return _plan_leftover(fs, partition, clock.now_ms)
    check_layout(fs, partition.path, partition.entries)
    try:
        runs = _Runs(fs, partition.path)
        files, not_due = _due_files(fs, partition, runs, clock)
        old, kept, young = runs.older_than(older_than_ms, clock)
        warnings = check_refusals(fs, partition, Action.PURGE, clock, places) if files or old else ()
    except OSError as error:
        raise not_changed(partition.path, error) from error
    return PurgePlan(partition.path, tuple(files), tuple(old), tuple(kept), not_due + young, warnings)


def apply_purge(fs: WritableFilesystem, plan: PurgePlan) -> None:
    """Remove the planned files and runs, under the partition's lock. Raises Refused, NotChanged, PartlyRemoved."""
    log_dir, is_begun = log_dir_of(fs, plan.path), False
    for run in plan.runs:
        if log_dir is not None:
            with partly(plan.path, is_begun=is_begun):
                is_begun |= keep_marker_away(fs, log_dir, run.run_id, plan.path.rpartition("/")[2])
    with partly(plan.path, is_begun=is_begun):
        remove_files(fs, plan.path, [due.file for due in plan.files])
    is_begun |= bool(plan.files)
    for run in plan.runs:
        with partly(plan.path, is_begun=is_begun):
            remove_run_directory(fs, plan.path, run.run_id)
        is_begun = True


def apply_leftover(fs: WritableFilesystem, plan: PurgePlan, policy: LockPolicy) -> None:
    """Remove the leftover of an import, while no import runs. Raises Locked, Refused, NotChanged, PartlyRemoved."""
    log_dir, name = os.path.split(os.path.abspath(plan.path))  # noqa: PTH100 - links are not followed
    with lock_imports(fs, log_dir, policy):
        if import_leftovers(fs, log_dir, [name]).place_of(name) is not None:
            raise Refused(path=plan.path, reason="an import was committed meanwhile, and waits for it")
        remove_directory(fs, f"{log_dir}/{name}")  # in the log directory that is locked


def _plan_leftover(fs: WritableFilesystem, partition: Partition, now_ms: int) -> PurgePlan:
    """Plan the removal of an import's directory: only if no committed import needs it, and no import runs."""
    path = partition.path
    log_dir, name = os.path.split(os.path.abspath(path))  # noqa: PTH100 - links are not followed
    left = import_leftovers(fs, log_dir, [name])
    place = left.place_of(name)
    if place is not None:
        reason = f"it is to be {place}: an import was cut off after its commit; repeat that import first"
        return PurgePlan(path, kept=(KeptRun(left.run or "", reason),))
    try:
        files = fs.list_directory(path)
        newest_ns = max(fs.attributes(one).ctime_ns for one in (path, *(file.path for file in files)))
        if newest_ns // 1_000_000 + DEFAULT_DELAY_MS > now_ms or import_owner(log_dir) is not None:
            return PurgePlan(path, waiting=1)
    except OSError as error:
        raise not_changed(path, error) from error
    return PurgePlan(path, leftover=Leftover(len(files), sum(file.size_bytes for file in files)))


class _Runs:
    """The runs of a partition, with their manifests."""

    def __init__(self, fs: WritableFilesystem, path: str) -> None:
        self._fs = fs
        self._path = path
        self.manifests: dict[str, Manifest | None] = {}
        self._unreadable: dict[str, str] = {}
        for run_id in run_ids(fs, path):
            try:
                self.manifests[run_id] = read_manifest(fs, path, run_id)
            except KafkalogError as error:
                self._unreadable[run_id] = str(error)

        newest = max(self.manifests, default="")
        last = self.manifests.get(newest)
        self.cut_off = newest if last is not None and _has_an_undo(last) else None
        """The last run if it was cut off: an undo needs all files as it left them. Any later run repaired the log."""

    def older_than(self, age_ms: int, clock: Clock) -> tuple[list[OldRun], list[KeptRun], int]:
        """Return the runs that can be removed, the runs that must be kept, and the number of younger runs.

        A run can be removed if it ended at least `age_ms` ago and is not foreign. The last run can be removed only if
        it was not interrupted.
        """
        old, young = [], 0
        kept = [KeptRun(run_id, reason) for run_id, reason in self._unreadable.items()]
        for run_id, manifest in self.manifests.items():
            if run_id == self.cut_off:
                command = f"kafkalog undo {shell_word(self._path)} {shell_word(run_id)}"
                kept.append(KeptRun(run_id, f"it was cut off half way; `{command}` restores the earlier state"))
            elif manifest is None and not is_ours(self._fs, self._path, run_id):
                kept.append(KeptRun(run_id, "kafkalog did not make it: skipped"))
            elif manifest is None or _ended_ms(manifest, clock) <= clock.now_ms - age_ms:
                files = self._fs.list_directory(run_directory(self._path, run_id))
                state = None if manifest is None else manifest.state
                old.append(OldRun(run_id, state, len(files), sum(file.size_bytes for file in files)))
            else:
                young += 1
        return old, kept, young


def _due_files(fs: WritableFilesystem, partition: Partition, runs: _Runs, clock: Clock) -> tuple[list[DueFile], int]:
    """Return the `.deleted` files that are due, and the number that are not. Files of unfinished runs are ignored."""
    made: dict[str, Manifest] = {}
    for manifest in runs.manifests.values():
        if manifest is not None and manifest.state is not RunState.UNDONE:
            made.update((name, manifest) for name in map(_filled, manifest.changes) if name is not None)
    due, waiting = [], 0
    for leftover in partition.leftovers:
        if leftover.name.state is not WorkState.DELETED:
            continue
        by = made.get(leftover.name.name)
        if by is not None and by.state is not RunState.DONE:
            continue
        ctime_ms = fs.attributes(leftover.status.path).ctime_ns // 1_000_000
        due_ms = ctime_ms + DEFAULT_DELAY_MS if by is None else _ended_ms(by, clock) + _delay_ms(by)
        if due_ms <= clock.now_ms and runs.cut_off is None:
            due.append(DueFile(leftover.status, due_ms, None if by is None else by.run.run_id))
        else:
            waiting += 1
    return due, waiting


def _has_an_undo(manifest: Manifest) -> bool:
    """Whether a run stopped half way, and kept what an undo needs to complete it."""
    return manifest.state in (RunState.STARTED, RunState.UNDOING) and not manifest.discard


def _filled(change: PlannedChange) -> str | None:
    """Return the name under which a change leaves a new or moved file; None if it leaves none."""
    if change.kind is ChangeKind.PUT:
        return change.name
    return change.new_name if change.kind is ChangeKind.MOVE else None


def _ended_ms(manifest: Manifest, clock: Clock) -> int:
    """Return when a run ended. By the host's clock it did not end before it began, whichever `--now` it was given."""
    ended = manifest.run.now_ms if manifest.finished_ms is None else manifest.finished_ms
    return ended if clock.is_given else max(ended, begun_ms(manifest.run.run_id))


def _delay_ms(manifest: Manifest) -> int:
    text = str(manifest.run.settings.get(DELAY, DEFAULT_DELAY_MS))
    return int(text) if text.isdecimal() else DEFAULT_DELAY_MS


_ONE_LEFTOVER = Lock()
"""Leftovers of imports are removed one at a time: each removal needs the log directory's lock for imports."""


def purge(paths: Paths, *, older_than_ms: int = 604_800_000, **options: Unpack[VerbOptions]) -> Run[PurgePlan]:
    """Permanently remove files whose delay is over, and the files that runs older than `older_than_ms` keep.

    As `kafkalog purge` does. Raises as `recover`.
    """

    def purge_one(target: Target) -> PurgePlan:
        # The lock would create `.kafkalog` in a partition that has nothing to purge.
        is_locked = _may_have_work(target.partition)
        with target.locked() if is_locked else nullcontext():
            plan = plan_purge(target.fs, target.partition, older_than_ms, target.clock, target.places)
            target.warn(plan.warnings)
            for kept in plan.kept:
                target.note("run-kept", f"run {kept.run_id} stays: {kept.reason}", plan.path)
            if target.dry_run:
                return replace(plan, dry_run=True)
            if plan.leftover is not None:
                with _ONE_LEFTOVER:
                    apply_leftover(target.fs, plan, target.call.lock_policy)
            elif plan.has_work:
                target.confirm(plan)
                apply_purge(target.fs, plan)
            return plan

    call = Call("purge", paths, options)
    return call.change_each(call.partitions(), purge_one)


def _may_have_work(partition: Partition) -> bool:
    return bool(partition.runs or partition.leftovers) and not is_staged(partition.directory.name)
