"""Formats before record batches: messages v0 and v1 with their sets, and messages of Kafka 0.7, in Python.

Their logs are old and small. The scan of v0 and v1 is in C, as these may be mixed with batches v2.
"""

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from kafkalog_cli.format.batch import (
    CODEC_MASK,
    KEY_LENGTH_OFFSET,
    LOG_OVERHEAD_BYTES,
    MESSAGE_V0,
    MESSAGE_V07_MAGIC0,
    MESSAGE_V07_MAGIC1,
    MESSAGE_V1,
    MINIMUM_ENTRY_SIZE,
    MINIMUM_V07_SIZE,
    NO_TIMESTAMP,
    V07_CODEC_MASK,
    Batch,
    BatchColumns,
    wrap_int64,
)
from kafkalog_cli.format.fault import Fault, FaultKind, fault_of
from kafkalog_cli.format.limits import Limits
from kafkalog_cli.format.records import OUTSIDE, RECORDS_AT_ONCE, Row, RowsAndFault
from kafkalog_cli.format.scan import Scanned

_INT32 = struct.Struct(">i")
_OFFSET_AND_SIZE = struct.Struct(">qi")
_TIMESTAMP = struct.Struct(">q")


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
        while self.position + LOG_OVERHEAD_BYTES <= end and len(rows) < RECORDS_AT_ONCE:
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


def decode_inner(view: memoryview, batch: Batch, *, timestamps_only: bool = False) -> Iterator[RowsAndFault]:
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
    valid = zlib.crc32(view[start + 16 : end]) == stored
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


_SIZE_BYTES = 4


class _Message(NamedTuple):
    magic: int
    codec: int
    crc: int
    payload_at: int


def scan_v07(view: memoryview, file_position: int, file_end: int, limits: Limits, base_offset: int) -> Scanned:
    """Return the messages from the start of `view`, which contains a `.kafka` file from `file_position` on.

    Mirrors FileMessageSet and ByteBufferMessageSet of 0.7. The offset of a message is the offset in the file's name
    (`base_offset`) plus the byte position of the message. A size below 5, or a message that extends past the end, ends
    the log.
    """
    rows: list[tuple[int, ...]] = []
    here, limit, end = 0, len(view), file_end - file_position
    needed, fault = 0, None
    while here < end:
        if end - here < _SIZE_BYTES:
            fault = _trailing(file_position + here, file_end)
            break
        if here + _SIZE_BYTES > limit:
            needed = _SIZE_BYTES
            break
        size = int.from_bytes(view[here : here + _SIZE_BYTES], "big", signed=True)
        total = _SIZE_BYTES + size
        if size < MINIMUM_V07_SIZE or here + total > end:
            fault = _trailing(file_position + here, file_end)
            break
        if total > limits.max_batch_bytes:
            fault = Fault(FaultKind.BATCH_TOO_LARGE, file_position + here, f"message of {total} bytes", total)
            break
        if here + total > limit:
            needed = total
            break
        row = _row(view, here, total, file_position, base_offset)
        if isinstance(row, Fault):
            fault = row
            break
        rows.append(row)
        here += total
    return Scanned(BatchColumns.from_rows(rows), here, needed, fault)


def decode_v07(view: memoryview, start: int, end: int, batch: Batch) -> tuple[list[Row], Fault | None]:
    """Return the payload of the message `view[start:end]` as a row of RecordColumns (0.7 has no keys)."""
    message = _v07_message(view, start, end)
    if message is None:
        return [], _unknown(batch.position, view[start + _SIZE_BYTES])
    return [_record_row(view, message, end, batch.base_offset)], None


def inner_messages(view: memoryview, batch: Batch) -> Iterator[tuple[int, Row] | Fault]:
    """Yield one level of a decompressed set: each message with its codec, and last the fault if there is one.

    The caller decompresses the payload of a message that is itself compressed. Inner messages have no offsets of their
    own: all get the wrapper's offset.
    """
    position, end = 0, len(view)
    while position + _SIZE_BYTES <= end:
        size = int.from_bytes(view[position : position + _SIZE_BYTES], "big", signed=True)
        entry_end = position + _SIZE_BYTES + size
        if size < MINIMUM_V07_SIZE or entry_end > end:
            break
        message = _v07_message(view, position, entry_end)
        if message is None:
            yield _unknown(batch.position, view[position + _SIZE_BYTES])
            return
        yield message.codec, _record_row(view, message, entry_end, batch.base_offset)
        position = entry_end


def v07_payload(view: memoryview) -> tuple[int, memoryview]:
    """Return (codec, payload) of one message, which must be complete."""
    message = _v07_message(view, 0, len(view))
    assert message is not None
    return message.codec, view[message.payload_at :]


def _v07_message(view: memoryview, start: int, end: int) -> _Message | None:
    magic = view[start + _SIZE_BYTES]
    if magic == 0:
        _, _, crc = MESSAGE_V07_MAGIC0.struct.unpack_from(view, start)
        return _Message(0, 0, crc, start + MESSAGE_V07_MAGIC0.size)
    if magic == 1 and end - start >= MESSAGE_V07_MAGIC1.size:
        _, _, attributes, crc = MESSAGE_V07_MAGIC1.struct.unpack_from(view, start)
        return _Message(1, attributes & V07_CODEC_MASK, crc, start + MESSAGE_V07_MAGIC1.size)
    return None


def _row(view: memoryview, here: int, total: int, file_position: int, base_offset: int) -> tuple[int, ...] | Fault:
    message = _v07_message(view, here, here + total)
    if message is None:
        return _unknown(file_position + here, view[here + _SIZE_BYTES])
    offset = base_offset + file_position + here
    valid = zlib.crc32(view[message.payload_at : here + total]) == message.crc
    return (file_position + here, total, offset, offset, -1, message.magic, message.crc, message.codec,
            NO_TIMESTAMP, NO_TIMESTAMP, -1, -1, -1, -1 if message.codec else 1, int(valid))  # fmt: skip


def _record_row(view: memoryview, message: _Message, end: int, offset: int) -> tuple[int, ...]:
    payload = view[message.payload_at : end]
    valid = zlib.crc32(payload) == message.crc
    return (offset, NO_TIMESTAMP, -1, 0, -1, message.payload_at, len(payload), 0, 0, message.crc, int(valid))


def _unknown(position: int, magic: int) -> Fault:
    return Fault(FaultKind.INVALID_MAGIC, position, f"unknown magic {magic} of a 0.7 message", got=str(magic))


def _trailing(position: int, file_end: int) -> Fault:
    return Fault(
        FaultKind.TRAILING_BYTES, position, f"{file_end - position} bytes that are not a message", file_end - position
    )


_MAGIC_AT = 16
_MAX_MAGIC = 1


def problem_of_entry(view: memoryview, start: int, end: int, batch: Batch) -> str:
    """Return what is wrong with the lengths of the entry v0 or v1 `view[start:end]`, or ""."""
    problem = _problem_of_message(view, start, end)
    if not problem and batch.attributes & CODEC_MASK:
        key_size = _INT32.unpack_from(view, start + _key_length_offset(view, start))[0]
        return f"a message set with a key of {key_size} bytes" if key_size >= 0 else ""
    return problem


def problem_of_set(view: memoryview, batch: Batch) -> str:
    """Return what is wrong with the messages of the decompressed set of the wrapper `batch`, or "".

    Every byte must belong to a message. Kafka's iterator ends quietly at an incomplete last message.
    """
    position, number, end = 0, 0, len(view)
    while position + LOG_OVERHEAD_BYTES <= end:
        offset, size = _OFFSET_AND_SIZE.unpack_from(view, position)
        entry_end = position + LOG_OVERHEAD_BYTES + size
        if size < MINIMUM_ENTRY_SIZE:
            return f"message {number} inside says that it has {size} bytes"
        if entry_end > end:
            left = end - position - LOG_OVERHEAD_BYTES
            return f"message {number} inside says that it has {size} bytes, but {left} are left: it is lost"
        if view[position + _MAGIC_AT] > _MAX_MAGIC:
            return f"message {number} inside has magic {view[position + _MAGIC_AT]}"
        if not number and batch.magic == 1 and offset and batch.last_offset:
            return f"the relative offset of the first message inside is {offset}, not 0"
        problem = _problem_of_message(view, position, entry_end)
        if problem:
            return f"message {number} inside: {problem}"
        position, number = entry_end, number + 1
    return f"{end - position} bytes follow the last message inside" if position < end else ""


def incomplete_end(view: memoryview) -> int:
    """Return how many bytes at the end of a decompressed set v0 or v1 are a part of a message."""
    position, end = 0, len(view)
    while position + LOG_OVERHEAD_BYTES <= end:
        size = _OFFSET_AND_SIZE.unpack_from(view, position)[1]
        if size < MINIMUM_ENTRY_SIZE:
            return 0
        if size > end - position - LOG_OVERHEAD_BYTES:
            break
        position += LOG_OVERHEAD_BYTES + size
    return end - position


def problem_of_v07_set(view: memoryview) -> str:
    """Return what is wrong with the messages of a decompressed set of 0.7, or ""."""
    position, number, end = 0, 0, len(view)
    while position + _INT32.size <= end:
        size = _INT32.unpack_from(view, position)[0]
        left = end - position - _INT32.size
        if size < MINIMUM_V07_SIZE or size > left:
            return f"message {number} inside says that it has {size} bytes, but {left} are left: it is lost"
        position, number = position + _INT32.size + size, number + 1
    if position < end:
        return f"{end - position} bytes follow the last message inside"
    return "" if number else "there is no message inside"


def _key_length_offset(view: memoryview, start: int) -> int:
    return KEY_LENGTH_OFFSET[1 if view[start + _MAGIC_AT] else 0]


def _problem_of_message(view: memoryview, start: int, end: int) -> str:
    position = start + _key_length_offset(view, start)
    for what in ("key", "value"):
        if position + _INT32.size > end:
            return f"there is no room for the length of its {what}"
        size = _INT32.unpack_from(view, position)[0]
        position += _INT32.size
        if size < -1:
            return f"the length of its {what} is {size}"
        if size > end - position:
            return f"the length of its {what} is {size}, and {end - position} bytes are left"
        position += max(size, 0)
    return f"{end - position} bytes follow its value" if position < end else ""
