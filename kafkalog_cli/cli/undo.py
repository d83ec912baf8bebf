"""`kafkalog undo`: take a run back, as if it had never been."""

from typing import Annotated

import typer

from kafkalog_cli.cli.environment import environment_of
from kafkalog_cli.cli.options import (
    AssumeOffline,
    DryRun,
    Format,
    Now,
    OutputFormat,
    PartitionOption,
    Quiet,
    TopicOption,
    TopicPatternOption,
    Wait,
    selection_of,
)

command = typer.Typer(add_completion=False)


@command.command("undo")
def undo(  # noqa: PLR0913, PLR0917 options
    context: typer.Context,
    path: Annotated[str, typer.Argument(metavar="PATH", help="A partition directory, or the log directory.")],
    run: Annotated[
        str,
        typer.Argument(metavar="RUN", help="The run, as the command that made it said at its end; ls lists them."),
    ] = "",
    topic: TopicOption = None,
    topic_pattern: TopicPatternOption = None,
    partition: PartitionOption = None,
    now: Now = None,
    dry_run: DryRun = False,
    wait: Wait = 0,
    assume_offline: AssumeOffline = False,
    quiet: Quiet = False,
    output: Format = OutputFormat.TEXT,
) -> int:
    """Put back what was there before a run: content, names, modes, owners, times, and lines of the checkpoints.

    Refused (exit code 14) if a partition is not what the run left, as after a broker has started on it. A run that was
    cut off half way is undone too, and so is an undo.
    """
    from kafkalog_cli.cli.partition_writer import WriterOptions
    from kafkalog_cli.cli.undo_run import UndoRun

    options = WriterOptions(
        selection=selection_of(topic, partition, topic_pattern),
        now=now,
        quiet=quiet,
        json=output.is_json,
        dry_run=dry_run,
        wait_seconds=wait,
        assume_offline=assume_offline,
    )
    return UndoRun(environment_of(context), options, run).run(path)
