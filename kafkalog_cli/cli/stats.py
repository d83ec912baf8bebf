"""`kafkalog stats`: the contents of logs in numbers."""

from typing import Annotated, NamedTuple

from typer import Argument, Context

from kafkalog_cli.cli.exit_codes import READ, exit_codes
from kafkalog_cli.cli.option_groups import OutputLimits, Topics
from kafkalog_cli.cli.options import (
    Format,
    Jobs,
    KeyFormatOption,
    OutputFormat,
    SchemasOption,
    default_jobs,
    output_option,
)
from kafkalog_cli.cli.run import Run
from kafkalog_cli.cli.session_groups import Spark, engine_of
from kafkalog_cli.errors import ExitCode
from kafkalog_cli.ops.decoding import Decoding
from kafkalog_cli.ops.engine import log_bytes
from kafkalog_cli.ops.stats import MeasuredPartition, measure_partitions, sums_of
from kafkalog_cli.output.stats_view import KeyWords, write_stats

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
    topics: Topics = Topics()
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
    run = Run(context, options.output_format)
    decoding = Decoding(options.key_format, None, options.schemas)
    decoding.check()
    engine = engine_of(run.environment, options.spark, options.jobs, as_json=run.as_json)
    chosen = run.select_served(options.paths, options.topics.selection)
    run.progress.begin("stats", sum(map(log_bytes, chosen)))
    measured = list(measure_partitions(
        run.fs, chosen, top=options.top, limits=options.limits.limits(),
        jobs=options.jobs or default_jobs(), on_read=run.progress.read, engine=engine,
    ))  # fmt: skip
    run.progress.erase()
    for one in measured:
        _report(run, one)
    measured.sort(key=lambda one: -one.contents.bytes)
    sums = [*sums_of(measured, options.top)]
    counts = {}
    if run.lines is not None:
        run.lines.results(sums)
        topics = sum(row.scope == "topic" for row in sums)
        counts = {"partitions": len(measured), "topics": topics, "records": sums[-1].contents.records}
    else:
        decoder = run.decoder_of(decoding, [one.partition.path for one in measured])
        names = {one.partition.topic for one in measured}
        keys = KeyWords(decoder, names.pop() if len(names) == 1 else "")
        write_stats(run.out, sums, options.top, keys, by_partition=options.partitions)
    return run.end(**counts)


def _report(run: Run, found: MeasuredPartition) -> None:
    for path, fault in found.damage:
        run.damage(found.partition, path, fault)
    if found.damage_count > len(found.damage):
        more = f"{found.damage_count - len(found.damage)} more places are damaged; `kafkalog verify` reports them"
        run.messages.tell("damage", more, path=found.partition.path)
    for path, error in found.not_read:
        run.not_read(path, error)
    run.codes.append(found.code)
