"""`kafkalog roll`: begin a new segment where a broker would at its next append."""

from typing import Annotated

import typer

from kafkalog_cli.cli.environment import environment_of
from kafkalog_cli.cli.options import (
    SAFETY_PANEL,
    AssumeOffline,
    BrokerConfigOption,
    ConfigOption,
    DryRun,
    Format,
    IoBytesPerS,
    Jobs,
    MetadataOption,
    Metrics,
    Now,
    OutputFormat,
    PartitionOption,
    PartitionPaths,
    Quiet,
    TimeBudget,
    TopicOption,
    TopicPatternOption,
    Wait,
    pace_of,
    selection_of,
)

command = typer.Typer(add_completion=False)


@command.command("roll")
def roll(  # noqa: PLR0913, PLR0917 options
    context: typer.Context,
    paths: PartitionPaths = None,
    topic: TopicOption = None,
    topic_pattern: TopicPatternOption = None,
    partition: PartitionOption = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Roll also where a broker would not yet.", rich_help_panel=SAFETY_PANEL),
    ] = False,
    config: ConfigOption = None,
    broker_config: BrokerConfigOption = None,
    metadata: MetadataOption = None,
    now: Now = None,
    dry_run: DryRun = False,
    wait: Wait = 0,
    assume_offline: AssumeOffline = False,
    jobs: Jobs = 0,
    time_budget: TimeBudget = None,
    io_bytes_per_s: IoBytesPerS = None,
    metrics: Metrics = None,
    quiet: Quiet = False,
    output: Format = OutputFormat.TEXT,
) -> int:
    """Begin a new segment where a broker would before it appends a small record that comes now.

    It does when the active segment has segment.bytes, when segment.ms has gone since the timestamps of its first
    batch, when an index is full, or when its offsets reach 2^31. An active segment without records is never rolled.
    """
    from kafkalog_cli.cli.roll_run import RollOptions, RollRun

    options = RollOptions(
        selection=selection_of(topic, partition, topic_pattern),
        now=now,
        quiet=quiet,
        json=output.is_json,
        pace=pace_of(jobs, time_budget, io_bytes_per_s),
        dry_run=dry_run,
        wait_seconds=wait,
        assume_offline=assume_offline,
        config=config or (),
        broker_config=broker_config,
        metadata=metadata,
        metrics=metrics,
        force=force,
    )
    return RollRun(environment_of(context), options).run(paths or [])
