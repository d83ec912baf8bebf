"""Counts records over time in a bounded number of periods, whose length doubles when there are too many."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kafkalog_cli.format.columns import Integers

MOST_PERIODS = 2048
FIRST_PERIOD_MS = 1000


@dataclass(frozen=True, slots=True)
class TimeCounts:
    """Records by period: the number of records whose timestamp, divided by `period_ms`, is the key."""

    period_ms: int = FIRST_PERIOD_MS
    counts: Mapping[int, int] = field(default_factory=dict)

    def bars(self, first_ms: int, last_ms: int, number: int) -> list[int]:
        """Return the number of records in each of `number` equal parts of a time range.

        A period counts where it begins, so parts that are shorter than a period are not exact.
        """
        found = [0] * number
        for period, count in self.counts.items():
            begin = max(first_ms, period * self.period_ms)
            at = (begin - first_ms) * number // max(1, last_ms - first_ms + 1)
            found[min(number - 1, max(0, at))] += count
        return found


def added_up(parts: Iterable[TimeCounts]) -> TimeCounts:
    """Return the counts of several logs together."""
    known = [part for part in parts if part.counts]
    period_ms = max((part.period_ms for part in known), default=FIRST_PERIOD_MS)
    counts: dict[int, int] = {}
    for part in known:
        for period, count in part.counts.items():
            at = period * part.period_ms // period_ms
            counts[at] = counts.get(at, 0) + count
    return _bounded(period_ms, counts)


class TimeCounter:
    """Counts the records of one log, or bytes, in at most `most_periods` periods."""

    def __init__(self, most_periods: int = MOST_PERIODS) -> None:
        self._counts: dict[int, int] = {}
        self._period_ms = FIRST_PERIOD_MS
        self._most_periods = most_periods

    def add(self, timestamps: Integers, weights: Integers | None = None) -> None:
        """Add records with these timestamps, in ms; each counts as 1, or as its weight."""
        import numpy as np

        while True:
            periods, rows = np.unique(timestamps // self._period_ms, return_inverse=True)
            if len(periods) <= self._most_periods:
                break
            self._merge(self._period_ms * 2)
        numbers = np.bincount(rows, weights).astype(np.int64)
        for period, number in zip(periods.tolist(), numbers.tolist(), strict=True):
            self._counts[period] = self._counts.get(period, 0) + number
        while len(self._counts) > self._most_periods:
            self._merge(self._period_ms * 2)

    def result(self) -> TimeCounts:
        """Return the counts so far."""
        return TimeCounts(self._period_ms, dict(self._counts))

    def _merge(self, period_ms: int) -> None:
        self._counts = _halved(self._counts)
        self._period_ms = period_ms


def _halved(counts: Mapping[int, int]) -> dict[int, int]:
    found: dict[int, int] = {}
    for period, count in counts.items():
        found[period // 2] = found.get(period // 2, 0) + count
    return found


def _bounded(period_ms: int, counts: dict[int, int]) -> TimeCounts:
    while len(counts) > MOST_PERIODS:
        period_ms, counts = period_ms * 2, _halved(counts)
    return TimeCounts(period_ms, counts)
