"""Compare the replicas of a partition on several hosts, by digests of their batches (`verify --each-host`).

Each host sends the facts of its replicas (`replica_facts.py`). Where digests differ, the hosts are asked for the
batches of these ranges. An answer that is missing (the host has failed) leaves its replica uncompared.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from kafkalog_cli.broker.leader_epochs import LeaderEpochs, truncation_offset
from kafkalog_cli.broker.load_error import LoadFailed
from kafkalog_cli.errors import counted
from kafkalog_cli.format.batch import NO_TIMESTAMP, BatchColumns
from kafkalog_cli.ops.check.checks.diagnose import Finding, finding
from kafkalog_cli.ops.check.checks.finding_kinds import FindingKind
from kafkalog_cli.ops.check.checks.segment_walk import BatchRun
from kafkalog_cli.ops.check.verify.against import (
    KEEP_A_COPY,
    compare_sides,
    more_complete,
    not_compared,
    of_other_topics,
)
from kafkalog_cli.ops.check.verify.replica_facts import Question, Replica, ReplicaKey, Rows, digests_at
from kafkalog_cli.ops.check.verify.replica_side import Batches, Head, LogFacts, RecordDigests, ReplicaSide
from kafkalog_cli.ops.check.verify.task import TargetKind, Verification
from kafkalog_cli.ops.choices import Level
from kafkalog_cli.ops.steps import VERIFY, Step, fill_in_paths, flat

_FIRST_RANGES, _MORE_RANGES = 4, 8
"""The differing ranges of two replicas that are asked for first, and the factor by which each next step asks for more:
only batches up to the first divergence are compared, and only a loss needs those of all ranges.
"""
Ask = Callable[[Mapping[ReplicaKey, Question]], Mapping[ReplicaKey, Rows]]


def compare_across_hosts(replicas: Iterable[Replica], level: Level, ask: Ask) -> Iterator[Verification]:
    """Yield a comparison of each partition that has replicas on several hosts, by topic and number."""
    by_partition: dict[tuple[str, int], list[Replica]] = defaultdict(list)
    for one in replicas:
        by_partition[one.facts.topic, one.facts.partition].append(one)
    comparisons = [_Comparison(of_one) for _, of_one in sorted(by_partition.items()) if len(of_one) > 1]
    most_ranges = _FIRST_RANGES
    while questions := {key: one for each in comparisons for key, one in each.questions(most_ranges).items()}:
        answers = ask(questions)
        for each in comparisons:
            each.take(answers)
        most_ranges *= _MORE_RANGES
    yield from (each.result(level) for each in comparisons)


class _Comparison:
    """The replicas of one partition, each compared with the most complete one."""

    def __init__(self, replicas: Sequence[Replica]) -> None:
        self._replicas = sorted(replicas, key=lambda one: one.key)
        for one in replicas:
            one.facts.log.host = one.host
        self._shift = max(one.facts.shift for one in replicas)
        best = max(self._replicas, key=lambda one: one.facts.log.rank)
        self._pairs = [_Pair(best, one, self._shift) for one in self._replicas if one is not best]

    def questions(self, most_ranges: int) -> dict[ReplicaKey, Question]:
        """Return what is asked next, by replica; nothing if all is decided."""
        ranges: dict[ReplicaKey, set[int]] = defaultdict(set)
        with_records: dict[ReplicaKey, set[int]] = defaultdict(set)
        for pair in self._pairs:
            chosen = pair.next_ranges(most_ranges)
            for one in (pair.best, pair.other) if chosen else ():
                ranges[one.key].update(chosen)
                with_records[one.key].update(pair.overlapping & chosen)
        return {
            key: Question(key[1], self._shift, frozenset(ranges[key]), frozenset(with_records[key]), one.headers_only)
            for key, one in ((one.key, one.facts) for one in self._replicas)
            if key in ranges
        }

    def take(self, answers: Mapping[ReplicaKey, Rows]) -> None:
        """Compare the batches that were asked for."""
        for pair in self._pairs:
            if not pair.is_decided:
                pair.compare(answers.get(pair.best.key), answers.get(pair.other.key))

    def result(self, level: Level) -> Verification:
        """Return the differences of all replicas from the best one, and what each of them has."""
        facts = self._replicas[0].facts
        found = [one for pair in self._pairs for one in pair.findings]
        sides = {side.log.place: side for pair in self._pairs for side in pair.sides}
        for side in (side for pair in self._pairs for side in pair.sides if side.unexplained):
            sides[side.log.place] = side
        name = f"{facts.topic}-{facts.partition}"
        if any(pair.are_comparable for pair in self._pairs):
            found.append(more_complete(name, *(sides[one.facts.log.place] for one in self._replicas)))
        found = [_on_its_host(one, self._replicas) for one in found]
        hosts = tuple(one.host for one in self._replicas)
        return Verification(name, level, TargetKind.COMPARISON, facts.topic, facts.partition, tuple(found), hosts=hosts)


class _Pair:
    """Two replicas of a partition, of which `best` is the more complete one.

    Both are read in ranges of 2^`shift` offsets. In `overlapping`, batches may have offsets of the other's batches.
    """

    def __init__(self, best: Replica, other: Replica, shift: int) -> None:
        self.best, self.other = best, other
        self._shift = shift
        own, others = digests_at(best.facts, shift), digests_at(other.facts, shift)
        logs, both = (best.facts.log, other.facts.log), (best.facts, other.facts)
        policies = [one.is_compacted for one in both if one.is_compacted is not None]
        # The cleaner works on each host at its own time: below, either side may lack records.
        self._floor = 0 if policies and not any(policies) else max(one.cleaned_to for one in both)
        first, end = max(log.start_offset for log in logs), min(log.end_offset for log in logs)
        reach = (max(one.span for one in both) >> shift) + 1
        """A batch that holds an offset ends in its range, or at most so many ranges behind it."""
        numbers = sorted(own.keys() | others.keys())
        known = [number for number in numbers if first >> shift <= number <= ((end - 1) >> shift) + reach]
        self._alike = [number for number in known if own.get(number) == others.get(number)]
        differing = [number for number in known if own.get(number) != others.get(number)]
        self._differing = [number for number in differing if number >= self._floor >> shift]
        self._is_cleaned_apart = first < self._floor and any(n <= self._floor >> shift for n in differing)
        sides = sorted(own), sorted(others)
        self.overlapping = {n for n in self._differing if all(_has_any(one, n - reach, n + reach) for one in sides)}
        self._asked: frozenset[int] = frozenset()
        self.compare(_NO_ROWS, _NO_ROWS)

    def next_ranges(self, most: int) -> frozenset[int]:
        """Return the ranges that are asked for next, from the first differing one on; none if all is decided."""
        self._asked = frozenset() if self.is_decided else frozenset(self._differing[:most])
        return self._asked

    def compare(self, best: Rows | None, other: Rows | None) -> None:
        """Compare the batches of the ranges that were asked for; None if a host has not answered."""
        name = f"{self.other.facts.topic}-{self.other.facts.partition}"
        logs = self.other.facts.log, self.best.facts.log
        self.sides = self._side(self.other, other or _NO_ROWS), self._side(self.best, best or _NO_ROWS)
        why = of_other_topics(logs[0].place, self.other.facts.topic_id, logs[1].place, self.best.facts.topic_id)
        for log, rows in zip(logs, (other, best), strict=True):
            why = why or ("" if rows else f"{log.host} has not answered when asked for batches of {name}")
        self.are_comparable = not why
        if why:
            self.findings, self.is_decided = [not_compared(logs[0].place, why, _CHECK_ALONE)], True
            return
        log_start = max(self.best.facts.log_start, self.other.facts.log_start)
        self.findings = compare_sides(*self.sides, is_compacted=False, log_start=log_start)
        is_diverged = any(one.kind is FindingKind.DIVERGED for one in self.findings)
        self.is_decided = is_diverged or len(self._asked) == len(self._differing)
        self.findings = [*self._with_cuts(self.findings), *self._of_cleaning()]

    def _side(self, replica: Replica, rows: Rows) -> ReplicaSide:
        """Return the side of a replica, with the batches of ranges that differ only."""
        log, host = replica.facts.log, f"{replica.host}:"
        reached = max(self._alike, default=0) << self._shift

        def batches() -> Batches:
            for path, reached_before, data in rows.parts:
                count = len(data) // (8 * len(BatchColumns.names))
                columns = BatchColumns(bytearray(data), count, count)
                above = [row for row, offset in enumerate(columns.last_offset) if offset >= self._floor]
                if above and columns.last_offset[0] >> self._shift in self._asked:
                    columns = columns.select(above)
                    yield host + path, BatchRun(columns, reached_before, NO_TIMESTAMP, is_after_damage=False)

        def digests(head: Head) -> RecordDigests | None:
            return rows.digests.get((head.path.removeprefix(host), head.batch.position))

        side = ReplicaSide(replace(log, named_end=max(log.named_end, reached)), batches(), digests)
        side.shared = len(self._alike) + self._is_cleaned_apart
        return side

    def _with_cuts(self, found: Iterable[Finding]) -> Iterator[Finding]:
        """Yield the findings, those about leader epochs with what each replica would cut off as a follower."""
        other, best = self.other.facts.log, self.best.facts.log
        cuts = [(log, at, leader) for log, at, leader in self._cuts() if at < log.end_offset]
        effect = "; ".join(
            f"as a follower of {leader.place}, {log.place} cuts its log off at offset {at}, and loses"
            f" {counted(log.end_offset - at, 'offset', 'offsets')}"
            for log, at, leader in cuts
        )
        is_diverged = False
        for one in found:
            is_diverged |= one.kind is FindingKind.DIVERGED
            yield one._replace(broker_effect=effect) if effect and KEEP_A_COPY in one.steps else one
        cut = min((at for _, at, _ in cuts), default=best.end_offset)
        if not is_diverged and cut < min(other.end_offset, best.end_offset):
            message = f"the replicas diverge: from offset {cut} on the leader epochs in leader-epoch-checkpoint differ"
            offsets = cut, other.end_offset - 1
            yield finding(FindingKind.DIVERGED, other.place, message, offsets=offsets, broker_effect=effect)

    def _cuts(self) -> Iterator[tuple[LogFacts, int, LogFacts]]:
        """Yield where each of the two cuts its log off if the other becomes its leader, as far as their epochs tell."""
        newest = 1 + max((one.epoch for one in (*self.other.facts.epochs, *self.best.facts.epochs)), default=0)
        for follower, leader in ((self.other.facts, self.best.facts), (self.best.facts, self.other.facts)):
            with suppress(LoadFailed):  # no broker reads such a file
                own, others, end = LeaderEpochs(follower.epochs), LeaderEpochs(leader.epochs), leader.log.end_offset
                if others.entries:
                    others.assign(newest, end)  # as a broker does that becomes the leader
                cut = truncation_offset(own, follower.log.end_offset, others, end)
                if cut is not None:
                    yield follower.log, cut, leader.log

    def _of_cleaning(self) -> Iterator[Finding]:
        if self._is_cleaned_apart:
            message = f"below offset {self._floor} the cleaner has worked: only the leader epochs are compared there"
            yield finding(FindingKind.NOT_COMPARABLE, self.other.facts.log.place, message)


_NO_ROWS = Rows([], {})
_CHECK_ALONE = (Step("", VERIFY, "checks this directory alone"),)


def _has_any(ascending: Sequence[int], first: int, last: int) -> bool:
    at = bisect_left(ascending, first)
    return at < len(ascending) and ascending[at] <= last


def _on_its_host(found: Finding, replicas: Sequence[Replica]) -> Finding:
    """Return the finding with the commands of its steps filled in, and the host on which each is to run."""
    for log in (one.facts.log for one in replicas):
        if f"{found.path}/".startswith(f"{log.place.rstrip('/')}/"):
            filled = flat(fill_in_paths(found.steps, log.path, found.path.removeprefix(f"{log.host}:")))
            return found._replace(steps=tuple(_on(log.host, step) for step in filled))
    return found


def _on(host: str, step: Step) -> Step:
    return step._replace(when=", ".join(filter(None, (step.when, f"on {host}")))) if step.argv else step
