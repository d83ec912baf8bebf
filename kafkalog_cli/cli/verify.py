"""`kafkalog verify`: check files, partitions and whole log directories, and explain each finding."""

from typing import Annotated

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
from kafkalog_cli.errors import ExitCode, UsageError
from kafkalog_cli.ops.choices import Level

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
    from kafkalog_cli.cli.verbs import begin
    from kafkalog_cli.cli.verify_output import VerifyOutput
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
    run = begin(environment, VERIFY, verify_view(shown, quiet=quiet), options, printing)
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
