"""A sequence of any number of pairs of numbers, with only the newest pairs in memory."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import chain, islice
from operator import itemgetter
from typing import IO

from kafkalog_cli.disk.temporary import temporary_file

PAIR_BYTES = 16
PAIRS_IN_MEMORY = 1 << 18
PAIRS_AT_ONCE = 1 << 12
"""The number of pairs that are read at once from each run of a merge."""


class PairSpool:
    """A growing sequence of pairs of signed 64-bit numbers.

    When more than `in_memory` pairs are in memory, they are written to an unnamed temporary file. If no such file can
    be written, all pairs stay in memory.
    """

    def __init__(self, in_memory: int = PAIRS_IN_MEMORY) -> None:
        self._in_memory = in_memory
        self._recent = array("q")
        self._spilled = 0
        self._file: IO[bytes] | None = None
        self._can_spill = True

    def __len__(self) -> int:
        return self._spilled + len(self._recent) // 2

    def extend(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Append the pairs."""
        self._recent.extend(chain.from_iterable(pairs))
        self._spill_if_due()

    def newest_first(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the pairs with the indexes `end` - 1 down to `begin`."""
        while end > begin:
            first = max(begin, end - self._in_memory, self._spilled if end > self._spilled else 0)
            numbers = self._numbers(first, end)
            yield from zip(reversed(numbers[::2]), reversed(numbers[1::2]), strict=True)
            end = first

    def oldest_first(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the pairs with the indexes `begin` to `end` - 1."""
        while begin < end:
            last = min(end, begin + PAIRS_AT_ONCE, self._spilled if begin < self._spilled else end)
            numbers = self._numbers(begin, last)
            yield from zip(numbers[::2], numbers[1::2], strict=True)
            begin = last

    def by_first(self, ranges: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        """Yield the pairs of the index ranges in the order of their first numbers, as a java.util.TreeMap would.

        Of pairs with the same first number, only the newest is yielded. Pairs that are out of order are sorted in
        another spool, part by part.
        """
        if self._is_rising(ranges):
            yield from self._of(ranges)
            return
        spool, runs, pairs = PairSpool(self._in_memory), [], self._of(ranges)
        while part := dict(islice(pairs, self._in_memory)):
            begin = len(spool)
            spool.extend(sorted(part.items()))
            runs.append((begin, len(spool)))
        newest_runs_first = [spool.oldest_first(begin, end) for begin, end in reversed(runs)]
        known = None
        for first, second in merge(*newest_runs_first, key=itemgetter(0)):  # stable, so the newest pair comes first
            if first != known:
                yield first, second
            known = first

    def last_first(self) -> Iterator[tuple[int, int]]:
        """Yield all pairs from the largest first number down; of pairs with the same, only the newest."""
        turned = PairSpool(self._in_memory)
        for first, second in self.by_first([(0, len(self))]):
            turned.extend(((first, second),))
        return turned.newest_first(0, len(turned))

    def _of(self, ranges: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        return chain.from_iterable(self.oldest_first(begin, end) for begin, end in ranges)

    def _is_rising(self, ranges: Sequence[tuple[int, int]]) -> bool:
        known = None
        for first, _ in self._of(ranges):
            if known is not None and first <= known:
                return False
            known = first
        return True

    def _numbers(self, first: int, end: int) -> array[int]:
        if self._file is None or first >= self._spilled:
            return self._recent[2 * (first - self._spilled) : 2 * (end - self._spilled)]
        self._file.seek(first * PAIR_BYTES)
        numbers = array("q")
        numbers.frombytes(self._file.read((end - first) * PAIR_BYTES))
        return numbers

    def _spill_if_due(self) -> None:
        if len(self._recent) <= 2 * self._in_memory or not self._can_spill:
            return
        try:
            if self._file is None:
                self._file = temporary_file()
            self._file.seek(self._spilled * PAIR_BYTES)
            self._recent.tofile(self._file)
            self._file.flush()
        except OSError:  # no room for a temporary file
            self._can_spill = False
            return
        self._spilled += len(self._recent) // 2
        self._recent = array("q")
