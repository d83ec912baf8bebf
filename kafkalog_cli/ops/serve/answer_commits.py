"""OffsetCommit and OffsetFetch: the committed offsets of groups."""

from kafkalog_cli.errors import Refused
from kafkalog_cli.format.internal_topics.schema import Message
from kafkalog_cli.format.protocol.errors import ApiError
from kafkalog_cli.ops.serve.broker import Broker, Request, by_topic, of_each_partition
from kafkalog_cli.ops.serve.committed import MOST_METADATA_BYTES, Commit, OffsetKey
from kafkalog_cli.ops.serve.epochs import NO_EPOCH, NO_OFFSET
from kafkalog_cli.ops.serve.groups import NO_GENERATION

_SEVERAL_GROUPS = 8
"""The first version of OffsetFetch that names several groups."""


def commit(broker: Broker, request: Request) -> Message:
    """Commit offsets."""
    body = request.body
    group_id = body["groupId"]
    epoch, member_id = body.get("generationIdOrMemberEpoch", NO_GENERATION), body.get("memberId", "")
    refused = broker.consumer_groups.may_commit(group_id, epoch, member_id)
    if refused is None:
        refused = broker.groups.may_commit(group_id, epoch, member_id, body.get("groupInstanceId"))
    if broker.committed.is_loading:
        refused = ApiError.COORDINATOR_LOAD_IN_PROGRESS
    if not group_id:
        refused = ApiError.INVALID_GROUP_ID
    taken: dict[OffsetKey, Commit] = {}
    errors: dict[OffsetKey, ApiError] = {}
    for topic in body["topics"]:
        for one in topic["partitions"]:
            key = OffsetKey(group_id, topic["name"], one["partitionIndex"])
            metadata = one["committedMetadata"] or ""
            errors[key] = refused if refused is not ApiError.NONE else _commit_error(broker, key, metadata)
            if errors[key] is ApiError.NONE:
                epoch, time_ms = one.get("committedLeaderEpoch", NO_EPOCH), one.get("commitTimestamp", -1)
                time_ms = broker.now_ms() if time_ms < 0 else time_ms
                taken[key] = Commit(one["committedOffset"], epoch, metadata, time_ms)
    if taken:
        try:
            broker.committed.commit(taken)
        except Refused:  # as a broker whose log of commits is elsewhere: clients try again
            errors |= dict.fromkeys(taken, ApiError.NOT_COORDINATOR)
    return of_each_partition(
        request, "name", lambda topic, one: {
            "partitionIndex": one["partitionIndex"],
            "errorCode": errors[OffsetKey(group_id, topic, one["partitionIndex"])],
        }
    )  # fmt: skip


def _commit_error(broker: Broker, key: OffsetKey, metadata: str) -> ApiError:
    topic = broker.catalog.topics.get(key[1])
    if topic is None or not 0 <= key[2] < topic.partition_count:
        return ApiError.UNKNOWN_TOPIC_OR_PARTITION
    is_large = len(metadata.encode("utf-8", "surrogatepass")) > MOST_METADATA_BYTES
    return ApiError.OFFSET_METADATA_TOO_LARGE if is_large else ApiError.NONE


def offset_fetch(broker: Broker, request: Request) -> Message:
    """Answer the offsets of groups."""
    body = request.body
    error = ApiError.COORDINATOR_LOAD_IN_PROGRESS if broker.committed.is_loading else ApiError.NONE
    if request.version < _SEVERAL_GROUPS:
        topics = _offsets(broker, body["groupId"], body["topics"], error)
        if request.version == 0:  # of clients that committed to ZooKeeper, which had no offset of -1
            for one in (one for topic in topics for one in topic["partitions"]):
                if one["committedOffset"] == NO_OFFSET:
                    one["errorCode"] = error or ApiError.UNKNOWN_TOPIC_OR_PARTITION
        return {"errorCode": error, "topics": topics}
    groups = [
        {
            "groupId": one["groupId"],
            "errorCode": error,
            "topics": _offsets(broker, one["groupId"], one["topics"], error),
        }
        for one in request.distinct("groups", "groupId")
    ]
    return {"groups": groups}


def _offsets(broker: Broker, group_id: str, asked: list[Message] | None, error: ApiError) -> list[Message]:
    """Return the offsets of the asked partitions; None asks for all. A partition without an offset has -1."""
    known = broker.committed.of_group(group_id) if error is ApiError.NONE else {}
    wanted = by_topic(known, "name", "partitionIndexes") if asked is None else asked
    return [
        {
            "name": one["name"],
            "partitions": [
                _committed(known.get((one["name"], number)), number, error) for number in one["partitionIndexes"]
            ],
        }
        for one in wanted
    ]


def _committed(found: Commit | None, number: int, error: ApiError) -> Message:
    if found is None:
        found = Commit(NO_OFFSET, NO_EPOCH, "", -1)
    return {
        "partitionIndex": number, "committedOffset": found.offset, "committedLeaderEpoch": found.leader_epoch,
        "metadata": found.metadata, "errorCode": error,
    }  # fmt: skip
