"""`kafkalog retain`: remove segments by log start, size and time, as a broker's retention does."""

from __future__ import annotations

from typing import Annotated

import typer

from kafkalog_cli.cli.environment import environment_of
from kafkalog_cli.cli.options import (
    AssumeOffline,
    BrokerConfigOption,
    ConfigOption,
    Delay,
    DryRun,
    Format,
    IoRate,
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


@command.command("retain")
def retain(  # noqa: PLR0913, PLR0917 options
    context: typer.Context,
    paths: PartitionPaths = None,
    topic: TopicOption = None,
    topic_pattern: TopicPatternOption = None,
    partition: PartitionOption = None,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Say of each segment why it stays or goes, and when it would go."),
    ] = False,
    delay: Delay = None,
    config: ConfigOption = None,
    broker_config: BrokerConfigOption = None,
    metadata: MetadataOption = None,
    now: Now = None,
    dry_run: DryRun = False,
    wait: Wait = 0,
    assume_offline: AssumeOffline = False,
    jobs: Jobs = 0,
    time_budget: TimeBudget = None,
    io_rate: IoRate = None,
    metrics: Metrics = None,
    quiet: Quiet = False,
    output: Format = OutputFormat.TEXT,
) -> int:
    """Remove whole segments from the start of logs: before the log's start, above retention.bytes, past retention.ms.

    Only limits that somebody has set are followed: in --config, the metadata log, or --broker-config; never Kafka's
    defaults. What goes is renamed to .deleted, and unlinked by a later run once file.delete.delay.ms has gone.
    """
    from kafkalog_cli.cli.retain_run import RetainOptions, RetainRun

    options = RetainOptions(
        selection=selection_of(topic, partition, topic_pattern),
        now=now,
        quiet=quiet,
        json=output is OutputFormat.JSON,
        pace=pace_of(jobs, time_budget, io_rate),
        dry_run=dry_run,
        wait_seconds=wait,
        assume_offline=assume_offline,
        config=config or (),
        broker_config=broker_config,
        metadata=metadata,
        metrics=metrics,
        explain=explain,
        delay=delay,
    )
    return RetainRun(environment_of(context), options).run(paths or [])
