"""Decode the records of one batch v2, in parts, with the fault that ends them."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from kafkalog_cli.format import native
from kafkalog_cli.format.batch import Batch
from kafkalog_cli.format.fault import Fault, FaultKind, fault_of
from kafkalog_cli.format.records import NO_RECORDS, RECORDS_AT_ONCE, RecordColumns

SMALLEST_RECORD_BYTES = 7
"""One byte each for length, attributes, timestamp delta, offset delta, key length, value length, header count."""
_CHECKED_AT_ONCE = 1 << 21


def decode_batch(view: memoryview, start: int, end: int, batch: Batch) -> Iterator[tuple[RecordColumns, Fault | None]]:
    """Yield the records of a v2 batch, whose (decompressed) records are `view[start:end]`, in one or more parts.

    Mirrors DefaultRecordBatch.iterator: an uncompressed batch yields the records before a fault, a compressed batch
    none. A compressed batch is therefore checked in advance.
    """
    count = batch.records_count
    if count < 0:
        reason = f"Found invalid record count {count} in magic v2 batch"
        yield NO_RECORDS, fault_of(batch, FaultKind.INVALID_COUNT, reason)
        return
    source, header = native.Memory(view), array("q", batch)
    if batch.codec:
        first, position = 0, start
        while first < count:
            checked = native.decode_records(source, position, end, min(_CHECKED_AT_ONCE, count - first), header, None)
            fault = _fault(batch, checked, first, end)
            if fault is not None:
                yield NO_RECORDS, fault
                return
            first, position = first + checked.records, checked.position
    first, position, fault = 0, start, None
    while fault is None and (first < count or not first):
        rows = max(0, min(RECORDS_AT_ONCE, count - first, (end - position) // SMALLEST_RECORD_BYTES + 1))
        data, out = native.new_matrix(native.RECORD_COLUMNS, rows + 8)
        part = native.decode_records(source, position, end, rows, header, out)
        fault = _fault(batch, part, first, end)
        # Kafka's iterator checks that nothing remains before it returns the last record.
        records = part.records - (fault is not None and fault.kind is FaultKind.RECORDS_REMAINING)
        yield RecordColumns(data, out.stride, records), fault
        first, position = first + max(part.records, 1), part.position


def _fault(batch: Batch, part: native.DecodedRecords, first: int, end: int) -> Fault | None:
    count = batch.records_count
    if part.why:
        reason = f"record {first + part.records} of {count}: {_reason(part)}"
        return fault_of(batch, FaultKind.INVALID_RECORD, reason)
    if count and first + part.records == count and part.position != end:
        reason = "Incorrect declared batch size, records still remaining in file"
        return fault_of(batch, FaultKind.RECORDS_REMAINING, reason)
    return None


def _reason(part: native.DecodedRecords) -> str:
    number, left = part.details
    if part.why == native.BAD_SIZE:
        return f"Invalid record size: expected {number} bytes, but only {left} are left"
    if part.why == native.BAD_LENGTH:
        return f"Invalid record size: expected to read {number} bytes"
    if part.why == native.BAD_HEADER_COUNT:
        return f"Found invalid number of record headers {number}"
    if part.why == native.BAD_HEADER_KEY:
        return f"Invalid negative header key size {number}"
    return "premature end of the batch" if part.why == native.BAD_SHORT else "Varint is too long"
