"""Recovers partitions: plans and applies the recovery of each, and rebuilds damaged checkpoints of log directories."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from kafkalog_cli.change.checkpoint_lines import RebuiltCheckpoint, rebuild_damaged
from kafkalog_cli.change.draft import Draft
from kafkalog_cli.disk.durable import rename_directory
from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.disk.names import DirectoryKind, FileKind
from kafkalog_cli.errors import ExitCode, KafkalogError, NothingSelected, Refused, UsageError, counted, shell_word
from kafkalog_cli.format import partition_metadata
from kafkalog_cli.format.fault import FaultKind
from kafkalog_cli.format.kafka_version import NEWEST, KafkaVersion, kafka_version_of
from kafkalog_cli.format.partition_metadata import PartitionMetadata
from kafkalog_cli.log.log_dir import OFFSET_CHECKPOINTS, read_log_dir
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.log.settings.metadata_image import TopicState
from kafkalog_cli.log.settings.source import SettingsSource
from kafkalog_cli.ops.call.call import Call, Run
from kafkalog_cli.ops.call.observer import Note
from kafkalog_cli.ops.call.options import Paths, VerbOptions
from kafkalog_cli.ops.call.target import Changed, Target
from kafkalog_cli.ops.change.apply_changes import MarkerUse, apply_changes
from kafkalog_cli.ops.change.plans import Remark, in_place, load_settings_of, used_settings
from kafkalog_cli.ops.change.refusals import Action
from kafkalog_cli.ops.change.undo.last_run import cut_off_run, is_cut_off_for_good
from kafkalog_cli.ops.check.recover.like_broker import plan_like_broker
from kafkalog_cli.ops.check.recover.plan import RecoverMode, RecoverPlan
from kafkalog_cli.ops.check.recover.repair import plan_repair
from kafkalog_cli.ops.ownership import find_owner, path_of_stray, topic_of_directory
from kafkalog_cli.ops.selection import log_dirs_of
from kafkalog_cli.ops.steps import command_line, recover_command

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(frozen=True, slots=True)
class Recovered(Changed[RecoverPlan]):
    """The result for one partition. `live_path` is the new name of a directory that was `-stray`."""

    live_path: str | None = None

    @property
    def is_changed(self) -> bool:
        """Whether the partition was changed."""
        return self.done is not None or self.live_path is not None

    @property
    def given(self) -> dict[str, object]:
        """The fields of the plan's object that do not come from the plan."""
        run = None if self.done is None else self.done.manifest.run.run_id
        return {"path": self.live_path or self.plan.path, "run": run}

    @property
    def exit_code(self) -> ExitCode:
        """The findings in a dry run; else REFUSED, or OK because the partition is sound now."""
        if self.is_dry_run:
            return self.plan.exit_code
        return ExitCode.REFUSED if self.plan.is_refused else ExitCode.OK


def recover(
    paths: Paths,
    *,
    mode: RecoverMode | str = RecoverMode.REPAIR,
    since_recovery_point: bool = False,
    discard: bool = False,
    kafka_version: str | None = None,
    **options: Unpack[VerbOptions],
) -> Run[Recovered]:
    """Repair partitions as `kafkalog recover` does; `mode` is repair, like-broker or indexes-only.

    `kafka_version`: the release whose loader like-broker mirrors, such as 4.2; other modes have none. A dry run reports
    the checkpoints that would be rebuilt. Raises UsageError, PathNotFound, NotKafkaLayout, NothingSelected. Failures of
    single partitions are in `errors`.
    """
    mode, call = RecoverMode(mode), Call("recover", paths, options)
    if kafka_version is not None and mode is not RecoverMode.LIKE_BROKER:
        raise UsageError(reason="kafka_version is for the mode like-broker: other repairs suit every version")
    version = NEWEST if kafka_version is None else kafka_version_of(kafka_version)
    rebuilds = mode is RecoverMode.REPAIR
    partitions, log_dirs = _partitions_to_recover(call)
    if call.dry_run and rebuilds:
        _report_damaged_checkpoints(call, [*call.log_dirs(partitions), *log_dirs])
    do = partial(_recover_one, mode=mode, since_recovery_point=since_recovery_point, discard=discard, version=version)
    when_locked = partial(_rebuild_checkpoints, call) if rebuilds else lambda _: None
    return call.change_each(partitions, do, lock_too=log_dirs, when_locked=when_locked)


# ---- what is recovered


def _partitions_to_recover(call: Call) -> tuple[list[Partition], list[str]]:
    """Return the partitions without `-stray` directories, unless those are named by their own paths.

    Also return the log directories with a checkpoint to rebuild of which no partition is left; there may be no
    partition then. Raises as `Call.writable_partitions` and `SettingsSource.metadata`.
    """
    kept: list[Partition] = []
    nothing: NothingSelected | None = None
    try:
        found = call.writable_partitions()
    except NothingSelected as error:
        found, nothing = [], error
    for partition in found:
        is_stray = partition.directory.kind is DirectoryKind.STRAY
        if is_stray and partition.path not in call.named_paths:
            command = recover_command(partition.path, call.log_dir(partition.path), call.settings(found))
            message = f"skipped: a broker set it aside; to restore it: `{command_line(command)}`"
            call.observer.report(Note("stray-skipped", message, partition.path))
        else:
            kept.append(partition)
    damaged = [*_damaged_log_dirs(call, set(call.log_dirs(kept)))]
    if nothing is not None and not damaged:
        raise nothing
    return kept, damaged


def _damaged_log_dirs(call: Call, others: Collection[str]) -> Iterator[str]:
    """Yield the log directories of the paths, without `others`, in which a checkpoint has to be rebuilt.

    Each is read again when it is locked.
    """
    for path in map(os.path.abspath, log_dirs_of(call.fs, call.paths)):
        if path in others or call.is_left_alone(path):
            continue
        if any(map(read_log_dir(call.fs, path).needs_rebuild, OFFSET_CHECKPOINTS)):
            yield path


def _report_damaged_checkpoints(call: Call, log_dirs: Sequence[str]) -> None:
    """Report the checkpoints that would be rebuilt."""
    for log_dir in log_dirs:
        for path, fault in call.roots.read(log_dir).faults:
            if fault.kind is not FaultKind.UNREADABLE:
                message = f"a broker cannot read it ({fault.message}): would be rebuilt from the lines that can be read"
                call.observer.report(Note("checkpoint-damaged", message, path))


def _rebuild_checkpoints(call: Call, log_dir: str) -> None:
    """Rebuild damaged checkpoints, and read their valid lines before that.

    Raises KafkalogError, OSError.
    """
    for rebuilt in rebuild_damaged(call.fs, call.roots.read(log_dir), call.run_id):
        call.observer.report(Note("checkpoint-rebuilt", _rebuilt_words(rebuilt), rebuilt.path))


def _rebuilt_words(rebuilt: RebuiltCheckpoint) -> str:
    """Describe what was wrong with a checkpoint, what was done, and how to undo it."""
    fault = rebuilt.fault
    problem = "it has a partition twice" if fault is None else f"a broker cannot read it ({fault.message})"
    return (
        f"{problem}: rebuilt from {counted(rebuilt.lines, 'line', 'lines')};"
        f" undo: mv {shell_word(rebuilt.kept_as)} {shell_word(rebuilt.path)}"
    )


# ---- one partition


def _recover_one(
    work: Target, *, mode: RecoverMode, since_recovery_point: bool, discard: bool, version: KafkaVersion
) -> Recovered:
    """Recover one partition, see `plan_recovery`. `discard`: removed data is not kept for undo."""
    work.note_unread_run()
    live, kept_away = None, None
    if work.partition.directory.kind is DirectoryKind.STRAY:
        work.partition.has_lines = True  # the directory gets the name back to which they belong
    try:
        live = _path_of_stray(work, mode)
    except Refused as error:  # a broker leaves the directory alone: its files can be repaired where they are
        kept_away = error
    now_ms = work.clock.now_ms
    plan = plan_recovery(
        work.fs, work.partition, now_ms, mode, since_recovery_point=since_recovery_point, version=version
    )
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
        run = work.call.run_info(plan.settings)
        marker = MarkerUse.DROPPED if plan.drops_records else MarkerUse.GIVEN_BACK
        settings = None if plan.drops_records else load_settings_of(now_ms, plan.settings)
        done = apply_changes(work.fs, plan, run, marker, settings, discard=discard)
        if live is None or not is_renamed:
            return Recovered(work.changed(plan, done).plan, done)
        # After a crash before the renaming, the command can be repeated.
        rename_directory(work.fs, plan.path, live)
    work.note("stray", f"renamed to {live}; undo: mv {shell_word(live)} {shell_word(plan.path)}", plan.path)
    return Recovered(work.changed(plan, done).plan, done, live_path=live)


def _path_of_stray(work: Target, mode: RecoverMode) -> str | None:
    """Return the name that a `-stray` directory gets back, None for any other directory.

    Raises Refused if it keeps its name.
    """
    if work.partition.directory.kind is not DirectoryKind.STRAY or mode is not RecoverMode.REPAIR:
        return None
    return path_of_stray(work.fs, work.partition, work.log_dir, work.settings)


def _rebuild_like_broker(work: Target, plan: RecoverPlan) -> None:
    """Rebuild checkpoints that a broker cannot read, as a broker's clean stop would."""
    if plan.mode is RecoverMode.LIKE_BROKER and work.partition.root is not None and not plan.is_refused:
        for rebuilt in rebuild_damaged(work.fs, work.partition.root, work.call.run_id, like_broker=True):
            work.note("checkpoint-rebuilt", _rebuilt_words(rebuilt), rebuilt.path)


def _note_cut_off(work: Target) -> None:
    """Note an interrupted run: the files that it keeps may be the reason for the refusal."""
    path, run_id = work.partition.path, cut_off_run(work.fs, work.partition)
    if run_id is not None and not is_cut_off_for_good(work.fs, work.partition):
        command = f"kafkalog undo {shell_word(path)} {shell_word(run_id)}"
        message = f"run {run_id} was cut off half way; `{command}` restores the earlier state"
        work.note("cut-off", message, path)


# ---- the plan


def plan_recovery(  # noqa: PLR0913
    fs: Filesystem,
    partition: Partition,
    now_ms: int,
    mode: RecoverMode,
    *,
    since_recovery_point: bool = False,
    version: KafkaVersion = NEWEST,
) -> RecoverPlan:
    """Plan the recovery of a partition, with the settings that are used. Raises Unreadable as `plan_repair` does.

    `since_recovery_point`: only segments from the recovery point on are checked. `version`: the Kafka whose loader is
    mirrored.
    """
    assert partition.settings is not None
    partition.check_start()
    log_dir = partition.log_dir
    used = used_settings(partition.settings, log_dir, partition.topic)
    settings = load_settings_of(now_ms, used)._replace(is_version_a_byte=version.is_before_4_4)
    if mode is RecoverMode.LIKE_BROKER:
        plan, line = plan_like_broker(fs, partition, settings), partition.broker_line
    else:
        start, line, draft = partition.start(), partition.line, Draft(fs, partition.path)
        plan = plan_repair(
            draft.fork(), partition, settings,
            log_start_offset=start.log_start_offset, lines=partition.lines,
            indexes_only=mode is RecoverMode.INDEXES_ONLY,
            since=start.recovery_point if since_recovery_point else None,
        )  # fmt: skip
        if mode is RecoverMode.REPAIR:
            plan = _with_topic_id(draft, partition, plan, partition.settings)
    edits = tuple(edit for edit in plan.line_edits if log_dir is not None and line(edit.kind) != edit.offset)
    return replace(plan, settings=used, line_edits=edits)


_METADATA_FILE = FileKind.PARTITION_METADATA.value


def _with_topic_id(draft: Draft, partition: Partition, plan: RecoverPlan, settings: SettingsSource) -> RecoverPlan:
    """Add a `partition.metadata` to the plan if it is missing or damaged and the metadata log has the topic's id.

    Raises as `SettingsSource.metadata` does.
    """
    kinds = (DirectoryKind.PARTITION, DirectoryKind.STRAY)
    if plan.is_refused or partition.directory.kind not in kinds or partition.directory.is_metadata_log:
        return plan
    path = f"{partition.path}/{_METADATA_FILE}"
    is_there = draft.fs.status(path) is not None
    try:
        if is_there and partition_metadata.decode(draft.read(_METADATA_FILE))[0] is not None:
            return plan
    except (KafkalogError, OSError):
        return plan  # an unreadable sector may contain the right id
    topic = _topic_here(partition, plan.log_dir, settings)
    if topic is None:
        return plan
    draft.put(_METADATA_FILE, partition_metadata.encode(PartitionMetadata(partition_metadata.VERSION, topic.topic_id)))
    message = f"{'damaged' if is_there else 'missing'}: written with the topic id of {topic.name}, {topic.topic_id}"
    remark = Remark(path, message, ExitCode.WARNINGS)
    return replace(plan, changes=(*plan.changes, *draft.changes()), remarks=(*plan.remarks, remark))


def _topic_here(partition: Partition, log_dir: str | None, settings: SettingsSource) -> TopicState | None:
    """Return the topic that has this partition in the metadata log, with a replica on this broker if that is known."""
    metadata = settings.metadata(log_dir)
    if metadata is None or not metadata.is_complete:
        return None
    topic = topic_of_directory(partition, None, metadata)
    if topic is None:
        return None
    own = find_owner(metadata, topic.name, partition.number, None, settings.broker_id(log_dir))
    return own.topic if own.is_held else None
