"""Findings and verdicts of `verify` as lines of text, which reports for CI have too."""

from collections.abc import Iterator

from kafkalog_cli.errors import ExitCode, counted
from kafkalog_cli.ops.check.checks.diagnose import Finding
from kafkalog_cli.ops.check.checks.finding_kinds import FindingKind, Severity
from kafkalog_cli.ops.check.verify.task import TargetKind, Verification
from kafkalog_cli.output.messages import path_on
from kafkalog_cli.output.progress import sized
from kafkalog_cli.output.stream import NO_PAINT, Colour, Paint, printable

OF_SEVERITY = {Severity.CORRUPTION: "corruptions", Severity.WARNING: "warnings", Severity.INFO: "infos"}

OK, WARNING, DAMAGED, FAILED = "OK", "warning", "damaged", "failed"
_NOT_COMPARED = (FindingKind.NOT_COMPARED, FindingKind.ONLY_ON_ONE_SIDE)
_NAME_OFFSETS = (
    FindingKind.OFFSETS_NOT_ASCENDING,
    FindingKind.OFFSET_OUTSIDE_SEGMENT,
    FindingKind.MISSING_OFFSETS,
    FindingKind.DIVERGED,
    FindingKind.METADATA_RECORD,
    FindingKind.METADATA_NEWER,
)
"""Kinds whose messages have the offsets."""
_OF_TARGET = {TargetKind.COMPARISON: "compared, ", TargetKind.LOG_DIR: "checkpoints and meta.properties: "}


def finding_lines(
    finding: Finding, paint: Paint = NO_PAINT, after: Finding | None = None, host: str | None = None
) -> Iterator[str]:
    """Return the lines of one finding: place and message, a broker's reaction, the next step.

    A reaction or a step that is also that of `after`, the next finding, is printed only there. `host` is where the
    path is, None for this machine.
    """
    where = printable(path_on(host, finding.path))
    if finding.position is not None:
        where += f": at byte {finding.position}"
    word = "" if finding.severity is Severity.INFO else f"{finding.severity.value}:"
    text = f"{where}: {word}{word and ' '}{printable(finding.message)}{_concerned(finding)} [{finding.kind.value}]"
    colour = paint.bad if finding.severity is Severity.CORRUPTION else paint.warning
    yield paint.coloured(paint.wrapped(text, indent="  "), word, colour)
    if finding.severity is Severity.INFO:
        return
    shared = after if after is not None and after.severity is not Severity.INFO else None
    if finding.broker_effect and (shared is None or shared.broker_effect != finding.broker_effect):
        yield paint.wrapped(f"  broker: {printable(finding.broker_effect)}", indent="    ")
    next_step = finding.next_step
    if next_step and (shared is None or shared.next_step != next_step):
        there = "" if host is None else f", on {host}"
        yield paint.commands(paint.wrapped(f"  next{there}: {printable(next_step)}", indent="    "))


def _concerned(finding: Finding) -> str:
    """Return the offsets of damaged batches."""
    first, last = finding.first_offset, finding.last_offset
    if finding.severity is Severity.INFO or finding.position is None or first is None or last is None:
        return ""
    if finding.kind in _NAME_OFFSETS:
        return ""
    return f" (offset {first})" if first == last else f" (offsets {first} to {last})"


def verdict_of(result: Verification) -> str:
    """Return the word that counts a result."""
    if result.count(Severity.CORRUPTION):
        return DAMAGED
    code = result.exit_code
    if code not in (ExitCode.OK, ExitCode.WARNINGS, ExitCode.NOT_FOUND):
        return FAILED
    return OK if code is ExitCode.OK else WARNING


def verification_summary(verification: Verification, paint: Paint = NO_PAINT) -> str:
    """Return the line of a target: the verdict, and how much of it was checked."""
    totals = verification.totals
    is_compared = not any(finding.kind in _NOT_COMPARED for finding in verification.findings)
    prefix = _OF_TARGET.get(verification.target, "") if verification.is_whole and is_compared else ""
    words = []
    if verification.log is not None and (totals.segments or verification.is_whole):
        words.append(f"offsets {verification.log.start} to {verification.log.end}")
    if verification.target is TargetKind.PARTITION and (totals.segments or verification.is_whole):
        words.append(counted(totals.segments, "segment"))
        words.append(sized(totals.bytes))
    if totals.records:
        words.append(counted(totals.records, "record"))
    verdict, colour = _verdict(verification, paint)
    if verification.hosts:
        prefix = f"{counted(len(verification.hosts), 'replica')} on {', '.join(verification.hosts)}: "
        verdict = "; ".join(_differences(verification)) or verdict
    gap = "  " if verdict_of(verification) == OK else ", "
    where = printable(path_on(verification.host, verification.path))
    line = f"{where}: {prefix}{verdict}{gap if words else ''}{', '.join(words)}"
    return paint.coloured(paint.wrapped(line, indent="  "), verdict, colour)


def _differences(verification: Verification) -> Iterator[str]:
    """Yield in a few words how replicas differ from the most complete one. A path on a host begins with its name."""
    for finding in verification.findings:
        host, first, last = finding.path.partition(":/")[0], finding.first_offset, finding.last_offset
        if first is None or last is None:
            continue
        if finding.kind is FindingKind.DIVERGED:
            yield f"{host} diverges at offset {first:,}"
        elif finding.kind in {FindingKind.RECORDS_MISSING, FindingKind.REPLICA_BEHIND}:
            yield f"{host} lacks " + (f"offset {first:,}" if first == last else f"offsets {first:,} to {last:,}")


def _verdict(verification: Verification, paint: Paint) -> tuple[str, Colour]:
    if any(finding.kind in _NOT_COMPARED for finding in verification.findings):
        return "not compared", paint.warning
    corrupt, warnings = verification.count(Severity.CORRUPTION), verification.count(Severity.WARNING)
    words = []
    if corrupt:
        words.append(f"corruption ({counted(corrupt, 'finding')})")
    if warnings:
        words.append(counted(warnings, "warning"))
    is_comparison = verification.target is TargetKind.COMPARISON
    shared = "they share" if len(verification.hosts or ()) > 2 else "both have"
    fine = f"the replicas agree in all offsets that {shared}" if is_comparison else "OK"
    return ", ".join(words) or fine, paint.bad if corrupt else paint.warning if warnings else paint.fine
