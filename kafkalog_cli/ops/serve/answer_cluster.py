"""Metadata, DescribeCluster, FindCoordinator: one broker, which leads all partitions and coordinates all groups."""

from __future__ import annotations

from kafkalog_cli.format.internal_topics.schema import Message
from kafkalog_cli.format.kafka_uuid import ZERO_UUID
from kafkalog_cli.format.protocol.errors import ApiError
from kafkalog_cli.ops.serve.catalog import ServedTopic
from kafkalog_cli.ops.serve.dispatch import Answer, Broker, Caller, Request
from kafkalog_cli.ops.serve.epochs import NO_EPOCH

_NO_OPERATIONS = -(1 << 31)
"""The authorized operations if they are not known."""
_GROUP = 0


def _metadata(broker: Broker, request: Request) -> Message:
    asked = request.body["topics"]
    catalog = broker.catalog
    is_all = asked is None or (request.version == 0 and not asked)
    topics = (
        [_topic(broker, topic) for topic in catalog.topics.values()]
        if is_all
        else [_asked_topic(broker, one) for one in asked]
    )
    return {
        "brokers": [_node(broker, request.caller)],
        "clusterId": catalog.cluster_id,
        "controllerId": catalog.node_id,
        "topics": topics,
    }


def _asked_topic(broker: Broker, asked: Message) -> Message:
    """Return a topic by its id, or by its name if the id is zero."""
    topic_id, name = asked.get("topicId", ZERO_UUID), asked["name"]
    by_id = topic_id != ZERO_UUID
    found = broker.catalog.by_id.get(topic_id) if by_id else broker.catalog.topics.get(name or "")
    if found is not None:
        return _topic(broker, found)
    error = ApiError.UNKNOWN_TOPIC_ID if by_id else ApiError.UNKNOWN_TOPIC_OR_PARTITION
    return {"errorCode": error, "name": name or ("" if not by_id else None), "topicId": topic_id, "partitions": []}


def _topic(broker: Broker, topic: ServedTopic) -> Message:
    return {
        "name": topic.name,
        "topicId": topic.topic_id,
        "isInternal": topic.is_internal,
        "partitions": [_partition(broker, topic, number) for number in range(topic.partition_count)],
    }


def _partition(broker: Broker, topic: ServedTopic, number: int) -> Message:
    """Return a partition. One that is in no log directory has no leader: assignors count partitions from 0 on."""
    node = broker.catalog.node_id
    served = topic.partitions.get(number)
    if served is None:
        return {
            "errorCode": ApiError.LEADER_NOT_AVAILABLE, "partitionIndex": number, "leaderId": -1,
            "leaderEpoch": NO_EPOCH, "replicaNodes": [node], "isrNodes": [], "offlineReplicas": [node],
        }  # fmt: skip
    return {
        "partitionIndex": number, "leaderId": node, "leaderEpoch": served.epochs.of_leader, "replicaNodes": [node],
        "isrNodes": [node], "offlineReplicas": [],
    }  # fmt: skip


def _node(broker: Broker, caller: Caller) -> Message:
    return {"nodeId": broker.catalog.node_id, "host": caller.broker_host, "port": caller.broker_port, "rack": None}


def _describe_cluster(broker: Broker, request: Request) -> Message:
    node = _node(broker, request.caller)
    return {
        "clusterId": broker.catalog.cluster_id or "",
        "controllerId": broker.catalog.node_id,
        "brokers": [{**node, "brokerId": node["nodeId"]}],
        "clusterAuthorizedOperations": _NO_OPERATIONS,
        "endpointType": request.body.get("endpointType", 1),
    }


def _find_coordinator(broker: Broker, request: Request) -> Message:
    node = _node(broker, request.caller)
    is_group = request.body.get("keyType", _GROUP) == _GROUP
    error = ApiError.NONE if is_group else ApiError.INVALID_REQUEST
    message = None if is_group else "kafkalog serves only coordinators of groups"
    found = {**node, "errorCode": error, "errorMessage": message}
    keys = request.body.get("coordinatorKeys", [])
    return {**found, "coordinators": [{**found, "key": key} for key in keys]}


ANSWERS: dict[int, Answer] = {3: _metadata, 10: _find_coordinator, 60: _describe_cluster}
