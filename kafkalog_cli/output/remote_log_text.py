"""Records of __remote_log_metadata as Java's toString of their classes, which kafka-dump-log prints."""

from __future__ import annotations

from kafkalog_cli.format.internal_topics.records import ApiMessage, UnreadableRecord
from kafkalog_cli.format.internal_topics.schema import Message

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
