"""The text of kafka-dump-log (4.2 or 4.3) for segments, batches, records, snapshots and transaction indexes."""

import os
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol

from kafkalog_cli.format.batch import KEY_LENGTH_OFFSET, Batch
from kafkalog_cli.format.compression import codec_name
from kafkalog_cli.format.control import decode_control
from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.format.internal_topics.schema import NEWEST, KafkaVersion
from kafkalog_cli.format.java_text import java_string
from kafkalog_cli.format.producer_snapshot import ProducerEntry
from kafkalog_cli.format.records import OUTSIDE, RecordBlock, field_bytes, header_views, read_headers, view_of
from kafkalog_cli.format.txnindex import AbortedTxn
from kafkalog_cli.output.decoders import CannotDecode, pieces_of
from kafkalog_cli.output.large_fields import is_large, java_pieces
from kafkalog_cli.output.stream import printable

CANNOT_DECODE = "cannot-decode"
"""The kind of an Abort at a key or value that the decoder cannot read."""


class Abort(NamedTuple):
    """Where and why the real tool gives up on the file.

    `position` in bytes, `kind` the value of a FaultKind, or CANNOT_DECODE.
    """

    position: int
    message: str
    kind: str


ShownPieces = tuple[Iterator[str] | None, Iterator[str] | None]
Field = bytes | memoryview | None
Value = Field | CannotDecode
"""A record's value, or the exception that is thrown where the real tool asks for it: some decoders print that."""


class KeyValueDecoder(Protocol):
    """Decodes a record's key and value to text; None if nothing is printed."""

    def parse(self, offset: int, key: Field, value: Value) -> tuple[str | None, str | None] | CannotDecode:
        """Return the texts of `key` and `value`, or why the real tool would abort."""

    def pieces(self, offset: int, key: memoryview | None, value: memoryview | None) -> ShownPieces | CannotDecode:
        """Return the texts of a large record as `parse` does, in pieces."""


class LogText:
    """Renders the batches and records of one `.log` or `.checkpoint` file.

    `decoder` None: contents are not printed. Methods return text. `aborted` is set if the real tool would have thrown
    there; the text is then what the tool had printed before. `escape`: for a terminal, control characters of keys,
    payloads and header keys are escaped. `version`: the version of kafka-dump-log that is mirrored.
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
        self._shown = printable if escape else str
        self._skip_metadata = skip_metadata
        self._version = version
        self.aborted: Abort | None = None

    def batches(self, batches: Iterable[Batch]) -> Iterator[str]:
        """Iterate over the lines of batches, one per batch."""
        for batch in batches:
            yield self.batch(batch)
            if self.aborted:
                return

    def batch(self, batch: Batch) -> str:
        """Return the line of one batch (DumpLogSegments.printBatchLevel)."""
        name = codec_name(batch.codec)
        if batch.magic < 2:
            start = f"offset: {batch.last_offset}"
        else:
            start = (
                f"baseOffset: {batch.base_offset} lastOffset: {batch.last_offset} count: {batch.records_count}"
                f" baseSequence: {batch.base_sequence} lastSequence: {batch.last_sequence}"
                f" producerId: {batch.producer_id} producerEpoch: {batch.producer_epoch}"
                f" partitionLeaderEpoch: {batch.leader_epoch} isTransactional: {_bool(batch.is_transactional)}"
                f" isControl: {_bool(batch.is_control)} deleteHorizonMs: {optional_long(batch.delete_horizon_ms)}"
            )
        if name is None:
            message = f"Unknown compression type id: {batch.codec}"
            self.aborted = Abort(batch.position, message, FaultKind.UNKNOWN_CODEC.value)
            return start
        return (
            f"{start} position: {batch.position} {batch.timestamp_type}: {batch.max_timestamp}"
            f" size: {batch.size_bytes} magic: {batch.magic} compresscodec: {name}"
            f" crc: {batch.crc} isvalid: {_bool(batch.valid)}\n"
        )

    def block(self, block: RecordBlock) -> Iterator[str]:
        """Iterate over the batch lines of a block, each followed by its record lines; large records come in pieces."""
        for index, (batch, rows) in enumerate(block.batch_rows(), block.first_row):
            if not block.begun:
                yield self.batch(batch)
            for row in rows:
                if self.aborted:
                    return
                if is_large(block.buffer, row):
                    yield from self._large_record(block.buffer, row, batch)
                else:
                    yield self._record(block.buffer, row, batch)
            if index in block.faults and not self.aborted:
                fault = block.faults[index]
                self.aborted = Abort(batch.position, fault.message, fault.kind.value)
            if self.aborted:
                return

    def _record(self, buffer: memoryview, row: tuple[int, ...], batch: Batch) -> str:
        text = "" if self._skip_metadata else self._metadata(buffer, row, batch)
        if self.aborted or self._decoder is None or batch.is_control:
            return text if self.aborted else text + "\n"
        offset, _, _, key_at, key_size, value_at, value_size = row[:7]
        is_beyond = value_at == OUTSIDE and value_size >= 0
        value = _beyond(batch, key_size, value_size) if is_beyond else field_bytes(buffer, value_at, value_size)
        parsed = self._decoder.parse(offset, field_bytes(buffer, key_at, key_size), value)
        if is_beyond and (batch.codec or parsed is value):
            message = f"the value of offset {offset} claims more bytes than there are"
            self.aborted = Abort(batch.position, message, FaultKind.INVALID_RECORD.value)
            return text
        if isinstance(parsed, CannotDecode):
            self.aborted = Abort(batch.position, parsed.message, CANNOT_DECODE)
            return text
        key, payload = parsed
        if key is not None:
            text += f"{self._indent(is_first=True)}key: {self._shown(key)}"
        if payload is not None:
            text += (
                f"{self._indent(is_first=key is None and not self._version.is_scala)}payload: {self._shown(payload)}"
            )
        return text + "\n"

    def _large_record(self, buffer: memoryview, row: tuple[int, ...], batch: Batch) -> Iterator[str]:
        """Iterate over the text of `_record` in pieces."""
        _, _, _, key_at, key_size, value_at, value_size, headers_at, count = row[:9]
        without_headers = (*row[:8], 0, *row[9:])
        if not self._skip_metadata:
            start, keys, end = self._metadata(buffer, without_headers, batch).partition("headerKeys: [")
            yield start + keys
            for number, (name, _) in enumerate(header_views(buffer, headers_at, count)):
                yield "," if number else ""
                yield from map(self._shown, java_pieces(name))
            yield end
        if self.aborted:
            return
        if self._decoder is None or batch.is_control or OUTSIDE in (key_at, value_at):
            metadata = "" if self._skip_metadata else self._metadata(buffer, without_headers, batch)
            yield self._record(buffer, without_headers, batch)[len(metadata) :]
            return
        key, value = view_of(buffer, key_at, key_size), view_of(buffer, value_at, value_size)
        shown = self._decoder.pieces(row[0], key, value)
        if isinstance(shown, CannotDecode):
            self.aborted = Abort(batch.position, shown.message, CANNOT_DECODE)
            return
        key_pieces, payload_pieces = shown
        if key_pieces is not None:
            yield f"{self._indent(is_first=True)}key: "
            yield from map(self._shown, key_pieces)
        if payload_pieces is not None:
            yield f"{self._indent(is_first=key_pieces is None and not self._version.is_scala)}payload: "
            yield from map(self._shown, payload_pieces)
        yield "\n"

    def _indent(self, *, is_first: bool) -> str:
        """Return the text before a key or a payload.

        The Scala tool never indents a payload, not even one without a key.
        """
        return "| " if self._skip_metadata and is_first else " "

    def _metadata(self, buffer: memoryview, row: tuple[int, ...], batch: Batch) -> str:
        offset, timestamp, sequence, key_at, key_size, value_at, value_size, headers_at, count, crc, valid = row
        # keySize of a DefaultRecord is -1 for null; a message v0 or v1 prints the number as it is stored.
        if batch.magic >= 2:
            key_size, value_size = max(key_size, -1), max(value_size, -1)
        text = f"| offset: {offset} {batch.timestamp_type}: {timestamp} keySize: {key_size} valueSize: {value_size}"
        if batch.magic < 2:
            return f"{text} isValid: {_bool(valid)} crc: {crc}{'}' if self._version.is_scala else ''}"
        headers = read_headers(buffer, headers_at, count) if count else ()
        keys = ",".join(self._shown(java_string(header.key)) for header in headers)
        text += f" sequence: {sequence} headerKeys: [{keys}]"
        if batch.is_control:
            control = control_text(view_of(buffer, key_at, key_size), view_of(buffer, value_at, value_size))
            if isinstance(control, Fault):
                self.aborted = Abort(batch.position, control.message, control.kind.value)
            else:
                text += control
        return text

    def ending(self, fault: Fault | None, file_name: str, *, whole_file: bool) -> str:
        """Return the text after the last batch; `whole_file`: --max-bytes did not cut the file."""
        if fault is None:
            return ""
        if fault.kind is FaultKind.TRAILING_BYTES:
            if not whole_file:
                return ""
            return f"Found {fault.size_bytes} invalid bytes at the end of {self._shown(file_name)}\n"
        self.aborted = Abort(fault.position, fault.message, fault.kind.value)
        # The tool prints a legacy entry's offset before it reads its header.
        legacy = fault.kind is FaultKind.INVALID_MAGIC or (fault.kind is FaultKind.HEADER_CUT_OFF and fault.got in "01")
        return f"offset: {fault.base_offset}" if legacy else ""


def _beyond(batch: Batch, key_size: int, value_size: int) -> CannotDecode:
    """Return the exception of a value that is longer than the rest of its message v0 or v1 (Utils.sizeDelimited)."""
    begin = KEY_LENGTH_OFFSET[1 if batch.magic else 0] + 4 + max(key_size, 0) + 4
    return CannotDecode(f"newLimit > capacity: ({value_size} > {batch.size_bytes - begin})")


def optional_long(value: int | None) -> str:
    """Return the text of java.util.OptionalLong.toString."""
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


def _bool(value: object) -> str:
    return "true" if value else "false"


class ClassDecoder:
    """Decodes keys and values with one decoder each (DumpLogSegments.DecoderMessageParser)."""

    def __init__(
        self, key: Callable[[bytes], str | CannotDecode], value: Callable[[bytes], str | CannotDecode]
    ) -> None:
        self._key = key
        self._value = value

    def pieces(self, offset: int, key: memoryview | None, value: memoryview | None) -> ShownPieces | CannotDecode:
        """See KeyValueDecoder."""
        del offset
        of_key = None if key is None else pieces_of(self._key, key)
        if isinstance(of_key, CannotDecode):
            return of_key
        of_value = None if value is None else pieces_of(self._value, value)
        return of_value if isinstance(of_value, CannotDecode) else (of_key, of_value)

    def parse(self, offset: int, key: Field, value: Value) -> tuple[str | None, str | None] | CannotDecode:
        """Return the texts of `key` and `value`; the first that cannot be decoded ends the file."""
        del offset
        key_text = None if key is None else self._key(bytes(key))
        if isinstance(key_text, CannotDecode):
            return key_text
        if isinstance(value, CannotDecode):
            return value
        value_text = None if value is None else self._value(bytes(value))
        if isinstance(value_text, CannotDecode):
            return value_text
        return key_text, value_text


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
