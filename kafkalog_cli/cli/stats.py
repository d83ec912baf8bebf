"""`kafkalog stats`: what lies in logs, without Spark."""

from typing import Annotated

from kafkalog_cli.cli.declared import Argument, Command, CommandContext
from kafkalog_cli.cli.options import (
    Format,
    Jobs,
    MaxOutputBytes,
    MaxRatio,
    OutputFormat,
    PartitionOption,
    TopicOption,
    TopicPatternOption,
    default_jobs,
    output_option,
)
from kafkalog_cli.format.limits import DEFAULT_LIMITS

_LARGEST_TOP = 1000


def stats(  # noqa: PLR0913, PLR0917 options
    context: CommandContext,
    paths: Annotated[list[str], Argument(metavar="PATH...", show_default=False,
        help="Log directories, partition directories, or globs of them.")],
    topic: TopicOption = None,
    partition: PartitionOption = None,
    topic_pattern: TopicPatternOption = None,
    partitions: Annotated[bool, output_option("--partitions",
        help="Print a row per partition. JSON output always has both.")] = False,
    top: Annotated[int, output_option("--top", metavar="N", min=1, max=_LARGEST_TOP,
        help="Print N of the largest records, of the most frequent keys, and of the producers.")] = 5,
    output_format: Format = OutputFormat.TEXT,
    jobs: Jobs = 0,
    max_output_bytes: MaxOutputBytes = DEFAULT_LIMITS.max_output_bytes,
    max_ratio: MaxRatio = DEFAULT_LIMITS.max_ratio,
) -> int:  # fmt: skip
    """Print sizes, codecs, keys, producers and times of logs.

    Each topic has a row, the largest first. All records are decoded. SIZE is the size of the log files. RAW is the
    size of keys and values after decompression. KEYS counts different keys, exactly up to about 260,000 per
    partition, and as an estimate above. DUPLICATES counts records whose key an earlier record of the partition has.
    TOMBSTONES counts records with a key and a null value. OVER TIME shows the records from the first to the last
    timestamp of all rows.

    Batches with wrong CRCs are left out and reported. Nothing is locked or changed.
    """
    from kafkalog_cli.cli.stats_run import StatsOptions, StatsRun

    limits = DEFAULT_LIMITS._replace(max_output_bytes=max_output_bytes, max_ratio=max_ratio)
    options = StatsOptions(partitions, top, output_format.is_json, jobs or default_jobs(), limits)
    return StatsRun(context.environment, options).run(paths, topic, partition, topic_pattern)


command = Command(stats)
