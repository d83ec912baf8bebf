"""The options that several commands have, alone or in groups.

A group is a named tuple: a command has it as one parameter, and `commands.py` makes an option of each of its fields.
Dataclasses take several times as long to create, at every start of a command.
"""

import os
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from typer import Argument, Context, Option

from kafkalog_cli.cli.completion import complete_partitions, complete_topics
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.errors import UsageError
from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits
from kafkalog_cli.format.values.value_format import ValueFormat
from kafkalog_cli.ops.choices import Hashing, Isolation

if TYPE_CHECKING:
    from kafkalog_cli.ops.decoding import Decoding
    from kafkalog_cli.ops.keys import WantedKey
    from kafkalog_cli.ops.look.read.request import Start
    from kafkalog_cli.ops.ranges import Range
    from kafkalog_cli.ops.selection import Selection

# fmt: off
selection_option = partial(Option, rich_help_panel="Selection")
limits_option = partial(Option, rich_help_panel="Limits")
output_option = partial(Option, rich_help_panel="Output")
settings_option = partial(Option, rich_help_panel="Settings")
safety_option = partial(Option, rich_help_panel="Safety")
pace_option = partial(Option, rich_help_panel="Time and load")
spark_option = partial(Option, rich_help_panel="Spark")

# -- paths and selection

PathsArgument = Annotated[list[str], Argument(metavar="PATH...", show_default=False,
    help="Files, partition directories, log directories, or globs of them.")]
PartitionPaths = Annotated[list[str], Argument(metavar="PATH...", show_default=False,
    help="Partition directories, log directories, or globs of them.")]
LogDirPaths = Annotated[list[str], Argument(metavar="LOG_DIR...",
    help="Log directories, partition directories, or globs of them.", show_default=False)]
OnePartition = Annotated[str, Argument(metavar="PARTITION",
    help="A partition's directory; or a log directory, with --topic and --partition.")]

TopicOption = Annotated[list[str] | None, selection_option("--topic", metavar="TOPIC",
    help="Take only this topic; may be repeated.", autocompletion=complete_topics)]
PartitionOption = Annotated[list[int] | None, selection_option("--partition", metavar="N",
    help="Take only the partition with this number; may be repeated.", autocompletion=complete_partitions)]
TopicPatternOption = Annotated[str | None, selection_option("--topic-pattern", metavar="REGEX",
    help="Take only topics whose whole name matches.")]


class Topics(NamedTuple):
    """The selected topics and partitions."""

    topic: TopicOption = None
    topic_pattern: TopicPatternOption = None
    partition: PartitionOption = None

    @property
    def selection(self) -> "Selection":
        """The selection. Raises UsageError."""
        from kafkalog_cli.ops.selection import selection_of

        return selection_of(self.topic, self.partition, self.topic_pattern)


class OneTopic(NamedTuple):
    """The selection for a command on one partition, or on the partitions of one topic."""

    topic: TopicOption = None
    partition: PartitionOption = None

    @property
    def selection(self) -> "Selection":
        """The selection."""
        return Topics(self.topic, None, self.partition).selection


TIME_HELP = "epoch ms, ISO 8601 (no zone: UTC), or -90s, -15m, -2h, -7d before now"
Now = Annotated[str | None, settings_option(metavar="TIME", help="Use this as the current time.")]
ToOffset = Annotated[int | None, selection_option(metavar="OFFSET", help="End before this offset.")]
Until = Annotated[str | None, selection_option(metavar="TIME", help="End before this time.")]


class WantedRange(NamedTuple):
    """The range of records: offsets or times."""

    from_offset: Annotated[int | None, selection_option(metavar="OFFSET", help="First offset.")] = None
    to_offset: ToOffset = None
    since: Annotated[str | None, selection_option(metavar="TIME", help=f"Begin at this time: {TIME_HELP}.")] = None
    until: Until = None

    def wanted(self, environment: Environment, now: str | None, key: "WantedKey | None" = None) -> "Range | None":
        """Return the range, also of a key; None without any of them. `now` is that of --now. Raises UsageError."""
        if key is None and not any(value is not None for value in self):
            return None
        from kafkalog_cli.ops.ranges import Range

        since_ms, until_ms = (environment.time_ms(text, now) for text in (self.since, self.until))
        return Range(self.from_offset, self.to_offset, since_ms, until_ms, key)


class RangeOptions(NamedTuple):
    """The first record, and the end before which the last one is: offsets or times."""

    start: Annotated[str, selection_option("--from", metavar="OFFSET",
        help="First offset: a number, earliest or latest.")] = "earliest"
    from_time: Annotated[str | None, selection_option(metavar="TIME",
        help=f"Begin with the first record at or after this time: {TIME_HELP}.")] = None
    to_offset: ToOffset = None
    until: Until = None

    def bounds(
        self, environment: Environment, now: str | None, command: str
    ) -> "tuple[int | Start, int | None, int | None, int | None]":
        """Return the values in the order of ReadRequest, times in ms; `now` is that of --now. Raises UsageError."""
        start = self._first_offset()
        if self.from_time is not None and self.start != "earliest":
            raise UsageError(reason=f"{command} takes one of --from and --from-time")
        from_ms, until_ms = (environment.time_ms(text, now) for text in (self.from_time, self.until))
        return start, from_ms, self.to_offset, until_ms

    def _first_offset(self) -> "int | Start":
        from kafkalog_cli.ops.look.read.request import Start

        if self.start in (Start.EARLIEST.value, Start.LATEST.value):
            return Start(self.start)
        try:
            return int(self.start)
        except ValueError as error:
            raise UsageError(reason=f"--from {self.start}: an offset, earliest or latest") from error


isolation_option = partial(selection_option, "--isolation",
    help="read_committed leaves out aborted transactions, and ends at the first open transaction.")
IsolationOption = Annotated[Isolation, isolation_option(envvar="KAFKALOG_ISOLATION")]

HASH_NAMES = ", ".join(hashing.value for hashing in Hashing)
PartitionerOption = Annotated[Hashing, Option("--partitioner", metavar="NAME",
    help="Hash of the keys, which chooses among several partitions: murmur2_random as Kafka's producers, crc32"
    f" (consistent_random) as librdkafka's. One of {HASH_NAMES}.")]

# -- contents and their limits

MaxOutputBytes = Annotated[int, limits_option(metavar="BYTES", min=1, envvar="KAFKALOG_MAX_OUTPUT_BYTES",
    help="Largest size of a batch after decompression.")]
MaxRatio = Annotated[int, limits_option(metavar="N", min=1, envvar="KAFKALOG_MAX_RATIO",
    help="Largest compression ratio accepted, checked when a batch exceeds 1 MiB.")]


class DecodingLimits(NamedTuple):
    """The largest batches that are read, and how much larger they may become."""

    max_batch_bytes: Annotated[int, limits_option(metavar="BYTES", min=1, envvar="KAFKALOG_MAX_BATCH_BYTES",
        help="Largest batch to load. A larger batch counts as damage.")] = DEFAULT_LIMITS.max_batch_bytes
    max_output_bytes: MaxOutputBytes = DEFAULT_LIMITS.max_output_bytes
    max_ratio: MaxRatio = DEFAULT_LIMITS.max_ratio

    @property
    def limits(self) -> Limits:
        """The limits as the readers take them."""
        return Limits(*self)


class OutputLimits(NamedTuple):
    """How much larger batches may become."""

    max_output_bytes: MaxOutputBytes = DEFAULT_LIMITS.max_output_bytes
    max_ratio: MaxRatio = DEFAULT_LIMITS.max_ratio

    def limits(self, max_batch_bytes: int = DEFAULT_LIMITS.max_batch_bytes) -> Limits:
        """Return the limits as the readers take them."""
        return Limits(max_batch_bytes, *self)


CodecName = Literal["none", "gzip", "snappy", "lz4", "zstd"]

_FORMATS = (
    "auto (contents with a Schema Registry's framing), avro, protobuf, json, string, int, long, short, float, double,"
    " uuid, hex or base64."
)
KeyFormatOption = Annotated[ValueFormat | None, output_option("--key-format", metavar="FORMAT",
    help=f"Decode keys: {_FORMATS} windowed-string, session-windowed-avro and the like are keys of Kafka Streams.")]
SchemasOption = Annotated[str | None, output_option("--schemas", metavar="DIR",
    help="Schemas of keys and values: a log directory with _schemas-0, that partition's directory, or files ID.avsc,"
    " SUBJECT.proto or IMPORT.proto. Default: _schemas-0 beside the partitions.")]


class Contents(NamedTuple):
    """How keys and values are decoded."""

    key_format: KeyFormatOption = None
    value_format: Annotated[ValueFormat | None, output_option("--value-format", metavar="FORMAT",
        help=f"Decode values: {_FORMATS}")] = None
    schemas: SchemasOption = None

    @property
    def decoding(self) -> "Decoding":
        """The decoding as the readers take it."""
        from kafkalog_cli.ops.decoding import Decoding

        return Decoding(*self)


# -- output

OutputFormat = Literal["text", "json", "ndjson"]  # NDJSON has two names
Format = Annotated[OutputFormat, output_option("--format", envvar="KAFKALOG_FORMAT",
    help="Format of the results. json (or ndjson): an object per line; errors on stderr are objects too.")]


class Printing(NamedTuple):
    """How results are printed."""

    verbose: Annotated[bool, output_option("--verbose", "-v", envvar="KAFKALOG_VERBOSE",
        help="Print more: each setting, each planned change, each removed file.")] = False
    quiet: Annotated[bool, output_option("--quiet", envvar="KAFKALOG_QUIET",
        help="Print nothing for partitions without a change.")] = False
    output: Format = "text"


Metrics = Annotated[str | None, output_option("--metrics", metavar="FILE",
    help="Write Prometheus metrics of the run, for node_exporter's textfile collector. A dry run writes none.")]

# -- settings of topics and brokers

SPANS_OF_DAYS = {
    *("delete.retention.ms", "local.retention.ms", "retention.ms", "segment.ms"),
    *("max.compaction.lag.ms", "min.compaction.lag.ms"),
}
"""Settings that are usually some days long."""


def _warn_of_seconds(ctx: Context, settings: list[str] | None) -> list[str] | None:
    """Warn of each time span that seems to be in seconds: Kafka's unit is milliseconds."""
    from kafkalog_cli.ops.option_values import days_in_seconds

    for setting in settings or ():
        name, _, text = setting.partition("=")
        days = days_in_seconds(text) if name in SPANS_OF_DAYS else None
        if days is None:
            continue
        ctx.obj.messages.warn(
            "time-unit",
            f"--config {setting} is taken as milliseconds, which are {int(text) / 60_000:.1f} minutes. {text} seconds"
            f" are exactly {days} day{'' if days == 1 else 's'}: if they are meant, write --config {name}={text}000",
        )
    return settings


ConfigOption = Annotated[list[str] | None, settings_option("--config", metavar="NAME=VALUE", callback=_warn_of_seconds,
    help="Topic setting, stronger than any other source; may be repeated.")]
_broker_config = partial(settings_option, "--broker-config", metavar="FILE",
    help="The broker's server.properties, for its log.* settings. The metadata log is stronger.")
BrokerConfigOption = Annotated[str | None, _broker_config(envvar="KAFKALOG_BROKER_CONFIG")]
_metadata = partial(settings_option, "--metadata", metavar="DIR",
    help="The metadata log __cluster_metadata-0, or the directory that holds it. Default: beside the partitions.")
MetadataOption = Annotated[str | None, _metadata(envvar="KAFKALOG_METADATA")]


class SettingSources(NamedTuple):
    """The sources of topic and broker settings."""

    config: ConfigOption = None
    broker_config: BrokerConfigOption = None
    metadata: MetadataOption = None


class WriterSettings(NamedTuple):
    """The same of a command that changes logs. No variable has a path from which it takes settings."""

    config: ConfigOption = None
    broker_config: Annotated[str | None, _broker_config()] = None
    metadata: Annotated[str | None, _metadata()] = None


# -- changes of logs

DryRun = Annotated[bool, Option("--dry-run", help="Print the planned changes, and change nothing.")]
IfOffline = Annotated[bool, safety_option("--if-offline",
    help="Do nothing in log directories on which a broker is running, print nothing, and end with 0.")]
SingleReplica = Annotated[bool, safety_option("--single-replica",
    help="Confirm that other replicas of the partition, if there are any, may diverge.")]


class Safety(NamedTuple):
    """The clock, dry runs and locks."""

    now: Now = None
    dry_run: DryRun = False
    wait: Annotated[float, safety_option(metavar="SECONDS", min=0, envvar="KAFKALOG_WAIT",
        help="Wait up to SECONDS for a lock.")] = 0
    assume_offline: Annotated[bool, safety_option("--assume-offline",
        help="Continue on a disk without working locks, if no broker is seen for 11 s.")] = False


Delay = Annotated[str | None, safety_option(metavar="DURATION",
    help="Keep removed files as .deleted for this time (0s, 90s, 15m, 2h, 7d). Default: file.delete.delay.ms.")]
Keep = Annotated[bool, safety_option("--keep",
    help="Keep removed files for undo until purge, even if a broker starts.")]


def delay_ms_of(delay: str | None, *, keeps: bool) -> int | None:
    """Return the delay of --delay in ms; None without it. Raises UsageError, also with --keep, which has no delay."""
    if delay is not None and keeps:
        raise UsageError(reason="--delay cannot be combined with --keep: nothing is named .deleted")
    if delay is None:
        return None
    from kafkalog_cli.ops.option_values import parse_duration_ms

    return parse_duration_ms(delay)


# -- time and load

MOST_JOBS = 4
"""The most default jobs: each takes memory, and more do not make a disk faster; --jobs may ask for more."""

Jobs = Annotated[int, pace_option("--jobs", metavar="N", min=0, envvar="KAFKALOG_JOBS",
    help=f"Work on N partitions at a time. 0: one per core, at most {MOST_JOBS}.")]
TimeBudget = Annotated[str | None, pace_option(metavar="DURATION", envvar="KAFKALOG_TIME_BUDGET",
    help="Start no partition after this time (90, 90s, 15m, 2h). The exit code is 130 if any was not started.")]


class Pacing(NamedTuple):
    """What a timer needs: limits of time and load, and silence beside a broker."""

    jobs: Jobs = 0
    time_budget: TimeBudget = None
    io_bytes_per_s: Annotated[str | None, pace_option(metavar="SIZE", envvar="KAFKALOG_IO_BYTES_PER_S",
        help="Read and write at most SIZE per second, in all partitions together (50MiB, 100MB, 1e6).")] = None
    if_offline: IfOffline = False


def default_jobs() -> int:
    """Return the default number of partitions at a time: one per core, at most MOST_JOBS."""
    return max(1, min(os.cpu_count() or 1, MOST_JOBS))


DEFAULT_MASTER = "local[*]"
Master = Annotated[str, spark_option(metavar="URL",
    help="Place where Spark runs: local[N] for N threads here, spark://... for a cluster.")]
Conf = Annotated[list[str] | None, spark_option("--conf", metavar="NAME=VALUE",
    help="Setting of Spark; may be repeated.")]


class Spark(NamedTuple):
    """Whether tasks of Spark do the work."""

    engine: Annotated[Literal["local", "spark"], spark_option("--engine",
        help="local: threads and processes of this machine. spark: tasks of Spark.")] = "local"
    master: Master = DEFAULT_MASTER
    conf: Conf = None


class EachHost(NamedTuple):
    """Whether the disks of all hosts are read, and which must be there."""

    each_host: Annotated[bool, spark_option("--each-host",
        help="Read the disks of every host of the cluster: PATH is a path of each host.")] = False
    hosts: Annotated[int | None, spark_option("--hosts", metavar="N", min=1,
        help="Number of hosts that must have PATH. Default: those of all brokers in the metadata logs there.")] = None

    def check(self, spark: Spark, *paths: str | None) -> None:
        """Raise UsageError if options are missing, or one of the paths of each host is relative."""
        if not self.each_host:
            if self.hosts is not None:
                raise UsageError(reason="--hosts needs --each-host")
            return
        if spark.engine == "local":
            raise UsageError(reason="--each-host needs --engine spark, and --master with the address of its cluster")
        for path in paths:
            if path is not None and not path.startswith("/"):
                raise UsageError(reason=f"{path}: --each-host needs absolute paths, which each host has")

# fmt: on
