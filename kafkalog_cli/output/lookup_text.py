"""Look-ups for people: the record, its batch, and how they were found."""

from __future__ import annotations

from collections.abc import Iterator

from kafkalog_cli.actions.lookup import Found
from kafkalog_cli.format.batch import NO_TIMESTAMP
from kafkalog_cli.format.compression import codec_name
from kafkalog_cli.format.java_string import java_string
from kafkalog_cli.format.records import Record
from kafkalog_cli.output.human import iso_time, safe


def found_lines(found: Found) -> Iterator[str]:
    """Lines `name: value`, the record first."""
    if found.record is not None:
        yield from _record_lines(found.record)
    batch = found.batch
    name = found.segment.log.path
    yield f"segment: {safe(name)}"
    yield (
        f"batch: offsets {batch.base_offset} to {batch.last_offset}, position {batch.position},"
        f" {batch.size_bytes} bytes, magic {batch.magic}, {codec_name(batch.codec)}, CRC {_crc(batch.valid)}"
    )
    yield f"found: {how(found)}"
    for note in found.notes:
        yield f"note: {safe(note)}"


def how(found: Found) -> str:
    """How the batch was found, in a sentence."""
    start = found.start
    if start.entry is not None:
        return f"index entry offset {start.entry.offset} at position {start.entry.position}, then batch by batch"
    if start.doubt:
        return f"batch by batch from the start of the segment: {safe(start.doubt)}"
    return "batch by batch from the start of the segment"


def _record_lines(record: Record) -> Iterator[str]:
    yield f"offset: {record.offset}"
    if record.timestamp != NO_TIMESTAMP:
        yield f"timestamp: {record.timestamp} ({iso_time(record.timestamp)}), {record.batch.timestamp_type}"
    yield f"key: {_shown(record.key)}"
    yield f"value: {_shown(record.value)}"
    for header in record.headers:
        yield f"header: {safe(java_string(header.key))} = {_shown(header.value)}"


def _shown(data: bytes | None) -> str:
    return "null" if data is None else f"{safe(java_string(data))} ({len(data)} bytes)"


def _crc(valid: int) -> str:
    return {1: "good", 0: "BAD"}.get(valid, "not checked")
