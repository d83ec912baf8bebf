"""dump-log's decoders of internal topics: keys and payloads as kafka-dump-log prints them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kafkalog_cli.format.internal_topics.java_json import java_json
from kafkalog_cli.format.internal_topics.records import (
    CLUSTER_METADATA,
    CONSUMER_OFFSETS,
    REMOTE_LOG_METADATA,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
    UnreadableRecord,
    decode_api_message,
    decode_coordinator,
)
from kafkalog_cli.format.kafka_version import NEWEST, KafkaVersion
from kafkalog_cli.ops.tables.transactions import state_name
from kafkalog_cli.output.decoders import CannotDecode
from kafkalog_cli.output.dump_text import Field, KeyValueDecoder, ShownPieces, Value
from kafkalog_cli.output.remote_log_text import remote_log_text

Parsed = tuple["str | None", "str | None"]


class CoordinatorDecoder:
    """--offsets-decoder, --transaction-log-decoder, --share-group-state-decoder (CoordinatorRecordMessageParser)."""

    def __init__(self, topic: str, version: KafkaVersion = NEWEST) -> None:
        self._topic = topic
        self._release = version.schemas
        self._names_states = topic == TRANSACTION_STATE and not version.is_before_4_4

    def pieces(self, offset: int, key: memoryview | None, value: memoryview | None) -> ShownPieces | CannotDecode:
        """See KeyValueDecoder. The decoded record fits in memory, because its size has a limit."""
        return _in_pieces(self.parse(offset, key, value))

    def parse(self, offset: int, key: Field, value: Value) -> Parsed | CannotDecode:
        """Return key and value as JSON; for an unreadable record, an error message in place of the key."""
        if key is None:
            return CannotDecode(
                f"Failed to decode message at offset {offset} using the specified decoder (message had a missing key)"
            )
        if isinstance(value, CannotDecode):
            return f"Error at offset {offset}, skipping. {value.message}", None
        record = decode_coordinator(self._topic, key, value, self._release)
        if isinstance(record, UnreadableRecord):
            if record.unknown_type is not None:
                return f"Unknown record type {record.unknown_type} at offset {offset}, skipping.", None
            return f"Error at offset {offset}, skipping. {record.message}", None
        key_text = java_json({"type": str(record.record_type), "data": record.key})
        if record.value is None:
            return key_text, "<DELETE>"
        shown = record.value
        if self._names_states:
            number = shown["transactionStatus"]
            shown = {**shown, "transactionStatus": state_name(number) or str(number)}
        return key_text, java_json({"version": str(record.value_version), "data": shown})


class ClusterMetadataDecoder:
    """--cluster-metadata-decoder (ClusterMetadataLogMessageParser)."""

    def __init__(self, version: KafkaVersion = NEWEST) -> None:
        self._release = version.schemas

    def pieces(self, offset: int, key: memoryview | None, value: memoryview | None) -> ShownPieces | CannotDecode:
        """See KeyValueDecoder. The decoded record fits in memory, because its size has a limit."""
        return _in_pieces(self.parse(offset, key, value))

    def parse(self, offset: int, key: Field, value: Value) -> Parsed | CannotDecode:
        """Return the value as JSON; these records have no keys."""
        del key
        if isinstance(value, CannotDecode):
            return None, f"Error at {offset}, skipping. {value.message}"
        found = decode_api_message(CLUSTER_METADATA, value, self._release)
        if isinstance(found, UnreadableRecord):
            return None, f"Error at {offset}, skipping. {found.message}"
        return None, java_json({"type": found.enum, "version": found.version, "data": found.message})


class RemoteLogMetadataDecoder:
    """--remote-log-metadata-decoder (RemoteMetadataLogMessageParser)."""

    def __init__(self, version: KafkaVersion = NEWEST) -> None:
        self._package = "org.apache.kafka.common.record" + ("" if version.is_scala else ".internal")

    def pieces(self, offset: int, key: memoryview | None, value: memoryview | None) -> ShownPieces | CannotDecode:
        """See KeyValueDecoder. The decoded record fits in memory, because its size has a limit."""
        return _in_pieces(self.parse(offset, key, value))

    def parse(self, offset: int, key: Field, value: Value) -> Parsed | CannotDecode:
        """Return Java's toString of the value; these records have no keys."""
        del key
        if isinstance(value, CannotDecode):
            return None, f"Error at offset {offset}, skipping. {value.message}"
        if value is None:
            message = (
                'Cannot invoke "java.nio.ByteBuffer.remaining()" because the return value of '
                f'"{self._package}.Record.value()" is null'
            )
            return None, f"Error at offset {offset}, skipping. {message}"
        found = decode_api_message(REMOTE_LOG_METADATA, value)
        text = found if isinstance(found, UnreadableRecord) else remote_log_text(found)
        if isinstance(text, UnreadableRecord):
            return None, f"Error at offset {offset}, skipping. {text.message}"
        return None, text


def _in_pieces(parsed: Parsed | CannotDecode) -> ShownPieces | CannotDecode:
    if isinstance(parsed, CannotDecode):
        return parsed
    key, value = parsed
    return None if key is None else iter((key,)), None if value is None else iter((value,))


_DECODERS: dict[str, Callable[[KafkaVersion], KeyValueDecoder]] = {
    "offsets": partial(CoordinatorDecoder, CONSUMER_OFFSETS),
    "transaction-log": partial(CoordinatorDecoder, TRANSACTION_STATE),
    "cluster-metadata": ClusterMetadataDecoder,
    "remote-log-metadata": RemoteLogMetadataDecoder,
    "share-group-state": partial(CoordinatorDecoder, SHARE_GROUP_STATE),
}

TOPIC_DECODERS = tuple(_DECODERS)
"""The names of the options, in the order of precedence that the real tool gives them."""


def topic_decoder(name: str, version: KafkaVersion = NEWEST) -> KeyValueDecoder:
    """Return the decoder of an option, for a version of kafka-dump-log."""
    return _DECODERS[name](version)
