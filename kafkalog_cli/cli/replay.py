"""`kafkalog replay`: send the records of log directories to a cluster."""

from functools import partial
from typing import Annotated, NamedTuple

from typer import Context, Option

from kafkalog_cli.cli.command_output import CommandOutput
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.exit_codes import READ, exit_codes
from kafkalog_cli.cli.groups import RangeOptions, ReadTopics
from kafkalog_cli.cli.options import (
    HASH_NAMES,
    DryRun,
    Format,
    LogDirPaths,
    MetadataOption,
    Now,
    OutputFormat,
    isolation_option,
    pace_option,
)
from kafkalog_cli.disk.fs import read_all
from kafkalog_cli.errors import ClusterError, ExitCode, UsageError, combined_exit_code
from kafkalog_cli.format.java_text import parse_properties
from kafkalog_cli.format.limits import MOST_PROPERTIES_BYTES
from kafkalog_cli.ops.choices import Hashing, Isolation
from kafkalog_cli.ops.option_values import parse_size_bytes
from kafkalog_cli.ops.read.request import ReadRequest
from kafkalog_cli.ops.replay.kafka_cluster import KafkaCluster
from kafkalog_cli.ops.replay.plan import ReplayRequest
from kafkalog_cli.ops.replay.sending import Replay, ReplayedPartition
from kafkalog_cli.ops.session.observer import LockWarnings
from kafkalog_cli.output.progress import Progress
from kafkalog_cli.output.replay_view import OFFSET, PLANNED, REPLAYED, offset_line, plan_lines, replayed_line

EXAMPLES = (
    (
        "See what would be sent",
        "kafkalog replay /var/lib/kafka --to kafka:9092 --state replay.json --create --dry-run",
    ),
    (
        "Send all topics of two brokers' disks, create them, and move the offsets of groups",
        "kafkalog replay /var/lib/kafka /mnt/backup --to kafka:9092 --state replay.json --create --groups",
    ),
    (
        "Send the last two hours of a topic",
        "kafkalog replay /var/lib/kafka --to kafka:9092 --state new.json --topic orders --from-time -2h",
    ),
)
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
    topics: ReadTopics = ReadTopics()
    range: RangeOptions = RangeOptions()
    isolation: Annotated[Isolation, isolation_option()] = Isolation.READ_COMMITTED
    now: Now = None
    bytes_per_s: Annotated[str | None, pace_option("--bytes-per-s", metavar="SIZE",
        help="Most bytes of keys and values to send per second (50MiB, 100MB, 1e6).")] = None
    metadata: MetadataOption = None
    dry_run: DryRun = False
    output: Format = OutputFormat.TEXT
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
    return ReplayRun(context.obj, options).run()


class ReplayRun:
    """Sends the partitions, or prints the plan."""

    def __init__(self, environment: Environment, options: ReplayOptions) -> None:
        self._environment = environment
        self._options = options
        as_json = options.output.is_json
        self._progress = Progress(environment.stderr, "replay", as_json=as_json, clock=environment.clock)
        self._output = CommandOutput(environment, as_json=as_json, progress=self._progress)
        self._messages = self._output.messages
        self._codes: list[ExitCode] = []

    def run(self) -> int:
        """Replay, or print the plan; return the exit code. Raises as `Replay`, UsageError and ClusterError."""
        environment, options = self._environment, self._options
        request = _request(environment, options)
        cluster = KafkaCluster(options.to, _client_settings(environment, options.command_config))
        replay = Replay(environment.context, request, cluster, self._messages.report, self._progress.read)
        paths = (planned.copy.partition.path for planned in replay.plan.partitions)
        LockWarnings(environment.fs, self._messages.report).about_partitions(*paths)
        self._messages.report(*replay.notes)
        self._codes += replay.codes
        if options.dry_run:
            self._print_plan(replay)
            return self._end(partitions=len(replay.plan.partitions), topics=len(replay.plan.topics))
        self._progress.expect(sum(one.size_bytes for one in replay.plan.partitions))
        return self._send(replay)

    def _send(self, replay: Replay) -> int:
        sent = recognised = offsets = 0
        with self._progress:
            for one in replay.run():
                if isinstance(one, ReplayedPartition):
                    sent, recognised = sent + one.sent, recognised + one.recognised
                    self._codes.append(one.code)
                    if one.error is not None:
                        self._messages.exception(one.error)
                    self._output.show(REPLAYED, one, replayed_line)
                elif isinstance(one, ClusterError):
                    self._codes.append(one.exit_code)
                    self._messages.exception(one)
                    continue
                else:
                    offsets += 1
                    self._output.show(OFFSET, one, offset_line)
                self._output.out.flush()
        return self._end(partitions=len(replay.plan.partitions), sent=sent, recognised=recognised, offsets=offsets)

    def _print_plan(self, replay: Replay) -> None:
        if self._output.lines is None:
            for line in plan_lines(replay.plan, None if replay.groups is None else replay.groups.count):
                self._output.out.write(f"{line}\n")
        else:
            for one in replay.plan.partitions:
                self._output.lines.record(PLANNED, one)

    def _end(self, **counts: int) -> int:
        return self._output.end(combined_exit_code(self._codes), **counts)


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
