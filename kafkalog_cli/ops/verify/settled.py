"""Verify a partition while a broker runs: findings that a repeated check does not confirm were work in progress."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.errors import NotKafkaLayout, PathNotFound
from kafkalog_cli.log.log_dir import read_log_dir
from kafkalog_cli.log.partition import PartitionPath, open_partition_of
from kafkalog_cli.ops.checks.diagnose import Finding, finding
from kafkalog_cli.ops.checks.finding_kinds import FindingKind, Severity
from kafkalog_cli.ops.checks.fresh_looks import MAY_BE_UNUSED, FileStamp, FreshLooks, may_have_unused_entries
from kafkalog_cli.ops.checks.segment_reports import ReadContext
from kafkalog_cli.ops.steps import Step
from kafkalog_cli.ops.verify.partition import verify_partition
from kafkalog_cli.ops.verify.task import Level, TargetKind, Verification, VerifyTask

CHANGING = "what changed while it was read"

_Identity = tuple[FindingKind, str, int | None, int | None, str, int | None]


def settled_verification(read_context: ReadContext, task: VerifyTask) -> Verification:
    """Verify a partition; a finding stands if every repeated check has it, or if no file changed meanwhile.

    A partition that is removed or renamed meanwhile gets one info finding. Raises as `verify_partition`.
    """
    fs, path = read_context.fs, task.partition.path
    is_live = task.root is not None and task.root.is_live
    looks = FreshLooks(fs, path, is_live=is_live, sleep=read_context.sleep)
    looks.begin(task.partition.entries)
    try:
        result = verify_partition(read_context, task)
        doubted: set[_Identity] | None = None
        while True:
            if doubted is None and not any(map(_is_doubtful, result.findings)):
                return result
            stamps = looks.stamps()
            found = {_identity(one, stamps) for one in result.findings if _is_doubtful(one)}
            doubted = found if doubted is None else doubted & found
            if not doubted or not looks.wants_another(stamps):
                settled = _without(result, doubted, stamps)
                return _with_unused_ends(fs, settled) if is_live else settled
            fresh = _reopened(read_context, task._replace(advance=None))
            looks.begin(fresh.partition.entries)
            result = replace(verify_partition(read_context, fresh), totals=result.totals)
    except (PathNotFound, NotKafkaLayout):
        gone = removed(fs, PartitionPath(path, task.partition.directory), task.level)
        if gone is None:
            raise
        return gone


def settled_findings(looks: FreshLooks, look: Callable[[], Iterable[Finding]]) -> tuple[Finding, ...]:
    """Return the findings of `look` in a directory where a broker replaces files.

    Only findings that every repeated look has are returned. Info findings, except about temporary files, are those of
    the last look.
    """
    looks.begin()
    findings = [*look()]
    doubted: set[_Identity] | None = None
    while True:
        stamps = looks.stamps()
        found = {_identity(one, stamps) for one in findings if _is_transient(one)}
        doubted = found if doubted is None else doubted & found
        if not doubted or not looks.wants_another():
            break
        looks.begin()
        findings = [*look()]
    return tuple(one for one in findings if not _is_transient(one) or _identity(one, stamps) in doubted)


def _is_doubtful(one: Finding) -> bool:
    return one.severity is not Severity.INFO or one.kind is FindingKind.NOT_READ


def _is_transient(one: Finding) -> bool:
    return _is_doubtful(one) or one.kind is FindingKind.LEFTOVER_TEMPORARY


def _identity(one: Finding, stamps: dict[str, FileStamp]) -> _Identity:
    """Return a key that is equal for the same finding in different looks; a replaced file counts as another file."""
    stamp = stamps.get(one.path.rpartition("/")[2])
    has_place = one.position is not None or one.first_offset is not None
    message = "" if has_place else one.message
    return one.kind, one.path, one.position, one.first_offset, message, None if stamp is None else stamp[0]


def _without(result: Verification, stands: set[_Identity], stamps: dict[str, FileStamp]) -> Verification:
    findings = tuple(one for one in result.findings if not _is_doubtful(one) or _identity(one, stamps) in stands)
    if len(findings) == len(result.findings):
        return result
    return replace(result, findings=findings, not_looked_at=(*result.not_looked_at, CHANGING))


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
