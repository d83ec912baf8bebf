"""Groups of the new consumer protocol (KIP-848) in memory: the server assigns partitions, and members reconcile.

A heartbeat says what a member owns. It first revokes what the target assignment lacks, and then gets what others have
given up. Epochs and errors follow Kafka's GroupMetadataManager.
"""

import uuid
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import NamedTuple

from kafkalog_cli.format.internal_topics.schema import Message
from kafkalog_cli.format.protocol.errors import ApiError
from kafkalog_cli.ops.cluster.group_assignment import ranges_of, uniform_of
from kafkalog_cli.ops.move.serve.broker import by_topic
from kafkalog_cli.ops.move.serve.groups import NO_GENERATION, LiveState

HEARTBEAT_MS = 5_000
"""The interval in which members send heartbeats (group.consumer.heartbeat.interval.ms)."""
UNIFORM, RANGE = "uniform", "range"
ASSIGNORS = (UNIFORM, RANGE)
"""The assignors of the server. The first is that of a group whose members name none (group.consumer.assignors)."""
_SESSION_SECONDS = 45.0
_JOINING, _LEAVING, _AWAY = 0, -1, -2
"""Epochs of requests: to join, to leave, and of a static member that will come back."""
_NO_TIMEOUT = -1
_MOST_MEMBERS = 1000

TopicIdPartition = tuple[str, int]
"""A topic id and a partition."""
NO_PARTITIONS: frozenset[TopicIdPartition] = frozenset()
Topics = Callable[[str], tuple[str, Collection[int]] | None]
"""Returns the id and partitions of a topic by its name, None if it cannot be assigned."""


class TopicPattern(NamedTuple):
    """A regular expression, "" for none, and the topics whose names match."""

    text: str = ""
    topics: frozenset[str] = frozenset()


@dataclass(slots=True, eq=False)
class ConsumerMember:
    """A member, with its request to join. `assignor`, `topics` and `pattern` are as of its last heartbeat.

    `assigned` may be used, `revoking` is to be revoked by `revoke_by`. Times are seconds of the clock.
    """

    member_id: str
    joining: Message
    client_id: str
    client_host: str
    assignor: str | None
    topics: frozenset[str]
    pattern: TopicPattern
    deadline: float = 0.0
    epoch: int = 0
    previous_epoch: int = 0
    target: frozenset[TopicIdPartition] = NO_PARTITIONS
    assigned: frozenset[TopicIdPartition] = NO_PARTITIONS
    revoking: frozenset[TopicIdPartition] = NO_PARTITIONS
    revoke_by: float = 0.0

    @property
    def instance_id(self) -> str | None:
        """The instance id of a static member."""
        return self.joining["instanceId"]  # type: ignore[no-any-return]

    @property
    def subscribed(self) -> frozenset[str]:
        """The topics that the member names, and the topics that match its pattern."""
        return self.topics | self.pattern.topics

    @property
    def order(self) -> tuple[bool, str]:
        """The place of the member in the order of the assignor: static members first."""
        instance = self.instance_id
        return instance is None, self.member_id if instance is None else instance


@dataclass(slots=True, eq=False)
class ConsumerGroup:
    """A group with at least one member. Its epoch grows with each change of members or subscriptions."""

    group_id: str
    epoch: int = 0
    members: dict[str, ConsumerMember] = field(default_factory=dict)

    @property
    def assignor(self) -> str:
        """The assignor that most members name."""
        named = Counter(member.assignor for member in self.members.values() if member.assignor is not None)
        return max(ASSIGNORS, key=named.__getitem__)

    @property
    def state(self) -> LiveState:
        """The state: stable if each member has its target assignment."""
        if not self.members:
            return LiveState.EMPTY
        is_done = all(member.assigned == member.target and not member.revoking for member in self.members.values())
        is_current = all(member.epoch in (self.epoch, _AWAY) for member in self.members.values())
        return LiveState.STABLE if is_done and is_current else LiveState.RECONCILING

    def by_instance(self, instance_id: str | None) -> ConsumerMember | None:
        """Return the static member with an instance id."""
        members = (member for member in self.members.values() if member.instance_id == instance_id)
        return None if instance_id is None else next(members, None)


class ConsumerGroupCoordinator:
    """All groups of the new protocol. Threads share it. `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float], topics: Topics) -> None:
        self._clock = clock
        self._topics = topics
        self._changing = Lock()
        self._groups: dict[str, ConsumerGroup] = {}

    def groups(self) -> Mapping[str, ConsumerGroup]:
        """Return the groups by id."""
        with self._changing:
            return dict(self._groups)

    def expire(self) -> None:
        """Remove the members whose sessions have ended, or that have not revoked partitions in time."""
        with self._changing:
            now = self._clock()
            for group in list(self._groups.values()):
                late = [member for member in group.members.values() if _is_late(member, now)]
                for member in late:
                    del group.members[member.member_id]
                if late:
                    self._assign_partitions(group)

    def heartbeat(self, request: Message, pattern: TopicPattern | None, client_id: str, client_host: str) -> Message:
        """Answer a heartbeat (ConsumerGroupHeartbeat), by which a member joins, leaves, or reconciles.

        `pattern` has the topics of the request's expression; None: as in the heartbeat before.
        """
        with self._changing:
            if request["memberEpoch"] in (_LEAVING, _AWAY):
                return self._leave(request)
            if request["memberEpoch"] == _JOINING:
                return self._join(request, pattern, client_id, client_host)
            return self._continue(request, pattern)

    def may_commit(self, request: Message) -> ApiError | None:
        """Return the error of a commit (OffsetCommit), None if the group has no members of the new protocol."""
        with self._changing:
            group = self._groups.get(request["groupId"])
            if group is None:
                return None
            member = group.members.get(request.get("memberId", ""))
            if member is None:
                return ApiError.UNKNOWN_MEMBER_ID
            is_current = request.get("generationIdOrMemberEpoch", NO_GENERATION) == member.epoch
            return ApiError.NONE if is_current else ApiError.STALE_MEMBER_EPOCH

    # -- with the lock

    def _join(self, request: Message, pattern: TopicPattern | None, client_id: str, client_host: str) -> Message:
        group_id, instance_id, topics = request["groupId"], request["instanceId"], request["subscribedTopicNames"]
        member_id = request["memberId"] or str(uuid.uuid4())
        if (
            not group_id
            or (topics is None and pattern is None)
            or request["rebalanceTimeoutMs"] == _NO_TIMEOUT
            or request["topicPartitions"] != []
        ):
            message = "a member joins with a group id, topics, a rebalance timeout, and without partitions"
            return _refused(ApiError.INVALID_REQUEST, member_id, message)
        group = self._groups.get(group_id) or ConsumerGroup(group_id)
        static = group.by_instance(instance_id)
        known = group.members.get(member_id) or static
        if static is not None and static.member_id != member_id and static.epoch != _AWAY:
            return _refused(ApiError.UNRELEASED_INSTANCE_ID, member_id)
        if known is None and sum(len(other.members) for other in self._groups.values()) >= _MOST_MEMBERS:
            return _refused(ApiError.GROUP_MAX_SIZE_REACHED, member_id)
        self._groups[group_id] = group
        member = ConsumerMember(
            member_id, request, client_id, client_host, request["serverAssignor"], frozenset(topics or ()),
            pattern or TopicPattern(),
        )  # fmt: skip
        if known is not None:
            del group.members[known.member_id]
            member.target, member.assigned = known.target, known.assigned
        group.members[member_id] = member
        if known is None or known.subscribed != member.subscribed:
            self._assign_partitions(group)
        return self._heartbeat_response(group, member, NO_PARTITIONS, is_whole=True)

    def _continue(self, request: Message, pattern: TopicPattern | None) -> Message:
        group = self._groups.get(request["groupId"])
        member = None if group is None else group.members.get(request["memberId"])
        if group is None or member is None or request["instanceId"] not in (None, member.instance_id):
            return _refused(ApiError.UNKNOWN_MEMBER_ID, request["memberId"])
        owned = request["topicPartitions"]
        if owned is not None:
            owned = frozenset((topic["topicId"], number) for topic in owned for number in topic["partitions"])
        if request["memberEpoch"] != member.epoch:
            # The answer that raised the epoch may have been lost: the member then repeats the epoch before.
            owns_known = owned is not None and owned <= member.assigned | member.revoking
            if request["memberEpoch"] != member.previous_epoch or not owns_known:
                return _refused(ApiError.FENCED_MEMBER_EPOCH, member.member_id)
        before, topics = member.subscribed, request["subscribedTopicNames"]
        member.topics = member.topics if topics is None else frozenset(topics)
        member.pattern = member.pattern if pattern is None else pattern
        if member.subscribed != before:
            self._assign_partitions(group)
        if request["serverAssignor"] not in (None, member.assignor):
            member.assignor = request["serverAssignor"]
            self._assign_partitions(group)
        return self._heartbeat_response(group, member, owned, is_whole=owned is not None)

    def _leave(self, request: Message) -> Message:
        group = self._groups.get(request["groupId"])
        member = None if group is None else group.members.get(request["memberId"])
        if group is None or member is None:
            return _refused(ApiError.UNKNOWN_MEMBER_ID, request["memberId"])
        if request["memberEpoch"] == _AWAY and member.instance_id is not None:
            member.epoch, member.revoking = _AWAY, NO_PARTITIONS
        else:
            del group.members[member.member_id]
            self._assign_partitions(group)
        return {
            "memberId": member.member_id,
            "memberEpoch": request["memberEpoch"],
            "heartbeatIntervalMs": HEARTBEAT_MS,
        }

    def _heartbeat_response(
        self, group: ConsumerGroup, member: ConsumerMember, owned: frozenset[TopicIdPartition] | None, *, is_whole: bool
    ) -> Message:
        """Return the answer to a heartbeat, with the member's partitions if they have changed."""
        before = member.assigned
        member.deadline = self._clock() + _SESSION_SECONDS
        self._reconcile(group, member, owned)
        has_assignment = is_whole or member.assigned != before
        return {
            "memberId": member.member_id, "memberEpoch": member.epoch, "heartbeatIntervalMs": HEARTBEAT_MS,
            "assignment": {"topicPartitions": by_topic(member.assigned)} if has_assignment else None,
        }  # fmt: skip

    def _reconcile(
        self, group: ConsumerGroup, member: ConsumerMember, owned: frozenset[TopicIdPartition] | None
    ) -> None:
        """Bring a member nearer to its target: it revokes partitions first, and gets others when they are free."""
        if member.revoking:
            if owned is None or owned & member.revoking:
                return
            member.revoking = NO_PARTITIONS
        if member.assigned - member.target:
            member.revoking = member.assigned - member.target
            member.assigned &= member.target
            member.revoke_by = self._clock() + member.joining["rebalanceTimeoutMs"] / 1000
            if owned is None or owned & member.revoking:
                return
            member.revoking = NO_PARTITIONS
        if member.epoch != group.epoch:
            member.previous_epoch, member.epoch = member.epoch, group.epoch
        others = [other for other in group.members.values() if other is not member]
        member.assigned |= member.target - NO_PARTITIONS.union(*(other.assigned | other.revoking for other in others))

    def _assign_partitions(self, group: ConsumerGroup) -> None:
        """Begin the next epoch of a group with a new target assignment; forget a group without members."""
        if not group.members:
            self._groups.pop(group.group_id, None)
            return
        group.epoch += 1
        members = sorted(group.members.values(), key=lambda member: member.order)
        partitions_by_topic: dict[str, list[TopicIdPartition]] = {}
        for name in sorted({name for member in members for name in member.subscribed}):
            topic = self._topics(name)
            if topic is not None:
                partitions_by_topic[name] = [(topic[0], number) for number in sorted(topic[1])]
        targets: dict[str, set[TopicIdPartition]] = {member.member_id: set() for member in members}
        if group.assignor == RANGE:
            for name, of_topic in partitions_by_topic.items():
                subscribed = [member.member_id for member in members if name in member.subscribed]
                for member_id, numbers in zip(
                    subscribed, ranges_of(range(len(of_topic)), len(subscribed)), strict=True
                ):
                    targets[member_id] |= {of_topic[number] for number in numbers}
        else:
            partitions_by_member = {
                member.member_id: dict.fromkeys(
                    partition for name in sorted(member.subscribed) for partition in partitions_by_topic.get(name, ())
                ) for member in members
            }  # fmt: skip
            targets = uniform_of(partitions_by_member, {member.member_id: member.target for member in members})
        for member_id, target in targets.items():
            group.members[member_id].target = frozenset(target)


def _is_late(member: ConsumerMember, now: float) -> bool:
    return member.deadline <= now or (bool(member.revoking) and member.revoke_by <= now)


def _refused(error: ApiError, member_id: str, message: str | None = None) -> Message:
    return {
        "errorCode": error, "errorMessage": message, "memberId": member_id, "memberEpoch": 0,
        "heartbeatIntervalMs": HEARTBEAT_MS,
    }  # fmt: skip
