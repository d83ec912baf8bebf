"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup: the members of classic groups."""

from kafkalog_cli.format.internal_topics.schema import Message
from kafkalog_cli.format.protocol.errors import ApiError
from kafkalog_cli.ops.serve.broker import Broker, Request
from kafkalog_cli.ops.serve.groups import Joining

_KNOWN_ID = 4
"""The first version of JoinGroup in which a member must ask for its id first."""
_SEVERAL_MEMBERS = 3
"""The first version of LeaveGroup that names several members."""


def join(broker: Broker, request: Request) -> Message:
    """Join a group; the answer waits for the other members."""
    body, caller = request.body, request.caller
    if body["groupId"] in broker.consumer_groups.groups():
        return {"errorCode": ApiError.INCONSISTENT_GROUP_PROTOCOL, "memberId": body["memberId"], "generationId": -1}
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


def sync(broker: Broker, request: Request) -> Message:
    """Take the leader's assignments, and answer the member's own."""
    body = request.body
    given = [(one["memberId"], one["assignment"]) for one in body["assignments"]]
    found = broker.groups.sync(
        body["groupId"], body["generationId"], body["memberId"], body.get("groupInstanceId"), given
    )  # fmt: skip
    return {
        "errorCode": found.error, "protocolType": found.protocol_type, "protocolName": found.protocol,
        "assignment": found.assignment,
    }  # fmt: skip


def heartbeat(broker: Broker, request: Request) -> Message:
    """Prolong a member's session."""
    body = request.body
    error = broker.groups.heartbeat(
        body["groupId"], body["generationId"], body["memberId"], body.get("groupInstanceId")
    )  # fmt: skip
    return {"errorCode": error}


def leave(broker: Broker, request: Request) -> Message:
    """Remove members."""
    body = request.body
    if request.version < _SEVERAL_MEMBERS:
        return {"errorCode": broker.groups.leave(body["groupId"], body["memberId"], None)[0]}
    members = []
    for one in body["members"]:
        error, member_id = broker.groups.leave(body["groupId"], one["memberId"], one["groupInstanceId"])
        members.append({"memberId": member_id, "groupInstanceId": one["groupInstanceId"], "errorCode": error})
    return {"members": members}
