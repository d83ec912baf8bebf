"""`kafkalog verify`: check files, partitions and whole log directories, and explain each finding."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

from typer import Context, Option

from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.exit_codes import READ, exit_codes
from kafkalog_cli.cli.option_groups import DecodingLimits, Topics
from kafkalog_cli.cli.options import Format, Jobs, Now, OutputFormat, PathsArgument, default_jobs, output_option
from kafkalog_cli.cli.session_groups import (
    EngineName,
    Pacing,
    Printing,
    Safety,
    SettingSources,
    Spark,
    engine_of,
    session_options,
)
from kafkalog_cli.disk.named_places import check_named_file, replace_named_file
from kafkalog_cli.errors import ExitCode, KafkalogError, UsageError
from kafkalog_cli.ops.choices import Level
from kafkalog_cli.output.stream import ResultStream

if TYPE_CHECKING:
    from kafkalog_cli.ops.verify.task import Verification
    from kafkalog_cli.output.ci_report import CiReport

EXAMPLES = (
    ("Check a log directory", "kafkalog verify /var/lib/kafka"),
    (
        "Decompress and check every record of a topic",
        "kafkalog verify /var/lib/kafka --topic orders --level deep",
    ),
    ("Compare a log directory with a backup", "kafkalog verify /var/lib/kafka --against /mnt/backup"),
)
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
    paths: PathsArgument = None,
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
    output: Format = OutputFormat.TEXT,
) -> int:  # fmt: skip
    """Check log directories, and explain each damage found.

    Each finding has its file and byte, what a broker would do about it, and the next step. Partitions without
    damage are only counted, in the last line. Nothing is changed, and no lock is taken.
    """
    from kafkalog_cli.cli.verbs import VerbRun
    from kafkalog_cli.ops.verify.verify import VERIFY, VerifyPlanner, VerifyRequest, verify_against
    from kafkalog_cli.output.verify_view import verify_view

    if against is not None and spark.engine is EngineName.SPARK:
        raise UsageError(reason="--against needs --engine local: it compares two partitions in one process")
    if not paths:
        raise UsageError(reason="verify needs a PATH; see kafkalog verify --help")
    environment: Environment = context.obj
    if not jobs and spark.engine is EngineName.LOCAL and level is Level.DEEP:
        jobs = max(1, default_jobs() // 2)  # each partition's records are read in threads of their own
    engine = engine_of(environment, spark, jobs, as_json=output.is_json)
    options = session_options(environment, topics, Safety(now), settings=settings, pacing=Pacing(jobs), engine=engine)
    printing = Printing(verbose, quiet, output)
    shown = VerifyOutput(environment, report or (), level, printing)
    run = VerbRun(context, VERIFY, verify_view(quiet=quiet), options, printing)
    run.listener = shown
    request = VerifyRequest(level, decoding.limits)
    with shown.of_whole_run():
        if against is not None:
            summary = verify_against(run.session, request, paths, against)
        else:
            planner = VerifyPlanner(run.session, request)
            forks = level is not Level.DEEP  # threads do better
            summary = run.session.run_work(planner.verify, planner.works(paths), forks=forks)
    shown.end(summary.code, run.session.seconds)
    return run.finish(summary)


KINDS = ("junit", "sarif", "github")


class VerifyOutput:
    """The text and the reports of one run.

    A report on stdout takes the place of the text. The others go to files, which are written when the run ends. Raises
    UsageError for wrong reports, and KafkalogError if a report's file cannot be written, before anything is checked.
    """

    def __init__(self, environment: Environment, reports: Sequence[str], level: Level, printing: Printing) -> None:
        from kafkalog_cli.output.verify_view import VerifyText

        self._environment = environment
        self._out = ResultStream(environment.stdout)
        self._is_quiet = printing.quiet
        self._reports: dict[str, tuple[CiReport, list[str]]] = {}
        for word in reports:
            kind, equals, path = word.partition("=")
            if kind not in KINDS or (equals and not path):
                raise UsageError(reason=f"--report {word}: give one of {', '.join(KINDS)}, or {KINDS[0]}=FILE")
            place = "" if path in {"", "-"} else os.path.abspath(path)  # noqa: PTH100 - links are not followed
            if place in self._reports:
                raise UsageError(reason=f"--report {word}: another report goes to {path or 'stdout'}")
            self._reports[place] = self._new_report(kind, level), []
        as_json = printing.output.is_json
        if as_json and "" in self._reports:
            raise UsageError(reason="--report without =FILE goes to stdout, and so does --format json: give a FILE")
        has_text = not as_json and "" not in self._reports
        self._text = VerifyText(self._out, printing.quiet, printing.verbose) if has_text else None
        for place in filter(None, self._reports):
            check_named_file(environment.fs, place)

    def _new_report(self, kind: str, level: Level) -> "CiReport":
        from kafkalog_cli.output.ci_report import ReportedRun, ReportKind, ci_report

        return ci_report(ReportKind(kind), ReportedRun(level.value, self._environment.now_ms()))

    def show(self, result: "Verification") -> None:
        """Add a result."""
        from kafkalog_cli.ops.checks.finding_kinds import Severity

        found = [one for one in result.findings if not self._is_quiet or one.severity is not Severity.INFO]
        self._write(lambda report: report.show(result, found))
        if self._text is not None:
            self._text.show(result)

    def fail(self, path: str | None, error: KafkalogError) -> None:
        """Add the error of a path."""
        self._fail_reports(path, error)
        if self._text is not None:
            self._text.failed()

    def _fail_reports(self, path: str | None, error: KafkalogError) -> None:
        self._write(lambda report: report.fail(path, error))

    @contextmanager
    def of_whole_run(self) -> Iterator[None]:
        """Have the reports include an error that ends the whole run: a CI service sees no results then."""
        try:
            yield
        except KafkalogError as error:
            self._fail_reports(None, error)
            self._end_reports(error.exit_code)
            raise

    def end(self, code: ExitCode, seconds: float) -> None:
        """Write the end of the text, and the reports. Raises KafkalogError if a report cannot be written."""
        self._end_reports(code)
        if self._text is not None:
            self._text.end(seconds)
        self._out.flush()

    def _end_reports(self, code: ExitCode) -> None:
        now_ms = self._environment.now_ms()
        self._write(lambda report: report.end(code, now_ms))
        for place, (_, parts) in self._reports.items():
            if place:
                content = "".join(parts).encode("utf-8", "surrogateescape")
                replace_named_file(self._environment.fs, place, content, "report")
        self._out.flush()

    def _write(self, texts: "Callable[[CiReport], Iterable[str]]") -> None:
        """Add the texts that each report returns."""
        for place, (report, parts) in self._reports.items():
            for text in texts(report):
                if place:
                    parts.append(text)
                else:
                    self._out.write(text)
