"""Join columns of keys, values and headers, contiguous as in Arrow, into records, compiled."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
import numpy as np

from kafkalog_cli.format.kernels.compiled_encode import put_field
from kafkalog_cli.format.kernels.compiling import BYTES, MATRIX, NUMBERS, OUT, entry, inlined
from kafkalog_cli.format.kernels.memory import copy


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
