"""The verbs of `recover`: RECOVER repairs each partition and the checkpoints of its log directory, SALVAGE copies."""

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar

from kafkalog_cli.change.checkpoint_lines import RebuiltCheckpoint, rebuild_damaged
from kafkalog_cli.disk.durable import rename_directory
from kafkalog_cli.disk.lock import real_directory
from kafkalog_cli.disk.names import DirectoryKind
from kafkalog_cli.errors import ExitCode, NothingSelected, Refused, counted, shell_word
from kafkalog_cli.format.fault import FaultKind
from kafkalog_cli.log.log_dir import OFFSET_CHECKPOINTS, read_log_dir
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops.apply_changes import Applied, MarkerUse, apply_changes
from kafkalog_cli.ops.ownership import path_of_stray
from kafkalog_cli.ops.plans import in_place, load_settings, load_settings_of
from kafkalog_cli.ops.recover.plan import RecoverMode, RecoverPlan
from kafkalog_cli.ops.recover.recover import plan_recovery
from kafkalog_cli.ops.recover.salvage import LostOffsets, Salvaged, made_target, salvage
from kafkalog_cli.ops.refusals import Action
from kafkalog_cli.ops.selection import log_dirs_of
from kafkalog_cli.ops.session.observer import Note
from kafkalog_cli.ops.session.session import Session
from kafkalog_cli.ops.session.verb import Verb
from kafkalog_cli.ops.session.work import Work, of_the_system
from kafkalog_cli.ops.steps import (
    AS_A_NODE,
    MOVE_AWAY,
    Argv,
    Step,
    Steps,
    Word,
    all_of,
    command_line,
    filled,
    flat,
    path_word,
    recover_command,
    text_of,
)
from kafkalog_cli.ops.steps import (
    RECOVER as RECOVER_COMMAND,
)
from kafkalog_cli.ops.undo.last_run import cut_off_run, is_cut_off_for_good
from kafkalog_cli.results import EMPTY_IS_NULL, FLAT, Hidden, PathName, of, result


@dataclass(frozen=True, slots=True)
class Recovered:
    """The result for one partition. `done` is None if nothing was changed.

    `live_path` is the new name of a directory that was `-stray`, None for any other.
    """

    plan: RecoverPlan
    done: Applied | None
    is_dry_run: bool = False
    live_path: str | None = None

    @property
    def exit_code(self) -> ExitCode:
        """The findings in a dry run; else REFUSED, or OK because the partition is sound now."""
        if self.is_dry_run:
            return self.plan.exit_code
        return ExitCode.REFUSED if self.plan.is_refused else ExitCode.OK


def recovery(
    session: Session, paths: list[str], mode: RecoverMode, *, since_recovery_point: bool, discard: bool
) -> tuple[Callable[[Work], Recovered], list[Partition]]:
    """Return the work and the partitions for RECOVER. A dry run reports the checkpoints that would be rebuilt.

    Raises as `partitions_to_recover`.
    """
    partitions = partitions_to_recover(session, paths)
    if session.options.dry_run and mode is RecoverMode.REPAIR:
        _report_damaged_checkpoints(session, partitions)
    if mode is RecoverMode.REPAIR:
        session.when_locked = partial(_rebuild_checkpoints, session)
    do = partial(recover_partition, mode=mode, since_recovery_point=since_recovery_point, discard=discard)
    return do, partitions


def partitions_to_recover(session: Session, paths: list[str]) -> list[Partition]:
    """Return the partitions without `-stray` directories, unless those are named by their own paths.

    A log directory with a checkpoint to rebuild is locked by `session` even if no partition of it is left; the result
    may be empty then. Raises as `Session.writable_partitions` and `SettingsSource.metadata`.
    """
    kept: list[Partition] = []
    nothing: NothingSelected | None = None
    try:
        found = session.writable_partitions(paths)
    except NothingSelected as error:
        found, nothing = [], error
    for partition in found:
        is_stray = partition.directory.kind is DirectoryKind.STRAY
        if is_stray and partition.path not in session.named_paths:
            command = recover_command(partition.path, session.log_dir(partition.path), session.settings(found))
            message = f"skipped: a broker set it aside; to restore it: `{command_line(command)}`"
            session.observer.report(Note("stray-skipped", message, partition.path))
        else:
            kept.append(partition)
    others = set(session.log_dirs(kept))
    session.log_dirs_alone = tuple(_damaged_log_dirs(session, paths, others))
    if nothing is not None and not session.log_dirs_alone:
        raise nothing
    return kept


def _damaged_log_dirs(session: Session, paths: list[str], others: Collection[str]) -> Iterator[str]:
    """Yield the log directories of the paths, without `others`, in which a checkpoint has to be rebuilt.

    Each is read again when it is locked.
    """
    fs = session.fs
    for path in map(os.path.abspath, log_dirs_of(fs, paths)):
        if path in others or session.is_left_alone(path):
            continue
        if any(map(read_log_dir(fs, path).needs_rebuild, OFFSET_CHECKPOINTS)):
            yield path


def _report_damaged_checkpoints(session: Session, partitions: Sequence[Partition]) -> None:
    """Report the checkpoints that would be rebuilt."""
    for log_dir in dict.fromkeys((*session.log_dirs(partitions), *session.log_dirs_alone)):
        for path, fault in session.roots.read(log_dir).faults:
            if fault.kind is not FaultKind.UNREADABLE:
                message = f"a broker cannot read it ({fault.message}): would be rebuilt from the lines that can be read"
                session.observer.report(Note("checkpoint-damaged", message, path))


def _rebuild_checkpoints(session: Session, log_dir: str) -> None:
    """Rebuild damaged checkpoints, and read their valid lines before that.

    Raises KafkalogError, OSError.
    """
    for rebuilt in rebuild_damaged(session.fs, session.roots.read(log_dir), session.run_id):
        session.observer.report(Note("checkpoint-rebuilt", _rebuilt_words(rebuilt), rebuilt.path))


def _rebuilt_words(rebuilt: RebuiltCheckpoint) -> str:
    """Describe what was wrong with a checkpoint, what was done, and how to undo it."""
    fault = rebuilt.fault
    problem = "it has a partition twice" if fault is None else f"a broker cannot read it ({fault.message})"
    return (
        f"{problem}: rebuilt from {counted(rebuilt.lines, 'line', 'lines')};"
        f" undo: mv {shell_word(rebuilt.kept_as)} {shell_word(rebuilt.path)}"
    )


def recover_partition(
    work: Work, *, mode: RecoverMode, since_recovery_point: bool = False, discard: bool = False
) -> Recovered:
    """Recover one partition, see `plan_recovery`. `discard`: removed data is not kept for undo."""
    live, kept_away = None, None
    if work.partition.directory.kind is DirectoryKind.STRAY:
        work.partition.has_lines = True  # the directory gets the name back to which they belong
    try:
        live = _path_of_stray(work, mode)
    except Refused as error:  # a broker leaves the directory alone: its files can be repaired where they are
        kept_away = error
    now_ms = work.clock.now_ms
    plan = plan_recovery(work.fs, work.partition, now_ms, mode, since_recovery_point=since_recovery_point)
    if kept_away is not None and not plan.has_work:
        raise kept_away
    try:
        work.check(Action.RECOVER, in_place=in_place(plan))
    except Refused as refused:
        _note_cut_off(work)
        raise kept_away or refused from refused.__cause__
    if kept_away is not None:
        work.note("stray", f"keeps its name: {kept_away.details['reason']}", work.partition.path)
    if work.dry_run:
        if live is not None:
            work.note("stray", f"would be renamed to {live}", work.partition.path)
        return Recovered(plan, None, is_dry_run=True)
    _rebuild_like_broker(work, plan)
    is_renamed = live is not None and not plan.is_refused
    if not plan.has_work and not is_renamed:
        return Recovered(plan, None)
    with work.ready_to_change(plan):
        run = work.session.run_info(plan.settings)
        marker = MarkerUse.DROPPED if plan.drops_records else MarkerUse.GIVEN_BACK
        settings = None if plan.drops_records else load_settings_of(now_ms, plan.settings)
        done = apply_changes(work.fs, plan, run, marker, settings, discard=discard, held=work.lock)
        if live is None or not is_renamed:
            return Recovered(work.changed(plan, done).plan, done)
        # After a crash before the renaming, the command can be repeated.
        rename_directory(work.fs, plan.path, live)
    work.note("stray", f"renamed to {live}; undo: mv {shell_word(live)} {shell_word(plan.path)}", plan.path)
    return Recovered(work.changed(plan, done).plan, done, live_path=live)


def _path_of_stray(work: Work, mode: RecoverMode) -> str | None:
    """Return the name that a `-stray` directory gets back, None for any other directory.

    Raises Refused if it keeps its name.
    """
    if work.partition.directory.kind is not DirectoryKind.STRAY or mode is not RecoverMode.REPAIR:
        return None
    return path_of_stray(work.fs, work.partition, work.log_dir, work.settings)


def _rebuild_like_broker(work: Work, plan: RecoverPlan) -> None:
    """Rebuild checkpoints that a broker cannot read, as a broker's clean stop would."""
    if plan.mode is RecoverMode.LIKE_BROKER and work.partition.root is not None and not plan.is_refused:
        for rebuilt in rebuild_damaged(work.fs, work.partition.root, work.session.run_id, like_broker=True):
            work.note("checkpoint-rebuilt", _rebuilt_words(rebuilt), rebuilt.path)


def _note_cut_off(work: Work) -> None:
    """Note an interrupted run: the files that it keeps may be the reason for the refusal."""
    path, run_id = work.partition.path, cut_off_run(work.fs, work.partition)
    if run_id is not None and not is_cut_off_for_good(work.fs, work.partition):
        command = f"kafkalog undo {shell_word(path)} {shell_word(run_id)}"
        message = f"run {run_id} was cut off half way; `{command}` restores the earlier state"
        work.note("cut-off", message, path)


RECOVER = Verb(Action.RECOVER.value)


@contextmanager
def salvaging(
    session: Session, paths: list[str], target: str
) -> Iterator[tuple[Callable[[Work], Any], list[Partition]]]:
    """Yield the work and the partitions for SALVAGE: copies go to the directory `target`. Raises as `made_target`."""
    partitions = []
    for partition in session.partitions(paths):
        if partition.directory.is_metadata_log and partition.path not in session.named_paths:
            session.observer.report(Note("skipped", f"skipped: {_NO_METADATA_LOG}", partition.path))
        else:
            partitions.append(partition)
    with made_target(session.fs, target):
        yield partial(_salvage, to=target), partitions


@result("kafkalog.salvage/1")
@dataclass(frozen=True, slots=True)
class Copied:
    """The valid batches of a partition that recover --salvage copied, and the lost offsets.

    `metadata` is the `--metadata` of the command line, which next steps repeat. `is_of_other_user`: the partition
    belongs to another user than the copy.
    """

    source: Hidden[Partition]
    path: ClassVar[Annotated[PathName, "the partition directory"]] = of("source.path")
    topic: ClassVar[str] = of("source.topic")
    partition: ClassVar[int] = of("source.number")
    salvaged: Annotated[Salvaged, FLAT]
    metadata: Hidden[str | None] = None
    is_of_other_user: Hidden[bool] = False

    @property
    def next_step(
        self,
    ) -> Annotated[
        str | None,
        EMPTY_IS_NULL,
        "the commands that check the copy and put it in the place of the damaged log; null if nothing was copied",
    ]:
        """The commands that check the copy and put it in the place of the damaged log; "" if nothing was copied."""
        if not self.salvaged.batches:
            return ""
        if not self.replacing:
            return text_of(self.checking)
        first = "With the broker stopped, "
        last = " put it in the place of the damaged log"
        return text_of((*self.checking, *all_of(self.replacing, last, first)))

    @property
    def checking(self) -> Steps:
        """The next step that checks the copy."""
        return (Step("", ("kafkalog", "verify", path_word(self.salvaged.path)), " checks the copy"),)

    @property
    def replacing(self) -> tuple[Argv, ...]:
        """The commands that put the copy in the place of the damaged log, in their order.

        None for a directory without the name of a partition: it may have files of others.
        """
        if self.source.directory.topic is None:
            return ()
        path = self.source.path
        commands = (
            MOVE_AWAY,
            ("mv", "-nT", path_word(self.salvaged.path), Word.PATH),
            *([("sudo", "chown", "-R", "--reference", Word.PATH_AWAY, Word.PATH)] if self.is_of_other_user else []),
            RECOVER_COMMAND,
        )
        return tuple(step.argv for step in flat(filled(all_of(commands, ""), path, path, self.metadata)))

    @property
    def exit_code(self) -> ExitCode:
        """OK without losses, WARNINGS if only a torn tail is lost, else CORRUPTION."""
        lost = self.salvaged.lost
        is_torn_only = not self.salvaged.skipped and all(_is_torn_tail(self.source, one) for one in lost)
        if self.salvaged.unreadable or (lost and not is_torn_only):
            return ExitCode.CORRUPTION
        return ExitCode.WARNINGS if lost else ExitCode.OK


def _is_torn_tail(partition: Partition, lost: LostOffsets) -> bool:
    """Whether only bytes are lost that a crash can leave at the log's end. A crash leaves no bad sectors."""
    segments = partition.segments
    return lost.last is None and not lost.unreadable_bytes and lost.path in [one.log.path for one in segments[-1:]]


_NO_METADATA_LOG = "a copy of batches is no metadata log, which has its node's vote and its snapshots too"


def _salvage(work: Work, *, to: str) -> Copied:
    partition = work.partition
    if partition.directory.is_metadata_log:
        steps = filled((Step(_NO_METADATA_LOG), *AS_A_NODE), partition.path, partition.path)
        raise Refused(path=partition.path, reason=text_of(steps))
    settings = load_settings(partition, work.clock.now_ms)
    target = f"{to.rstrip('/')}/{partition.name}"
    try:
        salvaged = salvage(work.fs, partition, target, settings)
        is_of_other_user = work.fs.attributes(real_directory(work.fs, partition.path)).owner_id != os.geteuid()
        return Copied(partition, salvaged, work.settings.metadata_option, is_of_other_user)
    except OSError as error:
        told = of_the_system(target, error)
        told.has_no_partition = str(told.details["path"]).startswith(target)  # nothing to purge in an incomplete copy
        raise told from error


SALVAGE = Verb("salvage", changes=False)
"""The source is only read, and not locked."""
