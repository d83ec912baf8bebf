"""`kafkalog ls`: what lies in log directories, partition directories and files."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from kafkalog_cli.cli.environment import environment_of
from kafkalog_cli.cli.options import SELECTION_PANEL, Format, OutputFormat, PathsArgument
from kafkalog_cli.errors import UsageError

command = typer.Typer(add_completion=False)


@command.command("ls")
def ls(  # noqa: PLR0913, PLR0917 options
    context: typer.Context,
    paths: PathsArgument = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(metavar="TOPIC", help="Only this topic; may be repeated.", rich_help_panel=SELECTION_PANEL),
    ] = None,
    topic_pattern: Annotated[
        str | None,
        typer.Option(metavar="REGEX", help="Only topics that match as a whole.", rich_help_panel=SELECTION_PANEL),
    ] = None,
    partition: Annotated[
        list[int] | None,
        typer.Option(metavar="N", help="Only this partition; may be repeated.", rich_help_panel=SELECTION_PANEL),
    ] = None,
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

    Cheap: names, small files, and the first and last batch headers are read, and no CRC is checked. A partition
    in a log directory is listed with that directory's checkpoints, whichever of the two is given.
    """
    from kafkalog_cli.actions.selection import Selection
    from kafkalog_cli.cli.ls_run import LsRequest, LsRun

    try:
        pattern = None if topic_pattern is None else re.compile(topic_pattern)
    except re.error as error:
        raise UsageError(reason=f"--topic-pattern {topic_pattern}: {error}") from error
    selection = Selection(frozenset(topic or ()), frozenset(partition or ()), pattern)
    request = LsRequest(selection, segments, transactions, output is OutputFormat.JSON)
    return LsRun(environment_of(context), request).run(paths or [])
