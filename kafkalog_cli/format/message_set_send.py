"""Fetch responses of 0.7 (MessageSetSend, MultiMessageSetSend): a size, an error code, then bytes of a log."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum, unique
from typing import NamedTuple

from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.format.layout import Field, Layout

MESSAGE_SET_SEND = Layout(
    "Fetch response of 0.7, up to the messages",
    "kafka.server.MessageSetSend (0.7.2)",
    Field("size", "i", "bytes after this field: 2 and those of the messages; of several sets, of all their responses"),
    Field("error_code", "h", "0 none, -1 unknown, 1 offset out of range, 2 invalid message, 3 wrong partition, 4 size"),
)

_AFTER_SIZE = MESSAGE_SET_SEND.size - MESSAGE_SET_SEND.offset["error_code"]
MOST_BYTES = (1 << 31) - 1 - _AFTER_SIZE
"""Largest size of the messages in one response, in bytes."""


@unique
class ErrorCode(IntEnum):
    """kafka.common.ErrorMapping of 0.7."""

    UNKNOWN = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    INVALID_MESSAGE = 2
    WRONG_PARTITION = 3
    INVALID_FETCH_SIZE = 4


class MessageSetSend(NamedTuple):
    """One response: its position in the input, its error code, its messages."""

    position: int
    error_code: int
    messages: memoryview


def encode_start(messages_bytes: int, error_code: int = ErrorCode.NONE) -> bytes:
    """Return the bytes before `messages_bytes` bytes of messages.

    Raises ValueError if that is more than a response can contain.
    """
    if not 0 <= messages_bytes <= MOST_BYTES:
        raise ValueError(f"{messages_bytes} bytes do not fit into a fetch response")
    return MESSAGE_SET_SEND.struct.pack(_AFTER_SIZE + messages_bytes, error_code)


def encode_several(responses: list[bytes]) -> bytes:
    """Return a MultiMessageSetSend of complete MessageSetSends. Raises ValueError as `encode_start` does."""
    return encode_start(sum(map(len, responses))) + b"".join(responses)


def decode(data: bytes | memoryview) -> Iterator[MessageSetSend | Fault]:
    """Yield the MessageSetSends in `data`, and last a Fault if the rest is not a MessageSetSend."""
    view, position = memoryview(data), 0
    while position < len(view):
        found = _one(view, position)
        yield found
        if isinstance(found, Fault):
            return
        position += MESSAGE_SET_SEND.size + len(found.messages)


def decode_several(data: bytes | memoryview) -> Iterator[MessageSetSend | Fault]:
    """Yield the responses in one MultiMessageSetSend. Positions are in `data`."""
    whole = _one(memoryview(data), 0)
    if isinstance(whole, Fault):
        yield whole
        return
    for found in decode(whole.messages):
        if isinstance(found, Fault):
            yield Fault(found.kind, found.position + MESSAGE_SET_SEND.size, found.message, found.size_bytes)
        else:
            yield found._replace(position=found.position + MESSAGE_SET_SEND.size)


def _one(view: memoryview, position: int) -> MessageSetSend | Fault:
    left = len(view) - position
    if left < MESSAGE_SET_SEND.size:
        message = f"{left} bytes are not a fetch response"
        return Fault(FaultKind.INVALID_LENGTH, position, message, left)
    size, error_code = MESSAGE_SET_SEND.struct.unpack_from(view, position)
    begin = position + MESSAGE_SET_SEND.size
    if size < _AFTER_SIZE or begin + size - _AFTER_SIZE > len(view):
        message = f"a fetch response of {size} bytes where {left - MESSAGE_SET_SEND.offset['error_code']} follow"
        return Fault(FaultKind.INVALID_LENGTH, position, message, left)
    return MessageSetSend(position, error_code, view[begin : begin + size - _AFTER_SIZE])
