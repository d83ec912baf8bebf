"""`kafkalog export`: write the records of logs as Parquet, Arrow or NDJSON files."""

from enum import Enum
from typing import Annotated

import typer

from kafkalog_cli.cli.environment import environment_of
from kafkalog_cli.cli.options import (
    OUTPUT_PANEL,
    SELECTION_PANEL,
    FromOffset,
    IsolationLevel,
    IsolationOption,
    Now,
    OutputFormat,
    PartitionOption,
    PartitionPaths,
    Quiet,
    Since,
    ToOffset,
    TopicOption,
    TopicPatternOption,
    Until,
    selection_of,
)
from kafkalog_cli.cli.spark_options import DEFAULT_MASTER, Conf, Master, spark_settings


class Files(Enum):
    """The file format; NDJSON has two names."""

    PARQUET = "parquet"
    ARROW = "arrow"
    JSON = "json"
    NDJSON = "ndjson"


class FileCodec(Enum):
    """The compression of the files."""

    NONE = "none"
    SNAPPY = "snappy"
    GZIP = "gzip"
    LZ4 = "lz4"
    ZSTD = "zstd"


class Damage(Enum):
    """How unreadable records are handled."""

    FAILFAST = "failfast"
    DROPMALFORMED = "dropmalformed"


command = typer.Typer(add_completion=False)


@command.command("export")
def export(  # noqa: PLR0913, PLR0917 options
    context: typer.Context,
    paths: PartitionPaths = None,
    output: Annotated[str | None, typer.Option(metavar="DIR", rich_help_panel=OUTPUT_PANEL,
        help="Where the files go: topic=NAME/PARTITION-OFFSET.parquet.")] = None,
    file_format: Annotated[Files, typer.Option("--format", rich_help_panel=OUTPUT_PANEL,
        help="Parquet, Arrow IPC files, or NDJSON as read prints it, which append takes.")] = Files.PARQUET,
    codec: Annotated[FileCodec | None, typer.Option(rich_help_panel=OUTPUT_PANEL,
        help="How Parquet (default: snappy) and Arrow files (none; lz4, zstd) are packed.")] = None,
    by_day: Annotated[bool, typer.Option("--by-day", rich_help_panel=OUTPUT_PANEL,
        help="A directory for each day (UTC) of the records' timestamps: topic=NAME/day=YYYY-MM-DD.")] = False,
    state: Annotated[str | None, typer.Option(metavar="FILE", rich_help_panel=OUTPUT_PANEL,
        help="Export what came since the last run with this file, exactly once; it is made by the first.")] = None,
    mode: Annotated[Damage, typer.Option(rich_help_panel=SELECTION_PANEL,
        help="At damage: export nothing at all, or leave out what cannot be read and say so (exit code 3, 4).",
        )] = Damage.FAILFAST,
    isolation: IsolationOption = IsolationLevel.READ_UNCOMMITTED,
    include_control: Annotated[bool, typer.Option("--include-control", rich_help_panel=SELECTION_PANEL,
        help="The markers of transactions too.")] = False,
    topic: TopicOption = None,
    partition: PartitionOption = None,
    topic_pattern: TopicPatternOption = None,
    from_offset: FromOffset = None,
    to_offset: ToOffset = None,
    since: Since = None,
    until: Until = None,
    now: Now = None,
    master: Master = DEFAULT_MASTER,
    conf: Conf = None,
    quiet: Quiet = False,
    report: Annotated[OutputFormat, typer.Option(rich_help_panel=OUTPUT_PANEL,
        help="What is printed: text, or NDJSON (json), an object for each file and one for all, the last; then errors"
        " and progress are objects too, on stderr.")] = OutputFormat.TEXT,
) -> int:  # fmt: skip
    """Write the records of logs as Parquet, Arrow or NDJSON files, by tasks of Spark.

    The files have all that a record is; within one, records are in the order of offsets. They are seen when the whole
    export is done: one that fails, or is killed, leaves nothing that is seen, and the next one removes the rest. With
    --state each run takes what is new up to the last whole batch; the state is committed together with the files.

    Nothing is locked or changed in a log directory. Needs the extra `spark`.
    """
    from kafkalog_cli.cli.export_run import ExportOptions, ExportRun

    options = ExportOptions(
        selection_of(topic, partition, topic_pattern), output,
        (Files.JSON if file_format is Files.NDJSON else file_format).value,
        None if codec is None else codec.value, by_day, state, mode.value, isolation.value, include_control,
        from_offset, to_offset, since, until, now, master, spark_settings(conf), quiet,
        report.is_json,
    )  # fmt: skip
    return ExportRun(environment_of(context), options).run(paths or [])
