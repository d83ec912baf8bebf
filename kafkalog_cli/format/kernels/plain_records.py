"""Records of one batch in plain Python: v2, and message sets v0 and v1 with their nesting."""

from __future__ import annotations

import struct

from kafkalog_cli.format import crc as checksums
from kafkalog_cli.format.batch import (
    CODEC_MASK,
    LOG_OVERHEAD_BYTES,
    MINIMUM_ENTRY_SIZE,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    Batch,
    increment_sequence,
    wrap_int64,
)
from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.format.kernels.plain_rows import MOST_RECORDS, SETTLE_ROWS, TOO_MANY, RecordRows
from kafkalog_cli.format.legacy import KEY_LENGTH_OFFSET, MESSAGE_V0, MESSAGE_V1
from kafkalog_cli.format.records import OUTSIDE


class _InvalidRecord(Exception):
    """The bytes of a record are not a record; never leaves this module."""


def decode_batch(view: memoryview, start: int, end: int, batch: Batch) -> tuple[RecordRows, Fault | None]:
    """Records of a v2 batch whose (decompressed) records are `view[start:end]`.

    Rows in the order of RecordColumns. Mirrors DefaultRecordBatch.iterator: of an uncompressed batch the
    records before a fault are given, of a compressed one none.
    """
    count, position, rows = batch.records_count, start, RecordRows()
    if count == 0:
        return rows, None
    if count < 0:
        return rows, _fault(batch, FaultKind.INVALID_COUNT, f"Found invalid record count {count} in magic v2 batch")
    timestamp = batch.max_timestamp if batch.is_log_append_time else None
    base = (batch.base_offset, batch.base_timestamp, batch.base_sequence)
    fault, append = None, rows.recent.append
    try:
        for first in range(0, min(count, MOST_RECORDS), SETTLE_ROWS):
            for _ in range(min(SETTLE_ROWS, min(count, MOST_RECORDS) - first)):
                row, position = _record(view, position, end, base, timestamp)
                append(row)
            if first:
                rows.settle()
    except (_InvalidRecord, IndexError) as error:
        reason = str(error) if isinstance(error, _InvalidRecord) else "Incorrect declared batch size, premature EOF"
        fault = _fault(batch, FaultKind.INVALID_RECORD, f"record {len(rows)} of {count}: {reason}")
    else:
        if count > MOST_RECORDS:
            fault = _fault(batch, FaultKind.OUTPUT_TOO_LARGE, TOO_MANY)
        elif position != end:
            fault = _fault(
                batch, FaultKind.RECORDS_REMAINING, "Incorrect declared batch size, records still remaining in file"
            )
            rows.recent.pop()  # Kafka's iterator looks before it gives the last record
    return (rows, fault) if fault is None or not batch.codec else (RecordRows(), fault)


def _record(
    view: memoryview, position: int, end: int, base: tuple[int, int, int], append_time: int | None
) -> tuple[tuple[int, ...], int]:
    """One record (DefaultRecord.readFrom) as a row, and where the next begins."""
    length, position = _varint(view, position, end)
    body_end = position + length
    if length > end - position:
        raise _InvalidRecord(f"Invalid record size: expected {length} bytes, but only {end - position} are left")
    delta, position = _varlong(view, position + 1, end)
    offset_delta, position = _varint(view, position, end)
    key_size, key_at = _varint(view, position, end)
    value_size, value_at = _varint(view, key_at + key_size if key_size > 0 else key_at, end)
    headers, headers_at = _varint(view, value_at + value_size if value_size > 0 else value_at, end)
    position = headers_at
    if headers:
        position = _skip_headers(view, position, end, headers)
    if position != body_end:
        raise _InvalidRecord(f"Invalid record size: expected to read {length} bytes")
    base_offset, base_timestamp, base_sequence = base
    offset = wrap_int64(base_offset + offset_delta)
    timestamp = wrap_int64(base_timestamp + delta) if append_time is None else append_time
    sequence = increment_sequence(base_sequence, offset_delta) if base_sequence >= 0 else NO_SEQUENCE
    return (offset, timestamp, sequence, key_at, key_size, value_at, value_size, headers_at, headers, -1, 1), position


def _skip_headers(view: memoryview, position: int, end: int, count: int) -> int:
    if not 0 <= count <= end - position:
        raise _InvalidRecord(f"Found invalid number of record headers {count}")
    for _ in range(count):
        size, position = _varint(view, position, end)
        if size < 0:
            raise _InvalidRecord(f"Invalid negative header key size {size}")
        size, position = _varint(view, position + size, end)
        position += max(size, 0)
    return position


def _varint(view: memoryview, position: int, end: int) -> tuple[int, int]:
    # The first byte decides nearly always; position may lie past the end after a lying length.
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


def _fault(batch: Batch, kind: FaultKind, message: str) -> Fault:
    return Fault(
        kind, batch.position, message, batch.size_bytes, base_offset=batch.base_offset, last_offset=batch.last_offset
    )


_INT32 = struct.Struct(">i")


def decode_message(
    view: memoryview, start: int, end: int, batch: Batch, *, timestamps_only: bool = False
) -> tuple[RecordRows, Fault | None]:
    """The record of an uncompressed entry v0 or v1, which is `view[start:end]`."""
    rows = RecordRows()
    row = _message(view, start, end, batch.last_offset, None)
    if _is_unreadable(row) and not timestamps_only:
        return rows, _fault(batch, FaultKind.INVALID_RECORD, "the value length lies outside the message")
    rows.recent.append(row)
    return rows, None


def compressed_value(view: memoryview, start: int, end: int, magic: int) -> memoryview | None:
    """The value of a wrapper message, None where it is null or reaches past the message."""
    row = _message(view, start, end, 0, None)
    if row[6] < 0 or row[5] == OUTSIDE:
        return None
    return view[row[5] : row[5] + row[6]]


def decode_inner(view: memoryview, batch: Batch, *, timestamps_only: bool = False) -> tuple[RecordRows, Fault | None]:
    """Records of the decompressed set of a wrapper v0 or v1 (AbstractLegacyRecordBatch.DeepRecordsIterator).

    Inner offsets are absolute under magic 0, relative to the last under magic 1. `timestamps_only`: a key or a
    value whose length cannot be read is no fault, as nobody asks for it.
    """
    rows, bad_at, problem = RecordRows(), -1, ""
    append_time = batch.max_timestamp if batch.is_log_append_time else None
    position, end, count = 0, len(view), 0
    while position + LOG_OVERHEAD_BYTES <= end:
        offset, size = _OFFSET_AND_SIZE.unpack_from(view, position)
        if size < MINIMUM_ENTRY_SIZE:
            return RecordRows(), _invalid_inner(batch, f"inner message of {size} bytes")
        entry_end = position + LOG_OVERHEAD_BYTES + size
        if entry_end > end:
            break
        row = _message(view, position, entry_end, offset, append_time)
        is_bad = _is_unreadable(row) and not timestamps_only
        if bad_at < 0 and (is_bad or view[position + 17] & CODEC_MASK):
            bad_at = count
            problem = _LENGTH_OUTSIDE if is_bad else "Inner messages must not be compressed"
        rows.recent.append(row)
        count += 1
        if not count % SETTLE_ROWS:
            if count > MOST_RECORDS:
                return RecordRows(), _fault(batch, FaultKind.OUTPUT_TOO_LARGE, TOO_MANY)
            rows.settle()
        position = entry_end
    if not count:
        return rows, _invalid_inner(batch, "Found invalid compressed record set with no inner records")
    return _absolute(rows, bad_at, problem, batch)


_OFFSET_AND_SIZE = struct.Struct(">qi")


_LENGTH_OUTSIDE = "a length lies outside the inner message"


def _absolute(rows: RecordRows, bad_at: int, problem: str, batch: Batch) -> tuple[RecordRows, Fault | None]:
    """`bad_at` is the number of the first inner message that has a `problem`, -1 if none has."""
    if batch.magic == 1:
        last = rows.recent[-1][0]
        # Some versions of librdkafka leave the wrapper's offset at 0.
        base = 0 if batch.last_offset == 0 else batch.last_offset - last
        if batch.last_offset and base < 0:
            reason = f"wrapper offset '{batch.last_offset}' is less than the last inner message offset '{last}'"
            return RecordRows(), _invalid_inner(batch, reason)
        rows.shift_offsets(base)
    if bad_at >= 0:
        rows.truncate(bad_at)
        return rows, _invalid_inner(batch, problem)
    return rows, None


def _invalid_inner(batch: Batch, message: str) -> Fault:
    return _fault(batch, FaultKind.INVALID_INNER_MESSAGE, message)


def _message(view: memoryview, start: int, end: int, offset: int, append_time: int | None) -> tuple[int, ...]:
    """The row of one message v0 or v1."""
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
    """Where they are and how long they say they are."""
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
    """Whether not even the length of the value could be read."""
    return row[3] == OUTSIDE


_TIMESTAMP = struct.Struct(">q")
