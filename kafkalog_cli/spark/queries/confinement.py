"""Confines a query to the views of its log directories and to functions that only compute.

Spark's SQL reads any file that the user may read (text.`/etc/hostname`), and calls any static method of Java
(`reflect`). Settings close files, and variables of the environment. A parsed plan is checked before its analysis,
which already evaluates some expressions. The analysed plan is checked too, because functions of a session may have any
name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kafkalog_cli.errors import UsageError
from kafkalog_cli.ops.choices import Allowed
from kafkalog_cli.ops.scans.catalog import TABLE_DATABASE
from kafkalog_cli.spark.queries.usage import elements, kind_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CODE = frozenset({"java_method", "reflect", "try_reflect"})
"""Functions that call any static method of a Java class."""

FILES = frozenset(
    {
        "from_protobuf", "to_protobuf", "python_worker_logs", "xpath", "xpath_boolean", "xpath_double", "xpath_float",
        "xpath_int", "xpath_long", "xpath_number", "xpath_short", "xpath_string",
    }
)  # fmt: skip
"""Functions that read files: descriptors by path, logs of workers, and the DTD that an XML text names."""

MOST_ARGUMENTS = {"from_xml": 2, "schema_of_xml": 1, "from_avro": 2, "schema_of_avro": 1}
"""Functions whose further argument is a map of options, which can name a schema's file or address."""

_CALLS_CODE = frozenset(
    {
        "CallMethodViaReflection", "TryReflect", "ScalaUDF", "PythonUDF", "PythonUDAF", "PythonUDTF", "ScalaAggregator",
        "HiveSimpleUDF", "HiveGenericUDF", "HiveGenericUDTF", "HiveUDAFFunction", "ApplyFunctionExpression",
        "FromProtobuf", "ToProtobuf", "ProtobufDataToCatalyst", "CatalystDataToProtobuf",
    }
)  # fmt: skip
"""Expressions of an analysed plan that call code or read files, whatever name a query used for them."""

FILES_AS_TABLES = "spark.sql.runSQLOnFiles"
"""Spark's setting for whether a name such as text.`/etc/hostname` is a file."""
SUBSTITUTES = "spark.sql.variable.substitute"
"""Spark's setting for whether `${env:HOME}` and `${system:user.dir}` in a query are replaced by these values."""

_BUILTIN = ((), ("builtin",), ("system", "builtin"))
_LEAVES = frozenset(
    {
        "LogicalRDD", "LocalRelation", "OneRowRelation", "Range", "CTERelationRef", "ResolvedInlineTable",
        "UnresolvedSubqueryColumnAliases", "UnionLoopRef", "EmptyRelation",
    }
)  # fmt: skip
"""Leaves of an analysed plan that come from the query's text or from our views."""

_CHANGES = (
    "org.apache.spark.sql.catalyst.plans.logical.Command",
    "org.apache.spark.sql.catalyst.plans.logical.ParsedStatement",
)
"""The classes of nodes that change something, and of those that become such a node in the analysis."""
_RUNS_OTHERS = ("CompoundBody", "ExecuteImmediateQuery", "UnresolvedExecuteImmediate", "ScriptTransformation")
"""Nodes that are not commands but may contain them: scripts, executed text, and programs (`transform … using`)."""

_MAKES_NAMES = ("ExpressionWithUnresolvedIdentifier", "PlanWithUnresolvedIdentifier")
"""Nodes of `identifier(…)`, which hide the function of that name and its arguments from the check before analysis."""

NO_QUERY = UsageError(reason="sql runs queries: nothing is created, set or written by a statement")


def settings_of(allowed: frozenset[Allowed]) -> dict[str, str]:
    """Return Spark's settings for queries with these permissions."""
    return {
        FILES_AS_TABLES: str(Allowed.FILES in allowed).lower(),
        SUBSTITUTES: str(Allowed.JAVA in allowed).lower(),
    }


def check_is_query(spark: SparkSession, plan: Any) -> None:
    """Raise UsageError unless a plan only reads: what changes data is a command in it, at the latest when analysed."""
    jvm: Any = spark._jvm
    changing = [jvm.java.lang.Class.forName(name) for name in _CHANGES]
    for node in nodes(plan):
        if kind_of(node) in _RUNS_OTHERS or any(kind.isInstance(node) for kind in changing):
            raise NO_QUERY


def check_parsed(spark: SparkSession, plan: Any, allowed: frozenset[Allowed]) -> None:
    """Raise UsageError if a parsed plan names a file, or a function that does more than compute."""
    for kind, node in _objects(spark, plan):
        if kind == "UnresolvedRelation":
            _check_relation(tuple(elements(node.multipartIdentifier())), allowed)
        elif kind == "UnresolvedFunction":
            _check_function(list(elements(node.nameParts())), node.arguments().size(), allowed)
        elif kind == "UnresolvedTableValuedFunction":
            _check_function(list(elements(node.name())), node.functionArgs().size(), allowed)
        elif kind == "UnresolvedGenerator":
            _check_function([node.name().funcName()], node.children().size(), allowed)
        elif kind in _MAKES_NAMES and Allowed.JAVA not in allowed:
            raise UsageError(
                reason="no expression may make the name of a view, a function or a column here: write the name itself,"
                " without identifier(…)"
            )


def check_analysed(plan: Any, allowed: frozenset[Allowed]) -> None:
    """Raise UsageError if an analysed plan reads anything but views, or calls code."""
    for node in json.loads(plan.toJSON()) if len(allowed) < len(Allowed) else ():
        name = str(node["class"]).rpartition(".")[2]
        if node["num-children"] == 0 and name not in _LEAVES and Allowed.FILES not in allowed:
            raise UsageError(
                reason=f"sql reads only the views of its log directories, not {name}{_more(Allowed.FILES)}"
            )
        for kind in _classes(node):
            if kind in _CALLS_CODE and Allowed.JAVA not in allowed:
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


def _check_function(parts: Sequence[str], arguments: int, allowed: frozenset[Allowed]) -> None:
    name = parts[-1].casefold()
    if (name in FILES or arguments > MOST_ARGUMENTS.get(name, arguments)) and Allowed.FILES not in allowed:
        of_options = " with options" if name in MOST_ARGUMENTS else ""
        raise UsageError(reason=f"the function {name}{of_options} can read a file{_more(Allowed.FILES)}")
    if name in CODE and Allowed.JAVA not in allowed:
        raise UsageError(reason=f"the function {name} calls any method of Java{_more(Allowed.JAVA)}")
    if tuple(part.casefold() for part in parts[:-1]) not in _BUILTIN and Allowed.JAVA not in allowed:
        raise UsageError(reason=f"the function {'.'.join(parts)} is not Spark's own{_more(Allowed.JAVA)}")


def nodes(plan: Any) -> Iterator[Any]:
    """Iterate over all nodes of a plan, including those of subqueries and common table expressions."""
    yield plan
    for child in (*elements(plan.children()), *elements(plan.subqueries()), *elements(plan.innerChildren())):
        if hasattr(child, "subqueries"):
            yield from nodes(child)


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
        item = waiting.pop()
        if not isinstance(item, JavaObject):
            continue
        kind = item.getClass().getName()
        if kind not in containers:
            is_sequence = is_instance_of(gateway, item, "scala.collection.Iterable")
            is_product = is_instance_of(gateway, item, "scala.Product")
            is_type = is_instance_of(gateway, item, "org.apache.spark.sql.types.DataType")
            containers[kind] = "" if is_type else "iterator" if is_sequence else "productIterator" * is_product
        yield kind.rpartition(".")[2], item
        if containers[kind]:
            parts = getattr(item, containers[kind])()
            while parts.hasNext():
                waiting.append(parts.next())
