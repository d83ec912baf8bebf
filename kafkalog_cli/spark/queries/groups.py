"""Queries that count the records of groups: tasks give each different row of a batch once, with the number of its like.

The lowest `Aggregate` of an optimised plan, directly above a topic, may count records, sum lengths, and have smallest
and largest values. A read with the column `_records` and an aggregate over its rows replace it. All other nodes stay
as Spark made them, and any other plan stays as a whole. Without this, Spark groups the records before it distributes
them, which takes twice as long where most keys differ (`group by key, lz4` in docs/bench.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkalog_cli.ops.scans.schema import RECORDS
from kafkalog_cli.spark.queries.usage import elements, kind_of, view_columns

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Load = Callable[[str, list[str]], "Loaded | None"]
"""Returns some columns of a view; None if the view is not to be read."""

_BYTES_OF_SHUFFLE = 8 << 20
"""The bytes of logs whose groups one task of Spark combines: its table of groups then mostly fits a core's cache."""
_FEW = frozenset(("topic", "partition", "timestampType", "codec", "transactional", "control"))
"""The columns with so few values that one task of Spark combines all groups of them."""
_CALL = "AggregateExpression"
_SIZES = {"key": "key_size", "value": "value_size"}
_PLAIN = ("binary", "string", "boolean", "integer", "long", "timestamp")


class _NotOfThisForm(Exception):
    """A plan has a node or an expression that is not read here."""


class Loaded(NamedTuple):
    """Columns of a view, and the size of the logs that they come from."""

    rows: DataFrame
    size_bytes: int


def with_groups(spark: SparkSession, plan: Any, load: Load) -> DataFrame | None:
    """Return the rows of an optimised plan whose records are grouped in tasks; None: it has to be run as it is."""
    try:
        above, aggregate, leaf = _chain(plan)
        made = _Groups(spark, leaf).replacing(aggregate, load)
    except _NotOfThisForm:
        return None
    for node in reversed(above):
        made = node.withNewChildren(_sequence(spark, [made]))
    return dataframe_of(spark, made)


def dataframe_of(spark: SparkSession, plan: Any) -> DataFrame:
    """Return the rows of an analysed plan as a DataFrame of a session: it needs no views there."""
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    rows = spark._jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan)
    return ClassicDataFrame(rows, spark)


def _chain(plan: Any) -> tuple[list[Any], Any, Any]:
    """Return the nodes above the lowest Aggregate of a plan, that Aggregate, and the leaf below it."""
    nodes = [plan]
    while children := list(elements(nodes[-1].children())):
        if len(children) > 1:
            raise _NotOfThisForm
        nodes.append(children[0])
    if any(node.subqueries().size() for node in nodes):
        raise _NotOfThisForm
    kinds = [kind_of(node) for node in nodes]
    if "Aggregate" not in kinds:
        raise _NotOfThisForm
    at = len(kinds) - 1 - kinds[::-1].index("Aggregate")
    for node in nodes[at + 1 : -1]:
        if kind_of(node) != "Project" or not all(map(_is_column, elements(node.projectList()))):
            raise _NotOfThisForm
    return nodes[:at], nodes[at], nodes[-1]


class _Groups:
    """Replaces an Aggregate over a leaf that stands for a view."""

    def __init__(self, spark: SparkSession, leaf: Any) -> None:
        self._spark = spark
        columns = list(view_columns(leaf))
        if not columns:
            raise _NotOfThisForm
        self._view = columns[0][0]
        self._names = {number: name for _, name, number in columns}
        self._read: set[str] = set()

    def replacing(self, node: Any, load: Load) -> Any:
        """Return the plan in place of an Aggregate: it has the same columns, with the same ids."""
        keys = [self._column(key) for key in elements(node.groupingExpressions())]
        results = list(elements(node.aggregateExpressions()))
        calls = [self._call(call) for result in results for call in _calls_in(result)]
        if not calls:
            raise _NotOfThisForm
        loaded = load(self._view, [*sorted(self._read), RECORDS.name])
        if loaded is None:
            raise _NotOfThisForm
        aliased = [call.alias(f"r{at}") for at, call in enumerate(calls)]
        grouped = self._distributed(loaded, keys).groupBy(*keys).agg(*aliased)._jdf.queryExecution().analyzed()
        made = list(elements(grouped.output()))
        ids = [key.exprId().id() for key in elements(node.groupingExpressions())]
        new, waiting = dict(zip(ids, made, strict=False)), iter(made[len(keys) :])
        replaced = [self._alias(self._replaced(result, new, waiting), result) for result in results]
        plans: Any = self._spark._jvm.org.apache.spark.sql.catalyst.plans.logical
        return plans.Project(_sequence(self._spark, replaced), grouped)

    def _distributed(self, loaded: Loaded, keys: list[str]) -> DataFrame:
        """Return the rows by their keys. Spark then combines them once, and not before the shuffle too."""
        if not keys:
            return loaded.rows
        most = int(str(self._spark.conf.get("spark.sql.shuffle.partitions")))
        tasks = 1 if _FEW.issuperset(keys) else max(math.ceil(loaded.size_bytes / _BYTES_OF_SHUFFLE), 1)
        return loaded.rows.repartition(min(tasks, most), *keys)

    def _column(self, expression: Any) -> str:
        """Return the name of a column of the view, which is read."""
        name = self._name(expression)
        if name is None or _type(expression) not in _PLAIN:
            raise _NotOfThisForm
        self._read.add(name)
        return name

    def _name(self, expression: Any) -> str | None:
        return self._names.get(expression.exprId().id()) if _is_column(expression) else None

    def _call(self, expression: Any) -> Column:
        """Return a function of a group as one of rows that stand for records."""
        from pyspark.sql import functions as f

        function = expression.aggregateFunction()
        name, arguments = kind_of(function), list(elements(function.children()))
        if expression.isDistinct() or expression.filter().isDefined() or len(arguments) != 1:
            raise _NotOfThisForm
        argument, records = arguments[0], f.col(RECORDS.name)
        if name == "Count" and kind_of(argument) == "Literal" and argument.value() is not None:
            return f.coalesce(f.sum(records), f.lit(0).cast("long"))
        if name == "Sum" and kind_of(argument) in ("Length", "OctetLength"):
            size = _SIZES.get(self._name(argument.child()) or "")
            if size is not None:
                self._read.add(size)
                return f.sum(f.col(size).cast("long") * records)
        if name in ("Min", "Max"):
            return (f.min if name == "Min" else f.max)(f.col(self._column(argument)))
        raise _NotOfThisForm

    def _replaced(self, expression: Any, new: dict[int, Any], waiting: Iterator[Any]) -> Any:
        """Return an expression with its calls and keys replaced by columns of the new plan."""
        if kind_of(expression) == _CALL:
            return next(waiting)
        if kind_of(expression) == "AttributeReference":
            return new[expression.exprId().id()]
        children = [self._replaced(child, new, waiting) for child in elements(expression.children())]
        return expression.withNewChildren(_sequence(self._spark, children)) if children else expression

    def _alias(self, column: Any, old: Any) -> Any:
        """Return a column with the name and the id of an old column."""
        if kind_of(column) == "Alias":
            return column
        jvm: Any = self._spark._jvm
        nothing, none = _sequence(self._spark, []), jvm.scala.Option.empty()
        made = jvm.org.apache.spark.sql.catalyst.expressions.Alias
        return made(column, old.name(), old.exprId(), nothing, none, nothing)


def _calls_in(expression: Any) -> Iterator[Any]:
    """Iterate over the calls in an expression, in the order in which `_replaced` finds them."""
    if kind_of(expression) == _CALL:
        yield expression
        return
    for child in elements(expression.children()):
        yield from _calls_in(child)


def _is_column(expression: Any) -> bool:
    return kind_of(expression) == "AttributeReference"


def _type(expression: Any) -> str:
    """Return Spark's name of an expression's type; text of another collation has a name that is not listed here."""
    kind = expression.dataType()
    return str(kind.simpleString() if kind_of(kind).startswith("StringType") else kind.typeName())


def _sequence(spark: SparkSession, values: list[Any]) -> Any:
    return spark._jvm.PythonUtils.toSeq(values)
