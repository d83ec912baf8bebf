"""Encode messages v0, v1 and 0.7, single or in compressed sets, as old brokers and producers wrote them."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kafkalog_cli.format.batch import LOG_OVERHEAD_BYTES, TIMESTAMP_TYPE_MASK
from kafkalog_cli.format.compression import Codec, compress
from kafkalog_cli.format.crc import crc32
from kafkalog_cli.format.legacy import MESSAGE_SEVEN_MAGIC0, MESSAGE_SEVEN_MAGIC1, MESSAGE_V0

_TIMESTAMP = struct.Struct(">q")
_LENGTH = struct.Struct(">i")
_MAGIC_AT = MESSAGE_V0.offset["magic"]
_ENTRY = MESSAGE_V0.struct_of("offset", "message_size", "crc")
_SEVEN_SIZE_BYTES = 4


class Message(NamedTuple):
    """The contents of a message v0 or v1: offset, timestamp in ms (v1 only), key and value."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


def encode_message(message: Message, magic: int, *, codec: int = 0, append_time: bool = False) -> bytes:
    """Encode one entry of a log (LegacyRecord.write). With a `codec`, the value must already be a compressed set."""
    attributes = codec | (TIMESTAMP_TYPE_MASK if append_time and magic else 0)
    parts = [bytes((magic, attributes))]
    if magic:
        parts.append(_TIMESTAMP.pack(message.timestamp))
    for field in (message.key, message.value):
        parts += (_LENGTH.pack(-1),) if field is None else (_LENGTH.pack(len(field)), field)
    content = b"".join(parts)
    size = _MAGIC_AT - LOG_OVERHEAD_BYTES + len(content)
    return _ENTRY.pack(message.offset, size, crc32(content)) + content


def encode_message_set(
    messages: Sequence[Message], magic: int, codec: int, *, level: int | None = None, append_time_ms: int | None = None
) -> bytes:
    """Encode a compressed set, or with codec 0 the uncompressed messages one after another (MemoryRecordsBuilder).

    Offsets in a compressed set are absolute in magic 0, and relative to the first message in magic 1. The wrapper has
    the offset of the last message and the largest timestamp. `append_time_ms` (the broker's clock, in ms) replaces the
    timestamps of all messages.
    """
    is_append_time = append_time_ms is not None
    if append_time_ms is not None:
        messages = [message._replace(timestamp=append_time_ms) for message in messages]
    base = messages[0].offset if magic and codec else 0
    entries = b"".join(
        encode_message(message._replace(offset=message.offset - base), magic, append_time=is_append_time)
        for message in messages
    )
    if codec == Codec.NONE:
        return entries
    largest = max(message.timestamp for message in messages)
    wrapper = Message(messages[-1].offset, largest, None, compress(codec, entries, level=level, magic=magic))
    return encode_message(wrapper, magic, codec=codec, append_time=is_append_time)


def encode_seven(payload: bytes, magic: int = 1, *, codec: int = 0) -> bytes:
    """Encode a message of a `.kafka` file (kafka.message.Message of 0.7).

    With a `codec`, the payload must already be compressed.
    """
    crc = crc32(payload)
    if not magic:
        size = MESSAGE_SEVEN_MAGIC0.size - _SEVEN_SIZE_BYTES + len(payload)
        return MESSAGE_SEVEN_MAGIC0.struct.pack(size, 0, crc) + payload
    size = MESSAGE_SEVEN_MAGIC1.size - _SEVEN_SIZE_BYTES + len(payload)
    return MESSAGE_SEVEN_MAGIC1.struct.pack(size, 1, codec, crc) + payload


def encode_seven_set(payloads: Iterable[bytes], codec: int, *, level: int | None = None) -> bytes:
    """Encode a compressed message of 0.7, whose payload is a set of messages."""
    inner = b"".join(encode_seven(payload) for payload in payloads)
    return encode_seven(compress(codec, inner, level=level, magic=1), codec=codec)
