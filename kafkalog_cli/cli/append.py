"""`kafkalog append`: put records behind a log's end."""

from enum import Enum
from typing import Annotated

import typer

from kafkalog_cli.cli.environment import environment_of
from kafkalog_cli.cli.options import (
    AssumeOffline,
    BrokerConfigOption,
    CodecName,
    ConfigOption,
    DryRun,
    Format,
    Input,
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

RECORDS_PANEL = "Records and batches"
PRODUCER_PANEL = "Producer"


class Ending(Enum):
    """How a transaction is left."""

    COMMIT = "commit"
    ABORT = "abort"
    OPEN = "open"


def _option(name: str, panel: str, text: str, metavar: str | None = None, least: int | None = None) -> object:
    return typer.Option(name, metavar=metavar, min=least, rich_help_panel=panel, help=text)


@command.command("append")
def append(  # noqa: PLR0913, PLR0917 options
    context: typer.Context,
    path: OnePartition,
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE...",
            help="Files with the records, '-' for standard input, which is the default; before them more partitions.",
        ),
    ] = None,
    input: Annotated[  # noqa: A002
        Input, _option("--input", RECORDS_PANEL, "NDJSON as dump-log prints it, or a record a line.")
    ] = Input.NDJSON,
    key_separator: Annotated[
        str | None, _option("--key-separator", RECORDS_PANEL, "Of lines: the key is what comes before it.", "TEXT")
    ] = None,
    codec: Annotated[
        CodecName,
        _option("--codec", RECORDS_PANEL, "How batches are packed, unless the topic's compression.type says."),
    ] = CodecName.NONE,
    level: Annotated[
        int | None, _option("--compression-level", RECORDS_PANEL, "The codec's level; Kafka's default without it.", "N")
    ] = None,
    batch_bytes: Annotated[
        int,
        _option(
            "--batch-bytes", RECORDS_PANEL, "Most bytes of a batch of several records, before packing.", "BYTES", 1
        ),
    ] = 16_384,
    leader_epoch: Annotated[
        int | None,
        _option(
            "--leader-epoch", RECORDS_PANEL, "The epoch of the leader that appends; the latest without it.", "N", 0
        ),
    ] = None,
    producer_id: Annotated[
        int | None, _option("--producer-id", PRODUCER_PANEL, "Of an idempotent or transactional producer.", "ID", 0)
    ] = None,
    producer_epoch: Annotated[int, _option("--producer-epoch", PRODUCER_PANEL, "Its epoch.", "N", 0)] = 0,
    first_sequence: Annotated[
        int | None,
        _option(
            "--first-sequence", PRODUCER_PANEL, "Of the first record; else it goes on with the last one's.", "N", 0
        ),
    ] = None,
    transaction: Annotated[
        Ending | None, _option("--transaction", PRODUCER_PANEL, "All records are one transaction, which is left so.")
    ] = None,
    topic_id: Annotated[
        str | None,
        _option(
            "--topic-id", RECORDS_PANEL, "Of a partition that is not there yet; else the metadata log tells.", "ID"
        ),
    ] = None,
    keep_offsets: Annotated[
        bool,
        typer.Option(
            "--keep-offsets",
            rich_help_panel=RECORDS_PANEL,
            help="Keep offsets, timestamp types and leader epochs of the records, as a follower does.",
        ),
    ] = False,
    skip_records: Annotated[
        list[str] | None,
        _option(
            "--skip-records",
            RECORDS_PANEL,
            "Leave out the first N records of the input, which an interrupted run has appended; with several"
            " partitions PARTITION:N for each of them. An interrupted run prints the command.",
            "[PARTITION:]N",
        ),
    ] = None,
    coordinator_epoch: Annotated[
        int, _option("--coordinator-epoch", PRODUCER_PANEL, "Of the coordinator whose marker ends it.", "N", 0)
    ] = 0,
    topic: TopicOption = None,
    partition: PartitionOption = None,
    single_replica: SingleReplica = False,
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
    """Append records to a partition as its leader would, with its offsets, segments, indexes, producers, transactions.

    A partition that is not there is made, where its log directory is. What dump-log and read print with --format json
    goes in: keys, values, headers and timestamps, with new offsets. A record that a broker would not take (too large,
    no key in a compacted topic, a time in the future) ends it, and nothing is appended. A crash leaves what was
    synced (flush.messages, flush.ms) and at worst a torn tail for `recover`.

    With several directories of a topic, or a log directory and --topic, a record goes where a producer of Kafka would
    send it: by its key (murmur2); without one to the partition that it names, if it is given, else to one for as long
    as a batch takes to fill, and then to the next. All is read before anything is appended; each partition has its own
    line, and undo.

    Ctrl-C or SIGTERM ends it between two batches with exit code 130. It then prints how many records of the input are
    appended, and the command that appends the others (--skip-records); standard input has to be sent again.
    """
    from kafkalog_cli.actions.append.skipping import parse_skipped
    from kafkalog_cli.actions.append.writing import Writing
    from kafkalog_cli.cli.append_inputs import paths_and_files
    from kafkalog_cli.cli.append_run import AppendOptions, AppendRun

    environment = environment_of(context)
    more_paths, records = paths_and_files(environment.fs, files or ())
    options = AppendOptions(
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
        files=records,
        more_paths=more_paths,
        is_ndjson=input.is_json,
        key_separator=key_separator,
        topic_id=topic_id,
        skipped=parse_skipped(skip_records or ()),
        writing=Writing(
            codec=codec.value,
            compression_level=level,
            batch_bytes=batch_bytes,
            leader_epoch=leader_epoch,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            first_sequence=first_sequence,
            transaction=None if transaction is None else transaction.value,
            coordinator_epoch=coordinator_epoch,
            keep_offsets=keep_offsets,
        ),
    )
    run = AppendRun(environment, options)
    return run.run_on(run.targets(path))
