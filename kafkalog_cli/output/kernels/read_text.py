"""Records as kafka-console-consumer prints them, compiled: the twin of `read_text.ReadText`."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
import numpy as np

from kafkalog_cli.format.kernels.compiling import BYTES, COLUMNS, NUMBERS, OUT, entry, inlined, kernel
from kafkalog_cli.format.kernels.fields import header_varint
from kafkalog_cli.format.kernels.memory import copy
from kafkalog_cli.output.kernels.memory import BLOCK_BYTES, put, put_blocks
from kafkalog_cli.output.kernels.text import constant, put_java_string, put_number_inline

LINE_BYTES = 256 + BLOCK_BYTES
"""Room for a line without the contents of its key, value and headers."""
HEADER_BYTES = 8
"""Room for the text around the key and the value of a header."""

_TAB, _NEWLINE, _COMMA, _COLON = 9, 10, 44, 58
_NULL = constant("null")
_CREATE_TIME = constant("CreateTime:")
_APPEND_TIME = constant("LogAppendTime:")
_PARTITION = constant("Partition:")
_OFFSET = constant("Offset:")
_EPOCH = constant("Epoch:")
_NOT_PRESENT = constant("NOT_PRESENT")
_NO_HEADERS = constant("NO_HEADERS")

TIMESTAMP, PARTITION, OFFSET, EPOCH, HEADERS, KEY, VALUE = range(7)
"""Indexes into `fields`."""


@inlined
def _put_field(out, at, buffer, start, size):
    if size < 0:
        return put(out, at, _NULL)
    if start + size + BLOCK_BYTES <= len(buffer):
        return put_blocks(out, at, buffer, start, start + size)
    copy(out, at, buffer, start, size)
    return at + size


@kernel
def _headers_room(buffer, here, count):
    room = np.int64(0)
    for _ in range(count):
        size, here = header_varint(buffer, here)
        room += 3 * size + HEADER_BYTES  # a byte that is not UTF-8 becomes three bytes
        size, here = header_varint(buffer, here + size)
        if size > 0:
            room += size
            here += size
    return room


@kernel
def _put_headers(out, at, buffer, here, count):
    if not count:
        return put(out, at, _NO_HEADERS)
    for index in range(count):
        if index:
            out[at] = _COMMA
            at += 1
        size, here = header_varint(buffer, here)
        at = put_java_string(out, at, buffer, here, size)
        out[at] = _COLON
        size, here = header_varint(buffer, here + size)
        at = _put_field(out, at + 1, buffer, here, size)
        if size > 0:
            here += size
    return at


@inlined
def _end_field(out, at):
    out[at] = _TAB
    return at + 1


@inlined
def _put_before_headers(out, at, records, record, batches, row, fields):
    """Append the fields that are not in the record's own bytes, each with a tab after it."""
    if fields[TIMESTAMP]:
        at = put(out, at, _APPEND_TIME) if batches[7, row] & 8 else put(out, at, _CREATE_TIME)
        at = _end_field(out, put_number_inline(out, at, records[1, record]))
    if fields[PARTITION]:
        at = _end_field(out, put_number_inline(out, put(out, at, _PARTITION), fields[PARTITION] - 2))
    if fields[OFFSET]:
        at = _end_field(out, put_number_inline(out, put(out, at, _OFFSET), records[0, record]))
    if fields[EPOCH]:
        at, epoch = put(out, at, _EPOCH), batches[4, row]
        at = _end_field(out, put(out, at, _NOT_PRESENT) if epoch < 0 else put_number_inline(out, at, epoch))
    return at


@inlined
def _put_line(out, at, buffer, records, record, batches, row, fields):
    at = _put_before_headers(out, at, records, record, batches, row, fields)
    if fields[HEADERS]:
        at = _end_field(out, _put_headers(out, at, buffer, records[7, record], records[8, record]))
    if fields[KEY]:
        at = _end_field(out, _put_field(out, at, buffer, records[3, record], records[4, record]))
    if fields[VALUE]:
        at = _end_field(out, _put_field(out, at, buffer, records[5, record], records[6, record]))
    out[at - 1] = _NEWLINE
    return at


@entry(BYTES, COLUMNS, NUMBERS, COLUMNS, NUMBERS, NUMBERS, OUT)
def render_records(buffer, batches, record_ends, records, fields, state, out):
    """Render lines of records into `out`, from `state` on; return the bytes written.

    `fields`: whether each field is shown, at least one; for the partition, its number plus two. `state`: batch, record,
    (not used) and, if a line does not fit into an empty `out`, the room that it needs.
    """
    at = np.int64(0)
    state[3] = 0
    row, record = state[0], state[1]
    while row < batches.shape[1]:
        while record < record_ends[row]:
            room = LINE_BYTES + max(records[4, record], 0) + max(records[6, record], 0)
            if fields[HEADERS] and records[8, record]:
                room += _headers_room(buffer, records[7, record], records[8, record])
            if at + room > len(out):
                state[0], state[1] = row, record
                state[3] = 0 if at else room
                return at
            at = _put_line(out, at, buffer, records, record, batches, row, fields)
            record += 1
        row += 1
    state[0], state[1] = row, record
    return at
