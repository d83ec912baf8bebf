"""Groups of the new consumer protocol (KIP-848) in memory: the server assigns partitions, and members reconcile.

A heartbeat says what a member owns. It first gives up what the target assignment lacks, and then gets what others have
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

Place = tuple[str, int]
"""A topic id and a partition."""
NOTHING: frozenset[Place] = frozenset()
Topics = Callable[[str], tuple[str, Collection[int]] | None]
"""Returns the id and partitions of a topic by its name, None if it cannot be assigned."""


class TopicPattern(NamedTuple):
    """A regular expression, "" for none, and the topics whose names match."""

    text: str = ""
    topics: frozenset[str] = frozenset()


@dataclass(slots=True, eq=False)
class ConsumerMember:
    """A member, with its request to join. `assignor`, `topics` and `pattern` are as of its last heartbeat.

    `given` may be used, `revoking` is to be given up by `revoke_by`. Times are seconds of the clock.
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
    target: frozenset[Place] = NOTHING
    given: frozenset[Place] = NOTHING
    revoking: frozenset[Place] = NOTHING
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
        named = Counter(one.assignor for one in self.members.values() if one.assignor is not None)
        return max(ASSIGNORS, key=lambda one: named[one])

    @property
    def state(self) -> LiveState:
        """The state: stable if each member has its target assignment."""
        if not self.members:
            return LiveState.EMPTY
        is_done = all(one.given == one.target and not one.revoking for one in self.members.values())
        is_current = all(one.epoch in (self.epoch, _AWAY) for one in self.members.values())
        return LiveState.STABLE if is_done and is_current else LiveState.RECONCILING

    def by_instance(self, instance_id: str | None) -> ConsumerMember | None:
        """Return the static member with an instance id."""
        found = (one for one in self.members.values() if one.instance_id == instance_id)
        return None if instance_id is None else next(found, None)


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
        """Remove the members whose sessions have ended, or that have not given up partitions in time."""
        with self._changing:
            now = self._clock()
            for group in list(self._groups.values()):
                late = [one for one in group.members.values() if _is_late(one, now)]
                for one in late:
                    del group.members[one.member_id]
                if late:
                    self._retarget(group)

    def beat(self, asked: Message, pattern: TopicPattern | None, client_id: str, client_host: str) -> Message:
        """Answer a heartbeat (ConsumerGroupHeartbeat), by which a member joins, leaves, or reconciles.

        `pattern` has the topics of the request's expression; None: as in the heartbeat before.
        """
        with self._changing:
            if asked["memberEpoch"] in (_LEAVING, _AWAY):
                return self._leave(asked)
            if asked["memberEpoch"] == _JOINING:
                return self._join(asked, pattern, client_id, client_host)
            return self._continue(asked, pattern)

    def may_commit(self, asked: Message) -> ApiError | None:
        """Return the error of a commit (OffsetCommit), None if the group is not one of the new protocol."""
        with self._changing:
            group = self._groups.get(asked["groupId"])
            if group is None:
                return None
            member = group.members.get(asked.get("memberId", ""))
            if member is None:
                return ApiError.UNKNOWN_MEMBER_ID
            is_current = asked.get("generationIdOrMemberEpoch", NO_GENERATION) == member.epoch
            return ApiError.NONE if is_current else ApiError.STALE_MEMBER_EPOCH

    # -- with the lock

    def _join(self, asked: Message, pattern: TopicPattern | None, client_id: str, client_host: str) -> Message:
        group_id, instance_id, topics = asked["groupId"], asked["instanceId"], asked["subscribedTopicNames"]
        member_id = asked["memberId"] or str(uuid.uuid4())
        if (
            not group_id
            or (topics is None and pattern is None)
            or asked["rebalanceTimeoutMs"] == _NO_TIMEOUT
            or asked["topicPartitions"] != []
        ):
            message = "a member joins with a group id, topics, a rebalance timeout, and without partitions"
            return _refused(ApiError.INVALID_REQUEST, member_id, message)
        group = self._groups.get(group_id) or ConsumerGroup(group_id)
        static = group.by_instance(instance_id)
        known = group.members.get(member_id) or static
        if static is not None and static.member_id != member_id and static.epoch != _AWAY:
            return _refused(ApiError.UNRELEASED_INSTANCE_ID, member_id)
        if known is None and sum(len(one.members) for one in self._groups.values()) >= _MOST_MEMBERS:
            return _refused(ApiError.GROUP_MAX_SIZE_REACHED, member_id)
        self._groups[group_id] = group
        member = ConsumerMember(
            member_id, asked, client_id, client_host, asked["serverAssignor"], frozenset(topics or ()),
            pattern or TopicPattern(),
        )  # fmt: skip
        if known is not None:
            del group.members[known.member_id]
            member.target, member.given = known.target, known.given
        group.members[member_id] = member
        if known is None or known.subscribed != member.subscribed:
            self._retarget(group)
        return self._beaten(group, member, NOTHING, is_whole=True)

    def _continue(self, asked: Message, pattern: TopicPattern | None) -> Message:
        group = self._groups.get(asked["groupId"])
        member = None if group is None else group.members.get(asked["memberId"])
        if group is None or member is None or asked["instanceId"] not in (None, member.instance_id):
            return _refused(ApiError.UNKNOWN_MEMBER_ID, asked["memberId"])
        owned = asked["topicPartitions"]
        if owned is not None:
            owned = frozenset((one["topicId"], number) for one in owned for number in one["partitions"])
        if asked["memberEpoch"] != member.epoch:
            # The answer that raised the epoch may have been lost: the member then repeats the epoch before.
            owns_known = owned is not None and owned <= member.given | member.revoking
            if asked["memberEpoch"] != member.previous_epoch or not owns_known:
                return _refused(ApiError.FENCED_MEMBER_EPOCH, member.member_id)
        before, topics = member.subscribed, asked["subscribedTopicNames"]
        member.topics = member.topics if topics is None else frozenset(topics)
        member.pattern = member.pattern if pattern is None else pattern
        if member.subscribed != before:
            self._retarget(group)
        if asked["serverAssignor"] not in (None, member.assignor):
            member.assignor = asked["serverAssignor"]
            self._retarget(group)
        return self._beaten(group, member, owned, is_whole=owned is not None)

    def _leave(self, asked: Message) -> Message:
        group = self._groups.get(asked["groupId"])
        member = None if group is None else group.members.get(asked["memberId"])
        if group is None or member is None:
            return _refused(ApiError.UNKNOWN_MEMBER_ID, asked["memberId"])
        if asked["memberEpoch"] == _AWAY and member.instance_id is not None:
            member.epoch, member.revoking = _AWAY, NOTHING
        else:
            del group.members[member.member_id]
            self._retarget(group)
        return {"memberId": member.member_id, "memberEpoch": asked["memberEpoch"], "heartbeatIntervalMs": HEARTBEAT_MS}

    def _beaten(
        self, group: ConsumerGroup, member: ConsumerMember, owned: frozenset[Place] | None, *, is_whole: bool
    ) -> Message:
        """Return the answer to a heartbeat, with the member's partitions if they have changed."""
        before = member.given
        member.deadline = self._clock() + _SESSION_SECONDS
        self._reconcile(group, member, owned)
        is_told = is_whole or member.given != before
        return {
            "memberId": member.member_id, "memberEpoch": member.epoch, "heartbeatIntervalMs": HEARTBEAT_MS,
            "assignment": {"topicPartitions": by_topic(member.given)} if is_told else None,
        }  # fmt: skip

    def _reconcile(self, group: ConsumerGroup, member: ConsumerMember, owned: frozenset[Place] | None) -> None:
        """Bring a member nearer to its target: it gives up partitions first, and gets others when they are free."""
        if member.revoking:
            if owned is None or owned & member.revoking:
                return
            member.revoking = NOTHING
        if member.given - member.target:
            member.revoking = member.given - member.target
            member.given &= member.target
            member.revoke_by = self._clock() + member.joining["rebalanceTimeoutMs"] / 1000
            if owned is None or owned & member.revoking:
                return
            member.revoking = NOTHING
        if member.epoch != group.epoch:
            member.previous_epoch, member.epoch = member.epoch, group.epoch
        others = [one for one in group.members.values() if one is not member]
        member.given |= member.target - NOTHING.union(*(one.given | one.revoking for one in others))

    def _retarget(self, group: ConsumerGroup) -> None:
        """Begin the next epoch of a group with a new target assignment; forget a group without members."""
        if not group.members:
            self._groups.pop(group.group_id, None)
            return
        group.epoch += 1
        members = sorted(group.members.values(), key=lambda one: one.order)
        places: dict[str, list[Place]] = {}
        for name in sorted({name for one in members for name in one.subscribed}):
            found = self._topics(name)
            if found is not None:
                places[name] = [(found[0], number) for number in sorted(found[1])]
        targets: dict[str, set[Place]] = {one.member_id: set() for one in members}
        if group.assignor == RANGE:
            for name, of_topic in places.items():
                subscribed = [one.member_id for one in members if name in one.subscribed]
                for member_id, numbers in zip(
                    subscribed, ranges_of(range(len(of_topic)), len(subscribed)), strict=True
                ):
                    targets[member_id] |= {of_topic[number] for number in numbers}
        else:
            wanted = {
                one.member_id: dict.fromkeys(
                    place for name in sorted(one.subscribed) for place in places.get(name, ())
                ) for one in members
            }  # fmt: skip
            targets = uniform_of(wanted, {one.member_id: one.target for one in members})
        for member_id, target in targets.items():
            group.members[member_id].target = frozenset(target)


def _is_late(member: ConsumerMember, now: float) -> bool:
    return member.deadline <= now or (bool(member.revoking) and member.revoke_by <= now)


def _refused(error: ApiError, member_id: str, message: str | None = None) -> Message:
    return {
        "errorCode": error, "errorMessage": message, "memberId": member_id, "memberEpoch": 0,
        "heartbeatIntervalMs": HEARTBEAT_MS,
    }  # fmt: skip
