"""Records and v2 batches as NDJSON, compiled: the twin of `record_json.RecordJson`."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
import numpy as np
from numba import types

from kafkalog_cli.format.kernels.compiled_records import decode_records
from kafkalog_cli.format.kernels.compiling import BYTES, COLUMNS, MATRIX, NUMBERS, OUT, entry, inlined, kernel
from kafkalog_cli.format.kernels.fields import header_varint
from kafkalog_cli.format.kernels.memory import copy
from kafkalog_cli.output.kernels.json_text import field_room, measured_room, put_field
from kafkalog_cli.output.kernels.memory import put, put_blocks
from kafkalog_cli.output.kernels.text import constant, last_sequence, put_bool, put_codec, put_number, put_number_inline

NUMBERS_BYTES = 1024
"""Room for a line without its segment's start and the contents of fields."""
HEADER_BYTES = 32
"""Room for the text around the key and the value of a header."""

_NULL = constant("null")

_BASE_OFFSET = constant(',"base_offset":')
_LAST_OFFSET = constant(',"last_offset":')
_COUNT = constant(',"count":')
_BASE_SEQUENCE = constant(',"base_sequence":')
_LAST_SEQUENCE = constant(',"last_sequence":')
_PRODUCER_ID = constant(',"producer_id":')
_PRODUCER_EPOCH = constant(',"producer_epoch":')
_PARTITION_LEADER_EPOCH = constant(',"partition_leader_epoch":')
_IS_TRANSACTIONAL = constant(',"is_transactional":')
_IS_CONTROL = constant(',"is_control":')
_DELETE_HORIZON = constant(',"delete_horizon_ms":')
_CREATE_TIME = constant(',"timestamp_type":"CreateTime"')
_APPEND_TIME = constant(',"timestamp_type":"LogAppendTime"')
_MAX_TIMESTAMP = constant(',"max_timestamp_ms":')
_SIZE = constant(',"size":')
_MAGIC = constant(',"magic":')
_ATTRIBUTES = constant(',"attributes":')
_COMPRESSCODEC = constant(',"compresscodec":"')
_CRC = constant(',"crc":')
_CRC_VALID = constant(',"crc_valid":')
_END = constant("}\n")

_OFFSET = constant(',"offset":')
_TIMESTAMP = constant(',"timestamp_ms":')
_KEY = constant(',"key":')
_VALUE = constant(',"value":')
_HEADERS = constant(',"headers":[')
_HEADER_KEY = constant('{"key":')
_BATCH_BASE_OFFSET = constant('],"batch_base_offset":')
_CODEC = constant(',"codec":"')
_SEQUENCE = constant(',"sequence":')
_LEADER_EPOCH = constant(',"leader_epoch":')
_TRANSACTIONAL = constant(',"transactional":')
_NO_CONTROL = constant(',"control":null}\n')
_REDACTED = constant('{"redacted":true}')
_REDACTED_BYTES = constant('{"redacted":true,"bytes":')

_ALL, _NOTHING = 0, 1


@inlined
def _put_known(out, at, value):
    return put(out, at, _NULL) if value == -1 else put_number(out, at, value)


@inlined
def _put_quoted_codec(out, at, codec):
    at = put_codec(out, at, codec)
    out[at] = 34
    return at + 1


@kernel
def _put_batch(out, at, start, batches, row):
    attributes = batches[7, row]
    copy(out, at, start, 0, len(start))
    at = put_number(out, at + len(start), batches[0, row])
    at = _put_known(out, put(out, at, _BASE_OFFSET), batches[2, row])
    at = put_number(out, put(out, at, _LAST_OFFSET), batches[3, row])
    at = _put_known(out, put(out, at, _COUNT), batches[13, row])
    at = put_number(out, put(out, at, _BASE_SEQUENCE), batches[12, row])
    at = put_number(out, put(out, at, _LAST_SEQUENCE), last_sequence(batches, row))
    at = put_number(out, put(out, at, _PRODUCER_ID), batches[10, row])
    at = put_number(out, put(out, at, _PRODUCER_EPOCH), batches[11, row])
    at = put_number(out, put(out, at, _PARTITION_LEADER_EPOCH), batches[4, row])
    at = put_bool(out, put(out, at, _IS_TRANSACTIONAL), attributes & 0x10)
    at = put_bool(out, put(out, at, _IS_CONTROL), attributes & 0x20)
    at = put(out, at, _DELETE_HORIZON)
    at = put_number(out, at, batches[8, row]) if attributes & 0x40 else put(out, at, _NULL)
    at = put(out, at, _APPEND_TIME) if attributes & 8 else put(out, at, _CREATE_TIME)
    at = _put_known(out, put(out, at, _MAX_TIMESTAMP), batches[9, row])
    at = put_number(out, put(out, at, _SIZE), batches[1, row])
    at = put_number(out, put(out, at, _MAGIC), batches[5, row])
    at = put_number(out, put(out, at, _ATTRIBUTES), attributes)
    at = _put_quoted_codec(out, put(out, at, _COMPRESSCODEC), attributes & 7)
    at = put_number(out, put(out, at, _CRC), batches[6, row])
    at = put(out, at, _CRC_VALID)
    at = put(out, at, _NULL) if batches[14, row] < 0 else put_bool(out, at, batches[14, row])
    return put(out, at, _END)


@inlined
def _room_of(buffer, start, size, exact):
    return measured_room(buffer, start, size) if exact else field_room(size)


@inlined
def _record_room(buffer, records, row, exact):
    """Return the most bytes that key, value and headers can take; with `exact`, the bytes that their contents need."""
    room = _room_of(buffer, records[3, row], records[4, row], exact)
    room += _room_of(buffer, records[5, row], records[6, row], exact)
    return room + _headers_room(buffer, records, row, exact) if records[8, row] else room


@kernel
def _headers_room(buffer, records, row, exact):
    room = np.int64(0)
    here = records[7, row]
    for _ in range(records[8, row]):
        size, here = header_varint(buffer, here)
        room += _room_of(buffer, here, size, exact) + HEADER_BYTES
        size, here = header_varint(buffer, here + size)
        room += _room_of(buffer, here, size, exact)
        if size > 0:
            here += size
    return room


@inlined
def _put_shown(out, at, buffer, start, size, showing):
    if showing == _ALL or size < 0:
        return put_field(out, at, buffer, start, size)
    if showing == _NOTHING:
        return put(out, at, _REDACTED)
    at = put_number(out, put(out, at, _REDACTED_BYTES), size)
    out[at] = 125
    return at + 1


@kernel
def _put_headers(out, at, buffer, here, count, showing):
    for index in range(count):
        if index:
            out[at] = 44
            at += 1
        size, here = header_varint(buffer, here)
        at = put_field(out, put(out, at, _HEADER_KEY), buffer, here, size)
        size, here = header_varint(buffer, here + size)
        at = _put_shown(out, put(out, at, _VALUE), buffer, here, size, showing)
        out[at] = 125
        at += 1
        if size > 0:
            here += size
    return at


@kernel
def _fill_template(template, start, batches, row):
    """Write the parts that all lines of a batch share, one after another; return where each ends.

    The last part continues with the first: a line's end and the next line's start are one copy.
    """
    attributes = batches[7, row]
    copy(template, 0, start, 0, len(start))
    start_end = put(template, put_number(template, np.int64(len(start)), batches[0, row]), _OFFSET)
    at = put(template, start_end, _APPEND_TIME) if attributes & 8 else put(template, start_end, _CREATE_TIME)
    type_end = put(template, at, _KEY)
    at = put_number(template, put(template, type_end, _BATCH_BASE_OFFSET), batches[2, row])
    at = _put_quoted_codec(template, put(template, at, _CODEC), attributes & 7)
    at = put_number(template, put(template, at, _PRODUCER_ID), batches[10, row])
    at = put_number(template, put(template, at, _PRODUCER_EPOCH), batches[11, row])
    sequence_at = put(template, at, _SEQUENCE)
    # Without a producer's sequence all records have the same sequence.
    at = put_number(template, sequence_at, batches[12, row]) if batches[12, row] < 0 else sequence_at
    at = put_number(template, put(template, at, _LEADER_EPOCH), batches[4, row])
    at = put(template, put_bool(template, put(template, at, _TRANSACTIONAL), attributes & 0x10), _NO_CONTROL)
    copy(template, at, template, 0, start_end)
    end = at + start_end
    return start_end, type_end, end if batches[12, row] < 0 else sequence_at, end


@inlined
def _put_record(out, at, buffer, records, row, template, ends, showing):
    """Append a line from its offset on, and the start of the next line."""
    start_end, type_end, sequence_at, end = ends
    at = put(out, put_number_inline(out, at, records[0, row]), _TIMESTAMP)
    timestamp = records[1, row]
    at = put(out, at, _NULL) if timestamp == -1 else put_number_inline(out, at, timestamp)
    at = put_blocks(out, at, template, start_end, type_end)
    at = _put_shown(out, at, buffer, records[3, row], records[4, row], showing[0])
    at = _put_shown(out, put(out, at, _VALUE), buffer, records[5, row], records[6, row], showing[1])
    at = put(out, at, _HEADERS)
    if records[8, row]:
        at = _put_headers(out, at, buffer, records[7, row], records[8, row], showing[2])
    at = put_blocks(out, at, template, type_end, sequence_at)
    if sequence_at < end:
        at = put_blocks(out, put_number(out, at, records[2, row]), template, sequence_at, end)
    return at


@kernel
def _put_records(buffer, records, record, end, ends, template, showing, out, at, state):
    """Render lines of a batch's records until `out` is full; return (next record, next position)."""
    around = NUMBERS_BYTES + ends[3]
    start_bytes = ends[0]
    begun = False
    while record < end:
        if at + around + _record_room(buffer, records, record, False) > len(out):
            if at:
                break
            room = around + _record_room(buffer, records, record, True)
            if room > len(out):
                state[3] = room
                break
        if not begun:
            at = put_blocks(out, at, template, 0, start_bytes)
            begun = True
        at = _put_record(out, at, buffer, records, record, template, ends, showing)
        record += 1
    return record, at - start_bytes if begun else at


@entry(BYTES, COLUMNS, NUMBERS, COLUMNS, types.UniTuple(BYTES, 2), OUT, NUMBERS, types.boolean, NUMBERS, OUT)
def render_records(buffer, batches, record_ends, records, starts, template, showing, with_batches, state, out):
    """Render lines of records, and with `with_batches` of their batches, into `out`; return the bytes written.

    Rendering continues from `state`: batch, record, whether the batch's line is written, and, if a line does not fit
    into an empty `out`, the room that it needs. `starts`: the starts of batch lines and of record lines. `template`:
    scratch space for a record's start and TEMPLATE_BYTES. `showing`: how keys, values and header values are shown
    (Showing, no hash).
    """
    at, row, record = np.int64(0), state[0], state[1]
    batch_start, record_start = starts
    state[3] = 0
    while row < batches.shape[1]:
        if with_batches and not state[2]:
            if at + NUMBERS_BYTES + len(batch_start) > len(out):
                break
            at = _put_batch(out, at, batch_start, batches, row)
            state[2] = 1
        ends = _fill_template(template, record_start, batches, row)
        record, at = _put_records(buffer, records, record, record_ends[row], ends, template, showing, out, at, state)
        if record < record_ends[row]:
            break
        row += 1
        state[2] = 0
    state[0], state[1] = row, record
    return at


_ROWS = (BYTES, NUMBERS, NUMBERS, COLUMNS, MATRIX, NUMBERS)


@entry(*_ROWS, types.UniTuple(BYTES, 2), OUT, NUMBERS, types.boolean, NUMBERS, OUT)
def decode_and_render(
    buffer, begins, ends, batches, scratch, record_ends, starts, template, showing, with_batches, state, out
):
    """Decode batches and render their lines until `out` is full; return (batches done, bytes written).

    Stops before a batch that needs another reader (`decode_batches` would stop there) or has more rows than `scratch`.
    A batch's records are decoded and rendered while they are in the nearest cache. `begins` to `ends`: the records of
    each batch in `buffer`. `record_ends` is written as by `decode_batches`; the others are as in `render_records`.
    """
    at, made, row = np.int64(0), np.int64(0), np.int64(0)
    batch_start, record_start = starts
    while row < batches.shape[1]:
        count = batches[13, row]
        if count < 0 or count > scratch.shape[1] or at + NUMBERS_BYTES + len(batch_start) > len(out):
            break
        if decode_records(buffer, begins[row], ends[row], count, batches, row, scratch, 0) != ends[row]:
            break
        here = _put_batch(out, at, batch_start, batches, row) if with_batches else at
        parts = _fill_template(template, record_start, batches, row)
        record, here = _put_records(buffer, scratch, 0, count, parts, template, showing, out, here, state)
        if record < count:
            break
        at = here
        made += count
        record_ends[row] = made
        row += 1
    return row, at
