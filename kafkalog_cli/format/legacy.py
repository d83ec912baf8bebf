"""Message sets v0 and v1 (LegacyRecord, 0.8 to 0.10): the header of an entry as tables."""

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
