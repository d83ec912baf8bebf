"""`kafkalog delete-records`: let a log start later."""

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
    Keep,
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


@command.command("delete-records")
def delete_records(  # noqa: PLR0913, PLR0917 options
    context: typer.Context,
    path: OnePartition,
    before: Annotated[
        int,
        typer.Option(
            "--before",
            metavar="OFFSET",
            min=-1,
            help="The new start of the log; -1: the high watermark.",
        ),
    ],
    topic: TopicOption = None,
    partition: PartitionOption = None,
    single_replica: SingleReplica = False,
    delay: Delay = None,
    keep: Keep = False,
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
    """Move the start of a partition's log forward, as kafka-delete-records does: nobody is given earlier records.

    Whole segments below the new start are renamed to .deleted. Records that share a segment with later ones stay on
    the disk until that segment goes.
    """
    from kafkalog_cli.cli.delete_records_run import DeleteRecordsOptions, DeleteRecordsRun

    options = DeleteRecordsOptions(
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
        before_offset=before,
        delay=delay,
        keep=keep,
    )
    run = DeleteRecordsRun(environment_of(context), options)
    return run.run_on(run.one(path))
