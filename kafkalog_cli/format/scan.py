"""From the bytes of a log to columns of batches, with the fault that ends them."""

from __future__ import annotations

from typing import NamedTuple

from kafkalog_cli.format import native
from kafkalog_cli.format.batch import LOG_OVERHEAD_BYTES, MINIMUM_ENTRY_SIZE, RECORD_BATCH, BatchColumns
from kafkalog_cli.format.fault import Fault, FaultKind, incomplete_batch
from kafkalog_cli.format.limits import Limits

_ENTRY_START = RECORD_BATCH.struct_of("base_offset", "batch_length", "partition_leader_epoch", "magic")


class Scanned(NamedTuple):
    """The result of scanning one buffer.

    `consumed_bytes`: size of the part of the buffer that the batches cover. `needed_bytes`: number of bytes from there
    that the next scan needs. It is 0 if the scan is complete, at the end of the file or at `fault`.
    """

    batches: BatchColumns
    consumed_bytes: int
    needed_bytes: int
    fault: Fault | None


def scan(view: memoryview, file_position: int, file_end: int, limits: Limits, *, check: bool = True) -> Scanned:
    """Return the batches from the start of `view`, which contains the file from `file_position` on.

    Mirrors FileLogInputStream.nextBatch on a file that ends at `file_end` (positions in bytes), and the checks that
    Kafka's dump tool makes on each batch. Batches v2, v1 and v0 may be mixed. Without `check`, no CRC is checked, and
    only the headers of the batches have to be in `view`.
    """
    scanned = native.scan(view, file_position, file_end, limits.max_batch_bytes, check=check)
    batches = BatchColumns(scanned.columns, scanned.rows, scanned.rows)
    fault = None
    if scanned.why not in (native.SCAN_CONTINUES, native.SCAN_END):
        position = file_position + scanned.consumed_bytes
        fault = _fault(scanned.why, view[scanned.consumed_bytes :], position, file_end, limits)
    return Scanned(batches, scanned.consumed_bytes, scanned.needed_bytes, fault)


def _fault(why: int, entry: memoryview, position: int, file_end: int, limits: Limits) -> Fault:
    if why == native.SCAN_TRAILING:
        return incomplete_batch(position, file_end - position)
    base_offset, size, _, magic = _ENTRY_START.unpack_from(entry)
    if why == native.SCAN_TOO_SMALL:
        message = f"Found record size {size} smaller than minimum record overhead ({MINIMUM_ENTRY_SIZE})"
        expected = f"at least {MINIMUM_ENTRY_SIZE}"
        return Fault(FaultKind.SIZE_TOO_SMALL, position, message, expected=expected, got=str(size))
    if why == native.SCAN_TOO_LARGE:
        total, most = LOG_OVERHEAD_BYTES + size, limits.max_batch_bytes
        message = f"batch of {total} bytes is over the limit of {most} bytes"
        return Fault(FaultKind.BATCH_TOO_LARGE, position, message, total, f"at most {most}", str(total))
    if magic < 0:
        message = f"Invalid magic used in LegacyRecord: {magic}"
        return Fault(
            FaultKind.INVALID_MAGIC, position, message, expected="0, 1 or 2", got=str(magic), base_offset=base_offset
        )
    message = "the header of the batch reaches past the end of the file"
    return Fault(
        FaultKind.HEADER_CUT_OFF, position, message, file_end - position, got=str(magic), base_offset=base_offset
    )
