"""Records and batches of one segment as NDJSON, without loss: `append` can write the records again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from kafkalog_cli.format.batch import NO_TIMESTAMP, Batch
from kafkalog_cli.format.compression import codec_name
from kafkalog_cli.format.control import control_object
from kafkalog_cli.format.records import OUTSIDE, RecordBlock, field_bytes, header_views, read_headers, view_of
from kafkalog_cli.output.large_fields import is_large, json_pieces
from kafkalog_cli.output.ndjson import json_bytes, json_path, json_quoted, json_text
from kafkalog_cli.output.redact import NO_REDACTION, Redaction, Showing, redacted_json

RECORD = "kafkalog.record/1"
BATCH = "kafkalog.batch/1"

Decode = Callable[[memoryview | None, memoryview | None], Any]
"""Decodes key and value to JSON values; None if there is nothing to show."""


@dataclass(frozen=True, slots=True)
class SegmentContext:
    """The source of the batches. `topic` and `partition` are None outside of a partition directory.

    `segment` is the file's name. `is_seven`: a file of Kafka 0.7, whose messages have no timestamps.
    """

    topic: str | None
    partition: int | None
    segment: str
    is_seven: bool = False


@dataclass(frozen=True, slots=True)
class RecordJsonOptions:
    """`with_batches`: each batch has a line before the lines of its records. `decode` adds the field `decoded`."""

    redaction: Redaction = NO_REDACTION
    with_batches: bool = True
    decode: Decode | None = None

    @property
    def decode_shown(self) -> Decode | None:
        """`decode`; None if its result would show redacted contents."""
        return None if self.redaction.keys or self.redaction.values else self.decode


def topic_decode(topic: str | None) -> Decode | None:
    """Return the decoder of an internal topic's records; None for any other topic."""
    if topic is None or not topic.startswith("__"):
        return None
    from kafkalog_cli.format.internal_topics.records import API_MESSAGE_TOPICS, COORDINATOR_TOPICS, record_object

    return partial(record_object, topic) if topic in (*COORDINATOR_TOPICS, *API_MESSAGE_TOPICS) else None


class RecordJson:
    """Renders batches and records of one segment, one line each. The lines do not contain the damage of a block."""

    def __init__(self, context: SegmentContext, options: RecordJsonOptions | None = None) -> None:
        options = options or RecordJsonOptions()
        self._redaction = options.redaction
        self._with_batches = options.with_batches
        self._decode = options.decode_shown
        self._is_seven = context.is_seven
        self._batch_start = line_start(BATCH, "batch", context)
        self._record_start = line_start(RECORD, "record", context)

    def batches(self, batches: Iterable[Batch]) -> Iterator[str]:
        """Iterate over the lines of batches, one per batch."""
        return map(self.batch, batches)

    def batch(self, batch: Batch) -> str:
        """Return the line of one batch: the header fields under the dump tool's names, and whether the CRC is valid."""
        fields = {
            "base_offset": _known(batch.base_offset),
            "last_offset": batch.last_offset,
            "count": _known(batch.records_count),
            "base_sequence": batch.base_sequence,
            "last_sequence": batch.last_sequence,
            "producer_id": batch.producer_id,
            "producer_epoch": batch.producer_epoch,
            "partition_leader_epoch": batch.leader_epoch,
            "is_transactional": batch.is_transactional,
            "is_control": batch.is_control,
            "delete_horizon_ms": batch.delete_horizon_ms,
            "timestamp_type": self._timestamp_type(batch),
            "max_timestamp_ms": _known(batch.max_timestamp),
            "size": batch.size_bytes,
            "magic": batch.magic,
            "attributes": batch.attributes,
            "compresscodec": codec_name(batch.codec),
            "crc": batch.crc,
            "crc_valid": None if batch.valid < 0 else bool(batch.valid),
        }
        return f"{self._batch_start}{batch.position},{json_text(fields)[1:]}\n"

    def block(self, block: RecordBlock) -> Iterator[str]:
        """Iterate over the lines of batches and their records; a large record's line comes in pieces."""
        rows = block.records.rows()
        begin = 0
        batches = block.batches.rows(block.first_row, block.end_row)
        for batch, end in zip(batches, block.record_ends, strict=True):
            if self._with_batches and not block.begun:
                yield self.batch(batch)
            count = int(end) - begin
            begin = int(end)
            yield from self._records(block.buffer, [next(rows) for _ in range(count)], batch)

    def _records(self, buffer: memoryview, rows: list[tuple[int, ...]], batch: Batch) -> Iterator[str]:
        if not rows:
            return
        base_offset = batch.base_offset
        start = f'{self._record_start}{batch.position},"offset":'
        middle = f',"timestamp_type":"{self._timestamp_type(batch)}","key":'
        batch_fields = (
            f',"batch_base_offset":{base_offset},"codec":"{codec_name(batch.codec)}"'
            f',"producer_id":{batch.producer_id},"producer_epoch":{batch.producer_epoch},"sequence":'
        )
        end = f',"leader_epoch":{batch.leader_epoch},"transactional":{_bool(batch.is_transactional)},"control":'
        for row in rows:
            offset, timestamp, sequence = row[:3]
            shown_timestamp = "null" if timestamp == NO_TIMESTAMP else timestamp
            if is_large(buffer, row):
                yield f'{start}{offset},"timestamp_ms":{shown_timestamp}{middle}'
                yield from self._large_contents(buffer, row)
                yield f"{batch_fields}{sequence}{end}{self._after(buffer, row, batch)}}}\n"
                continue
            yield (
                f'{start}{offset},"timestamp_ms":{shown_timestamp}{middle}{self._contents(buffer, row)}'
                f"{batch_fields}{sequence}{end}{self._after(buffer, row, batch)}}}\n"
            )

    def _contents(self, buffer: memoryview, row: tuple[int, ...]) -> str:
        """Return the members key, value and headers, from the key's value on."""
        _, _, _, key_at, key_size, value_at, value_size, headers_at, header_count = row[:9]
        redaction = self._redaction
        key = _field(buffer, key_at, key_size, redaction.keys)
        value = _field(buffer, value_at, value_size, redaction.values)
        headers = ""
        if header_count:
            headers = ",".join(
                f'{{"key":{_bytes(header.key)},"value":{_shown(header.value, redaction.headers)}}}'
                for header in read_headers(buffer, headers_at, header_count)
            )
        return f'{key},"value":{value},"headers":[{headers}]'

    def _large_contents(self, buffer: memoryview, row: tuple[int, ...]) -> Iterator[str]:
        """Iterate over the text of `_contents`, in pieces."""
        _, _, _, key_at, key_size, value_at, value_size, headers_at, header_count = row[:9]
        redaction = self._redaction
        yield from _field_pieces(buffer, key_at, key_size, redaction.keys)
        yield ',"value":'
        yield from _field_pieces(buffer, value_at, value_size, redaction.values)
        yield ',"headers":['
        for number, (key, value) in enumerate(header_views(buffer, headers_at, header_count)):
            yield ',{"key":' if number else '{"key":'
            yield from json_pieces(key)
            yield ',"value":'
            yield from ("null",) if value is None else _view_pieces(value, redaction.headers)
            yield "}"
        yield "]"

    def _after(self, buffer: memoryview, row: tuple[int, ...], batch: Batch) -> str:
        """Return the value of the member control, and the members that only some records have."""
        if batch.is_control:
            return self._control(view_of(buffer, row[3], row[4]), view_of(buffer, row[5], row[6]))
        text = "null"
        if batch.magic < 2:
            text += f',"crc_valid":{_bool(row[10])}'
        if self._decode is not None:
            decoded = self._decode(view_of(buffer, row[3], row[4]), view_of(buffer, row[5], row[6]))
            text += f',"decoded":{json_text(decoded)}'
        return text

    def _control(self, key: memoryview | None, value: memoryview | None) -> str:
        control = control_object(key, value)
        if self._redaction.values:
            control = {name: control[name] for name in ("type", "type_id") if name in control}
        return json_text(control)

    def _timestamp_type(self, batch: Batch) -> str:
        return "NoTimestampType" if self._is_seven else batch.timestamp_type


def line_start(schema: str, type: str, context: SegmentContext) -> str:  # noqa: A002
    """Return the start of all lines of a segment, up to the position of the batch."""
    fields: dict[str, object] = {"schema": schema, "type": type}
    fields.update({"topic": None} if context.topic is None else json_path(context.topic, "topic"))
    fields["partition"] = context.partition
    fields.update(json_path(context.segment, "segment"))
    return json_text(fields)[:-1] + ',"position":'


def _field(buffer: memoryview, position: int, size: int, showing: Showing) -> str:
    if position == OUTSIDE and size >= 0:
        # A damaged message v0 or v1: the size is known, but the bytes are missing.
        return json_text({**(json_bytes(b"") or {}), "missing_bytes": size})
    return _shown(field_bytes(buffer, position, size), showing)


def _field_pieces(buffer: memoryview, position: int, size: int, showing: Showing) -> Iterator[str]:
    if position == OUTSIDE or size < 0:
        yield _field(buffer, position, size, showing)
    else:
        yield from _view_pieces(buffer[position : position + size], showing)


def _view_pieces(data: memoryview, showing: Showing) -> Iterator[str]:
    if showing is Showing.ALL:
        yield from json_pieces(data)
    else:
        yield redacted_json(data, showing)


def _shown(data: bytes | None, showing: Showing) -> str:
    if data is None:
        return "null"
    return _bytes(data) if showing is Showing.ALL else redacted_json(data, showing)


def _bytes(data: bytes) -> str:
    try:
        return f'{{"encoding":"utf-8","data":{json_quoted(data.decode())}}}'
    except UnicodeDecodeError:
        return json_text(data)


def _known(value: int) -> int | None:
    """Return None for -1, which means unknown or none."""
    return None if value == -1 else value


def _bool(value: object) -> str:
    return "true" if value else "false"
