"""`kafkalog stats`: the contents of logs in numbers."""

from typing import Annotated, NamedTuple

from typer import Argument, Context

from kafkalog_cli.cli.exit_codes import READ, exit_codes
from kafkalog_cli.cli.groups import OutputLimits, ReadTopics
from kafkalog_cli.cli.options import Format, Jobs, KeyFormatOption, OutputFormat, SchemasOption, output_option
from kafkalog_cli.cli.session_groups import Spark
from kafkalog_cli.cli.single_files import with_single_files
from kafkalog_cli.errors import ExitCode

EXAMPLES = (
    ("See what lies in each topic, the largest first", "kafkalog stats /var/lib/kafka"),
    ("Compare the partitions of a topic", "kafkalog stats /var/lib/kafka --topic orders --partitions"),
    (
        "Find the 20 largest records and most frequent keys",
        "kafkalog stats /var/lib/kafka --topic orders --top 20",
    ),
)
EXIT_CODES = READ | exit_codes(ExitCode.REFUSED)

_LARGEST_TOP = 1000


# fmt: off
class StatsOptions(NamedTuple):
    """The options of stats."""

    paths: Annotated[list[str], Argument(metavar="PATH...", show_default=False,
        help="Log directories, partition directories, segment files under any name (.gz and .zst too), or globs"
        " of them.")]
    topics: ReadTopics = ReadTopics()
    partitions: Annotated[bool, output_option("--partitions",
        help="Print a row per partition. JSON output always has both.")] = False
    top: Annotated[int, output_option("--top", metavar="N", min=1, max=_LARGEST_TOP, envvar="KAFKALOG_TOP",
        help="Print N of the largest records, of the most frequent keys, and of the producers.")] = 5
    key_format: KeyFormatOption = None
    schemas: SchemasOption = None
    output_format: Format = OutputFormat.TEXT
    jobs: Jobs = 0
    limits: OutputLimits = OutputLimits()
    spark: Spark = Spark()
# fmt: on


def stats(context: Context, options: StatsOptions) -> int:
    """Print sizes, codecs, keys, producers and times of logs.

    Each topic has a row, the largest first. All records are decoded. SIZE is the size of the log files. RAW is the
    size of keys and values after decompression. KEYS counts different keys per partition, exactly up to about
    260,000, and as an estimate above; the numbers of several partitions are added up. PRODUCERS counts different
    producer ids. DUPLICATES counts records whose key an earlier record of the partition has.
    TOMBSTONES counts records with a key and a null value. OVER TIME shows the records from the first to the last
    timestamp of all rows.

    With --key-format, the text output has the most frequent keys decoded.

    Batches with wrong CRCs are left out and reported. Directories of deleted, moved or stray partitions count only
    if their own path is given. Nothing is locked or changed.
    """
    from kafkalog_cli.cli.stats_run import StatsRun

    environment, paths = with_single_files(context.obj, options.paths)
    return StatsRun(environment, options._replace(paths=paths)).run()
