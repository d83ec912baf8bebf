"""Records and batches of one segment as NDJSON, without loss: `append` can write the records again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

from kafkalog_cli.format.batch import NO_TIMESTAMP, Batch
from kafkalog_cli.format.compression import codec_name
from kafkalog_cli.format.control import CONTROL_TYPES, control_object
from kafkalog_cli.format.records import OUTSIDE, RecordBlock, field_bytes, header_views, read_headers, view_of
from kafkalog_cli.output.large_fields import is_large, json_pieces
from kafkalog_cli.output.ndjson import (
    OPEN,
    BytesObject,
    CodecWord,
    Count,
    NotRequired,
    ObjectKind,
    PathText,
    json_bytes,
    json_quoted,
    json_text,
    keywords,
)
from kafkalog_cli.output.redact import NO_REDACTION, Redaction, Showing, redacted_json

if TYPE_CHECKING:
    from kafkalog_cli.output.decoded_values import DecodedValues

TimestampType = Annotated[str, keywords(enum=("CreateTime", "LogAppendTime", "NoTimestampType"))]


class SegmentPlaceObject(TypedDict):
    """The place of a batch."""

    topic: Annotated[PathText | None, "by the directory's name; null outside of a partition directory"]
    partition: Annotated[Count | None, "null outside of a partition directory"]
    segment: Annotated[PathText, "the name of the file"]
    position: Annotated[Count, "the byte of the segment at which the batch starts"]


class BatchFieldsObject(TypedDict):
    """The fields of a batch's header."""

    base_offset: Annotated[int | None, "null for a compressed message set, which has only its last offset"]
    last_offset: int
    count: Annotated[int | None, "records; null for a compressed message set, which has no count"]
    base_sequence: Annotated[int, "-1: none"]
    last_sequence: Annotated[int, "-1: none"]
    producer_id: Annotated[int, "-1: none"]
    producer_epoch: Annotated[int, "-1: none"]
    partition_leader_epoch: Annotated[int, "-1: unknown"]
    is_transactional: bool
    is_control: bool
    delete_horizon_ms: Annotated[int | None, "tombstones and markers may be removed from then on; null if not set"]
    timestamp_type: TimestampType
    max_timestamp_ms: Annotated[int | None, "null: none"]
    size: Annotated[Count, "in bytes, with the header"]
    magic: int
    attributes: Annotated[int, keywords(minimum=0, maximum=255), "the low byte, as stored"]
    compresscodec: Annotated[CodecWord | None, "null for an unknown id"]
    crc: Annotated[Count, "as stored"]
    crc_valid: Annotated[bool | None, "null if it was not checked"]


class BatchObject(SegmentPlaceObject, BatchFieldsObject):
    """The header of a batch, or an entry of a message set v0, v1 or 0.7."""


class StoredBytesObject(BytesObject):
    """Bytes of a record, without loss."""

    missing_bytes: NotRequired[Annotated[Count, "a damaged message v0 or v1 has this size, but not the bytes"]]


class RedactedObject(TypedDict):
    """Contents that --redact hides."""

    redacted: Literal[True]
    bytes: NotRequired[Annotated[Count, "the size"]]
    sha256: NotRequired[Annotated[str, keywords(pattern="^[0-9a-f]{64}$")]]


Contents = StoredBytesObject | RedactedObject | None


class HeaderObject(TypedDict):
    """A header of a record."""

    key: BytesObject
    value: BytesObject | RedactedObject | None


class ControlObject(TypedDict):
    """A control record, with the fields of its value under Kafka's names."""

    type: Annotated[str, keywords(enum=(*CONTROL_TYPES, "UNKNOWN", "INVALID")), "INVALID: it cannot be read"]
    type_id: NotRequired[int]
    error: NotRequired[Annotated[str, "why it cannot be read"]]


class RecordObject(SegmentPlaceObject):
    """A record of a segment."""

    offset: Annotated[int, "in a file of Kafka 0.7 a position in bytes"]
    timestamp_ms: Annotated[int | None, "null: none"]
    timestamp_type: TimestampType
    key: Contents
    value: Contents
    headers: Annotated[list[HeaderObject], "in their order, with duplicates"]
    batch_base_offset: Annotated[int, "of a compressed message set the offset of its first record"]
    codec: CodecWord
    producer_id: Annotated[int, "-1: none"]
    producer_epoch: Annotated[int, "-1: none"]
    sequence: Annotated[int, "-1: none"]
    leader_epoch: Annotated[int, "-1: unknown"]
    transactional: bool
    control: Annotated[ControlObject | None, OPEN, "null for data"]
    crc_valid: NotRequired[Annotated[bool, "only of messages v0, v1 and 0.7, which have their own checksums"]]
    decoded: NotRequired[
        Annotated[
            dict[str, Any] | None,
            "the record by Kafka's schemas; null if it cannot be read; only with a decoder or in an internal topic."
            " With --key-format and --value-format, the members key and value",
        ]
    ]
    match: NotRequired[
        Annotated[bool, "whether the record matches; only of `find` with -A, -B or -C, which print other records too"]
    ]


RECORD = ObjectKind("kafkalog.record/1", RecordObject)
BATCH = ObjectKind("kafkalog.batch/1", BatchObject)

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
    """`with_batches`: each batch has a line before the lines of its records.

    `decode` adds the field `decoded`, and so does `values`, which goes first.
    """

    redaction: Redaction = NO_REDACTION
    with_batches: bool = True
    decode: Decode | None = None
    values: DecodedValues | None = None

    @property
    def values_shown(self) -> DecodedValues | None:
        """`values`; None if its result would show redacted contents."""
        return None if self.redaction.keys or self.redaction.values else self.values

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
        self._values = options.values_shown
        self._is_seven = context.is_seven
        self._batch_start = line_start(BATCH, context)
        self._record_start = line_start(RECORD, context)

    def batches(self, batches: Iterable[Batch]) -> Iterator[str]:
        """Iterate over the lines of batches, one per batch."""
        return map(self.batch, batches)

    def batch(self, batch: Batch) -> str:
        """Return the line of one batch: the header fields under the dump tool's names, and whether the CRC is valid."""
        fields: BatchFieldsObject = {
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
        for batch, rows in block.batch_rows():
            if self._with_batches and not block.begun:
                yield self.batch(batch)
            yield from self._records(block.buffer, [*rows], batch)

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
        if self._values is not None:
            text += f',"decoded":{json_text(self._values.json_object(buffer, row))}'
        elif self._decode is not None:
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


def line_start(kind: ObjectKind[Any], context: SegmentContext) -> str:
    """Return the start of all lines of a segment, up to the position of the batch."""
    topic = None if context.topic is None else PathText(context.topic)
    place = {"topic": topic, "partition": context.partition, "segment": PathText(context.segment)}
    return json_text({"schema": kind.name, "type": kind.type, **place})[:-1] + ',"position":'


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
