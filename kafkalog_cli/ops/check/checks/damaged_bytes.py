"""Findings about bytes that are not batches, and about batches whose checksums do not match."""

import struct
import zlib
from collections.abc import Callable, Iterator, Sequence

from kafkalog_cli.disk.fs import ReadableFile
from kafkalog_cli.errors import counted
from kafkalog_cli.format.batch import (
    HEADER_SIZE_UP_TO_MAGIC_BYTES,
    MESSAGE_V0,
    MESSAGE_V07_MAGIC0,
    MESSAGE_V07_MAGIC1,
    NO_OFFSET,
    RECORD_BATCH,
    RECORD_BATCH_MAGIC,
    Batch,
)
from kafkalog_cli.format.crc import crc32c
from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.log.reading.readable import read_readable, unreadable_ranges
from kafkalog_cli.ops.check.checks.diagnose import Finding, finding, of_fault
from kafkalog_cli.ops.check.checks.finding_kinds import FindingKind

_CRC = struct.Struct(">I")
_LAYOUTS_OF_07 = (MESSAGE_V07_MAGIC0, MESSAGE_V07_MAGIC1)


def offsets_of_batch(batch: Batch) -> tuple[int, int]:
    """Return the least and the largest offset of a batch; of a compressed message set, only the last is known."""
    first = batch.last_offset if batch.base_offset == NO_OFFSET else batch.base_offset
    return min(first, batch.last_offset), max(first, batch.last_offset)


def _checksums_of(file: ReadableFile, batch: Batch, *, is_v07: bool) -> tuple[str, str]:
    """Read the batch again, and return the checksum of its bytes and that in its header, as text.

    Both are "" if no format has its magic, or if the device does not return all of its bytes.
    """
    is_record_batch = not is_v07 and batch.magic >= RECORD_BATCH_MAGIC
    layouts = _LAYOUTS_OF_07 if is_v07 else (MESSAGE_V0, MESSAGE_V0, RECORD_BATCH)
    magic = RECORD_BATCH_MAGIC if is_record_batch else batch.magic
    if not 0 <= magic < len(layouts):
        return "", ""
    at = layouts[magic].offset["crc"]
    if batch.size_bytes < at + _CRC.size:
        return "", ""
    buffer = bytearray(batch.size_bytes)
    got, _ = read_readable(file, batch.position, memoryview(buffer))
    if got < batch.size_bytes:
        return "", ""
    (stored,) = _CRC.unpack_from(buffer, at)
    crc = crc32c if is_record_batch else zlib.crc32
    return str(crc(memoryview(buffer)[at + _CRC.size :])), str(stored)


def crc_findings(
    file: ReadableFile,
    bad: Sequence[Batch],
    count: int,
    kind_of: Callable[[Batch], FindingKind],
    *,
    is_v07: bool = False,
) -> Iterator[Finding]:
    """Yield a finding per batch of `bad`, and one about the rest of `count` batches.

    `is_v07`: they are messages of Kafka 0.7, whose magic means another layout.
    """
    for batch in bad:
        message = f"the CRC of a {'message' if is_v07 else 'batch'} of {batch.size_bytes} bytes does not match"
        expected, got = _checksums_of(file, batch, is_v07=is_v07)
        position, offsets = batch.position, None if is_v07 else offsets_of_batch(batch)
        yield finding(
            kind_of(batch), file.path, message, position=position, expected=expected, got=got, offsets=offsets
        )
    if count > len(bad):
        what = "messages" if is_v07 else "batches"
        yield finding(FindingKind.CRC_MISMATCH, file.path, f"{count - len(bad)} more {what} whose CRC does not match")


def range_kind(file: ReadableFile, start: int, end: int, *, is_tail: bool = False) -> FindingKind:
    """Return the kind of finding for bytes `start` to `end`, which are not a batch. `is_tail`: the log ends there."""
    zeroed = begins_with_zeros(file, start, end)
    if is_tail:
        return FindingKind.ZERO_TAIL if zeroed else FindingKind.TORN_TAIL
    return FindingKind.ZEROED_RANGE if zeroed else FindingKind.DAMAGED_RANGE


def range_finding(file: ReadableFile, start: int, end: int, what: str = "batch", many: str = "batches") -> Finding:
    """Return the finding about bytes `start` to `end`, which are not batches, between batches."""
    unreadable = next(unreadable_ranges(file, start, end), None)
    if unreadable is not None:
        return of_fault(file.path, unreadable)
    kind = range_kind(file, start, end)
    message = f"{counted(end - start, 'byte is', 'bytes are')} not a {what}; valid {many} follow"
    got = "zeros" if kind is FindingKind.ZEROED_RANGE else f"{end - start} bytes"
    return finding(kind, file.path, message, position=start, expected=f"a {what}", got=got)


def end_finding(file: ReadableFile, fault: Fault, *, is_last: bool) -> Finding:
    """Return the finding about a fault with no valid batch after it in its segment; `is_last`: the log ends there.

    Kafka's message of a record size of 0 is replaced by a message that reports zeros.
    """
    if fault.kind in (FaultKind.UNREADABLE, FaultKind.BATCH_TOO_LARGE):
        return of_fault(file.path, fault)
    kind = range_kind(file, fault.position, file.size_bytes, is_tail=is_last)
    if kind in (FindingKind.ZERO_TAIL, FindingKind.ZEROED_RANGE):
        rest = file.size_bytes - fault.position
        message = f"zeros where a batch should be, {rest} bytes before the end of the file"
        fault = fault._replace(message=message, expected="a batch", got=f"{rest} bytes that begin with zeros")
    return of_fault(file.path, fault, kind)


def begins_with_zeros(file: ReadableFile, begin: int, end: int) -> bool:
    """Whether the first header in bytes `begin` to `end` is zeros, at least up to its magic.

    False if there are too few bytes for a header. A broker does not start with a batch header whose size is 0.
    """
    buffer = bytearray(HEADER_SIZE_UP_TO_MAGIC_BYTES)
    if end - begin <= len(buffer):
        return False
    got, fault = read_readable(file, begin, memoryview(buffer))
    return fault is None and got == len(buffer) == buffer.count(0)
