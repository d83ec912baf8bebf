"""The APIs of classic groups and of their offsets."""

from __future__ import annotations

import time

from kafkalog_cli.errors import KafkalogError
from kafkalog_cli.format.internal_topics.schema import Message
from kafkalog_cli.format.protocol.errors import ApiError
from kafkalog_cli.ops.serve.committed import MOST_METADATA_BYTES, Commit, OffsetKey, offsets_in
from kafkalog_cli.ops.serve.dispatch import Answer, Broker, Request
from kafkalog_cli.ops.serve.epochs import NO_EPOCH, NO_OFFSET
from kafkalog_cli.ops.serve.groups import NO_GENERATION, Joining

_KNOWN_ID = 4
"""The first version of JoinGroup in which a member must ask for its id first."""
_SEVERAL_MEMBERS = 3
"""The first version of LeaveGroup that names several members."""
_SEVERAL_GROUPS = 8
"""The first version of OffsetFetch that names several groups."""


def _join(broker: Broker, request: Request) -> Message:
    body, caller = request.body, request.caller
    session = body["sessionTimeoutMs"]
    rebalance = body.get("rebalanceTimeoutMs", -1)
    found = broker.groups.join(
        Joining(
            body["groupId"], body["memberId"], body.get("groupInstanceId"), caller.client_id, caller.client_host,
            session, session if rebalance < 0 else rebalance, body["protocolType"],
            [(one["name"], one["metadata"]) for one in body["protocols"]], request.version >= _KNOWN_ID,
        )
    )  # fmt: skip
    members = [
        {"memberId": one, "groupInstanceId": instance, "metadata": data} for one, instance, data in found.members
    ]
    nullable = request.version >= 7
    return {
        "errorCode": found.error, "generationId": found.generation, "protocolType": found.protocol_type,
        "protocolName": found.protocol if nullable or found.protocol is not None else "", "leader": found.leader,
        "skipAssignment": False, "memberId": found.member_id, "members": members,
    }  # fmt: skip


def _sync(broker: Broker, request: Request) -> Message:
    body = request.body
    given = [(one["memberId"], one["assignment"]) for one in body["assignments"]]
    found = broker.groups.sync(
        body["groupId"], body["generationId"], body["memberId"], body.get("groupInstanceId"), given
    )  # fmt: skip
    return {
        "errorCode": found.error, "protocolType": found.protocol_type, "protocolName": found.protocol,
        "assignment": found.assignment,
    }  # fmt: skip


def _heartbeat(broker: Broker, request: Request) -> Message:
    body = request.body
    error = broker.groups.heartbeat(
        body["groupId"], body["generationId"], body["memberId"], body.get("groupInstanceId")
    )  # fmt: skip
    return {"errorCode": error}


def _leave(broker: Broker, request: Request) -> Message:
    body = request.body
    if request.version < _SEVERAL_MEMBERS:
        return {"errorCode": broker.groups.leave(body["groupId"], body["memberId"], None)[0]}
    members = []
    for one in body["members"]:
        error, member_id = broker.groups.leave(body["groupId"], one["memberId"], one["groupInstanceId"])
        members.append({"memberId": member_id, "groupInstanceId": one["groupInstanceId"], "errorCode": error})
    return {"members": members}


def _commit(broker: Broker, request: Request) -> Message:
    body = request.body
    group_id = body["groupId"]
    refused = broker.groups.may_commit(
        group_id, body.get("generationIdOrMemberEpoch", NO_GENERATION), body.get("memberId", ""),
        body.get("groupInstanceId"),
    )  # fmt: skip
    if broker.committed.is_loading:
        refused = ApiError.COORDINATOR_LOAD_IN_PROGRESS
    if not group_id:
        refused = ApiError.INVALID_GROUP_ID
    taken: dict[OffsetKey, Commit] = {}
    errors: dict[OffsetKey, ApiError] = {}
    for topic in body["topics"]:
        for one in topic["partitions"]:
            key = (group_id, topic["name"], one["partitionIndex"])
            metadata = one["committedMetadata"] or ""
            errors[key] = refused if refused is not ApiError.NONE else _commit_error(broker, key, metadata)
            if errors[key] is ApiError.NONE:
                epoch = one.get("committedLeaderEpoch", NO_EPOCH)
                taken[key] = Commit(one["committedOffset"], epoch, metadata, time.time_ns() // 1_000_000)
    if taken:
        try:
            broker.committed.commit(taken)
        except (KafkalogError, OSError):
            errors |= dict.fromkeys(taken, ApiError.UNKNOWN_SERVER_ERROR)
    return {
        "topics": [
            {
                "name": topic["name"],
                "partitions": [
                    {
                        "partitionIndex": one["partitionIndex"],
                        "errorCode": errors[group_id, topic["name"], one["partitionIndex"]],
                    }
                    for one in topic["partitions"]
                ],
            }
            for topic in body["topics"]
        ]
    }


def _commit_error(broker: Broker, key: OffsetKey, metadata: str) -> ApiError:
    topic = broker.catalog.topics.get(key[1])
    if topic is None or not 0 <= key[2] < topic.partition_count:
        return ApiError.UNKNOWN_TOPIC_OR_PARTITION
    is_large = len(metadata.encode("utf-8", "surrogatepass")) > MOST_METADATA_BYTES
    return ApiError.OFFSET_METADATA_TOO_LARGE if is_large else ApiError.NONE


def _offset_fetch(broker: Broker, request: Request) -> Message:
    body = request.body
    error = ApiError.COORDINATOR_LOAD_IN_PROGRESS if broker.committed.is_loading else ApiError.NONE
    if request.version < _SEVERAL_GROUPS:
        topics = _offsets(broker, body["groupId"], body["topics"], error)
        return {"errorCode": error, "topics": topics}
    groups = [
        {
            "groupId": one["groupId"],
            "errorCode": error,
            "topics": _offsets(broker, one["groupId"], one["topics"], error),
        }
        for one in body["groups"]
    ]
    return {"groups": groups}


def _offsets(broker: Broker, group_id: str, asked: list[Message] | None, error: ApiError) -> list[Message]:
    """Return the offsets of the asked partitions; None asks for all. A partition without an offset has -1."""
    if error is not ApiError.NONE:
        known: dict[tuple[str, int], Commit] = {}
    else:
        known = broker.committed.of_group(group_id)
    if asked is None:
        wanted = list(offsets_in(known))
    else:
        wanted = [(topic["name"], topic["partitionIndexes"]) for topic in asked]
    return [
        {"name": name, "partitions": [_committed(known.get((name, number)), number, error) for number in numbers]}
        for name, numbers in wanted
    ]


def _committed(found: Commit | None, number: int, error: ApiError) -> Message:
    if found is None:
        found = Commit(NO_OFFSET, NO_EPOCH, "", -1)
    return {
        "partitionIndex": number, "committedOffset": found.offset, "committedLeaderEpoch": found.leader_epoch,
        "metadata": found.metadata, "errorCode": error,
    }  # fmt: skip


ANSWERS: dict[int, Answer] = {8: _commit, 9: _offset_fetch, 11: _join, 12: _heartbeat, 13: _leave, 14: _sync}
