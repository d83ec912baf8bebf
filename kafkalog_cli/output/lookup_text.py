"""Look-ups for people: the record, its batch, and how they were found."""

from __future__ import annotations

from collections.abc import Iterator

from kafkalog_cli.actions.lookup.broker_answers import BrokerAnswer
from kafkalog_cli.actions.lookup.by_offset import Found
from kafkalog_cli.format.batch import NO_OFFSET, NO_TIMESTAMP
from kafkalog_cli.format.compression import codec_name
from kafkalog_cli.format.java_string import java_string
from kafkalog_cli.format.records import Record
from kafkalog_cli.output.human import iso_time
from kafkalog_cli.output.stream import printable


def found_lines(found: Found) -> Iterator[str]:
    """Lines `name: value`, the record first."""
    if found.record is not None:
        yield from _record_lines(found.record)
    batch = found.batch
    first = "?" if batch.base_offset == NO_OFFSET else batch.base_offset
    yield f"segment: {printable(found.segment.log.path)}"
    yield (
        f"batch: offsets {first} to {batch.last_offset}, position {batch.position},"
        f" {batch.size_bytes} bytes, magic {batch.magic}, {codec_name(batch.codec)}, CRC {_crc(batch.valid)}"
    )
    yield f"found: {how(found)}"
    for note in found.notes:
        yield f"note: {printable(note)}"


def how(found: Found) -> str:
    """How the batch was found, in a sentence."""
    start, steps = found.start, []
    if found.time_entry is not None:
        steps.append(f"time index entry {found.time_entry.timestamp} at offset {found.time_entry.offset}")
    if start.entry is not None:
        steps.append(f"index entry offset {start.entry.offset} at position {start.entry.position}")
        return ", ".join([*steps, "then batch by batch"])
    steps.append("batch by batch from the start of the segment")
    return ", ".join(steps) + (f": {printable(start.doubt)}" if start.doubt else "")


def broker_note(answer: BrokerAnswer) -> str:
    """What a broker would answer instead, and why."""
    if answer.failure:
        return f"a broker would answer with an error: {answer.reason}: {answer.failure}"
    said = "that there is none" if answer.offset is None else f"offset {answer.offset}"
    return f"a broker would answer {said}: {answer.reason}"


def _record_lines(record: Record) -> Iterator[str]:
    yield f"offset: {record.offset}"
    if record.timestamp != NO_TIMESTAMP:
        yield f"timestamp: {record.timestamp} ({iso_time(record.timestamp)}), {record.batch.timestamp_type}"
    yield f"key: {_shown(record.key)}"
    yield f"value: {_shown(record.value)}"
    for header in record.headers:
        yield f"header: {printable(java_string(header.key))} = {_shown(header.value)}"


def _shown(data: bytes | None) -> str:
    return "null" if data is None else f"{printable(java_string(data))} ({len(data)} bytes)"


def _crc(valid: int) -> str:
    return {1: "good", 0: "BAD"}.get(valid, "not checked")
