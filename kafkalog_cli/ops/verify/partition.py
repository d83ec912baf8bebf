"""Verify one partition at one of three levels: findings with advice, and parts that the level leaves unchecked."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum, unique
from functools import partial
from typing import NamedTuple

from kafkalog_cli.disk.names import OWN_DIRECTORY, DirectoryKind, FileKind
from kafkalog_cli.errors import ExitCode
from kafkalog_cli.format.fault import FaultKind
from kafkalog_cli.log.checkpoints import try_leader_epochs
from kafkalog_cli.log.log_end import LogBounds
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops.checks.diagnose import Finding, finding, of_fault, with_path
from kafkalog_cli.ops.checks.file_report import FileReport, findings_of
from kafkalog_cli.ops.checks.finding_kinds import FindingKind, Severity
from kafkalog_cli.ops.checks.index_reports import PartitionReports
from kafkalog_cli.ops.checks.segment_reports import ReadContext
from kafkalog_cli.ops.listing.root import LogDirRoot, Shutdown
from kafkalog_cli.ops.next_steps import CUT_ACKNOWLEDGED, EPOCHS_STAY, NO_COPY_OF_SEVEN, SALVAGE, chosen
from kafkalog_cli.ops.verify.batch_checks import AbortedCheck, BatchListener, BatchListeners
from kafkalog_cli.ops.verify.files import bad_names, file_findings, size_findings
from kafkalog_cli.ops.verify.gaps import NO_RECORD, GapJudge, missing_start
from kafkalog_cli.ops.verify.headers import HeaderCheck
from kafkalog_cli.ops.verify.log import Advance, LogCheck, Totals
from kafkalog_cli.ops.verify.places import TopicFacts, read_topic_id
from kafkalog_cli.ops.verify.root import checkpoint_findings, first_in_the_way
from kafkalog_cli.ops.verify.seven import SevenCheck


@unique
class Level(Enum):
    """How thorough a verification is."""

    QUICK = "quick"
    NORMAL = "normal"
    DEEP = "deep"


@unique
class TargetKind(Enum):
    """The kind of thing that a verification is about."""

    PARTITION = "partition"
    LOG_DIR = "log-directory"
    COMPARISON = "comparison"


_INSIDE_BATCHES = "decompression and records"
_NOT_LOOKED_AT = {
    Level.QUICK: (
        "batch CRCs",
        "index and snapshot entries",
        "missing snapshots and epochs",
        "timestamps",
        _INSIDE_BATCHES,
    ),
    Level.NORMAL: (_INSIDE_BATCHES,),
    Level.DEEP: (),
}


_BEHIND_THE_END = (FindingKind.ENTRIES_BEHIND_TAIL, FindingKind.SNAPSHOT_BEYOND_END, FindingKind.END_NOT_SEEN)


@dataclass(frozen=True, slots=True)
class Verification:
    """The findings at one path.

    `topic` and `partition` are None for the root of a log directory. `log` is the range of offsets, None if none could
    be read. `not_looked_at` names what the level left unchecked. `files` are the names of the files verified, None for
    the whole directory.
    """

    path: str
    level: Level
    target: TargetKind = TargetKind.PARTITION
    topic: str | None = None
    partition: int | None = None
    findings: tuple[Finding, ...] = ()
    totals: Totals = field(default_factory=Totals)
    log: LogBounds | None = None
    not_looked_at: tuple[str, ...] = ()
    files: frozenset[str] | None = None

    @property
    def directory(self) -> str:
        """The directory that was verified, or the directory of the one file that was."""
        return self.path.rpartition("/")[0] or "." if self.files is not None and len(self.files) == 1 else self.path

    @property
    def is_whole(self) -> bool:
        """Whether the whole directory was verified, not some of its files."""
        return self.files is None

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of the worst finding; 1 if a file could not be read and there is no corruption elsewhere.

        10 for a comparison in which nothing was compared.
        """
        if any(found.kind is FindingKind.NOT_COMPARED for found in self.findings):
            return ExitCode.NOT_FOUND
        worst = max((found.severity.exit_code for found in self.findings), default=ExitCode.OK)
        is_read = all(found.kind is not FindingKind.NOT_READ for found in self.findings)
        return worst if is_read or worst is ExitCode.CORRUPTION else ExitCode.FAILURE

    def count(self, severity: Severity) -> int:
        """Return the number of findings with this severity."""
        return sum(found.severity is severity for found in self.findings)


class VerifyTask(NamedTuple):
    """A partition to verify, with what is known of its log directory and topic.

    `wanted` names the files to verify (None: all). `elsewhere` are findings about other directories of the same
    partition. `listener` receives what is read of the log. `leftover` is the finding for a directory that belongs to no
    committed import. Its contents are not checked.
    """

    partition: Partition
    level: Level
    now_ms: int
    root: LogDirRoot | None = None
    facts: TopicFacts = TopicFacts()
    elsewhere: tuple[Finding, ...] = ()
    wanted: frozenset[str] | None = None
    advance: Advance | None = None
    listener: BatchListener | None = None
    leftover: Finding | None = None


def shown_path(directory: str, wanted: frozenset[str] | None) -> str:
    """Return the path that a verification is about: a directory, or the one file of it that is wanted."""
    return directory if wanted is None or len(wanted) > 1 else f"{directory.rstrip('/')}/{next(iter(wanted))}"


def verify_partition(read_context: ReadContext, task: VerifyTask) -> Verification:
    """Return the verification. Raises NotKafkaLayout, Unreadable for the directory itself."""
    partition = task.partition
    if task.leftover is not None:
        return _of_leftover(task, task.leftover)
    found: list[Finding] = []
    looked = _quick(read_context, task, found) if task.level is Level.QUICK else _walked(read_context, task, found)
    log = looked.log
    found = [*with_acknowledged(found, task.root, partition.topic, partition.number)]
    if task.wanted is None:
        found += file_findings(read_context.fs, partition)
        found += task.elsewhere
        known = {(one.kind, one.path) for one in task.facts.findings}  # with a next step that knows the metadata log
        found = [one for one in found if (one.kind, one.path) not in known]
        found += task.facts.findings
        unread = _unread_logs(found)
        last = _stem(partition.segments[-1].log.path) if partition.segments else ""
        if last in unread and (looked.has_tail_damage or last in _unread_logs(found, (FindingKind.NOT_READ,))):
            log = None  # the end of the log is unknown
            found = [one for one in found if one.kind not in _BEHIND_THE_END]
        found = [*_gap_judge(task, looked).judged(found)]
        missing = missing_start(read_context.fs, partition, task.root, task.facts)
        found += () if missing is None else (missing,)
        if task.root is not None and partition.directory.kind is DirectoryKind.PARTITION:
            log_start = task.root.offsets_of(partition.topic, partition.number).log_start or 0
            new = None if partition.segments else LogBounds(log_start, log_start)  # a broker begins a new log there
            found += checkpoint_findings(task.root, partition.topic, partition.number, log or new)
            log = _from_log_start(log, task.root, partition)
    unknown = [f"topic ids and replicas ({task.facts.unknown_because})"] if task.facts.unknown_because else []
    return Verification(
        shown_path(partition.path, task.wanted),
        task.level,
        TargetKind.PARTITION,
        partition.topic,
        partition.number,
        tuple(advised(found, partition, task.facts, None if task.root is None else first_in_the_way(task.root))),
        looked.totals,
        log,
        (*_NOT_LOOKED_AT[task.level], *unknown),
        task.wanted,
    )


def _from_log_start(log: LogBounds | None, root: LogDirRoot, partition: Partition) -> LogBounds | None:
    """Return the offsets from the log start on: earlier records of the first segment are deleted for readers."""
    log_start = root.offsets_of(partition.topic, partition.number).log_start
    return (
        log
        if log is None or log_start is None or not log.start < log_start <= log.end
        else LogBounds(log_start, log.end)
    )


def _of_leftover(task: VerifyTask, leftover: Finding) -> Verification:
    partition = task.partition
    if task.advance is not None:
        task.advance(sum(segment.log.size_bytes for segment in partition.segments), partition.path)
    return Verification(
        partition.path,
        task.level,
        TargetKind.PARTITION,
        partition.topic,
        partition.number,
        (with_path(leftover, partition.path),),
        not_looked_at=("what is in it",),
    )


@dataclass(slots=True)
class _Looked:
    log: LogBounds | None
    totals: Totals
    has_tail_damage: bool
    was_cleaned: bool = False
    is_thinned: bool = False


def _gap_judge(task: VerifyTask, looked: _Looked) -> GapJudge:
    """Return the judge of offset gaps, from the policy, the checkpoints of cleaner and log start, and the batches."""
    partition, root = task.partition, task.root
    lines = None if root is None else root.offsets_of(partition.topic, partition.number)
    is_in_checkpoint = task.facts.is_in_cleaner_checkpoint
    return GapJudge(
        partition,
        task.facts.is_compacted,
        looked.was_cleaned or is_in_checkpoint,
        None if lines is None else lines.log_start,
        looked.is_thinned or is_in_checkpoint,
    )


def _walked(read_context: ReadContext, task: VerifyTask, found: list[Finding]) -> _Looked:
    """Check every batch and every file beside the log, for the levels normal and deep."""
    deep = task.level is Level.DEEP
    aborted = AbortedCheck(read_context.fs, tells_markers=not deep) if task.wanted is None else None
    check = LogCheck(task.now_ms, wants_records=deep, only=task.wanted, advance=task.advance, aborted=aborted)
    observer = check if task.listener is None else BatchListeners(check, task.listener)
    listed = task.partition if task.wanted is None else None
    reports = PartitionReports(read_context, task.partition.path, task.wanted, observer=observer, listed=listed)
    held: list[FileReport] = []
    if any(not segment.is_seven for segment in task.partition.segments) or not task.partition.segments:
        held += reports
    seven = SevenCheck(
        read_context, task.partition, task.now_ms, wants_records=deep, only=task.wanted, listener=task.listener
    )
    found += seven.findings()
    found += check.findings
    blind = _unread_logs(check.findings)
    for report in held:
        told = findings_of(report, has_tail_damage=check.has_tail_damage)
        found += told if _stem(report.path) not in blind else (one for one in told if one.kind is FindingKind.NOT_READ)
    found += check.gaps.finding("no batch covers offsets")
    found += check.inner_gaps.finding(NO_RECORD)
    totals = seven.totals if seven.totals.segments else check.totals
    was_cleaned = check.was_cleaned or bool(check.gaps.count)
    # A compacted log has gaps in many places. A single gap between batches may be a separate loss.
    is_thinned = check.was_cleaned or check.gaps.count > 1
    return _Looked(reports.log or seven.log, totals, check.has_tail_damage, was_cleaned, is_thinned)


_UNREAD = (FindingKind.UNREADABLE_RANGE, FindingKind.NOT_READ)


def _unread_logs(found: Iterable[Finding], kinds: tuple[FindingKind, ...] = _UNREAD) -> frozenset[str]:
    """Return the paths, without suffix, of the logs that could not be read completely.

    The entries of their indexes cannot be checked.
    """
    return frozenset(_stem(one.path) for one in found if one.kind in kinds and one.path.endswith(FileKind.LOG.value))


def _stem(path: str) -> str:
    return path.rpartition(".")[0]


def _quick(read_context: ReadContext, task: VerifyTask, found: list[Finding]) -> _Looked:
    """Check names, sizes, batch headers and checkpoints, for the level quick."""
    partition = task.partition
    check = HeaderCheck(
        read_context.fs, partition, read_context.limits, task.wanted, read_context.choice, task.listener
    )
    found += check.findings()
    seven = SevenCheck(
        read_context, partition, task.now_ms, wants_records=False, only=task.wanted, listener=task.listener
    )
    found += seven.findings()
    if task.advance is not None:
        task.advance(check.totals.bytes, partition.path)
    if task.wanted is None:
        found += size_findings(read_context.fs, partition)
        found += bad_names(partition)
    if _is_wanted(task, FileKind.LEADER_EPOCH_CHECKPOINT):
        found += _epoch_faults(read_context, partition, check.log)
    if task.wanted is not None and _is_wanted(task, FileKind.PARTITION_METADATA):  # else in TopicFacts
        found += read_topic_id(read_context.fs, partition.path).problems
    totals = seven.totals if seven.totals.segments else check.totals
    return _Looked(check.log or seven.log, totals, check.has_tail_damage, check.was_cleaned)


def _is_wanted(task: VerifyTask, kind: FileKind) -> bool:
    return task.wanted is None or kind.value in task.wanted


def _epoch_faults(read_context: ReadContext, partition: Partition, log: LogBounds | None) -> Iterator[Finding]:
    if partition.leader_epochs is None:
        return
    path = partition.leader_epochs.path
    entries, faults = try_leader_epochs(read_context.fs, partition)
    for fault in faults:
        if fault.kind is FaultKind.UNREADABLE:
            yield finding(FindingKind.NOT_READ, path, fault.message)
        else:
            yield of_fault(path, fault, FindingKind.EPOCHS_WRONG)
    for entry in entries:
        if log is not None and entry.start_offset > log.end:
            message = f"epoch {entry.epoch} starts at {entry.start_offset}, the log ends at {log.end}"
            expected, got = f"at most {log.end}", str(entry.start_offset)
            yield finding(FindingKind.ENTRIES_BEHIND_TAIL, path, message, expected=expected, got=got)


_NOT_REPAIRED = frozenset(
    {
        FindingKind.DAMAGED_RANGE,
        FindingKind.ZEROED_RANGE,
        FindingKind.CRC_MISMATCH,
        FindingKind.UNREADABLE_RANGE,
        FindingKind.BATCH_TOO_LARGE,
        FindingKind.UNKNOWN_MAGIC,
        FindingKind.OFFSETS_NOT_ASCENDING,
        FindingKind.OFFSET_OUTSIDE_SEGMENT,
        FindingKind.SEGMENT_TOO_LARGE,
        FindingKind.CONTROL_RECORD,
    }
)
"""Damage in a log that `recover` refuses, or may refuse, to repair."""

_BLOCKED = f"recover cannot repair it while valid batches follow damage in the log: {SALVAGE.text}"


_LEFT_TO_THE_BROKER = {
    DirectoryKind.DELETE: "nothing has to be done: a broker that starts removes the directory",
    DirectoryKind.FUTURE: "if the partition is in another log directory, nothing can be done to this copy: with the"
    " broker stopped, `mv -nT PATH PATH_AWAY` moves it away, and the broker makes a new copy when it is asked again."
    " Else, it is the only copy: give it the partition's name, and verify it again",
}
"""Next steps for directories that `recover` refuses."""


_NODE_RECOVERS = (
    "a node recovers the whole metadata log each time it starts: damage at its end is cut off, indexes are rebuilt"
)
"""KafkaRaftLog opens its UnifiedLog with lastShutdownClean=false and recoveryPoint=0."""


def advised(
    found: Iterable[Finding], partition: Partition, facts: TopicFacts, at_root: Finding | None
) -> Iterator[Finding]:
    """Yield the findings about a partition, with next steps that are ready to paste.

    `at_root` is a finding at the root of the log directory, without which no command changes a partition.
    """
    findings = [*found]
    odd = {one.path: one for one in findings if one.kind is FindingKind.ODD_FILE}
    # Nothing else is true of such an entry, and no command repairs the partition while it is there.
    findings = [one for one in findings if one.kind is FindingKind.ODD_FILE or one.path not in odd]
    in_the_way = next(filter(partial(_is_in_the_way, partition), findings), at_root)
    if in_the_way is not None:
        place = in_the_way.path.rpartition("/")[0] if in_the_way is at_root else partition.path
        first = with_path(in_the_way, place).next_step
        findings = [one._replace(next_step=first) if _is_repair(one.next_step) else one for one in findings]
    if partition.directory.is_metadata_log:  # recover leaves it to its controllers
        findings = [_left_to_the_node(one) if _is_repair(one.next_step) else one for one in findings]
    if partition.directory.kind is DirectoryKind.DELETE:  # a broker leaves no snapshot in a replica that it moved
        findings = [one for one in findings if one.kind is not FindingKind.SNAPSHOTS_MISSING]
    left = _LEFT_TO_THE_BROKER.get(partition.directory.kind)
    marked = [one.next_step for one in findings if one.kind is FindingKind.MARKED_DIRECTORY]
    if partition.directory.kind is DirectoryKind.STRAY and marked and not _names_recover(marked[0]):
        left = marked[0]  # recover refuses it, as the partition is in its place again
    if left is not None:
        findings = [one._replace(next_step=left) if _names_recover(one.next_step) else one for one in findings]
    is_blocked = any(one.kind in _NOT_REPAIRED and SALVAGE.text in one.next_step for one in findings)
    goes_back = any(one.kind is FindingKind.EPOCH_GOES_BACK for one in findings)
    for one in findings:
        step = _BLOCKED if is_blocked and _is_repair(one.next_step) else one.next_step
        if SALVAGE.text in step and any(segment.is_seven for segment in partition.segments):
            step = NO_COPY_OF_SEVEN
        if goes_back and one.kind is FindingKind.EPOCHS_WRONG and one.first_offset is not None:
            step = EPOCHS_STAY.text  # no file fits the batches, and a broker can read this file
        yield with_path(one._replace(next_step=chosen(step, facts.replication)), partition.path, facts.metadata_option)


def _is_in_the_way(partition: Partition, one: Finding) -> bool:
    """Whether no command repairs the partition before the step of this finding."""
    is_own = one.kind is FindingKind.ODD_ENTRY and one.path == f"{partition.path.rstrip('/')}/{OWN_DIRECTORY}"
    return is_own or one.kind in {FindingKind.ODD_FILE, FindingKind.BAD_NAME}


def _left_to_the_node(one: Finding) -> Finding:
    return one._replace(broker_effect=_NODE_RECOVERS, next_step="nothing has to be done")


def _names_recover(step: str) -> bool:
    return "`kafkalog recover " in step


def _is_repair(step: str) -> bool:
    return "`kafkalog recover " in step and "--salvage" not in step


_EFFECT = "after the clean stop a broker keeps it: consumers fail at it, and followers that fetch it stop"


def with_acknowledged(
    findings: Iterable[Finding], root: LogDirRoot | None, topic: str, partition: int | None
) -> Iterator[Finding]:
    """Yield the findings; a bad last batch below the high watermark of a clean stop becomes corruption."""
    watermark = None
    if root is not None and partition is not None and root.shutdown is Shutdown.CLEAN:
        watermark = root.offsets_of(topic, partition).high_watermark
    for one in findings:
        is_tail = one.kind is FindingKind.BAD_TAIL_BATCH and one.first_offset is not None
        if not is_tail or watermark is None or one.first_offset is None or one.first_offset >= watermark:
            yield one
            continue
        yield finding(
            FindingKind.CRC_MISMATCH,
            one.path,
            f"{one.message}, and the broker stopped cleanly with the high watermark {watermark}: it was whole then",
            position=one.position,
            expected=one.expected,
            got=one.got,
            offsets=(one.first_offset, one.last_offset if one.last_offset is not None else one.first_offset),
            broker_effect=_EFFECT,
            next_step=CUT_ACKNOWLEDGED.text,
        )
