"""Decode the records of one batch in plain Python: v2, and message sets v0 and v1 with their nesting."""

import struct
from collections.abc import Iterator

from kafkalog_cli.format import crc as checksums
from kafkalog_cli.format.batch import (
    CODEC_MASK,
    KEY_LENGTH_OFFSET,
    LOG_OVERHEAD_BYTES,
    MESSAGE_V0,
    MESSAGE_V1,
    MINIMUM_ENTRY_SIZE,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    Batch,
    increment_sequence,
    wrap_int64,
)
from kafkalog_cli.format.fault import Fault, FaultKind, fault_of
from kafkalog_cli.format.records import ODD_HEADER, OUTSIDE, PART_RECORDS, Part, Row


class _InvalidRecord(Exception):
    """The bytes are not a record. It never leaves this module."""


def decode_batch(view: memoryview, start: int, end: int, batch: Batch) -> Iterator[Part]:
    """Yield the records of a v2 batch, whose (decompressed) records are `view[start:end]`, in one or more parts.

    Mirrors DefaultRecordBatch.iterator: an uncompressed batch yields the records before a fault, a compressed batch
    none. A large compressed batch is therefore read once in advance.
    """
    if batch.records_count < 0:
        reason = f"Found invalid record count {batch.records_count} in magic v2 batch"
        yield [], fault_of(batch, FaultKind.INVALID_COUNT, reason)
        return
    if batch.codec and batch.records_count > PART_RECORDS:
        fault = next((fault for _, fault in _parts(view, start, end, batch) if fault is not None), None)
        if fault is not None:
            yield [], fault
            return
    for rows, fault in _parts(view, start, end, batch):
        yield ([] if fault is not None and batch.codec else rows), fault


def _parts(view: memoryview, position: int, end: int, batch: Batch) -> Iterator[Part]:
    first, fault = 0, None
    while fault is None and (first < batch.records_count or not first):
        rows, position, fault = decode_part(view, position, end, batch, first)
        first += max(len(rows), 1)
        yield rows, fault


def decode_part(
    view: memoryview, position: int, end: int, batch: Batch, first: int
) -> tuple[list[Row], int, Fault | None]:
    """Return records of a v2 batch from number `first` on, which is at `position`: (rows, next position, fault).

    At most PART_RECORDS are returned, and only records that Kafka's iterator returns for an uncompressed batch.
    """
    rows: list[Row] = []
    count = batch.records_count
    timestamp = batch.max_timestamp if batch.is_log_append_time else None
    base = (batch.base_offset, batch.base_timestamp, batch.base_sequence)
    append = rows.append
    try:
        for _ in range(min(PART_RECORDS, count - first)):
            row, position = _record(view, position, end, base, timestamp)
            append(row)
    except (_InvalidRecord, IndexError) as error:
        reason = str(error) if isinstance(error, _InvalidRecord) else "Incorrect declared batch size, premature EOF"
        reason = f"record {first + len(rows)} of {count}: {reason}"
        return rows, position, fault_of(batch, FaultKind.INVALID_RECORD, reason)
    if count and first + len(rows) == count and position != end:
        rows.pop()  # Kafka's iterator checks this before it returns the last record
        reason = "Incorrect declared batch size, records still remaining in file"
        return rows, position, fault_of(batch, FaultKind.RECORDS_REMAINING, reason)
    return rows, position, None


def _record(
    view: memoryview, position: int, end: int, base: tuple[int, int, int], append_time: int | None
) -> tuple[tuple[int, ...], int]:
    """Return one record (DefaultRecord.readFrom) as a row, and the position of the next record."""
    length, position = _varint(view, position, end)
    body_end = position + length
    if length > end - position:
        raise _InvalidRecord(f"Invalid record size: expected {length} bytes, but only {end - position} are left")
    delta, position = _varlong(view, position + 1, end)
    offset_delta, position = _varint(view, position, end)
    key_size, key_at = _varint(view, position, end)
    value_size, value_at = _varint(view, key_at + key_size if key_size > 0 else key_at, end)
    headers, headers_at = _varint(view, value_at + value_size if value_size > 0 else value_at, end)
    position, valid = headers_at, 1
    if headers:
        position, valid = _skip_headers(view, position, end, headers)
    if position != body_end:
        raise _InvalidRecord(f"Invalid record size: expected to read {length} bytes")
    base_offset, base_timestamp, base_sequence = base
    offset = wrap_int64(base_offset + offset_delta)
    timestamp = wrap_int64(base_timestamp + delta) if append_time is None else append_time
    sequence = increment_sequence(base_sequence, offset_delta) if base_sequence >= 0 else NO_SEQUENCE
    row = (offset, timestamp, sequence, key_at, key_size, value_at, value_size, headers_at, headers, -1, valid)
    return row, position


def _skip_headers(view: memoryview, position: int, end: int, count: int) -> tuple[int, int]:
    """Return the position after the headers, and `Record.valid`."""
    valid = 1
    if not 0 <= count <= end - position:
        raise _InvalidRecord(f"Found invalid number of record headers {count}")
    for _ in range(count):
        size, position = _varint(view, position, end)
        if size < 0:
            raise _InvalidRecord(f"Invalid negative header key size {size}")
        size, position = _varint(view, position + size, end)
        position += max(size, 0)
        if size < -1:
            valid = ODD_HEADER
    return position, valid


def _varint(view: memoryview, position: int, end: int) -> tuple[int, int]:
    # One byte is nearly always enough. After a wrong length the position may be past the end.
    if position >= end:
        raise _InvalidRecord("premature end of the batch")
    byte = view[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    return _long_varint(view, position, end, 5, 0xFFFFFFFF)


def _varlong(view: memoryview, position: int, end: int) -> tuple[int, int]:
    return _long_varint(view, position, end, 10, 0xFFFFFFFFFFFFFFFF)


def _long_varint(view: memoryview, position: int, end: int, most_bytes: int, mask: int) -> tuple[int, int]:
    value = 0
    for index in range(most_bytes):
        if position + index >= end:
            raise _InvalidRecord("premature end of the batch")
        byte = view[position + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            value &= mask
            return (value >> 1) ^ -(value & 1), position + index + 1
    raise _InvalidRecord("Varint is too long")


_INT32 = struct.Struct(">i")


def decode_message(
    view: memoryview, start: int, end: int, batch: Batch, *, timestamps_only: bool = False
) -> tuple[list[Row], Fault | None]:
    """Return the record of an uncompressed entry v0 or v1, which is `view[start:end]`.

    `timestamps_only`: an unreadable value length is not a fault, because the value is not used.
    """
    row = _message(view, start, end, batch.last_offset, None)
    if _is_unreadable(row) and not timestamps_only:
        return [], fault_of(batch, FaultKind.INVALID_RECORD, "the value length lies outside the message")
    return [row], None


def compressed_value(view: memoryview, start: int, end: int, magic: int) -> memoryview | None:
    """Return the value of a wrapper message; None if it is null or extends past the message."""
    row = _message(view, start, end, 0, None)
    if row[6] < 0 or row[5] == OUTSIDE:
        return None
    return view[row[5] : row[5] + row[6]]


class _InnerMessages:
    """A walk through the messages of a decompressed set.

    `problem` describes the first bad message; it and later messages are not returned. `broken` is the reason why the
    walk ended early. `count` is the number of messages so far, and `last_offset` the offset of the last of them.
    """

    def __init__(self, view: memoryview, batch: Batch, *, timestamps_only: bool, position: int = 0) -> None:
        self.position = position
        self.last_offset = self.count = 0
        self.problem = self.broken = ""
        self._view = view
        self._append_time = batch.max_timestamp if batch.is_log_append_time else None
        self._timestamps_only = timestamps_only

    def part(self) -> list[Row]:
        """Return the next messages, with their offsets in the set."""
        rows: list[Row] = []
        view, end = self._view, len(self._view)
        while self.position + LOG_OVERHEAD_BYTES <= end and len(rows) < PART_RECORDS:
            offset, size = _OFFSET_AND_SIZE.unpack_from(view, self.position)
            if size < MINIMUM_ENTRY_SIZE:
                self.broken = f"inner message of {size} bytes"
                return []
            start, entry_end = self.position, self.position + LOG_OVERHEAD_BYTES + size
            if entry_end > end:
                break
            self.position, self.last_offset = entry_end, offset
            self.count += 1
            row = _message(view, start, entry_end, offset, self._append_time)
            if not self.problem:
                if _is_unreadable(row) and not self._timestamps_only:
                    self.problem = "a length lies outside the inner message"
                elif view[start + 17] & CODEC_MASK:
                    self.problem = "Inner messages must not be compressed"
                else:
                    rows.append(row)
        return rows


_OFFSET_AND_SIZE = struct.Struct(">qi")


def decode_inner(view: memoryview, batch: Batch, *, timestamps_only: bool = False) -> Iterator[Part]:
    """Yield the records of the decompressed set of a wrapper v0 or v1 (AbstractLegacyRecordBatch.DeepRecordsIterator).

    Inner offsets are absolute in magic 0. In magic 1 they are relative, and the last message, which has the wrapper's
    offset, gives the base. The whole set is therefore read once in advance. `timestamps_only`: an unreadable key or
    value length is not a fault, because neither is used.
    """
    look = _InnerMessages(view, batch, timestamps_only=timestamps_only)
    first = rows = look.part()
    second_at = look.position
    while rows:
        rows = look.part()
    base = _base_offset(look, batch)
    if isinstance(base, Fault):
        yield [], base
        return
    fault = _invalid_inner(batch, look.problem) if look.problem else None
    rest = _InnerMessages(view, batch, timestamps_only=timestamps_only, position=second_at)
    rows = first
    while True:
        more = rest.part()
        yield [(wrap_int64(base + row[0]), *row[1:]) for row in rows] if base else rows, None if more else fault
        if not more:
            return
        rows = more


def _base_offset(seen: _InnerMessages, batch: Batch) -> int | Fault:
    """Return the number to add to the offsets of inner messages."""
    if seen.broken:
        return _invalid_inner(batch, seen.broken)
    if not seen.count:
        return _invalid_inner(batch, "Found invalid compressed record set with no inner records")
    # Some versions of librdkafka leave the wrapper's offset at 0.
    if batch.magic != 1 or batch.last_offset == 0:
        return 0
    base = batch.last_offset - seen.last_offset
    if base < 0:
        reason = f"wrapper offset '{batch.last_offset}' is less than the last inner message offset '{seen.last_offset}'"
        return _invalid_inner(batch, reason)
    return base


def _invalid_inner(batch: Batch, message: str) -> Fault:
    return fault_of(batch, FaultKind.INVALID_INNER_MESSAGE, message)


def _message(view: memoryview, start: int, end: int, offset: int, append_time: int | None) -> tuple[int, ...]:
    """Return the row of one message v0 or v1."""
    magic = view[start + 16]
    stored = MESSAGE_V0.struct.unpack_from(view, start)[2]
    valid = checksums.crc32(view[start + 16 : end]) == stored
    key_length_at = start + KEY_LENGTH_OFFSET[1 if magic else 0]
    if not magic or key_length_at > end:
        timestamp = NO_TIMESTAMP
    elif append_time is not None and magic == 1:
        timestamp = append_time
    else:
        timestamp = _TIMESTAMP.unpack_from(view, start + MESSAGE_V1.offset["timestamp"])[0]
    return (offset, timestamp, -1, *_key_and_value(view, key_length_at, end), 0, 0, stored, int(valid))


def _key_and_value(view: memoryview, key_length_at: int, end: int) -> tuple[int, int, int, int]:
    """Return the positions of key and value, each with its stored size."""
    if key_length_at + 4 > end:
        return _UNREADABLE
    key_size = _INT32.unpack_from(view, key_length_at)[0]
    key_at = key_length_at + 4
    value_length_at = key_at + max(key_size, 0)
    if value_length_at + 4 > end:
        return _UNREADABLE
    value_size = _INT32.unpack_from(view, value_length_at)[0]
    value_at = value_length_at + 4
    return key_at, key_size, OUTSIDE if value_size > end - value_at else value_at, value_size


_UNREADABLE = (OUTSIDE, -1, OUTSIDE, -1)


def _is_unreadable(row: tuple[int, ...]) -> bool:
    """Whether even the length of the value could not be read."""
    return row[3] == OUTSIDE


_TIMESTAMP = struct.Struct(">q")
