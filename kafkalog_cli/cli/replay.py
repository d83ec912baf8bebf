"""`kafkalog replay`: send the records of log directories to a cluster."""

from collections.abc import Iterator
from functools import partial
from typing import Annotated, NamedTuple

from typer import Context, Option

from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.exit_codes import READ, exit_codes
from kafkalog_cli.cli.options import (
    HASH_NAMES,
    DryRun,
    Format,
    LogDirPaths,
    MetadataOption,
    Now,
    RangeOptions,
    Topics,
    isolation_option,
    pace_option,
)
from kafkalog_cli.cli.run import Run
from kafkalog_cli.disk.fs import read_all
from kafkalog_cli.errors import ClusterError, ExitCode, UsageError, counted
from kafkalog_cli.format.java_text import parse_properties
from kafkalog_cli.format.limits import MOST_PROPERTIES_BYTES
from kafkalog_cli.ops.choices import Hashing, Isolation
from kafkalog_cli.ops.look.read.request import ReadRequest
from kafkalog_cli.ops.move.replay.kafka_cluster import KafkaCluster
from kafkalog_cli.ops.move.replay.plan import ReplayPlan, ReplayRequest
from kafkalog_cli.ops.move.replay.sending import Replay, ReplayedOffset, ReplayedPartition
from kafkalog_cli.ops.move.replay.state import SentProgress
from kafkalog_cli.ops.option_values import parse_size_bytes
from kafkalog_cli.output.progress import sized
from kafkalog_cli.output.stream import printable

EXAMPLES = {
    "See what would be sent": ("kafkalog replay /var/lib/kafka --to kafka:9092 --state replay.json --create --dry-run"),
    "Send all topics of two brokers' disks, create them, and move the offsets of groups": (
        "kafkalog replay /var/lib/kafka /mnt/backup --to kafka:9092 --state replay.json --create --groups"
    ),
    "Send the last two hours of a topic": (
        "kafkalog replay /var/lib/kafka --to kafka:9092 --state new.json --topic orders --from-time -2h"
    ),
}
EXIT_CODES = READ | exit_codes(ExitCode.LOCKED, ExitCode.REFUSED)

_cluster_option = partial(Option, rich_help_panel="Cluster")


# fmt: off
class ReplayOptions(NamedTuple):
    """The options of replay."""

    paths: LogDirPaths
    to: Annotated[str, _cluster_option("--to", metavar="HOST:PORT,...",
        help="Brokers of the cluster (bootstrap.servers).", show_default=False)]
    state: Annotated[str, _cluster_option("--state", metavar="FILE",
        help="File with the acknowledged offsets. A run with the same file continues there.", show_default=False)]
    create: Annotated[bool, _cluster_option("--create",
        help="Create missing topics, with partitions and settings of the metadata log.")] = False
    rename: Annotated[list[str] | None, _cluster_option("--rename", metavar="OLD=NEW",
        help="Send topic OLD to the topic NEW; may be repeated.")] = None
    partitioner: Annotated[Hashing | None, _cluster_option("--partitioner", metavar="NAME",
        help="Send each record to the partition that its key has in the cluster's topic by this hash: murmur2_random as"
        " Kafka's producers, crc32 as librdkafka's. Without it, records keep their partition."
        f" One of {HASH_NAMES}.",
        show_default=False)] = None
    groups: Annotated[bool, _cluster_option("--groups",
        help="Commit the offsets of groups, translated. Offsets that a group has in the cluster stay.")] = False
    command_config: Annotated[str | None, _cluster_option("--command-config", metavar="FILE",
        help="Properties of the client in librdkafka's names, such as security.protocol.")] = None
    topics: Topics = Topics()
    range: RangeOptions = RangeOptions()
    isolation: Annotated[Isolation, isolation_option()] = Isolation.READ_COMMITTED
    now: Now = None
    bytes_per_s: Annotated[str | None, pace_option("--bytes-per-s", metavar="SIZE",
        help="Most bytes of keys and values to send per second (50MiB, 100MB, 1e6).")] = None
    metadata: MetadataOption = None
    dry_run: DryRun = False
    output: Format = "text"
# fmt: on


def replay(context: Context, options: ReplayOptions) -> int:
    """Send the records of log directories to a cluster.

    Keys, values, headers, timestamps, partitions and the order in a partition stay. Offsets do not. Transactions are
    resolved: only committed records are sent. Damaged batches are left out and reported, as by read.

    With --partitioner, a topic of the cluster may have another number of partitions. Each key goes to its partition
    there. Records without a key keep their partition.

    After an interruption or an error, the same command continues. Records that an interrupted run has sent are
    recognised in the cluster, and not sent again.

    Several log directories may have copies of a partition. The copy with the last leader epoch, and of these the
    longest, is sent. The log directories are only read.
    """
    run = Run(context, options.output)
    request = _request(run.environment, options)
    cluster = KafkaCluster(options.to, _client_settings(run.environment, options.command_config))
    replay = Replay(run.call_context, request, cluster, run.messages.report, run.progress.read)
    planned = replay.plan.partitions
    run.lock_warnings.about_partitions(*(partition.copy.path for partition in planned))
    run.messages.report(*replay.notes)
    run.codes += replay.codes
    if not options.dry_run:
        run.progress.expect(sum(partition.size_bytes for partition in planned))
        return _send(run, replay)
    if run.lines is None:
        run.write_lines(plan_lines(replay.plan, None if replay.groups is None else replay.groups.count))
    else:
        run.lines.results(planned)
    return run.end(partitions=len(planned), topics=len(replay.plan.topics))


def _send(run: Run, replay: Replay) -> int:
    sent = recognised = offsets = 0
    for result in replay.run():
        if isinstance(result, ClusterError):
            run.fail(result)
            continue
        if isinstance(result, ReplayedPartition):
            sent, recognised = sent + result.sent, recognised + result.recognised
            run.codes.append(result.code)
            if result.error is not None:
                run.messages.exception(result.error)
            run.show(result, replayed_line)
        else:
            offsets += 1
            run.show(result, offset_line)
        run.out.flush()
    return run.end(partitions=len(replay.plan.partitions), sent=sent, recognised=recognised, offsets=offsets)


def _request(environment: Environment, options: ReplayOptions) -> ReplayRequest:
    bounds = options.range.bounds(environment, options.now, "replay")
    read = ReadRequest(*bounds, isolation=options.isolation)
    renames = dict(map(_rename, options.rename or ()))
    return ReplayRequest(
        options.paths, options.state, options.topics.selection, read, renames,
        options.create, options.groups, options.metadata,
        None if options.bytes_per_s is None else parse_size_bytes(options.bytes_per_s), options.partitioner,
    )  # fmt: skip


def _rename(text: str) -> tuple[str, str]:
    old, equals, new = text.partition("=")
    if not equals:
        raise UsageError(reason=f"--rename {text}: OLD=NEW")
    return old, new


def _client_settings(environment: Environment, path: str | None) -> dict[str, str]:
    if path is None:
        return {}
    try:
        return parse_properties(read_all(environment.fs, path, MOST_PROPERTIES_BYTES))
    except ValueError as error:
        raise UsageError(reason=f"--command-config {path}: {error}") from error


def plan_lines(plan: ReplayPlan, offsets: int | None) -> Iterator[str]:
    """Return the lines of a plan. `offsets` is the number of committed offsets to move, None without --groups."""
    for topic in plan.topics:
        if topic.is_new:
            settings = ", ".join(f"{name}={value}" for name, value in sorted(topic.settings.items()))
            partitions = counted(topic.partitions, "partition")
            yield printable(f"create topic {topic.name}: {partitions}{settings and f', {settings}'}")
    for partition in plan.partitions:
        progress = partition.progress
        details = [f"from offset {progress.next_offset}", sized(partition.size_bytes)]
        if partition.is_resumed:
            details.append(f"{counted(progress.records, 'record')} acknowledged before")
        elif partition.target_end_offset:
            details.append(f"the cluster's partition ends at offset {partition.target_end_offset}")
        name = _target_name(progress)
        yield printable(f"send {partition.path} to {name}: {', '.join(details)}")
    if offsets is not None:
        yield f"then commit {counted(offsets, 'offset')} of groups"


def _target_name(progress: SentProgress) -> str:
    if progress.target_offset is None:
        return f"{counted(len(progress.targets), 'partition')} of {progress.target_topic}"
    return f"{progress.target_topic}-{progress.partition}"


def replayed_line(partition: ReplayedPartition) -> str:
    """Return the line of a partition that was sent."""
    progress = partition.progress
    details = [f"{counted(partition.sent, 'record')} sent"]
    if partition.recognised:
        details.append(f"{partition.recognised} more were in the cluster already")
    details.append(f"acknowledged up to offset {progress.next_offset}")
    if partition.error is not None:
        details.append("not complete")
    name = _target_name(progress)
    return printable(f"{partition.path} to {name}: {', '.join(details)}") + "\n"


def offset_line(committed: ReplayedOffset) -> str:
    """Return the line of a committed offset."""
    kept = (
        "" if committed.kept_offset is None else f"; the group has committed {committed.kept_offset} there, which stays"
    )
    group = f"group {committed.group_id}, {committed.target_topic}-{committed.partition}"
    return printable(f"{group}: offset {committed.offset} is {committed.target_offset} in the cluster{kept}") + "\n"
