"""Plans a replay: the copies to send, the topics to create, and what the cluster would do to the records."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, NamedTuple

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.disk.names import is_topic_name
from kafkalog_cli.errors import Refused, UsageError
from kafkalog_cli.format.internal_topics.records import COORDINATOR_TOPICS
from kafkalog_cli.log.partition import Partition, log_bytes
from kafkalog_cli.ops.call.observer import Note
from kafkalog_cli.ops.choices import Hashing, Isolation
from kafkalog_cli.ops.cluster.coordinators import Copies
from kafkalog_cli.ops.look.lookup_time import lookup_time
from kafkalog_cli.ops.look.read.request import ReadRequest, Start, first_in_log
from kafkalog_cli.ops.move.replay.kafka_cluster import ClusterTopic, KafkaCluster
from kafkalog_cli.ops.move.replay.state import ReplayState, SentProgress, TargetProgress
from kafkalog_cli.ops.ownership import registered_topic
from kafkalog_cli.ops.selection import Selection
from kafkalog_cli.results import Count, Hidden, PathName, of, result

_APPEND_TIME = "LogAppendTime"
_COMMITTED = ReadRequest(isolation=Isolation.READ_COMMITTED)


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """The records to send.

    `read` has the range and the isolation. `renames` has the cluster's names of topics that get another name.
    `creates`: create topics that the cluster does not have. `with_groups`: commit the offsets of groups too.
    `bytes_per_second` limits the bytes of keys and values. `partitioner` chooses the partition in the cluster by the
    key; None: records keep their partition.
    """

    paths: Sequence[str]
    state_path: str
    selection: Selection = field(default=Selection())
    read: ReadRequest = _COMMITTED
    renames: Mapping[str, str] = field(default_factory=dict)
    creates: bool = False
    with_groups: bool = False
    metadata: str | None = None
    bytes_per_second: int | None = None
    partitioner: Hashing | None = None

    def identity(self, cluster_id: str | None) -> dict[str, Any]:
        """Return what all runs with one state must have in common."""
        read = self.read
        start = read.start.value if isinstance(read.start, Start) else read.start
        return {
            "cluster": cluster_id,
            "selection": self.selection.text,
            "range": [start, read.from_time_ms, read.to_offset, read.until_ms],
            "isolation": read.isolation.value,
            "renames": dict(sorted(self.renames.items())),
            "groups": self.with_groups,
            "partitioner": self.partitioner and self.partitioner.value,
        }


@result("kafkalog.planned-replay/1")
@dataclass(frozen=True, slots=True)
class PlannedPartition:
    """A partition that a replay would send.

    `progress` is that of the first record to send. `is_resumed`: an earlier run with the state has begun.
    """

    copy: Hidden[Partition]
    progress: Hidden[SentProgress]
    path: ClassVar[Annotated[PathName, "the copy"]] = of("copy.path")
    topic: ClassVar[PathName] = of("progress.topic")
    partition: ClassVar[Count] = of("progress.partition")
    target_topic: ClassVar[Annotated[PathName, "the topic in the cluster"]] = of("progress.target_topic")
    is_created: Annotated[bool, "whether the topic is to be created"]
    next_offset: ClassVar[Annotated[Count, "the first offset to send"]] = of("progress.next_offset")
    size_bytes: ClassVar[Annotated[Count, "of the log files"]] = of(lambda planned: log_bytes(planned.copy))
    records: ClassVar[Annotated[Count, "acknowledged in earlier runs with the state"]] = of("progress.records")
    target_end_offset: Annotated[
        Count | None,
        "the end of the partition in the cluster; null if it is to be created, or if --partitioner chooses partitions",
    ]
    is_resumed: Hidden[bool]


class PlannedTopic(NamedTuple):
    """A topic of the cluster. `settings` are those of a topic to create; `is_new`: the cluster does not have it yet."""

    name: str
    source: str
    partitions: int
    is_new: bool
    settings: Mapping[str, str]


class ReplayPlan(NamedTuple):
    """The work of a replay. `notes` are facts that the user should know before."""

    topics: list[PlannedTopic]
    partitions: list[PlannedPartition]
    notes: list[Note]


def plan_replay(
    log_dirs: Copies, request: ReplayRequest, cluster: KafkaCluster, state: ReplayState, now_ms: int
) -> ReplayPlan:
    """Plan a replay; nothing is changed.

    Raises NothingSelected; Refused for topics that the cluster does not have, or that have too few partitions;
    UsageError, ClusterError, and as `first_in_log`.
    """
    copies = _copies(log_dirs, request)
    plan = ReplayPlan([], [], [])
    for source in sorted({copy.topic for copy in copies}):
        of_topic = [copy for copy in copies if copy.topic == source]
        name = request.renames.get(source, source)
        known = cluster.topic(name)
        topic = _topic(log_dirs, request, source, known, of_topic)
        plan.topics.append(topic)
        settings = topic.settings if known is None else known.settings
        plan.notes.extend(_notes(topic, settings, is_known=log_dirs.metadata is not None))
        if request.partitioner is None:
            plan.notes.extend(_moved_keys(log_dirs, topic, of_topic))
        plan.notes.extend(_retention(log_dirs.fs, topic.name, settings, of_topic, now_ms))
        own = [copy.number for copy in of_topic]
        numbers = own if request.partitioner is None else range(topic.partitions)
        ends = {number: 0 if topic.is_new else cluster.end_offset(name, number) for number in numbers}
        for copy in of_topic:
            plan.partitions.append(_partition(log_dirs, request, copy, topic, ends, state))
    return plan


def _copies(log_dirs: Copies, request: ReplayRequest) -> list[Partition]:
    """Return the copies to send. Topics that brokers write themselves are left out."""
    if request.with_groups and request.partitioner is not None:
        reason = "the records after a committed offset of a partition are in several partitions then"
        raise UsageError(reason=f"--groups cannot be combined with --partitioner: {reason}")
    for old, new in request.renames.items():
        if not is_topic_name(new):
            raise UsageError(reason=f"--rename {old}={new}: {new} is not a valid name of a topic")
    internal = sorted(request.selection.topics.intersection(COORDINATOR_TOPICS))
    if internal:
        reason = f"only brokers write {internal[0]}. --groups commits the offsets of groups"
        raise UsageError(reason=reason)
    copies = [copy for copy in log_dirs.best_copies(request.selection) if copy.topic not in COORDINATOR_TOPICS]
    sources: dict[str, str] = {}
    for topic in {copy.topic for copy in copies}:
        other = sources.setdefault(request.renames.get(topic, topic), topic)
        if other != topic:
            names = " and ".join(sorted((other, topic)))
            raise UsageError(reason=f"--rename: {names} would become one topic; replay them with two commands")
    unknown = sorted(set(request.renames) - {copy.topic for copy in copies})
    if unknown:
        raise UsageError(reason=f"--rename {unknown[0]}={request.renames[unknown[0]]}: no topic {unknown[0]} is sent")
    return copies


def _topic(
    log_dirs: Copies, request: ReplayRequest, source: str, known: ClusterTopic | None, copies: Sequence[Partition]
) -> PlannedTopic:
    name = request.renames.get(source, source)
    needed = 1 + max(copy.number for copy in copies)
    metadata = log_dirs.metadata
    registered = None if metadata is None else metadata.topics.get(source)
    if known is not None:
        if known.partitions < needed and request.partitioner is None:
            command = f"kafka-topics --alter --topic {name} --partitions {needed}"
            reason = (
                f"it has {known.partitions} partitions in the cluster, and {needed} are needed: `{command}`, or"
                " --partitioner chooses among them by the keys"
            )
            raise Refused(path=name, reason=reason)
        return PlannedTopic(name, source, known.partitions, False, {})
    if not request.creates:
        raise Refused(path=name, reason="the cluster has no such topic; --create creates it")
    partitions = max(needed, len(registered.partitions) if registered is not None else 0)
    settings = {} if metadata is None else metadata.topic_settings(source)
    return PlannedTopic(name, source, partitions, True, dict(settings))


def _notes(topic: PlannedTopic, settings: Mapping[str, str], *, is_known: bool) -> Iterator[Note]:
    if settings.get("message.timestamp.type") == _APPEND_TIME:
        message = f"{topic.name} has message.timestamp.type={_APPEND_TIME}: the cluster replaces all timestamps"
        yield Note("timestamps", message)
    if topic.is_new and not is_known:
        message = f"{topic.name} is created with the cluster's settings: its own are unknown without a metadata log"
        yield Note("settings", message)


def _moved_keys(log_dirs: Copies, topic: PlannedTopic, copies: Sequence[Partition]) -> Iterator[Note]:
    """Yield a note if producers choose among another number of partitions in the cluster than they did here."""
    registered = registered_topic(log_dirs.metadata, topic.source)
    count = 1 + max(copy.number for copy in copies) if registered is None else len(registered.partitions)
    if topic.is_new or topic.partitions == count:
        return
    here = "the metadata log" if registered is not None else "the log directories"
    message = (
        f"{topic.name} has {topic.partitions} partitions in the cluster and {count} in {here}: records keep their"
        " partition, so that new records of a key may go to another partition than its records from here. With"
        f" --partitioner {Hashing.MURMUR2_RANDOM.value} (or the hash of the producers) they go where producers look"
    )
    yield Note("partitions", message)


def _retention(
    fs: Filesystem, topic: str, settings: Mapping[str, str], copies: Sequence[Partition], now_ms: int
) -> Iterator[Note]:
    """Yield a note if the cluster soon removes records, as they are older than its retention."""
    retention_ms = int(settings.get("retention.ms", -1))
    if retention_ms < 0 or "delete" not in settings.get("cleanup.policy", "delete"):
        return
    for copy in copies:
        offset = lookup_time(fs, copy, now_ms - retention_ms).offset
        if offset is None or offset > copy.bounds.start:
            message = (
                f"{topic} has retention.ms={retention_ms} ({retention_ms / 3_600_000:g} h): the cluster removes older"
                f" records, such as the first records of {copy.directory.name}"
            )
            yield Note("retention", message)
            return


def _partition(  # noqa: PLR0913, PLR0917
    log_dirs: Copies,
    request: ReplayRequest,
    copy: Partition,
    topic: PlannedTopic,
    ends: Mapping[int, int],
    state: ReplayState,
) -> PlannedPartition:
    """Plan a partition. `ends` has the ends of the cluster's partitions that records of the topic go to."""
    number = copy.number
    targets = ends if request.partitioner is not None else {number: ends[number]}
    end = None if topic.is_new or request.partitioner is not None else ends[number]
    known = state.partitions.get((topic.source, number))
    if known is not None:
        _check_targets(topic, known, targets, state)
        return PlannedPartition(copy, known, topic.is_new, end, True)
    first = first_in_log(log_dirs.fs, copy, request.read)
    if first is None:  # it has nothing of the range
        first = copy.bounds.end
    reached = {target: TargetProgress(first, end) for target, end in targets.items()}
    progress = SentProgress(topic.source, number, topic.name, first, reached)
    return PlannedPartition(copy, progress, topic.is_new, end, False)


def _check_targets(topic: PlannedTopic, known: SentProgress, targets: Mapping[int, int], state: ReplayState) -> None:
    """Raise Refused if the topic is another one than that of the state."""
    if known.targets.keys() != targets.keys():
        reason = (
            f"{topic.name} has {len(targets)} partitions in the cluster, and had {len(known.targets)} when the replay"
            " began: keys would go elsewhere. Replay into a new topic (--rename) with another --state"
        )
        raise Refused(path=state.path, reason=reason)
    for number, end in targets.items():
        reached = known.targets[number].target_offset
        if end < reached:
            reason = (
                f"{topic.name}-{number} ends at offset {end} in the cluster, and the state knows offset {reached}: the"
                " topic was deleted or truncated since then. Give another --state"
            )
            raise Refused(path=state.path, reason=reason)
