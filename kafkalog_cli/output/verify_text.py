"""The text output of verify: a line per finding with its next step below, and a line per partition."""

from __future__ import annotations

from collections.abc import Iterator

from kafkalog_cli.actions.reports.index_verdict import counted
from kafkalog_cli.actions.verify.diagnose import Finding
from kafkalog_cli.actions.verify.finding_kinds import FindingKind, Severity
from kafkalog_cli.actions.verify.partition import TargetKind, Verification
from kafkalog_cli.output.stream import printable


def verification_lines(verification: Verification, *, quiet: bool) -> Iterator[str]:
    """Return the lines of the findings, then of the partition; with `quiet` only warnings and worse."""
    found = [one for one in verification.findings if not quiet or one.severity is not Severity.INFO]
    for one in found:
        yield from finding_lines(one)
    if not quiet or found:
        yield _summary(verification)


def finding_lines(found: Finding) -> Iterator[str]:
    """Return the lines of one finding: place and message, a broker's reaction, the next step."""
    where = printable(found.path)
    if found.position is not None:
        where += f": at byte {found.position}"
    word = "" if found.severity is Severity.INFO else f"{found.severity.value}: "
    yield f"{where}: {word}{printable(found.message)}{_concerned(found)} [{found.kind.value}]"
    if found.severity is Severity.INFO:
        return
    if found.broker_effect:
        yield f"  broker: {printable(found.broker_effect)}"
    if found.next_step:
        yield f"  next: {printable(found.next_step)}"


def _concerned(found: Finding) -> str:
    """Return the offsets of damaged batches; other findings have their offsets in their message."""
    first, last = found.first_offset, found.last_offset
    if found.severity is Severity.INFO or found.position is None or first is None or last is None:
        return ""
    if str(first) in found.message:
        return ""
    return f" (offset {first})" if first == last else f" (offsets {first} to {last})"


_NOT_COMPARED = (FindingKind.NOT_COMPARED, FindingKind.ONLY_ON_ONE_SIDE)
_OF_TARGET = {TargetKind.COMPARISON: "compared, ", TargetKind.LOG_DIR: "checkpoints and meta.properties: "}


def _summary(verification: Verification) -> str:
    verdict = _verdict(verification)
    totals = verification.totals
    is_not_compared = any(found.kind in _NOT_COMPARED for found in verification.findings)
    prefix = _OF_TARGET.get(verification.target, "") if verification.is_whole and not is_not_compared else ""
    parts = [prefix + verdict]
    if verification.log is not None and (totals.segments or verification.is_whole):
        parts.append(f"offsets {verification.log.first} to {verification.log.end}")
    if verification.target is TargetKind.PARTITION and (totals.segments or verification.is_whole):
        parts.append(counted(totals.segments, "segment", "segments"))
        parts.append(f"{totals.bytes} bytes")
        parts.append(counted(totals.batches, "batch", "batches"))
    if totals.records:
        parts.append(counted(totals.records, "record", "records"))
    if verification.not_looked_at:
        parts.append(f"not checked: {printable(', '.join(verification.not_looked_at))}")
    return f"{printable(verification.path)}: {'; '.join(parts)}"


def _verdict(verification: Verification) -> str:
    if any(found.kind in _NOT_COMPARED for found in verification.findings):
        return "not compared"
    corrupt, warnings = verification.count(Severity.CORRUPTION), verification.count(Severity.WARNING)
    words = []
    if corrupt:
        words.append(f"corruption ({counted(corrupt, 'finding', 'findings')})")
    if warnings:
        words.append(counted(warnings, "warning", "warnings"))
    is_comparison = verification.target is TargetKind.COMPARISON
    nothing = "the replicas agree in all offsets that both have" if is_comparison else "no damage found"
    return ", ".join(words) or nothing
