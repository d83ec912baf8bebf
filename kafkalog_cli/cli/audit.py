"""`kafkalog audit`: verification and statistics of every partition, on Spark."""

from typing import Annotated

from kafkalog_cli.cli.declared import Command, CommandContext, Option
from kafkalog_cli.cli.groups import DecodingLimits, OnSpark
from kafkalog_cli.cli.options import (
    TIME_HELP,
    Format,
    MetadataOption,
    Now,
    OutputFormat,
    PartitionOption,
    PartitionPaths,
    TopicOption,
    TopicPatternOption,
    output_option,
    selection_of,
    selection_option,
)
from kafkalog_cli.cli.verify import LevelOption


def audit(  # noqa: PLR0913
    context: CommandContext,
    *,
    paths: PartitionPaths = None,
    level: Annotated[LevelOption, Option(
        help="Thoroughness, as in verify: quick reads headers, normal every byte, deep every"
        " record.")] = LevelOption.NORMAL,
    keys: Annotated[bool, Option("--keys",
        help="Report also the number of keys, and the most frequent and largest keys. This reads every"
        " record.")] = False,
    top: Annotated[int, Option(metavar="N", min=1, max=1000, help="Number of keys that --keys reports.")] = 10,
    topic: TopicOption = None,
    partition: PartitionOption = None,
    topic_pattern: TopicPatternOption = None,
    metadata: MetadataOption = None,
    now: Now = None,
    decoding: DecodingLimits,
    history: Annotated[str | None, output_option(metavar="DIR",
        help="Add the run to DIR, a Parquet file per run, and detect log directories that were replaced.")] = None,
    compare: Annotated[str | None, output_option(metavar="WHEN",
        help=f"Report changes since a run of the history: previous, or the last run before a time."
        f" {TIME_HELP}.")] = None,
    replaced: Annotated[bool, selection_option("--replaced",
        help="Accept log directories that are empty, or of another broker, since the last run.")] = False,
    output: Annotated[str | None, output_option(metavar="FILE",
        help="Write the rows to a new Parquet file too.")] = None,
    quiet: Annotated[bool, output_option("--quiet", help="Print only partitions with a warning or worse.")] = False,
    output_format: Format = OutputFormat.TEXT,
    spark: OnSpark,
) -> int:  # fmt: skip
    """Verify all partitions, and report sizes, times, keys, codecs.

    Tasks of Spark do the work: the largest partitions first, and several small partitions per task. Findings and exit
    codes are those of verify. With --history the runs are kept, and two of them can be compared. Nothing is locked or
    changed in a log directory. Needs the extra `spark`.
    """
    from kafkalog_cli.cli.audit_run import AuditOptions, AuditRun
    from kafkalog_cli.ops.verify.partition import Level

    options = AuditOptions(
        selection_of(topic, partition, topic_pattern), Level(level.value), metadata, now,
        decoding.limits, quiet, output_format.is_json,
        spark.sessions(context.environment, as_json=output_format.is_json), top if keys else None,
        history, compare, replaced, output,
    )  # fmt: skip
    return AuditRun(context.environment, options).run(paths or [])


command = Command(audit)
