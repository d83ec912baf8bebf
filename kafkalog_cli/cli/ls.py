"""`kafkalog ls`: list log directories, partition directories and files."""

from typing import Annotated

import typer

from kafkalog_cli.cli.environment import environment_of
from kafkalog_cli.cli.options import (
    Format,
    OutputFormat,
    PartitionOption,
    PathsArgument,
    TopicOption,
    TopicPatternOption,
    selection_of,
)

command = typer.Typer(add_completion=False)


@command.command("ls")
def ls(  # noqa: PLR0913, PLR0917 options
    context: typer.Context,
    paths: PathsArgument = None,
    topic: TopicOption = None,
    topic_pattern: TopicPatternOption = None,
    partition: PartitionOption = None,
    segments: Annotated[bool, typer.Option("--segments", help="A row a segment, not a partition.")] = False,
    transactions: Annotated[
        bool,
        typer.Option(
            help="Look for open transactions; after an unclean stop this passes the batch headers behind the newest"
            " producer snapshot.",
        ),
    ] = True,
    output: Format = OutputFormat.TEXT,
) -> int:
    """List topics, partitions and segments: sizes, offsets, times, checkpoints, leftovers, how the broker stopped.

    Cheap: only names, small files and the first and last batch headers are read; no CRC is checked.
    """
    from kafkalog_cli.actions.selection import Selection
    from kafkalog_cli.cli.ls_run import LsRequest, LsRun

    selection = selection_of(topic, partition, topic_pattern) or Selection()
    request = LsRequest(selection, segments, transactions, output.is_json)
    return LsRun(environment_of(context), request).run(paths or [])
