"""Scan the batches of a chunk into batch columns, compiled: the twin of `plain.scan` for common input."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
import numpy as np
from numba import types

from kafkalog_cli.format.batch import MESSAGE_V0, MESSAGE_V1, RECORD_BATCH
from kafkalog_cli.format.kernels.compiling import BYTES, MATRIX, entry, inlined, kernel
from kafkalog_cli.format.kernels.machine import crc32, crc32c, load_u32_be, load_u64_be

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
_V0_CRC = MESSAGE_V0.offset["crc"]
_V0_HEADER = MESSAGE_V0.offset["key_length"]
_V1_HEADER = MESSAGE_V1.offset["key_length"]
_V1_TIMESTAMP = MESSAGE_V1.offset["timestamp"]


@inlined
def _i32(buffer, at):
    return np.int64(np.int32(load_u32_be(buffer, at)))


@inlined
def _i64(buffer, at):
    return np.int64(load_u64_be(buffer, at))


@inlined
def _i16(buffer, at):
    return np.int64(np.int16((np.int64(buffer[at]) << 8) | np.int64(buffer[at + 1])))


@kernel
def _v2_row(buffer, here, total, magic, file_position, rows, row):
    base_offset = _i64(buffer, here)
    crc = np.int64(load_u32_be(buffer, here + _CRC))
    rows[0, row] = file_position + here
    rows[1, row] = total
    rows[2, row] = base_offset
    rows[3, row] = base_offset + _i32(buffer, here + _LAST_DELTA)
    rows[4, row] = _i32(buffer, here + _EPOCH)
    rows[5, row] = magic
    rows[6, row] = crc
    rows[7, row] = np.int64(buffer[here + _ATTRIBUTES + 1])
    rows[8, row] = _i64(buffer, here + _BASE_TIMESTAMP)
    rows[9, row] = _i64(buffer, here + _MAX_TIMESTAMP)
    rows[10, row] = _i64(buffer, here + _PRODUCER_ID)
    rows[11, row] = _i16(buffer, here + _PRODUCER_EPOCH)
    rows[12, row] = _i32(buffer, here + _BASE_SEQUENCE)
    rows[13, row] = _i32(buffer, here + _COUNT)
    rows[14, row] = 1 if total >= _HEADER and crc32c(buffer, here + _ATTRIBUTES, here + total) == crc else 0


@kernel
def _legacy_row(buffer, here, total, magic, file_position, rows, row):
    offset = _i64(buffer, here)
    crc = np.int64(load_u32_be(buffer, here + _V0_CRC))
    attributes = np.int64(buffer[here + _MAGIC + 1])
    timestamp = _i64(buffer, here + _V1_TIMESTAMP) if magic == 1 else np.int64(-1)
    compressed = attributes & 7
    rows[0, row] = file_position + here
    rows[1, row] = total
    rows[2, row] = -1 if compressed else offset
    rows[3, row] = offset
    rows[4, row] = -1
    rows[5, row] = magic
    rows[6, row] = crc
    rows[7, row] = attributes
    rows[8, row] = timestamp
    rows[9, row] = timestamp
    rows[10, row] = -1
    rows[11, row] = -1
    rows[12, row] = -1
    rows[13, row] = -1 if compressed else 1
    rows[14, row] = 1 if crc32(buffer, here + _MAGIC, here + total) == crc else 0


@entry(BYTES, types.int64, types.int64, types.int64, types.int64, MATRIX)
def scan(buffer, limit, end, file_position, max_batch_bytes, rows):
    """Write rows of Batch to `rows` (15 columns); return (rows, bytes, needed bytes, stop).

    If stop is 1, the plain scan must continue: there is damage, a tiny v1 entry, or the end of the file is near.
    """
    here = np.int64(0)
    count = np.int64(0)
    while here < end - 17:
        if count == rows.shape[1]:
            return count, here, np.int64(17), 0
        if here + 17 > limit:
            return count, here, np.int64(17), 0
        size = _i32(buffer, here + 8)
        if size < 14 or here > end - 12 - size or 12 + size > max_batch_bytes:
            return count, here, np.int64(0), 1
        total = 12 + size
        magic = np.int64(np.int8(buffer[here + _MAGIC]))
        if magic >= 2:
            header = _HEADER
        elif magic == 1:
            header = _V1_HEADER
        elif magic == 0:
            header = _V0_HEADER
        else:
            return count, here, np.int64(0), 1
        wanted = max(total, header)
        if here + header > end or (magic < 2 and total < _V1_HEADER + 8):
            return count, here, np.int64(0), 1
        if here + wanted > limit:
            return count, here, wanted, 0
        if magic >= 2:
            _v2_row(buffer, here, total, magic, file_position, rows, count)
        else:
            _legacy_row(buffer, here, total, magic, file_position, rows, count)
        count += 1
        here += total
    return count, here, np.int64(0), 1 if here < end else 0
