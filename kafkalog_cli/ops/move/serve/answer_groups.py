"""The groups of consumers: their lists and descriptions, and the requests of classic and of new members."""

from collections.abc import Iterable

from kafkalog_cli.format.internal_topics.schema import Message
from kafkalog_cli.format.protocol.errors import ApiError
from kafkalog_cli.ops.move.serve.broker import NO_OPERATIONS, Broker, Request, by_topic
from kafkalog_cli.ops.move.serve.consumer_groups import (
    ASSIGNORS,
    ConsumerMember,
    TopicIdPartition,
    TopicPattern,
)
from kafkalog_cli.ops.move.serve.groups import ClassicGroup, ClassicMember, LiveState, not_joined

_CLASSIC, _CONSUMER = "classic", "consumer"


def list_groups(broker: Broker, request: Request) -> Message:
    """Answer the groups that the filters take."""
    if broker.committed.is_loading:
        return {"errorCode": ApiError.COORDINATOR_LOAD_IN_PROGRESS, "groups": []}
    live = {group.group_id: (group.state.value, group.protocol_type, _CLASSIC) for group in broker.groups.groups()}
    live |= {
        group_id: (group.state.value, _CONSUMER, _CONSUMER)
        for group_id, group in broker.consumer_groups.groups().items()
    }
    states = {word.lower() for word in request.body.get("statesFilter", ())}
    types = {word.lower() for word in request.body.get("typesFilter", ())}
    groups = []
    for group_id in sorted(live.keys() | broker.committed.groups()):
        state, kind, group_type = live.get(group_id, (LiveState.EMPTY.value, _CONSUMER, _CLASSIC))
        if (not states or state.lower() in states) and (not types or group_type in types):
            listed = {"groupId": group_id, "protocolType": kind or _CONSUMER, "groupState": state}
            groups.append({**listed, "groupType": group_type})
    return {"groups": groups}


def describe_groups(broker: Broker, request: Request) -> Message:
    """Answer groups by their ids."""
    return {"groups": [_classic_described(broker, group_id) for group_id in request.distinct("groups")]}


def _classic_described(broker: Broker, group_id: str) -> Message:
    description: Message = {
        "groupId": group_id, "protocolType": "", "protocolData": "", "members": [],
        "authorizedOperations": NO_OPERATIONS,
    }  # fmt: skip
    if broker.committed.is_loading:
        return {**description, "errorCode": ApiError.COORDINATOR_LOAD_IN_PROGRESS, "groupState": ""}
    group = broker.groups.describe(group_id)
    if group is not None and group.members:
        return {
            **description, "groupState": group.state.value, "protocolType": group.protocol_type or "",
            "protocolData": group.protocol or "",
            "members": [_classic_member(group, member) for member in list(group.members.values())],
        }  # fmt: skip
    is_known = bool(broker.committed.of_group(group_id))
    state = LiveState.EMPTY if is_known else LiveState.DEAD
    return {**description, "groupState": state.value, "protocolType": _CONSUMER if is_known else ""}


def _classic_member(group: ClassicGroup, member: ClassicMember) -> Message:
    return {
        "memberId": member.member_id, "groupInstanceId": member.instance_id,
        "clientId": member.client_id, "clientHost": f"/{member.client_host}",
        "memberMetadata": member.metadata(group.protocol or ""), "memberAssignment": member.assignment,
    }  # fmt: skip


_KNOWN_ID = 4
"""The first version of JoinGroup in which a member must ask for its id first."""
_NO_PROTOCOL = 7
"""The first version of JoinGroup whose answer has null where there is no protocol."""
_SEVERAL_MEMBERS = 3
"""The first version of LeaveGroup that names several members."""


def join(broker: Broker, request: Request) -> Message:
    """Join a group; the answer waits for the other members."""
    body, caller = request.body, request.caller
    if body["groupId"] in broker.consumer_groups.groups():
        return not_joined(ApiError.INCONSISTENT_GROUP_PROTOCOL, body["memberId"])
    needs_known_id = request.version >= _KNOWN_ID
    response = broker.groups.join(body, caller.client_id, caller.client_host, needs_known_id=needs_known_id)
    return {"protocolName": None if request.version >= _NO_PROTOCOL else "", **response}


def sync(broker: Broker, request: Request) -> Message:
    """Take the leader's assignments, and answer the member's own."""
    return broker.groups.sync(request.body)


def heartbeat(broker: Broker, request: Request) -> Message:
    """Prolong a member's session."""
    return broker.groups.heartbeat(request.body)


def leave(broker: Broker, request: Request) -> Message:
    """Remove members."""
    body = request.body
    if request.version < _SEVERAL_MEMBERS:
        return {"errorCode": broker.groups.leave(body["groupId"], body["memberId"], None)[0]}
    members = []
    for member in body["members"]:
        error, member_id = broker.groups.leave(body["groupId"], member["memberId"], member["groupInstanceId"])
        members.append({"memberId": member_id, "groupInstanceId": member["groupInstanceId"], "errorCode": error})
    return {"members": members}


_CONSUMER_PROTOCOL = 1
"""The type of a member that uses the new protocol."""


def consumer_heartbeat(broker: Broker, request: Request) -> Message:
    """Take a heartbeat, which may join or leave the group; the answer has the member's partitions if they changed."""
    body, caller = request.body, request.caller
    if body["serverAssignor"] not in (None, *ASSIGNORS):
        message = f"the assignors are {' and '.join(ASSIGNORS)}"
        return {"errorCode": ApiError.UNSUPPORTED_ASSIGNOR, "errorMessage": message}
    try:
        pattern = _pattern(broker, body.get("subscribedTopicRegex"))
    except ValueError as error:
        return {"errorCode": ApiError.INVALID_REGULAR_EXPRESSION, "errorMessage": str(error)}
    classic = broker.groups.describe(body["groupId"])
    if classic is not None and classic.members:
        message = f"Group {body['groupId']} is not a consumer group."
        return {"errorCode": ApiError.GROUP_ID_NOT_FOUND, "errorMessage": message}
    return broker.consumer_groups.heartbeat(body, pattern, caller.client_id, caller.client_host)


def _pattern(broker: Broker, text: str | None) -> TopicPattern | None:
    """Return a pattern with its topics. Raises ValueError for an invalid expression, or without PyArrow.

    PyArrow has RE2, as Kafka has RE2/J: its time is linear. An expression of Python could stop all clients.
    """
    if not text:
        return None if text is None else TopicPattern()
    try:
        import pyarrow as pa
        from pyarrow.compute import match_substring_regex
    except ImportError:
        raise ValueError(
            "kafkalog serve takes regular expressions with PyArrow only: pip install 'kafkalog-cli[arrow]'"
        ) from None
    try:
        match_substring_regex(pa.array([""]), text)  # "a)(b" is not an expression
        names = [*broker.catalog.topics]
        matches = match_substring_regex(pa.array(names, pa.string()), rf"\A(?:{text})\z")
    except (pa.ArrowInvalid, UnicodeError) as error:
        reason = f"SubscribedTopicRegex `{text}` is not a valid regular expression: {error}."
        raise ValueError(reason.encode("utf-8", "replace").decode()) from error
    return TopicPattern(
        text, frozenset(name for name, is_match in zip(names, matches.to_pylist(), strict=True) if is_match)
    )


def describe_consumer_groups(broker: Broker, request: Request) -> Message:
    """Answer groups of the new protocol by their ids."""
    return {"groups": [_consumer_described(broker, group_id) for group_id in request.distinct("groupIds")]}


def _consumer_described(broker: Broker, group_id: str) -> Message:
    group = broker.consumer_groups.groups().get(group_id)
    if group is None:
        is_known = broker.groups.describe(group_id) is not None or bool(broker.committed.of_group(group_id))
        message = f"Group {group_id} {'is not a consumer group.' if is_known else 'not found.'}"
        return {"groupId": group_id, "errorCode": ApiError.GROUP_ID_NOT_FOUND, "errorMessage": message}
    return {
        "groupId": group_id, "groupState": group.state.value, "groupEpoch": group.epoch,
        "assignmentEpoch": group.epoch, "assignorName": group.assignor,
        "members": [_consumer_member(broker, member) for member in list(group.members.values())],
    }  # fmt: skip


def _consumer_member(broker: Broker, member: ConsumerMember) -> Message:
    return {
        "memberId": member.member_id, "instanceId": member.instance_id, "rackId": member.joining["rackId"],
        "memberEpoch": member.epoch, "clientId": member.client_id, "clientHost": f"/{member.client_host}",
        "subscribedTopicNames": sorted(member.topics), "subscribedTopicRegex": member.pattern.text or None,
        "assignment": {"topicPartitions": _named(broker, member.assigned)},
        "targetAssignment": {"topicPartitions": _named(broker, member.target)}, "memberType": _CONSUMER_PROTOCOL,
    }  # fmt: skip


def _named(broker: Broker, partitions: Iterable[TopicIdPartition]) -> list[Message]:
    return [{**topic, "topicName": broker.catalog.by_id[topic["topicId"]].name} for topic in by_topic(partitions)]
