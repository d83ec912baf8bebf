"""Requests about the cluster: one broker, which leads all partitions, with its topics, settings and log directories."""

from collections.abc import Iterable

from kafkalog_cli.errors import KafkalogError
from kafkalog_cli.format.internal_topics.records import COORDINATOR_TOPICS
from kafkalog_cli.format.internal_topics.schema import Message
from kafkalog_cli.format.java_text import ZERO_UUID
from kafkalog_cli.format.protocol.errors import ApiError
from kafkalog_cli.log.settings.topic_config import Origin, Setting
from kafkalog_cli.log.settings.topic_config_table import BROKER_KEYS, TOPIC_KEYS
from kafkalog_cli.ops.cluster.cluster_entries import is_sensitive
from kafkalog_cli.ops.move.serve.broker import NO_EPOCH, NO_OPERATIONS, Broker, Caller, Request, unknown_topic
from kafkalog_cli.ops.move.serve.catalog import ServedTopic

_COORDINATED = {0: "groups", 1: "transactions"}
"""The types of keys that have a coordinator here."""
_BROKERS, _CONTROLLERS = 1, 2
"""The types of endpoints (EndpointType)."""
_NO_ELR: Message = {"eligibleLeaderReplicas": [], "lastKnownElr": []}
_MOST_PARTITIONS = 2000
"""The largest number of partitions in a response of DescribeTopicPartitions (max.request.partition.size.limit)."""


def metadata(broker: Broker, request: Request) -> Message:
    """Answer the requested topics, or all."""
    requested = request.body["topics"]
    catalog = broker.catalog
    is_all = requested is None or (request.version == 0 and not requested)
    topics = (
        [_topic(broker, topic) for topic in catalog.topics.values()]
        if is_all
        else [_requested_topic(broker, topic) for topic in request.distinct("topics", "name", "topicId")]
    )
    return {
        "brokers": [_node(broker, request.caller)],
        "clusterId": catalog.cluster_id,
        "controllerId": catalog.node_id,
        "topics": topics,
    }


def _requested_topic(broker: Broker, requested: Message) -> Message:
    """Return a topic by its id, or by its name if the id is zero."""
    topic_id, name = requested.get("topicId", ZERO_UUID), requested["name"]
    by_id = topic_id != ZERO_UUID
    topic = broker.catalog.by_id.get(topic_id) if by_id else broker.catalog.topics.get(name or "")
    if topic is not None:
        return _topic(broker, topic)
    error = ApiError.UNKNOWN_TOPIC_ID if by_id else unknown_topic(name)
    return {
        "errorCode": error, "name": name or ("" if not by_id else None), "topicId": topic_id,
        "isInternal": name in COORDINATOR_TOPICS, "partitions": [],
    }  # fmt: skip


def _topic(broker: Broker, topic: ServedTopic) -> Message:
    return {
        "name": topic.name,
        "topicId": topic.topic_id,
        "isInternal": topic.name in COORDINATOR_TOPICS,
        "partitions": [_partition(broker, topic, number) for number in range(topic.partition_count)],
    }


def _partition(broker: Broker, topic: ServedTopic, number: int) -> Message:
    """Return a partition. One that is in no log directory has no leader: assignors count partitions from 0 on."""
    node = broker.catalog.node_id
    partition: Message = {"partitionIndex": number, "replicaNodes": [node], **_NO_ELR}
    served = topic.partitions.get(number)
    if served is None:
        return {
            **partition, "errorCode": ApiError.LEADER_NOT_AVAILABLE, "leaderId": -1, "leaderEpoch": NO_EPOCH,
            "isrNodes": [], "offlineReplicas": [node],
        }  # fmt: skip
    return {
        **partition, "leaderId": node, "leaderEpoch": served.leader_epoch, "isrNodes": [node], "offlineReplicas": [],
    }  # fmt: skip


def describe_topic_partitions(broker: Broker, request: Request) -> Message:
    """Answer topics by name, a limited number of partitions at a time: the next request continues at the cursor."""
    body, catalog = request.body, broker.catalog
    cursor = body["cursor"] or {"topicName": "", "partitionIndex": 0}
    left = max(1, min(body["responsePartitionLimit"], _MOST_PARTITIONS))
    topics: list[Message] = []
    for name in sorted({topic["name"] for topic in body["topics"]} or catalog.topics):
        if name < cursor["topicName"]:
            continue
        if not left:
            return {"topics": topics, "nextCursor": {"topicName": name, "partitionIndex": 0}}
        topic = _requested_topic(broker, {"name": name})
        first = max(0, cursor["partitionIndex"]) if name == cursor["topicName"] else 0
        whole = topic["partitions"]
        topics.append({**topic, "partitions": whole[first : first + left]})
        if first + left < len(whole):
            return {"topics": topics, "nextCursor": {"topicName": name, "partitionIndex": first + left}}
        left -= max(0, len(whole) - first)
    return {"topics": topics, "nextCursor": None}


def _node(broker: Broker, caller: Caller) -> Message:
    return {"nodeId": broker.catalog.node_id, "host": caller.broker_host, "port": caller.broker_port, "rack": None}


def describe_cluster(broker: Broker, request: Request) -> Message:
    """Answer this broker, which is the controller too, but has no endpoint of a controller."""
    node, kind = _node(broker, request.caller), request.body.get("endpointType", _BROKERS)
    cluster: Message = {
        "clusterId": broker.catalog.cluster_id or "",
        "controllerId": broker.catalog.node_id,
        "brokers": [{**node, "brokerId": node["nodeId"]}],
        "clusterAuthorizedOperations": NO_OPERATIONS,
        "endpointType": _BROKERS,
    }
    if kind == _BROKERS:
        return cluster
    error, message = ApiError.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {kind}"
    if kind == _CONTROLLERS:
        error = ApiError.MISMATCHED_ENDPOINT_TYPE
        message = "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
    return {**cluster, "errorCode": error, "errorMessage": message, "clusterId": "", "controllerId": -1, "brokers": []}


def find_coordinator(broker: Broker, request: Request) -> Message:
    """Answer this broker as the coordinator of any group and transactional id."""
    node = _node(broker, request.caller)
    is_known = request.body.get("keyType", 0) in _COORDINATED
    error = ApiError.NONE if is_known else ApiError.INVALID_REQUEST
    message = None if is_known else f"kafkalog serves only coordinators of {' and '.join(_COORDINATED.values())}"
    coordinator = {**node, "errorCode": error, "errorMessage": message}
    keys = request.body.get("coordinatorKeys", [])
    return {**coordinator, "coordinators": [{**coordinator, "key": key} for key in keys]}


def no_reassignments(_broker: Broker, _request: Request) -> Message:
    """Answer that no partition moves."""
    return {"errorMessage": None, "topics": []}


def no_acls(_broker: Broker, _request: Request) -> Message:
    """Answer as a broker without an authorizer."""
    reason = "No Authorizer is configured on the broker"
    return {"errorCode": ApiError.SECURITY_DISABLED, "errorMessage": reason, "resources": []}


_TOPIC, _BROKER, _CLIENT_METRICS, _GROUP = 2, 4, 16, 32
_SOURCES = {
    Origin.TOPIC: 1, Origin.DYNAMIC_BROKER: 2, Origin.DYNAMIC_DEFAULT_BROKER: 3, Origin.STATIC_BROKER: 4,
    Origin.DEFAULT: 5, Origin.INTERNAL_TOPIC: 1, Origin.COMMAND_LINE: 1,
}  # fmt: skip
"""The numbers of DescribeConfigsResponse.ConfigSource."""
_DYNAMIC_SOURCES = {_BROKER: 3, _CLIENT_METRICS: 7, _GROUP: 8}
"""The same of settings that only the metadata log has: the defaults of all brokers, client metrics, groups."""


def describe_configs(broker: Broker, request: Request) -> Message:
    """Answer settings, each with its source."""
    return {
        "results": [
            _configs_of(broker, requested)
            for requested in request.distinct("resources", "resourceType", "resourceName")
        ]
    }


def _configs_of(broker: Broker, requested: Message) -> Message:
    kind, name = requested["resourceType"], requested["resourceName"]
    result: Message = {"resourceType": kind, "resourceName": name, "errorMessage": None, "configs": []}
    try:
        settings = _settings(broker, kind, name)
    except KafkalogError as error:
        return {**result, "errorCode": ApiError.UNKNOWN_SERVER_ERROR, "errorMessage": str(error)}
    if settings is None:
        missing = unknown_topic(name) if kind == _TOPIC else ApiError.INVALID_REQUEST
        return {**result, "errorCode": missing, "errorMessage": f"{name} is not served"}
    keys = requested["configurationKeys"]
    return {**result, "configs": [_config(*setting) for setting in settings if keys is None or setting[0] in keys]}


def _settings(broker: Broker, kind: int, name: str) -> Iterable[tuple[str, str | None, int]] | None:
    """Return settings as name, value and number of their source; None for a topic or broker that is not served."""
    settings, log_dir = broker.catalog.settings, broker.catalog.log_dirs.log_dirs[0]
    own: Iterable[Setting] = ()
    topic = broker.catalog.topics.get(name) if kind == _TOPIC else None
    if topic is not None:
        log_dir = next(iter(topic.partitions.values())).copy.path.rpartition("/")[0]
        own = [setting for setting in settings.topic_config(log_dir, name).values() if setting.name in TOPIC_KEYS]
    elif kind == _BROKER and name == str(broker.catalog.node_id):
        own = [setting for setting in settings.topic_config(log_dir, "").values() if setting.name in BROKER_KEYS]
    elif kind in {_CLIENT_METRICS, _GROUP} or (kind == _BROKER and not name):
        metadata = settings.metadata(log_dir)
        dynamic = {} if metadata is None else metadata.configs.get((kind, name), {})
        return [(key, text, _DYNAMIC_SOURCES[kind]) for key, text in sorted(dynamic.items())]
    else:
        return None
    return [(setting.name, setting.text, _SOURCES[setting.origin]) for setting in own]


def _config(name: str, value: str | None, source: int) -> Message:
    is_secret = is_sensitive(name)
    return {
        "name": name, "value": None if is_secret else value, "readOnly": True, "configSource": source,
        "isSensitive": is_secret, "synonyms": [], "documentation": None,
    }  # fmt: skip


def describe_log_dirs(broker: Broker, request: Request) -> Message:
    """Answer the log directories with the copies of served partitions in them."""
    requested, log_dirs = request.body["topics"], broker.catalog.log_dirs
    numbers_by_topic = None if requested is None else {topic["topic"]: set(topic["partitions"]) for topic in requested}
    by_log_dir: dict[str, dict[str, list[Message]]] = {path.rstrip("/"): {} for path in log_dirs.log_dirs}
    for topic in broker.catalog.topics.values():
        for number in topic.partitions:
            for copy in log_dirs.copies(topic.name, number):
                if numbers_by_topic is None or number in numbers_by_topic.get(topic.name, ()):
                    size = sum(segment.log.size_bytes for segment in copy.segments)
                    of_topic = by_log_dir[copy.path.rpartition("/")[0]].setdefault(topic.name, [])
                    of_topic.append({"partitionIndex": number, "partitionSize": size})
    return {
        "results": [
            {
                "logDir": log_dir,
                "topics": [{"name": name, "partitions": partitions} for name, partitions in topics.items()],
            }
            for log_dir, topics in zip(log_dirs.log_dirs, by_log_dir.values(), strict=True)
        ]
    }
