"""The JSON output of groups: an object per group, with its members and offsets."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict, cast

from kafkalog_cli.ops.groups.describe import GroupDescription, GroupOffset, MemberDescription
from kafkalog_cli.ops.tables.groups import GroupState
from kafkalog_cli.output.records import ObjectKind, PathText

GroupType = Literal["classic", "consumer", "share", "streams"]


class CopyObject(TypedDict):
    """The copy of a partition in one of the log directories."""

    path: PathText


class GroupCoordinatorObject(TypedDict):
    """The partition of `__consumer_offsets` that has the group."""

    path: Annotated[PathText, "the copy of the partition of __consumer_offsets that was read"]
    partition: int
    belongs_in: Annotated[
        int | None, "the partition in which a coordinator looks for the group; null if their number is not known"
    ]
    end_offset: Annotated[int, "the end of the log that was read"]
    other_copies: Annotated[list[CopyObject], "copies that are not as good, by leader epoch and end of the log"]


class OwnedPartitionsObject(TypedDict):
    """Partitions of a topic that a member owns."""

    topic: Annotated[str, "the topic's id where no file has its name"]
    partitions: list[int]


class MemberObject(TypedDict):
    """A member of a group."""

    member_id: str
    group_instance_id: str | None
    rack_id: str | None
    client_id: str
    host: str
    session_timeout_ms: int | None
    rebalance_timeout_ms: int | None
    epoch: Annotated[int | None, "the generation in a classic group"]
    state: Annotated[str | None, "null in a classic group"]
    subscribed_topics: list[str] | None
    subscribed_topic_regex: str | None
    assignment: Annotated[list[OwnedPartitionsObject], "the partitions that the member owns, or still has to revoke"]


class GroupOffsetObject(TypedDict):
    """A partition for which the group has an offset, or which a member owns."""

    topic: str
    partition: int
    current_offset: Annotated[int | None, "the committed offset; the start offset of a share partition"]
    log_end_offset: Annotated[
        int | None, "the latest offset that a broker gives; null if the partition is not in these directories"
    ]
    lag: int | None
    member_id: str | None
    leader_epoch: int | None
    metadata: str | None
    commit_timestamp_ms: int | None
    expires_at_ms: Annotated[
        int | None, "the time from which a broker removes the offset; null while it does not expire"
    ]
    pending_offset: Annotated[int | None, "committed in a transaction that is still open"]
    log: Annotated[CopyObject | None, "the copy of the partition that log_end_offset is from"]


class GroupObject(TypedDict):
    """A group of consumers, as a coordinator that loads `__consumer_offsets` has it."""

    group_id: str
    group_type: GroupType
    state: GroupState
    epoch: Annotated[int | None, "the generation of a classic group; null if only offsets of the group are known"]
    assignment_epoch: Annotated[int | None, "of the target assignment; null for classic groups"]
    protocol_type: Annotated[str | None, "of a classic group: consumer, connect, …"]
    protocol: Annotated[str | None, "of a classic group: the assignor"]
    leader: Annotated[str | None, "of a classic group: a member id"]
    state_timestamp_ms: Annotated[int | None, "of a classic group: the last change of its state"]
    coordinator: GroupCoordinatorObject
    members: list[MemberObject]
    offsets: list[GroupOffsetObject]


GROUP = ObjectKind("kafkalog.group/1", GroupObject)


def group_object(described: GroupDescription) -> GroupObject:
    """Return the object of a group."""
    group, loaded = described.group, described.loaded
    return {
        "group_id": described.group_id,
        "group_type": cast(GroupType, described.group_type),
        "state": described.state,
        "epoch": None if group is None else group.epoch,
        "assignment_epoch": described.assignment_epoch,
        "protocol_type": None if group is None else group.protocol_type,
        "protocol": None if group is None else group.protocol,
        "leader": None if group is None else group.leader,
        "state_timestamp_ms": None if group is None else group.state_timestamp,
        "coordinator": {
            "path": PathText(loaded.copy.partition.path),
            "partition": loaded.number,
            "belongs_in": described.belongs_in,
            "end_offset": loaded.copy.bounds.next_offset,
            "other_copies": [{"path": PathText(copy.partition.path)} for copy in loaded.others],
        },
        "members": [_member(one) for one in described.members],
        "offsets": [_offset(row) for row in described.offsets],
    }


def _member(one: MemberDescription) -> MemberObject:
    member = one.member
    return {
        "member_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "rack_id": member.rack_id,
        "client_id": member.client_id,
        "host": member.client_host,
        "session_timeout_ms": member.session_timeout_ms,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "epoch": member.member_epoch,
        "state": member.member_state,
        "subscribed_topics": None if member.subscribed_topics is None else [*member.subscribed_topics],
        "subscribed_topic_regex": member.subscribed_topic_regex,
        "assignment": [{"topic": owned.topic, "partitions": [*owned.partitions]} for owned in one.owned],
    }


def _offset(row: GroupOffset) -> GroupOffsetObject:
    return {
        "topic": row.topic,
        "partition": row.partition,
        "current_offset": row.offset,
        "log_end_offset": row.log_end_offset,
        "lag": row.lag,
        "member_id": None if row.member is None else row.member.member_id,
        "leader_epoch": row.leader_epoch,
        "metadata": row.metadata,
        "commit_timestamp_ms": row.commit_timestamp,
        "expires_at_ms": row.expires_at_ms,
        "pending_offset": row.pending_offset,
        "log": None if row.log_path is None else {"path": PathText(row.log_path)},
    }
