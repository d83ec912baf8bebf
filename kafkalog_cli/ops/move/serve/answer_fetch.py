"""Fetch: whole batches of the logs, sent from the files as they are."""

from dataclasses import dataclass

from kafkalog_cli.format.internal_topics.schema import Message
from kafkalog_cli.format.java_text import ZERO_UUID
from kafkalog_cli.format.protocol.errors import ApiError
from kafkalog_cli.ops.move.serve.broker import NO_EPOCH, NO_OFFSET, Broker, Request
from kafkalog_cli.ops.move.serve.segment_map import RecordsRange
from kafkalog_cli.ops.move.serve.served_copy import NoRecords
from kafkalog_cli.ops.move.serve.served_partition import ServedPartition

_BY_ID = 13
"""The first version in which a request names topics by their ids."""
_READ_COMMITTED = 1
_OLD_FORMATS = {0: 0, 1: 0, 2: 1, 3: 1}
"""The newest message format that clients of a version of Fetch read; a broker of Kafka 3 converted newer batches."""
_MOST_WAIT_MS = 30_000
_MOST_BYTES = 1 << 30
"""The largest response, except for its last batch: the size of a response is an int32."""
_NO_OFFSETS = {"highWatermark": NO_OFFSET, "lastStableOffset": NO_OFFSET, "logStartOffset": NO_OFFSET}
_ERRORS = {
    NoRecords.OUT_OF_RANGE: ApiError.OFFSET_OUT_OF_RANGE, NoRecords.DAMAGED: ApiError.CORRUPT_MESSAGE,
    NoRecords.CUT_OFF: ApiError.KAFKA_STORAGE_ERROR, NoRecords.NEWER_FORMAT: ApiError.UNSUPPORTED_VERSION,
}  # fmt: skip


@dataclass(slots=True)
class _Budget:
    """The bytes that a response may have, and has already."""

    most: int
    used: int = 0


def fetch(broker: Broker, request: Request) -> Message:
    """Answer batches of partitions. Without records, the answer waits as long as the client says."""
    body = request.body
    if body.get("sessionId", 0):  # no session is ever opened: the client sends all partitions each time
        return {"errorCode": ApiError.FETCH_SESSION_ID_NOT_FOUND, "responses": []}
    budget = _Budget(min(body.get("maxBytes", _MOST_BYTES), _MOST_BYTES))
    responses, has_error = [], False
    for topic in body["topics"]:
        partitions = [_partition(broker, request, topic, requested, budget) for requested in topic["partitions"]]
        has_error |= any(partition.get("errorCode", 0) for partition in partitions)
        responses.append({
            "topic": topic.get("topic", ""), "topicId": topic.get("topicId", ZERO_UUID), "partitions": partitions,
        })  # fmt: skip
    if budget.used < body["minBytes"] and not has_error and responses:
        broker.stopping.wait(max(0, min(body["maxWaitMs"], _MOST_WAIT_MS)) / 1000)
    return {"responses": responses}


def _partition(broker: Broker, request: Request, topic: Message, requested: Message, budget: _Budget) -> Message:
    number, catalog = requested["partition"], broker.catalog
    is_by_id = request.version >= _BY_ID
    served_topic = catalog.by_id.get(topic["topicId"]) if is_by_id else catalog.topics.get(topic["topic"])
    partition = None if served_topic is None else served_topic.partitions.get(number)
    if partition is None:
        is_unknown_id = is_by_id and served_topic is None
        return _failed(number, ApiError.UNKNOWN_TOPIC_ID if is_unknown_id else ApiError.UNKNOWN_TOPIC_OR_PARTITION)
    stale = epoch_error(partition, requested.get("currentLeaderEpoch", NO_EPOCH))
    if stale is not ApiError.NONE:
        return _failed(number, stale)
    try:
        return _records(partition, request, requested, budget)
    except OSError:
        return _failed(number, ApiError.KAFKA_STORAGE_ERROR)


def _records(partition: ServedPartition, request: Request, requested: Message, budget: _Budget) -> Message:
    is_committed = request.body.get("isolationLevel", 0) == _READ_COMMITTED
    end = partition.last_stable_offset if is_committed else partition.high_watermark
    offset = requested["fetchOffset"]
    most = max(0, min(requested["partitionMaxBytes"], budget.most - budget.used))
    records = partition.records(offset, end, most, first_is_whole=not budget.used)
    if isinstance(records, RecordsRange) and request.version in _OLD_FORMATS:
        records = _in_format(records, _OLD_FORMATS[request.version])
    if isinstance(records, NoRecords):
        return _failed(requested["partition"], _ERRORS[records])
    aborted: list[Message] | None = [] if is_committed else None
    if isinstance(records, RecordsRange):
        budget.used += records.size_bytes
        if aborted is not None and records.segment.is_transactional:
            aborted += [
                {"producerId": transaction.producer_id, "firstOffset": transaction.first_offset}
                for transaction in partition.aborted(offset, records.next_offset)
            ]
    return {
        "partitionIndex": requested["partition"],
        "highWatermark": partition.high_watermark,
        "lastStableOffset": partition.last_stable_offset if is_committed else NO_OFFSET,
        "logStartOffset": partition.start,
        "abortedTransactions": aborted,
        "records": b"" if records is None else records,
    }


def _in_format(part: RecordsRange, most_magic: int) -> RecordsRange | NoRecords:
    """Return the first batches up to a batch of a newer message format."""
    part = part.before(lambda batch: batch.magic > most_magic)
    return part if part.size_bytes else NoRecords.NEWER_FORMAT


def _failed(number: int, error: ApiError) -> Message:
    return {"partitionIndex": number, "errorCode": error, **_NO_OFFSETS, "abortedTransactions": [], "records": b""}


def epoch_error(partition: ServedPartition, epoch: int) -> ApiError:
    """Return the error for the leader epoch that a client knows; -1: it knows none."""
    latest = partition.leader_epoch
    if epoch in (NO_EPOCH, latest):
        return ApiError.NONE
    return ApiError.FENCED_LEADER_EPOCH if epoch < latest else ApiError.UNKNOWN_LEADER_EPOCH
