"""The requests that a listener understands, and the function that answers each API.

Requests are those of Kafka 0.8 and newer, and on a listener of its own those of 0.7.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from kafkalog_cli.format.internal_topics.decode import Spliced
from kafkalog_cli.format.internal_topics.schema import Message
from kafkalog_cli.format.protocol.errors import ApiError
from kafkalog_cli.format.protocol.messages import (
    API_VERSIONS,
    PRODUCE,
    Api,
    BadRequest,
    RequestHeader,
    apis,
    apis_for_old_clients,
    read_header,
    read_request,
    response_pieces,
)
from kafkalog_cli.ops.move.serve import (
    answer_changes,
    answer_cluster,
    answer_fetch,
    answer_groups,
    answer_offsets,
    committed,
    transactions,
)
from kafkalog_cli.ops.move.serve.answer_v07 import answer_v07, read_v07
from kafkalog_cli.ops.move.serve.broker import Answer, Broker, Caller, Request

Dialect = Callable[[Broker, Caller, bytes], list[bytes | Spliced]]
"""Answers a frame without its size by the chunks of a response. Raises BadRequest: the connection ends then."""


def of_today(broker: Broker, caller: Caller, frame: bytes) -> list[bytes | Spliced]:
    """See Dialect: the versions that Kafka 4 serves."""
    return _answered(apis(), broker, caller, frame)


def of_old_clients(broker: Broker, caller: Caller, frame: bytes) -> list[bytes | Spliced]:
    """See Dialect: requests of Kafka 0.7, and the first versions of Fetch and ListOffsets too."""
    v07 = read_v07(frame)
    if v07 is not None:
        return answer_v07(broker, v07)
    return _answered(apis_for_old_clients(), broker, caller, frame)


def _answered(served: Mapping[int, Api], broker: Broker, caller: Caller, frame: bytes) -> list[bytes | Spliced]:
    header, reader = read_header(frame, served)
    refused = _why_refused(served, header)
    if refused is not None and header.api_key == API_VERSIONS:
        return _versions(served, header, 0, ApiError.UNSUPPORTED_VERSION)
    if refused is not None:
        raise BadRequest(refused)
    api, version = served[header.api_key], header.version
    request = Request(version, read_request(api, version, reader), caller._replace(client_id=header.client_id or ""))
    if api.key == API_VERSIONS:
        return _versions(served, header, version, ApiError.NONE)
    message = ANSWERS[api.name](broker, request)
    if api.key == PRODUCE and not request.body["acks"]:
        raise BadRequest("a producer without acks gets no errors, and kafkalog serve is read-only")
    return response_pieces(api, version, header.correlation_id, message)


def _why_refused(served: Mapping[int, Api], header: RequestHeader) -> str | None:
    """Return the reason why a request is not answered, None if it is. A broker closes the connection then."""
    api = served.get(header.api_key)
    if api is None:
        return f"API {header.api_key} is not served"
    if header.version not in api.versions:
        first, last = api.versions
        return f"{api.name} v{header.version} is not served (served: v{first} to v{last})"
    return None


def _versions(served: Mapping[int, Api], header: RequestHeader, version: int, error: ApiError) -> list[bytes | Spliced]:
    """Answer ApiVersions. An unknown version is answered by version 0 and an error, with the served versions too.

    Those of Produce begin with 0, as in Kafka. Without version 0 of Produce, librdkafka would fetch in no version, and
    old clients not compress (KAFKA-18659).
    """
    keys: list[Message] = [
        {
            "apiKey": api.key,
            "minVersion": 0 if api.key == PRODUCE else api.versions.first,
            "maxVersion": api.versions.last,
        }
        for api in served.values()
    ]
    return response_pieces(served[API_VERSIONS], version, header.correlation_id, {"errorCode": error, "apiKeys": keys})


ANSWERS: Mapping[str, Answer] = MappingProxyType({
    "Metadata": answer_cluster.metadata,
    "DescribeTopicPartitions": answer_cluster.describe_topic_partitions,
    "DescribeCluster": answer_cluster.describe_cluster,
    "FindCoordinator": answer_cluster.find_coordinator,
    "Fetch": answer_fetch.fetch,
    "ListOffsets": answer_offsets.list_offsets,
    "OffsetForLeaderEpoch": answer_offsets.epoch_ends,
    "JoinGroup": answer_groups.join,
    "SyncGroup": answer_groups.sync,
    "Heartbeat": answer_groups.heartbeat,
    "LeaveGroup": answer_groups.leave,
    "ConsumerGroupHeartbeat": answer_groups.consumer_heartbeat,
    "ConsumerGroupDescribe": answer_groups.describe_consumer_groups,
    "OffsetCommit": committed.commit,
    "OffsetFetch": committed.offset_fetch,
    "ListGroups": answer_groups.list_groups,
    "DescribeGroups": answer_groups.describe_groups,
    "DescribeConfigs": answer_cluster.describe_configs,
    "DescribeLogDirs": answer_cluster.describe_log_dirs,
    "DescribeProducers": transactions.describe_producers,
    "ListTransactions": transactions.list_transactions,
    "DescribeTransactions": transactions.describe_transactions,
    "ListPartitionReassignments": answer_cluster.no_reassignments,
    "DescribeAcls": answer_cluster.no_acls,
    "Produce": answer_changes.refuse_produce,
    "InitProducerId": answer_changes.refuse_producer,
    "CreateTopics": answer_changes.refuse_create_topics,
    "DeleteTopics": answer_changes.refuse_delete_topics,
    "CreatePartitions": answer_changes.refuse_create_partitions,
    "DeleteRecords": answer_changes.refuse_delete_records,
    "AlterConfigs": answer_changes.refuse_alter_configs,
    "IncrementalAlterConfigs": answer_changes.refuse_alter_configs,
    "DeleteGroups": answer_changes.refuse_delete_groups,
    "OffsetDelete": answer_changes.refuse_offset_delete,
    "ElectLeaders": answer_changes.refuse_cluster_change,
    "AlterPartitionReassignments": answer_changes.refuse_cluster_change,
})  # fmt: skip
"""Kafka's name of each served API except for ApiVersions, and the function that answers it.

Keys, versions and schemas are those of `format/protocol/messages.json`.
"""
