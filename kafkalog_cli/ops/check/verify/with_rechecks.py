"""Verify a partition while a broker runs: findings that a repeated check does not confirm were work in progress."""

from dataclasses import replace

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.errors import NotKafkaLayout, PathNotFound
from kafkalog_cli.log.log_dir import read_log_dir
from kafkalog_cli.log.partition import PartitionPath, open_partition_of
from kafkalog_cli.ops.check.checks.diagnose import Finding, finding
from kafkalog_cli.ops.check.checks.finding_kinds import FindingKind
from kafkalog_cli.ops.check.checks.partition_check import ReadContext
from kafkalog_cli.ops.check.checks.recheck import MAY_BE_UNUSED, Recheck, identity, is_doubtful, may_have_unused_entries
from kafkalog_cli.ops.check.verify.partition import verify_partition
from kafkalog_cli.ops.check.verify.task import TargetKind, Verification, VerifyTask
from kafkalog_cli.ops.choices import Level
from kafkalog_cli.ops.steps import Step

CHANGING = "what changed while it was read"


def verify_with_rechecks(read_context: ReadContext, task: VerifyTask) -> Verification:
    """Verify a partition; a finding stands if every repeated check has it, or if no file changed meanwhile.

    A partition that is removed or renamed meanwhile gets one info finding. Raises as `verify_partition`.
    """
    fs, path = read_context.fs, task.partition.path
    is_live = task.root is not None and task.root.is_live
    recheck = Recheck(fs, path, is_live=is_live, sleep=read_context.sleep)

    def check(now: VerifyTask) -> Verification:
        recheck.begin(now.partition.entries)
        return verify_partition(read_context, now)

    try:
        first = check(task)
        result, confirmed, stamps = recheck.confirm(
            first,
            lambda: replace(check(_reopened(read_context, task._replace(advance=None))), totals=first.totals),
            lambda found, stamps: {identity(one, stamps) for one in found.findings if _is_doubtful(one)},
        )
    except (PathNotFound, NotKafkaLayout):
        gone = removed(fs, PartitionPath(path, task.partition.directory), task.level)
        if gone is None:
            raise
        return gone
    findings = tuple(one for one in result.findings if not _is_doubtful(one) or identity(one, stamps) in confirmed)
    if len(findings) < len(result.findings):
        result = replace(result, findings=findings, not_looked_at=(*result.not_looked_at, CHANGING))
    return _with_unused_ends(fs, result) if is_live and findings else result


def _is_doubtful(one: Finding) -> bool:
    return is_doubtful(one) and one.kind is not FindingKind.LEFTOVER_TEMPORARY


_IN_LAST_INDEX = {
    FindingKind.INDEX_WRONG: FindingKind.INDEX_INEXACT,
    FindingKind.TIME_INDEX_WRONG: FindingKind.TIME_INDEX_INEXACT,
}


def _with_unused_ends(fs: Filesystem, result: Verification) -> Verification:
    """Return the verification, with warnings instead of corruption in indexes that a running broker writes to."""

    def lowered(one: Finding) -> Finding:
        kind = _IN_LAST_INDEX.get(one.kind)
        if kind is None or not may_have_unused_entries(fs, one.path):
            return one
        return one._replace(kind=kind, broker_effect=f"none is known: {MAY_BE_UNUSED}", steps=_LATER)

    findings = tuple(map(lowered, result.findings))
    return result if findings == result.findings else replace(result, findings=findings)


_LATER = (Step("verify again once the broker has rolled the segment, or is stopped"),)


def _reopened(read_context: ReadContext, task: VerifyTask) -> VerifyTask:
    """Return the task with the partition's current files and the current lines of the checkpoints."""
    fs = read_context.fs
    root = task.root
    if root is not None:
        root = replace(root, offsets=read_log_dir(fs, root.path).offsets)
    return task._replace(partition=open_partition_of(fs, task.partition.path, task.wanted), root=root)


def removed(fs: Filesystem, directory: PartitionPath, level: Level) -> Verification | None:
    """Return the verification of a partition directory that has been removed; None if the directory exists."""
    if fs.status(directory.path) is not None:
        return None
    message = "it was removed or renamed while this run went on: its topic was deleted, or a broker moved it"
    found = finding(FindingKind.MARKED_DIRECTORY, directory.path, message, broker_effect="none")
    name = directory.directory
    return Verification(directory.path, level, TargetKind.PARTITION, name.topic, name.partition, (found,))
