"""Queries that only count, sum or compare the records of groups: tasks give a row for each group, not for each record.

The optimised plan of a query may have an `Aggregate` above filters and projections of one topic. A read of
`kafkalog-partials` and an aggregate over its rows replace the lowest of them. All other nodes stay as Spark made them.
A plan with an expression below it that is not listed here stays as a whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkalog_cli.ops.scans.schema import RECORDS
from kafkalog_cli.spark.partials import AGAIN, Expression, Partials
from kafkalog_cli.spark.queries.plans import dataframe_of, elements, view_columns

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Load = Callable[[str, list[str], Partials, Any], "LoadedGroups | None"]
"""Returns groups of a view's records, given the view's name, the columns to read, and the groups with their schema.

None if the view is not to be read.
"""

_BYTES_OF_SHUFFLE = 8 << 20
"""The bytes of logs whose groups one task of Spark combines: its table of groups then mostly fits a core's cache."""
_FEW = frozenset(("topic", "partition", "timestampType", "codec", "transactional", "control"))
"""The columns with so few values that one task of Spark combines all groups of them."""

_COMPARISONS = {
    "And": "and", "Or": "or", "EqualTo": "=", "LessThan": "<", "LessThanOrEqual": "<=", "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
}  # fmt: skip
_TESTS = {"Not": "not", "IsNull": "is null", "IsNotNull": "is not null"}
_SIZES = ("Length", "OctetLength")
_CALLS = {"Count": "count", "Sum": "sum", "Min": "min", "Max": "max", "Average": "avg"}
_FLOORS = {"MINUTE": "minute", "HOUR": "hour", "DAY": "day"}
"""The units of date_trunc in SQL, and Arrow's names of them."""
_CALL = "AggregateExpression"
_ORDERED = ("integer", "long", "timestamp")
"""Types whose values Spark and Arrow compare alike with < and >."""
_KNOWN = (*_ORDERED, "binary", "string", "boolean")
_ONE: Expression = ["literal", "integer", 1]


class _NotListed(Exception):
    """A plan has a node or an expression that tasks do not compute."""


class LoadedGroups(NamedTuple):
    """The groups that the tasks make, and the size of the logs that they read."""

    rows: DataFrame
    size_bytes: int


class _Part(NamedTuple):
    """A function of a group in a task: `name` is a key of AGAIN, `type` Spark's name of the type of its result."""

    name: str
    argument: Expression
    type: str


class _Call(NamedTuple):
    """A function of a group: `name` is a value of _CALLS. Its result is that of its parts in all tasks.

    Of count(distinct), the only part is the argument, by which the tasks group too.
    """

    name: str
    parts: tuple[_Part, ...]
    is_distinct: bool = False


def with_partials(spark: SparkSession, plan: Any, load: Load) -> DataFrame | None:
    """Return the rows of an optimised plan whose records are aggregated in tasks; None: it has to be run as it is."""
    try:
        above, aggregate, below = _chain(plan)
        made = _Rewriting(spark, below).aggregate(aggregate, load)
    except _NotListed:
        return None
    for node in reversed(above):
        made = node.withNewChildren(_sequence(spark, [made]))
    return dataframe_of(spark, made)


def _chain(plan: Any) -> tuple[list[Any], Any, list[Any]]:
    """Return the nodes above the lowest Aggregate of a plan, that Aggregate, and the nodes below it, from the top."""
    nodes = [plan]
    while children := list(elements(nodes[-1].children())):
        if len(children) > 1:
            raise _NotListed
        nodes.append(children[0])
    if any(node.subqueries().size() for node in nodes):
        raise _NotListed
    names = [node.getClass().getSimpleName() for node in nodes]
    if "Aggregate" not in names:
        raise _NotListed
    at = len(names) - 1 - names[::-1].index("Aggregate")
    if any(name not in ("Project", "Filter") for name in names[at + 1 : -1]):
        raise _NotListed
    return nodes[:at], nodes[at], nodes[at + 1 :]


class _Rewriting:
    """Rewrites one Aggregate. `below`: the nodes under it, from the top; the last node is a stand-in of a view."""

    def __init__(self, spark: SparkSession, below: list[Any]) -> None:
        self._spark = spark
        *inner, leaf = below
        columns = list(view_columns(leaf))
        if not columns:
            raise _NotListed
        self._view = columns[0][0]
        self._known: dict[int, Expression] = {number: ["column", name] for _, name, number in columns}
        self._conditions: list[Expression] = []
        for node in reversed(inner):
            if node.getClass().getSimpleName() == "Filter":
                self._conditions.append(self._value(node.condition()))
            else:
                self._known = dict(self._projected(node))

    def _projected(self, project: Any) -> Iterator[tuple[int, Expression]]:
        for one in elements(project.projectList()):
            value = one.child() if one.getClass().getSimpleName() == "Alias" else one
            yield one.exprId().id(), self._value(value)

    def aggregate(self, node: Any, load: Load) -> Any:
        """Return the plan in place of an Aggregate: it has the same columns, with the same ids."""
        keys = list(elements(node.groupingExpressions()))
        groups = [self._value(_attribute(key)) for key in keys]
        results = list(elements(node.aggregateExpressions()))
        calls = [call for result in results for call in self._calls_in(result)]
        calls = calls or [_Call("count", (_Part("count", _ONE, "long"),))]
        parts = [part for call in calls for part in call.parts if not call.is_distinct]
        distinct = [call.parts[0] for call in calls if call.is_distinct]
        if any(part != distinct[0] for part in distinct):
            raise _NotListed
        distinct = distinct[:1]
        groups += [part.argument for part in distinct]
        columns = sorted(set(_columns([*self._conditions, *groups, *(part.argument for part in parts)])))
        in_tasks = [(part.name, part.argument) for part in parts]
        if not columns:  # a row of the source stands for many records then
            columns = [RECORDS.name]
            in_tasks = [_of_rows(part) for part in parts]
        types = [*map(_type, keys), *(part.type for part in (*distinct, *parts))]
        loaded = load(self._view, columns, Partials(self._conditions, groups, in_tasks), _schema(types))
        if loaded is None:
            raise _NotListed
        has_few = _FEW.issuperset(_columns(groups))
        tasks = 1 if has_few else math.ceil(loaded.size_bytes / _BYTES_OF_SHUFFLE)
        grouped = self._grouped_again(loaded.rows, len(keys), calls, tasks)._jdf.queryExecution().analyzed()
        made = list(elements(grouped.output()))
        new = {key.exprId().id(): made[at] for at, key in enumerate(keys)}
        waiting = iter(made[len(keys) :])
        replaced = [self._alias(self._replaced(result, new, waiting), result) for result in results]
        plans: Any = self._spark._jvm.org.apache.spark.sql.catalyst.plans.logical
        return plans.Project(_sequence(self._spark, replaced), grouped)

    def _grouped_again(self, rows: DataFrame, keys: int, calls: list[_Call], tasks: int) -> DataFrame:
        """Return the groups of all tasks: the keys, then the results of the calls.

        Without count(distinct), the rows are distributed first. Spark then combines them once, and not before the
        shuffle too, which would combine little: each row is a group of a task already.
        """
        names, is_distinct = rows.columns, any(call.is_distinct for call in calls)
        waiting = iter(names[keys + is_distinct :])
        found: list[Column] = []
        for call in calls:
            of_call = [names[keys]] if call.is_distinct else [next(waiting) for _ in call.parts]
            found.append(_again(call, of_call).alias(f"r{len(found)}"))
        if not keys or is_distinct:
            return rows.groupBy(*names[:keys]).agg(*found)
        most = int(str(self._spark.conf.get("spark.sql.shuffle.partitions")))
        return rows.repartition(min(max(tasks, 1), most), *names[:keys]).groupBy(*names[:keys]).agg(*found)

    def _calls_in(self, expression: Any) -> Iterator[_Call]:
        """Iterate over the calls in an expression, in the order in which `_replaced` finds them."""
        if expression.getClass().getSimpleName() == _CALL:
            yield self._call(expression)
            return
        for child in elements(expression.children()):
            yield from self._calls_in(child)

    def _call(self, expression: Any) -> _Call:
        function = expression.aggregateFunction()
        name, arguments = _CALLS.get(function.getClass().getSimpleName()), list(elements(function.children()))
        if name is None or expression.filter().isDefined() or len(arguments) != 1:
            raise _NotListed
        kind, argument = _type(arguments[0]), self._value(arguments[0])
        if expression.isDistinct():
            if name != "count" or argument[0] == "literal":
                raise _NotListed
            return _Call(name, (_Part(name, argument, kind),), is_distinct=True)
        # A sum of 64-bit numbers may overflow, which Spark reports.
        if (name in ("sum", "avg") and kind != "integer") or (name in ("min", "max") and kind not in _ORDERED):
            raise _NotListed
        names = ("sum", "count") if name == "avg" else (name,)
        return _Call(name, tuple(_Part(one, argument, kind if one in ("min", "max") else "long") for one in names))

    def _replaced(self, expression: Any, new: Mapping[int, Any], waiting: Iterator[Any]) -> Any:
        """Return an expression with its calls and keys replaced by columns of the new plan."""
        kind = expression.getClass().getSimpleName()
        if kind == _CALL:
            return next(waiting)
        if kind == "AttributeReference":
            return new[expression.exprId().id()]
        children = [self._replaced(child, new, waiting) for child in elements(expression.children())]
        return expression.withNewChildren(_sequence(self._spark, children)) if children else expression

    def _alias(self, column: Any, old: Any) -> Any:
        """Return a column with the name and the id of an old column."""
        if column.getClass().getSimpleName() == "Alias":
            return column
        jvm: Any = self._spark._jvm
        nothing, none = _sequence(self._spark, []), jvm.scala.Option.empty()
        made = jvm.org.apache.spark.sql.catalyst.expressions.Alias
        return made(column, old.name(), old.exprId(), nothing, none, nothing)

    def _value(self, expression: Any) -> Expression:
        """Return an expression over columns of the view in the form of `Partials`."""
        kind = expression.getClass().getSimpleName()
        if kind == "AttributeReference" and _type(expression) in _KNOWN:
            found = self._known.get(expression.exprId().id())
            if found is None:
                raise _NotListed
            return found
        if kind == "Literal":
            return _literal(expression)
        arguments = list(elements(expression.children()))
        if kind in _SIZES:
            return self._size(arguments[0])
        if kind == "TruncTimestamp":
            return self._floor(expression, *arguments)
        if kind in _COMPARISONS:
            _check_comparable(kind, arguments)
        elif kind not in _TESTS:
            raise _NotListed
        return [_COMPARISONS.get(kind) or _TESTS[kind], *map(self._value, arguments)]

    def _floor(self, expression: Any, unit: Any, timestamp: Any) -> Expression:
        """Return the start of the minute, hour or day of a timestamp in UTC."""
        zone = expression.timeZoneId()
        if unit.getClass().getSimpleName() != "Literal" or not zone.isDefined() or zone.get() != "UTC":
            raise _NotListed
        name = _FLOORS.get(str(unit.value()).upper())
        if name is None:
            raise _NotListed
        return ["floor", name, self._value(timestamp)]

    def _size(self, argument: Any) -> Expression:
        """Return the column with the sizes of keys or values, which takes no bytes along."""
        value = self._value(argument)
        if value not in (["column", "key"], ["column", "value"]):
            raise _NotListed
        return ["column", f"{value[1]}_size"]


def _check_comparable(kind: str, arguments: list[Any]) -> None:
    types = {_type(one) for one in arguments}
    wanted = ("boolean",) if kind in ("And", "Or") else _KNOWN if kind == "EqualTo" else _ORDERED
    if len(types) > 1 or not types <= set(wanted):
        raise _NotListed


def _literal(literal: Any) -> Expression:
    kind, value = _type(literal), literal.value()
    if value is None or kind not in _KNOWN:
        raise _NotListed
    return ["literal", kind, value.hex() if kind == "binary" else str(value.toString()) if kind == "string" else value]


def _type(expression: Any) -> str:
    """Return Spark's name of an expression's type; text of another collation has a name that nothing here lists."""
    return str(expression.dataType().simpleString() if _is_text(expression) else expression.dataType().typeName())


def _is_text(expression: Any) -> bool:
    return bool(expression.dataType().getClass().getSimpleName().startswith("StringType"))


def _attribute(key: Any) -> Any:
    if key.getClass().getSimpleName() != "AttributeReference":
        raise _NotListed
    return key


def _columns(expressions: list[Expression]) -> Iterator[str]:
    for name, *arguments in expressions:
        if name == "column":
            yield arguments[0]
        elif name == "floor":
            yield from _columns(arguments[1:])
        elif name != "literal":
            yield from _columns(arguments)


def _of_rows(part: _Part) -> tuple[str, Expression]:
    """Return a count of records as a function of rows that stand for many records."""
    if part.name != "count":
        raise _NotListed
    return "sum", ["column", RECORDS.name]


def _schema(types: list[str]) -> Any:
    from pyspark.sql.types import StructType

    fields = [{"name": f"c{at}", "type": kind, "nullable": True, "metadata": {}} for at, kind in enumerate(types)]
    return StructType.fromJson({"type": "struct", "fields": fields})


def _again(call: _Call, names: list[str]) -> Column:
    """Return the result over a group of the results over its parts in some columns."""
    from pyspark.sql import functions as f

    if call.is_distinct:
        return f.count_distinct(f.col(names[0]))
    again = [f.call_function(AGAIN[part.name], f.col(name)) for part, name in zip(call.parts, names, strict=True)]
    if call.name == "avg":
        return f.try_divide(again[0].cast("double"), again[1])
    return f.coalesce(again[0], f.lit(0).cast("long")) if call.name == "count" else again[0]  # no record: no part


def _sequence(spark: SparkSession, values: list[Any]) -> Any:
    return spark._jvm.PythonUtils.toSeq(values)
