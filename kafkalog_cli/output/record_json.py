"""Records and batches of one segment as NDJSON, without loss: `append` can write the records again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from kafkalog_cli.format.control import CONTROL_TYPES, control_object
from kafkalog_cli.format.records import OUTSIDE, header_views, view_of
from kafkalog_cli.ops.words import CodecWord
from kafkalog_cli.output.line_program import (
    CODEC,
    LAST_SEQUENCE,
    TIME_TYPE,
    Form,
    Is,
    Item,
    RecordField,
    batch,
    headers,
    program,
    ready,
    record,
    size,
    stored,
    true_or_false,
    unless,
    when,
)
from kafkalog_cli.output.ndjson import BytesObject, json_text
from kafkalog_cli.output.redact import NO_REDACTION, Redaction, Showing, redacted_json
from kafkalog_cli.output.rendering import LineForm, has_control
from kafkalog_cli.results import OPEN, SOMETIMES, Count, PathName, PathText, keywords, result

if TYPE_CHECKING:
    from kafkalog_cli.format.batch import Batch
    from kafkalog_cli.format.records import RecordBlock, Row
    from kafkalog_cli.log.partition import Partition, Segment
    from kafkalog_cli.output.decoded_values import DecodedValues

TimestampType = Annotated[str, keywords(enum=("CreateTime", "LogAppendTime", "NoTimestampType"))]


@dataclass(frozen=True)
class SegmentPlaceObject:
    """The place of a batch."""

    topic: Annotated[PathName | None, "by the directory's name; null outside of a partition directory"]
    partition: Annotated[Count | None, "null outside of a partition directory"]
    segment: Annotated[PathName, "the name of the file"]
    position: Annotated[Count, "the byte of the segment at which the batch starts"]


@dataclass(frozen=True)
class BatchFieldsObject:
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


@result("kafkalog.batch/1")
@dataclass(frozen=True)
class BatchObject(BatchFieldsObject, SegmentPlaceObject):
    """The header of a batch, or an entry of a message set v0, v1 or 0.7."""


@dataclass(frozen=True)
class StoredBytesObject(BytesObject):
    """Bytes of a record, without loss."""

    missing_bytes: Annotated[Count, SOMETIMES, "a damaged message v0 or v1 has this size, but not the bytes"]


@dataclass(frozen=True)
class RedactedObject:
    """Contents that --redact hides."""

    redacted: Literal[True]
    bytes: Annotated[Count, SOMETIMES, "the size"]
    sha256: Annotated[str, SOMETIMES, keywords(pattern="^[0-9a-f]{64}$")]


Contents = StoredBytesObject | RedactedObject | None


@dataclass(frozen=True)
class HeaderObject:
    """A header of a record."""

    key: BytesObject
    value: BytesObject | RedactedObject | None


@dataclass(frozen=True)
class ControlObject:
    """A control record, with the fields of its value under Kafka's names."""

    type: Annotated[str, keywords(enum=(*CONTROL_TYPES, "UNKNOWN", "INVALID")), "INVALID: it cannot be read"]
    type_id: Annotated[int, SOMETIMES]
    error: Annotated[str, SOMETIMES, "why it cannot be read"]


@result("kafkalog.record/1")
@dataclass(frozen=True)
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
    crc_valid: Annotated[bool, SOMETIMES, "only of messages v0, v1 and 0.7, which have their own checksums"]
    decoded: Annotated[
        dict[str, Any] | None,
        SOMETIMES,
        "the record by Kafka's schemas; null if it cannot be read; only with a decoder or in an internal topic."
        " With --key-format and --value-format, the members key and value",
    ]
    match: Annotated[
        bool, SOMETIMES, "whether the record matches; only of `find` with -A, -B or -C, which print other records too"
    ]


Decode = Callable[[memoryview | None, memoryview | None], Any]
"""Decodes key and value to JSON values; None if there is nothing to show."""


@dataclass(frozen=True, slots=True)
class SegmentContext:
    """The source of the batches. `topic` and `partition` are None outside of a partition directory.

    `segment` is the file's name. `is_v07`: a file of Kafka 0.7, whose messages have no timestamps.
    """

    topic: str | None
    partition: int | None
    segment: str
    is_v07: bool = False

    @classmethod
    def of_segment(cls, partition: Partition, segment: Segment) -> SegmentContext:
        """Return the context of a segment of a partition."""
        directory = partition.directory
        return cls(directory.topic, directory.partition, segment.log.path.rpartition("/")[2], segment.is_v07)


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


def record_form(context: SegmentContext, options: RecordJsonOptions, *, is_match: bool | None = None) -> LineForm:
    """Return how batches and records of a segment become lines; `is_match`: the value of the member `match`.

    The lines do not contain the damage of a block.
    """
    texts = _Texts(options)
    time_type: Item = "NoTimestampType" if context.is_v07 else TIME_TYPE
    batch_line = _batch_line(line_start(BatchObject, context), time_type) if options.with_batches else []
    redaction = options.redaction
    match: list[Item] = [] if is_match is None else [',"match":true' if is_match else ',"match":false']
    decoded: list[Item] = [',"decoded":', ready(texts.after)] if texts.decodes else []
    record_line: list[Item] = [
        line_start(RecordObject, context), batch("position"), ',"offset":', record("offset"),
        ',"timestamp_ms":', record("timestamp", null_for_unknown=True), ',"timestamp_type":"', time_type,
        '","key":', *_contents(RecordField.KEY, redaction.keys, texts.key),
        ',"value":', *_contents(RecordField.VALUE, redaction.values, texts.value),
        ',"headers":[', *_headers(redaction.headers, texts.headers),
        '],"batch_base_offset":', batch("base_offset"), ',"codec":"', CODEC,
        '","producer_id":', batch("producer_id"), ',"producer_epoch":', batch("producer_epoch"),
        ',"sequence":', record("sequence"), ',"leader_epoch":', batch("leader_epoch"),
        ',"transactional":', true_or_false(Is.TRANSACTIONAL), ',"control":', when(Is.CONTROL, ready(texts.after)),
        unless(
            Is.CONTROL, "null", when(Is.LEGACY, ',"crc_valid":', true_or_false(Is.RECORD_VALID)),
            *decoded,
        ),
        *match, "}\n",
    ]  # fmt: skip
    return LineForm(program(batch_line, record_line), texts.of, texts.columns, needs_texts=texts.are_needed)


def _batch_line(start: str, time_type: Item) -> list[Item]:
    return [
        start, batch("position"),
        ',"base_offset":', batch("base_offset", null_for_unknown=True), ',"last_offset":', batch("last_offset"),
        ',"count":', batch("records_count", null_for_unknown=True), ',"base_sequence":', batch("base_sequence"),
        ',"last_sequence":', LAST_SEQUENCE, ',"producer_id":', batch("producer_id"),
        ',"producer_epoch":', batch("producer_epoch"), ',"partition_leader_epoch":', batch("leader_epoch"),
        ',"is_transactional":', true_or_false(Is.TRANSACTIONAL), ',"is_control":', true_or_false(Is.CONTROL),
        ',"delete_horizon_ms":', when(Is.DELETE_HORIZON, batch("base_timestamp")), unless(Is.DELETE_HORIZON, "null"),
        ',"timestamp_type":"', time_type, '","max_timestamp_ms":', batch("max_timestamp", null_for_unknown=True),
        ',"size":', batch("size_bytes"), ',"magic":', batch("magic"), ',"attributes":', batch("attributes"),
        ',"compresscodec":', when(Is.CODEC_KNOWN, '"', CODEC, '"'), unless(Is.CODEC_KNOWN, "null"),
        ',"crc":', batch("crc"), ',"crc_valid":', when(Is.CRC_CHECKED, true_or_false(Is.CRC_VALID)),
        unless(Is.CRC_CHECKED, "null"), "}\n",
    ]  # fmt: skip


def _contents(field: RecordField, showing: Showing, hashes: int) -> list[Item]:
    """Return the items of contents; `hashes` is the column with the JSON of their hashes."""
    whole = stored(field, Form.JSON)
    if showing is Showing.ALL:
        return [whole]
    redacted: list[Item] = ['{"redacted":true}']
    if showing is Showing.LENGTH:
        redacted = ['{"redacted":true,"bytes":', size(field), "}"]
    elif showing is Showing.HASH:
        redacted = [ready(hashes)]
    # Of a null there is nothing to hide, and the size of missing bytes is damage that is reported.
    is_shown = (when(Is.NULL, whole, of=field), when(Is.OUTSIDE, whole, of=field))
    return [*is_shown, unless(Is.NULL, unless(Is.OUTSIDE, *redacted, of=field), of=field)]


def _headers(showing: Showing, hashes: int) -> list[Item]:
    if showing is Showing.HASH:
        return [ready(hashes)]
    key, value = stored(RecordField.HEADER_KEY, Form.JSON), _contents(RecordField.HEADER_VALUE, showing, hashes)
    return [headers(when(Is.LATER_HEADER, ","), '{"key":', key, ',"value":', *value, "}")]


class _Texts:
    """Makes the texts that need Python: control records, decoded contents, hashes. Each has its column."""

    def __init__(self, options: RecordJsonOptions) -> None:
        redaction = options.redaction
        self._decode, self._values, self._hides_values = options.decode_shown, options.values_shown, redaction.values
        self.decodes = self._decode is not None or self._values is not None
        self.after = 0
        self._has_hash = tuple(
            showing is Showing.HASH for showing in (redaction.keys, redaction.values, redaction.headers)
        )
        self.key, self.value, self.headers = (1 + sum(self._has_hash[:number]) for number in range(3))
        self.columns = 1 + sum(self._has_hash)

    def are_needed(self, block: RecordBlock) -> bool:
        """Whether records of this block have texts."""
        return self.decodes or self.columns > 1 or has_control(block)

    def of(self, buffer: memoryview, row: Row, batch: Batch) -> tuple[bytes | None, ...]:
        """Return the texts of a record."""
        hashes: list[bytes | None] = []
        for has_hash, at, length in zip(self._has_hash[:2], (row[3], row[5]), (row[4], row[6]), strict=True):
            if has_hash:
                data = None if at == OUTSIDE else view_of(buffer, at, length)
                hashes.append(None if data is None else redacted_json(data, Showing.HASH).encode())
        if self._has_hash[2]:
            header_pairs = header_views(buffer, row[7], row[8])
            objects = (f'{{"key":{json_text(key)},"value":{_hash(value)}}}' for key, value in header_pairs)
            hashes.append(",".join(objects).encode())
        return self._after(buffer, row, batch), *hashes

    def _after(self, buffer: memoryview, row: Row, batch: Batch) -> bytes | None:
        """Return the member `control` of a control record, or `decoded` of another."""
        key, value = view_of(buffer, row[3], row[4]), view_of(buffer, row[5], row[6])
        member: object
        if batch.is_control:
            member = control_object(key, value)
            if self._hides_values:
                member = {name: member[name] for name in ("type", "type_id") if name in member}
        elif self._values is not None:
            member = self._values.json_object(buffer, row)
        elif self._decode is not None:
            member = self._decode(key, value)
        else:
            return None
        return json_text(member).encode()


def _hash(value: memoryview | None) -> str:
    return "null" if value is None else redacted_json(value, Showing.HASH)


def line_start(kind: Any, context: SegmentContext) -> str:
    """Return the start of all lines of a segment, up to the position of the batch."""
    topic = None if context.topic is None else PathText(context.topic)
    names = {"topic": topic, "partition": context.partition, "segment": PathText(context.segment)}
    return json_text({"schema": kind.schema.name, "type": kind.schema.type, **names})[:-1] + ',"position":'
