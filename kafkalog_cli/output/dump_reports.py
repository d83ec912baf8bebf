"""The final reports of kafka-dump-log on stderr: mismatches, time index errors, gaps in offsets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain

from kafkalog_cli.disk.pair_spool import PairSpool
from kafkalog_cli.format.kafka_version import NEWEST, KafkaVersion

Pairs = list[tuple[int, int]]


@dataclass(slots=True, eq=False, repr=False)
class DumpReports:
    """Pairs by absolute path, in the order of the arguments.

    The Scala tool prepends to its lists of mismatches and gaps, so these print newest first. The Java tool has them in
    sorted maps: the newest pair of each offset, mismatches from the last offset down, gaps from the first up. The order
    of files in the tools' hash maps is not reproduced. There can be as many gaps as records, so `gaps` spools all of
    them; `_non_consecutive` has the ranges in `gaps` by path.
    """

    version: KafkaVersion = NEWEST
    index_mismatches: dict[str, PairSpool] = field(default_factory=dict)
    time_mismatches: dict[str, PairSpool] = field(default_factory=dict)
    out_of_order: dict[str, PairSpool] = field(default_factory=dict)
    not_found: dict[str, PairSpool] = field(default_factory=dict)
    gaps: PairSpool = field(default_factory=PairSpool)
    _non_consecutive: dict[str, Pairs] = field(default_factory=dict)

    @staticmethod
    def add(report: dict[str, PairSpool], path: str, pair: tuple[int, int]) -> None:
        """Add `pair` to the pairs of `path` in `report`."""
        report.setdefault(path, PairSpool()).extend((pair,))

    def add_gaps(self, path: str, begin: int) -> None:
        """Assign the gaps from number `begin` on to `path`."""
        if len(self.gaps) > begin:
            self._non_consecutive.setdefault(path, []).append((begin, len(self.gaps)))

    def text(self) -> Iterator[str]:
        """Iterate over the text of all reports; empty if there is nothing to report."""
        for path, pairs in self.index_mismatches.items():
            if len(pairs):
                yield f"Mismatches in :{path}\n"
                shown = pairs.newest_first(0, len(pairs)) if self.version.is_scala else pairs.last_first()
                yield from (f"  Index offset: {index}, log offset: {log}\n" for index, log in shown)
        for path, pairs in self.time_mismatches.items():
            yield f"Found timestamp mismatch in :{path}\n"
            yield from (f"  Index timestamp: {index}, log timestamp: {log}\n" for index, log in _in_file_order(pairs))
        for path, pairs in self.out_of_order.items():
            yield f"Found out of order timestamp in :{path}\n"
            yield from (
                f"  Index timestamp: {now}, Previously indexed timestamp: {before}\n"
                for now, before in _in_file_order(pairs)
            )
        for path, pairs in self.not_found.items():
            place = "the log." if self.version.is_scala else f":{path}"
            yield f"The following indexed offsets are not found in {place}\n"
            yield from (f"Indexed offset: {index}, found log offset: {log}\n" for index, log in _in_file_order(pairs))
        for path, ranges in self._non_consecutive.items():
            yield f"Non-consecutive offsets in {path}\n"
            yield from (f"  {first} is followed by {second}\n" for first, second in self._in_order(ranges))

    def _in_order(self, ranges: Pairs) -> Iterator[tuple[int, int]]:
        if self.version.is_scala:
            return chain.from_iterable(self.gaps.newest_first(begin, end) for begin, end in reversed(ranges))
        return self.gaps.by_first(ranges)


def _in_file_order(pairs: PairSpool) -> Iterator[tuple[int, int]]:
    return pairs.oldest_first(0, len(pairs))
