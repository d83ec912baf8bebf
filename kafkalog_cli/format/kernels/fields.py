"""Keys, values and headers of records as contiguous columns as in Arrow, copied and joined into records, compiled."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
import numpy as np
from numba import types

from kafkalog_cli.format.kernels.compiled_encode import put_field
from kafkalog_cli.format.kernels.compiling import BYTES, COLUMNS, MATRIX, NUMBERS, OUT, entry, inlined, kernel
from kafkalog_cli.format.kernels.memory import copy


@kernel
def header_varint(buffer, here):
    """Return the size of a header's key or value, and the position after the varint."""
    value = np.uint64(0)
    shift = np.uint64(0)
    while True:
        byte = np.uint64(buffer[here])
        here += 1
        value |= (byte & np.uint64(0x7F)) << shift
        if byte < 0x80:
            value &= np.uint64(0xFFFFFFFF)
            return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1)), here
        shift += np.uint64(7)


@inlined
def _append(out, at, buffer, start, size):
    copy(out, at, buffer, start, size)
    return at + size


@entry(BYTES, COLUMNS, types.int64, NUMBERS, OUT)
def copy_fields(buffer, records, position_row, ends, out):
    """Copy one field of every record into `out`; return the number of bytes written.

    `position_row`: the row of `records` with the field's position. The next row contains its size; below 0 means null,
    and nothing is copied. `ends` gets the start of each field and, as its last element, the end of the last field.
    """
    at = np.int64(0)
    ends[0] = 0
    for record in range(records.shape[1]):
        size = records[position_row + 1, record]
        if size > 0:
            at = _append(out, at, buffer, records[position_row, record], size)
        ends[record + 1] = at
    return at


@entry(BYTES, COLUMNS)
def header_bytes(buffer, records):
    """Return the total size of all header keys, and of all header values."""
    keys = np.int64(0)
    values = np.int64(0)
    for record in range(records.shape[1]):
        here = records[7, record]
        for _ in range(records[8, record]):
            size, here = header_varint(buffer, here)
            keys += size
            size, here = header_varint(buffer, here + size)
            if size > 0:
                values += size
                here += size
    return keys, values


@entry(BYTES, COLUMNS, NUMBERS, OUT, NUMBERS, OUT, OUT)
def copy_headers(buffer, records, key_ends, keys, value_ends, values, valid):
    """Copy the keys and values of all headers; return the number of headers.

    `valid` gets one byte per header: 0 for a null value. `key_ends` and `value_ends` are filled like `ends` in
    `copy_fields`.
    """
    key_at = np.int64(0)
    value_at = np.int64(0)
    header = np.int64(0)
    key_ends[0] = 0
    value_ends[0] = 0
    for record in range(records.shape[1]):
        here = records[7, record]
        for _ in range(records[8, record]):
            size, here = header_varint(buffer, here)
            key_at = _append(keys, key_at, buffer, here, size)
            size, here = header_varint(buffer, here + size)
            valid[header] = size >= 0
            if size > 0:
                value_at = _append(values, value_at, buffer, here, size)
                here += size
            header += 1
            key_ends[header] = key_at
            value_ends[header] = value_at
    return header


@inlined
def _size(ends, valid, at):
    return ends[at + 1] - ends[at] if valid[at] else np.int64(-1)


@entry(
    *(BYTES, NUMBERS, BYTES),
    *(BYTES, NUMBERS, BYTES),
    *(NUMBERS, BYTES, NUMBERS, BYTES, NUMBERS, BYTES),
    *(NUMBERS, OUT, MATRIX),
)
def join_columns(
    keys,
    key_ends,
    key_valid,
    values,
    value_ends,
    value_valid,
    header_ends,
    header_keys,
    header_key_ends,
    header_values,
    header_value_ends,
    header_valid,
    timestamps,
    out,
    rows,
):
    """Copy key, value and headers of each record into `out`, record after record; return the number of bytes.

    Each column has its bytes, the start of each field with the end of the last (`*_ends`), and 0 for each null
    (`*_valid`). `header_ends` gives the headers of each record in the same way. `rows` gets the rows of a RecordRun.
    `out` must have room for all bytes and 10 more per header.
    """
    to = np.int64(0)
    for row in range(rows.shape[1]):
        begin = to
        key, value = _size(key_ends, key_valid, row), _size(value_ends, value_valid, row)
        rows[0, row], rows[1, row], rows[2, row] = row, timestamps[row], -1
        rows[3, row], rows[4, row] = to, key
        if key > 0:
            copy(out, to, keys, key_ends[row], key)
            to += key
        rows[5, row], rows[6, row] = to, value
        if value > 0:
            copy(out, to, values, value_ends[row], value)
            to += value
        rows[7, row], rows[8, row] = to, header_ends[row + 1] - header_ends[row]
        for header in range(header_ends[row], header_ends[row + 1]):
            name = header_key_ends[header + 1] - header_key_ends[header]
            to = put_field(out, to, header_keys, header_key_ends[header], name)
            size = _size(header_value_ends, header_valid, header)
            to = put_field(out, to, header_values, header_value_ends[header], size)
        rows[9, row], rows[10, row] = -1, 1
        rows[11, row], rows[12, row] = to - rows[7, row], begin
    return to
