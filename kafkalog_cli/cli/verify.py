"""`kafkalog verify`: check files, partitions and whole log directories, and explain each finding."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Annotated

from typer import Context, Option

from kafkalog_cli.cli.engine import engine_of
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.exit_codes import HOST_MISSING, READ, exit_codes
from kafkalog_cli.cli.options import (
    DecodingLimits,
    EachHost,
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
from kafkalog_cli.cli.reports import Reports as VerbReports
from kafkalog_cli.cli.run import Run
from kafkalog_cli.disk.named_places import check_named_file, replace_named_file
from kafkalog_cli.errors import ExitCode, KafkalogError, UsageError, counted
from kafkalog_cli.format.limits import Limits
from kafkalog_cli.ops.call.call import Call
from kafkalog_cli.ops.call.call import Outcome as CallOutcome
from kafkalog_cli.ops.call.call import Run as Outcome
from kafkalog_cli.ops.call.observer import Note
from kafkalog_cli.ops.check.checks.diagnose import Finding
from kafkalog_cli.ops.check.checks.finding_kinds import Severity
from kafkalog_cli.ops.check.verify.task import LocatedFinding, TargetKind, Verification, VerifiedHost
from kafkalog_cli.ops.check.verify.verify import verify_paths
from kafkalog_cli.ops.choices import Level
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
    from kafkalog_cli.spark.each_host import Hosts

EXAMPLES = {
    "Check a log directory": "kafkalog verify /var/lib/kafka",
    "Decompress and check every record of a topic": ("kafkalog verify /var/lib/kafka --topic orders --level deep"),
    "Compare a log directory with a backup": "kafkalog verify /var/lib/kafka --against /mnt/backup",
}
EXIT_CODES = (
    READ
    | exit_codes(ExitCode.UNSUPPORTED, ExitCode.REFUSED)
    | {ExitCode.OK: "no damage found", ExitCode.WARNINGS: "only warnings, or damage that a broker cuts off"}
    | HOST_MISSING
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
    hosts: EachHost,
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

    With --each-host, executors of Spark check the disks of their own hosts, and results are in the order of the
    partitions. The replicas of a partition are compared. A host that should have PATH and does not answer is named.
    """
    if against is not None and spark.engine == "spark":
        raise UsageError(reason="--against needs --engine local: it compares two partitions in one process")
    environment: Environment = context.obj
    hosts.check(spark, *paths, settings.metadata, settings.broker_config)
    if hosts.each_host and report:
        raise UsageError(reason="--report cannot be combined with --each-host")
    if not jobs and spark.engine == "local" and level is Level.DEEP:
        jobs = max(1, default_jobs() // 2)  # each partition's records are read in threads of their own
    run = VerifyRun(context, report or (), level, Printing(verbose, quiet, output), of_hosts=hosts.each_host)
    options = run.options(topics, Safety(now), settings=settings, pacing=Pacing(jobs))
    if hosts.each_host:
        from kafkalog_cli.cli.each_host import hosts_of, report_hosts, without_observer
        from kafkalog_cli.ops.call.host_plan import HostsRequest

        verb = partial(verify_paths, paths, without_observer(options), level, decoding.limits, with_facts=True)
        request = HostsRequest(verb, tuple(paths), settings.metadata, hosts.hosts, jobs)
        call = Call("verify", paths, options, reads=True)
        with hosts_of(environment, spark, request, as_json=run.run.as_json) as there:
            return run.finish(report_hosts(call, there, partial(_compared, level, decoding.limits)))
    engine = engine_of(environment, spark, jobs, as_json=run.run.as_json)
    with run.of_whole_run(), engine as map_each:
        if against is not None:
            from kafkalog_cli.ops.check.verify.replica_pairs import verify_against

            call = Call("verify", paths, options, reads=True, engine=map_each)
            outcome = verify_against(call, level, decoding.limits, against)
        else:
            outcome = verify_paths(paths, options, level, decoding.limits, map_each, run)
    return run.finish(outcome)


def _compared(
    level: Level, limits: Limits, outcomes: Sequence[tuple[str, CallOutcome]], hosts: "Hosts"
) -> Iterator[CallOutcome]:
    """Yield the comparison of the replicas of a partition, if several hosts have one."""
    from kafkalog_cli.ops.check.verify.replica_facts import Replica, ReplicaFacts, read_rows
    from kafkalog_cli.ops.check.verify.replicas_across_hosts import compare_across_hosts

    of_hosts = ((host, getattr(found.result, "facts", None)) for host, found in outcomes)
    replicas = [Replica(host, facts) for host, facts in of_hosts if isinstance(facts, ReplicaFacts)]
    for result in compare_across_hosts(replicas, level, partial(hosts.answers, answer=partial(read_rows, limits))):
        yield CallOutcome(result.path, result)


class VerifyRun(VerbReports):
    """Writes the results of one call of verify as text, as objects and as reports.

    A report on stdout takes the place of the text. The others go to files, which are written when the run ends. Raises
    UsageError for wrong reports, and KafkalogError if a report's file cannot be written, before anything is checked.
    """

    def __init__(
        self, context: Context, reports: Sequence[str], level: Level, printing: Printing, *, of_hosts: bool = False
    ) -> None:
        super().__init__(Run(context, printing.output))
        run, begun = self.run, self.context.clock()
        self._is_quiet = printing.quiet
        self._counts: Counter[str] = Counter()
        self._of_hosts: dict[str, Counter[str]] = {}
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
            text_of = HostsText if of_hosts else VerifyText
            self._reports[""] = text_of(paint_of(run.out), printing, lambda: self.context.clock() - begun), []

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
            where = result.topic, result.partition, result.host
            self.run.lines.results(LocatedFinding(finding, *where) for finding in findings)
            if findings or not self._is_quiet:
                self.run.lines.result(result)
        _count(self._counts, result)
        if result.host is not None:
            _count(self._of_hosts.setdefault(result.host, Counter()), result)

    @contextmanager
    def of_whole_run(self) -> Iterator[None]:
        """Have the reports include an error that ends the whole run: a CI service sees no results then."""
        try:
            yield
        except KafkalogError as error:
            if isinstance(self._reports.get("", (None,))[0], VerifyText | HostsText):
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
        if self.run.lines is not None:
            for host, of_host in self._of_hosts.items():
                self.run.lines.result(VerifiedHost(host, of_host["targets"], *(of_host[name] for name in names)))
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


def _count(counts: Counter[str], result: Verification) -> None:
    totals = result.totals
    for severity, name in OF_SEVERITY.items():
        counts[name] += result.count(severity) if result.findings else 0
    counts["targets"] += 1
    counts["batches"] += totals.batches
    counts["records"] += totals.records
    counts["bytes"] += totals.bytes


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
        self.unchecked: dict[str, None] = {}
        self._bytes = self._notes = 0

    def show(self, verification: Verification, findings: Sequence[Finding]) -> Iterator[str]:
        """See CiReport."""
        verdict = verdict_of(verification)
        self._counts.setdefault(verification.target, Counter())[verdict] += 1
        self.unchecked |= dict.fromkeys(verification.not_looked_at)
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
            yield f"{self.counts}, {spent(self._seconds())}\n"
        elif any(result.target is not TargetKind.LOG_DIR for result in self._held) or not self._partitions:
            for result in self._held:
                yield from self._lines(result, result.findings)
        if self._partitions:
            yield from not_checked(self.unchecked, self._paint)

    @property
    def _partitions(self) -> int:
        return sum(sum(counts.values()) for kind, counts in self._counts.items() if kind is not TargetKind.LOG_DIR)

    def _lines(self, verification: Verification, findings: Sequence[Finding]) -> Iterator[str]:
        """Yield the lines of the findings, then of the partition; with `is_quiet` only where there are findings."""
        for finding, after in zip_longest(findings, findings[1:]):
            for line in finding_lines(finding, self._paint, after, verification.host):
                yield f"{line}\n"
        if not self._printing.quiet or findings:
            yield f"{verification_summary(verification, self._paint)}\n"

    @property
    def counts(self) -> str:
        """The counts of results by their verdicts, and the bytes."""
        sentences = []
        for kind, (singular, plural) in _NAMES.items():
            counts = self._counts.get(kind, Counter())
            if counts and (kind is not TargetKind.LOG_DIR or set(counts) != {OK}):
                sentences.append(f"{counted(counts.total(), singular, plural)}: {self._verdicts(counts)}")
        notes = f", {counted(self._notes, 'note')} (--verbose)" if self._notes else ""
        size = "" if self._counts.keys() == {TargetKind.COMPARISON} else f", {sized(self._bytes)}"
        return f"{'; '.join(sentences)}{notes}{size}"

    def _verdicts(self, counts: Counter[str]) -> str:
        paint = self._paint
        words = [paint.fine(f"{counts[OK]} OK") if counts[OK] else "0 OK"]
        if counts[WARNING]:
            words.append(paint.warning(counted(counts[WARNING], "warning")))
        words += [paint.bad(f"{counts[verdict]} {verdict}") for verdict in (DAMAGED, FAILED) if counts[verdict]]
        return ", ".join(words)


class HostsText:
    """The text of a run on several hosts: damage and warnings by partition, and a line of counts for each host."""

    def __init__(self, paint: Paint, printing: Printing, seconds: Callable[[], float]) -> None:
        self._paint, self._printing, self._seconds = paint, printing, seconds
        self._hosts: dict[str, VerifyText] = {}

    def show(self, verification: Verification, findings: Sequence[Finding]) -> Iterator[str]:
        """See CiReport. The summary of a comparison is the heading of its findings, and of those of its replicas."""
        lines = [*self._of(verification.host or "").show(verification, findings)]
        yield from lines if verification.host is not None else lines[-1:] + lines[:-1]

    def fail(self, path: str | None, error: KafkalogError) -> Iterable[str]:
        """See CiReport. The error is on stderr."""
        host = error.details.get("host")
        return () if host is None else self._of(str(host)).fail(path, error)

    def end(self, code: ExitCode, ended_ms: int) -> Iterator[str]:
        """See CiReport: the counts of each host, and the parts that were not checked."""
        if self._printing.quiet:
            return
        together = self._hosts.pop("", None)
        for host, text in self._hosts.items():
            yield self._paint.wrapped(f"{printable(host)}: {text.counts}", indent="  ") + "\n"
        words = [counted(len(self._hosts), "host"), *([] if together is None else [together.counts])]
        yield f"{'; '.join(words)}, {spent(self._seconds())}\n"
        yield from not_checked({name: None for text in self._hosts.values() for name in text.unchecked}, self._paint)

    def _of(self, host: str) -> VerifyText:
        return self._hosts.setdefault(host, VerifyText(self._paint, self._printing, self._seconds))


def not_checked(names: Iterable[str], paint: Paint) -> Iterator[str]:
    """Yield a line with the parts that were not checked, if there are any."""
    words = [_OPTIONS.get(name, name) for name in names]
    if words:
        yield paint.wrapped(f"not checked: {printable(', '.join(words))}", indent="  ") + "\n"
