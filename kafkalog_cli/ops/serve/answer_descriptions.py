"""ListGroups, DescribeGroups, DescribeConfigs, DescribeLogDirs: what tools ask before they read."""

from __future__ import annotations

from collections.abc import Iterable

from kafkalog_cli.errors import KafkalogError
from kafkalog_cli.format.internal_topics.schema import Message
from kafkalog_cli.format.protocol.errors import ApiError
from kafkalog_cli.log.settings.topic_config import Origin, Setting
from kafkalog_cli.ops.serve.dispatch import Answer, Broker, Request
from kafkalog_cli.ops.serve.groups import ClassicGroup, ClassicMember, ClassicState

_NO_OPERATIONS = -(1 << 31)
_TOPIC, _BROKER = 2, 4
_SOURCES = {
    Origin.TOPIC: 1, Origin.DYNAMIC_BROKER: 2, Origin.DYNAMIC_DEFAULT_BROKER: 3, Origin.STATIC_BROKER: 4,
    Origin.DEFAULT: 5, Origin.INTERNAL_TOPIC: 1, Origin.COMMAND_LINE: 1,
}  # fmt: skip
"""The numbers of DescribeConfigsResponse.ConfigSource."""
_CONSUMER = "consumer"


def _list_groups(broker: Broker, request: Request) -> Message:
    if broker.committed.is_loading:
        return {"errorCode": ApiError.COORDINATOR_LOAD_IN_PROGRESS, "groups": []}
    live = {group.group_id: group for group in broker.groups.groups()}
    states = {one.lower() for one in request.body.get("statesFilter", ())}
    types = {one.lower() for one in request.body.get("typesFilter", ())}
    groups = []
    for group_id in sorted(live.keys() | broker.committed.groups()):
        state = live[group_id].state if group_id in live else ClassicState.EMPTY
        if (not states or state.value.lower() in states) and (not types or "classic" in types):
            kind = (live[group_id].protocol_type if group_id in live else None) or _CONSUMER
            groups.append(
                {"groupId": group_id, "protocolType": kind, "groupState": state.value, "groupType": "classic"}
            )  # fmt: skip
    return {"groups": groups}


def _describe_groups(broker: Broker, request: Request) -> Message:
    return {"groups": [_described(broker, group_id) for group_id in request.body["groups"]]}


def _described(broker: Broker, group_id: str) -> Message:
    found: Message = {
        "groupId": group_id, "protocolType": "", "protocolData": "", "members": [],
        "authorizedOperations": _NO_OPERATIONS,
    }  # fmt: skip
    if broker.committed.is_loading:
        return {**found, "errorCode": ApiError.COORDINATOR_LOAD_IN_PROGRESS, "groupState": ""}
    group = broker.groups.describe(group_id)
    if group is not None and group.members:
        return {
            **found, "groupState": group.state.value, "protocolType": group.protocol_type or "",
            "protocolData": group.protocol or "",
            "members": [_member(group, one) for one in list(group.members.values())],
        }  # fmt: skip
    is_known = bool(broker.committed.of_group(group_id))
    state = ClassicState.EMPTY if is_known else ClassicState.DEAD
    return {**found, "groupState": state.value, "protocolType": _CONSUMER if is_known else ""}


def _member(group: ClassicGroup, member: ClassicMember) -> Message:
    return {
        "memberId": member.member_id, "groupInstanceId": member.joining.instance_id,
        "clientId": member.joining.client_id, "clientHost": f"/{member.joining.client_host}",
        "memberMetadata": member.metadata(group.protocol or ""), "memberAssignment": member.assignment,
    }  # fmt: skip


def _describe_configs(broker: Broker, request: Request) -> Message:
    return {"results": [_configs_of(broker, asked) for asked in request.body["resources"]]}


def _configs_of(broker: Broker, asked: Message) -> Message:
    kind, name = asked["resourceType"], asked["resourceName"]
    result: Message = {"resourceType": kind, "resourceName": name, "errorMessage": None, "configs": []}
    try:
        settings = _settings(broker, kind, name)
    except KafkalogError as error:
        return {**result, "errorCode": ApiError.UNKNOWN_SERVER_ERROR, "errorMessage": str(error)}
    if settings is None:
        missing = ApiError.UNKNOWN_TOPIC_OR_PARTITION if kind == _TOPIC else ApiError.INVALID_REQUEST
        return {**result, "errorCode": missing, "errorMessage": f"{name} is not served"}
    keys = asked["configurationKeys"]
    return {**result, "configs": [_config(one) for one in settings if keys is None or one.name in keys]}


def _settings(broker: Broker, kind: int, name: str) -> Iterable[Setting] | None:
    """Return the settings of a topic, or of this broker; None for anything else."""
    topic = broker.catalog.topics.get(name) if kind == _TOPIC else None
    if topic is not None:
        log_dir = next(iter(topic.partitions.values())).copy.partition.path.rpartition("/")[0]
        return broker.catalog.settings.topic_config(log_dir, name).values()
    if kind == _BROKER and name in ("", str(broker.catalog.node_id)):
        return broker.catalog.settings.broker_settings(broker.catalog.log_dirs.replicas.log_dirs[0]).values()
    return None


def _config(setting: Setting) -> Message:
    return {
        "name": setting.name, "value": setting.text, "readOnly": True, "configSource": _SOURCES[setting.origin],
        "isSensitive": False, "synonyms": [], "documentation": None,
    }  # fmt: skip


def _describe_log_dirs(broker: Broker, request: Request) -> Message:
    asked = request.body["topics"]
    wanted = None if asked is None else {topic["topic"]: set(topic["partitions"]) for topic in asked}
    results = []
    for log_dir in broker.catalog.log_dirs.replicas.log_dirs:
        topics: dict[str, list[Message]] = {}
        for copy in broker.catalog.copies_in(log_dir):
            name, number = copy.partition.topic, copy.partition.number
            if wanted is None or number in wanted.get(name, ()):
                size = sum(segment.log.size_bytes for segment in copy.partition.segments)
                topics.setdefault(name, []).append({"partitionIndex": number, "partitionSize": size})
        found = [{"name": name, "partitions": partitions} for name, partitions in topics.items()]
        results.append({"logDir": log_dir, "topics": found})
    return {"results": results}


ANSWERS: dict[int, Answer] = {
    15: _describe_groups, 16: _list_groups, 32: _describe_configs, 35: _describe_log_dirs,
}  # fmt: skip
