"""The scan in plain Python. It needs neither numpy nor Numba, so it starts at once."""

from kafkalog_cli.format import crc as checksums
from kafkalog_cli.format.batch import (
    CODEC_MASK,
    HEADER_SIZE_UP_TO_MAGIC_BYTES,
    LOG_OVERHEAD_BYTES,
    MESSAGE_V0,
    MESSAGE_V1,
    MINIMUM_ENTRY_SIZE,
    NO_OFFSET,
    NO_TIMESTAMP,
    RECORD_BATCH,
    BatchColumns,
    wrap_int64,
)
from kafkalog_cli.format.fault import Fault, FaultKind, incomplete_batch
from kafkalog_cli.format.kernels import Scanned
from kafkalog_cli.format.limits import Limits

Row = tuple[int, ...]
"""The values of one record, in the order of RecordColumns."""
PART_RECORDS = 1 << 15
"""Number of records of one batch that are read at a time.

A record needs only 7 bytes, so that a small batch can contain many millions.
"""
Part = tuple[list[Row], Fault | None]
"""Records of a batch, in order. The last part has the batch's fault, if there is one."""


_ENTRY_START = RECORD_BATCH.struct_of("base_offset", "batch_length", "partition_leader_epoch", "magic")
_MAX_INT64 = (1 << 63) - 1


def scan(view: memoryview, file_position: int, file_end: int, limits: Limits) -> Scanned:
    """Return the batches from the start of `view`, which contains the file from `file_position` on.

    Mirrors FileLogInputStream.nextBatch on a file that ends at `file_end` (positions in bytes), and the checks that
    Kafka's dump tool makes on each batch. Batches v2, v1 and v0 may be mixed.
    """
    crc32c = checksums.crc32c_function()
    unpack_start, unpack_batch = _ENTRY_START.unpack_from, RECORD_BATCH.struct.unpack_from
    rows: list[tuple[int, ...]] = []
    append = rows.append
    here, limit, end = 0, len(view), file_end - file_position
    needed, fault = 0, None
    while here < end - HEADER_SIZE_UP_TO_MAGIC_BYTES:
        if here + HEADER_SIZE_UP_TO_MAGIC_BYTES > limit:
            needed = HEADER_SIZE_UP_TO_MAGIC_BYTES
            break
        base_offset, size, _, magic = unpack_start(view, here)
        if size < MINIMUM_ENTRY_SIZE or here > end - LOG_OVERHEAD_BYTES - size:
            fault = _chain_fault(size, file_position + here, file_end)
            break
        total = LOG_OVERHEAD_BYTES + size
        if total > limits.max_batch_bytes:
            fault = _too_large(total, file_position + here, limits)
            break
        header = RECORD_BATCH.size if magic >= 2 else _LEGACY_HEADER_BYTES.get(magic, 0)
        if not header or here + header > end:
            fault = _header_fault(magic, base_offset, file_position + here, file_end)
            break
        if here + max(total, header) > limit:
            needed = max(total, header)
            break
        if magic >= 2:
            (_, _, epoch, _, crc, attributes, delta, base_timestamp, max_timestamp, producer_id, producer_epoch,
             base_sequence, count) = unpack_batch(view, here)  # fmt: skip
            last_offset = base_offset + delta
            if not ~_MAX_INT64 <= last_offset <= _MAX_INT64:
                last_offset = wrap_int64(last_offset)
            valid = total >= RECORD_BATCH.size and crc32c(view[here + 21 : here + total]) == crc
            row = (file_position + here, total, base_offset, last_offset, epoch, magic, crc, attributes & 0xFF,
                base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence, count, +valid)  # fmt: skip
            append(row)
        else:
            append(_legacy_row(view, here, total, magic, file_position))
        here += total
    if fault is None and not needed and here < end:
        fault = _trailing(file_position + here, file_end)
    return Scanned(BatchColumns.from_rows(rows), here, needed, fault)


_LEGACY_HEADER_BYTES = {0: MESSAGE_V0.offset["key_length"], 1: MESSAGE_V1.offset["key_length"]}
"""Bytes that Kafka's dump tool loads to print an entry, by magic (LegacyRecord.headerSize + overhead)."""


def _legacy_row(view: memoryview, here: int, total: int, magic: int, file_position: int) -> tuple[int, ...]:
    if magic:
        offset, _, crc, _, attributes, timestamp, _ = MESSAGE_V1.struct.unpack_from(_padded(view, here), 0)
    else:
        offset, _, crc, _, attributes, _ = MESSAGE_V0.struct.unpack_from(view, here)
        timestamp = NO_TIMESTAMP
    compressed = attributes & CODEC_MASK
    valid = checksums.crc32(view[here + 16 : here + total]) == crc
    return (file_position + here, total, NO_OFFSET if compressed else offset, offset, -1, magic, crc,
            attributes & 0xFF, timestamp, timestamp, -1, -1, -1, -1 if compressed else 1, int(valid))  # fmt: skip


def _padded(view: memoryview, here: int) -> bytes:
    # A v1 entry may be shorter than its own header; Kafka's dump tool then reads into the next bytes.
    return bytes(view[here : here + MESSAGE_V1.size]).ljust(MESSAGE_V1.size, b"\0")


def _chain_fault(size: int, position: int, file_end: int) -> Fault:
    if size < MINIMUM_ENTRY_SIZE:
        return Fault(
            FaultKind.SIZE_TOO_SMALL,
            position,
            f"Found record size {size} smaller than minimum record overhead ({MINIMUM_ENTRY_SIZE})",
            expected=f"at least {MINIMUM_ENTRY_SIZE}",
            got=str(size),
        )
    return _trailing(position, file_end)


def _trailing(position: int, file_end: int) -> Fault:
    return incomplete_batch(position, file_end - position)


def _too_large(total: int, position: int, limits: Limits) -> Fault:
    return Fault(
        FaultKind.BATCH_TOO_LARGE,
        position,
        f"batch of {total} bytes is over the limit of {limits.max_batch_bytes} bytes",
        total,
        f"at most {limits.max_batch_bytes}",
        str(total),
    )


def _header_fault(magic: int, offset: int, position: int, file_end: int) -> Fault:
    if magic < 0:
        return Fault(
            FaultKind.INVALID_MAGIC,
            position,
            f"Invalid magic used in LegacyRecord: {magic}",
            expected="0, 1 or 2",
            got=str(magic),
            base_offset=offset,
        )
    return Fault(
        FaultKind.HEADER_CUT_OFF,
        position,
        "the header of the batch reaches past the end of the file",
        file_end - position,
        got=str(magic),
        base_offset=offset,
    )
