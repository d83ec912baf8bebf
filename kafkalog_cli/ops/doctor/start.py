"""The steps of a broker's next start, in its order, from findings and from plans of `recover`.

The order is that of KafkaRaftServer.initializeLogDirs, then LogManager.loadLogs: meta.properties, the marker of a clean
shutdown, the checkpoints, each partition directory, and then the high watermarks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, unique

from kafkalog_cli.disk.names import DirectoryKind, FileKind, classify_file, segment_file_name
from kafkalog_cli.errors import ExitCode, counted
from kafkalog_cli.log.partition import PartitionPath
from kafkalog_cli.ops.change_plan import Remark
from kafkalog_cli.ops.checks.diagnose import Finding
from kafkalog_cli.ops.checks.finding_kinds import FindingKind
from kafkalog_cli.ops.listing.root import LogDirRoot, Shutdown
from kafkalog_cli.ops.recover.plan import RecoverPlan


@unique
class StartAction(Enum):
    """A kind of step of a broker that starts. The value is the word in the output."""

    NOTHING = "nothing"  # a broker is running
    DOES_NOT_START = "does-not-start"
    TAKES_OFFLINE = "takes-offline"
    TRUSTS = "trusts"
    RECOVERS = "recovers"
    RESETS = "resets"
    CUTS = "cuts"
    REMOVES = "removes"
    DELETES = "deletes"  # the directory of a topic that was deleted
    REBUILDS = "rebuilds"
    SETS_ASIDE = "sets-aside"
    LOWERS = "lowers"


_DESTRUCTIVE = frozenset({StartAction.CUTS, StartAction.REMOVES})
_STOPPING = frozenset({StartAction.DOES_NOT_START, StartAction.TAKES_OFFLINE})


@dataclass(frozen=True, slots=True)
class StartStep:
    """A step of the broker's next start. `path` is the file or directory, `message` what the broker does with it."""

    action: StartAction
    path: str
    message: str

    @property
    def loses_data(self) -> bool:
        """Whether bytes of logs are removed."""
        return self.action in _DESTRUCTIVE

    @property
    def ends_start(self) -> bool:
        """Whether the broker does not start, or starts without the log directory."""
        return self.action in _STOPPING


_AT_ROOT_FIRST = {
    FindingKind.META_PROPERTIES_MISSING: StartAction.DOES_NOT_START,
    FindingKind.META_PROPERTIES: StartAction.DOES_NOT_START,
    FindingKind.META_PROPERTIES_DIFFER: StartAction.DOES_NOT_START,
}
_CHECKPOINTS = (FindingKind.CHECKPOINT_MALFORMED, FindingKind.CHECKPOINT_DAMAGED)
_READ_AT_START = (FileKind.RECOVERY_POINT_CHECKPOINT, FileKind.LOG_START_CHECKPOINT)
_OF_PLACE = {
    FindingKind.METADATA_FILE: StartAction.TAKES_OFFLINE,
    FindingKind.METADATA_FILE_MISSING: StartAction.SETS_ASIDE,
    FindingKind.TOPIC_ID_DIFFERS: StartAction.SETS_ASIDE,
    FindingKind.NOT_IN_METADATA: StartAction.SETS_ASIDE,
    FindingKind.NOT_A_REPLICA: StartAction.SETS_ASIDE,
    FindingKind.TWIN_DIRECTORIES: StartAction.DOES_NOT_START,
    FindingKind.QUORUM_STATE: StartAction.DOES_NOT_START,
}
"""Findings about the place of a partition, each with the action of a broker. A plan of `recover` has none of them."""


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
    yield from (_of_finding(one, _AT_ROOT_FIRST[one.kind]) for one in at_root if one.kind in _AT_ROOT_FIRST)
    yield _of_shutdown(root, sum(not path.endswith(DirectoryKind.STRAY.value) for path in plans))
    yield from _of_checkpoints(at_root, at_start=True)
    foreign = (one for one in at_root if one.kind is FindingKind.FOREIGN_DIRECTORY)
    yield from (_of_finding(one, StartAction.DOES_NOT_START) for one in foreign)
    stopped = any(one.kind in _CHECKPOINTS for one in at_root)
    for directory in directories:
        yield from _of_directory(directory, plans.get(directory.path), findings.get(directory.path, ()), stopped)
    yield from _of_checkpoints(at_root, at_start=False)


def _of_finding(found: Finding, action: StartAction) -> StartStep:
    return StartStep(action, found.path, f"{found.message}: {found.broker_effect}")


def _of_shutdown(root: LogDirRoot, logs: int) -> StartStep:
    path = f"{root.path.rstrip('/')}/{FileKind.CLEAN_SHUTDOWN.value}"
    if root.shutdown is Shutdown.CLEAN:
        loaded = counted(logs, "log is loaded as it is", "logs are loaded as they are")
        message = f"found: {loaded}, and the marker is removed"
        return StartStep(StartAction.TRUSTS, path, message)
    message = f"missing: {counted(logs, 'log is', 'logs are')} checked from the recovery point on"
    return StartStep(StartAction.RECOVERS, path, message)


def _of_checkpoints(at_root: Iterable[Finding], *, at_start: bool) -> Iterator[StartStep]:
    for one in at_root:
        kind = classify_file(one.path.rpartition("/")[2]).kind
        if one.kind in _CHECKPOINTS and (kind in _READ_AT_START) is at_start:
            is_reset = one.kind is FindingKind.CHECKPOINT_DAMAGED
            yield _of_finding(one, StartAction.RESETS if is_reset else StartAction.TAKES_OFFLINE)


def _of_directory(
    directory: PartitionPath, plan: RecoverPlan | None, findings: Iterable[Finding], stopped: bool
) -> Iterator[StartStep]:
    name, path = directory.directory, directory.path
    if name.kind is DirectoryKind.DELETE:
        yield StartStep(StartAction.DELETES, path, "the rest of a deleted topic: removed after file.delete.delay.ms")
        return
    if name.kind is DirectoryKind.STRAY:
        yield StartStep(StartAction.SETS_ASIDE, path, "stays set aside: an earlier start found no place for it")
        return
    if plan is not None and not (plan.is_refused and stopped):  # a checkpoint's refusal is that of the whole directory
        yield from _of_plan(plan)
    for one in findings:
        if one.kind in _OF_PLACE:
            yield _of_finding(one, _OF_PLACE[one.kind])
        elif one.kind is FindingKind.HIGH_WATERMARK_BEYOND_END:
            yield StartStep(StartAction.LOWERS, one.path, one.message)


def _of_plan(plan: RecoverPlan) -> Iterator[StartStep]:
    if plan.is_refused:
        yield from (StartStep(_of_refusal(one.message), one.path, one.message) for one in plan.remarks)
        return
    told = set()
    for remark in plan.remarks:
        is_whole = remark.position is None and remark.code is ExitCode.CORRUPTION
        told.add(remark.path)
        yield StartStep(StartAction.REMOVES if is_whole else StartAction.CUTS, remark.path, _sentence(remark))
    rebuilt = [base for base in plan.recovered if _log_path(plan, base) not in told]
    if rebuilt:
        offsets = ", ".join(map(str, rebuilt[:3])) + (", …" if len(rebuilt) > 3 else "")
        segments = counted(len(rebuilt), "segment", "segments")
        message = f"the indexes of {segments} are rebuilt from the log (base offset {offsets})"
        yield StartStep(StartAction.REBUILDS, plan.path, message)


def _sentence(remark: Remark) -> str:
    """Return a remark with its place; the list of a broker's steps need not name the broker in each line."""
    message = remark.message.replace(", as a broker does", "")
    return message if remark.position is None else f"from byte {remark.position}: {message}"


def _of_refusal(message: str) -> StartAction:
    offline = "a broker takes the whole log directory offline"
    return StartAction.TAKES_OFFLINE if message.startswith(offline) else StartAction.DOES_NOT_START


def _log_path(plan: RecoverPlan, base_offset: int) -> str:
    return f"{plan.path}/{segment_file_name(base_offset, FileKind.LOG)}"
