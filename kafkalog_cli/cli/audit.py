"""`kafkalog audit`: verification and statistics of every partition, on Spark."""

from typing import Annotated, NamedTuple

from kafkalog_cli.cli.declared import Command, CommandContext, Option
from kafkalog_cli.cli.groups import DecodingLimits, ReadTopics
from kafkalog_cli.cli.options import (
    TIME_HELP,
    Format,
    MetadataOption,
    Now,
    OutputFormat,
    PartitionPaths,
    output_option,
    selection_option,
)
from kafkalog_cli.cli.session_groups import OnSpark
from kafkalog_cli.ops.choices import Level


# fmt: off
class AuditOptions(NamedTuple):
    """The options of audit."""

    paths: PartitionPaths = None
    level: Annotated[Level, Option(
        help="Thoroughness, as in verify: quick reads headers, normal every byte, deep every"
        " record.")] = Level.NORMAL
    keys: Annotated[bool, Option("--keys",
        help="Report also the number of keys, and the most frequent and largest keys. This reads every"
        " record.")] = False
    top: Annotated[int, Option(metavar="N", min=1, max=1000, help="Number of keys that --keys reports.")] = 10
    topics: ReadTopics = ReadTopics()
    metadata: MetadataOption = None
    now: Now = None
    decoding: DecodingLimits = DecodingLimits()
    history: Annotated[str | None, output_option(metavar="DIR",
        help="Add the run to DIR, a Parquet file per run, and detect log directories that were replaced.")] = None
    compare: Annotated[str | None, output_option(metavar="WHEN",
        help=f"Report changes since a run of the history: previous, or the last run before a time."
        f" {TIME_HELP}.")] = None
    replaced: Annotated[bool, selection_option("--replaced",
        help="Accept log directories that are empty, or of another broker, since the last run.")] = False
    output: Annotated[str | None, output_option(metavar="FILE",
        help="Write the rows to a new Parquet file too.")] = None
    quiet: Annotated[bool, output_option("--quiet", help="Print only partitions with a warning or worse.")] = False
    output_format: Format = OutputFormat.TEXT
    spark: OnSpark = OnSpark()
# fmt: on


def audit(context: CommandContext, options: AuditOptions) -> int:
    """Verify all partitions, and report sizes, times, keys, codecs.

    Tasks of Spark do the work: the largest partitions first, and several small partitions per task. Findings and exit
    codes are those of verify. With --history the runs are kept, and two of them can be compared. Nothing is locked or
    changed in a log directory. Needs the extra `spark`.
    """
    from kafkalog_cli.cli.audit_run import AuditRun

    return AuditRun(context.environment, options).run()


command = Command(audit)
