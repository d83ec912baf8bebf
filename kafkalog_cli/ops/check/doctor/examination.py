"""Examine a log directory for `doctor`: the findings of `verify`, the plans of a broker's start, the next commands."""

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar

from kafkalog_cli.disk.lock import log_dir_of
from kafkalog_cli.disk.names import (
    METADATA_TOPIC,
    DirectoryKind,
    FileKind,
    classify_file,
    partition_directory_name,
    segment_file_name,
)
from kafkalog_cli.errors import (
    ExitCode,
    KafkalogError,
    NothingSelected,
    NotKafkaLayout,
    PathNotFound,
    combined_exit_code,
    counted,
)
from kafkalog_cli.log.log_dir import Shutdown
from kafkalog_cli.log.partition import PartitionPath
from kafkalog_cli.log.settings.source import SettingsSource
from kafkalog_cli.ops.call.call import Call, text_of
from kafkalog_cli.ops.call.observer import Note, Observer
from kafkalog_cli.ops.call.options import Context, VerbOptions
from kafkalog_cli.ops.check.checks.diagnose import Finding
from kafkalog_cli.ops.check.checks.finding_kinds import NEVER_LED, SET_ALL_ASIDE, FindingKind, StartAction
from kafkalog_cli.ops.check.doctor.broker_pages import Recognised, messages, recognised
from kafkalog_cli.ops.check.doctor.commands import (
    Effect,
    MessagePlaces,
    NextCommand,
    commands_in,
    commands_of_page,
    in_safe_order,
)
from kafkalog_cli.ops.check.recover.plan import RecoverMode, RecoverPlan
from kafkalog_cli.ops.check.recover.recover import recover
from kafkalog_cli.ops.check.verify.identity import lacks_metadata_log
from kafkalog_cli.ops.check.verify.task import Verification
from kafkalog_cli.ops.check.verify.verify import VerifyPlanner
from kafkalog_cli.ops.choices import Level
from kafkalog_cli.ops.look.listing.root import LogDirRoot, read_root
from kafkalog_cli.ops.selection import in_its_log_dir, partition_paths
from kafkalog_cli.results import GIVEN, Count, Hidden, PathName, of, result

_MOST_PARTITIONS = 3
"""If one repair helps more partitions, it is named once, for the log directory."""


@result("kafkalog.examination/1")
@dataclass(frozen=True, slots=True)
class Examination:
    """A log directory that doctor has examined.

    `steps` is what a broker will do at its next start, in its order. `verifications` have
    the findings. `lines` are the lines of the given text that were recognised as lines of a broker's log.
    `text_is_unknown`: a text was given, and no line of it was recognised.
    """

    root: Hidden[LogDirRoot]
    path: ClassVar[PathName] = of("root.path")
    shutdown: ClassVar[Annotated[Shutdown, "how its broker stopped"]] = of("root.shutdown")
    pid: ClassVar[Annotated[int | None, "of the process that holds the lock"]] = of("root.lock_owner.pid")
    cluster_id: ClassVar[Annotated[str | None, "from meta.properties"]] = of("root.meta.cluster_id")
    node_id: ClassVar[int | None] = of("root.meta.node_id")
    partitions: Count
    steps: "Hidden[tuple[StartStep, ...]]"
    verifications: Hidden[tuple[Verification, ...]]
    commands: Hidden[tuple[NextCommand, ...]]
    lines: Hidden[tuple[Recognised, ...]]
    text_is_unknown: Hidden[bool]
    notes: Hidden[tuple[Note, ...]]
    exit_code: Hidden[ExitCode]


class _Results(Observer):
    """Collects results, and errors as notes."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.failures: list[Note] = []

    def report(self, note: Note) -> None:
        """Leave out what the verbs say beside their results."""

    def fail(self, error: KafkalogError, *, path: str | None = None, was_reported: bool = False) -> None:
        if not was_reported:
            self.failures.append(_note_of(error, path))


def _note_of(error: KafkalogError, path: str | None) -> Note:
    message = str(error) if path is None else str(error).removeprefix(f"{path}: ")
    return Note(type(error).__name__, message, path, is_error=True, exit_code=error.exit_code)


@dataclass(slots=True)
class _Seen:
    verifications: list[Verification] = field(default_factory=list)
    plans: dict[str, RecoverPlan] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    settings: SettingsSource | None = None

    def below(self, log_dir: str) -> "_Seen":
        """Return what was seen in one log directory."""
        start = f"{log_dir.rstrip('/')}/"
        verified = [one for one in self.verifications if one.path == log_dir or one.path.startswith(start)]
        notes = [one for one in self.notes if one.path is None or f"{one.path}/".startswith(start)]
        return _Seen(verified, notes=notes, settings=self.settings)

    @property
    def findings(self) -> dict[str, list[Finding]]:
        """The findings by the path of the partition or of the log directory."""
        return {one.path: [*one.findings] for one in self.verifications}


def examine(
    context: Context, options: VerbOptions, paths: Sequence[str], text: str = "", level: Level = Level.NORMAL
) -> tuple[Examination, ...]:
    """Examine the log directories of one broker; the directory of a partition stands for its log directory.

    `text` has lines of a broker's log. It belongs to the first log directory that it names, else to the first of all.
    If a line is recognised, or there are several paths, a path that is not a log directory gives a note. Nothing is
    locked or changed. Raises PathNotFound, NotKafkaLayout, Unreadable; UsageError for the settings.
    """
    lines, seen = recognised(text), _Seen()
    log_dirs = [*dict.fromkeys(_log_directory(context, path) for path in paths)]
    directories: dict[str, list[PartitionPath]] = {}
    for log_dir in log_dirs:
        try:
            directories[log_dir] = [*partition_paths(context.fs, log_dir)]
        except (PathNotFound, NotKafkaLayout) as error:
            if not lines and len(log_dirs) == 1:
                raise
            seen.notes.append(_note_of(error, log_dir))
    if directories:
        _verify(context, options, [*directories], level, seen)
    of_text = next((one for one in log_dirs if os.path.abspath(one) in text), log_dirs[0])  # noqa: PTH100
    found = []
    for log_dir in log_dirs:
        own = (text, lines) if log_dir == of_text else ("", ())
        found.append(_examined(context, options, log_dir, directories.get(log_dir), seen, *own))
    return tuple(found)


def _examined(  # noqa: PLR0913, PLR0917
    context: Context,
    options: VerbOptions,
    log_dir: str,
    directories: list[PartitionPath] | None,
    all_seen: _Seen,
    text: str,
    lines: tuple[Recognised, ...],
) -> Examination:
    """Return the examination of a log directory that was verified; `directories` None: it is none."""
    seen = all_seen.below(log_dir)
    codes = [one.exit_code for one in seen.verifications]
    failed = [note.exit_code for note in seen.notes if note.exit_code is not None]
    root = LogDirRoot(log_dir, Shutdown.UNKNOWN)
    if directories is not None:
        root = read_root(context.fs, log_dir, frozenset(one.path for one in directories))
        if not root.is_live:
            _plan(context, options, log_dir, seen)
    directories = directories or []
    has_metadata = any(one.directory.is_metadata_log for one in directories)
    metadata = text_of(options.get("metadata")) or (log_dir if has_metadata else None)
    places = MessagePlaces.of(log_dir, directories, text, metadata, text_of(options.get("broker_config")))
    commands = [*_of_findings(seen.verifications, places, directories)]
    commands += (command for line in lines for command in commands_of_page(line.message, places))
    is_unknown = bool(text.strip()) and not lines
    steps = [*start_steps(root, directories, seen.plans, seen.findings)] if root.files or directories else []
    settings = None if root.is_live else seen.settings
    if (
        settings is not None
        and not settings.is_metadata_directory(log_dir)
        and lacks_metadata_log(context.fs, root, settings)
    ):
        steps.append(_of_absent_metadata_log(root))
    return Examination(
        root,
        sum(one.directory.kind is DirectoryKind.PARTITION for one in directories),
        tuple(steps),
        tuple(seen.verifications),
        in_safe_order(_joined(commands, log_dir)),
        lines,
        is_unknown,
        tuple(seen.notes),
        combined_exit_code(codes + failed + [ExitCode.WARNINGS] * is_unknown, is_read=not failed),
    )


def _log_directory(context: Context, path: str) -> str:
    """Return the path of the log directory. Raises PathNotFound."""
    if context.fs.status(path) is None:
        raise PathNotFound(path=path)
    trimmed = in_its_log_dir(context.fs, path).rstrip("/") or "/"
    above = log_dir_of(context.fs, trimmed)
    return trimmed if above is None else above


def _verify(context: Context, options: VerbOptions, log_dirs: list[str], level: Level, seen: _Seen) -> None:
    results = _Results(context)
    call = Call("verify", log_dirs, {**options, "observer": results}, reads=True)
    planner = VerifyPlanner(call, level)
    call.read_each(planner.tasks(log_dirs), planner.work)
    seen.settings = planner.settings
    seen.verifications += results.results
    seen.notes += results.failures


def _plan(context: Context, options: VerbOptions, log_dir: str, seen: _Seen) -> None:
    """Plan a broker's start of each partition. The findings have the exit codes of what the plans find."""
    results = _Results(context)
    planning: VerbOptions = {**options, "observer": results, "dry_run": True}
    with suppress(NothingSelected):
        recover(log_dir, mode=RecoverMode.LIKE_BROKER, **planning)
    seen.plans |= {recovered.plan.path: recovered.plan for recovered in results.results}
    known = {(note.kind, note.path) for note in seen.notes}
    seen.notes += (note for note in results.failures if (note.kind, note.path) not in known)


def _of_findings(
    verifications: Iterable[Verification], places: MessagePlaces, directories: Iterable[PartitionPath]
) -> Iterator[NextCommand]:
    """Yield the commands of the next steps; for a step without any, the commands of its pages that change nothing."""
    by_path = {one.path: one for one in directories}
    for verification in verifications:
        here = places.about(by_path[verification.path]) if verification.path in by_path else places
        for finding in verification.findings:
            if finding.kind is FindingKind.LOCKED:
                continue
            named = [*commands_in(finding.steps)]
            yield from named
            if named and not any(command.argv for command in named):
                yield from _of_pages(finding.kind, here)


def _of_pages(kind: FindingKind, places: MessagePlaces) -> Iterator[NextCommand]:
    for message in messages():
        if kind.value in message.findings:
            commands = commands_of_page(message, places)
            yield from (command for command in commands if command.effect is Effect.NOTHING)


def _joined(commands: Iterable[NextCommand], log_dir: str) -> Iterator[NextCommand]:
    """Yield the commands, with one for the log directory in place of the same repair of many partitions."""
    commands = [*commands]
    repairs: dict[tuple[str, ...], list[NextCommand]] = defaultdict(list)
    for command in commands:
        if _is_repair(command, log_dir):
            repairs[command.argv[:2] + command.argv[3:]].append(command)
    many = {key for key, found in repairs.items() if len({one.argv for one in found}) > _MOST_PARTITIONS}
    for command in commands:
        key = command.argv[:2] + command.argv[3:]
        if _is_repair(command, log_dir) and key in many:
            command = replace(command, argv=(*command.argv[:2], log_dir, *command.argv[3:]))  # noqa: PLW2901
        yield command


def _is_repair(command: NextCommand, log_dir: str) -> bool:
    argv = command.argv
    is_below = len(argv) > 2 and argv[2].startswith(f"{log_dir.rstrip('/')}/")
    return argv[:2] == ("kafkalog", "recover") and is_below and "--salvage" not in argv


@result("kafkalog.start-step/1")
@dataclass(frozen=True, slots=True)
class StartStep:
    """A step of the broker's next start."""

    number: ClassVar[Annotated[int, "the place in the broker's order, from 1"]] = GIVEN
    action: StartAction
    path: Annotated[PathName, "the file or directory"]
    message: str
    kind: Hidden[FindingKind | None] = None

    @property
    def loses_data(self) -> Annotated[bool, "whether bytes of logs are removed"]:
        """Whether bytes of logs are removed."""
        return self.action in (StartAction.CUTS, StartAction.REMOVES)

    @property
    def ends_start(
        self,
    ) -> Annotated[bool, "whether the broker does not start, or starts without the log directory"]:
        """Whether the broker does not start, or starts without the log directory."""
        return self.action in (StartAction.DOES_NOT_START, StartAction.TAKES_OFFLINE)


_CHECKPOINTS = (FindingKind.CHECKPOINT_MALFORMED, FindingKind.CHECKPOINT_DAMAGED)
_READ_AT_START = (FileKind.RECOVERY_POINT_CHECKPOINT, FileKind.LOG_START_CHECKPOINT)
_LATER = (*_CHECKPOINTS, FindingKind.FOREIGN_DIRECTORY, FindingKind.METADATA_LOG_LOST)
"""Findings at the root with steps of their own, or that a node reads after it has looked at the marker."""


def start_steps(
    root: LogDirRoot,
    directories: Iterable[PartitionPath],
    plans: Mapping[str, RecoverPlan],
    findings: Mapping[str, Iterable[Finding]],
) -> Iterator[StartStep]:
    """Yield the steps of a broker that starts on the log directory.

    `plans` and `findings` are by the path of a partition; the findings about the root are at the root's own path.
    """
    if root.is_live:
        owner = root.lock_owner
        pid = "" if owner is None or owner.pid is None else f" (pid {owner.pid})"
        yield StartStep(StartAction.NOTHING, root.path, f"a broker is running{pid}: stop it before anything is changed")
        return
    at_root = [*findings.get(root.path, ())]
    directories = [*directories]
    yield from _of_findings_at_start(one for one in at_root if one.kind not in _LATER)
    yield from _of_lost_metadata(at_root, directories)
    copies = sum(one.directory.kind is DirectoryKind.FUTURE for one in directories)
    yield _of_shutdown(root, copies + sum(not path.endswith(DirectoryKind.STRAY.value) for path in plans))
    yield from _of_checkpoints(at_root, at_start=True)
    yield from _of_findings_at_start(one for one in at_root if one.kind is FindingKind.FOREIGN_DIRECTORY)
    stopped = any(one.kind in _CHECKPOINTS for one in at_root)
    for directory in directories:
        if directory.directory.kind is DirectoryKind.FUTURE:
            yield _of_copy(root, directory.path, findings.get(directory.path, ()))
        yield from _of_directory(directory, plans.get(directory.path), findings.get(directory.path, ()), stopped)
    yield from _of_checkpoints(at_root, at_start=False)


def _of_lost_metadata(at_root: Iterable[Finding], directories: Iterable[PartitionPath]) -> Iterator[StartStep]:
    """Yield what a node without its metadata log does, by the kind of its quorum if that is known."""
    for one in (each for each in at_root if each.kind is FindingKind.METADATA_LOG_LOST):
        ends = StartAction.DOES_NOT_START in one.at_start
        sets_aside = StartAction.SETS_ASIDE in one.at_start
        if ends:
            why = NEVER_LED if sets_aside else one.broker_effect
            yield StartStep(StartAction.DOES_NOT_START, one.path, f"{one.message}: {why}")
        anew = SET_ALL_ASIDE if ends else one.broker_effect
        for directory in directories if sets_aside else ():
            name = directory.directory
            if name.kind is DirectoryKind.PARTITION and not name.is_metadata_log:
                message = f"the metadata log is lost: {anew}"
                yield StartStep(StartAction.SETS_ASIDE, directory.path, message)


def _of_findings_at_start(findings: Iterable[Finding]) -> Iterator[StartStep]:
    for one in findings:
        for action in one.at_start:
            lowers = action is StartAction.LOWERS
            message = one.message if lowers else f"{one.message}: {one.broker_effect}"
            yield StartStep(action, one.path, message, one.kind)


def _of_absent_metadata_log(root: LogDirRoot) -> StartStep:
    path = f"{root.path.rstrip('/')}/{partition_directory_name(METADATA_TOPIC, 0)}"
    message = (
        "not in this directory, which is right if metadata.log.dir or another log directory of the node has it"
        f" (--metadata names it). Else do not start the node: {SET_ALL_ASIDE}; {NEVER_LED}"
    )
    return StartStep(StartAction.SETS_ASIDE, path, message)


def _of_shutdown(root: LogDirRoot, logs: int) -> StartStep:
    path = f"{root.path.rstrip('/')}/{FileKind.CLEAN_SHUTDOWN.value}"
    if root.shutdown is Shutdown.CLEAN:
        loaded = counted(logs, "log is loaded as it is", "logs are loaded as they are")
        message = f"found: {loaded}, and the marker is removed"
        return StartStep(StartAction.TRUSTS, path, message)
    message = f"missing: {counted(logs, 'log is', 'logs are')} checked from the recovery point on"
    return StartStep(StartAction.RECOVERS, path, message)


def _of_copy(root: LogDirRoot, path: str, findings: Iterable[Finding]) -> StartStep:
    """Return the step for a `-future` directory, which a broker loads like any log (LogManager.loadLog)."""
    is_clean = root.shutdown is Shutdown.CLEAN
    how = "loaded as it is" if is_clean else "checked from the recovery point on"
    then = next((one.message for one in findings if one.kind is FindingKind.MARKED_DIRECTORY), "the broker copies on")
    message = f"a copy for this log directory: {how}; {then}"
    return StartStep(StartAction.TRUSTS if is_clean else StartAction.RECOVERS, path, message)


def _of_checkpoints(at_root: Iterable[Finding], *, at_start: bool) -> Iterator[StartStep]:
    for one in at_root:
        kind = classify_file(one.path.rpartition("/")[2]).kind
        if one.kind in _CHECKPOINTS and (kind in _READ_AT_START) is at_start:
            yield from _of_findings_at_start([one])


def _of_directory(
    directory: PartitionPath, plan: RecoverPlan | None, findings: Iterable[Finding], stopped: bool
) -> Iterator[StartStep]:
    name, path = directory.directory, directory.path
    if name.kind is DirectoryKind.DELETE:
        why = "of a deleted topic or a moved replica: removed after file.delete.delay.ms"
        yield StartStep(StartAction.DELETES, path, why)
        return
    if name.kind is DirectoryKind.STRAY:
        yield StartStep(StartAction.SETS_ASIDE, path, "stays set aside: an earlier start found no place for it")
        return
    if plan is not None and not (plan.is_refused and stopped):  # a checkpoint's refusal is that of the whole directory
        yield from _of_plan(plan)
    yield from _of_findings_at_start(findings)


def _of_plan(plan: RecoverPlan) -> Iterator[StartStep]:
    if plan.is_refused:
        yield from (StartStep(plan.at_start, one.path, one.message) for one in plan.remarks)
        return
    named = set()
    for remark in plan.remarks:
        is_whole = remark.position is None and remark.code is ExitCode.CORRUPTION
        named.add(remark.path)
        message = remark.message if remark.position is None else f"from byte {remark.position}: {remark.message}"
        yield StartStep(StartAction.REMOVES if is_whole else StartAction.CUTS, remark.path, message)
    rebuilt = [base for base in plan.recovered if f"{plan.path}/{segment_file_name(base, FileKind.LOG)}" not in named]
    if rebuilt:
        offsets = ", ".join(map(str, rebuilt[:3])) + (", …" if len(rebuilt) > 3 else "")
        segments = counted(len(rebuilt), "segment", "segments")
        message = f"the indexes of {segments} are rebuilt from the log (base offset {offsets})"
        yield StartStep(StartAction.REBUILDS, plan.path, message)
