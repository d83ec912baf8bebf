"""Checks of the records of a segment: whether they can be read, their offsets, timestamps and control records."""

import struct
import zlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial

from kafkalog_cli.format import native
from kafkalog_cli.format.batch import (
    CONTROL_MASK,
    LOG_OVERHEAD_BYTES,
    MINIMUM_ENTRY_SIZE,
    NO_OFFSET,
    NO_TIMESTAMP,
    RECORD_BATCH_MAGIC,
    Batch,
)
from kafkalog_cli.format.columns import all_set, any_bit, ascends, least_and_largest, rows_where
from kafkalog_cli.format.compression import CompressionFault, codec_name, decompress_into
from kafkalog_cli.format.control import decode_control
from kafkalog_cli.format.fault import Fault
from kafkalog_cli.format.limits import MEBIBYTE, Limits
from kafkalog_cli.format.records import UNUSUAL_HEADER, RecordBlock, RecordColumns, field_bytes
from kafkalog_cli.ops.check.checks.damaged_bytes import offsets_of_batch
from kafkalog_cli.ops.check.checks.diagnose import Finding, finding, of_fault
from kafkalog_cli.ops.check.checks.finding_kinds import MAX_FINDINGS, FindingKind
from kafkalog_cli.ops.check.checks.gaps import InnerGaps
from kafkalog_cli.ops.check.checks.producers import NO_MARKER
from kafkalog_cli.ops.check.checks.unusual_times import UnusualTimes, batch_times


class RecordsCheck:
    """Checks the records of one segment, block by block, as columns.

    `gaps` checks their offsets for gaps. It is None if records have no offsets of their own, as before Kafka 0.8.
    """

    def __init__(self, now_ms: int, gaps: InnerGaps | None = None) -> None:
        self._has_offsets = gaps is not None
        self._gaps = gaps
        self.times = UnusualTimes(now_ms, "record")
        self._told: list[tuple[FindingKind, Batch, str, Fault | None]] = []
        self._counts: Counter[FindingKind] = Counter()
        self._reached = NO_OFFSET
        self._batch = _BatchSeen()
        self._told_control = False

    def see(self, block: RecordBlock) -> None:
        """Check the records of a block."""
        for row, fault in block.faults.items():
            self._tell(None, block.batches.row(row), "", fault)
        if len(block.records) or block.begun:
            problems = [*self._control_problems(block), *self._problems(block)]
            for kind, row, message in problems:
                if kind is FindingKind.RECORD_OFFSET and not self._has_offsets:
                    continue
                self._tell(kind, block.batches.row(row), message)
            self.times.see(block.records.timestamp, block.records.offset, None, partial(_batch_timestamp, block))
            for row, message in _negative_lengths(block):
                self._tell(FindingKind.NEGATIVE_LENGTH, block.batches.row(row), message)
            for row, message in packed_values(block) if self._has_offsets else ():
                self._tell(FindingKind.PACKED_VALUE, block.batches.row(row), message)
        if self._gaps is not None:
            self._gaps.see(block)
        if not block.goes_on:
            self._look_at_overlap(block)
            last_offsets = block.batches.last_offset[block.first_row : block.end_row]
            self._reached = max(self._reached, least_and_largest(last_offsets)[1])

    def findings(self, path: str) -> Iterator[Finding]:
        """Yield the findings in the order of the file, then counts of others, then findings about timestamps."""
        reported: Counter[FindingKind] = Counter()
        for kind, batch, message, fault in sorted(self._told, key=lambda one: (one[1].position, one[3] is None)):
            reported[kind] += 1
            offsets = offsets_of_batch(batch)
            if fault is not None:
                details = of_fault(path, fault)
                yield finding(kind, path, details.message, position=batch.position, expected=details.expected,
                              got=details.got, offsets=offsets)  # fmt: skip
            else:
                yield finding(kind, path, message, position=batch.position, offsets=offsets)
        for kind, count in self._counts.items():
            if count > reported[kind]:
                yield finding(kind, path, f"{count - reported[kind]} more batches of the same kind")
        yield from self.times.findings(path)

    def _tell(self, kind: FindingKind | None, batch: Batch, message: str, fault: Fault | None = None) -> None:
        if fault is not None:
            kind = of_fault("", fault).kind
        assert kind is not None
        self._counts[kind] += 1
        if self._counts[kind] <= MAX_FINDINGS:
            self._told.append((kind, batch, message, fault))

    def _problems(self, block: RecordBlock) -> "Iterator[_Problem]":
        """Yield the problems of each batch whose records have all been seen."""
        if block.is_usual and not (block.begun or block.goes_on):
            yield from _usual_problems(block)
            return
        begin = 0
        rows = enumerate(block.batches.rows(block.first_row, block.end_row), block.first_row)
        for (row, batch), end in zip(rows, map(int, block.record_ends), strict=True):
            if not block.begun:
                self._batch = _BatchSeen()
            if end > begin:
                self._batch.see(block.records, begin, end)
            if not block.goes_on:
                yield from self._batch.problems(row, batch, is_whole=row not in block.faults)
            begin = end

    def _look_at_overlap(self, block: RecordBlock) -> None:
        """Check that a compressed message set starts after the previous batch and ends with its last record.

        Only the records of such a set show where it starts.
        """
        batch = block.batches.row(block.first_row)
        if not self._has_offsets or batch.magic >= 2 or not batch.codec or block.faults:
            return
        first, last = self._batch.first_offset, self._batch.last_offset
        if first <= self._reached:
            message = f"its records begin with offset {first}, a batch before it ends with {self._reached}"
            self._tell(FindingKind.RECORD_OFFSET, batch, message)
        elif last < batch.last_offset:
            message = f"its last record has offset {last}, the set itself {batch.last_offset}"
            self._tell(FindingKind.RECORD_OFFSET, batch, message)

    def _control_problems(self, block: RecordBlock) -> "Iterator[_Problem]":
        """Yield the first invalid control record of each batch."""
        records = block.records
        if not block.begun:
            self._told_control = False
        for row in _control_rows(block):
            at = row - block.first_row
            begin = int(block.record_ends[at - 1]) if at else 0
            for record in range(begin, int(block.record_ends[at])):
                key = field_bytes(block.buffer, int(records.key_position[record]), int(records.key_size[record]))
                value = field_bytes(block.buffer, int(records.value_position[record]), int(records.value_size[record]))
                found = decode_control(key, value)
                is_producers = int(block.batches.producer_id[row]) >= 0
                if isinstance(found, Fault) or (is_producers and not found.is_marker):
                    if not (block.begun and self._told_control):
                        message = found.message if isinstance(found, Fault) else f"a producer's {NO_MARKER}"
                        yield FindingKind.CONTROL_RECORD, row, message
                    self._told_control = True
                    break


def _batch_timestamp(block: RecordBlock, record: int) -> int:
    """Return the timestamp of the batch of a record, from the batch header."""
    row = block.first_row + bisect_right(block.record_ends, record)
    return int(batch_times(block.batches, slice(row, row + 1))[0])


def _control_rows(block: RecordBlock) -> Iterable[int]:
    """Return the rows of control batches."""
    part = block.batches.part(block.first_row, block.end_row)
    if not any_bit(CONTROL_MASK, part.attributes):
        return ()
    rows = rows_where(lambda bits, magic: (bits & CONTROL_MASK != 0) & (magic >= 2), part.attributes, part.magic)
    return [block.first_row + row for row in rows]


_Problem = tuple[FindingKind, int, str]


def _usual_problems(block: RecordBlock) -> Iterator[_Problem]:
    """Yield the batches v2 whose records contradict the header."""
    batches = block.batches.part(block.first_row, block.end_row)
    for found in native.contradictions(block.records, block.record_ends, batches):
        row = block.first_row + found.number
        if found.has_wrong_offsets:
            yield FindingKind.RECORD_OFFSET, row, _OFFSETS
        if found.has_other_timestamp:
            message = _timestamp_message(found.largest_timestamp, batches.max_timestamp[found.number])
            yield FindingKind.MAX_TIMESTAMP, row, message


class _BatchSeen:
    """The state of one batch's records, which may come in parts; finds the same problems as `_usual_problems`."""

    __slots__ = ("_is_ordered", "_is_valid", "_largest", "first_offset", "last_offset")

    def __init__(self) -> None:
        self.first_offset = self.last_offset = NO_OFFSET
        self._largest: int | None = None
        self._is_ordered = self._is_valid = True

    def see(self, records: RecordColumns, begin: int, end: int) -> None:
        """Add the next records of the batch, at least one."""
        offsets, timestamps = records.offset[begin:end], records.timestamp[begin:end]
        largest = int(timestamps[0]) if end - begin == 1 else least_and_largest(timestamps)[1]
        if self._largest is None:
            self.first_offset, self._largest = int(offsets[0]), largest
        else:
            self._is_ordered &= self.last_offset < int(offsets[0])
            self._largest = max(self._largest, largest)
        self._is_ordered &= end - begin == 1 or ascends(offsets)
        self._is_valid &= all_set(records.valid[begin:end])
        self.last_offset = int(offsets[len(offsets) - 1])

    def problems(self, row: int, batch: Batch, *, is_whole: bool) -> Iterator[_Problem]:
        """Yield the contradictions between the records and the header of the batch."""
        if self._largest is None:
            return
        begins_early = batch.base_offset != NO_OFFSET and self.first_offset < batch.base_offset
        if begins_early or self.last_offset > batch.last_offset or not self._is_ordered:
            yield FindingKind.RECORD_OFFSET, row, _OFFSETS
        is_brokers = batch.max_timestamp == NO_TIMESTAMP > self._largest  # see batch_times
        if batch.magic >= 1 and self._largest != batch.max_timestamp and not is_brokers and is_whole:
            yield FindingKind.MAX_TIMESTAMP, row, _timestamp_message(self._largest, batch.max_timestamp)
        if not self._is_valid:
            yield FindingKind.INNER_MESSAGE, row, _INNER_CRC


_OFFSETS = "the offsets of its records do not ascend, or lie outside the batch"
_INNER_CRC = "a message inside has a CRC that does not match"


def _timestamp_message(largest: int, header: int) -> str:
    stated = "none" if header == NO_TIMESTAMP else header
    return f"the largest timestamp of its records is {largest}, its header says {stated}"


def _negative_lengths(block: RecordBlock) -> Iterator[tuple[int, str]]:
    """Yield the row of each batch v2 with a key, value or header whose length is below -1, and a text on the first."""
    records, last_reported = block.records, NO_OFFSET
    sizes = records.key_size, records.value_size
    if not len(records) or (
        min(least_and_largest(column)[0] for column in sizes) >= -1
        and least_and_largest(records.valid)[1] < UNUSUAL_HEADER
    ):
        return
    for number in rows_where(
        lambda key, value, valid: (key < -1) | (value < -1) | (valid == UNUSUAL_HEADER),
        records.key_size, records.value_size, records.valid,
    ):  # fmt: skip
        row = block.first_row + bisect_right(block.record_ends, number)
        if row != last_reported and block.batches.magic[row] >= RECORD_BATCH_MAGIC:
            last_reported = row
            key_size, value_size = int(records.key_size[number]), int(records.value_size[number])
            what = f"key is {key_size}" if key_size < -1 else f"value is {value_size}"
            if min(key_size, value_size) >= -1:
                what = "value of a header is below -1"
            yield row, f"at offset {int(records.offset[number])} the length of the {what}"


_MAGIC_OF_CODEC = ((1, b"\x1f\x8b\x08"), (2, b"\x82SNAPPY\0"), (3, b"\x04\x22\x4d\x18"))
"""The codec ids, with the first bytes of a stream of gzip, of Java's snappy and of lz4."""
_FIRST_BYTES = frozenset(start[0] for _, start in _MAGIC_OF_CODEC)
_LIMITS = Limits(max_output_bytes=16 * MEBIBYTE)
_ENTRY = struct.Struct(">qiIb")


def packed_values(block: RecordBlock) -> Iterator[tuple[int, str]]:
    """Yield the row of each such message, and a description of the problem.

    Values that only begin like a compressed stream are left out.
    """
    magics = block.batches.magic[block.first_row : block.end_row]
    if block.begun or least_and_largest(magics)[0] >= RECORD_BATCH_MAGIC:
        return
    records, ends = block.records, block.record_ends
    for number in _candidates(block):
        row = block.first_row + bisect_right(ends, number)
        batch = block.batches.row(row)
        if batch.magic < RECORD_BATCH_MAGIC and not batch.codec:
            at, size = int(records.value_position[number]), int(records.value_size[number])
            message = _of_value(block, row, block.buffer[at : at + size])
            if message:
                yield row, message


def _candidates(block: RecordBlock) -> Iterator[int]:
    """Yield the records without a key whose values begin with the first byte of a compressed stream."""
    records = block.records
    for row in rows_where(
        lambda key_size, position, size: (key_size < 0) & (position >= 0) & (size > LOG_OVERHEAD_BYTES),
        records.key_size, records.value_position, records.value_size,
    ):  # fmt: skip
        if block.buffer[int(records.value_position[row])] in _FIRST_BYTES:
            yield row


def _of_value(block: RecordBlock, row: int, value: memoryview) -> str:
    codec = next((codec for codec, start in _MAGIC_OF_CODEC if value[: len(start)] == start), 0)
    if not codec:
        return ""
    batch, inner = block.batches.row(row), bytearray()
    size = decompress_into(codec, value, inner, 0, magic=batch.magic, limits=_LIMITS)
    if isinstance(size, CompressionFault):
        return ""
    offsets = _offsets_of_set(memoryview(inner)[:size], batch.magic)
    if not offsets or (batch.magic == 0 and offsets[-1] != batch.last_offset):
        return ""
    many = f"{len(offsets)} messages" if len(offsets) > 1 else "1 message"
    return f"a message whose value is a set of {many} compressed with {codec_name(codec)}, and that does not say so"


def _offsets_of_set(view: memoryview, magic: int) -> list[int]:
    """Return the offsets of the messages in a set; [] if the set is incomplete, damaged or out of order."""
    position, offsets = 0, list[int]()
    while position < len(view):
        if len(view) - position < LOG_OVERHEAD_BYTES + MINIMUM_ENTRY_SIZE:
            return []
        offset, size, crc, own_magic = _ENTRY.unpack_from(view, position)
        end = position + LOG_OVERHEAD_BYTES + size
        is_next = not offsets or offset > offsets[-1]
        if size < MINIMUM_ENTRY_SIZE or end > len(view) or own_magic != magic or not is_next:
            return []
        if zlib.crc32(view[position + LOG_OVERHEAD_BYTES + 4 : end]) != crc:
            return []
        offsets.append(offset)
        position = end
    return offsets
