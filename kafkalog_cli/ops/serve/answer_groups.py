"""ListGroups and DescribeGroups: groups with members, and groups with offsets on the disk."""

from kafkalog_cli.format.internal_topics.schema import Message
from kafkalog_cli.format.protocol.errors import ApiError
from kafkalog_cli.ops.serve.broker import NO_OPERATIONS, Broker, Request
from kafkalog_cli.ops.serve.groups import ClassicGroup, ClassicMember, ClassicState

_CLASSIC, _CONSUMER = "classic", "consumer"


def list_groups(broker: Broker, request: Request) -> Message:
    """Answer the groups that the filters take."""
    if broker.committed.is_loading:
        return {"errorCode": ApiError.COORDINATOR_LOAD_IN_PROGRESS, "groups": []}
    live = {group.group_id: (group.state.value, group.protocol_type, _CLASSIC) for group in broker.groups.groups()}
    live |= {key: (one.state.value, _CONSUMER, _CONSUMER) for key, one in broker.consumer_groups.groups().items()}
    states = {one.lower() for one in request.body.get("statesFilter", ())}
    types = {one.lower() for one in request.body.get("typesFilter", ())}
    groups = []
    for group_id in sorted(live.keys() | broker.committed.groups()):
        state, kind, group_type = live.get(group_id, (ClassicState.EMPTY.value, _CONSUMER, _CLASSIC))
        if (not states or state.lower() in states) and (not types or group_type in types):
            found = {"groupId": group_id, "protocolType": kind or _CONSUMER, "groupState": state}
            groups.append({**found, "groupType": group_type})
    return {"groups": groups}


def describe_groups(broker: Broker, request: Request) -> Message:
    """Answer groups by their ids."""
    return {"groups": [_described(broker, group_id) for group_id in request.distinct("groups")]}


def _described(broker: Broker, group_id: str) -> Message:
    found: Message = {
        "groupId": group_id, "protocolType": "", "protocolData": "", "members": [],
        "authorizedOperations": NO_OPERATIONS,
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
