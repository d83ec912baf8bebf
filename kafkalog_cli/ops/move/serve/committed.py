"""The committed offsets of groups: on the disk, and committed while serving; OffsetCommit and OffsetFetch."""

from collections.abc import Callable
from threading import Lock, Thread
from typing import NamedTuple

from kafkalog_cli.errors import ExitCode, KafkalogError
from kafkalog_cli.format.fault import unreadable
from kafkalog_cli.format.internal_topics import CONSUMER_OFFSETS
from kafkalog_cli.format.internal_topics.schema import Message
from kafkalog_cli.format.protocol.errors import ApiError
from kafkalog_cli.ops.call.observer import Note
from kafkalog_cli.ops.cluster.coordinators import CoordinatorTopic, Copies
from kafkalog_cli.ops.cluster.tables.coordinator_log import committed_offsets
from kafkalog_cli.ops.move.serve.broker import NO_EPOCH, NO_OFFSET, Broker, Request, by_topic, of_each_partition

MOST_METADATA_BYTES = 4096
"""The largest metadata of a commit (offset.metadata.max.bytes)."""
_MOST_OFFSETS = 1_000_000


class Commit(NamedTuple):
    """A committed offset."""

    offset: int
    leader_epoch: int
    metadata: str


class CommittedStore:
    """Offsets by group, topic and partition. The offsets on the disk are loaded in another thread.

    A commit while serving is in memory only, and there is none before the offsets are loaded. `decoding` is held while
    records are decoded.
    """

    def __init__(self, log_dirs: Copies, report: Callable[[Note], None], decoding: Lock) -> None:
        self._log_dirs = log_dirs
        self._report = report
        self._decoding = decoding
        self._groups: dict[str, dict[tuple[str, int], Commit]] = {}
        self._new_offsets = 0
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
            return dict(self._groups.get(group_id, {}))

    def groups(self) -> set[str]:
        """Return the ids of the groups that have offsets."""
        with self._changing:
            return set(self._groups)

    def commit(self, group_id: str, commits: dict[tuple[str, int], Commit]) -> bool:
        """Commit offsets; return False for too many offsets: none of them is committed then."""
        with self._changing:
            new = len(commits.keys() - self._groups.get(group_id, {}).keys())
            if self._new_offsets + new > _MOST_OFFSETS:
                return False
            self._new_offsets += new
            self._groups.setdefault(group_id, {}).update(commits)
            return True

    def _load(self) -> None:
        try:
            topic = CoordinatorTopic(self._log_dirs, CONSUMER_OFFSETS)
            for number in topic.numbers:
                with self._decoding:
                    _, offsets = topic.load(number, committed_offsets)
                with self._changing:
                    for offset in offsets:
                        epoch = NO_EPOCH if offset.leader_epoch is None else offset.leader_epoch
                        of_group = self._groups.setdefault(offset.group_id, {})
                        of_group[offset.topic, offset.partition] = Commit(offset.offset, epoch, offset.metadata)
        except (KafkalogError, OSError) as error:
            message = f"committed offsets are incomplete: {unreadable(error).message}"
            self._report(Note("unreadable", message, CONSUMER_OFFSETS, is_error=True, exit_code=ExitCode.PARTIAL))
        for note in self._log_dirs.take_notes():
            self._report(note)


_SEVERAL_GROUPS = 8
"""The first version of OffsetFetch that names several groups."""


def commit(broker: Broker, request: Request) -> Message:
    """Commit offsets."""
    body = request.body
    group_id = body["groupId"]
    refused = broker.consumer_groups.may_commit(body)
    if refused is None:
        refused = broker.groups.may_commit(body)
    if broker.committed.is_loading:
        refused = ApiError.COORDINATOR_LOAD_IN_PROGRESS
    if not group_id:
        refused = ApiError.INVALID_GROUP_ID
    accepted: dict[tuple[str, int], Commit] = {}
    errors: dict[tuple[str, int], ApiError] = {}
    for topic in body["topics"]:
        for requested in topic["partitions"]:
            partition, metadata = (topic["name"], requested["partitionIndex"]), requested["committedMetadata"] or ""
            errors[partition] = refused or _commit_error(broker, *partition, metadata)
            if not errors[partition]:
                epoch = requested.get("committedLeaderEpoch", NO_EPOCH)
                accepted[partition] = Commit(requested["committedOffset"], epoch, metadata)
    if accepted and not broker.committed.commit(group_id, accepted):
        # As a broker whose log of commits is elsewhere: clients try again.
        errors |= dict.fromkeys(accepted, ApiError.NOT_COORDINATOR)
    return of_each_partition(
        request, "name", lambda topic, requested: {
            "partitionIndex": requested["partitionIndex"], "errorCode": errors[topic, requested["partitionIndex"]],
        }
    )  # fmt: skip


def _commit_error(broker: Broker, topic: str, number: int, metadata: str) -> ApiError:
    served = broker.catalog.topics.get(topic)
    if served is None or not 0 <= number < served.partition_count:
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
            for partition in (partition for topic in topics for partition in topic["partitions"]):
                if partition["committedOffset"] == NO_OFFSET:
                    partition["errorCode"] = error or ApiError.UNKNOWN_TOPIC_OR_PARTITION
        return {"errorCode": error, "topics": topics}
    groups = [
        {
            "groupId": group["groupId"],
            "errorCode": error,
            "topics": _offsets(broker, group["groupId"], group["topics"], error),
        }
        for group in request.distinct("groups", "groupId")
    ]
    return {"groups": groups}


def _offsets(broker: Broker, group_id: str, requested: list[Message] | None, error: ApiError) -> list[Message]:
    """Return the offsets of the requested partitions, None for all. A partition without an offset has -1."""
    known = broker.committed.of_group(group_id) if error is ApiError.NONE else {}
    if requested is None:
        requested = by_topic(known, "name", "partitionIndexes")
    return [
        {
            "name": topic["name"],
            "partitions": [
                _committed(known.get((topic["name"], number)), number, error) for number in topic["partitionIndexes"]
            ],
        }
        for topic in requested
    ]


def _committed(commit: Commit | None, number: int, error: ApiError) -> Message:
    if commit is None:
        commit = Commit(NO_OFFSET, NO_EPOCH, "")
    return {
        "partitionIndex": number, "committedOffset": commit.offset, "committedLeaderEpoch": commit.leader_epoch,
        "metadata": commit.metadata, "errorCode": error,
    }  # fmt: skip
