"""ConsumerGroupHeartbeat and ConsumerGroupDescribe: the new consumer protocol."""

from __future__ import annotations

from collections.abc import Iterable

from kafkalog_cli.format.internal_topics.schema import Message
from kafkalog_cli.format.protocol.errors import ApiError
from kafkalog_cli.ops.serve.broker import Broker, Request
from kafkalog_cli.ops.serve.consumer_groups import (
    ASSIGNORS,
    HEARTBEAT_MS,
    ConsumerMember,
    Heartbeat,
    Place,
    TopicPattern,
)

_CONSUMER_PROTOCOL = 1
"""The type of a member that uses the new protocol."""


def heartbeat(broker: Broker, request: Request) -> Message:
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
    topics, owned = body["subscribedTopicNames"], body["topicPartitions"]
    found = broker.consumer_groups.beat(
        Heartbeat(
            body["groupId"], body["memberId"], body["memberEpoch"], body["instanceId"], body["rackId"],
            caller.client_id, caller.client_host, body["rebalanceTimeoutMs"],
            None if topics is None else frozenset(topics),
            None if owned is None
            else frozenset((one["topicId"], number) for one in owned for number in one["partitions"]),
            body["serverAssignor"], pattern,
        )
    )  # fmt: skip
    return {
        "errorCode": found.error, "errorMessage": found.message, "memberId": found.member_id,
        "memberEpoch": found.epoch, "heartbeatIntervalMs": HEARTBEAT_MS,
        "assignment": None if found.assignment is None else {"topicPartitions": _by_topic(found.assignment)},
    }  # fmt: skip


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
    return TopicPattern(text, frozenset(name for name, found in zip(names, matches.to_pylist(), strict=True) if found))


def describe(broker: Broker, request: Request) -> Message:
    """Answer groups of the new protocol by their ids."""
    return {"groups": [_described(broker, group_id) for group_id in request.distinct("groupIds")]}


def _described(broker: Broker, group_id: str) -> Message:
    group = broker.consumer_groups.groups().get(group_id)
    if group is None:
        is_known = broker.groups.describe(group_id) is not None or bool(broker.committed.of_group(group_id))
        message = f"Group {group_id} {'is not a consumer group.' if is_known else 'not found.'}"
        return {"groupId": group_id, "errorCode": ApiError.GROUP_ID_NOT_FOUND, "errorMessage": message}
    return {
        "groupId": group_id, "groupState": group.state.value, "groupEpoch": group.epoch,
        "assignmentEpoch": group.epoch, "assignorName": group.assignor,
        "members": [_member(broker, one) for one in list(group.members.values())],
    }  # fmt: skip


def _member(broker: Broker, member: ConsumerMember) -> Message:
    asked = member.asked
    return {
        "memberId": asked.member_id, "instanceId": asked.instance_id, "rackId": asked.rack,
        "memberEpoch": member.epoch, "clientId": asked.client_id, "clientHost": f"/{asked.client_host}",
        "subscribedTopicNames": sorted(member.topics), "subscribedTopicRegex": member.pattern.text or None,
        "assignment": {"topicPartitions": _named(broker, member.given)},
        "targetAssignment": {"topicPartitions": _named(broker, member.target)}, "memberType": _CONSUMER_PROTOCOL,
    }  # fmt: skip


def _named(broker: Broker, places: Iterable[Place]) -> list[Message]:
    return [{**one, "topicName": broker.catalog.by_id[one["topicId"]].name} for one in _by_topic(places)]


def _by_topic(places: Iterable[Place]) -> list[Message]:
    found: dict[str, list[int]] = {}
    for topic_id, number in sorted(places):
        found.setdefault(topic_id, []).append(number)
    return [{"topicId": topic_id, "partitions": numbers} for topic_id, numbers in found.items()]
