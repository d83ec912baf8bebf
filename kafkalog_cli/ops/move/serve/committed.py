"""The committed offsets of groups: on the disk, and committed while serving; OffsetCommit and OffsetFetch."""

from collections.abc import Callable
from threading import Lock, Thread
from typing import NamedTuple

from kafkalog_cli.errors import ExitCode, KafkalogError, Refused
from kafkalog_cli.format.fault import unreadable
from kafkalog_cli.format.internal_topics.records import CONSUMER_OFFSETS
from kafkalog_cli.format.internal_topics.schema import Message
from kafkalog_cli.format.protocol.errors import ApiError
from kafkalog_cli.ops.call.observer import Note
from kafkalog_cli.ops.cluster.coordinators import CoordinatorTopic, Copies
from kafkalog_cli.ops.cluster.tables.coordinator_log import CommittedOffset, committed_offsets
from kafkalog_cli.ops.move.serve.broker import Broker, Request, by_topic, of_each_partition
from kafkalog_cli.ops.move.serve.epochs import NO_EPOCH, NO_OFFSET
from kafkalog_cli.ops.move.serve.groups import NO_GENERATION

MOST_METADATA_BYTES = 4096
"""The largest metadata of a commit (offset.metadata.max.bytes)."""
_MOST_OFFSETS = 1_000_000


class OffsetKey(NamedTuple):
    """A group id, a topic and a partition."""

    group: str
    topic: str
    partition: int


class Commit(NamedTuple):
    """A committed offset. `time_ms` is when it was committed, in epoch ms."""

    offset: int
    leader_epoch: int
    metadata: str
    time_ms: int


class CommittedStore:
    """Offsets by group, topic and partition. The offsets on the disk are loaded in another thread.

    A commit while serving is in memory only, and there is none before the offsets are loaded. `decoding` is held while
    records are decoded.
    """

    def __init__(self, log_dirs: Copies, report: Callable[[Note], None], decoding: Lock) -> None:
        self._log_dirs = log_dirs
        self._report = report
        self._decoding = decoding
        self._offsets: dict[OffsetKey, Commit] = {}
        self._on_disk = 0
        self._changing = Lock()
        self.loading = Thread(target=self._load, name="kafkalog-load-offsets", daemon=True)

    @property
    def is_loading(self) -> bool:
        """Whether the offsets on the disk are not all known yet."""
        return self.loading.is_alive()

    def wait(self, seconds: float) -> bool:
        """Wait until the offsets are loaded; return whether they are."""
        self.loading.join(seconds)
        return not self.is_loading

    def of_group(self, group_id: str) -> dict[tuple[str, int], Commit]:
        """Return the offsets of a group by topic and partition."""
        with self._changing:
            found = self._offsets.items()
            return {(topic, number): one for (group, topic, number), one in found if group == group_id}

    def groups(self) -> set[str]:
        """Return the ids of the groups that have offsets."""
        with self._changing:
            return {key.group for key in self._offsets}

    def commit(self, commits: dict[OffsetKey, Commit]) -> None:
        """Commit offsets. Raises Refused for too many offsets: none of them is committed then."""
        with self._changing:
            new = sum(key not in self._offsets for key in commits)
            if len(self._offsets) + new - self._on_disk > _MOST_OFFSETS:
                raise Refused(path=CONSUMER_OFFSETS, reason=f"more than {_MOST_OFFSETS} offsets were committed")
            self._offsets |= commits

    def _load(self) -> None:
        try:
            topic = CoordinatorTopic(self._log_dirs, CONSUMER_OFFSETS)
            for number in topic.numbers:
                with self._decoding:
                    _, offsets = topic.load(number, committed_offsets)
                with self._changing:
                    self._offsets |= dict(map(_commit_on_disk, offsets))
                    self._on_disk = len(self._offsets)
        except (KafkalogError, OSError) as error:
            message = f"committed offsets are incomplete: {unreadable(error).message}"
            self._report(Note("unreadable", message, CONSUMER_OFFSETS, is_error=True, exit_code=ExitCode.PARTIAL))
        for note in self._log_dirs.take_notes():
            self._report(note)


def _commit_on_disk(found: CommittedOffset) -> tuple[OffsetKey, Commit]:
    epoch = NO_EPOCH if found.leader_epoch is None else found.leader_epoch
    time_ms = -1 if found.commit_timestamp is None else found.commit_timestamp
    key = OffsetKey(found.group_id, found.topic, found.partition)
    return key, Commit(found.offset, epoch, found.metadata, time_ms)


_SEVERAL_GROUPS = 8
"""The first version of OffsetFetch that names several groups."""


def commit(broker: Broker, request: Request) -> Message:
    """Commit offsets."""
    body = request.body
    group_id = body["groupId"]
    epoch, member_id = body.get("generationIdOrMemberEpoch", NO_GENERATION), body.get("memberId", "")
    refused = broker.consumer_groups.may_commit(group_id, epoch, member_id)
    if refused is None:
        refused = broker.groups.may_commit(group_id, epoch, member_id, body.get("groupInstanceId"))
    if broker.committed.is_loading:
        refused = ApiError.COORDINATOR_LOAD_IN_PROGRESS
    if not group_id:
        refused = ApiError.INVALID_GROUP_ID
    taken: dict[OffsetKey, Commit] = {}
    errors: dict[OffsetKey, ApiError] = {}
    for topic in body["topics"]:
        for one in topic["partitions"]:
            key = OffsetKey(group_id, topic["name"], one["partitionIndex"])
            metadata = one["committedMetadata"] or ""
            errors[key] = refused if refused is not ApiError.NONE else _commit_error(broker, key, metadata)
            if errors[key] is ApiError.NONE:
                epoch, time_ms = one.get("committedLeaderEpoch", NO_EPOCH), one.get("commitTimestamp", -1)
                time_ms = broker.now_ms() if time_ms < 0 else time_ms
                taken[key] = Commit(one["committedOffset"], epoch, metadata, time_ms)
    if taken:
        try:
            broker.committed.commit(taken)
        except Refused:  # as a broker whose log of commits is elsewhere: clients try again
            errors |= dict.fromkeys(taken, ApiError.NOT_COORDINATOR)
    return of_each_partition(
        request, "name", lambda topic, one: {
            "partitionIndex": one["partitionIndex"],
            "errorCode": errors[OffsetKey(group_id, topic, one["partitionIndex"])],
        }
    )  # fmt: skip


def _commit_error(broker: Broker, key: OffsetKey, metadata: str) -> ApiError:
    topic = broker.catalog.topics.get(key[1])
    if topic is None or not 0 <= key[2] < topic.partition_count:
        return ApiError.UNKNOWN_TOPIC_OR_PARTITION
    is_large = len(metadata.encode("utf-8", "surrogatepass")) > MOST_METADATA_BYTES
    return ApiError.OFFSET_METADATA_TOO_LARGE if is_large else ApiError.NONE


def offset_fetch(broker: Broker, request: Request) -> Message:
    """Answer the offsets of groups."""
    body = request.body
    error = ApiError.COORDINATOR_LOAD_IN_PROGRESS if broker.committed.is_loading else ApiError.NONE
    if request.version < _SEVERAL_GROUPS:
        topics = _offsets(broker, body["groupId"], body["topics"], error)
        if request.version == 0:  # of clients that committed to ZooKeeper, which had no offset of -1
            for one in (one for topic in topics for one in topic["partitions"]):
                if one["committedOffset"] == NO_OFFSET:
                    one["errorCode"] = error or ApiError.UNKNOWN_TOPIC_OR_PARTITION
        return {"errorCode": error, "topics": topics}
    groups = [
        {
            "groupId": one["groupId"],
            "errorCode": error,
            "topics": _offsets(broker, one["groupId"], one["topics"], error),
        }
        for one in request.distinct("groups", "groupId")
    ]
    return {"groups": groups}


def _offsets(broker: Broker, group_id: str, asked: list[Message] | None, error: ApiError) -> list[Message]:
    """Return the offsets of the asked partitions; None asks for all. A partition without an offset has -1."""
    known = broker.committed.of_group(group_id) if error is ApiError.NONE else {}
    wanted = by_topic(known, "name", "partitionIndexes") if asked is None else asked
    return [
        {
            "name": one["name"],
            "partitions": [
                _committed(known.get((one["name"], number)), number, error) for number in one["partitionIndexes"]
            ],
        }
        for one in wanted
    ]


def _committed(found: Commit | None, number: int, error: ApiError) -> Message:
    if found is None:
        found = Commit(NO_OFFSET, NO_EPOCH, "", -1)
    return {
        "partitionIndex": number, "committedOffset": found.offset, "committedLeaderEpoch": found.leader_epoch,
        "metadata": found.metadata, "errorCode": error,
    }  # fmt: skip
