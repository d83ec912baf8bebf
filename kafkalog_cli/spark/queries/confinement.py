"""Confines a query to the views of its log directories and to functions that only compute.

Spark's SQL reads any file that the user may read (text.`/etc/hostname`), and calls any static method of Java
(`reflect`). A parsed plan is checked before its analysis, because the analysis already reads files. The analysed plan
is checked too, because an expression can produce a name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from enum import Enum, unique
from typing import TYPE_CHECKING, Any

from kafkalog_cli.errors import UsageError
from kafkalog_cli.spark.queries.catalog import TABLE_DATABASE
from kafkalog_cli.spark.queries.functions import CODE, FILES, MOST_ARGUMENTS, REFUSED_CLASSES, REVIEWED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@unique
class Allowed(Enum):
    """The additional permissions of a query, by name."""

    FILES = "files"
    JAVA = "java"


FILES_AS_TABLES = "spark.sql.runSQLOnFiles"
"""Spark's setting for whether a name such as text.`/etc/hostname` is a file."""

_BUILTIN = ((), ("builtin",), ("system", "builtin"))
_LEAVES = frozenset(
    {
        "LogicalRDD", "LocalRelation", "OneRowRelation", "Range", "CTERelationRef", "ResolvedInlineTable",
        "UnresolvedSubqueryColumnAliases", "UnionLoopRef", "EmptyRelation",
    }
)  # fmt: skip
"""Leaves of an analysed plan that come from the query's text or from our views."""


def settings_of(allowed: frozenset[Allowed]) -> dict[str, str]:
    """Return Spark's settings for queries with these permissions."""
    return {FILES_AS_TABLES: str(Allowed.FILES in allowed).lower()}


def check_parsed(spark: SparkSession, plan: Any, allowed: frozenset[Allowed]) -> None:
    """Raise UsageError if a parsed plan names a file, or a function that may do more than compute."""
    for kind, node in _objects(spark, plan):
        if kind == "UnresolvedRelation":
            _check_relation(tuple(_sequence(node.multipartIdentifier())), allowed)
        elif kind == "UnresolvedFunction":
            parts = tuple(_sequence(node.nameParts()))
            _check_function(spark, parts, node.arguments().size(), allowed)
        elif kind == "UnresolvedTableValuedFunction":
            _check_function(spark, tuple(_sequence(node.name())), node.functionArgs().size(), allowed)
        elif kind == "UnresolvedGenerator":
            _check_function(spark, (node.name().funcName(),), node.children().size(), allowed)
        elif kind == "ExpressionWithUnresolvedIdentifier" and Allowed.JAVA not in allowed:
            raise UsageError(
                reason="no expression may make the name of a function or of a column here: write the name itself,"
                " without identifier(…)"
            )
        elif kind == "PlanWithUnresolvedIdentifier" and Allowed.FILES not in allowed:
            _check_files_are_no_tables(spark)


def check_analysed(plan: Any, allowed: frozenset[Allowed]) -> None:
    """Raise UsageError if an analysed plan reads anything but views, or calls code."""
    for node in json.loads(plan.toJSON()) if len(allowed) < len(Allowed) else ():
        name = str(node["class"]).rpartition(".")[2]
        if node["num-children"] == 0 and name not in _LEAVES and Allowed.FILES not in allowed:
            raise UsageError(
                reason=f"sql reads only the views of its log directories, not {name}{_more(Allowed.FILES)}"
            )
        for kind in _classes(node):
            if kind in REFUSED_CLASSES and Allowed.JAVA not in allowed:
                raise UsageError(reason=f"sql calls only Spark's own functions, not {kind}{_more(Allowed.JAVA)}")


def _check_relation(parts: tuple[str, ...], allowed: frozenset[Allowed]) -> None:
    if len(parts) == 1 or parts[0].casefold() == TABLE_DATABASE or Allowed.FILES in allowed:
        return
    name = ".".join((*parts[:-1], f"`{parts[-1]}`"))
    whole = ".".join(parts)
    raise UsageError(
        reason=f"there is no view {name}, and sql reads no file by its path{_more(Allowed.FILES)}."
        f" A topic with dots in its name is written `{whole}`, between backticks"
    )


def _check_function(spark: SparkSession, parts: tuple[str, ...], arguments: int, allowed: frozenset[Allowed]) -> None:
    name = parts[-1].casefold()
    if name in FILES or arguments > MOST_ARGUMENTS.get(name, arguments):
        if Allowed.FILES not in allowed:
            of_options = " with options" if name in MOST_ARGUMENTS else ""
            raise UsageError(reason=f"the function {name}{of_options} can read a file{_more(Allowed.FILES)}")
        return
    is_builtin = tuple(part.casefold() for part in parts[:-1]) in _BUILTIN
    if Allowed.JAVA in allowed or (is_builtin and (name in REVIEWED or not _is_known(spark, name))):
        return
    if name in CODE:
        raise UsageError(reason=f"the function {name} calls any method of Java{_more(Allowed.JAVA)}")
    raise UsageError(
        reason=f"no review has shown yet that the function {'.'.join(parts)} only computes{_more(Allowed.JAVA)}"
    )


def _is_known(spark: SparkSession, name: str) -> bool:
    """Whether Spark has the function; for an unknown function, Spark's own message is better than ours."""
    state = spark._jsparkSession.sessionState()
    known = (one.listFunction().mkString(" ") for one in (state.functionRegistry(), state.tableFunctionRegistry()))
    return any(name == word.rpartition(".")[2].strip("`").casefold() for word in " ".join(known).split())


def _check_files_are_no_tables(spark: SparkSession) -> None:
    """Raise UsageError unless Spark takes no name for a file: a name from an expression cannot be checked before."""
    if spark.conf.get(FILES_AS_TABLES) != "false":
        raise UsageError(reason=f"no expression may make the name of a view where {FILES_AS_TABLES} is true")


def _more(allowed: Allowed) -> str:
    return f" (--allow {allowed.value} permits it)"


def _classes(node: Any) -> Iterator[str]:
    """Iterate over the names of all classes in a node of a plan in JSON."""
    if isinstance(node, dict):
        if isinstance(node.get("class"), str):
            yield node["class"].rpartition(".")[2]
        node = node.values()
    elif not isinstance(node, list):
        return
    for part in node:
        yield from _classes(part)


def _objects(spark: SparkSession, plan: Any) -> Iterator[tuple[str, Any]]:
    """Iterate over all objects in a parsed plan, with their class names.

    Children alone are not enough: a window's definition, for example, is in a map that no method of a plan returns.
    Java is asked once per class how to iterate over its objects.
    """
    from py4j.java_gateway import JavaObject, is_instance_of

    gateway = spark.sparkContext._gateway
    containers: dict[str, str] = {}
    waiting = [plan]
    while waiting:
        found = waiting.pop()
        if not isinstance(found, JavaObject):
            continue
        kind = found.getClass().getName()
        if kind not in containers:
            is_sequence = is_instance_of(gateway, found, "scala.collection.Iterable")
            is_product = is_instance_of(gateway, found, "scala.Product")
            is_type = is_instance_of(gateway, found, "org.apache.spark.sql.types.DataType")
            containers[kind] = "" if is_type else "iterator" if is_sequence else "productIterator" * is_product
        yield kind.rpartition(".")[2], found
        if containers[kind]:
            parts = getattr(found, containers[kind])()
            while parts.hasNext():
                waiting.append(parts.next())


def _sequence(scala: Any) -> Iterator[Any]:
    for at in range(scala.size()):
        yield scala.apply(at)
