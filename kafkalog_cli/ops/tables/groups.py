"""Rows of groups and members as a group coordinator has them: classic, consumer (KIP-848), share, streams."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from kafkalog_cli.format.internal_topics.schema import Message
from kafkalog_cli.ops.tables.committed_offsets import known_time
from kafkalog_cli.ops.tables.coordinator_log import CoordinatorEntry

_METADATA = {
    "ConsumerGroupMetadata": "consumer",
    "ShareGroupMetadata": "share",
    "StreamsGroupMetadata": "streams",
}
_MEMBERS = {
    "ConsumerGroupMemberMetadata": "consumer",
    "ShareGroupMemberMetadata": "share",
    "StreamsGroupMemberMetadata": "streams",
}
_ASSIGNMENTS = {
    "ConsumerGroupCurrentMemberAssignment": "consumer",
    "ShareGroupCurrentMemberAssignment": "share",
    "StreamsGroupCurrentMemberAssignment": "streams",
}
_CLASSIC = "classic"
_MEMBER_STATES = {0: "STABLE", 1: "UNREVOKED_PARTITIONS", 2: "UNRELEASED_PARTITIONS"}


class Assigned(NamedTuple):
    """Partitions of a topic assigned to a member; classic groups have the topic's name, later kinds its id."""

    topic: str | None
    topic_id: str | None
    partitions: tuple[int, ...]


class Group(NamedTuple):
    """A group.

    `epoch` is the generation of a classic group. `state_timestamp` is in epoch ms, and only for classic groups.
    """

    group_id: str
    group_type: str
    epoch: int
    protocol_type: str | None
    protocol: str | None
    leader: str | None
    members: int
    state_timestamp: int | None
    log_partition: int
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
    session_timeout_ms: int | None
    rebalance_timeout_ms: int | None
    member_epoch: int | None
    member_state: str | None
    subscribed_topics: tuple[str, ...] | None
    subscribed_topic_regex: str | None
    assignment: tuple[Assigned, ...] | None
    log_partition: int
    log_offset: int


class GroupState(NamedTuple):
    """The groups and members in a partition of `__consumer_offsets`.

    The keys are (type, group id) for groups and (type, group id, member id) for members.
    """

    groups: dict[tuple[str, str], Group]
    members: dict[tuple[str, str, str], GroupMember]


def group_state(entries: Iterable[CoordinatorEntry], log_partition: int) -> GroupState:
    """Return the groups after replaying a whole partition (GroupMetadataManager.replay)."""
    replay = _Replay(log_partition)
    for entry in entries:
        if entry.record is not None:
            replay.take(entry.record.name, entry.record.key, entry.record.value, entry.offset)
    return GroupState(replay.groups, replay.members)


def groups(entries: Iterable[CoordinatorEntry], log_partition: int) -> Iterator[Group]:
    """Yield the groups, each with the number of its members."""
    state = group_state(entries, log_partition)
    counts: dict[tuple[str, str], int] = {}
    for kind, group_id, _ in state.members:
        counts[kind, group_id] = counts.get((kind, group_id), 0) + 1
    for key, group in state.groups.items():
        yield group._replace(members=counts.get(key, 0))


def group_members(entries: Iterable[CoordinatorEntry], log_partition: int) -> Iterator[GroupMember]:
    """Yield the members of all groups."""
    yield from group_state(entries, log_partition).members.values()


class _Replay:
    """Replays records one after the other."""

    def __init__(self, log_partition: int) -> None:
        self.groups: dict[tuple[str, str], Group] = {}
        self.members: dict[tuple[str, str, str], GroupMember] = {}
        self._log_partition = log_partition
        self._current: dict[tuple[str, str, str], Message] = {}

    def take(self, name: str, key: Message, value: Message | None, offset: int) -> None:
        if name == "GroupMetadata":
            self._classic(key["group"], value, offset)
        elif name in _METADATA:
            self._group(_METADATA[name], key["groupId"], value, offset)
        elif name in _MEMBERS:
            self._member((_MEMBERS[name], key["groupId"], key["memberId"]), value, offset)
        elif name in _ASSIGNMENTS:
            self._assignment((_ASSIGNMENTS[name], key["groupId"], key["memberId"]), value)

    def _group(self, kind: str, group_id: str, value: Message | None, offset: int) -> None:
        self.groups.pop((kind, group_id), None)
        if value is not None:
            where = (self._log_partition, offset)
            self.groups[kind, group_id] = Group(group_id, kind, value["epoch"], None, None, None, 0, None, *where)

    def _classic(self, group_id: str, value: Message | None, offset: int) -> None:
        self.groups.pop((_CLASSIC, group_id), None)
        for key in [one for one in self.members if one[:2] == (_CLASSIC, group_id)]:
            del self.members[key]
        if value is None:
            return
        changed = known_time(value.get("currentStateTimestamp", -1))
        self.groups[_CLASSIC, group_id] = Group(
            group_id, _CLASSIC, value["generation"], value["protocolType"], value["protocol"], value["leader"], 0,
            changed, self._log_partition, offset,
        )  # fmt: skip
        for member in value["members"]:
            key = (_CLASSIC, group_id, member["memberId"])
            self.members[key] = self._of_classic(key, member, value["generation"], offset)

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
        if value is None:
            self._current.pop(key, None)
        else:
            self._current[key] = value
        member = self.members.get(key)
        if member is not None:
            self.members[key] = _with_assignment(member, value)


def _with_assignment(member: GroupMember, value: Message | None) -> GroupMember:
    if value is None:
        return member._replace(member_epoch=None, member_state=None, assignment=None)
    state = value["state"]
    return member._replace(
        member_epoch=value["memberEpoch"],
        member_state=_MEMBER_STATES.get(state, f"UNKNOWN ({state})"),
        assignment=_assigned(value.get("assignedPartitions")),
    )


def _assigned(found: list[Message] | None) -> tuple[Assigned, ...] | None:
    if found is None:
        return None
    return tuple(Assigned(one.get("topic"), one.get("topicId"), tuple(one["partitions"])) for one in found)


def _topics(found: list[str] | None) -> tuple[str, ...] | None:
    return None if found is None else tuple(found)


def _read(message: Any, name: str) -> Any:
    """Return a field of a consumer's subscription or assignment.

    None if the message was not decoded, because it is of another protocol.
    """
    return message.get(name) if isinstance(message, dict) else None
