"""ListOffsets and OffsetForLeaderEpoch: offsets by time, the ends of a log, and the ends of leader epochs."""

from collections import Counter
from functools import partial
from typing import NamedTuple

from kafkalog_cli.errors import KafkalogError
from kafkalog_cli.format.internal_topics.schema import Message
from kafkalog_cli.format.protocol.errors import ApiError
from kafkalog_cli.ops.look.lookup_offset import Found
from kafkalog_cli.ops.look.lookup_time import EARLIEST, LATEST
from kafkalog_cli.ops.move.serve.answer_fetch import epoch_error
from kafkalog_cli.ops.move.serve.broker import NO_EPOCH, NO_OFFSET, Broker, Request, of_each_partition
from kafkalog_cli.ops.move.serve.served_partition import ServedPartition

_LARGEST_TIME, _EARLIEST_LOCAL, _LATEST_TIERED, _EARLIEST_PENDING = -3, -4, -5, -6
_SINCE = {_LARGEST_TIME: 7, _EARLIEST_LOCAL: 8, _LATEST_TIERED: 9, _EARLIEST_PENDING: 11}
"""The first version of a request with these words for an offset."""
_NO_TIMESTAMP = -1
_READ_COMMITTED = 1


class _Answer(NamedTuple):
    offset: int = NO_OFFSET
    timestamp: int = _NO_TIMESTAMP
    error: ApiError = ApiError.NONE


def list_offsets(broker: Broker, request: Request) -> Message:
    """Answer the first or last offset, or an offset by time. A broker refuses a partition that is requested twice."""
    request_counts = Counter(
        (topic["name"], partition["partitionIndex"])
        for topic in request.body["topics"]
        for partition in topic["partitions"]
    )

    def answer(topic: str, requested: Message) -> Message:
        if request_counts[topic, requested["partitionIndex"]] > 1:
            return _response(requested["partitionIndex"], _Answer(error=ApiError.INVALID_REQUEST))
        return _offset(broker, request, topic, requested)

    return of_each_partition(request, "name", answer)


def _offset(broker: Broker, request: Request, topic: str, requested: Message) -> Message:
    number = requested["partitionIndex"]
    partition = broker.catalog.find(topic, number)
    if partition is None:
        return _response(number, _Answer(error=ApiError.UNKNOWN_TOPIC_OR_PARTITION))
    error = epoch_error(partition, requested.get("currentLeaderEpoch", NO_EPOCH))
    if error is not ApiError.NONE:
        return _response(number, _Answer(error=error))
    if not request.version:
        return {**_response(number, _Answer()), "oldStyleOffsets": _offsets_before(broker, partition, requested)}
    try:
        answer = _look_up(partition, request, requested["timestamp"])
    except (KafkalogError, OSError):
        return _response(number, _Answer(error=ApiError.KAFKA_STORAGE_ERROR))
    if answer.offset < 0:
        return _response(number, answer)
    # For the end, Partition.fetchOffsetForTimestamp answers the leader's epoch, whatever the offset's own is.
    epoch = partition.leader_epoch if requested["timestamp"] == LATEST else partition.epochs.epoch_of(answer.offset)
    return {**_response(number, answer), "leaderEpoch": NO_EPOCH if epoch is None else epoch}


def _offsets_before(broker: Broker, partition: ServedPartition, requested: Message) -> list[int]:
    """Return the offsets for version 0, with the high watermark in place of later offsets."""
    offsets = partition.offsets_before(requested["timestamp"], requested["maxNumOffsets"], broker.now_ms())
    below = [offset for offset in offsets if offset <= partition.high_watermark]
    return below if below == offsets else [partition.high_watermark, *below]


def _look_up(partition: ServedPartition, request: Request, timestamp: int) -> _Answer:
    if request.version < _SINCE.get(timestamp, 0):
        return _Answer(error=ApiError.UNSUPPORTED_VERSION)
    if timestamp in (EARLIEST, _EARLIEST_LOCAL):
        return _Answer(partition.start)
    if timestamp in (_LATEST_TIERED, _EARLIEST_PENDING):
        return _Answer()
    if timestamp < _LARGEST_TIME:
        return _Answer(error=ApiError.INVALID_REQUEST)
    is_committed = request.body.get("isolationLevel", 0) == _READ_COMMITTED
    end = partition.last_stable_offset if is_committed else partition.high_watermark
    if timestamp == LATEST:
        return _Answer(end)
    record = partition.latest() if timestamp == _LARGEST_TIME else partition.first_at(timestamp)
    return _below(record, end)


def _below(record: Found | None, end: int) -> _Answer:
    """Return the place of a record if a consumer can fetch it, else no offset."""
    offset = None if record is None else record.record_offset
    if record is None or offset is None or offset >= end:
        return _Answer()
    return _Answer(offset, _NO_TIMESTAMP if record.record_timestamp is None else record.record_timestamp)


def _response(number: int, answer: _Answer) -> Message:
    return {
        "partitionIndex": number, "errorCode": answer.error, "timestamp": answer.timestamp, "offset": answer.offset,
        "leaderEpoch": NO_EPOCH, "oldStyleOffsets": [],
    }  # fmt: skip


def epoch_ends(broker: Broker, request: Request) -> Message:
    """Answer where leader epochs end."""
    return of_each_partition(request, "topic", partial(_epoch_end, broker))


def _epoch_end(broker: Broker, topic: str, requested: Message) -> Message:
    number = requested["partition"]
    partition = broker.catalog.find(topic, number)
    if partition is None:
        return {"errorCode": ApiError.UNKNOWN_TOPIC_OR_PARTITION, "partition": number}
    error = epoch_error(partition, requested.get("currentLeaderEpoch", NO_EPOCH))
    if error is not ApiError.NONE:
        return {"errorCode": error, "partition": number}
    epoch, end = partition.epochs.end_of(requested["leaderEpoch"], partition.end) or (NO_EPOCH, NO_OFFSET)
    return {"partition": number, "leaderEpoch": epoch, "endOffset": end}
