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
_PLACE = struct.Struct(">iqi")
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


class _Asked(NamedTuple):
    """A part of a request. `place` is the offset of a fetch or a time; `most` are bytes, or a number of offsets."""

    topic: str
    partition: int
    place: int
    most: int


class SevenRequest(NamedTuple):
    """A request of Kafka 0.7."""

    kind: _Kind
    asked: list[_Asked]


def read_seven(frame: bytes) -> SevenRequest | None:
    """Read a request; None if the frame is none of the three, to its last byte.

    The request of a newer client has its version where the length of a topic or a count is here, and a longer rest.
    """
    try:
        kind = _INT16.unpack_from(frame)[0]
        if kind not in set(_Kind):
            return None
        count, at = (_INT16.unpack_from(frame, 2)[0], 4) if kind == _Kind.MULTI_FETCH else (1, 2)
        asked: list[_Asked] = []
        while len(asked) < count:
            begin = at + _INT16.size
            end = begin + _INT16.unpack_from(frame, at)[0]
            if end <= begin:
                return None
            asked.append(_Asked(frame[begin:end].decode("utf-8", "replace"), *_PLACE.unpack_from(frame, end)))
            at = end + _PLACE.size
    except struct.error:
        return None
    return SevenRequest(_Kind(kind), asked) if asked and at == len(frame) else None


def answer_seven(broker: Broker, request: SevenRequest) -> list[bytes | Spliced]:
    """Answer with bytes of logs, or with offsets."""
    if request.kind is _Kind.OFFSETS:
        return [_offsets(broker, request.asked[0])]
    pieces: list[bytes | Spliced] = []
    left = _MOST_BYTES
    for asked in request.asked:
        found = _messages(broker, asked._replace(most=min(asked.most, left)))
        left -= sum(one.size_bytes for one in found if not isinstance(one, bytes))
        pieces += found
    if request.kind is _Kind.FETCH:
        return pieces
    size = sum(len(one) if isinstance(one, bytes) else one.size_bytes for one in pieces)
    return [encode_start(size), *pieces]


def _messages(broker: Broker, asked: _Asked) -> list[bytes | Spliced]:
    partition = broker.catalog.sevens.get((asked.topic, asked.partition))
    if partition is None:
        return [encode_start(0, _Error.WRONG_PARTITION)]
    try:
        found = partition.bytes_at(asked.place, asked.most)
    except OSError:
        return [encode_start(0, _Error.UNKNOWN)]
    if isinstance(found, NoRecords):
        return [encode_start(0, _ERRORS[found])]
    return [encode_start(0)] if found is None else [encode_start(found.size_bytes), found]


def _offsets(broker: Broker, asked: _Asked) -> bytes:
    partition = broker.catalog.sevens.get((asked.topic, asked.partition))
    if partition is None:
        offsets, error = [], _Error.WRONG_PARTITION
    else:
        offsets, error = partition.offsets_before(asked.place, asked.most, broker.now_ms()), _Error.NONE
    body = _COUNT.pack(len(offsets)) + struct.pack(f">{len(offsets)}q", *offsets)
    return encode_start(len(body), error) + body
