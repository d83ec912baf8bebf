"""Filters that Spark hands down: what they leave of topics, partitions, offsets and times.

What is not taken here exactly stays with Spark; a filter on keys prunes partitions, and stays with it too.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple

from kafkalog_cli.spark.options import Mode

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_NEVER_NULL = ("topic", "partition", "offset", "timestamp", "timestampType")
"""But in mode permissive, and then Spark sees to every filter."""


class Pruning(NamedTuple):
    """What can be in the result. Sets of None: all; `first` and `since` (epoch ms) inclusive, the others exclusive.

    `keys` are those of which one must be the record's, where partitions are known by key. `is_nothing`: the filters
    contradict each other.
    """

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    first_partition: int = -1
    end_partition: int | None = None
    first_offset: int = 0
    end_offset: int | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    keys: frozenset[bytes] | None = None
    is_nothing: bool = False

    def takes(self, topic: str, partition: int) -> bool:
        """Whether records of a partition can be in the result, keys aside."""
        return (
            not self.is_nothing
            and (self.topics is None or topic in self.topics)
            and (self.partitions is None or partition in self.partitions)
            and partition >= self.first_partition
            and (self.end_partition is None or partition < self.end_partition)
        )


class _Bounds(NamedTuple):
    """What a filter says of a number: `low` inclusive, `high` exclusive; None: open."""

    low: int | None = None
    high: int | None = None
    one_of: frozenset[int] | None = None


def push(filters: Iterable[Any], mode: Mode) -> tuple[Pruning, list[Any]]:
    """What filters leave, and those that Spark has to see to.

    In mode permissive that is all of them: rows that tell of damage have nulls.
    """
    pruning, left = Pruning(), []
    for one in filters:
        after, is_exact = _taken(pruning, one)
        pruning = after
        if not is_exact or mode is Mode.PERMISSIVE:
            left.append(one)
    return pruning, left


def _taken(pruning: Pruning, one: Any) -> tuple[Pruning, bool]:
    """The pruning with a filter in it, and whether it is in it to the last record."""
    kind = type(one).__name__
    path: tuple[str, ...] = getattr(one, "attribute", ())
    if len(path) != 1:
        return pruning, False
    column, value = path[0], getattr(one, "value", None)
    if kind == "IsNotNull":
        return pruning, column in _NEVER_NULL
    if column == "topic":
        return _of_topic(pruning, kind, value)
    if column == "key":
        return _of_key(pruning, kind, value), False
    if column in ("partition", "offset"):
        bounds = _of_number(kind, value)
        return (pruning, False) if bounds is None else _with_number(pruning, column, bounds)
    if column == "timestamp":
        bounds = _of_time(kind, value)
        return (pruning, False) if bounds is None else (_with_time(pruning, bounds), True)
    return pruning, False


def _values(kind: str, value: Any, type_: type) -> frozenset[Any] | None:
    """The values that a column may have, null not among them; None where the filter says no such thing."""
    if kind in ("EqualTo", "EqualNullSafe") and isinstance(value, type_):
        return frozenset([value])
    if kind == "In" and isinstance(value, (list, tuple)):
        known = [one for one in value if one is not None]
        return frozenset(known) if all(isinstance(one, type_) for one in known) else None
    return None


def _of_topic(pruning: Pruning, kind: str, value: Any) -> tuple[Pruning, bool]:
    found = _values(kind, value, str)
    if found is None:
        return pruning, False
    return pruning._replace(topics=found if pruning.topics is None else pruning.topics & found), True


def _of_key(pruning: Pruning, kind: str, value: Any) -> Pruning:
    plain = bytes(value) if isinstance(value, bytearray) else value
    if kind == "In":
        plain = [bytes(one) if isinstance(one, bytearray) else one for one in value]
    found = _values(kind, plain, bytes)
    if found is None:
        return pruning
    return pruning._replace(keys=found if pruning.keys is None else pruning.keys & found)


def _of_number(kind: str, value: Any) -> _Bounds | None:
    one_of = _values(kind, value, int)
    if one_of is not None:
        return _Bounds(min(one_of, default=0), max(one_of, default=-1) + 1, one_of)
    if type(value) is not int:
        return None
    return {
        "GreaterThan": _Bounds(low=value + 1),
        "GreaterThanOrEqual": _Bounds(low=value),
        "LessThan": _Bounds(high=value),
        "LessThanOrEqual": _Bounds(high=value + 1),
    }.get(kind)


def _with_number(pruning: Pruning, column: str, bounds: _Bounds) -> tuple[Pruning, bool]:
    if column == "partition":
        first = pruning.first_partition if bounds.low is None else max(pruning.first_partition, bounds.low)
        pruning = pruning._replace(first_partition=first, end_partition=_lowest(pruning.end_partition, bounds.high))
        if bounds.one_of is None:
            return pruning, True
        known = bounds.one_of if pruning.partitions is None else pruning.partitions & bounds.one_of
        return pruning._replace(partitions=known), True
    first = pruning.first_offset if bounds.low is None else max(pruning.first_offset, bounds.low)
    pruning = pruning._replace(first_offset=first, end_offset=_lowest(pruning.end_offset, bounds.high))
    return pruning, bounds.one_of is None or len(bounds.one_of) < 2  # of several the offsets between come too


def _of_time(kind: str, value: Any) -> _Bounds | None:
    """In whole milliseconds, which is what records have."""
    if not isinstance(value, datetime):
        return None
    micros = ((value if value.tzinfo else value.replace(tzinfo=timezone.utc)) - _EPOCH) // timedelta(microseconds=1)
    up, behind = -(-micros // 1000), micros // 1000 + 1
    return {
        "EqualTo": _Bounds(low=up, high=behind),
        "EqualNullSafe": _Bounds(low=up, high=behind),
        "GreaterThan": _Bounds(low=behind),
        "GreaterThanOrEqual": _Bounds(low=up),
        "LessThan": _Bounds(high=up),
        "LessThanOrEqual": _Bounds(high=behind),
    }.get(kind)


def _with_time(pruning: Pruning, bounds: _Bounds) -> Pruning:
    since, until = _highest(pruning.since_ms, bounds.low), _lowest(pruning.until_ms, bounds.high)
    nothing = since is not None and until is not None and since >= until
    return pruning._replace(since_ms=since, until_ms=until, is_nothing=pruning.is_nothing or nothing)


def _highest(one: int | None, other: int | None) -> int | None:
    return one if other is None else other if one is None else max(one, other)


def _lowest(one: int | None, other: int | None) -> int | None:
    return one if other is None else other if one is None else min(one, other)
