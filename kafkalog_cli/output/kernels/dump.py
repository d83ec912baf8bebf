"""The text of kafka-dump-log for v2 batches and their records, compiled: the twin of `dump_text.LogText`."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
import numpy as np
from numba import types

from kafkalog_cli.format.kernels.compiling import BYTES, COLUMNS, NUMBERS, OUT, entry, inlined, kernel
from kafkalog_cli.format.kernels.fields import header_varint
from kafkalog_cli.output.kernels.memory import put
from kafkalog_cli.output.kernels.text import (
    constant,
    last_sequence,
    put_bool,
    put_codec,
    put_java_string,
    put_number,
    put_number_inline,
)

BATCH_LINE_BYTES = 768
"""Room for any batch line."""
RECORD_LINE_BYTES = 256
"""Room for a record line without its header keys, key and payload."""

_BASE_OFFSET = constant("baseOffset: ")
_LAST_OFFSET = constant(" lastOffset: ")
_COUNT = constant(" count: ")
_BASE_SEQUENCE = constant(" baseSequence: ")
_LAST_SEQUENCE = constant(" lastSequence: ")
_PRODUCER_ID = constant(" producerId: ")
_PRODUCER_EPOCH = constant(" producerEpoch: ")
_LEADER_EPOCH = constant(" partitionLeaderEpoch: ")
_TRANSACTIONAL = constant(" isTransactional: ")
_CONTROL = constant(" isControl: ")
_NO_HORIZON = constant(" deleteHorizonMs: OptionalLong.empty")
_HORIZON = constant(" deleteHorizonMs: OptionalLong[")
_POSITION = constant(" position: ")
_CREATE_TIME = constant(" CreateTime: ")
_APPEND_TIME = constant(" LogAppendTime: ")
_SIZE = constant(" size: ")
_MAGIC = constant(" magic: ")
_CRC = constant(" crc: ")
_VALID = constant(" isvalid: ")
_CODEC = constant(" compresscodec: ")
_OFFSET = constant("| offset: ")
_KEY_SIZE = constant(" keySize: ")
_VALUE_SIZE = constant(" valueSize: ")
_SEQUENCE = constant(" sequence: ")
_HEADER_KEYS = constant(" headerKeys: [")
_BARE_KEY = constant("| key: ")
_KEY = constant(" key: ")
_PAYLOAD = constant(" payload: ")
_BARE_PAYLOAD = constant("| payload: ")


@kernel
def _put_batch(out, at, batches, row):
    attributes = batches[7, row]
    at = put_number(out, put(out, at, _BASE_OFFSET), batches[2, row])
    at = put_number(out, put(out, at, _LAST_OFFSET), batches[3, row])
    at = put_number(out, put(out, at, _COUNT), batches[13, row])
    at = put_number(out, put(out, at, _BASE_SEQUENCE), batches[12, row])
    at = put_number(out, put(out, at, _LAST_SEQUENCE), last_sequence(batches, row))
    at = put_number(out, put(out, at, _PRODUCER_ID), batches[10, row])
    at = put_number(out, put(out, at, _PRODUCER_EPOCH), batches[11, row])
    at = put_number(out, put(out, at, _LEADER_EPOCH), batches[4, row])
    at = put_bool(out, put(out, at, _TRANSACTIONAL), attributes & 0x10)
    at = put_bool(out, put(out, at, _CONTROL), attributes & 0x20)
    if attributes & 0x40:
        at = put_number(out, put(out, at, _HORIZON), batches[8, row])
        out[at] = 93
        at += 1
    else:
        at = put(out, at, _NO_HORIZON)
    at = put_number(out, put(out, at, _POSITION), batches[0, row])
    at = put(out, at, _APPEND_TIME) if attributes & 8 else put(out, at, _CREATE_TIME)
    at = put_number(out, at, batches[9, row])
    at = put_number(out, put(out, at, _SIZE), batches[1, row])
    at = put_number(out, put(out, at, _MAGIC), batches[5, row])
    at = put_codec(out, put(out, at, _CODEC), attributes & 7)
    at = put_number(out, put(out, at, _CRC), batches[6, row])
    at = put_bool(out, put(out, at, _VALID), batches[14, row])
    out[at] = 10
    return at + 1


@entry(COLUMNS, types.int64)
def is_plain_case(batches, row):
    """Whether the batch's line needs the plain renderer: old magic, an unknown codec, odd sequences."""
    odd_sequence = batches[12, row] < -1 or batches[3, row] < batches[2, row]
    return batches[5, row] < 2 or (batches[7, row] & 7) > 4 or odd_sequence


@entry(COLUMNS, types.int64, OUT)
def render_batches(batches, begin, out):
    """Render batch lines from row `begin` on; return (next row, bytes). Stop before a row for the plain renderer."""
    at = np.int64(0)
    row = np.int64(begin)
    while row < batches.shape[1] and at + BATCH_LINE_BYTES <= len(out) and not is_plain_case(batches, row):
        at = _put_batch(out, at, batches, row)
        row += 1
    return row, at


@kernel
def _put_header_keys(out, at, buffer, here, count):
    """Append header keys, joined by commas; the caller has checked the room."""
    for index in range(count):
        if index:
            out[at] = 44
            at += 1
        size, here = header_varint(buffer, here)
        at = put_java_string(out, at, buffer, here, size)
        size, here = header_varint(buffer, here + size)
        if size > 0:
            here += size
    return at


@inlined
def _record_room(buffer, records, row):
    """Return the most bytes that the line of a record can take."""
    room = RECORD_LINE_BYTES + 3 * (max(records[4, row], 0) + max(records[6, row], 0))
    return room + _headers_room(buffer, records, row) if records[8, row] else room


@kernel
def _headers_room(buffer, records, row):
    room = np.int64(0)
    here = records[7, row]
    for _ in range(records[8, row]):
        size, here = header_varint(buffer, here)
        room += 3 * size + 1
        size, here = header_varint(buffer, here + size)
        if size > 0:
            here += size
    return room


@inlined
def _put_record(out, at, buffer, records, row, append_time, contents, skip, bare_payload):
    key_size = max(records[4, row], -1)
    value_size = max(records[6, row], -1)
    if not skip:
        at = put_number_inline(out, put(out, at, _OFFSET), records[0, row])
        at = put(out, at, _APPEND_TIME) if append_time else put(out, at, _CREATE_TIME)
        at = put_number_inline(out, at, records[1, row])
        at = put_number(out, put(out, at, _KEY_SIZE), key_size)
        at = put_number(out, put(out, at, _VALUE_SIZE), value_size)
        at = put_number(out, put(out, at, _SEQUENCE), records[2, row])
        at = put(out, at, _HEADER_KEYS)
        if records[8, row]:
            at = _put_header_keys(out, at, buffer, records[7, row], records[8, row])
        out[at] = 93
        at += 1
    if contents:
        if key_size >= 0:
            at = put(out, at, _BARE_KEY) if skip else put(out, at, _KEY)
            at = put_java_string(out, at, buffer, records[3, row], key_size)
        if value_size >= 0:
            at = put(out, at, _BARE_PAYLOAD) if bare_payload and key_size < 0 else put(out, at, _PAYLOAD)
            at = put_java_string(out, at, buffer, records[5, row], value_size)
    out[at] = 10
    return at + 1


@entry(BYTES, COLUMNS, NUMBERS, COLUMNS, types.boolean, types.boolean, types.boolean, NUMBERS, OUT)
def render_records(buffer, batches, record_ends, records, contents, skip, bare_payload, state, out):
    """Render lines of batches with their records into `out`, from `state` on; return the bytes written.

    `bare_payload`: a payload without a key starts its line and is indented like a key. `state`: batch, record, whether
    the batch's line is written, and, if a line does not fit into an empty `out`, the room that it needs.
    """
    at = np.int64(0)
    state[3] = 0
    while state[0] < batches.shape[1]:
        row = state[0]
        if not state[2]:
            if at + BATCH_LINE_BYTES > len(out):
                state[3] = 0 if at else BATCH_LINE_BYTES
                return at
            at = _put_batch(out, at, batches, row)
            state[2] = 1
        append_time = (batches[7, row] & 8) != 0
        while state[1] < record_ends[row]:
            room = _record_room(buffer, records, state[1])
            if at + room > len(out):
                state[3] = 0 if at else room
                return at
            at = _put_record(out, at, buffer, records, state[1], append_time, contents, skip, bare_payload)
            state[1] += 1
        state[0] += 1
        state[2] = 0
    return at
