"""The numbers of a log, over time too, and the numbers of several logs together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from heapq import nlargest
from typing import Annotated, Any, ClassVar, NamedTuple

from kafkalog_cli.format.columns import Integers
from kafkalog_cli.ops.look.key_counts import KeyTotal
from kafkalog_cli.ops.words import CodecWord
from kafkalog_cli.results import Count, Hidden, PathName, of

MOST_PERIODS = 2048
FIRST_PERIOD_MS = 1000


@dataclass(slots=True)
class TimeCounts:
    """Records, or bytes, by period: the key of `counts` is a timestamp in ms, divided by `period_ms`.

    With more than `most_periods` periods, the length of a period doubles.
    """

    most_periods: int = MOST_PERIODS
    period_ms: int = FIRST_PERIOD_MS
    counts: dict[int, int] = field(default_factory=dict)

    @classmethod
    def together(cls, logs: Iterable[TimeCounts]) -> TimeCounts:
        """Return the counts of several logs together."""
        known = [log for log in logs if log.counts]
        total = cls(period_ms=max((log.period_ms for log in known), default=FIRST_PERIOD_MS))
        for log in known:
            for period, count in log.counts.items():
                total._count(period * log.period_ms // total.period_ms, count)
        total._limit_periods()
        return total

    def add(self, timestamps: Integers, weights: Integers | None = None) -> None:
        """Add records with these timestamps, in ms; each counts as 1, or as its weight."""
        import numpy as np

        while True:
            periods, numbers = np.unique(timestamps // self.period_ms, return_counts=True)
            if len(periods) <= self.most_periods:
                break
            self._double_periods()
        if weights is not None:
            rows = np.searchsorted(periods, timestamps // self.period_ms)
            numbers = np.bincount(rows, weights).astype(np.int64)
        for period, number in zip(periods.tolist(), numbers.tolist(), strict=True):
            self._count(period, number)
        self._limit_periods()

    def periods(self) -> Iterator[tuple[int, int]]:
        """Yield the start of each period, in ms, and its count, in order."""
        return ((period * self.period_ms, count) for period, count in sorted(self.counts.items()))

    def bars(self, first_ms: int, last_ms: int, number: int) -> list[int]:
        """Return the counts in each of `number` equal parts of a time range.

        A period counts where it begins, so parts that are shorter than a period are not exact.
        """
        totals = [0] * number
        for period, count in self.counts.items():
            begin = max(first_ms, period * self.period_ms)
            at = (begin - first_ms) * number // max(1, last_ms - first_ms + 1)
            totals[min(number - 1, max(0, at))] += count
        return totals

    def _count(self, period: int, count: int) -> None:
        self.counts[period] = self.counts.get(period, 0) + count

    def _limit_periods(self) -> None:
        while len(self.counts) > self.most_periods:
            self._double_periods()

    def _double_periods(self) -> None:
        before, self.counts, self.period_ms = self.counts, {}, self.period_ms * 2
        for period, count in before.items():
            self._count(period // 2, count)


class PeriodRecords(NamedTuple):
    """The records of a period."""

    start_ms: int
    records: Count


class CodecContents(NamedTuple):
    """The batches with one codec."""

    codec: CodecWord
    batches: Count
    bytes: Annotated[Count, "on disk"]
    raw_bytes: Annotated[Count, "keys and values after decompression"]


class LargeRecord(NamedTuple):
    """One of the largest records."""

    topic: PathName
    partition: int
    offset: int
    bytes: Annotated[Count, "of the key and the value"]
    timestamp_ms: int | None


class ProducerCounts(NamedTuple):
    """One of the producers with the most records."""

    producer_id: int
    epochs: Annotated[Count, "the number of different epochs; of several partitions the largest number"]
    batches: Count
    records: Count


@dataclass(frozen=True, slots=True)
class LogContents:
    """The contents of one or more logs, of all batches with a correct CRC.

    `keys` is exact if `keys_relative_error` is 0. `largest_records`, `top_producers` and `frequent_keys` are in
    descending order. Each log keeps the first of them; several logs add them up.
    """

    bytes: Annotated[Count, "of the log files"] = 0
    raw_bytes: Annotated[Count, "keys and values after decompression"] = 0
    batches: Count = 0
    records: Annotated[Count, "without control records"] = 0
    control_records: Count = 0
    codecs: Annotated[tuple[CodecContents, ...], "the codec with the most bytes first"] = ()
    smallest_batch_bytes: int | None = None
    largest_batch_bytes: int | None = None
    most_batch_records: int | None = None
    keys: Annotated[Count, "different keys per partition; those of several partitions are added up"] = 0
    keys_relative_error: Annotated[float, "standard error of the estimate; 0: exact"] = 0.0
    null_keys: Annotated[Count, "records without a key"] = 0
    duplicates: Annotated[Count, "records with a key that an earlier record of the partition has"] = 0
    tombstones: Annotated[Count, "records with a key and a null value"] = 0
    frequent_keys: tuple[KeyTotal, ...] = ()
    producer_ids: Hidden[frozenset[int]] = frozenset()
    producers: ClassVar[Annotated[Count, "different producer ids"]] = of(lambda contents: len(contents.producer_ids))
    more_producers: Annotated[bool, "whether a partition has more producers than were counted"] = False
    top_producers: tuple[ProducerCounts, ...] = ()
    first_timestamp_ms: int | None = None
    last_timestamp_ms: int | None = None
    out_of_order: Annotated[Count, "records with a timestamp below that of an earlier record of the partition"] = 0
    largest_records: tuple[LargeRecord, ...] = ()
    times: Hidden[TimeCounts] = field(default_factory=TimeCounts)
    period_ms: ClassVar[Annotated[Count, "the length of a period"]] = of("times.period_ms")
    over_time: ClassVar[Annotated[list[PeriodRecords], "periods with records"]] = of(
        lambda contents: [PeriodRecords(*period) for period in contents.times.periods()]
    )

    @property
    def batch_bytes(self) -> int:
        """The size of all batches that were counted."""
        return sum(codec.bytes for codec in self.codecs)

    def with_top(self, top: int) -> LogContents:
        """Return the contents with at most `top` keys and producers."""
        return replace(self, frequent_keys=self.frequent_keys[:top], top_producers=self.top_producers[:top])


_SUMS = (
    "bytes", "raw_bytes", "batches", "records", "control_records", "keys", "null_keys", "duplicates", "tombstones",
    "out_of_order",
)  # fmt: skip


def together(logs: Sequence[LogContents], top: int) -> LogContents:
    """Return the contents of several logs together, with at most `top` records."""

    def known(name: str) -> list[int]:
        return [number for log in logs if (number := getattr(log, name)) is not None]

    sums: dict[str, Any] = {name: sum(getattr(log, name) for log in logs) for name in _SUMS}
    spread = sum((log.keys * log.keys_relative_error) ** 2 for log in logs) ** 0.5
    return LogContents(
        **sums,
        smallest_batch_bytes=min(known("smallest_batch_bytes"), default=None),
        largest_batch_bytes=max(known("largest_batch_bytes"), default=None),
        most_batch_records=max(known("most_batch_records"), default=None),
        first_timestamp_ms=min(known("first_timestamp_ms"), default=None),
        last_timestamp_ms=max(known("last_timestamp_ms"), default=None),
        codecs=_codecs(codec for log in logs for codec in log.codecs),
        keys_relative_error=spread / sums["keys"] if sums["keys"] else 0.0,
        frequent_keys=_frequent(key for log in logs for key in log.frequent_keys),
        producer_ids=frozenset().union(*(log.producer_ids for log in logs)),
        more_producers=any(log.more_producers for log in logs),
        top_producers=_producers(producer for log in logs for producer in log.top_producers),
        largest_records=tuple(
            nlargest(top, (record for log in logs for record in log.largest_records), key=lambda record: record.bytes)
        ),
        times=TimeCounts.together(log.times for log in logs),
    )


def _codecs(counts: Iterable[CodecContents]) -> tuple[CodecContents, ...]:
    totals: dict[str, CodecContents] = {}
    for codec in counts:
        known = totals.get(codec.codec, CodecContents(codec.codec, 0, 0, 0))
        totals[codec.codec] = CodecContents(codec.codec, *map(sum, zip(known[1:], codec[1:], strict=True)))
    return tuple(sorted(totals.values(), key=lambda codec: -codec.bytes))


def _frequent(keys: Iterable[KeyTotal]) -> tuple[KeyTotal, ...]:
    totals: dict[tuple[bytes, int], KeyTotal] = {}
    for key in keys:
        known = totals.get(key[:2])
        totals[key[:2]] = key if known is None else KeyTotal(*key[:2], *map(sum, zip(known[2:], key[2:], strict=True)))
    return tuple(sorted(totals.values(), key=lambda key: -key.records))


def _producers(counts: Iterable[ProducerCounts]) -> tuple[ProducerCounts, ...]:
    totals: dict[int, ProducerCounts] = {}
    for producer_id, epochs, batches, records in counts:
        known = totals.get(producer_id, ProducerCounts(producer_id, 0, 0, 0))
        totals[producer_id] = ProducerCounts(
            producer_id, max(known.epochs, epochs), known.batches + batches, known.records + records
        )
    return tuple(sorted(totals.values(), key=lambda producer: -producer.records))
