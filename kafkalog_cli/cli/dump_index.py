"""`kafkalog dump-index`: print index and sidecar files, with each entry checked against the log."""

from kafkalog_cli.cli.declared import Command, CommandContext
from kafkalog_cli.cli.environment import shown_reading_into_files
from kafkalog_cli.cli.options import (
    Format,
    MaxBatchBytes,
    MaxOutputBytes,
    MaxRatio,
    OutputFormat,
    PartitionOption,
    PathsArgument,
    TopicOption,
    TopicPatternOption,
    selection_of,
)
from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits


def dump_index(  # noqa: PLR0913, PLR0917 options
    context: CommandContext,
    paths: PathsArgument = None,
    topic: TopicOption = None,
    topic_pattern: TopicPatternOption = None,
    partition: PartitionOption = None,
    output: Format = OutputFormat.TEXT,
    max_batch_bytes: MaxBatchBytes = DEFAULT_LIMITS.max_batch_bytes,
    max_output_bytes: MaxOutputBytes = DEFAULT_LIMITS.max_output_bytes,
    max_ratio: MaxRatio = DEFAULT_LIMITS.max_ratio,
) -> int:
    """Print indexes, snapshots and checkpoints, each entry checked.

    Entries are compared with the log: each is right, stale, out of order or beyond the end. For an offset index, the
    rule by which it was written is printed: first offsets (before 2.0), append calls (2.0 to 4.0), or per batch (since
    4.1). Metadata files are printed too.
    """
    from kafkalog_cli.cli.dump_index_run import DumpIndexRun

    selection = selection_of(topic, partition, topic_pattern)
    limits = Limits(max_batch_bytes, max_output_bytes, max_ratio)
    return DumpIndexRun(context.environment, json=output.is_json).run(paths or [], selection, limits)


command = Command(dump_index, surroundings=shown_reading_into_files)
