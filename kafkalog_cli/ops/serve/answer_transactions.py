"""DescribeProducers, ListTransactions, DescribeTransactions: producers in logs, and transactional ids."""

from kafkalog_cli.errors import KafkalogError
from kafkalog_cli.format.internal_topics.schema import Message
from kafkalog_cli.format.producer_snapshot import ProducerEntry
from kafkalog_cli.format.protocol.errors import ApiError
from kafkalog_cli.ops.serve.broker import Broker, Request, unknown_topic
from kafkalog_cli.ops.tables.coordinator_log import STATES, Transaction

_NO_TIME = -1
_DEAD = "Dead"


def describe_producers(broker: Broker, request: Request) -> Message:
    """Answer the producers of partitions. Unlike a broker's answer, producers that have expired are in it."""
    topics = []
    for topic in request.distinct("topics", "name"):
        found = [_producers(broker, topic["name"], number) for number in dict.fromkeys(topic["partitionIndexes"])]
        topics.append({"name": topic["name"], "partitions": found})
    return {"topics": topics}


def _producers(broker: Broker, topic: str, number: int) -> Message:
    partition = broker.catalog.find(topic, number)
    if partition is None:
        return {"partitionIndex": number, "errorCode": unknown_topic(topic)}
    try:
        found = partition.producers()
    except (KafkalogError, OSError) as error:
        return {"partitionIndex": number, "errorCode": ApiError.KAFKA_STORAGE_ERROR, "errorMessage": str(error)}
    return {"partitionIndex": number, "activeProducers": [_producer(one) for one in found]}


def _producer(entry: ProducerEntry) -> Message:
    return {
        "producerId": entry.producer_id, "producerEpoch": entry.producer_epoch, "lastSequence": entry.last_sequence,
        "lastTimestamp": entry.timestamp, "coordinatorEpoch": entry.coordinator_epoch,
        "currentTxnStartOffset": entry.current_txn_first_offset,
    }  # fmt: skip


def list_transactions(broker: Broker, request: Request) -> Message:
    """Answer the transactional ids that the filters take. Ids without an open transaction count as very old."""
    body = request.body
    states, producers = set(body["stateFilters"]), set(body["producerIdFilters"])
    shortest_ms, now_ms = body.get("durationFilter", -1), broker.now_ms()
    try:
        found = broker.transactions.by_id()
    except (KafkalogError, OSError):
        return {"errorCode": ApiError.COORDINATOR_NOT_AVAILABLE}
    return {
        "unknownStateFilters": sorted(states - {*STATES}),
        "transactionStates": [
            {"transactionalId": one.transactional_id, "producerId": one.producer_id, "transactionState": one.state}
            for one in found.values()
            if one.state != _DEAD
            and (not states or one.state in states)
            and (not producers or one.producer_id in producers)
            and (shortest_ms < 0 or now_ms - _time(one.start_timestamp) > shortest_ms)
        ],
    }


def describe_transactions(broker: Broker, request: Request) -> Message:
    """Answer transactional ids."""
    asked = request.distinct("transactionalIds")
    try:
        known = broker.transactions.by_id()
    except (KafkalogError, OSError):
        failed = ApiError.COORDINATOR_NOT_AVAILABLE
        return {"transactionStates": [{"transactionalId": one, "errorCode": failed} for one in asked]}
    return {"transactionStates": [_transaction(one, known.get(one)) for one in asked]}


def _transaction(name: str, found: Transaction | None) -> Message:
    if found is None or found.state == _DEAD:
        return {
            "transactionalId": name,
            "errorCode": ApiError.TRANSACTIONAL_ID_NOT_FOUND if name else ApiError.INVALID_REQUEST,
        }
    return {
        "transactionalId": name, "transactionState": found.state, "transactionTimeoutMs": found.timeout_ms,
        "transactionStartTimeMs": _time(found.start_timestamp), "producerId": found.producer_id,
        "producerEpoch": found.producer_epoch,
        "topics": [{"topic": one.topic, "partitions": list(one.partitions)} for one in found.partitions],
    }  # fmt: skip


def _time(time_ms: int | None) -> int:
    return _NO_TIME if time_ms is None else time_ms
