"""Control records as kafka-dump-log 4.2 appends them to a record's metadata."""

from __future__ import annotations

from kafkalog_cli.format.control import decode_control
from kafkalog_cli.format.fault import Fault

_LABELS = {
    2: "LeaderChange:",
    3: "SnapshotHeader",
    4: "SnapshotFooter",
    5: "KRaftVersion",
    6: "KRaftVoters",
}
"""The text before the JSON, per type of control record; only the first has a colon."""


def control_text(key: bytes | memoryview | None, value: bytes | memoryview | None) -> str | Fault:
    """Return the text of one control record; a Fault if the real tool aborts there."""
    record = decode_control(key, value)
    if isinstance(record, Fault):
        return record
    if record.is_marker:
        return f" endTxnMarker: {record.name} coordinatorEpoch: {record.message['coordinatorEpoch']}"
    if record.type_id in _LABELS:
        from kafkalog_cli.format.internal_topics.java_json import java_json

        return f" {_LABELS[record.type_id]} {java_json(record.message)}"
    return f" controlType: {record.name}({record.type_id})"
