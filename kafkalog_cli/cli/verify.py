"""`kafkalog verify`: check files, partitions and whole log directories, and explain each finding."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from typing import TYPE_CHECKING, Annotated

from typer import Context, Option

from kafkalog_cli.cli.changes import Reports as VerbReports
from kafkalog_cli.cli.engine import engine_of
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.exit_codes import READ, exit_codes
from kafkalog_cli.cli.options import (
    DecodingLimits,
    Format,
    Jobs,
    Now,
    Pacing,
    PathsArgument,
    Printing,
    Safety,
    SettingSources,
    Spark,
    Topics,
    default_jobs,
    output_option,
)
from kafkalog_cli.cli.run import Run
from kafkalog_cli.disk.named_places import check_named_file, replace_named_file
from kafkalog_cli.errors import ExitCode, KafkalogError, UsageError, counted
from kafkalog_cli.ops.call.call import Call
from kafkalog_cli.ops.call.call import Run as Outcome
from kafkalog_cli.ops.call.observer import Note
from kafkalog_cli.ops.check.checks.diagnose import Finding
from kafkalog_cli.ops.check.checks.finding_kinds import Severity
from kafkalog_cli.ops.check.verify.task import LocatedFinding, TargetKind, Verification
from kafkalog_cli.ops.check.verify.verify import VerifyPlanner
from kafkalog_cli.ops.choices import Level
from kafkalog_cli.ops.map_each import Forks
from kafkalog_cli.output.findings import (
    DAMAGED,
    FAILED,
    OF_SEVERITY,
    OK,
    WARNING,
    finding_lines,
    verdict_of,
    verification_summary,
)
from kafkalog_cli.output.progress import sized, spent
from kafkalog_cli.output.stream import Paint, paint_of, printable

if TYPE_CHECKING:
    from kafkalog_cli.output.ci_report import CiReport

EXAMPLES = {
    "Check a log directory": "kafkalog verify /var/lib/kafka",
    "Decompress and check every record of a topic": ("kafkalog verify /var/lib/kafka --topic orders --level deep"),
    "Compare a log directory with a backup": "kafkalog verify /var/lib/kafka --against /mnt/backup",
}
EXIT_CODES = (
    READ
    | exit_codes(ExitCode.UNSUPPORTED, ExitCode.REFUSED)
    | {ExitCode.OK: "no damage found", ExitCode.WARNINGS: "only warnings, or damage that a broker cuts off"}
)

LevelChoice = Annotated[Level, Option("--level", envvar="KAFKALOG_LEVEL",
    help="quick: names, sizes, batch headers, checkpoints. normal: also CRCs, indexes, epochs, snapshots. deep: also"
    " decompression and every record.")]  # fmt: skip
Against = Annotated[str | None, Option("--against", metavar="DIR",
    help="Compare each partition with its replica or backup in DIR. DIR is a log directory, or the directory of one"
    " partition, under any name.")]  # fmt: skip
Reports = Annotated[list[str] | None, output_option("--report", metavar="KIND[=FILE]",
    help="Write a report for CI, junit, sarif or github (annotations): to stdout in place of the text, or to FILE. May"
    " be repeated.")]  # fmt: skip


def verify(  # noqa: PLR0913
    context: Context,
    *,
    paths: PathsArgument,
    topics: Topics,
    level: LevelChoice = Level.NORMAL,
    against: Against = None,
    settings: SettingSources,
    now: Now = None,
    jobs: Jobs = 0,
    decoding: DecodingLimits,
    spark: Spark,
    verbose: Annotated[bool, Option("--verbose", "-v", envvar="KAFKALOG_VERBOSE",
        help="Print also notes, and a line for each partition without damage.")] = False,
    quiet: Annotated[bool, Option("--quiet", envvar="KAFKALOG_QUIET",
        help="Print only warnings and worse, without counts.")] = False,
    report: Reports = None,
    output: Format = "text",
) -> int:  # fmt: skip
    """Check log directories, and explain each damage found.

    Each finding has its file and byte, what a broker would do about it, and the next step. Partitions without
    damage are only counted, in the last line. Nothing is changed, and no lock is taken.
    """
    if against is not None and spark.engine == "spark":
        raise UsageError(reason="--against needs --engine local: it compares two partitions in one process")
    environment: Environment = context.obj
    if not jobs and spark.engine == "local" and level is Level.DEEP:
        jobs = max(1, default_jobs() // 2)  # each partition's records are read in threads of their own
    engine = engine_of(environment, spark, jobs, as_json=output != "text")
    run = VerifyRun(context, report or (), level, Printing(verbose, quiet, output))
    options = run.options(topics, Safety(now), settings=settings, pacing=Pacing(jobs))
    with run.of_whole_run(), engine as map_each:
        call = Call("verify", paths, options, reads=True, engine=map_each)
        if against is not None:
            from kafkalog_cli.ops.check.verify.replica_pairs import verify_against

            outcome = verify_against(call, level, decoding.limits, against)
        else:
            planner = VerifyPlanner(call, level, decoding.limits)
            forks = Forks.NONE if level is Level.DEEP else Forks.OF_SMALL_ITEMS  # threads do better for records
            outcome = call.read_each(planner.tasks(paths), planner.work, forks=forks)
    return run.finish(outcome)


class VerifyRun(VerbReports):
    """Writes the results of one call of verify as text, as objects and as reports.

    A report on stdout takes the place of the text. The others go to files, which are written when the run ends. Raises
    UsageError for wrong reports, and KafkalogError if a report's file cannot be written, before anything is checked.
    """

    def __init__(self, context: Context, reports: Sequence[str], level: Level, printing: Printing) -> None:
        super().__init__(Run(context, printing.output))
        run, begun = self.run, self.context.clock()
        self._is_quiet = printing.quiet
        self._counts: Counter[str] = Counter()
        self._reports: dict[str, tuple[CiReport, list[str]]] = {}
        for word in reports:
            from kafkalog_cli.output.ci_report import KINDS, ci_report

            kind, equals, path = word.partition("=")
            if kind not in KINDS or (equals and not path):
                raise UsageError(reason=f"--report {word}: give one of {', '.join(KINDS)}, or {KINDS[0]}=FILE")
            target = "" if path in {"", "-"} else os.path.abspath(path)  # noqa: PTH100 - links are not followed
            if target in self._reports:
                raise UsageError(reason=f"--report {word}: another report goes to {path or 'stdout'}")
            self._reports[target] = ci_report(kind, level.value, run.environment.now_ms()), []
        if run.as_json and "" in self._reports:
            raise UsageError(reason="--report without =FILE goes to stdout, and so does --format json: give a FILE")
        for target in filter(None, self._reports):
            check_named_file(run.fs, target)
        if not run.as_json and "" not in self._reports:
            text = VerifyText(paint_of(run.out), printing, lambda: self.context.clock() - begun)
            self._reports[""] = text, []

    def report(self, note: Note) -> None:
        """See Observer."""
        if note.kind != "locked" or not self._is_quiet:
            super().report(note)

    def fail(self, error: KafkalogError, *, path: str | None = None, was_reported: bool = False) -> None:
        """See Observer."""
        self._fail_reports(path, error)
        super().fail(error, path=path, was_reported=was_reported)

    def show(self, result: Verification) -> None:
        """See Observer. With --quiet only warnings and worse are shown."""
        findings = [
            finding for finding in result.findings if not self._is_quiet or finding.severity is not Severity.INFO
        ]
        self._write(lambda report: report.show(result, findings))
        if self.run.lines is not None:
            self.run.lines.results(LocatedFinding(finding, result.topic, result.partition) for finding in findings)
            if findings or not self._is_quiet:
                self.run.lines.result(result)
        counts, totals = self._counts, result.totals
        for severity, name in OF_SEVERITY.items() if result.findings else ():
            counts[name] += result.count(severity)
        counts["targets"] += 1
        counts["batches"] += totals.batches
        counts["records"] += totals.records
        counts["bytes"] += totals.bytes

    @contextmanager
    def of_whole_run(self) -> Iterator[None]:
        """Have the reports include an error that ends the whole run: a CI service sees no results then."""
        try:
            yield
        except KafkalogError as error:
            if isinstance(self._reports.get("", (None,))[0], VerifyText):
                del self._reports[""]  # the error is on stderr
            self._fail_reports(None, error)
            self._end_reports(error.exit_code)
            raise

    def _fail_reports(self, path: str | None, error: KafkalogError) -> None:
        self._write(lambda report: report.fail(path, error))

    def finish(self, outcome: Outcome[Verification]) -> int:
        """Write the end of the text and of the objects, and the reports; return the exit code.

        Raises KafkalogError if a report cannot be written.
        """
        self._end_reports(outcome.exit_code)
        names = (*OF_SEVERITY.values(), "batches", "records", "bytes")
        counts = {name: self._counts[name] for name in names}
        return self.end(outcome, targets=self._counts["targets"], failures=self.failures, **counts)

    def _end_reports(self, code: ExitCode) -> None:
        now_ms = self.run.environment.now_ms()
        self._write(lambda report: report.end(code, now_ms))
        for path, (_, texts) in self._reports.items():
            if path:
                content = "".join(texts).encode("utf-8", "surrogateescape")
                replace_named_file(self.run.fs, path, content, "report")
        self.run.out.flush()

    def _write(self, texts: "Callable[[CiReport], Iterable[str]]") -> None:
        """Add the texts that each report returns."""
        for path, (report, written) in self._reports.items():
            for text in texts(report):
                if path:
                    written.append(text)
                else:
                    self.run.out.write(text)


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


class VerifyText:
    """The text of a run, written as its results come: only damage and warnings, or all results if `is_verbose`.

    A fine result is held until the next result, because a single partition has its line even without `is_verbose`.
    With `is_quiet` only warnings and worse are written, without counts. `seconds` returns the time that the run took.
    """

    def __init__(self, paint: Paint, printing: Printing, seconds: Callable[[], float]) -> None:
        self._paint, self._printing, self._seconds = paint, printing, seconds
        self._counts: dict[TargetKind, Counter[str]] = {}
        self._held: list[Verification] = []
        self._not_checked: dict[str, None] = {}
        self._bytes = self._notes = 0

    def show(self, verification: Verification, findings: Sequence[Finding]) -> Iterator[str]:
        """See CiReport."""
        verdict = verdict_of(verification)
        self._counts.setdefault(verification.target, Counter())[verdict] += 1
        self._not_checked |= dict.fromkeys(verification.not_looked_at)
        self._bytes += verification.totals.bytes if verification.target is TargetKind.PARTITION else 0
        if verdict != OK or self._printing.verbose:
            yield from self._lines(verification, findings)
        elif not self._printing.quiet:
            self._held.append(verification)
            self._notes += len(findings)
            if self._partitions > 1:
                self._held.clear()

    def fail(self, path: str | None, error: KafkalogError) -> Iterable[str]:
        """See CiReport. The error is on stderr."""
        self._counts.setdefault(TargetKind.PARTITION, Counter())[FAILED] += 1
        return ()

    def end(self, code: ExitCode, ended_ms: int) -> Iterator[str]:
        """See CiReport: the held result, the counts of several results, and the parts that were not checked."""
        if self._printing.quiet:
            return
        if self._partitions > 1:
            yield f"{self._closing()}\n"
        elif any(result.target is not TargetKind.LOG_DIR for result in self._held) or not self._partitions:
            for result in self._held:
                yield from self._lines(result, result.findings)
        if self._not_checked and self._partitions:
            names = (_OPTIONS.get(name, name) for name in self._not_checked)
            yield self._paint.wrapped(f"not checked: {printable(', '.join(names))}", indent="  ") + "\n"

    @property
    def _partitions(self) -> int:
        return sum(sum(counts.values()) for kind, counts in self._counts.items() if kind is not TargetKind.LOG_DIR)

    def _lines(self, verification: Verification, findings: Sequence[Finding]) -> Iterator[str]:
        """Yield the lines of the findings, then of the partition; with `is_quiet` only where there are findings."""
        for finding, after in zip_longest(findings, findings[1:]):
            for line in finding_lines(finding, self._paint, after):
                yield f"{line}\n"
        if not self._printing.quiet or findings:
            yield f"{verification_summary(verification, self._paint)}\n"

    def _closing(self) -> str:
        sentences = []
        for kind, (singular, plural) in _NAMES.items():
            counts = self._counts.get(kind, Counter())
            if counts and (kind is not TargetKind.LOG_DIR or set(counts) != {OK}):
                sentences.append(f"{counted(counts.total(), singular, plural)}: {self._verdicts(counts)}")
        notes = f", {counted(self._notes, 'note')} (--verbose)" if self._notes else ""
        return f"{'; '.join(sentences)}{notes}, {sized(self._bytes)}, {spent(self._seconds())}"

    def _verdicts(self, counts: Counter[str]) -> str:
        paint = self._paint
        words = [paint.fine(f"{counts[OK]} OK") if counts[OK] else "0 OK"]
        if counts[WARNING]:
            words.append(paint.warning(counted(counts[WARNING], "warning")))
        words += [paint.bad(f"{counts[verdict]} {verdict}") for verdict in (DAMAGED, FAILED) if counts[verdict]]
        return ", ".join(words)
