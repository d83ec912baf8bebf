"""The text of kafka-dump-log (4.2 or 4.3) for segments, batches, records, snapshots and transaction indexes."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from kafkalog_cli.format.batch import KEY_LENGTH_OFFSET, Batch
from kafkalog_cli.format.control import decode_control
from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.format.kafka_version import NEWEST, KafkaVersion
from kafkalog_cli.format.records import OUTSIDE, RecordBlock, Row, view_of
from kafkalog_cli.output.decoders import CannotDecode, Decode, decoded
from kafkalog_cli.output.line_program import (
    CODEC,
    LAST_SEQUENCE,
    STOP,
    TIME_TYPE,
    Form,
    Is,
    Item,
    Op,
    RecordField,
    batch,
    headers,
    program,
    ready,
    record,
    stored,
    true_or_false,
    unless,
    when,
)
from kafkalog_cli.output.rendering import LineForm, Stop, Text, has_control
from kafkalog_cli.output.stream import printable

if TYPE_CHECKING:
    from kafkalog_cli.format.producer_snapshot import ProducerEntry
    from kafkalog_cli.format.txnindex import AbortedTxn

CANNOT_DECODE = "cannot-decode"
"""The kind of an Abort at a key or value that the decoder cannot read."""


class Abort(NamedTuple):
    """Where and why the real tool gives up on the file.

    `position` in bytes, `kind` the value of a FaultKind, or CANNOT_DECODE.
    """

    position: int
    message: str
    kind: str


Field = bytes | memoryview | None
Value = Field | CannotDecode
"""A record's value, or the exception that is thrown where the real tool asks for it: some decoders print that."""
Parsed = tuple["str | Form | None", "str | Form | None"]


KeyValueDecoder = Callable[[int, Field, Value], "Parsed | CannotDecode"]
"""Decodes the key and value of the record at an offset to texts, or says in which Form they are printed.

None if nothing is printed; CannotDecode where the real tool would abort.
"""


_AFTER, _KEY, _PAYLOAD = range(3)
"""Columns of ready texts: what follows the metadata, which may be the end of all text, and the contents."""


class LogText:
    """How the batches and records of one `.log` or `.checkpoint` file become text.

    `decoder` None: contents are not printed. `escape`: for a terminal, control characters of keys, payloads and header
    keys are escaped. `version`: the version of kafka-dump-log that is mirrored.
    """

    def __init__(
        self,
        *,
        decoder: KeyValueDecoder | None,
        skip_metadata: bool,
        escape: bool = False,
        version: KafkaVersion = NEWEST,
    ) -> None:
        self._decoder = decoder
        self._skip_metadata = skip_metadata
        self._escape = escape
        self._version = version
        self._aborted: Abort | None = None
        forms = decoder.forms if isinstance(decoder, ClassDecoder) else None
        contents: list[Item] = []
        if forms is not None:
            key, payload = (stored(part, self._form(form)) for part, form in zip(_CONTENTS, forms, strict=True))
            stop = when(Is.LEGACY, when(Is.OUTSIDE, STOP, of=RecordField.VALUE))
            contents = [stop, *self._contents((Is.NULL, RecordField.KEY), key, (Is.NULL, RecordField.VALUE), payload)]
        elif decoder is not None:
            ready_key, ready_payload = ready(_KEY, RecordField.KEY), ready(_PAYLOAD, RecordField.VALUE)
            contents = self._contents((Is.NO_READY, _KEY), ready_key, (Is.NO_READY, _PAYLOAD), ready_payload)
        self._decodes = decoder is not None and forms is None
        metadata = [] if skip_metadata else self._metadata()
        record_line = [*metadata, ready(_AFTER), unless(Is.CONTROL, *contents), "\n"]
        self.form = LineForm(
            program(_BATCH_LINE, record_line), self._texts, 3 if self._decodes else 1, escape,
            needs_texts=lambda block: self._decodes or has_control(block),
        )  # fmt: skip

    def aborted_at(self, block: RecordBlock, stopped_at: tuple[int, int | None]) -> Abort:
        """Return where and why the real tool gives up; `stopped_at` is where the program ended."""
        row, record_number = stopped_at
        batch_row = block.batches.row(row)
        if record_number is None:
            message = f"Unknown compression type id: {batch_row.codec}"
            return Abort(batch_row.position, message, FaultKind.UNKNOWN_CODEC.value)
        aborted, self._aborted = self._aborted, None
        return aborted or _beyond_the_end(batch_row, int(block.records.offset[record_number]))

    def ending(self, fault: Fault | None, file_name: str, *, whole_file: bool) -> tuple[str, Abort | None]:
        """Return the text after the last batch; `whole_file`: --max-bytes did not cut the file."""
        if fault is None:
            return "", None
        if fault.kind is FaultKind.TRAILING_BYTES:
            if not whole_file:
                return "", None
            shown = printable(file_name) if self._escape else file_name
            return f"Found {fault.size_bytes} invalid bytes at the end of {shown}\n", None
        # The tool prints a legacy entry's offset before it reads its header.
        legacy = fault.kind is FaultKind.INVALID_MAGIC or (fault.kind is FaultKind.HEADER_CUT_OFF and fault.got in "01")
        text = f"offset: {fault.base_offset}" if legacy else ""
        return text, Abort(fault.position, fault.message, fault.kind.value)

    def _metadata(self) -> list[Item]:
        header_keys = headers(when(Is.LATER_HEADER, ","), stored(RecordField.HEADER_KEY, self._form(Form.JAVA)))
        is_valid = true_or_false(Is.RECORD_VALID)
        return [
            "| offset: ", record("offset"), " ", TIME_TYPE, ": ", record("timestamp"), " keySize: ",
            # keySize of a DefaultRecord is -1 for null; a message v0 or v1 prints the number as it is stored.
            when(
                Is.LEGACY, record("key_size"), " valueSize: ", record("value_size"), " isValid: ", is_valid,
                " crc: ", record("crc"), "}" if self._version.is_scala else "",
            ),
            unless(
                Is.LEGACY, record("key_size", at_least_unknown=True), " valueSize: ",
                record("value_size", at_least_unknown=True), " sequence: ", record("sequence"), " headerKeys: [",
                header_keys, "]",
            ),
        ]  # fmt: skip

    def _contents(self, no_key: tuple[Is, int], key: Op, no_payload: tuple[Is, int], payload: Op) -> list[Item]:
        """Return the items of a key and a payload, each under its condition.

        The Scala tool never indents a payload, not even one without a key.
        """
        first = "| " if self._skip_metadata else " "
        bare = " " if self._version.is_scala else first
        key_condition, of_key = no_key
        payload_condition, of_payload = no_payload
        indent: tuple[Item, ...] = when(key_condition, bare, of=of_key), unless(key_condition, " ", of=of_key)
        if bare == " ":
            indent = (" ",)
        return [
            unless(key_condition, first, "key: ", key, of=of_key),
            unless(payload_condition, *indent, "payload: ", payload, of=of_payload),
        ]

    def _form(self, form: Form) -> Form:
        return Form.JAVA_ESCAPED if self._escape and form is Form.JAVA else form

    def _texts(self, buffer: memoryview, row: Row, batch_row: Batch) -> tuple[Text, ...]:
        offset, _, _, key_at, key_size, value_at, value_size = row[:7]
        key, value = view_of(buffer, key_at, key_size), view_of(buffer, value_at, value_size)
        none = (None,) * (self.form.ready_columns - 1)
        if batch_row.is_control:
            if self._skip_metadata:
                return None, *none
            control = control_text(key, value)
            if isinstance(control, Fault):
                return self._stop(batch_row, control.message, control.kind.value), *none
            return control.encode(), *none
        if not self._decodes or self._decoder is None:
            return (None,)
        is_beyond = value_at == OUTSIDE and value_size >= 0
        given = _beyond(batch_row, key_size, value_size) if is_beyond else value
        parsed = self._decoder(offset, key, given)
        if is_beyond and (batch_row.codec or parsed is given):
            self._aborted = _beyond_the_end(batch_row, offset)
            return Stop(), *none
        if isinstance(parsed, CannotDecode):
            return self._stop(batch_row, parsed.message, CANNOT_DECODE), *none
        return None, *map(self._as_printed, parsed)

    def _stop(self, batch_row: Batch, message: str, kind: str) -> Stop:
        self._aborted = Abort(batch_row.position, message, kind)
        return Stop()

    def _as_printed(self, text: str | Form | None) -> Text:
        if isinstance(text, str):
            return (printable(text) if self._escape else text).encode("utf-8", "surrogateescape")
        return None if text is None else self._form(text)


_CONTENTS = RecordField.KEY, RecordField.VALUE
_BATCH_LINE: list[Item] = [
    when(Is.LEGACY, "offset: ", batch("last_offset")),
    unless(
        Is.LEGACY, "baseOffset: ", batch("base_offset"), " lastOffset: ", batch("last_offset"),
        " count: ", batch("records_count"), " baseSequence: ", batch("base_sequence"),
        " lastSequence: ", LAST_SEQUENCE, " producerId: ", batch("producer_id"),
        " producerEpoch: ", batch("producer_epoch"), " partitionLeaderEpoch: ", batch("leader_epoch"),
        " isTransactional: ", true_or_false(Is.TRANSACTIONAL), " isControl: ", true_or_false(Is.CONTROL),
        " deleteHorizonMs: ", when(Is.DELETE_HORIZON, "OptionalLong[", batch("base_timestamp"), "]"),
        unless(Is.DELETE_HORIZON, "OptionalLong.empty"),
    ),
    unless(Is.CODEC_KNOWN, STOP),
    " position: ", batch("position"), " ", TIME_TYPE, ": ", batch("max_timestamp"), " size: ", batch("size_bytes"),
    " magic: ", batch("magic"), " compresscodec: ", CODEC, " crc: ", batch("crc"),
    " isvalid: ", true_or_false(Is.CRC_VALID), "\n",
]  # fmt: skip
"""The line of a batch (DumpLogSegments.printBatchLevel)."""


def _beyond_the_end(batch_row: Batch, offset: int) -> Abort:
    message = f"the value of offset {offset} claims more bytes than there are"
    return Abort(batch_row.position, message, FaultKind.INVALID_RECORD.value)


def _beyond(batch: Batch, key_size: int, value_size: int) -> CannotDecode:
    """Return the exception of a value that is longer than the rest of its message v0 or v1 (Utils.sizeDelimited)."""
    begin = KEY_LENGTH_OFFSET[1 if batch.magic else 0] + 4 + max(key_size, 0) + 4
    return CannotDecode(f"newLimit > capacity: ({value_size} > {batch.size_bytes - begin})")


def optional_long(value: int | None) -> str:
    """Return the text of java.util.OptionalLong.toString."""
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


class ClassDecoder:
    """Decodes keys and values with one decoder each (DumpLogSegments.DecoderMessageParser)."""

    def __init__(self, key: Decode, value: Decode) -> None:
        self._key = key
        self._value = value

    @property
    def forms(self) -> tuple[Form, Form] | None:
        """The forms of keys and values if they are printed as they are stored, whatever they are."""
        key, value = self._key, self._value
        return (key, value) if isinstance(key, Form) and isinstance(value, Form) else None

    def __call__(self, offset: int, key: Field, value: Value) -> Parsed | CannotDecode:
        """See KeyValueDecoder. The first contents that cannot be decoded end the file."""
        del offset
        of_key = None if key is None else decoded(self._key, key)
        if isinstance(of_key, CannotDecode):
            return of_key
        if isinstance(value, CannotDecode):
            return value
        of_value = None if value is None else decoded(self._value, value)
        return of_value if isinstance(of_value, CannotDecode) else (of_key, of_value)


# ---- control records


_LABELS = {2: "LeaderChange:", 3: "SnapshotHeader", 4: "SnapshotFooter", 5: "KRaftVersion", 6: "KRaftVoters"}
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


# ---- snapshots and transaction indexes


def producer_line(entry: ProducerEntry, version: KafkaVersion = NEWEST) -> str:
    """Return the line of one producer; without a batch, the Scala tool's line ends in a blank."""
    line = (
        f"producerId: {entry.producer_id} producerEpoch: {entry.producer_epoch}"
        f" coordinatorEpoch: {entry.coordinator_epoch}"
        f" currentTxnFirstOffset: {optional_long(entry.open_txn_first_offset)} lastTimestamp: {entry.timestamp}"
    )
    if entry.has_batch:
        line += (
            f" firstSequence: {entry.first_sequence} lastSequence: {entry.last_sequence}"
            f" lastOffset: {entry.last_offset} offsetDelta: {entry.offset_delta} timestamp: {entry.timestamp}"
        )
    elif version.is_scala:
        line += " "
    return line + "\n"


def aborted_txn_line(entry: AbortedTxn) -> str:
    """Return the line of one aborted transaction."""
    return (
        f"version: {entry.version} producerId: {entry.producer_id} firstOffset: {entry.first_offset}"
        f" lastOffset: {entry.last_offset} lastStableOffset: {entry.last_stable_offset}\n"
    )


def java_path(path: str) -> str:
    """Return `new File(path).toString()`: without doubled and trailing slashes, otherwise unchanged."""
    parts = [part for part in path.split("/") if part]
    return ("/" if path.startswith("/") else "") + "/".join(parts)


def java_absolute_path(path: str) -> str:
    """Return `new File(path).getAbsolutePath()`: with the working directory in front; `.` and `..` stay."""
    path = java_path(path)
    return path if path.startswith("/") else java_path(os.getcwd() + "/" + path)  # noqa: PTH109
