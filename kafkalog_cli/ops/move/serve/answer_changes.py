"""Changes are refused with the error that a broker answers to a client that is not authorized to make them."""

from collections.abc import Iterable

from kafkalog_cli.format.internal_topics.schema import Message
from kafkalog_cli.format.java_text import ZERO_UUID
from kafkalog_cli.format.protocol.errors import ApiError
from kafkalog_cli.ops.move.serve.broker import Answer, Broker, Request, of_each_partition

_REASON = "kafkalog serve is read-only"
_OF_TOPIC = {"errorCode": ApiError.TOPIC_AUTHORIZATION_FAILED, "errorMessage": _REASON}
_OF_GROUP = {"errorCode": ApiError.GROUP_AUTHORIZATION_FAILED, "errorMessage": _REASON}
_OF_CLUSTER = {"errorCode": ApiError.CLUSTER_AUTHORIZATION_FAILED, "errorMessage": _REASON}
_OF_TRANSACTION = {"errorCode": ApiError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}


def _each(asked: str, answered: str, fields: Iterable[str], refused: Message) -> Answer:
    """Return an answer with an error per element of the request's array; `fields` are in both elements."""

    def refuse(_broker: Broker, request: Request) -> Message:
        elements = request.body[asked]
        return {answered: [{**refused, **{field: element[field] for field in fields}} for element in elements]}

    return refuse


refuse_create_topics = _each("topics", "topics", ["name"], _OF_TOPIC)
refuse_create_partitions = _each("topics", "results", ["name"], _OF_TOPIC)
refuse_alter_configs = _each("resources", "responses", ["resourceType", "resourceName"], _OF_CLUSTER)


def refuse_cluster_change(_broker: Broker, _request: Request) -> Message:
    """Refuse a change with one error for the whole request."""
    return _OF_CLUSTER


def refuse_offset_delete(_broker: Broker, _request: Request) -> Message:
    """Refuse to delete committed offsets."""
    return _OF_GROUP


def refuse_delete_groups(_broker: Broker, request: Request) -> Message:
    """Refuse to delete groups."""
    return {"results": [{"groupId": group_id, **_OF_GROUP} for group_id in request.body["groupsNames"]]}


def refuse_delete_topics(_broker: Broker, request: Request) -> Message:
    """Refuse to delete topics, which are named by their names or, since version 6, by their ids."""
    named = [{"name": name} for name in request.body.get("topicNames", ())]
    return {"responses": [{**topic, **_OF_TOPIC} for topic in (*named, *request.body.get("topics", ()))]}


def refuse_delete_records(_broker: Broker, request: Request) -> Message:
    """Refuse to delete records."""
    return of_each_partition(request, "name", lambda _, partition: {**partition, "lowWatermark": -1, **_OF_TOPIC})


def refuse_producer(_broker: Broker, request: Request) -> Message:
    """Refuse a producer id."""
    return {**(_OF_CLUSTER if request.body["transactionalId"] is None else _OF_TRANSACTION), "producerId": -1}


def refuse_produce(_broker: Broker, request: Request) -> Message:
    """Refuse records. Clients must find Produce among the APIs: librdkafka fetches from no broker without it."""
    return {
        "responses": [
            {
                "name": topic.get("name", ""),
                "topicId": topic.get("topicId", ZERO_UUID),
                "partitionResponses": [
                    {"index": partition["index"], "baseOffset": -1, **_OF_TOPIC} for partition in topic["partitionData"]
                ],
            }
            for topic in request.body["topicData"]
        ]
    }
