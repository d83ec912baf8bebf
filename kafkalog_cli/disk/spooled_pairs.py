"""A sequence of any number of pairs of numbers, of which few are in memory."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

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
        if self._is_rising(ranges) or sum(end - begin for begin, end in ranges) > MOST_SORTED:
            return self._of(ranges)
        return iter(sorted(dict(self._of(ranges)).items()))

    def last_first(self) -> Iterator[tuple[int, int]]:
        """Yield all pairs from the largest first number down, otherwise as `by_first`."""
        ranges = [(0, len(self))]
        if self._is_rising(ranges) or len(self) > MOST_SORTED:
            return self.newest_first(0, len(self))
        return iter(sorted(dict(self._of(ranges)).items(), reverse=True))

    def _of(self, ranges: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        return chain.from_iterable(self.oldest_first(begin, end) for begin, end in ranges)

    def _is_rising(self, ranges: Sequence[tuple[int, int]]) -> bool:
        known = None
        for first, _ in self._of(ranges):
            if known is not None and first <= known:
                return False
            known = first
        return True

    def _pairs(self, begin: int, end: int) -> list[tuple[int, int]]:
        self._file.seek(begin * PAIR_BYTES)
        numbers = array("q", self._file.read((end - begin) * PAIR_BYTES))
        return list(zip(numbers[::2], numbers[1::2], strict=True))
