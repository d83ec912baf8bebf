"""Messages before v2: the header of an entry as tables (LegacyRecord, 0.8 to 0.10), and the messages of Kafka 0.7.

A message of 0.7 (in `.kafka` files) has no offset, and its CRC is over the payload only.
"""

from __future__ import annotations

from kafkalog_cli.format.layout import Field, Layout

_ENTRY = (
    Field("offset", "q", "offset; of the last inner message if the message is a compressed set"),
    Field("message_size", "i", "bytes after this field"),
    Field("crc", "I", "CRC-32 (IEEE) of the bytes from magic to the end"),
    Field("magic", "b", "0 or 1"),
    Field("attributes", "b", "bits 0-2 codec; bit 3 (v1) timestamp type"),
)

MESSAGE_V0 = Layout(
    "Message v0, up to the key",
    "org.apache.kafka.common.record.LegacyRecord",
    *_ENTRY,
    Field("key_length", "i", "-1 null; the key follows, then an int32 value length (-1 null) and the value"),
)

MESSAGE_V1 = Layout(
    "Message v1, up to the key",
    "org.apache.kafka.common.record.LegacyRecord",
    *_ENTRY,
    Field("timestamp", "q", "ms, -1 none"),
    Field("key_length", "i", "-1 null; the key follows, then an int32 value length (-1 null) and the value"),
)

KEY_LENGTH_OFFSET = (MESSAGE_V0.offset["key_length"], MESSAGE_V1.offset["key_length"])
"""Offset of the key length in an entry, by magic."""


MESSAGE_SEVEN_MAGIC0 = Layout(
    "Message of 0.7, magic 0",
    "kafka.message.Message (0.7.2)",
    Field("size", "i", "bytes after this field, at least 5"),
    Field("magic", "b", "0"),
    Field("crc", "I", "CRC-32 (IEEE) of the payload"),
)

MESSAGE_SEVEN_MAGIC1 = Layout(
    "Message of 0.7, magic 1",
    "kafka.message.Message (0.7.2)",
    Field("size", "i", "bytes after this field, at least 6"),
    Field("magic", "b", "1"),
    Field("attributes", "b", "bits 0-1 codec: 0 none, 1 gzip, 2 snappy"),
    Field("crc", "I", "CRC-32 (IEEE) of the payload"),
)

SEVEN_CODEC_MASK = 0x03
MINIMUM_SEVEN_SIZE = 5


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
