"""The partitions, offsets and times that a query can use of a view; the source gets them as options.

The optimised plan gives the rows of the query for any content of the views. Every scan of a view in it is below
filters. So it gives the same rows for a view without the records that the filters of all its scans exclude. This holds
for any plan by which Spark then runs the query, because the range belongs to the view: no filter is pushed to a scan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from typing import Any, NamedTuple

from kafkalog_cli.ops.scans.offset_limits import RecordRange
from kafkalog_cli.spark.queries.plans import WITHOUT_ROWS, elements, roots, view_columns

_MIRRORED = {
    "LessThan": "GreaterThan", "LessThanOrEqual": "GreaterThanOrEqual", "GreaterThan": "LessThan",
    "GreaterThanOrEqual": "LessThanOrEqual", "EqualTo": "EqualTo", "EqualNullSafe": "EqualNullSafe",
}  # fmt: skip
_NUMBERS = ("integer", "long")
_MOST_LISTED = 1000
"""The most values of a list that are read: each takes a call to Java."""


class ScanRange(NamedTuple):
    """Partition numbers, and a range of the records in each."""

    partitions: frozenset[int]
    records: RecordRange = RecordRange()

    @property
    def is_empty(self) -> bool:
        """Whether no record can be in the range."""
        first, end = self.records.from_offset, self.records.to_offset
        return not self.partitions or self.records.is_empty or (end is not None and first >= end)

    def both(self, other: ScanRange) -> ScanRange:
        """Return the intersection of this range and another."""
        mine, its = self.records, other.records
        records = RecordRange(
            max(mine.from_offset, its.from_offset),
            _of_given(min, mine.to_offset, its.to_offset),
            _of_given(max, mine.since_ms, its.since_ms),
            _of_given(min, mine.until_ms, its.until_ms),
        )
        return ScanRange(self.partitions & other.partitions, records)

    def either(self, other: ScanRange) -> ScanRange:
        """Return the smallest range that contains this range and another."""
        if self.is_empty or other.is_empty:
            return other if self.is_empty else self
        mine, its = self.records, other.records
        records = RecordRange(
            min(mine.from_offset, its.from_offset),
            _if_both(max, mine.to_offset, its.to_offset),
            _if_both(min, mine.since_ms, its.since_ms),
            _if_both(max, mine.until_ms, its.until_ms),
        )
        return ScanRange(self.partitions | other.partitions, records)


_NOTHING = ScanRange(frozenset())


def used_ranges(plan: Any, partitions: Mapping[str, frozenset[int]]) -> dict[str, ScanRange]:
    """Return the range that an optimised plan can use of each view; `partitions` has each view's partition numbers.

    The range covers all scans of a view; a view without a scan is left out.
    """
    found: dict[str, ScanRange] = {}
    for root in roots(plan):
        for leaf, conditions in _leaves(root, ()):
            columns = {number: (view, name) for view, name, number in view_columns(leaf)}
            view = next((one for one, _ in columns.values() if one in partitions), None)
            if view is not None:
                names = {number: name for number, (_, name) in columns.items()}
                condition = _Condition(names, ScanRange(partitions[view]))
                scan = reduce(ScanRange.both, map(condition.range_of, conditions), condition.whole)
                found[view] = found[view].either(scan) if view in found else scan
    return found


def _leaves(plan: Any, conditions: tuple[Any, ...]) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Iterate over the leaves with rows, each with the conditions of the filters directly above it."""
    children = list(elements(plan.children()))
    name = plan.getClass().getSimpleName()
    if not children and name not in WITHOUT_ROWS:
        yield plan, conditions
    for child in children:
        yield from _leaves(child, (*conditions, plan.condition()) if name == "Filter" else ())


class _Condition:
    """Reads conditions on the columns of one scan. `names`: the columns' names by Spark's column ids."""

    def __init__(self, names: Mapping[int, str], whole: ScanRange) -> None:
        self._names = names
        self.whole = whole

    def range_of(self, expression: Any) -> ScanRange:
        """Return a range with every record for which the expression can be true; the whole range if that is unknown."""
        kind = expression.getClass().getSimpleName()
        if kind == "And":
            return self.range_of(expression.left()).both(self.range_of(expression.right()))
        if kind == "Or":
            return self.range_of(expression.left()).either(self.range_of(expression.right()))
        if kind in _MIRRORED:
            left, right = expression.left(), expression.right()
            if _is_literal(left):
                left, right, kind = right, left, _MIRRORED[kind]
            return self._compared(left, kind, right)
        if kind == "In" and expression.list().size() <= _MOST_LISTED:
            of_each = [self._compared(expression.value(), "EqualTo", one) for one in elements(expression.list())]
            return reduce(ScanRange.either, of_each)
        if kind == "InSet" and expression.hset().size() <= _MOST_LISTED:
            return self._in_set(expression)
        return self.whole

    def _in_set(self, expression: Any) -> ScanRange:
        """Return the range of an `InSet`, which the optimiser makes of a long list: values instead of literals."""
        name = self._name(expression.child())
        values = list(elements(expression.hset().toSeq()))
        if name is None or not all(type(one) is int for one in values):
            return self.whole
        return reduce(ScanRange.either, (self._range(name, "EqualTo", one) for one in values), _NOTHING)

    def _compared(self, column: Any, kind: str, literal: Any) -> ScanRange:
        name = self._name(column)
        if name is None or not _is_literal(literal):
            return self.whole
        types = ("timestamp",) if name == "timestamp" else _NUMBERS
        value = literal.value()
        if literal.dataType().typeName() not in types or type(value) is not int:
            return self.whole
        return self._range(name, kind, value)

    def _name(self, column: Any) -> str | None:
        if column.getClass().getSimpleName() != "AttributeReference":
            return None
        name = self._names.get(column.exprId().id())
        return name if name in ("partition", "offset", "timestamp") else None

    def _range(self, name: str, kind: str, value: int) -> ScanRange:
        if name == "timestamp":
            low, high = _interval(kind, *_whole_milliseconds(value))
            return self.whole._replace(records=RecordRange(since_ms=low, until_ms=high))
        low, high = _interval(kind, value, value, value + 1)
        if name == "offset":
            records = RecordRange(max(low or 0, 0), None if high is None else max(high, 0))
            return self.whole._replace(records=records)
        fits = (one for one in self.whole.partitions if (low is None or one >= low) and (high is None or one < high))
        return self.whole._replace(partitions=frozenset(fits))


def _whole_milliseconds(micros: int) -> tuple[int, int, int]:
    """Return the first millisecond at or after a time, twice, and the first after it.

    Records have whole milliseconds.
    """
    not_before = -(-micros // 1000)
    return not_before, not_before, micros // 1000 + 1


def _interval(kind: str, low: int, high: int, after: int) -> tuple[int | None, int | None]:
    """Return the bounds (inclusive, exclusive) of the values for which a comparison holds; None: open."""
    return {
        "GreaterThan": (after, None),
        "GreaterThanOrEqual": (low, None),
        "LessThan": (None, high),
        "LessThanOrEqual": (None, after),
    }.get(kind, (low, after))


def _is_literal(expression: Any) -> bool:
    return bool(expression.getClass().getSimpleName() == "Literal")


def _of_given(pick: Callable[[int, int], int], one: int | None, other: int | None) -> int | None:
    return one if other is None else other if one is None else pick(one, other)


def _if_both(pick: Callable[[int, int], int], one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else pick(one, other)
