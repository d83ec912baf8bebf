"""`kafkalog export`: write the records of logs as Parquet, Arrow or NDJSON files."""

from enum import Enum
from typing import Annotated, NamedTuple

from typer import Context

from kafkalog_cli.cli.exit_codes import CHANGE_DAMAGED
from kafkalog_cli.cli.groups import Contents, ReadTopics, WantedRange
from kafkalog_cli.cli.options import IsolationOption, Now, OutputFormat, PartitionPaths, output_option, selection_option
from kafkalog_cli.cli.session_groups import OnSpark
from kafkalog_cli.ops.choices import Isolation, OnDamage

EXAMPLES = (
    ("Write a topic as Parquet files", "kafkalog export /var/lib/kafka --topic orders --output lake"),
    (
        "Write new records each night, exactly once",
        "kafkalog export /var/lib/kafka --output lake --by-day --state lake.state",
    ),
    (
        "Write NDJSON, which append takes",
        "kafkalog export /var/lib/kafka/orders-0 --output lake --format json",
    ),
)
EXIT_CODES = CHANGE_DAMAGED


class Files(Enum):
    """The file format; NDJSON has two names."""

    PARQUET = "parquet"
    ARROW = "arrow"
    JSON = "json"
    NDJSON = "ndjson"

    @property
    def is_json(self) -> bool:
        """Whether the files are NDJSON."""
        return self in (Files.JSON, Files.NDJSON)


class FileCodec(Enum):
    """The compression of the files."""

    NONE = "none"
    SNAPPY = "snappy"
    GZIP = "gzip"
    LZ4 = "lz4"
    ZSTD = "zstd"


# fmt: off
class ExportOptions(NamedTuple):
    """The options of export."""

    paths: PartitionPaths = None
    output: Annotated[str | None, output_option(metavar="DIR",
        help="Directory for the files: topic=NAME/PARTITION-OFFSET.parquet.")] = None
    file_format: Annotated[Files, output_option("--format",
        help="Format of the files: Parquet, Arrow IPC, or NDJSON as read prints it and append takes"
        " it.")] = Files.PARQUET
    codec: Annotated[FileCodec | None, output_option(
        help="Compression of Parquet files (default: snappy) and Arrow files (default: none; lz4 and zstd).")] = None
    by_day: Annotated[bool, output_option("--by-day",
        help="Make a directory per day (UTC) of the timestamps: topic=NAME/day=YYYY-MM-DD.")] = False
    state: Annotated[str | None, output_option(metavar="FILE",
        help="Export only records since the last run with FILE, exactly once. The first run creates FILE.")] = None
    mode: Annotated[OnDamage, selection_option(
        help="At damage: export nothing, or leave out unreadable records and report them (exit code 3 or"
        " 4).")] = OnDamage.FAILFAST
    isolation: IsolationOption = Isolation.READ_UNCOMMITTED
    include_control: Annotated[bool, selection_option("--include-control",
        help="Include the markers of transactions.")] = False
    contents: Contents = Contents()
    topics: ReadTopics = ReadTopics()
    range: WantedRange = WantedRange()
    now: Now = None
    spark: OnSpark = OnSpark()
    quiet: Annotated[bool, output_option("--quiet", envvar="KAFKALOG_QUIET",
        help="Print nothing if no file was written.")] = False
    report: Annotated[OutputFormat, output_option(
        help="Format of the output: text, or NDJSON (json) with an object per file and a summary. Then errors and"
        " progress on stderr are objects too.")] = OutputFormat.TEXT
# fmt: on


def export(context: Context, options: ExportOptions) -> int:
    """Write records as Parquet, Arrow or NDJSON files.

    The files have all parts of the records, in the order of offsets. They become visible when the whole export is done:
    an export that fails or is killed leaves no visible file, and the next export removes the rest. With --state, each
    run exports new records up to the last whole batch, and commits the state together with the files.

    With --value-format or --key-format, Parquet and Arrow files have the columns value_json or key_json too: decoded
    contents as JSON text. Records of NDJSON have the member decoded. An import leaves both out.

    Tasks of Spark do the work, so it needs the extra `spark`. Nothing is locked or changed in a log directory.
    """
    from kafkalog_cli.cli.export_run import ExportRun

    return ExportRun(context.obj, options).run()
