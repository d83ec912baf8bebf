"""Encode record columns as v2 batches, compiled: the twin of `plain_encode.encode_records`."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
import numpy as np
from numba import types

from kafkalog_cli.format.batch import RECORD_BATCH
from kafkalog_cli.format.kernels.compiled_records import skip_headers
from kafkalog_cli.format.kernels.compiling import BYTES, COLUMNS, MATRIX, NUMBERS, OUT, entry, inlined, kernel
from kafkalog_cli.format.kernels.machine import crc32c
from kafkalog_cli.format.kernels.memory import copy, store_i16_be, store_i32_be, store_i64_be

_LENGTH = RECORD_BATCH.offset["batch_length"]
_EPOCH = RECORD_BATCH.offset["partition_leader_epoch"]
_MAGIC = RECORD_BATCH.offset["magic"]
_CRC = RECORD_BATCH.offset["crc"]
_ATTRIBUTES = RECORD_BATCH.offset["attributes"]
_LAST_DELTA = RECORD_BATCH.offset["last_offset_delta"]
_BASE_TIMESTAMP = RECORD_BATCH.offset["base_timestamp"]
_MAX_TIMESTAMP = RECORD_BATCH.offset["max_timestamp"]
_PRODUCER_ID = RECORD_BATCH.offset["producer_id"]
_PRODUCER_EPOCH = RECORD_BATCH.offset["producer_epoch"]
_BASE_SEQUENCE = RECORD_BATCH.offset["base_sequence"]
_COUNT = RECORD_BATCH.offset["records_count"]
_HEADER = RECORD_BATCH.size
_CODEC, _APPEND_TIME, _HORIZON = 0x07, 0x08, 0x40
_NO_ROOM = np.int64(-1)


@inlined
def _zigzag(value):
    return np.uint64(value << 1) ^ np.uint64(value >> 63)


@inlined
def _size_of(value):
    bits = _zigzag(value)
    size = np.int64(1)
    while bits >= 0x80:
        bits >>= np.uint64(7)
        size += 1
    return size


@inlined
def put_varint(out, at, value):
    """Write a number as a zigzag varint, as in records; return the position after it."""
    bits = _zigzag(value)
    while bits >= 0x80:
        out[at] = np.uint8((bits & np.uint64(0x7F)) | np.uint64(0x80))
        bits >>= np.uint64(7)
        at += 1
    out[at] = np.uint8(bits)
    return at + 1


@inlined
def put_field(out, at, buffer, position, size):
    """Write a varint of `size` (below 0: null) and `size` bytes of `buffer`; return the position after them."""
    at = put_varint(out, at, size)
    if size > 0:
        copy(out, at, buffer, position, size)
        at += size
    return at


@inlined
def _size_of_field(position, size):
    """Return the size to write: -1 for null, 0 if the stored size exceeds the bytes left."""
    if size < 0:
        return np.int64(-1)
    return size if position >= 0 else np.int64(0)


@kernel
def _put_record(buffer, records, row, base_offset, base_timestamp, out, at):
    """Append one record; return the next position, or _NO_ROOM if the record does not fit."""
    timestamp, offset = records[1, row] - base_timestamp, records[0, row] - base_offset
    key_size = _size_of_field(records[3, row], records[4, row])
    value_size = _size_of_field(records[5, row], records[6, row])
    count, headers_at = records[8, row], records[7, row]
    headers_size = np.int64(0)
    if count > 0:
        headers_size = skip_headers(buffer, headers_at, np.int64(len(buffer)), count)[0] - headers_at
    size = 1 + _size_of(timestamp) + _size_of(offset) + _size_of(key_size) + max(key_size, 0)
    size += _size_of(value_size) + max(value_size, 0) + _size_of(count) + headers_size
    if at + 5 + size > len(out):
        return _NO_ROOM
    at = put_varint(out, at, size)
    out[at] = 0
    at = put_varint(out, at + 1, timestamp)
    at = put_varint(out, at, offset)
    at = put_field(out, at, buffer, records[3, row], key_size)
    at = put_field(out, at, buffer, records[5, row], value_size)
    at = put_varint(out, at, count)
    if headers_size > 0:
        copy(out, at, buffer, headers_at, headers_size)
    return at + headers_size


@kernel
def _put_header(out, start, batches, row):
    store_i64_be(out, start, batches[2, row])
    store_i32_be(out, start + _LENGTH, batches[1, row] - 12)
    store_i32_be(out, start + _EPOCH, batches[4, row])
    out[start + _MAGIC] = 2
    store_i16_be(out, start + _ATTRIBUTES, batches[7, row])
    store_i32_be(out, start + _LAST_DELTA, batches[3, row] - batches[2, row])
    store_i64_be(out, start + _BASE_TIMESTAMP, batches[8, row])
    store_i64_be(out, start + _MAX_TIMESTAMP, batches[9, row])
    store_i64_be(out, start + _PRODUCER_ID, batches[10, row])
    store_i16_be(out, start + _PRODUCER_EPOCH, batches[11, row])
    store_i32_be(out, start + _BASE_SEQUENCE, batches[12, row])
    store_i32_be(out, start + _COUNT, batches[13, row])
    crc = crc32c(out, start + _ATTRIBUTES, start + batches[1, row])
    store_i32_be(out, start + _CRC, crc)
    batches[6, row] = crc


@entry(BYTES, COLUMNS, BYTES, NUMBERS, NUMBERS, MATRIX, types.int64, OUT, types.int64)
def encode_batches(buffer, records, keep, begins, ends, batches, first, out, at):
    """Write v2 batches from number `first` on to `out` from `at` on; return (how many are done, the end position).

    Batch i contains the rows `begins[i]` to `ends[i]` (exclusive) of `records` whose byte in `keep` is not 0. If `keep`
    is empty, it contains all of them.

    `batches` are the 15 columns of Batch; they are updated to describe the written batches. A batch with a codec gets
    only its uncompressed records, after space for the header. The function stops before the first batch that does not
    fit in `out`.
    """
    for batch in range(first, len(begins)):
        base_offset, base_timestamp = batches[2, batch], batches[8, batch]
        has_base = (batches[7, batch] & _HORIZON) != 0
        largest, count = np.int64(-1), np.int64(0)
        here = at + _HEADER
        if here > len(out):
            return batch, at
        for row in range(begins[batch], ends[batch]):
            if len(keep) > 0 and keep[row] == 0:
                continue
            if not has_base:
                base_timestamp, has_base = records[1, row], True
            here = _put_record(buffer, records, row, base_offset, base_timestamp, out, here)
            if here < 0:
                return batch, at
            largest = max(largest, records[1, row])
            count += 1
        batches[13, batch] = count
        if count == 0:
            batches[7, batch] &= ~(_CODEC | _HORIZON)
            batches[8, batch] = -1
        else:
            batches[8, batch] = base_timestamp
            if (batches[7, batch] & _APPEND_TIME) == 0:
                batches[9, batch] = largest
        batches[0, batch], batches[1, batch], batches[5, batch], batches[14, batch] = at, here - at, 2, 1
        if (batches[7, batch] & _CODEC) == 0:
            _put_header(out, at, batches, batch)
        at = here
    return np.int64(len(begins)), at


@entry(OUT, MATRIX)
def finish_batches(out, batches):
    """Write the headers of batches whose records, as stored, are in `out` after space for the headers.

    `batches` are the 15 columns of Batch, with positions in `out`. The CRCs are written to the columns too.
    """
    for batch in range(batches.shape[1]):
        _put_header(out, batches[0, batch], batches, batch)
    return np.int64(batches.shape[1])
