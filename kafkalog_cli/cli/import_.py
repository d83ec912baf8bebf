"""`kafkalog import`: make new partitions of a log directory from the records of files."""

from typing import Annotated

import typer

from kafkalog_cli.cli.environment import environment_of
from kafkalog_cli.cli.options import (
    SAFETY_PANEL,
    AssumeOffline,
    BrokerConfigOption,
    CodecName,
    ConfigOption,
    DryRun,
    Format,
    MetadataOption,
    Now,
    OutputFormat,
    Quiet,
    SingleReplica,
    Wait,
)
from kafkalog_cli.cli.spark_options import DEFAULT_MASTER, Conf, Master, spark_settings

command = typer.Typer(add_completion=False)

PARTITIONS_PANEL = "Partitions and batches"


@command.command("import")
def import_(  # noqa: PLR0913, PLR0917 options
    context: typer.Context,
    inputs: Annotated[list[str], typer.Argument(metavar="INPUT...", show_default=False,
        help="Files that export wrote, other Parquet or Arrow files with a column key or value, NDJSON as read prints"
        " it; or directories of them.")],
    log_dir: Annotated[str, typer.Option("--log-dir", metavar="DIR", rich_help_panel=PARTITIONS_PANEL,
        show_default=False, help="The log directory in which the partitions are made.")],
    topic: Annotated[str | None, typer.Option(metavar="NAME", rich_help_panel=PARTITIONS_PANEL,
        help="The topic; else by the column topic, the directory topic=NAME, or what export noted.")] = None,
    topic_id: Annotated[list[str] | None, typer.Option("--topic-id", metavar="[TOPIC=]ID",
        rich_help_panel=PARTITIONS_PANEL,
        help="The id of a topic; else by the metadata log beside, or what export noted. May be repeated.")] = None,
    partitions: Annotated[int | None, typer.Option("--partitions", metavar="N", min=1,
        rich_help_panel=PARTITIONS_PANEL, help="Make N partitions of each topic, records by their keys (murmur2), with"
        " new offsets; else by the column partition, or what export noted.")] = None,
    new_offsets: Annotated[bool, typer.Option("--new-offsets", rich_help_panel=PARTITIONS_PANEL,
        help="Number the records from 0 on; else offsets of the input are kept, gaps too, if it has some.")] = False,
    codec: Annotated[CodecName | None, typer.Option(rich_help_panel=PARTITIONS_PANEL,
        help="How batches are packed, unless the topic's compression.type says; without it as the batch that a record"
        " comes from, where the input tells.")] = None,
    level: Annotated[int | None, typer.Option("--compression-level", metavar="N", rich_help_panel=PARTITIONS_PANEL,
        help="The codec's level; Kafka's default without it.")] = None,
    batch_bytes: Annotated[int, typer.Option("--batch-bytes", metavar="BYTES", min=1,
        rich_help_panel=PARTITIONS_PANEL, help="Most bytes of a batch of several records, before packing.")] = 16_384,
    prove: Annotated[bool, typer.Option("--prove", rich_help_panel=SAFETY_PANEL,
        help="Read back what was made, and compare each record with the input, before anything is seen.")] = False,
    replace_empty: Annotated[bool, typer.Option("--replace-empty", rich_help_panel=SAFETY_PANEL,
        help="Take the place of a partition that is there and never held a record, as a broker makes them.")] = False,
    single_replica: SingleReplica = False,
    config: ConfigOption = None,
    broker_config: BrokerConfigOption = None,
    metadata: MetadataOption = None,
    now: Now = None,
    dry_run: DryRun = False,
    wait: Wait = 0,
    assume_offline: AssumeOffline = False,
    master: Master = DEFAULT_MASTER,
    conf: Conf = None,
    quiet: Quiet = False,
    output: Format = OutputFormat.TEXT,
) -> int:  # fmt: skip
    """Make partitions that a broker loads, of the records in files, by tasks of Spark: the way back from export.

    Timestamps, keys, values and headers are kept as they are; batches are made anew. All partitions are seen at once,
    when the last one is built: an import that fails, or is killed, leaves nothing that is seen, and the next one
    removes the rest. A partition that is there already is refused. Records of transactions become plain ones, and
    control records are left out. Needs the extra `spark`.
    """
    from kafkalog_cli.actions.importing.request import ImportRequest, topic_ids
    from kafkalog_cli.cli.import_run import ImportOptions, ImportRun

    request = ImportRequest(
        topic, topic_ids(topic_id or ()), partitions, new_offsets, None if codec is None else codec.value, level,
        batch_bytes, prove, replace_empty, single_replica,
    )  # fmt: skip
    options = ImportOptions(
        log_dir, request, tuple(config or ()), broker_config, metadata, now, dry_run, wait, assume_offline, master,
        spark_settings(conf), quiet, output.is_json,
    )  # fmt: skip
    return ImportRun(environment_of(context), options).run(inputs)
