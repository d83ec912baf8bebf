"""`kafkalog audit`: verification and statistics of every partition, on Spark."""

from typing import Annotated

import typer

from kafkalog_cli.cli.environment import environment_of
from kafkalog_cli.cli.options import (
    OUTPUT_PANEL,
    SELECTION_PANEL,
    TIME_HELP,
    Format,
    MaxBatchBytes,
    MaxOutputBytes,
    MaxRatio,
    MetadataOption,
    Now,
    OutputFormat,
    PartitionOption,
    PartitionPaths,
    TopicOption,
    TopicPatternOption,
    selection_of,
)
from kafkalog_cli.cli.spark_options import DEFAULT_MASTER, Conf, Master, spark_settings
from kafkalog_cli.cli.verify import LevelOption
from kafkalog_cli.format.limits import DEFAULT_LIMITS

command = typer.Typer(add_completion=False)


@command.command("audit")
def audit(  # noqa: PLR0913, PLR0917 options
    context: typer.Context,
    paths: PartitionPaths = None,
    level: Annotated[LevelOption, typer.Option(
        help="As that of verify: quick reads headers, normal every byte, deep every record.")] = LevelOption.NORMAL,
    keys: Annotated[bool, typer.Option("--keys",
        help="Also how many keys there are, and which take the most: every record is read for that.")] = False,
    top: Annotated[int, typer.Option(metavar="N", min=1, max=1000, help="How many keys --keys tells of.")] = 10,
    topic: TopicOption = None,
    partition: PartitionOption = None,
    topic_pattern: TopicPatternOption = None,
    metadata: MetadataOption = None,
    now: Now = None,
    max_batch_bytes: MaxBatchBytes = DEFAULT_LIMITS.max_batch_bytes,
    max_output_bytes: MaxOutputBytes = DEFAULT_LIMITS.max_output_bytes,
    max_ratio: MaxRatio = DEFAULT_LIMITS.max_ratio,
    history: Annotated[str | None, typer.Option(metavar="DIR", rich_help_panel=OUTPUT_PANEL,
        help="Add the run to this directory, a Parquet file for each, and notice log directories that were replaced.",
        )] = None,
    compare: Annotated[str | None, typer.Option(metavar="WHEN", rich_help_panel=OUTPUT_PANEL,
        help=f"What has changed since the last run of the history at a time: previous, or {TIME_HELP}.")] = None,
    replaced: Annotated[bool, typer.Option("--replaced", rich_help_panel=SELECTION_PANEL,
        help="Take log directories that are empty, or another broker's, since the last run for what they are now.",
        )] = False,
    output: Annotated[str | None, typer.Option(metavar="FILE", rich_help_panel=OUTPUT_PANEL,
        help="Write the rows to a Parquet file too, which must not be there yet.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", rich_help_panel=OUTPUT_PANEL,
        help="Print only what has a warning or worse.")] = False,
    output_format: Format = OutputFormat.TEXT,
    master: Master = DEFAULT_MASTER,
    conf: Conf = None,
) -> int:  # fmt: skip
    """Verify every partition, and say what lies in it: bytes, records, times, codecs, dirty ratio; on Spark.

    The largest partitions come first; small ones share a task. Findings and exit codes are those of verify. Nothing is
    locked or changed in a log directory. With --history the runs are kept, and two of them can be compared. Needs the
    extra `spark`.
    """
    from kafkalog_cli.actions.selection import Selection
    from kafkalog_cli.actions.verify.partition import Level
    from kafkalog_cli.cli.audit_run import AuditOptions, AuditRun
    from kafkalog_cli.format.limits import Limits

    options = AuditOptions(
        selection_of(topic, partition, topic_pattern) or Selection(), Level(level.value), metadata, now,
        Limits(max_batch_bytes, max_output_bytes, max_ratio), quiet, output_format.is_json, master,
        spark_settings(conf), top if keys else None, history, compare, replaced, output,
    )  # fmt: skip
    return AuditRun(environment_of(context), options).run(paths or [])
