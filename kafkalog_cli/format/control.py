"""Control records: transaction markers and KRaft's own (ControlRecordType), decoded."""

from __future__ import annotations

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
"""Names by type id (ControlRecordType); any other id is UNKNOWN."""

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
        """Whether it ends a transaction."""
        return self.type_id in (ABORT, COMMIT)


def decode_control(key: bytes | None, value: bytes | None) -> ControlRecord | Fault:
    """The control record of `key` and `value`; a fault, without a position, where Kafka's reader throws."""
    if key is None or len(key) < CONTROL_RECORD_KEY.size:
        size = 0 if key is None else len(key)
        return _fault(f"Invalid value size found for end control record key: {size} bytes")
    version, type_id = CONTROL_RECORD_KEY.struct.unpack_from(key)
    if version < 0:
        return _fault(f"Invalid version found for control record: {version}. May indicate data corruption")
    if type_id in (ABORT, COMMIT):
        return _marker(type_id, value)
    if type_id in _MESSAGES:
        return _message(type_id, value)
    return ControlRecord(type_id, {})


def control_object(key: bytes | None, value: bytes | None) -> dict[str, Any]:
    """A control record for machine output: its type, its fields; of one that cannot be read what is wrong."""
    record = decode_control(key, value)
    if isinstance(record, Fault):
        return {"type": "INVALID", "error": record.message}
    return {"type": record.name, "type_id": record.type_id, **record.message}


def encode_marker(type_id: int, coordinator_epoch: int) -> tuple[bytes, bytes]:
    """Key and value of a transaction marker. Raises struct.error for numbers out of range."""
    return CONTROL_RECORD_KEY.struct.pack(0, type_id), END_TXN_MARKER.struct.pack(0, coordinator_epoch)


def _marker(type_id: int, value: bytes | None) -> ControlRecord | Fault:
    try:
        version, epoch = END_TXN_MARKER.struct.unpack_from(value or b"")
    except struct.error:
        size = 0 if value is None else len(value)
        return _fault(f"Invalid value size found for end transaction marker: {size} bytes")
    if version < 0:
        return _fault(f"Invalid version found for end transaction marker: {version}. May indicate data corruption")
    return ControlRecord(type_id, {"coordinatorEpoch": epoch})


def _message(type_id: int, value: bytes | None) -> ControlRecord | Fault:
    from kafkalog_cli.format.internal_topics.schema import at_version, read_message
    from kafkalog_cli.format.internal_topics.wire import Undecodable, WireReader

    if value is None:
        return _fault("a control record without a value")
    name = _MESSAGES[type_id]
    try:
        message = read_message(name, 0, WireReader(value))
    except Undecodable as error:
        return _fault(f"{name}: {error}")
    # Kafka reads version 0 whatever the record says, and shows it as the version that it says.
    return ControlRecord(type_id, at_version(name, message["version"], message))


def _fault(message: str) -> Fault:
    return Fault(FaultKind.INVALID_CONTROL_RECORD, 0, message)
