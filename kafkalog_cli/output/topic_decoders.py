"""dump-log's decoders of internal topics: keys and payloads as kafka-dump-log prints them (Java's toString)."""

from collections.abc import Callable
from functools import partial

from kafkalog_cli.format.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from kafkalog_cli.format.internal_topics.java_json import java_json
from kafkalog_cli.format.internal_topics.records import (
    CLUSTER_METADATA,
    REMOTE_LOG_METADATA,
    SHARE_GROUP_STATE,
    ApiMessage,
    UnreadableRecord,
    decode_api_message,
    decode_coordinator,
)
from kafkalog_cli.format.internal_topics.schema import Message
from kafkalog_cli.format.kafka_version import NEWEST, KafkaVersion
from kafkalog_cli.ops.cluster.tables.coordinator_log import state_name
from kafkalog_cli.output.decoders import CannotDecode
from kafkalog_cli.output.dump_text import Field, KeyValueDecoder, Value

Parsed = tuple["str | None", "str | None"]


def _coordinator_record(
    topic: str, version: KafkaVersion, offset: int, key: Field, value: Value
) -> Parsed | CannotDecode:
    """Return key and value as JSON (CoordinatorRecordMessageParser).

    For an unreadable record, an error message is in place of the key.
    """
    if key is None:
        return CannotDecode(
            f"Failed to decode message at offset {offset} using the specified decoder (message had a missing key)"
        )
    if isinstance(value, CannotDecode):
        return f"Error at offset {offset}, skipping. {value.message}", None
    record = decode_coordinator(topic, key, value, version.schemas)
    if isinstance(record, UnreadableRecord):
        if record.unknown_type is not None:
            return f"Unknown record type {record.unknown_type} at offset {offset}, skipping.", None
        return f"Error at offset {offset}, skipping. {record.message}", None
    key_text = java_json({"type": str(record.record_type), "data": record.key})
    if record.value is None:
        return key_text, "<DELETE>"
    data = record.value
    if topic == TRANSACTION_STATE and not version.is_before_4_4:
        number = data["transactionStatus"]
        data = {**data, "transactionStatus": state_name(number) or str(number)}
    return key_text, java_json({"version": str(record.value_version), "data": data})


def _cluster_metadata(version: KafkaVersion, offset: int, _key: Field, value: Value) -> Parsed:
    """Return the value as JSON (ClusterMetadataLogMessageParser)."""
    if isinstance(value, CannotDecode):
        return None, f"Error at {offset}, skipping. {value.message}"
    record = decode_api_message(CLUSTER_METADATA, value, version.schemas)
    if isinstance(record, UnreadableRecord):
        return None, f"Error at {offset}, skipping. {record.message}"
    return None, java_json({"type": record.enum, "version": record.version, "data": record.message})


def _remote_log_metadata(version: KafkaVersion, offset: int, _key: Field, value: Value) -> Parsed:
    """Return Java's toString of the value (RemoteMetadataLogMessageParser)."""
    if isinstance(value, CannotDecode):
        return None, f"Error at offset {offset}, skipping. {value.message}"
    if value is None:
        package = "org.apache.kafka.common.record" + ("" if version.is_scala else ".internal")
        message = (
            'Cannot invoke "java.nio.ByteBuffer.remaining()" because the return value of '
            f'"{package}.Record.value()" is null'
        )
        return None, f"Error at offset {offset}, skipping. {message}"
    record = decode_api_message(REMOTE_LOG_METADATA, value)
    text = record if isinstance(record, UnreadableRecord) else remote_log_text(record)
    if isinstance(text, UnreadableRecord):
        return None, f"Error at offset {offset}, skipping. {text.message}"
    return None, text


_PARSERS: dict[str, Callable[[KafkaVersion, int, Field, Value], Parsed | CannotDecode]] = {
    CONSUMER_OFFSETS: partial(_coordinator_record, CONSUMER_OFFSETS),
    TRANSACTION_STATE: partial(_coordinator_record, TRANSACTION_STATE),
    CLUSTER_METADATA: _cluster_metadata,
    REMOTE_LOG_METADATA: _remote_log_metadata,
    SHARE_GROUP_STATE: partial(_coordinator_record, SHARE_GROUP_STATE),
}


def topic_decoder(topic: str, version: KafkaVersion = NEWEST) -> KeyValueDecoder:
    """Return the decoder of an internal topic, for a version of kafka-dump-log."""
    return partial(_PARSERS[topic], version)


SEGMENT_STATES = ("COPY_SEGMENT_STARTED", "COPY_SEGMENT_FINISHED", "DELETE_SEGMENT_STARTED", "DELETE_SEGMENT_FINISHED")
PARTITION_STATES = ("DELETE_PARTITION_MARKED", "DELETE_PARTITION_STARTED", "DELETE_PARTITION_FINISHED")


def remote_log_text(record: ApiMessage) -> str | UnreadableRecord:
    """Return the text of one record; UnreadableRecord with the exception's message if its Java class refuses it."""
    message = record.message
    if record.name == "RemotePartitionDeleteMetadataRecord":
        state = _state(PARTITION_STATES, message["remotePartitionDeleteState"])
        if state is None:
            return UnreadableRecord("null")  # requireNonNull without a message
        return (
            f"RemotePartitionDeleteMetadata{{topicPartition={_topic_partition(message['topicIdPartition'])}, "
            f"state={state}, eventTimestampMs={message['eventTimestampMs']}, brokerId={message['brokerId']}}}"
        )
    state = _state(SEGMENT_STATES, message["remoteLogSegmentState"])
    problem = _segment_problem(record, state)
    if state is None or problem is not None:
        return UnreadableRecord(problem or "state can not be null")
    if record.name == "RemoteLogSegmentMetadataRecord":
        return _segment(message, state)
    if record.name == "RemoteLogSegmentMetadataUpdateRecord":
        return (
            f"RemoteLogSegmentMetadataUpdate{{remoteLogSegmentId={_segment_id(message['remoteLogSegmentId'])}, "
            f"customMetadata={_custom(message)}, state={state}, "
            f"eventTimestampMs={message['eventTimestampMs']}, brokerId={message['brokerId']}}}"
        )
    return (
        f"RemoteLogSegmentMetadataSnapshot{{segmentId={message['segmentId']}, startOffset={message['startOffset']}, "
        f"endOffset={message['endOffset']}, maxTimestampMs={message['maxTimestampMs']}, "
        f"segmentLeaderEpochs={_epochs(message)}, segmentSizeInBytes={message['segmentSizeInBytes']}, "
        f"customMetadata={_custom(message)}, state={state}, txnIdxEmpty={_txn_index_empty(message)}}}"
    )


def _segment_problem(record: ApiMessage, state: str | None) -> str | None:
    """Return the exception message of the segment classes' constructors; None if they accept the record.

    An invalid state is checked by the caller.

    RemoteLogSegmentMetadata is first constructed with another state, so its own checks come before the check of the
    state.
    """
    message = record.message
    if record.name == "RemoteLogSegmentMetadataUpdateRecord":
        return None
    if record.name == "RemoteLogSegmentMetadataRecord":
        start, end = message["startOffset"], message["endOffset"]
        if start < 0:
            return f"Unexpected start offset = {start}. StartOffset for a remote segment cannot be negative"
        if end < start:
            return (
                f"Unexpected end offset = {end}. "
                f"EndOffset for a remote segment cannot be less than startOffset = {start}"
            )
    elif state is None:
        return None
    return None if message["segmentLeaderEpochs"] else "segmentLeaderEpochs can not be null or empty"


def _segment(message: Message, state: str) -> str:
    return (
        f"RemoteLogSegmentMetadata{{remoteLogSegmentId={_segment_id(message['remoteLogSegmentId'])}, "
        f"startOffset={message['startOffset']}, endOffset={message['endOffset']}, brokerId={message['brokerId']}, "
        f"maxTimestampMs={message['maxTimestampMs']}, eventTimestampMs={message['eventTimestampMs']}, "
        f"segmentLeaderEpochs={_epochs(message)}, segmentSizeInBytes={message['segmentSizeInBytes']}, "
        f"customMetadata={_custom(message)}, state={state}, txnIdxEmpty={_txn_index_empty(message)}}}"
    )


def _segment_id(entry: Message) -> str:
    return f"RemoteLogSegmentId{{topicIdPartition={_topic_partition(entry['topicIdPartition'])}, id={entry['id']}}}"


def _topic_partition(entry: Message) -> str:
    return f"{entry['id']}:{entry['name']}-{entry['partition']}"


def _epochs(message: Message) -> str:
    # A TreeMap: sorted by epoch; of duplicate epochs the last one stays.
    epochs = {entry["leaderEpoch"]: entry["offset"] for entry in message["segmentLeaderEpochs"]}
    return "{" + ", ".join(f"{epoch}={epochs[epoch]}" for epoch in sorted(epochs)) + "}"


def _custom(message: Message) -> str:
    data = message["customMetadata"]
    return "Optional.empty" if data is None else f"Optional[CustomMetadata{{{len(data)} bytes}}]"


def _txn_index_empty(message: Message) -> str:
    return "true" if message.get("txnIndexEmpty") else "false"


def _state(states: tuple[str, ...], state_id: int) -> str | None:
    return states[state_id] if 0 <= state_id < len(states) else None
