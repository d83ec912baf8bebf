"""`kafkalog recover`: repair partitions, or do to them what a broker would when it starts."""

from typing import Annotated

import typer

from kafkalog_cli.cli.environment import environment_of
from kafkalog_cli.cli.options import (
    AssumeOffline,
    BrokerConfigOption,
    ConfigOption,
    DryRun,
    Format,
    IoBytesPerS,
    Jobs,
    MetadataOption,
    Now,
    OutputFormat,
    PartitionOption,
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

RULES_PANEL = "Rules"


@command.command("recover")
def recover(  # noqa: PLR0913, PLR0917 options
    context: typer.Context,
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="PATH...", help="Partition directories, log directories, or globs of them."),
    ] = None,
    topic: TopicOption = None,
    topic_pattern: TopicPatternOption = None,
    partition: PartitionOption = None,
    like_broker: Annotated[
        bool,
        typer.Option(
            "--like-broker",
            help="Do what a broker does when it starts, the marker of a clean shutdown obeyed, and stops cleanly.",
            rich_help_panel=RULES_PANEL,
        ),
    ] = False,
    indexes_only: Annotated[
        bool,
        typer.Option(
            "--indexes-only", help="Make missing and wrong indexes anew, and nothing else.", rich_help_panel=RULES_PANEL
        ),
    ] = False,
    salvage: Annotated[
        str | None,
        typer.Option(
            metavar="OUT",
            help="Copy all valid batches, also those behind damage, into new partition directories in OUT.",
            rich_help_panel=RULES_PANEL,
        ),
    ] = None,
    since_recovery_point: Annotated[
        bool,
        typer.Option(
            "--since-recovery-point",
            help="Look only at segments from the recovery point on, as a broker does.",
            rich_help_panel=RULES_PANEL,
        ),
    ] = False,
    discard: Annotated[
        bool,
        typer.Option(
            "--discard", help="Do not keep what is cut off or taken away: no undo.", rich_help_panel=RULES_PANEL
        ),
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
    engine: EngineOption = EngineName.LOCAL,
    master: Master = DEFAULT_MASTER,
    conf: Conf = None,
    quiet: Quiet = False,
    output: Format = OutputFormat.TEXT,
) -> int:
    """Repair partitions: cut torn tails, finish or undo swaps, make anew what is missing or wrong.

    Checks every segment, whatever the marker of a clean shutdown says. A partition with valid batches behind damage
    is left as it is (exit code 14). What is cut off or taken away is kept for `kafkalog undo`.

    Where the disk gives errors nothing is cut that was not read; --salvage reads around them. Ctrl-C and SIGTERM end
    the run when the partitions that are being changed are done; what was not begun is named (exit code 130).
    """
    from kafkalog_cli.cli.recover_run import RecoverOptions, RecoverRun
    from kafkalog_cli.cli.salvage_run import SalvageRun

    if not paths:
        raise UsageError(reason="recover needs a PATH; see kafkalog recover --help")
    if sum((like_broker, indexes_only, salvage is not None)) > 1:
        raise UsageError(reason="--like-broker, --indexes-only and --salvage exclude each other")
    if since_recovery_point and (like_broker or salvage is not None):
        raise UsageError(reason="--since-recovery-point goes with plain recovery and --indexes-only")
    if salvage is not None and (dry_run or discard):
        raise UsageError(reason="--salvage changes nothing: --dry-run and --discard do not go with it")
    if salvage is not None and engine is EngineName.SPARK:
        raise UsageError(reason="--salvage goes with --engine local")
    options = RecoverOptions(
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
        like_broker=like_broker,
        indexes_only=indexes_only,
        since_recovery_point=since_recovery_point,
        discard=discard,
        config=config or (),
        broker_config=broker_config,
        metadata=metadata,
    )
    environment = environment_of(context)
    run = RecoverRun(environment, options) if salvage is None else SalvageRun(environment, options, salvage)
    return run.run(paths)
