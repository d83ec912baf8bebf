"""The JSON output of look-ups: the record as dump-log prints it, its batch, and how they were found."""

from __future__ import annotations

from typing import Any

from kafkalog_cli.format.batch import NO_OFFSET
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops.lookup.broker_answers import BrokerAnswer
from kafkalog_cli.ops.lookup.by_offset import Found
from kafkalog_cli.output.ndjson import Rendered, json_path
from kafkalog_cli.output.record_json import RecordJson, RecordJsonOptions, SegmentContext, topic_decode


def found_object(found: Found, partition: Partition) -> dict[str, Any]:
    """Return the fields of a look-up; `record` is None if only a batch was requested or could be read."""
    name = found.segment.log.path.rpartition("/")[2]
    entry, time_entry = found.start.entry, found.time_entry
    batch = found.batch
    record: Any = None
    if found.block is not None:
        directory = partition.directory
        context = SegmentContext(directory.topic, directory.partition, name, found.segment.is_seven)
        options = RecordJsonOptions(with_batches=False, decode=topic_decode(directory.topic))
        pieces = RecordJson(context, options).block(found.block)
        record = Rendered(piece.removesuffix("\n") for piece in pieces)  # JSON strings have no raw line ends
    return {
        **json_path(found.segment.log.path),
        "record": record,
        "batch": {
            "base_offset": None if batch.base_offset == NO_OFFSET else batch.base_offset,
            "last_offset": batch.last_offset,
            "position": batch.position,
            "size": batch.size_bytes,
            "magic": batch.magic,
            "crc_valid": None if batch.valid < 0 else bool(batch.valid),
        },
        "index_entry": None if entry is None else {"offset": entry.offset, "position": entry.position},
        "time_index_entry": None
        if time_entry is None
        else {"timestamp_ms": time_entry.timestamp, "offset": time_entry.offset},
        "notes": list(found.notes),
    }


def broker_fields(answer: BrokerAnswer | None) -> dict[str, Any]:
    """Return a broker's answer if it differs: -1 for none; null for the same answer or an error (in `broker_error`)."""
    if answer is None:
        return {"broker_offset": None}
    if answer.failure:
        return {"broker_offset": None, "broker_error": answer.failure}
    return {"broker_offset": -1 if answer.offset is None else answer.offset}
