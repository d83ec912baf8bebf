"""Produce: clients must find it among the APIs, and each request is refused."""

from __future__ import annotations

from kafkalog_cli.format.internal_topics.schema import Message
from kafkalog_cli.format.kafka_uuid import ZERO_UUID
from kafkalog_cli.format.protocol.errors import ApiError
from kafkalog_cli.ops.serve.dispatch import Answer, Broker, Request

_REASON = "kafkalog serve is read-only"


def _produce(_broker: Broker, request: Request) -> Message:
    responses = []
    for topic in request.body["topicData"]:
        refused = [
            {
                "index": one["index"], "errorCode": ApiError.TOPIC_AUTHORIZATION_FAILED, "baseOffset": -1,
                "errorMessage": _REASON,
            }
            for one in topic["partitionData"]
        ]  # fmt: skip
        responses.append({
            "name": topic.get("name", ""), "topicId": topic.get("topicId", ZERO_UUID), "partitionResponses": refused,
        })  # fmt: skip
    return {"responses": responses}


ANSWERS: dict[int, Answer] = {0: _produce}
