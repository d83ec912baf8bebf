"""Records of the five internal topics: keys and values, decoded by the framing and the schemas of their topic."""

from functools import cache
from typing import Any, NamedTuple

from kafkalog_cli.format.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from kafkalog_cli.format.internal_topics.decode import OverLimit, Undecodable, WireReader, read_message
from kafkalog_cli.format.internal_topics.schema import (
    NEWEST_RELEASE,
    Message,
    Release,
    definitions,
    is_in,
    message_schema,
)

SHARE_GROUP_STATE = "__share_group_state"
CLUSTER_METADATA = "__cluster_metadata"
REMOTE_LOG_METADATA = "__remote_log_metadata"

COORDINATOR_TOPICS = (CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE)
API_MESSAGE_TOPICS = (CLUSTER_METADATA, REMOTE_LOG_METADATA)

CONSUMER_PROTOCOL = "consumer"
_FRAME_VERSION = 1
_MAX_INT16 = (1 << 15) - 1


class CoordinatorRecord(NamedTuple):
    """A record of a coordinator's topic. In a tombstone `value` is None and `value_version` is -1."""

    record_type: int
    name: str
    key: Message
    value_version: int
    value: Message | None


class ApiMessage(NamedTuple):
    """A record of a metadata topic. `enum` is Kafka's enum name of the type, "" if it has none."""

    api_key: int
    name: str
    enum: str
    version: int
    message: Message


class UnreadableRecord(NamedTuple):
    """A record that its topic's decoder cannot read. `message` is the message of Java's exception.

    `unknown_type` is set if the type of the record is unknown: from a newer release, or not of this topic. `is_newer`:
    type, version or frame is one that only a newer release can have.
    """

    message: str
    unknown_type: int | None = None
    is_newer: bool = False


@cache
def _coordinator_types(topic: str, release: Release) -> dict[int, tuple[str, str]]:
    records = definitions()["topics"][topic]["records"]
    return {record["recordType"]: (record["key"], record["value"]) for record in records if is_in(record, release)}


@cache
def _api_types(topic: str, release: Release) -> dict[int, tuple[str, str]]:
    records = definitions()["topics"][topic]["records"]
    return {record["apiKey"]: (record["value"], record.get("enum", "")) for record in records if is_in(record, release)}


def decode_coordinator(
    topic: str, key: bytes | memoryview, value: bytes | memoryview | None, release: Release = NEWEST_RELEASE
) -> CoordinatorRecord | UnreadableRecord:
    """Decode a record of one of COORDINATOR_TOPICS, as `release` does (CoordinatorRecordSerde.deserialize)."""
    try:
        key_reader = WireReader(key)
        record_type = _short(key_reader, "key")
        names = _coordinator_types(topic, release).get(record_type)
        if names is None:
            return UnreadableRecord(f"unknown record type {record_type}", record_type)
        key_message = _message(names[0], 0, key_reader, f"version {record_type} from key's buffer", release)
        name = names[1].removesuffix("Value")
        if value is None:
            return CoordinatorRecord(record_type, name, key_message, -1, None)
        value_reader = WireReader(value)
        version = _short(value_reader, "value")
        if version not in message_schema(names[1], release).versions:
            return UnreadableRecord(f"Found an unknown record version {version} for {record_type} type")
        message = _message(names[1], version, value_reader, f"version {version} from value's buffer", release)
        if name == "GroupMetadata" and message["protocolType"] == CONSUMER_PROTOCOL:
            _expand_members(message, value_reader)
    except Undecodable as error:
        return UnreadableRecord(str(error))
    return CoordinatorRecord(record_type, name, key_message, version, message)


def decode_api_message(
    topic: str, value: bytes | memoryview | None, release: Release = NEWEST_RELEASE
) -> ApiMessage | UnreadableRecord:
    """Decode a record of one of API_MESSAGE_TOPICS, as `release` does (AbstractApiMessageSerde.read)."""
    if value is None:
        return UnreadableRecord("Error while reading frame version")
    try:
        is_newer = False
        reader = WireReader(value)
        frame = _unsigned_short(reader, "frame version")
        is_newer = frame > _FRAME_VERSION
        if frame == 0:
            raise Undecodable(
                "Could not deserialize metadata record with frame version 0. Note that upgrades from the preview "
                "release of KRaft in 2.8 to newer versions are not supported."
            )
        if frame != _FRAME_VERSION:
            raise Undecodable(
                f"Could not deserialize metadata record due to unknown frame version {frame}"
                f"(only frame version {_FRAME_VERSION} is supported)"
            )
        api_key, version = _unsigned_short(reader, "type"), _unsigned_short(reader, "version")
        names = _api_types(topic, release).get(api_key)
        if names is None:
            unknown = f"org.apache.kafka.common.errors.UnsupportedVersionException: Unknown metadata id {api_key}"
            return UnreadableRecord(unknown, api_key, is_newer=True)
        is_newer = version not in message_schema(names[0], release).versions
        message = _api_message(names[0], version, reader, api_key, release)
    except Undecodable as error:
        return UnreadableRecord(str(error), is_newer=is_newer)
    return ApiMessage(api_key, names[0], names[1], version, message)


def record_object(
    topic: str, key: bytes | memoryview | None, value: bytes | memoryview | None
) -> dict[str, Any] | None:
    """Return a record of an internal topic for JSON output; None if its type is unknown or it cannot be decoded."""
    if topic in COORDINATOR_TOPICS and key is not None:
        record = decode_coordinator(topic, key, value)
        if isinstance(record, UnreadableRecord):
            return None
        return {
            "type": record.name,
            "type_id": record.record_type,
            "version": None if record.value is None else record.value_version,
            "key": record.key,
            "value": record.value,
        }
    if topic in API_MESSAGE_TOPICS and value is not None:
        decoded = decode_api_message(topic, value)
        if not isinstance(decoded, UnreadableRecord):
            return {
                "type": decoded.name,
                "type_id": decoded.api_key,
                "version": decoded.version,
                "value": decoded.message,
            }
    return None


def _api_message(name: str, version: int, reader: WireReader, api_key: int, release: Release) -> Message:
    try:
        message = read_message(name, version, reader, release)
    except Undecodable as error:
        raise Undecodable(f"Failed to deserialize record with type {api_key}") from error
    if reader.remaining:
        raise Undecodable(f"Found {reader.remaining} byte(s) of garbage after {api_key}")
    return message


def _message(name: str, version: int, reader: WireReader, what: str, release: Release) -> Message:
    try:
        return read_message(name, version, reader, release)
    except Undecodable as error:
        raise Undecodable(f"Could not read record with {what} due to: {error}.") from error


def _short(reader: WireReader, name: str) -> int:
    try:
        return reader.integer("int16")
    except Undecodable as error:
        raise Undecodable(f"Could not read version from {name}'s buffer.") from error


def _unsigned_short(reader: WireReader, entity: str) -> int:
    try:
        value = reader.unsigned_varint()
    except Undecodable as error:
        raise Undecodable(f"Error while reading {entity}") from error
    if value > _MAX_INT16:
        raise Undecodable(f"Value for {entity} was too large.")
    return ((value + (1 << 15)) & 0xFFFF) - (1 << 15)


def _expand_members(message: Message, outer: WireReader) -> None:
    """Replace the subscriptions and assignments of consumers with decoded messages.

    Bytes that cannot be decoded stay. Raises OverLimit.
    """
    for member in message["members"]:
        for field, name in (
            ("subscription", "ConsumerProtocolSubscription"),
            ("assignment", "ConsumerProtocolAssignment"),
        ):
            try:
                reader = WireReader(member[field], within=outer)
                member[field] = read_message(name, reader.integer("int16"), reader)
            except OverLimit:
                raise
            except Undecodable:
                continue
