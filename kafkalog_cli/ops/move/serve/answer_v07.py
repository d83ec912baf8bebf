"""Fetch, MultiFetch and Offsets of Kafka 0.7: requests without a version and a correlation id, offsets that are bytes.

See kafka.api.FetchRequest, MultiFetchRequest and OffsetRequest, and kafka.server.KafkaRequestHandlers of 0.7.2.
"""

import struct
from enum import IntEnum, unique
from typing import NamedTuple

from kafkalog_cli.format.batch import encode_start
from kafkalog_cli.format.internal_topics.decode import Spliced
from kafkalog_cli.ops.move.serve.broker import Broker
from kafkalog_cli.ops.move.serve.served_copy import NoRecords

_INT16 = struct.Struct(">h")
_RANGE = struct.Struct(">iqi")
_COUNT = struct.Struct(">i")
_MOST_BYTES = 1 << 30
"""The largest response: its size is an int32."""


@unique
class _Kind(IntEnum):
    FETCH = 1
    MULTI_FETCH = 2
    OFFSETS = 4


@unique
class _Error(IntEnum):
    """Error codes of 0.7 (kafka.common.ErrorMapping)."""

    NONE = 0
    UNKNOWN = -1
    OFFSET_OUT_OF_RANGE = 1
    INVALID_MESSAGE = 2
    WRONG_PARTITION = 3


_ERRORS = {
    NoRecords.OUT_OF_RANGE: _Error.OFFSET_OUT_OF_RANGE, NoRecords.DAMAGED: _Error.INVALID_MESSAGE,
    NoRecords.CUT_OFF: _Error.UNKNOWN,
}  # fmt: skip


class _Range(NamedTuple):
    """What is requested of a partition, from an offset or a time on; `most` are bytes, or a number of offsets."""

    topic: str
    partition: int
    start: int
    most: int


class RequestV07(NamedTuple):
    """A request of Kafka 0.7."""

    kind: _Kind
    ranges: list[_Range]


def read_v07(frame: bytes) -> RequestV07 | None:
    """Read a request; None if the frame is none of the three, to its last byte.

    The request of a newer client has its version where the length of a topic or a count is here, and a longer rest.
    """
    try:
        kind = _INT16.unpack_from(frame)[0]
        if kind not in set(_Kind):
            return None
        count, at = (_INT16.unpack_from(frame, 2)[0], 4) if kind == _Kind.MULTI_FETCH else (1, 2)
        ranges: list[_Range] = []
        while len(ranges) < count:
            begin = at + _INT16.size
            end = begin + _INT16.unpack_from(frame, at)[0]
            if end <= begin:
                return None
            ranges.append(_Range(frame[begin:end].decode("utf-8", "replace"), *_RANGE.unpack_from(frame, end)))
            at = end + _RANGE.size
    except struct.error:
        return None
    return RequestV07(_Kind(kind), ranges) if ranges and at == len(frame) else None


def answer_v07(broker: Broker, request: RequestV07) -> list[bytes | Spliced]:
    """Answer with bytes of logs, or with offsets."""
    if request.kind is _Kind.OFFSETS:
        return [_offsets(broker, request.ranges[0])]
    chunks: list[bytes | Spliced] = []
    left = _MOST_BYTES
    for requested in request.ranges:
        messages = _messages(broker, requested._replace(most=min(requested.most, left)))
        left -= sum(each.size_bytes for each in messages if not isinstance(each, bytes))
        chunks += messages
    if request.kind is _Kind.FETCH:
        return chunks
    size = sum(len(each) if isinstance(each, bytes) else each.size_bytes for each in chunks)
    return [encode_start(size), *chunks]


def _messages(broker: Broker, requested: _Range) -> list[bytes | Spliced]:
    partition = broker.catalog.partitions_v07.get((requested.topic, requested.partition))
    if partition is None:
        return [encode_start(0, _Error.WRONG_PARTITION)]
    try:
        messages = partition.bytes_at(requested.start, requested.most)
    except OSError:
        return [encode_start(0, _Error.UNKNOWN)]
    if isinstance(messages, NoRecords):
        return [encode_start(0, _ERRORS[messages])]
    return [encode_start(0)] if messages is None else [encode_start(messages.size_bytes), messages]


def _offsets(broker: Broker, requested: _Range) -> bytes:
    partition = broker.catalog.partitions_v07.get((requested.topic, requested.partition))
    if partition is None:
        offsets, error = [], _Error.WRONG_PARTITION
    else:
        offsets, error = partition.offsets_before(requested.start, requested.most, broker.now_ms()), _Error.NONE
    body = _COUNT.pack(len(offsets)) + struct.pack(f">{len(offsets)}q", *offsets)
    return encode_start(len(body), error) + body
