"""What the optimised plan of a query uses of each view: columns, and a box of partitions, offsets and times.

The optimised plan gives the rows of the query for any content of the views. Every scan of a view in it is below
filters. So it gives the same rows for a view without the records that the filters of all its scans exclude. This holds
for any plan by which Spark then runs the query, because the box belongs to the view: no filter is pushed to a scan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import reduce
from typing import Any, NamedTuple

VIEW = "kafkalog.view"
"""The key in a column's metadata for the name of its view."""

INF = float("inf")
Interval = tuple[float, float]
"""Low inclusive, high exclusive."""

_MIRRORED = {
    "LessThan": "GreaterThan", "LessThanOrEqual": "GreaterThanOrEqual", "GreaterThan": "LessThan",
    "GreaterThanOrEqual": "LessThanOrEqual", "EqualTo": "EqualTo", "EqualNullSafe": "EqualNullSafe",
}  # fmt: skip
_TYPES = {"partition": ("integer", "long"), "offset": ("integer", "long"), "timestamp": ("timestamp",)}
_MOST_LISTED = 1000
"""The most values of a list that are read: each takes a call to Java."""

_PASSING_ON = frozenset(
    {
        "Project", "Filter", "Aggregate", "Join", "Window", "Sort", "GlobalLimit", "LocalLimit", "Offset", "Sample",
        "Generate", "Expand", "Repartition", "RepartitionByExpression", "RebalancePartitions", "SubqueryAlias",
    }
)  # fmt: skip
"""Nodes that use only those columns of their children that their expressions name."""

_WITHOUT_ROWS = "LocalRelation"
"""The leaf that replaces a view if the optimiser sees that it gives no rows."""


class Box(NamedTuple):
    """Records of some partitions in an interval of offsets and an interval of times (epoch ms)."""

    partitions: frozenset[int]
    offset: Interval = (-INF, INF)
    timestamp: Interval = (-INF, INF)

    @property
    def is_empty(self) -> bool:
        """Whether no record can be in the box."""
        return not self.partitions or max(self.offset[0], 0) >= self.offset[1] or self.timestamp[0] >= self.timestamp[1]

    def both(self, other: Box) -> Box:
        """Return the intersection of two boxes."""
        return Box(
            self.partitions & other.partitions,
            (max(self.offset[0], other.offset[0]), min(self.offset[1], other.offset[1])),
            (max(self.timestamp[0], other.timestamp[0]), min(self.timestamp[1], other.timestamp[1])),
        )

    def either(self, other: Box) -> Box:
        """Return the smallest box that contains two others."""
        if self.is_empty or other.is_empty:
            return other if self.is_empty else self
        return Box(
            self.partitions | other.partitions,
            (min(self.offset[0], other.offset[0]), max(self.offset[1], other.offset[1])),
            (min(self.timestamp[0], other.timestamp[0]), max(self.timestamp[1], other.timestamp[1])),
        )

    def options(self) -> dict[str, str]:
        """Return the options of the source for the intervals."""
        first = self.offset[0] if self.offset[0] > 0 else -INF
        bounds = zip(
            ("fromOffset", "toOffset", "since", "until"), (first, self.offset[1], *self.timestamp), strict=True
        )
        return {name: str(int(bound)) for name, bound in bounds if abs(bound) != INF}


class Usage:
    """The columns and the box that an optimised plan uses of each view; views without a scan are left out.

    `partitions` has the partition numbers of each topic's view.
    """

    def __init__(self, plan: Any, partitions: Mapping[str, frozenset[int]]) -> None:
        self.columns: dict[str, set[str]] = {}
        self.boxes: dict[str, Box] = {}
        self._partitions = partitions
        self._used: set[int] = set()
        self._known: list[tuple[str, str, int]] = []
        for root in roots(plan):
            self._used.update(_ids(root.output()))
            self._walk(root, ())
        for view, name, number in self._known:
            self.columns.setdefault(view, set()).update({name} if number in self._used else ())

    def _walk(self, node: Any, conditions: tuple[Any, ...]) -> None:
        children, kind = list(elements(node.children())), kind_of(node)
        self._used.update(_ids(node.references().toSeq()))
        if not children and kind != _WITHOUT_ROWS:
            self._scan(list(view_columns(node)), conditions)
        if children and kind not in _PASSING_ON:
            self._used.update(column for child in children for column in _ids(child.output()))
        for child in children:
            self._walk(child, (*conditions, node.condition()) if kind == "Filter" else ())

    def _scan(self, columns: list[tuple[str, str, int]], conditions: tuple[Any, ...]) -> None:
        """Add a scan, with the conditions of the filters directly above it."""
        self._known += columns
        view = next((one for one, _, _ in columns if one in self._partitions), None)
        if view is not None:
            condition = _Condition({number: name for _, name, number in columns}, Box(self._partitions[view]))
            box = reduce(Box.both, map(condition.box, conditions), condition.whole)
            self.boxes[view] = self.boxes[view].either(box) if view in self.boxes else box


class _Condition:
    """Reads conditions on the columns of one scan. `names`: the columns' names by Spark's column ids."""

    def __init__(self, names: Mapping[int, str], whole: Box) -> None:
        self._names = names
        self.whole = whole

    def box(self, expression: Any) -> Box:
        """Return a box with every record for which the expression can be true."""
        kind = kind_of(expression)
        if kind == "And":
            return self.box(expression.left()).both(self.box(expression.right()))
        if kind == "Or":
            return self.box(expression.left()).either(self.box(expression.right()))
        if kind in _MIRRORED:
            left, right = expression.left(), expression.right()
            if kind_of(left) == "Literal":
                left, right, kind = right, left, _MIRRORED[kind]
            return self._compared(left, kind, right)
        if kind == "In" and expression.list().size() <= _MOST_LISTED:
            of_each = [self._compared(expression.value(), "EqualTo", value) for value in elements(expression.list())]
            return reduce(Box.either, of_each)
        if kind == "InSet" and expression.hset().size() <= _MOST_LISTED:  # the optimiser makes it of a long list
            name, values = self._name(expression.child()), list(elements(expression.hset().toSeq()))
            if name is not None and all(type(value) is int for value in values):
                return reduce(Box.either, (self._where(name, "EqualTo", value) for value in values), Box(frozenset()))
        return self.whole

    def _compared(self, column: Any, kind: str, literal: Any) -> Box:
        name = self._name(column)
        if name is None or kind_of(literal) != "Literal" or literal.dataType().typeName() not in _TYPES[name]:
            return self.whole
        value = literal.value()
        return self._where(name, kind, value) if type(value) is int else self.whole

    def _name(self, column: Any) -> str | None:
        name = self._names.get(column.exprId().id()) if kind_of(column) == "AttributeReference" else None
        return name if name in _TYPES else None

    def _where(self, name: str, kind: str, value: int) -> Box:
        """Return the box of a comparison. Spark has microseconds, and records have whole milliseconds."""
        low, after = (-(-value // 1000), value // 1000 + 1) if name == "timestamp" else (value, value + 1)
        bounds = {
            "GreaterThan": (after, INF), "GreaterThanOrEqual": (low, INF), "LessThan": (-INF, low),
            "LessThanOrEqual": (-INF, after),
        }  # fmt: skip
        interval = bounds.get(kind, (low, after))
        if name == "offset":
            return self.whole._replace(offset=interval)
        if name == "timestamp":
            return self.whole._replace(timestamp=interval)
        return Box(frozenset(number for number in self.whole.partitions if interval[0] <= number < interval[1]))


def kind_of(node: Any) -> str:
    """Return the name of the class of a node of a plan, or of an expression."""
    return str(node.getClass().getSimpleName())


def elements(scala: Any) -> Iterator[Any]:
    """Iterate over a Scala Seq."""
    return (scala.apply(at) for at in range(scala.size()))


def roots(plan: Any) -> Iterator[Any]:
    """Iterate over a plan and the plans of the subqueries in its expressions."""
    yield plan
    for node in _tree(plan):
        for subquery in elements(node.subqueries()):
            yield from roots(subquery)


def _tree(plan: Any) -> Iterator[Any]:
    yield plan
    for child in elements(plan.children()):
        yield from _tree(child)


def view_columns(leaf: Any) -> Iterator[tuple[str, str, int]]:
    """Iterate over the columns of views in a leaf of a plan: view, name, and Spark's id of the column."""
    for attribute in elements(leaf.output()):
        metadata = attribute.metadata()
        if metadata.contains(VIEW):
            yield metadata.getString(VIEW), attribute.name(), attribute.exprId().id()


def _ids(attributes: Any) -> Iterator[int]:
    return (attribute.exprId().id() for attribute in elements(attributes))
