"""A sequence of any number of pairs of numbers, of which few are in memory."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby, pairwise
from operator import itemgetter

from kafkalog_cli.disk.temporary import SpooledFile

PAIR_BYTES = 16
HELD_BYTES = 4 << 20
PAIRS_AT_ONCE = 1 << 12
MOST_SORTED = 1 << 18
"""The most pairs that are sorted in memory."""


class SpooledPairs:
    """A growing sequence of pairs of signed 64-bit numbers."""

    def __init__(self, held_bytes: int = HELD_BYTES) -> None:
        self._file = SpooledFile(held_bytes)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def extend(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Append the pairs."""
        numbers = array("q", chain.from_iterable(pairs))
        self._file.seek(self._count * PAIR_BYTES)
        self._file.write(numbers.tobytes())
        self._count += len(numbers) // 2

    def oldest_first(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the pairs with the indexes `begin` to `end` - 1."""
        for first in range(begin, end, PAIRS_AT_ONCE):
            yield from self._pairs(first, min(end, first + PAIRS_AT_ONCE))

    def newest_first(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the pairs with the indexes `end` - 1 down to `begin`."""
        for last in range(end, begin, -PAIRS_AT_ONCE):
            yield from reversed(self._pairs(max(begin, last - PAIRS_AT_ONCE), last))

    def by_first(self, ranges: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        """Yield the pairs of the index ranges in the order of their first numbers, as a java.util.TreeMap would.

        Of pairs with the same first number, only the newest is yielded. More than MOST_SORTED pairs that are out of
        order, which only damage can give, stay as they are.
        """
        pairs = self._of(ranges)
        if not self._ascends(ranges) and sum(end - begin for begin, end in ranges) <= MOST_SORTED:
            pairs = iter(sorted(pairs, key=itemgetter(0)))  # stable: the newest of equal ones stays the last
        return (deque(same, maxlen=1).pop() for _, same in groupby(pairs, itemgetter(0)))

    def last_first(self) -> Iterator[tuple[int, int]]:
        """Yield all pairs from the largest first number down, otherwise as `by_first`."""
        pairs = self.newest_first(0, len(self))
        if not self._ascends([(0, len(self))]) and len(self) <= MOST_SORTED:
            pairs = iter(sorted(pairs, key=itemgetter(0), reverse=True))  # stable: the newest stays the first
        return (next(same) for _, same in groupby(pairs, itemgetter(0)))

    def _of(self, ranges: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        return chain.from_iterable(self.oldest_first(begin, end) for begin, end in ranges)

    def _ascends(self, ranges: Sequence[tuple[int, int]]) -> bool:
        return all(before <= after for (before, _), (after, _) in pairwise(self._of(ranges)))

    def _pairs(self, begin: int, end: int) -> list[tuple[int, int]]:
        self._file.seek(begin * PAIR_BYTES)
        numbers = array("q", self._file.read((end - begin) * PAIR_BYTES))
        return list(zip(numbers[::2], numbers[1::2], strict=True))
