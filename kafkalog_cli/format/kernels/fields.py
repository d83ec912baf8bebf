"""Copy keys, values and headers of decoded records into contiguous columns as in Arrow, compiled."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
import numpy as np
from numba import types

from kafkalog_cli.format.kernels.compiling import BYTES, COLUMNS, NUMBERS, OUT, entry, inlined
from kafkalog_cli.format.kernels.header_fields import header_varint
from kafkalog_cli.format.kernels.memory import copy


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
