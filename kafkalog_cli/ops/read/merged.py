"""Merge the records of several partitions by their timestamps.

The merge compares only the next record of each partition, and the oldest of these comes first. It is not a sort: where
the timestamps of a partition go back, its records keep the order of their offsets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush

from kafkalog_cli.format.records import RecordBlock
from kafkalog_cli.ops.ranges import part_of

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

    @property
    def key(self) -> Key | None:
        """The key of the next record; None at the end. The previous block is no longer valid."""
        while self._at >= len(self._timestamps):
            self._block = None
            self._block = next(self._blocks, None)
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
    sources: Sequence[Iterator[RecordBlock]], most_records: int | None = None
) -> Iterator[tuple[int, RecordBlock]]:
    """Yield the records of `sources`, the oldest next record first, and no more than `most_records`.

    Each item has the number of the source, and a block of records that follow each other there. It is valid until the
    next item is requested. Of equal timestamps the earlier source comes first.
    """
    cursors = [_Source(number, blocks) for number, blocks in enumerate(sources)]
    heap = [key for cursor in cursors if (key := cursor.key) is not None]
    heapify(heap)
    left = most_records
    while heap and left != 0:
        _, number = heappop(heap)
        block = cursors[number].take(heap[0] if heap else None, left)
        left = None if left is None else left - len(block.records)
        yield number, block
        del block
        key = cursors[number].key if left != 0 else None
        if key is not None:
            heappush(heap, key)
