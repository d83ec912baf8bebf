"""Options and arguments that several commands share, and the words that a shell completes for them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from enum import Enum
from functools import partial
from typing import Annotated, Any

from typer import Argument, Context, Option

from kafkalog_cli.errors import KafkalogError, UsageError
from kafkalog_cli.format.values.value_format import ValueFormat
from kafkalog_cli.ops.choices import Hashing, Isolation

MOST_LOG_BYTES = 32 << 20
"""A larger `__consumer_offsets` is not read for a completion: the shell waits for it."""


def complete_topics(ctx: Any, incomplete: str) -> list[str]:
    """Return the topics under the paths of the command line that begin with `incomplete`."""
    return sorted({topic for topic, _ in _partitions(ctx) if topic.startswith(incomplete)})


def complete_partitions(ctx: Any, incomplete: str) -> list[str]:
    """Return the partition numbers that begin with `incomplete`, of the topics that are typed, or of all topics."""
    topics = ctx.params.get("topic") or ()
    numbers = {number for topic, number in _partitions(ctx) if not topics or topic in topics}
    return [str(number) for number in sorted(numbers) if str(number).startswith(incomplete)]


def complete_groups(ctx: Any, incomplete: str) -> list[str]:
    """Return the ids of groups under the paths of the command line that begin with `incomplete`."""
    with suppress(KafkalogError, OSError):
        return sorted({group for group in _groups(_paths(ctx)) if group.startswith(incomplete) and group.isprintable()})
    return []


def _partitions(ctx: Any) -> set[tuple[str, int]]:
    """Return the topics and numbers of the partitions under the paths of the command line."""
    from kafkalog_cli.disk.fs import RealFilesystem
    from kafkalog_cli.disk.names import DirectoryKind
    from kafkalog_cli.ops.selection import expand, partition_paths

    fs, found = RealFilesystem(), set[tuple[str, int]]()
    with suppress(KafkalogError, OSError):
        for path in expand(fs, _paths(ctx)):
            for name in (one.directory for one in partition_paths(fs, path)):
                if name.kind is DirectoryKind.PARTITION and name.topic is not None and name.partition is not None:
                    found.add((name.topic, name.partition))
    return found


def _groups(paths: list[str]) -> Iterator[str]:
    from kafkalog_cli.disk.fs import RealFilesystem
    from kafkalog_cli.ops.cluster.coordinators import Copies
    from kafkalog_cli.ops.cluster.groups import GroupsRequest, consumer_offsets, describe_groups

    log_dirs = Copies(RealFilesystem(), paths)
    topic = consumer_offsets(log_dirs)
    copies = (log_dirs.best(topic.topic, number) for number in topic.numbers)
    if sum(segment.log.size_bytes for copy in copies if copy for segment in copy.segments) <= MOST_LOG_BYTES:
        yield from (described.group_id for described in describe_groups(log_dirs, GroupsRequest()))


def _paths(ctx: Any) -> list[str]:
    """Return the paths of an incomplete command line, which the parser leaves in `args`."""
    return [word for word in ctx.params.get("paths") or ctx.args if not word.startswith("-")]


# fmt: off
PathsArgument = Annotated[list[str] | None, Argument(metavar="PATH...",
    help="Files, partition directories, log directories, or globs of them.")]
PartitionPaths = Annotated[list[str] | None, Argument(metavar="PATH...",
    help="Partition directories, log directories, or globs of them.")]
LogDirPaths = Annotated[list[str], Argument(metavar="LOG_DIR...",
    help="Log directories, partition directories, or globs of them.", show_default=False)]
OnePartition = Annotated[str, Argument(metavar="PARTITION",
    help="A partition's directory; or a log directory, with --topic and --partition.")]

selection_option = partial(Option, rich_help_panel="Selection")
limits_option = partial(Option, rich_help_panel="Limits")
output_option = partial(Option, rich_help_panel="Output")
settings_option = partial(Option, rich_help_panel="Settings")
safety_option = partial(Option, rich_help_panel="Safety")
pace_option = partial(Option, rich_help_panel="Time and load")

SPANS_OF_DAYS = {
    *("delete.retention.ms", "local.retention.ms", "retention.ms", "segment.ms"),
    *("max.compaction.lag.ms", "min.compaction.lag.ms"),
}
"""Settings that are usually some days long."""

MOST_JOBS = 4
"""The most default jobs: each takes memory, and more do not make a disk faster; --jobs may ask for more."""

MaxBatchBytes = Annotated[int, limits_option(metavar="BYTES", min=1, envvar="KAFKALOG_MAX_BATCH_BYTES",
    help="Largest batch to load. A larger batch counts as damage.")]
MaxOutputBytes = Annotated[int, limits_option(metavar="BYTES", min=1, envvar="KAFKALOG_MAX_OUTPUT_BYTES",
    help="Largest size of a batch after decompression.")]
MaxRatio = Annotated[int, limits_option(metavar="N", min=1, envvar="KAFKALOG_MAX_RATIO",
    help="Largest compression ratio accepted, checked when a batch exceeds 1 MiB.")]


class Input(Enum):
    """The format of input records; NDJSON has two names."""

    NDJSON = "ndjson"
    JSON = "json"
    LINES = "lines"

    @property
    def is_json(self) -> bool:
        """Whether each line is a JSON object."""
        return self is not Input.LINES


HASH_NAMES = ", ".join(one.value for one in Hashing)
PartitionerOption = Annotated[Hashing, Option("--partitioner", metavar="NAME",
    help="Hash of the keys, which chooses among several partitions: murmur2_random as Kafka's producers, crc32"
    f" (consistent_random) as librdkafka's. One of {HASH_NAMES}.")]
isolation_option = partial(selection_option, "--isolation",
    help="read_committed leaves out aborted transactions, and ends at the first open transaction.")
IsolationOption = Annotated[Isolation, isolation_option(envvar="KAFKALOG_ISOLATION")]


class CodecName(Enum):
    """The compression of batches."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class OutputFormat(Enum):
    """The format of the results; NDJSON has two names."""

    TEXT = "text"
    JSON = "json"
    NDJSON = "ndjson"

    @property
    def is_json(self) -> bool:
        """Whether each line is a JSON object."""
        return self is not OutputFormat.TEXT


Format = Annotated[OutputFormat, output_option("--format", envvar="KAFKALOG_FORMAT",
    help="Format of the results. json (or ndjson): an object per line; errors on stderr are objects too.")]


_CONTENTS = (
    "auto (contents with a Schema Registry's framing), avro, protobuf, json, string, int, long, short, float, double,"
    " uuid, hex or base64."
)
KeyFormatOption = Annotated[ValueFormat | None, output_option("--key-format", metavar="FORMAT",
    help=f"Decode keys: {_CONTENTS} windowed-string, session-windowed-avro and the like are keys of Kafka Streams.")]
ValueFormatOption = Annotated[ValueFormat | None, output_option("--value-format", metavar="FORMAT",
    help=f"Decode values: {_CONTENTS}")]
SchemasOption = Annotated[str | None, output_option("--schemas", metavar="DIR",
    help="Schemas of keys and values: a log directory with _schemas-0, that partition's directory, or files ID.avsc,"
    " SUBJECT.proto or IMPORT.proto. Default: _schemas-0 beside the partitions.")]

TopicOption = Annotated[list[str] | None, selection_option("--topic", metavar="TOPIC",
    help="Take only this topic; may be repeated.", autocompletion=complete_topics)]
PartitionOption = Annotated[list[int] | None, selection_option("--partition", metavar="N",
    help="Take only the partition with this number; may be repeated.", autocompletion=complete_partitions)]
TopicPatternOption = Annotated[str | None, selection_option("--topic-pattern", metavar="REGEX",
    help="Take only topics whose whole name matches.")]
FromOffset = Annotated[int | None, selection_option(metavar="OFFSET", help="First offset.")]
StartOffset = Annotated[str, selection_option("--from", metavar="OFFSET",
    help="First offset: a number, earliest or latest.")]
ToOffset = Annotated[int | None, selection_option(metavar="OFFSET", help="End before this offset.")]
TIME_HELP = "epoch ms, ISO 8601 (no zone: UTC), or -90s, -15m, -2h, -7d before now"
FromTime = Annotated[str | None, selection_option(metavar="TIME",
    help=f"Begin with the first record at or after this time: {TIME_HELP}.")]
Since = Annotated[str | None, selection_option(metavar="TIME", help=f"Begin at this time: {TIME_HELP}.")]
Until = Annotated[str | None, selection_option(metavar="TIME", help="End before this time.")]
Now = Annotated[str | None, settings_option(metavar="TIME", help="Use this as the current time.")]

# fmt: on


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


# fmt: off
ConfigOption = Annotated[list[str] | None, settings_option("--config", metavar="NAME=VALUE", callback=_warn_of_seconds,
    help="Topic setting, stronger than any other source; may be repeated.")]
_broker_config = partial(settings_option, "--broker-config", metavar="FILE",
    help="The broker's server.properties, for its log.* settings. The metadata log is stronger.")
BrokerConfigOption = Annotated[str | None, _broker_config(envvar="KAFKALOG_BROKER_CONFIG")]
WriterBrokerConfig = Annotated[str | None, _broker_config()]
_metadata = partial(settings_option, "--metadata", metavar="DIR",
    help="The metadata log __cluster_metadata-0, or the directory that holds it. Default: beside the partitions.")
MetadataOption = Annotated[str | None, _metadata(envvar="KAFKALOG_METADATA")]
WriterMetadata = Annotated[str | None, _metadata()]
"""As the two options of readers. No variable has a path from which a command that changes logs takes settings."""

DryRun = Annotated[bool, Option("--dry-run", help="Print the planned changes, and change nothing.")]
Wait = Annotated[float, safety_option(metavar="SECONDS", min=0, envvar="KAFKALOG_WAIT",
    help="Wait up to SECONDS for a lock.")]
AssumeOffline = Annotated[bool, safety_option("--assume-offline",
    help="Continue on a disk without working locks, if no broker is seen for 11 s.")]
IfOffline = Annotated[bool, safety_option("--if-offline",
    help="Do nothing in log directories on which a broker is running, print nothing, and end with 0.")]
SingleReplica = Annotated[bool, safety_option("--single-replica",
    help="Confirm that other replicas of the partition, if there are any, may diverge.")]
Verbose = Annotated[bool, output_option("--verbose", "-v", envvar="KAFKALOG_VERBOSE",
    help="Print more: each setting, each planned change, each removed file.")]
Quiet = Annotated[bool, output_option("--quiet", envvar="KAFKALOG_QUIET",
    help="Print nothing for partitions without a change.")]
Metrics = Annotated[str | None, output_option("--metrics", metavar="FILE",
    help="Write Prometheus metrics of the run, for node_exporter's textfile collector. A dry run writes none.")]
Delay = Annotated[str | None, safety_option(metavar="DURATION",
    help="Keep removed files as .deleted for this time (0s, 90s, 15m, 2h, 7d). Default: file.delete.delay.ms.")]
Keep = Annotated[bool, safety_option("--keep",
    help="Keep removed files for undo until purge, even if a broker starts.")]
Jobs = Annotated[int, pace_option("--jobs", metavar="N", min=0, envvar="KAFKALOG_JOBS",
    help=f"Work on N partitions at a time. 0: one per core, at most {MOST_JOBS}.")]
TimeBudget = Annotated[str | None, pace_option(metavar="DURATION", envvar="KAFKALOG_TIME_BUDGET",
    help="Start no partition after this time (90, 90s, 15m, 2h). The exit code is 130 if any was not started.")]
IoBytesPerS = Annotated[str | None, pace_option(metavar="SIZE", envvar="KAFKALOG_IO_BYTES_PER_S",
    help="Read and write at most SIZE per second, in all partitions together (50MiB, 100MB, 1e6).")]

# fmt: on


def default_jobs() -> int:
    """Return the default number of partitions at a time: one per core, at most MOST_JOBS."""
    return max(1, min(os.cpu_count() or 1, MOST_JOBS))


def delay_ms_of(delay: str | None, *, keeps: bool) -> int | None:
    """Return the delay of --delay in ms; None without it. Raises UsageError, also with --keep, which has no delay."""
    if delay is not None and keeps:
        raise UsageError(reason="--delay cannot be combined with --keep: nothing is named .deleted")
    if delay is None:
        return None
    from kafkalog_cli.ops.option_values import parse_duration_ms

    return parse_duration_ms(delay)
