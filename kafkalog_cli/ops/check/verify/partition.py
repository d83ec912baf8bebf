"""Verify one partition at one of three levels: findings with advice, and parts that the level leaves unchecked."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kafkalog_cli.disk.names import DirectoryKind, FileKind
from kafkalog_cli.errors import ExitCode
from kafkalog_cli.format.fault import FaultKind
from kafkalog_cli.log.log_dir import Shutdown
from kafkalog_cli.log.log_end import LogBounds
from kafkalog_cli.log.partition import Partition, try_leader_epochs
from kafkalog_cli.ops.check.checks.diagnose import Finding, finding, of_fault
from kafkalog_cli.ops.check.checks.file_report import findings_of
from kafkalog_cli.ops.check.checks.finding_kinds import FindingKind
from kafkalog_cli.ops.check.checks.gaps import NO_BATCH, NO_RECORD, GapCauses, missing_start
from kafkalog_cli.ops.check.checks.log_check import LogCheck
from kafkalog_cli.ops.check.checks.partition_check import PartitionCheck, ReadContext
from kafkalog_cli.ops.check.verify.advice import add_next_steps, with_acknowledged
from kafkalog_cli.ops.check.verify.files import bad_names, file_findings, size_findings
from kafkalog_cli.ops.check.verify.permissions import partition_permissions
from kafkalog_cli.ops.check.verify.places import topic_id_problems
from kafkalog_cli.ops.check.verify.root import checkpoint_findings, first_in_the_way
from kafkalog_cli.ops.check.verify.task import TargetKind, Verification, VerifyTask, shown_path
from kafkalog_cli.ops.choices import Level
from kafkalog_cli.ops.look.listing.root import CheckpointedOffsets

if TYPE_CHECKING:
    from kafkalog_cli.ops.check.verify.replica_facts import FactsInWalk

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


def verify_partition(read_context: ReadContext, task: VerifyTask) -> Verification:
    """Return the verification. Raises NotKafkaLayout, Unreadable for the directory itself."""
    partition = task.partition
    is_v07 = any(segment.is_v07 for segment in partition.segments)
    replica = None if is_v07 else _replica(task)
    check = LogCheck(
        read_context.fs,
        read_context.limits,
        now_ms=task.now_ms,
        records=task.level is Level.DEEP,
        headers_only=task.level is Level.QUICK and _wants_log(task),
        transactions=task.wanted is None and task.level is not Level.QUICK,
        advance=task.advance,
        beside=replica,
    )
    if is_v07:
        from kafkalog_cli.ops.check.verify.seven import check_seven

        log = check_seven(read_context, task, check)
    else:
        log = _walk(read_context, task, check)
    found, root, facts = check.findings, task.root, task.facts
    # The lines of the checkpoints are not about a stray or deleted directory, but about the partition in its place.
    lines = CheckpointedOffsets()
    if root is not None and partition.directory.kind in (DirectoryKind.PARTITION, DirectoryKind.FUTURE):
        lines = root.offsets_of(partition.topic, partition.number)
    if root is not None and root.shutdown is Shutdown.CLEAN:
        found = [*with_acknowledged(found, lines.high_watermark)]
    if task.wanted is None:
        # Policy, the checkpoints of cleaner and log start, and the batches say what gaps mean.
        has_gaps = bool(check.gaps.count)
        # A compacted log has gaps in many places. A single gap between batches may be a separate loss.
        is_thinned = check.was_cleaned or check.gaps.count > 1
        causes = GapCauses(
            partition,
            facts.is_compacted,
            check.was_cleaned or has_gaps or facts.is_in_cleaner_checkpoint,
            lines.log_start,
            is_thinned or facts.is_in_cleaner_checkpoint,
        )
        found = [*causes.explain(found)]
        if not check.headers_only:
            found += (*causes.of_batches(check.gaps), *causes.of_records(check.inner_gaps))
        found += file_findings(read_context.fs, partition)
        found += partition_permissions(read_context.fs, partition, root)
        known = {(one.kind, one.path) for one in facts.findings}  # with a next step that knows the metadata log
        found = [one for one in found if (one.kind, one.path) not in known]
        found += facts.findings
        unread = _unread_logs(found)
        last = _stem(partition.segments[-1].log.path) if partition.segments else ""
        if last in unread and (check.has_tail_damage or last in _unread_logs(found, (FindingKind.NOT_READ,))):
            log = None  # the end of the log is unknown
            found = [one for one in found if one.kind not in _BEHIND_THE_END]
        found += missing_start(read_context.fs, partition, root, facts)
        if root is not None and partition.directory.kind is DirectoryKind.PARTITION:
            log_start = lines.log_start or 0
            new = None if partition.segments else LogBounds(log_start, log_start)  # a broker begins a new log there
            found += checkpoint_findings(root, partition, lines, log or new)
            log = None if log is None else _from_log_start(log, log_start)
    elif not check.headers_only:
        found = [*found, *check.gaps.finding(NO_BATCH), *check.inner_gaps.finding(NO_RECORD)]
    if partition.directory.is_metadata_log:
        from kafkalog_cli.ops.check.verify.metadata_log import metadata_findings

        found = [*metadata_findings(read_context, partition.path, found, root)]
        found = [one for one in found if task.wants(one.path)]
    unknown = [f"topic ids and replicas ({facts.unknown_because})"] if facts.unknown_because else []
    return Verification(
        shown_path(partition.path, task.wanted),
        task.level,
        TargetKind.PARTITION,
        partition.topic,
        partition.number,
        tuple(add_next_steps(found, partition, facts, None if root is None else first_in_the_way(root))),
        check.totals,
        log,
        (*_NOT_LOOKED_AT[task.level], *unknown),
        task.wanted,
        facts=None if replica is None else replica.facts(lines, facts.is_compacted, check.headers_only),
    )


def _replica(task: VerifyTask) -> "FactsInWalk | None":
    """Return what collects the facts of the replica, None if they are not wanted or it is not in its place."""
    partition = task.partition
    if not task.with_facts or task.wanted is not None or partition.directory.kind is not DirectoryKind.PARTITION:
        return None
    from kafkalog_cli.ops.check.verify.replica_facts import FactsInWalk

    return FactsInWalk(partition)


def _from_log_start(log: LogBounds, log_start: int) -> LogBounds:
    """Return the offsets from the log start on: earlier records of the first segment are deleted for readers."""
    return LogBounds(log_start, log.end) if log.start < log_start <= log.end else log


def _walk(read_context: ReadContext, task: VerifyTask, check: LogCheck) -> LogBounds | None:
    """Check every batch and, above the level quick, every file beside the log; return the offsets of the log."""
    reports = PartitionCheck(read_context, task.partition, check, task.wanted, problems_only=True)
    # Of a file without problems only the report itself is kept: its entries are as many as a log has batches.
    with_problems = [report for report in reports if report.exit_code is not ExitCode.OK or report.notes]
    unread = _unread_logs(check.findings)
    for report in with_problems:
        findings = findings_of(report, has_tail_damage=check.has_tail_damage, is_named=task.wanted is not None)
        if _stem(report.path) in unread:
            findings = (finding for finding in findings if finding.kind is FindingKind.NOT_READ)
        check.findings += findings
    if check.headers_only:
        check.findings += _quick(read_context, task, reports.log)
    return reports.log


_UNREAD = (FindingKind.UNREADABLE_RANGE, FindingKind.NOT_READ)


def _unread_logs(found: Iterable[Finding], kinds: tuple[FindingKind, ...] = _UNREAD) -> frozenset[str]:
    """Return the paths, without suffix, of the logs that could not be read completely.

    The entries of their indexes cannot be checked.
    """
    return frozenset(_stem(one.path) for one in found if one.kind in kinds and one.path.endswith(FileKind.LOG.value))


def _stem(path: str) -> str:
    return path.rpartition(".")[0]


def _wants_log(task: VerifyTask) -> bool:
    return task.wanted is None or any(task.wants(segment.log.path) for segment in task.partition.segments)


def _quick(read_context: ReadContext, task: VerifyTask, log: LogBounds | None) -> Iterator[Finding]:
    """Check names, sizes and checkpoints, for the level quick."""
    partition = task.partition
    if task.wanted is None:
        yield from size_findings(read_context.fs, partition)
        yield from bad_names(partition)
    if task.wants(FileKind.LEADER_EPOCH_CHECKPOINT.value):
        yield from _epoch_faults(read_context, partition, log)
    if task.wanted is not None and task.wants(FileKind.PARTITION_METADATA.value):  # else in TopicFacts
        yield from topic_id_problems(read_context.fs, partition.path)


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
