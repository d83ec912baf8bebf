"""Merge the records of several partitions by their timestamps.

The merge compares only the next record of each partition, and the oldest of these comes first. It is not a sort: where
the timestamps of a partition go back, its records keep the order of their offsets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush

from kafkalog_cli.errors import KafkalogError
from kafkalog_cli.format.batch import CODEC_MASK
from kafkalog_cli.format.records import RecordBlock
from kafkalog_cli.ops.ranges import part_of

_RECORD_BYTES = 300
"""Memory for the columns of a record, in plain Python integers."""

Key = tuple[int, int]
"""The timestamp of a record in ms, and the number of its source. The smallest key comes first."""


class _Source:
    """The blocks of one partition, and its next record."""

    def __init__(self, number: int, blocks: Iterator[RecordBlock]) -> None:
        self._number = number
        self._blocks = blocks
        self._block: RecordBlock | None = None
        self._timestamps: list[int] = []
        self._at = 0
        self.held_bytes = 0

    @property
    def key(self) -> Key | None:
        """The key of the next record; None at the end. The previous block is no longer valid."""
        while self._at >= len(self._timestamps):
            self._block = None
            self._block = next(self._blocks, None)
            self.held_bytes = 0 if self._block is None else _held_bytes(self._block)
            if self._block is None:
                return None
            self._timestamps, self._at = [int(one) for one in self._block.records.timestamp], 0
        return self._timestamps[self._at], self._number

    def take(self, before: Key | None, most: int | None) -> RecordBlock:
        """Return the next record, and the records after it in its block while their keys are below `before`.

        There are at most `most` records.
        """
        assert self._block is not None
        first, end = self._at, len(self._timestamps)
        if most is not None:
            end = min(end, first + most)
        self._at += 1
        while self._at < end and (before is None or (self._timestamps[self._at], self._number) < before):
            self._at += 1
        return part_of(self._block, first, self._at)


def merged_by_time(
    sources: Sequence[Iterator[RecordBlock]], most_records: int | None = None, most_bytes: int | None = None
) -> Iterator[tuple[int, RecordBlock]]:
    """Yield the records of `sources`, the oldest next record first, and no more than `most_records`.

    Each item has the number of the source, and a block of records that follow each other there. It is valid until the
    next item is requested. Of equal timestamps the earlier source comes first. Raises KafkalogError if the blocks that
    have the next records of all sources take more than `most_bytes` of memory.
    """
    cursors: list[_Source] = []
    held_bytes = 0
    heap: list[Key] = []
    for number, blocks in enumerate(sources):
        cursors.append(_Source(number, blocks))
        if (first := cursors[number].key) is not None:
            heap.append(first)
        held_bytes += cursors[number].held_bytes
        _check(held_bytes, most_bytes, len(sources))
    heapify(heap)
    left = most_records
    while heap and left != 0:
        _, number = heappop(heap)
        cursor = cursors[number]
        block = cursor.take(heap[0] if heap else None, left)
        left = None if left is None else left - len(block.records)
        yield number, block
        del block
        before_bytes = cursor.held_bytes
        key = cursor.key if left != 0 else None
        held_bytes += cursor.held_bytes - before_bytes
        _check(held_bytes, most_bytes, len(sources))
        if key is not None:
            heappush(heap, key)


def _check(held_bytes: int, most_bytes: int | None, sources: int) -> None:
    if most_bytes is not None and held_bytes > most_bytes:
        reason = f"the next batches of {sources} partitions take more than {most_bytes} bytes in memory"
        raise KafkalogError(reason=f"{reason}: merge fewer of them, or raise the limit with --max-output-bytes")


def _held_bytes(block: RecordBlock) -> int:
    """Return about how much memory a source holds while a record of the block is its next record."""
    records, size_bytes = block.records, len(block.buffer)
    if block.is_compiled and len(records):  # the buffer may be a large arena of which this block uses the beginning
        value_end = int(records.value_position[-1]) + max(int(records.value_size[-1]), 0)
        size_bytes = min(size_bytes, max(value_end, int(records.headers_position[-1])))
    batches, row = block.batches, block.first_row
    stored_bytes = int(batches.size_bytes[row]) if batches.attributes[row] & CODEC_MASK else 0
    return size_bytes + stored_bytes + (2 if block.goes_on else 1) * _RECORD_BYTES * len(records)
