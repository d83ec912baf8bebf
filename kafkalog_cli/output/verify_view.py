"""How `verify` shows its results: findings with their next steps, a line or object per target, and the counts."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from typing import Any

from kafkalog_cli.errors import ExitCode, counted
from kafkalog_cli.ops.checks.diagnose import Finding
from kafkalog_cli.ops.checks.finding_kinds import FindingKind, Severity
from kafkalog_cli.ops.verify.task import TargetKind, Verification
from kafkalog_cli.output.progress import sized, spent
from kafkalog_cli.output.stream import NO_PAINT, Colour, Paint, ResultStream, paint_of, printable
from kafkalog_cli.output.views import FAILURES, View, one_object

OF_SEVERITY = {Severity.CORRUPTION: "corruptions", Severity.WARNING: "warnings", Severity.INFO: "infos"}


def verify_view(*, quiet: bool) -> View[Verification]:
    """Return the view of the objects; with `quiet` only warnings and worse are shown."""
    return View(
        lambda _: (),
        ("targets", FAILURES, *OF_SEVERITY.values(), "batches", "records", "bytes"),
        _counts,
        objects=partial(_objects, quiet=quiet),
        counts_partitions=False,
    )


def _objects(result: Verification, *, quiet: bool) -> Iterator[tuple[Any, Mapping[str, object]]]:
    found = [one for one in result.located if not quiet or one.finding.severity is not Severity.INFO]
    for one in found:
        yield from one_object(one)
    if found or not quiet:
        yield from one_object(result)


def _counts(result: Verification) -> dict[str, int]:
    of_findings = {name: result.count(severity) for severity, name in OF_SEVERITY.items()}
    totals = result.totals
    return {"targets": 1, **of_findings, "batches": totals.batches, "records": totals.records, "bytes": totals.bytes}


_OK, _WARNING, _DAMAGED, _FAILED = "OK", "warning", "damaged", "failed"
_NOT_COMPARED = (FindingKind.NOT_COMPARED, FindingKind.ONLY_ON_ONE_SIDE)
_OF_TARGET = {TargetKind.COMPARISON: "compared, ", TargetKind.LOG_DIR: "checkpoints and meta.properties: "}
_NAMES = {
    TargetKind.PARTITION: ("partition", "partitions"),
    TargetKind.LOG_DIR: ("log directory", "log directories"),
    TargetKind.COMPARISON: ("comparison", "comparisons"),
}
_OPTIONS = {
    # a part that was not checked: its name and the option that has it checked
    "decompression and records": "record contents (--level deep)",
    "topic ids and replicas (no metadata log)": "topic ids and replicas (--metadata DIR)",
}


@dataclass(slots=True)
class VerifyText:
    """Writes results as they come: only damage and warnings, or all results with `is_verbose`, and counts at the end.

    A fine result is held until the next result, because a single partition has its line even without `is_verbose`.
    With `is_quiet` only warnings and worse are written, without counts.
    """

    out: ResultStream
    is_quiet: bool = False
    is_verbose: bool = False
    _counts: dict[TargetKind, Counter[str]] = field(default_factory=dict)
    _held: list[Verification] = field(default_factory=list)
    _not_checked: dict[str, None] = field(default_factory=dict)
    _bytes: int = 0
    _notes: int = 0

    def show(self, result: Verification) -> None:
        """Write a result, or hold it back."""
        verdict = _verdict_of(result)
        self._counts.setdefault(result.target, Counter())[verdict] += 1
        self._not_checked |= dict.fromkeys(result.not_looked_at)
        self._bytes += result.totals.bytes if result.target is TargetKind.PARTITION else 0
        if verdict != _OK or self.is_verbose:
            self._write(result)
        elif not self.is_quiet:
            self._held.append(result)
            self._notes += len(result.findings)
            if self._partitions > 1:
                self._held.clear()

    def failed(self) -> None:
        """Count a partition that could not be checked; its error is on stderr."""
        self._counts.setdefault(TargetKind.PARTITION, Counter())[_FAILED] += 1

    def end(self, seconds: float) -> None:
        """Write the held result, the counts of several results, and the parts that were not checked."""
        if self.is_quiet:
            return
        if self._partitions > 1:
            self._line(self._closing(seconds))
        elif any(result.target is not TargetKind.LOG_DIR for result in self._held) or not self._partitions:
            for result in self._held:
                self._write(result)
        if self._not_checked and self._partitions:
            parts = (_OPTIONS.get(part, part) for part in self._not_checked)
            self._line(self._paint.wrapped(f"not checked: {printable(', '.join(parts))}", indent="  "))

    @property
    def _paint(self) -> Paint:
        return paint_of(self.out)

    @property
    def _partitions(self) -> int:
        return sum(sum(counts.values()) for kind, counts in self._counts.items() if kind is not TargetKind.LOG_DIR)

    def _write(self, result: Verification) -> None:
        for line in verification_lines(result, self._paint, quiet=self.is_quiet):
            self.out.write(f"{line}\n")

    def _line(self, text: str) -> None:
        self.out.write(f"{text}\n")

    def _closing(self, seconds: float) -> str:
        parts = []
        for kind, (one, many) in _NAMES.items():
            counts = self._counts.get(kind, Counter())
            if counts and (kind is not TargetKind.LOG_DIR or set(counts) != {_OK}):
                parts.append(f"{counted(counts.total(), one, many)}: {self._verdicts(counts)}")
        notes = f", {counted(self._notes, 'note')} (--verbose)" if self._notes else ""
        return f"{'; '.join(parts)}{notes}, {sized(self._bytes)}, {spent(seconds)}"

    def _verdicts(self, counts: Counter[str]) -> str:
        paint = self._paint
        words = [paint.fine(f"{counts[_OK]} OK") if counts[_OK] else "0 OK"]
        if counts[_WARNING]:
            words.append(paint.warning(counted(counts[_WARNING], "warning")))
        words += [paint.bad(f"{counts[verdict]} {verdict}") for verdict in (_DAMAGED, _FAILED) if counts[verdict]]
        return ", ".join(words)


def verification_lines(verification: Verification, paint: Paint = NO_PAINT, *, quiet: bool = False) -> Iterator[str]:
    """Return the lines of the findings, then of the partition; with `quiet` only warnings and worse."""
    found = [one for one in verification.findings if not quiet or one.severity is not Severity.INFO]
    for one, after in zip_longest(found, found[1:]):
        yield from finding_lines(one, paint, after)
    if not quiet or found:
        yield verification_summary(verification, paint)


def finding_lines(found: Finding, paint: Paint = NO_PAINT, after: Finding | None = None) -> Iterator[str]:
    """Return the lines of one finding: place and message, a broker's reaction, the next step.

    A reaction or a step that is also that of `after`, the next finding, is printed only there.
    """
    where = printable(found.path)
    if found.position is not None:
        where += f": at byte {found.position}"
    word = "" if found.severity is Severity.INFO else f"{found.severity.value}:"
    text = f"{where}: {word}{word and ' '}{printable(found.message)}{_concerned(found)} [{found.kind.value}]"
    colour = paint.bad if found.severity is Severity.CORRUPTION else paint.warning
    yield paint.coloured(paint.wrapped(text, indent="  "), word, colour)
    if found.severity is Severity.INFO:
        return
    shared = after if after is not None and after.severity is not Severity.INFO else None
    if found.broker_effect and (shared is None or shared.broker_effect != found.broker_effect):
        yield paint.wrapped(f"  broker: {printable(found.broker_effect)}", indent="    ")
    if found.next_step and (shared is None or shared.next_step != found.next_step):
        yield paint.commands(paint.wrapped(f"  next: {printable(found.next_step)}", indent="    "))


def _concerned(found: Finding) -> str:
    """Return the offsets of damaged batches; other findings have their offsets in their message."""
    first, last = found.first_offset, found.last_offset
    if found.severity is Severity.INFO or found.position is None or first is None or last is None:
        return ""
    if str(first) in found.message:
        return ""
    return f" (offset {first})" if first == last else f" (offsets {first} to {last})"


def _verdict_of(result: Verification) -> str:
    if result.count(Severity.CORRUPTION):
        return _DAMAGED
    if result.exit_code not in (ExitCode.OK, ExitCode.WARNINGS, ExitCode.NOT_FOUND):
        return _FAILED
    return _OK if result.exit_code is ExitCode.OK else _WARNING


def verification_summary(verification: Verification, paint: Paint = NO_PAINT) -> str:
    """Return the line of a target: the verdict, and how much of it was checked."""
    totals = verification.totals
    is_compared = not any(found.kind in _NOT_COMPARED for found in verification.findings)
    prefix = _OF_TARGET.get(verification.target, "") if verification.is_whole and is_compared else ""
    parts = []
    if verification.log is not None and (totals.segments or verification.is_whole):
        parts.append(f"offsets {verification.log.start} to {verification.log.end}")
    if verification.target is TargetKind.PARTITION and (totals.segments or verification.is_whole):
        parts.append(counted(totals.segments, "segment"))
        parts.append(sized(totals.bytes))
    if totals.records:
        parts.append(counted(totals.records, "record"))
    verdict, colour = _verdict(verification, paint)
    gap = "  " if _verdict_of(verification) == _OK else ", "
    line = f"{printable(verification.path)}: {prefix}{verdict}{gap if parts else ''}{', '.join(parts)}"
    return paint.coloured(paint.wrapped(line, indent="  "), verdict, colour)


def _verdict(verification: Verification, paint: Paint) -> tuple[str, Colour]:
    if any(found.kind in _NOT_COMPARED for found in verification.findings):
        return "not compared", paint.warning
    corrupt, warnings = verification.count(Severity.CORRUPTION), verification.count(Severity.WARNING)
    words = []
    if corrupt:
        words.append(f"corruption ({counted(corrupt, 'finding')})")
    if warnings:
        words.append(counted(warnings, "warning"))
    is_comparison = verification.target is TargetKind.COMPARISON
    nothing = "the replicas agree in all offsets that both have" if is_comparison else "OK"
    return ", ".join(words) or nothing, paint.bad if corrupt else paint.warning if warnings else paint.fine
