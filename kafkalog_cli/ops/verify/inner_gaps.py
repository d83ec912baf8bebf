"""Offsets that no record has, although they lie in the range of a batch or message set."""

from __future__ import annotations

from kafkalog_cli.format.batch import NO_OFFSET, RECORD_BATCH_MAGIC, Batch, BatchArrays
from kafkalog_cli.format.records import RecordBlock
from kafkalog_cli.ops.verify.gaps import Gaps


class InnerGaps:
    """Checks the records of one segment, block by block, and adds missing offsets to `gaps`.

    A producer numbers the records of a batch without gaps, and a broker does so with the messages of a set. The header
    of a v0 or v1 message set does not contain its first offset. Missing offsets between the previous batch and the
    first record of a compressed set therefore count as a gap here.
    """

    def __init__(self, gaps: Gaps, path: str, base_offset: int) -> None:
        self._gaps = gaps
        self._path = path
        self._next_offset = base_offset
        self._next_position = 0

    def see(self, block: RecordBlock) -> None:
        """Check the records of several batches, or a part of the records of one batch."""
        batches, last_row = block.batches, block.end_row - 1
        if not block.begun and int(batches.position[block.first_row]) != self._next_position:
            self._next_offset = NO_OFFSET  # damage lies before this batch, and its offsets are unknown
        if len(block.records) and not block.faults and not _is_dense(block):
            begin = 0
            for batch, end in zip(
                batches.rows(block.first_row, block.end_row), map(int, block.record_ends), strict=True
            ):
                if end > begin:
                    self._look_into(block, batch, begin, end)
                self._next_offset = batch.last_offset + 1
                begin = end
        self._next_position = int(batches.position[last_row]) + int(batches.size_bytes[last_row])
        self._next_offset = int(batches.last_offset[last_row]) + 1
        if block.goes_on and len(block.records):
            self._next_offset = int(block.records.offset[len(block.records) - 1]) + 1

    def _look_into(self, block: RecordBlock, batch: Batch, begin: int, end: int) -> None:
        offsets = block.records.offset
        first, last = int(offsets[begin]), int(offsets[end - 1])
        is_new_format = batch.magic >= RECORD_BATCH_MAGIC
        lowest = batch.base_offset if is_new_format and not block.begun else self._next_offset
        if lowest == NO_OFFSET or (not is_new_format and not batch.codec):
            lowest = first
        highest = batch.last_offset if is_new_format and not block.goes_on else last
        if first < lowest or last > highest or highest - lowest + 1 <= end - begin:
            return  # nothing is missing, or the offsets are wrong, which another finding reports
        expected = lowest
        for offset in map(int, offsets[begin:end]):
            if offset > expected:
                self._gaps.add(self._path, batch.position, (expected, offset - 1))
            expected = max(expected, offset + 1)
        if expected <= highest:
            self._gaps.add(self._path, batch.position, (expected, highest))


def _is_dense(block: RecordBlock) -> bool:
    """Whether the batches have as many records as offsets, computed on whole columns; most logs are like this."""
    part = block.batches.part(block.first_row, block.end_row)
    if not isinstance(part, BatchArrays) or block.begun or block.goes_on:
        return False
    has_sets = bool((part.base_offset == NO_OFFSET).any())
    return not has_sets and int((part.last_offset - part.base_offset + 1).sum()) == len(block.records)
