"""`kafkalog purge`: free the room that deleted files and old runs take."""

from typing import Annotated

import typer

from kafkalog_cli.cli.environment import environment_of
from kafkalog_cli.cli.options import (
    AssumeOffline,
    DryRun,
    Format,
    Jobs,
    Now,
    OutputFormat,
    PartitionOption,
    PathsArgument,
    Quiet,
    TimeBudget,
    TopicOption,
    TopicPatternOption,
    Wait,
    pace_of,
    selection_of,
)

command = typer.Typer(add_completion=False)


@command.command("purge")
def purge(  # noqa: PLR0913, PLR0917 options
    context: typer.Context,
    paths: PathsArgument = None,
    topic: TopicOption = None,
    topic_pattern: TopicPatternOption = None,
    partition: PartitionOption = None,
    older_than: Annotated[
        str, typer.Option(metavar="TIME", help="Remove runs that ended so long ago (90s, 15m, 2h, 7d): no undo then.")
    ] = "7d",
    now: Now = None,
    dry_run: DryRun = False,
    wait: Wait = 0,
    assume_offline: AssumeOffline = False,
    jobs: Jobs = 0,
    time_budget: TimeBudget = None,
    quiet: Quiet = False,
    output: Format = OutputFormat.TEXT,
) -> int:
    """Remove for good: files named .deleted that are due, what old runs keep for undo, what killed imports left.

    A file is due file.delete.delay.ms after the run that renamed it, or a minute after it was renamed if no run of
    kafkalog did; so is what an import left, unless one is at work. Runs that were cut off half way stay until they are
    undone, and partitions of an import that was committed until it is completed.
    """
    from kafkalog_cli.actions.time_spec import parse_duration_ms
    from kafkalog_cli.cli.partition_writer import WriterOptions
    from kafkalog_cli.cli.purge_run import PurgeRun

    options = WriterOptions(
        selection=selection_of(topic, partition, topic_pattern),
        now=now,
        quiet=quiet,
        json=output.is_json,
        pace=pace_of(jobs, time_budget, None),
        dry_run=dry_run,
        wait_seconds=wait,
        assume_offline=assume_offline,
    )
    return PurgeRun(environment_of(context), options, parse_duration_ms(older_than)).run(paths or [])
