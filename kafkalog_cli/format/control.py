"""Control records: transaction markers and KRaft's own (ControlRecordType), decoded."""

import struct
from typing import Any, NamedTuple

from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.format.layout import Field, Layout

CONTROL_RECORD_KEY = Layout(
    "Control record key",
    "org.apache.kafka.common.record.ControlRecordType",
    Field("version", "h", "0; later versions may be longer"),
    Field("type", "h", "0 abort, 1 commit, 2 leader change, 3 snapshot header, 4 footer, 5 kraft version, 6 voters"),
)

END_TXN_MARKER = Layout(
    "Transaction marker value",
    "org.apache.kafka.common.record.EndTransactionMarker",
    Field("version", "h", "0"),
    Field("coordinator_epoch", "i", "epoch of the transaction coordinator that wrote the marker"),
)

ABORT, COMMIT = 0, 1
CONTROL_TYPES = (
    "ABORT",
    "COMMIT",
    "LEADER_CHANGE",
    "SNAPSHOT_HEADER",
    "SNAPSHOT_FOOTER",
    "KRAFT_VERSION",
    "KRAFT_VOTERS",
)
"""Names by type id (ControlRecordType). Any other id is UNKNOWN."""

_MESSAGES = {
    2: "LeaderChangeMessage",
    3: "SnapshotHeaderRecord",
    4: "SnapshotFooterRecord",
    5: "KRaftVersionRecord",
    6: "VotersRecord",
}


class ControlRecord(NamedTuple):
    """A control record: `type_id` as stored, and the fields of its value (none for an unknown type)."""

    type_id: int
    message: dict[str, Any]

    @property
    def name(self) -> str:
        """Kafka's name of the type."""
        return CONTROL_TYPES[self.type_id] if 0 <= self.type_id < len(CONTROL_TYPES) else "UNKNOWN"

    @property
    def is_marker(self) -> bool:
        """Whether the record ends a transaction."""
        return self.type_id in (ABORT, COMMIT)


def decode_control(key: bytes | memoryview | None, value: bytes | memoryview | None) -> ControlRecord | Fault:
    """Decode the control record of `key` and `value`; return a fault without a position if Kafka's reader throws.

    The fault has the message of Java's exception if that has a message. Bytes after the fields of a key or marker are
    ignored.
    """
    if key is None:
        return _fault("a control record without a key (NullPointerException)")
    if len(key) < CONTROL_RECORD_KEY.size:
        return _fault(
            "Invalid value size found for end control record key. "
            f"Must have at least {CONTROL_RECORD_KEY.size} bytes, but found only {len(key)}"
        )
    version, type_id = CONTROL_RECORD_KEY.struct.unpack_from(key)
    if version < 0:
        return _bad_version("control record", version)
    if value is None and (type_id in (ABORT, COMMIT) or type_id in _MESSAGES):
        return _fault("a control record without a value (NullPointerException)")
    if type_id in (ABORT, COMMIT):
        return _marker(type_id, value or b"")
    if type_id in _MESSAGES:
        return _message(type_id, value or b"")
    return ControlRecord(type_id, {})


def control_type(key: bytes | memoryview | None) -> int | None:
    """Return the type in the key of a control record, whatever its value is; None if the key has no readable type."""
    if key is None or len(key) < CONTROL_RECORD_KEY.size:
        return None
    version, type_id = CONTROL_RECORD_KEY.struct.unpack_from(key)
    return None if version < 0 else int(type_id)


def control_object(key: bytes | memoryview | None, value: bytes | memoryview | None) -> dict[str, Any]:
    """Return a control record for JSON output: its type and fields, or the reason why it cannot be read."""
    record = decode_control(key, value)
    if isinstance(record, Fault):
        return {"type": "INVALID", "error": record.message}
    return {"type": record.name, "type_id": record.type_id, **record.message}


def usual_marker(records: bytes | memoryview) -> tuple[int, int] | None:
    """Return type and coordinator epoch of a marker in the form in which brokers write it; None for other bytes.

    `records` are the bytes of its batch after the header. The timestamp of the marker is the base timestamp.
    """
    if len(records) != _USUAL_MARKER.size:
        return None
    head, version, type_id, middle, marker_version, epoch, end = _USUAL_MARKER.unpack(records)
    is_usual = (head, middle, end) == (b"\x20\0\0\0\x08", b"\x0c", b"\0") and min(version, marker_version) >= 0
    return (type_id, epoch) if is_usual and type_id in (ABORT, COMMIT) else None


_USUAL_MARKER = struct.Struct(">5shhchic")
"""Length 16, no attributes and deltas, size of the key 4, the key; size of the value 6, the value; no headers."""


def encode_marker(type_id: int, coordinator_epoch: int) -> tuple[bytes, bytes]:
    """Return key and value of a transaction marker. Raises struct.error for numbers out of range."""
    return CONTROL_RECORD_KEY.struct.pack(0, type_id), END_TXN_MARKER.struct.pack(0, coordinator_epoch)


def _marker(type_id: int, value: bytes | memoryview) -> ControlRecord | Fault:
    version = int.from_bytes(value[:2], "big", signed=True)
    if version < 0 and len(value) >= 2:
        return _bad_version("end transaction marker", version)
    if len(value) < END_TXN_MARKER.size:
        return _cut_off("end transaction marker", value)
    return ControlRecord(type_id, {"coordinatorEpoch": END_TXN_MARKER.struct.unpack_from(value)[1]})


def _message(type_id: int, value: bytes | memoryview) -> ControlRecord | Fault:
    from kafkalog_cli.format.internal_topics.decode import Malformed, at_version, decode_message
    from kafkalog_cli.format.varint import CUT_OFF

    name = _MESSAGES[type_id]
    decoded = decode_message(name, 0, value)
    if isinstance(decoded, Malformed):
        return _cut_off(name, value) if decoded.reason == CUT_OFF else _fault(f"{name}: {decoded.reason}")
    # Kafka reads version 0 whatever version the record states, and prints it as the stated version.
    return ControlRecord(type_id, at_version(name, decoded.message["version"], decoded.message))


def _bad_version(what: str, version: int) -> Fault:
    return _fault(f"Invalid version found for {what}: {version}. May indicate data corruption")


def _cut_off(what: str, data: bytes | memoryview) -> Fault:
    return _fault(f"{what}: {len(data)} bytes are too few (BufferUnderflowException)")


def _fault(message: str) -> Fault:
    return Fault(FaultKind.INVALID_CONTROL_RECORD, 0, message)
