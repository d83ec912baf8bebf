"""Fetch responses of 0.7 (MessageSetSend, MultiMessageSetSend): a size, an error code, then bytes of a log."""

from __future__ import annotations

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


def encode_start(messages_bytes: int, error_code: int = 0) -> bytes:
    """Return the bytes before `messages_bytes` bytes of messages, or of whole responses (MultiMessageSetSend).

    Raises ValueError if that is more than a response can contain.
    """
    if not 0 <= messages_bytes <= MOST_BYTES:
        raise ValueError(f"{messages_bytes} bytes do not fit into a fetch response")
    return MESSAGE_SET_SEND.struct.pack(_AFTER_SIZE + messages_bytes, error_code)
