"""`kafkalog truncate`: cut a log at its end."""

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
    MetadataOption,
    Metrics,
    Now,
    OnePartition,
    OutputFormat,
    PartitionOption,
    Quiet,
    SingleReplica,
    TopicOption,
    Wait,
    selection_of,
)

command = typer.Typer(add_completion=False)


@command.command("truncate")
def truncate(  # noqa: PLR0913, PLR0917 options
    context: typer.Context,
    path: OnePartition,
    to: Annotated[int, typer.Option("--to", metavar="OFFSET", min=0, help="The first offset that is gone.")],
    topic: TopicOption = None,
    partition: PartitionOption = None,
    single_replica: SingleReplica = False,
    discard: Annotated[
        bool,
        typer.Option("--discard", help="Do not keep what goes: no undo.", rich_help_panel=SAFETY_PANEL),
    ] = False,
    config: ConfigOption = None,
    broker_config: BrokerConfigOption = None,
    metadata: MetadataOption = None,
    now: Now = None,
    dry_run: DryRun = False,
    wait: Wait = 0,
    assume_offline: AssumeOffline = False,
    metrics: Metrics = None,
    quiet: Quiet = False,
    output: Format = OutputFormat.TEXT,
) -> int:
    """Take away all records of a partition from an offset on, as a follower does that must give them up.

    A batch that the offset lies in goes whole, so that the log may end earlier. What goes is kept for `kafkalog
    undo`. The marker of a clean shutdown goes too: the next broker recovers every partition of the log directory.
    """
    from kafkalog_cli.cli.truncate_run import TruncateOptions, TruncateRun

    options = TruncateOptions(
        selection=selection_of(topic, partition, None),
        now=now,
        quiet=quiet,
        json=output.is_json,
        dry_run=dry_run,
        wait_seconds=wait,
        assume_offline=assume_offline,
        config=config or (),
        broker_config=broker_config,
        metadata=metadata,
        metrics=metrics,
        single_replica=single_replica,
        target_offset=to,
        discard=discard,
    )
    run = TruncateRun(environment_of(context), options)
    return run.run_on(run.one(path))
