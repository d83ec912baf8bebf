"""Decode the records of many v2 batches at once, compiled: the twin of `plain_records.decode_batch`."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
import numpy as np
from numba import types

from kafkalog_cli.format.kernels.compiling import BYTES, COLUMNS, MATRIX, NUMBERS, entry, inlined, kernel
from kafkalog_cli.format.kernels.memory import prefetch
from kafkalog_cli.format.records import ODD_HEADER

_MAX_INT32 = (1 << 31) - 1
_AHEAD_BYTES, _LINE_BYTES = 768, 64
"""Distance of prefetches, and the size of a cache line: the fields of records are too far apart for the processor."""


@inlined
def _zigzag(value):
    return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1))


@kernel
def _long_varint(buffer, here, end, most_bytes):
    """Return (value, next position); the position is -1 if there is no such varint."""
    value = np.uint64(0)
    for index in range(most_bytes):
        if here + index >= end:
            return np.int64(0), np.int64(-1)
        byte = np.uint64(buffer[here + index])
        value |= (byte & np.uint64(0x7F)) << np.uint64(7 * index)
        if byte < 0x80:
            if most_bytes == 5:
                value &= np.uint64(0xFFFFFFFF)
            return _zigzag(value), np.int64(here + index + 1)
    return np.int64(0), np.int64(-1)


@inlined
def _varint(buffer, here, end):
    if here + 1 < end:
        first, second = np.uint64(buffer[here]), np.uint64(buffer[here + 1])
        if first < 0x80:
            return _zigzag(first), here + 1
        if second < 0x80:
            return _zigzag((first & np.uint64(0x7F)) | (second << np.uint64(7))), here + 2
    return _long_varint(buffer, here, end, 5)


@inlined
def _timestamp_delta(buffer, here, end):
    if here < end and buffer[here] < 0x80:
        return _zigzag(np.uint64(buffer[here])), here + 1
    return _long_varint(buffer, here, end, 10)


@kernel
def skip_headers(buffer, here, end, count):
    """Return the position after `count` headers that start at `here`, -1 if they are not valid; and `Record.valid`."""
    valid = np.int64(1)
    if count < 0 or count > end - here:
        return np.int64(-1), valid
    for _ in range(count):
        size, here = _varint(buffer, here, end)
        if here < 0 or size < 0:
            return np.int64(-1), valid
        size, here = _varint(buffer, here + size, end)
        if here < 0:
            return np.int64(-1), valid
        if size > 0:
            here += size
        elif size < -1:
            valid = np.int64(ODD_HEADER)
    return here, valid


@inlined
def _sequence(base, delta):
    if base < 0:
        return np.int64(-1)
    # Deltas are not negative here; the plain twin computes negative deltas in Java's int arithmetic.
    if base > _MAX_INT32 - delta:
        return delta - (_MAX_INT32 - base) - 1
    return base + delta


@kernel
def decode_records(buffer, here, end, count, batches, batch, out, row):
    """Write the rows of `count` records from `here` on to `out`, from `row` on; return the position after them.

    The result is -1 if the records are not valid, or need the plain twin.
    """
    base_offset, base_timestamp, append_time = batches[2, batch], batches[8, batch], batches[9, batch]
    use_append, sequence = (batches[7, batch] & 8) != 0, batches[12, batch]
    for index in range(row, row + count):
        prefetch(buffer, here + _AHEAD_BYTES)
        prefetch(buffer, here + _AHEAD_BYTES + _LINE_BYTES)
        length, here = _varint(buffer, here, end)
        if here < 0 or length > end - here or length <= 0:
            return np.int64(-1)
        body_end = here + length
        timestamp, here = _timestamp_delta(buffer, here + 1, end)
        if here < 0:
            return np.int64(-1)
        delta, here = _varint(buffer, here, end)
        if here < 0 or delta < 0:
            return np.int64(-1)
        key_size, key_at = _varint(buffer, here, end)
        if key_at < 0:
            return np.int64(-1)
        value_size, value_at = _varint(buffer, key_at + max(key_size, 0), end)
        if value_at < 0:
            return np.int64(-1)
        headers, here = _varint(buffer, value_at + max(value_size, 0), end)
        if here < 0:
            return np.int64(-1)
        out[7, index] = here
        valid = np.int64(1)
        if headers != 0:
            here, valid = skip_headers(buffer, here, end, headers)
        if here != body_end:
            return np.int64(-1)
        out[0, index] = base_offset + delta
        out[1, index] = append_time if use_append else base_timestamp + timestamp
        out[2, index] = _sequence(sequence, delta)
        out[3, index] = key_at
        out[4, index] = key_size
        out[5, index] = value_at
        out[6, index] = value_size
        out[8, index] = headers
        out[9, index] = -1
        out[10, index] = valid
    return here


@entry(BYTES, NUMBERS, NUMBERS, COLUMNS, MATRIX, NUMBERS)
def decode_batches(buffer, starts, ends, batches, out, record_ends):
    """Decode records of consecutive v2 batches; return the number of batches before a batch that needs the plain twin.

    `batches`: the 15 columns of Batch, one row per region. `starts`, `ends`: start and end of each batch's
    (decompressed) records in `buffer`. `out`: the 11 columns of records. `record_ends[i]`: number of records up to and
    including batch i.
    """
    row = np.int64(0)
    for index in range(len(starts)):
        count = batches[13, index]
        if count < 0 or row + count > out.shape[1]:
            return index
        if count > 0:
            here = decode_records(buffer, starts[index], ends[index], count, batches, index, out, row)
            if here != ends[index]:
                return index
        row += count
        record_ends[index] = row
    return np.int64(len(starts))


@entry(BYTES, types.int64, types.int64, types.int64, COLUMNS, MATRIX)
def decode_part(buffer, here, end, count, batch, out):
    """Decode `count` records of one v2 batch from `here` on; return the position after them.

    The result is -1 if they need the plain twin. `batch`: the batch's 15 columns. `out`: the 11 columns of records.
    """
    return decode_records(buffer, here, end, count, batch, 0, out, 0)
