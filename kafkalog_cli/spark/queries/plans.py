"""Reads Spark's plans of a query: the names in it, whether it only reads, and the columns of views that it uses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VIEW = "kafkalog.view"
"""The key in a column's metadata for the name of its view."""

_UNRESOLVED = "UnresolvedRelation"
_COMMAND = "org.apache.spark.sql.catalyst.plans.logical.Command"

_PASSING_ON = frozenset(
    {
        "Project", "Filter", "Aggregate", "Join", "Window", "Sort", "GlobalLimit", "LocalLimit", "Offset", "Sample",
        "Generate", "Expand", "Repartition", "RepartitionByExpression", "RebalancePartitions", "SubqueryAlias",
    }
)  # fmt: skip
"""Nodes that use only those columns of their children that their expressions name."""

WITHOUT_ROWS = ("LocalRelation",)
"""The leaf that replaces a view if the optimiser sees that it gives no rows."""

_STATEMENT = "org.apache.spark.sql.catalyst.plans.logical.ParsedStatement"
"""The class of nodes that become a command in the analysis: an insert."""

_RUNS_OTHERS = ("CompoundBody", "ExecuteImmediateQuery", "UnresolvedExecuteImmediate", "ScriptTransformation")
"""Nodes that are not commands but may contain them: scripts, executed text, and programs (`transform … using`)."""


def named_relations(plan: Any) -> set[tuple[str, ...]]:
    """Return the relations that a parsed plan names, each as its name parts; including common table expressions."""
    return {
        tuple(elements(node.multipartIdentifier()))
        for node in _nodes(plan)
        if node.getClass().getSimpleName() == _UNRESOLVED
    }


def is_query(jvm: Any, plan: Any) -> bool:
    """Whether a plan only reads: anything that changes data is a command in it, at the latest after the analysis."""
    changing = [jvm.java.lang.Class.forName(name) for name in (_COMMAND, _STATEMENT)]
    return not any(
        node.getClass().getSimpleName() in _RUNS_OTHERS or any(one.isInstance(node) for one in changing)
        for node in _nodes(plan)
    )


def dataframe_of(spark: SparkSession, plan: Any) -> DataFrame:
    """Return the rows of an analysed plan as a DataFrame of a session: it needs no views there."""
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    rows = spark._jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan)
    return ClassicDataFrame(rows, spark)


def asks_for_names(plan: Any) -> bool:
    """Whether a parsed plan is a `show tables`, `describe orders` or similar."""
    return str(plan.getClass().getSimpleName()).startswith(("Show", "Describe"))


def takes_where_for_a_name(plan: Any) -> bool:
    """Whether Spark has parsed `from orders where offset in (1, 2)` as an alias `where` and an OFFSET clause."""
    aliases = (node for node in _nodes(plan) if node.getClass().getSimpleName() == "SubqueryAlias")
    return any(node.alias().lower() == "where" for node in aliases)


def depends_on_the_moment(jvm: Any, plan: Any) -> bool:
    """Whether an analysed plan has a function such as `now()`, which the optimiser replaces by its present value."""
    return bool(plan.containsPattern(jvm.org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE()))


def used_columns(plan: Any) -> dict[str, set[str]]:
    """Return the columns that an optimised plan uses of each view, by the metadata of the columns (VIEW).

    A view from which nothing is read is left out. The plan does not depend on any other column: no expression names
    one, and none is in the result.
    """
    used: set[int] = set()
    views: list[tuple[str, str, int]] = []
    for root in roots(plan):
        used.update(_output(root))
        for node in _tree(root):
            used.update(_ids(node.references().toSeq()))
            children = list(elements(node.children()))
            if not children:
                views += view_columns(node) if node.getClass().getSimpleName() not in WITHOUT_ROWS else ()
            elif node.getClass().getSimpleName() not in _PASSING_ON:
                used.update(one for child in children for one in _output(child))
    found: dict[str, set[str]] = {view: set() for view, _, _ in views}
    for view, name, number in views:
        if number in used:
            found[view].add(name)
    return found


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


def _nodes(plan: Any) -> Iterator[Any]:
    """Iterate over all nodes, including those of subqueries and common table expressions."""
    yield plan
    beneath = (*elements(plan.children()), *elements(plan.subqueries()), *elements(plan.innerChildren()))
    for child in beneath:
        if hasattr(child, "subqueries"):
            yield from _nodes(child)


def _output(plan: Any) -> Iterator[int]:
    return _ids(plan.output())


def _ids(attributes: Any) -> Iterator[int]:
    for attribute in elements(attributes):
        yield attribute.exprId().id()


def view_columns(leaf: Any) -> Iterator[tuple[str, str, int]]:
    """Iterate over the columns of views in a leaf of a plan: view, name, and Spark's id of the column."""
    for attribute in elements(leaf.output()):
        metadata = attribute.metadata()
        if metadata.contains(VIEW):
            yield metadata.getString(VIEW), attribute.name(), attribute.exprId().id()


def elements(scala: Any) -> Iterator[Any]:
    """Iterate over a Scala Seq."""
    for at in range(scala.size()):
        yield scala.apply(at)
