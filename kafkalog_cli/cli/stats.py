"""`kafkalog stats`: the contents of logs in numbers."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

from typer import Argument, Context

from kafkalog_cli.cli.command_output import CommandOutput
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.exit_codes import READ, exit_codes
from kafkalog_cli.cli.groups import OutputLimits, ReadTopics
from kafkalog_cli.cli.options import (
    Format,
    Jobs,
    KeyFormatOption,
    OutputFormat,
    SchemasOption,
    default_jobs,
    output_option,
)
from kafkalog_cli.cli.session_groups import Spark, engine_of
from kafkalog_cli.cli.single_files import with_single_files
from kafkalog_cli.errors import ExitCode, combined_exit_code
from kafkalog_cli.ops.damage import is_torn_tail
from kafkalog_cli.ops.decoding import Decoding
from kafkalog_cli.ops.engine import log_bytes
from kafkalog_cli.ops.log_contents import LogContents, together
from kafkalog_cli.ops.selection import select_served
from kafkalog_cli.ops.session.observer import LockWarnings
from kafkalog_cli.ops.stats import MeasuredPartition, StatsRequest, measure_partitions
from kafkalog_cli.output.ndjson import JsonLines
from kafkalog_cli.output.progress import Progress
from kafkalog_cli.output.stats_view import STATS, KeyWords, StatsRow, stats_object, write_stats

if TYPE_CHECKING:
    from kafkalog_cli.format.values.decoder import ValueDecoder

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
    environment, paths = with_single_files(context.obj, options.paths)
    return StatsRun(environment, options._replace(paths=paths)).run()


class StatsRun:
    """Prints the contents of partitions, the largest first."""

    def __init__(self, environment: Environment, options: StatsOptions) -> None:
        self._environment = environment
        self._options = options
        self._as_json = options.output_format.is_json
        self._output = CommandOutput(environment, as_json=self._as_json)
        self._messages = self._output.messages

    def run(self) -> int:
        """Measure and print; return the exit code. Raises as `select_served`."""
        environment, options = self._environment, self._options
        Decoding(options.key_format, None, options.schemas).check()
        engine = engine_of(environment, options.spark, options.jobs, as_json=self._as_json)
        chosen = select_served(environment.fs, options.paths, options.topics.selection)
        LockWarnings(environment.fs, self._messages.report).about_partitions(*(one.path for one in chosen))
        request = StatsRequest(options.top, options.limits.limits())
        total_bytes = sum(map(log_bytes, chosen))
        with Progress(
            environment.stderr, "stats", as_json=self._as_json, total_bytes=total_bytes, clock=environment.clock
        ) as progress:
            found = measure_partitions(
                *(environment.fs, chosen, request),
                jobs=options.jobs or default_jobs(), on_read=progress.read, engine=engine,
            )  # fmt: skip
            measured = list(found)
        for one in measured:
            self._report(one)
        measured.sort(key=lambda one: -one.contents.bytes)
        counts = self._write_objects(self._output.lines, measured) if self._output.lines is not None else {}
        if self._output.lines is None:
            self._write_text(measured)
        return self._output.end(combined_exit_code([one.code for one in measured]), **counts)

    def _write_text(self, measured: Sequence[MeasuredPartition]) -> None:
        total = together([found.contents for found in measured], self._options.top)
        if self._options.partitions:
            rows = [StatsRow(found.partition.directory.name, found.contents) for found in measured]
        else:
            rows = [StatsRow(topic, contents, count) for topic, contents, count in self._topics(measured)]
        decoder = self._decoder([found.partition.path for found in measured])
        topics = {found.partition.topic for found in measured}
        words = KeyWords(decoder, topics.pop() if len(topics) == 1 else "")
        write_stats(self._output.out, rows, total, len(measured), self._options.top, words)

    def _decoder(self, paths: Sequence[str]) -> "ValueDecoder | None":
        from kafkalog_cli.cli.read_run import decoder_of

        decoding = Decoding(self._options.key_format, None, self._options.schemas)
        return decoder_of(decoding, self._environment.fs, paths, self._messages)

    def _topics(self, measured: Sequence[MeasuredPartition]) -> list[tuple[str, LogContents, int]]:
        """Return the topics with their contents and numbers of partitions, the largest first."""
        by_topic: dict[str, list[LogContents]] = {}
        for found in measured:
            by_topic.setdefault(found.partition.topic, []).append(found.contents)
        rows = [(topic, together(parts, self._options.top), len(parts)) for topic, parts in by_topic.items()]
        return sorted(rows, key=lambda row: -row[1].bytes)

    def _write_objects(self, lines: JsonLines, measured: Sequence[MeasuredPartition]) -> dict[str, int]:
        """Write the objects of partitions, topics and the total; return the counts of the summary."""
        top = self._options.top
        for found in measured:
            one = found.partition
            lines.object(STATS, stats_object(found.contents, 1, top, one.topic, one))
        topics = self._topics(measured)
        for topic, contents, count in topics:
            lines.object(STATS, stats_object(contents, count, top, topic))
        total = together([found.contents for found in measured], self._options.top)
        lines.object(STATS, stats_object(total, len(measured), top))
        return {"partitions": len(measured), "topics": len(topics), "records": total.records}

    def _report(self, found: MeasuredPartition) -> None:
        for path, fault in found.damage:
            is_torn = is_torn_tail(found.partition, path, fault)
            self._messages.damage(fault, path, fault.position, is_warning=is_torn)
        if found.damage_count > len(found.damage):
            more = f"{found.damage_count - len(found.damage)} more places are damaged; `kafkalog verify` reports them"
            self._messages.tell("damage", more, path=found.partition.path)
        for path, error in found.not_read:
            self._messages.not_read(path, error)
