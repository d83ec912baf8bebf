"""`kafkalog compact`: keep the last record of each key, as a broker's log cleaner does."""

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
    Input,
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
from kafkalog_cli.cli.spark_options import DEFAULT_MASTER, Conf, EngineName, EngineOption, Master, engine_of
from kafkalog_cli.errors import UsageError

command = typer.Typer(add_completion=False)


@command.command("compact")
def compact(  # noqa: PLR0913, PLR0917 options
    context: typer.Context,
    paths: PartitionPaths = None,
    topic: TopicOption = None,
    topic_pattern: TopicPatternOption = None,
    partition: PartitionOption = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Clean also what is not dirty enough, and what was cleaned, once more."),
    ] = False,
    passes: Annotated[
        str,
        typer.Option(
            metavar="N|until-stable",
            help="How often a log is gone through: once as in a broker's round, or again for what can go then.",
        ),
    ] = "1",
    estimate: Annotated[
        bool,
        typer.Option("--estimate", help="With --dry-run: read the logs, and say how many records would go."),
    ] = False,
    explain: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="With --dry-run: say of each record of a key why it stays or goes, and when."),
    ] = None,
    erase_keys: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Take out all records of these keys, at once and for good, prove it, and tell what still holds them.",
        ),
    ] = None,
    input: Annotated[  # noqa: A002
        Input,
        typer.Option(
            "--input", help="How FILE has the keys: of records in NDJSON as dump-log prints it, or a line each."
        ),
    ] = Input.NDJSON,
    memory: Annotated[
        str,
        typer.Option(
            metavar="SIZE",
            help="For the keys and marks of one partition; where they need more, the log is read several times.",
        ),
    ] = "128MiB",
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
    io_bytes_per_s: IoBytesPerS = None,
    engine: EngineOption = EngineName.LOCAL,
    master: Master = DEFAULT_MASTER,
    conf: Conf = None,
    metrics: Metrics = None,
    quiet: Quiet = False,
    output: Format = OutputFormat.TEXT,
) -> int:
    """Compact logs: of the records with the same key the last one stays, tombstones and aborted records go in time.

    Only topics whose cleanup.policy has compact are touched: by --config, the metadata log, or --broker-config. A log
    is cleaned if it is dirty enough (min.cleanable.dirty.ratio), the dirtiest first. What is replaced is renamed to
    .deleted, and unlinked by a later run once file.delete.delay.ms has gone; with --erase-keys at once.
    """
    from kafkalog_cli.actions.size_spec import parse_size_bytes
    from kafkalog_cli.cli.compact_run import CompactOptions, CompactRun

    if estimate and not dry_run:
        raise UsageError(reason="--estimate goes with --dry-run")
    if explain is not None and not dry_run:
        raise UsageError(reason="--explain goes with --dry-run")
    if erase_keys is not None and (delay is not None or explain is not None):
        raise UsageError(reason="--erase-keys goes neither with --delay, as nothing waits, nor with --explain")
    options = CompactOptions(
        selection=selection_of(topic, partition, topic_pattern),
        now=now,
        quiet=quiet,
        json=output.is_json,
        pace=pace_of(jobs, time_budget, io_bytes_per_s),
        engine=engine_of(
            engine, master, conf, jobs, changes=True, io_bytes_per_s=io_bytes_per_s, assume_offline=assume_offline
        ),
        dry_run=dry_run,
        wait_seconds=wait,
        assume_offline=assume_offline,
        config=config or (),
        broker_config=broker_config,
        metadata=metadata,
        metrics=metrics,
        force=force,
        estimate=estimate,
        passes=_passes(passes),
        explain=explain,
        erase_keys=erase_keys,
        is_ndjson=input.is_json,
        memory_bytes=parse_size_bytes(memory),
        delay=delay,
    )
    return CompactRun(environment_of(context), options).run(paths or [])


def _passes(text: str) -> int | None:
    if text == "until-stable":
        return None
    if not (text.isascii() and text.isdecimal() and int(text)):
        raise UsageError(reason=f"--passes {text}: a number from 1 on, or until-stable")
    return int(text)
