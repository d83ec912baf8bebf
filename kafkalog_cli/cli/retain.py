"""`kafkalog retain`: remove segments by log start, size and time, as a broker's retention does."""

from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kafkalog_cli.cli.environment import Environment, environment_of
from kafkalog_cli.cli.options import (
    AssumeOffline,
    BrokerConfigOption,
    ConfigOption,
    Delay,
    DryRun,
    Format,
    IoBytesPerS,
    Jobs,
    Keep,
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
from kafkalog_cli.errors import UsageError

if TYPE_CHECKING:
    from kafkalog_cli.cli.log_run import LogRunOptions

command = typer.Typer(add_completion=False)

ROOM_PANEL = "Room on a full disk"


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
    keep: Keep = False,
    free_bytes: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Unlink the oldest segments of all partitions, at once and for good, until so much is free.",
            rich_help_panel=ROOM_PANEL,
        ),
    ] = None,
    keep_bytes: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="With --free-bytes: leave so much of each log.", rich_help_panel=ROOM_PANEL),
    ] = None,
    keep_ms: Annotated[
        int,
        typer.Option(
            "--keep-ms",
            metavar="MS",
            min=0,
            help="With --free-bytes: leave what is younger.",
            rich_help_panel=ROOM_PANEL,
        ),
    ] = 0,
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
    """Remove whole segments from the start of logs: before the log's start, above retention.bytes, past retention.ms.

    Settings come from --config, the metadata log, --broker-config, and Kafka's defaults if all of these were read; a
    partition whose settings are not known is skipped. --config cleanup.policy never makes a compacted topic lose
    records, unless that topic alone is named. What goes is renamed to .deleted, and unlinked by a later run once
    file.delete.delay.ms has gone. With --free-bytes the limits do not count: the oldest go, never what is compacted,
    internal or active.
    """
    from kafkalog_cli.cli.log_run import LogRunOptions

    shared = LogRunOptions(
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
    )
    environment = environment_of(context)
    if free_bytes is not None:
        if explain or keep or delay is not None:
            raise UsageError(reason="--explain, --delay and --keep do not go with --free-bytes")
        return _free(environment, shared, paths or [], free_bytes, keep_bytes, keep_ms)
    if keep_bytes is not None or keep_ms:
        raise UsageError(reason="--keep-bytes and --keep-ms go with --free-bytes")
    from kafkalog_cli.cli.retain_run import RetainOptions, RetainRun

    options = RetainOptions(**_fields(shared), explain=explain, delay=delay, keep=keep)
    return RetainRun(environment, options).run(paths or [])


def _free(  # noqa: PLR0913, PLR0917
    environment: Environment,
    shared: "LogRunOptions",
    paths: list[str],
    free_bytes: str,
    keep_bytes: str | None,
    keep_ms: int,
) -> int:
    from kafkalog_cli.actions.size_spec import parse_size_bytes
    from kafkalog_cli.cli.free_run import FreeOptions, FreeRun

    options = FreeOptions(
        **_fields(shared),
        free_bytes=parse_size_bytes(free_bytes),
        keep_bytes=0 if keep_bytes is None else parse_size_bytes(keep_bytes),
        keep_ms=keep_ms,
    )
    return FreeRun(environment, options).run(paths)


def _fields(options: "LogRunOptions") -> dict[str, Any]:
    return {each.name: getattr(options, each.name) for each in fields(options)}
