"""Runs one query: plans it against empty stand-ins of its views, then reads only the columns and records used."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any

from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.errors import KafkalogError, UsageError
from kafkalog_cli.ops.call.observer import Note
from kafkalog_cli.ops.choices import Allowed
from kafkalog_cli.ops.scans.catalog import TABLE_DATABASE, Catalog, Reading, ResultColumn, member_of
from kafkalog_cli.ops.scans.options import local_path
from kafkalog_cli.ops.scans.rows import undecoded_notes
from kafkalog_cli.ops.scans.schema import arrow_of
from kafkalog_cli.spark.jobs import is_of_a_worker, plain_errors, without_state
from kafkalog_cli.spark.queries.confinement import (
    NO_QUERY,
    check_analysed,
    check_is_query,
    check_parsed,
    nodes,
    settings_of,
)
from kafkalog_cli.spark.queries.groups import dataframe_of
from kafkalog_cli.spark.queries.usage import elements, kind_of
from kafkalog_cli.spark.queries.views import DATABASE_SETTING, Views
from kafkalog_cli.spark.sessions import cloned_session, register_sources

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession

SETTINGS = {
    DATABASE_SETTING: TABLE_DATABASE,
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1024",  # a tenth of the default, which ignores the size of rows
}
"""The settings that a session must be started with."""

Path = str | os.PathLike[str]
Render = Callable[[Iterator[Any]], Iterator[Any]]
"""A function from RecordBatches to any values; it is pickled and runs in a worker."""

_NOT_FOUND = "TABLE_OR_VIEW_NOT_FOUND"
_CAUSE = re.compile(r"^Caused by: [\w.$]+: (.+)$", re.MULTILINE)

_planning = Lock()
"""Held while a query is planned: all sessions of one Spark share the views of the database `kafkalog`."""


class Result:
    """The rows of a query. Each iteration runs the query again."""

    def __init__(self, dataframe: DataFrame, views: Views) -> None:
        from pyspark.sql.types import NumericType

        self.columns = tuple(
            ResultColumn(field.name, field.dataType.simpleString(), isinstance(field.dataType, NumericType))
            for field in dataframe.schema.fields
        )
        self.arrow_schema = _arrow_schema(self.columns, dataframe.schema)
        self._views = views
        self._context = dataframe.sparkSession.sparkContext
        self._dataframe = dataframe.toDF(*self.arrow_schema.names)  # unique names

    def rendered(self, render: Render, most_rows: int | None = None) -> Iterator[Any]:
        """Iterate over the results of `render`, which runs in the tasks on RecordBatches of `arrow_schema`.

        They come partition by partition in the order of the result. All results of one partition are in memory at a
        time.
        """
        from pyspark.core.rdd import RDD
        from pyspark.serializers import NoOpSerializer

        rows = self._dataframe if most_rows is None else self._dataframe.limit(most_rows)
        # mapInArrow does the same but needs pandas, which kafkalog does not.
        batches = RDD(rows._jdf.toArrowBatchRdd().toJavaRDD(), self._context, NoOpSerializer())
        made = batches.mapPartitions(partial(_rendered, render, self.arrow_schema))
        with _caused(), _one_python(self._context):
            yield from made.toLocalIterator()

    def notes(self) -> list[Note]:
        """Return what the tasks did not decode."""
        return [] if self._views.undecoded is None else undecoded_notes(self._views.undecoded.value)


@contextmanager
def _one_python(context: SparkContext) -> Iterator[None]:
    """Let reads and `rendered` share a Python daemon: by default, one variable differs, and Spark starts two."""
    name = "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled"
    before: Any = context.getLocalProperty(name)
    context.setLocalProperty(name, "false")
    try:
        yield
    finally:
        context.setLocalProperty(name, before)


@contextmanager
def _caused() -> Iterator[None]:
    """Raise the root cause of a failure that Spark has wrapped, such as a division by zero or a failed cast."""
    from py4j.protocol import Py4JJavaError

    try:
        yield
    except Py4JJavaError as error:
        causes = _CAUSE.findall(str(error))
        if not causes or is_of_a_worker(str(error)):
            raise
        raise KafkalogError(reason=f"Spark: {without_state(causes[-1])}") from None


def _rendered(render: Render, schema: Any, messages: Iterator[bytes]) -> Iterator[Any]:
    import pyarrow as pa

    return render(pa.ipc.read_record_batch(pa.py_buffer(message), schema) for message in messages)


@contextmanager
def query(spark: SparkSession, catalog: Catalog, allowed: frozenset[Allowed] = frozenset()) -> Iterator[Result]:
    """Yield the result of the catalog's query; the views that it needs exist as long as the context.

    Raises as `query_rows`, and UsageError for a column of a type that Arrow does not have.
    """
    with query_rows(spark, catalog, allowed) as (rows, views):
        yield Result(rows, views)


@contextmanager
def query_rows(
    spark: SparkSession, catalog: Catalog, allowed: frozenset[Allowed] = frozenset(), *, is_kept: bool = False
) -> Iterator[tuple[DataFrame, Views]]:
    """Yield the rows of the catalog's query, which reads only the columns and records that it uses, and its views.

    The views exist as long as the context. `is_kept`: the DataFrame is also used later, when a function such as `now`
    has another value. A query with such a function then reads all records.

    Raises UsageError for text that Spark does not understand, for anything but a query, for a query that needs more
    than `allowed`, and for topics found twice.
    """
    catalog.case_sensitive = spark.conf.get("spark.sql.caseSensitive") == "true"
    views = Views(spark, catalog, is_kept=is_kept)
    try:
        with _plainly(catalog):
            state, jvm = spark._jsparkSession.sessionState(), spark._jvm
            parsed = state.sqlParser().parsePlan(catalog.query)
            _check_form(parsed, catalog)
            check_is_query(spark, parsed)  # before the analysis, which would run EXECUTE IMMEDIATE text
            check_parsed(spark, parsed, allowed)
            relations = (node for node in nodes(parsed) if kind_of(node) == "UnresolvedRelation")
            views.add({tuple(elements(node.multipartIdentifier())) for node in relations})
            skip = jvm.org.apache.spark.sql.execution.CommandExecutionMode.SKIP()  # nothing is run
            execution = state.executePlan(parsed, skip)
            execution.assertAnalyzed()
            check_is_query(spark, execution.analyzed())
            check_analysed(execution.analyzed(), allowed)
            depends_on_now = is_kept and execution.analyzed().containsPattern(
                jvm.org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE()
            )
            rows = views.planned(execution, has_boxes=not depends_on_now)
            if rows is None:
                rows = spark.sql(catalog.query)
        yield rows, views
    finally:
        views.drop()


def _check_form(parsed: Any, catalog: Catalog) -> None:
    """Raise UsageError for statements for which our message is better than Spark's."""
    if kind_of(parsed).startswith(("Show", "Describe")):
        raise UsageError(reason=f"sql runs queries: {catalog.listed()}")
    if any(kind_of(node) == "SubqueryAlias" and node.alias().lower() == "where" for node in nodes(parsed)):
        raise UsageError(
            reason="Spark reads `offset` after `where` as its clause OFFSET here:"
            " write `where (offset in …)`, with parentheses"
        )


@contextmanager
def _plainly(catalog: Catalog) -> Iterator[None]:
    """Raise Spark's errors about the query as UsageError with a one-line message."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import AnalysisException, ParseException

    try:
        yield
    except (AnalysisException, ParseException) as error:
        raise UsageError(reason=_reason(error, catalog)) from None
    except Py4JJavaError as error:  # PySpark has no class for an error in a script
        if error.java_exception.getClass().getSimpleName() == "SqlScriptingException":
            raise NO_QUERY from None
        raise


def _reason(error: Any, catalog: Catalog) -> str:
    text = str(error).strip()
    position = re.search(r"line (\d+),? pos (\d+)", text)
    where = "" if position is None else f" (line {position[1]}, position {int(position[2]) + 1})"
    if error.getCondition() == _NOT_FOUND:
        name = (error.getMessageParameters() or {}).get("relationName", "")
        parts = [part.replace("``", "`") for part in re.findall(r"`((?:[^`]|``)+)`", name)]
        return f"{catalog.about(name, parts or [name])}{where}"
    return f"{without_state(text)}{where}"


def _arrow_schema(columns: Sequence[ResultColumn], schema: Any) -> Any:
    """Return the result's schema in Arrow, its columns c0, c1, ….

    Raises UsageError for a type that Arrow does not have.
    """
    import pyarrow as pa

    fields = []
    for number, (column, field) in enumerate(zip(columns, schema.fields, strict=True)):
        kind = arrow_of(field.dataType.jsonValue())
        if kind is None:
            raise UsageError(reason=f"the column {column.name} is {column.type}: cast it to string")
        fields.append(pa.field(f"c{number}", kind))
    return pa.schema(fields)


def sql(  # noqa: PLR0913
    spark: SparkSession,
    paths: Path | Sequence[Path],
    text: str,
    *,
    isolation: str = "read_uncommitted",
    mode: str = "failfast",
    include_control: bool = False,
    allow: Iterable[str] = (),
    key_format: str = "auto",
    value_format: str = "auto",
    schemas: Path | None = None,
) -> DataFrame:
    """Return the rows of a query in Spark's SQL over log directories, as `kafkalog sql` prints them.

    Each topic under `paths` is a view, and so are the tables of docs/spark.md. The DataFrame reads the partitions,
    offsets, times and columns that the query uses. It has the same rows in each use: a filter on it makes it read no
    less. It lists the files of the logs at each use, so it has the records that a broker has appended since. The value
    of `now` changes from use to use, so a query with such a function reads all partitions, offsets and times.

    The session is not changed. The query may also name its temporary views and functions. `allow` has the permissions
    of the option `--allow`: "files" for views that read other files, "java" for functions of the caller. `key_format`,
    `value_format` and `schemas` choose how decoded columns are made, as the options of the command.

    Raises UsageError for text that Spark does not understand, for a statement that is not a query, and for a query that
    needs more than `allow`. Raises UsageError for an unknown option. Raises UsageError for a session of Spark Connect,
    which has no access to Spark's plans. Raises PathNotFound, NotKafkaLayout and Unreadable, as each command does.
    Spark raises DamagedLog and other errors of tasks as its own exceptions, unless the DataFrame is used in
    `plain_errors`.
    """
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise UsageError(
            reason="sql() reads Spark's plan of a query, which a session of Spark Connect does not give:"
            ' use spark.read.format("kafkalog") with options there, or a session of Spark itself'
        )
    reading = Reading.of_words(isolation, mode, include_control, key_format, value_format, schemas)
    allowed = frozenset(member_of(Allowed, word) for word in allow)
    listed = [paths] if isinstance(paths, str | os.PathLike) else paths
    catalog = Catalog(RealFilesystem(), [local_path(os.fspath(path)) for path in listed], text, reading)
    register_sources(spark)  # a DataFrame's scans look for them in their own session
    with (
        _planning,
        plain_errors(),
        cloned_session(spark, settings_of(allowed)) as own,
        query_rows(own, catalog, allowed, is_kept=True) as (rows, _),
    ):
        return dataframe_of(spark, rows._jdf.queryExecution().analyzed())
