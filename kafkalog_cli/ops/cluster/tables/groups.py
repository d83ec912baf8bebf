"""Rows of groups and members as a group coordinator has them: classic, consumer (KIP-848), share, streams."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import Any, NamedTuple, TypeVar

from kafkalog_cli.format.internal_topics.schema import Message
from kafkalog_cli.ops.cluster.tables.coordinator_log import CoordinatorEntry, known_time
from kafkalog_cli.results import Int32, Time

_K = TypeVar("_K")
_V = TypeVar("_V")

CLASSIC, CONSUMER, SHARE, STREAMS = "classic", "consumer", "share", "streams"
"""The types of groups."""
_METADATA, _MEMBERS, _ASSIGNMENTS, _TARGETS = (
    {f"{kind.capitalize()}Group{what}": kind for kind in (CONSUMER, SHARE, STREAMS)}
    for what in ("Metadata", "MemberMetadata", "CurrentMemberAssignment", "TargetAssignmentMetadata")
)
"""The types of groups by the name of a record, such as ConsumerGroupMetadata."""
_STABLE = "STABLE"
_MEMBER_STATES = {0: _STABLE, 1: "UNREVOKED_PARTITIONS", 2: "UNRELEASED_PARTITIONS"}
_STREAMS_MEMBER_STATES = {1: _STABLE, 2: "UNREVOKED_TASKS", 3: "UNRELEASED_TASKS"}
"""Names of the states by number (streams.MemberState, which has other numbers than modern.MemberState)."""


class Assigned(NamedTuple):
    """Partitions of a topic assigned to a member; classic groups have the topic's name, later kinds its id."""

    topic: str | None
    topic_id: str | None
    partitions: tuple[Int32, ...]


class Group(NamedTuple):
    """A group.

    `epoch` is the generation of a classic group. `state_timestamp` is in epoch ms, and only for classic groups.
    """

    group_id: str
    group_type: str
    epoch: Int32
    protocol_type: str | None
    protocol: str | None
    leader: str | None
    members: Int32
    state_timestamp: Time | None
    log_partition: Int32
    log_offset: int


class GroupMember(NamedTuple):
    """A member of a group.

    A field that its kind of group does not have is None, as is the `assignment` of a streams member.
    """

    group_id: str
    group_type: str
    member_id: str
    group_instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: Int32 | None
    rebalance_timeout_ms: Int32 | None
    member_epoch: Int32 | None
    member_state: str | None
    subscribed_topics: tuple[str, ...] | None
    subscribed_topic_regex: str | None
    assignment: tuple[Assigned, ...] | None
    log_partition: Int32
    log_offset: int


class Topology(NamedTuple):
    """The topology of a streams group: the source topics of each subtopology, repartition topics included."""

    epoch: int
    topics: dict[str, tuple[str, ...]]


class GroupState(Enum):
    """The state of a group, as Kafka prints it (org.apache.kafka.common.GroupState)."""

    EMPTY = "Empty"
    STABLE = "Stable"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    NOT_READY = "NotReady"


def group_state(entries: Iterable[CoordinatorEntry], log_partition: int) -> GroupReplay:
    """Return the groups after replaying a whole partition (GroupMetadataManager.replay)."""
    replay = GroupReplay(log_partition)
    for entry in entries:
        replay.take(entry)
    return replay


def groups(entries: Iterable[CoordinatorEntry], log_partition: int) -> Iterator[Group]:
    """Yield the groups, each with the number of its members."""
    state = group_state(entries, log_partition)
    counts = Counter((kind, group_id) for kind, group_id, _ in state.members)
    for key, group in state.groups.items():
        yield group._replace(members=counts[key])


def group_members(entries: Iterable[CoordinatorEntry], log_partition: int) -> Iterator[GroupMember]:
    """Yield the members of all groups."""
    yield from group_state(entries, log_partition).members.values()


class GroupReplay:
    """The groups after each entry of a partition of `__consumer_offsets`.

    The keys are (type, group id) for groups and (type, group id, member id) for members. `assignment_epochs` are the
    epochs of the groups' target assignments. `topologies` are by group id, `regex_topics` by group id and regular
    expression, and `share_partitions` are the partitions by group id whose share state is initialized.
    """

    def __init__(self, log_partition: int) -> None:
        self.groups: dict[tuple[str, str], Group] = {}
        self.members: dict[tuple[str, str, str], GroupMember] = {}
        self.assignment_epochs: dict[tuple[str, str], int] = {}
        self.topologies: dict[str, Topology] = {}
        self.regex_topics: dict[tuple[str, str], tuple[str, ...]] = {}
        self.share_partitions: dict[str, tuple[Assigned, ...]] = {}
        self._validated_topologies: dict[str, int] = {}
        self._log_partition = log_partition
        self._current: dict[tuple[str, str, str], Message] = {}
        self._members_of_classic: dict[str, dict[tuple[str, str, str], None]] = {}

    def take(self, entry: CoordinatorEntry) -> None:
        """Replay the next entry; commits of offsets change nothing."""
        if entry.record is None:
            return
        name, key, value = entry.record.name, entry.record.key, entry.record.value
        if name == "GroupMetadata":
            self._classic(key["group"], value, entry.offset)
        elif name in _METADATA:
            self._group(_METADATA[name], key["groupId"], value, entry.offset)
        elif name in _MEMBERS:
            self._member((_MEMBERS[name], key["groupId"], key["memberId"]), value, entry.offset)
        elif name in _ASSIGNMENTS:
            self._assignment((_ASSIGNMENTS[name], key["groupId"], key["memberId"]), value)
        elif name in _TARGETS:
            epoch = None if value is None else value["assignmentEpoch"]
            _put(self.assignment_epochs, (_TARGETS[name], key["groupId"]), epoch)
        elif name == "StreamsGroupTopology":
            _put(self.topologies, key["groupId"], None if value is None else _topology(value))
        elif name == "ConsumerGroupRegularExpression":
            topics = None if value is None else tuple(value["topics"])
            _put(self.regex_topics, (key["groupId"], key["regularExpression"]), topics)
        elif name == "ShareGroupStatePartitionMetadata":
            _put(self.share_partitions, key["groupId"], None if value is None else _initialized(value))

    def members_by_group(self) -> dict[tuple[str, str], list[GroupMember]]:
        """Return the members of each group that has any."""
        members: dict[tuple[str, str], list[GroupMember]] = {}
        for (kind, group_id, _), member in self.members.items():
            members.setdefault((kind, group_id), []).append(member)
        return members

    def state(self, key: tuple[str, str], members: Sequence[GroupMember]) -> GroupState:
        """Return the state of a group with these members (maybeUpdateGroupState of ConsumerGroup and StreamsGroup).

        A coordinator that loads a classic group takes it as stable if it has members.
        """
        kind, group_id = key
        if not members:
            return GroupState.EMPTY
        if kind in (CLASSIC, SHARE):
            return GroupState.STABLE
        if kind == STREAMS:
            topology = self.topologies.get(group_id)
            if topology is None or topology.epoch != self._validated_topologies.get(group_id):
                return GroupState.NOT_READY
        target = self.assignment_epochs.get(key, 0)
        if self.groups[key].epoch > target:
            return GroupState.ASSIGNING
        is_reconciled = all(member.member_state == _STABLE and member.member_epoch == target for member in members)
        return GroupState.STABLE if is_reconciled else GroupState.RECONCILING

    def owned(self, member: GroupMember) -> tuple[Assigned, ...]:
        """Return the partitions that a member is responsible for, with the partitions that it has to revoke.

        A member of a streams group has the source partitions of its active tasks.
        """
        key = (member.group_type, member.group_id, member.member_id)
        current = self._current.get(key)
        if member.group_type == STREAMS:
            topology = self.topologies.get(member.group_id)
            tasks = [] if current is None or topology is None else current["activeTasks"] or []
            return tuple(
                Assigned(topic, None, tuple(task["partitions"]))
                for task in tasks
                for topic in ([] if topology is None else topology.topics.get(task["subtopologyId"], ()))
            )
        revoked = None if current is None else current.get("partitionsPendingRevocation")
        return (*(member.assignment or ()), *(_assigned(revoked) or ()))

    def subscribed_topics(self, key: tuple[str, str], members: Sequence[GroupMember]) -> frozenset[str] | None:
        """Return the topics whose offsets do not expire while the group has these members (isSubscribedToTopic).

        None if a coordinator does not know the topics of a classic group: its offsets then do not expire.
        """
        kind, group_id = key
        if kind == STREAMS:
            topology = self.topologies.get(group_id) if members else None
            return frozenset() if topology is None else frozenset().union(*topology.topics.values())
        if kind == CLASSIC and any(member.subscribed_topics is None for member in members):
            return None
        names = {topic for member in members for topic in member.subscribed_topics or ()}
        patterns = {member.subscribed_topic_regex for member in members if member.subscribed_topic_regex}
        return frozenset(names.union(*(self.regex_topics.get((group_id, pattern), ()) for pattern in patterns)))

    def _group(self, kind: str, group_id: str, value: Message | None, offset: int) -> None:
        self.groups.pop((kind, group_id), None)
        if kind == STREAMS:
            _put(self._validated_topologies, group_id, None if value is None else value.get("validatedTopologyEpoch"))
        if value is not None:
            where = (self._log_partition, offset)
            self.groups[kind, group_id] = Group(group_id, kind, value["epoch"], None, None, None, 0, None, *where)

    def _classic(self, group_id: str, value: Message | None, offset: int) -> None:
        self.groups.pop((CLASSIC, group_id), None)
        for key in self._members_of_classic.pop(group_id, ()):
            del self.members[key]
        if value is None:
            return
        changed = known_time(value.get("currentStateTimestamp", -1))
        self.groups[CLASSIC, group_id] = Group(
            group_id, CLASSIC, value["generation"], value["protocolType"], value["protocol"], value["leader"], 0,
            changed, self._log_partition, offset,
        )  # fmt: skip
        for member in value["members"]:
            key = (CLASSIC, group_id, member["memberId"])
            self.members[key] = self._of_classic(key, member, value["generation"], offset)
            self._members_of_classic.setdefault(group_id, {})[key] = None

    def _of_classic(self, key: tuple[str, str, str], member: Message, generation: int, offset: int) -> GroupMember:
        kind, group_id, member_id = key
        return GroupMember(
            group_id, kind, member_id, member.get("groupInstanceId"), _read(member["subscription"], "rackId"),
            member["clientId"], member["clientHost"], member["sessionTimeout"], member.get("rebalanceTimeout"),
            generation, None, _topics(_read(member["subscription"], "topics")), None,
            _assigned(_read(member["assignment"], "assignedPartitions")), self._log_partition, offset,
        )  # fmt: skip

    def _member(self, key: tuple[str, str, str], value: Message | None, offset: int) -> None:
        self.members.pop(key, None)
        if value is None:
            return
        kind, group_id, member_id = key
        classic = value.get("classicMemberMetadata") or {}
        made = GroupMember(
            group_id, kind, member_id, value.get("instanceId"), value["rackId"], value["clientId"],
            value["clientHost"], classic.get("sessionTimeoutMs"), value.get("rebalanceTimeoutMs"), None, None,
            _topics(value.get("subscribedTopicNames")), value.get("subscribedTopicRegex") or None, None,
            self._log_partition, offset,
        )  # fmt: skip
        self.members[key] = _with_assignment(made, self._current.get(key))

    def _assignment(self, key: tuple[str, str, str], value: Message | None) -> None:
        _put(self._current, key, value)
        member = self.members.get(key)
        if member is not None:
            self.members[key] = _with_assignment(member, value)


def _with_assignment(member: GroupMember, value: Message | None) -> GroupMember:
    if value is None:
        return member._replace(member_epoch=None, member_state=None, assignment=None)
    state = value["state"]
    names = _STREAMS_MEMBER_STATES if member.group_type == STREAMS else _MEMBER_STATES
    return member._replace(
        member_epoch=value["memberEpoch"],
        member_state=names.get(state, f"UNKNOWN ({state})"),
        assignment=_assigned(value.get("assignedPartitions")),
    )


def _put(states: dict[_K, _V], key: _K, value: _V | None) -> None:
    """Set a state, or remove it for None, as a tombstone does."""
    if value is None:
        states.pop(key, None)
    else:
        states[key] = value


def _topology(value: Message) -> Topology:
    topics = {
        subtopology["subtopologyId"]: (
            *(subtopology["sourceTopics"] or ()),
            *(topic["name"] for topic in subtopology["repartitionSourceTopics"] or ()),
        )
        for subtopology in value["subtopologies"] or ()
    }
    return Topology(value["epoch"], topics)


def _initialized(value: Message) -> tuple[Assigned, ...]:
    return tuple(
        Assigned(topic["topicName"], topic["topicId"], tuple(topic["partitions"]))
        for topic in value["initializedTopics"]
    )


def _assigned(topics: list[Message] | None) -> tuple[Assigned, ...] | None:
    if topics is None:
        return None
    return tuple(Assigned(topic.get("topic"), topic.get("topicId"), tuple(topic["partitions"])) for topic in topics)


def _topics(names: list[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(names)


def _read(message: Any, name: str) -> Any:
    """Return a field of a consumer's subscription or assignment.

    None if the message was not decoded, because it is of another protocol.
    """
    return message.get(name) if isinstance(message, dict) else None
