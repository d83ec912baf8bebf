"""Runs one query: plans it against views with all columns, runs it against views that read only the columns used."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkalog_cli.errors import KafkalogError, UsageError
from kafkalog_cli.ops.choices import Allowed, Mode
from kafkalog_cli.ops.engine import log_bytes
from kafkalog_cli.ops.scans.schema import arrow_of, columns_named
from kafkalog_cli.spark.jobs import is_of_a_worker, without_state
from kafkalog_cli.spark.partials import Partials
from kafkalog_cli.spark.queries.aggregates import LoadedGroups, with_partials
from kafkalog_cli.spark.queries.catalog import (
    TABLE_DATABASE,
    Catalog,
    Reading,
    SourceRead,
    SqlView,
    UndecodedParam,
    with_named,
)
from kafkalog_cli.spark.queries.confinement import check_analysed, check_parsed
from kafkalog_cli.spark.queries.plans import (
    VIEW,
    asks_for_names,
    depends_on_the_moment,
    is_query,
    named_relations,
    takes_where_for_a_name,
    used_columns,
)
from kafkalog_cli.spark.queries.ranges import used_ranges

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession

_DATABASE = "spark.sql.globalTempDatabase"

SETTINGS = {
    _DATABASE: TABLE_DATABASE,
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1024",  # a tenth of the default, which ignores the size of rows
}
"""The settings that a session must be started with."""

Render = Callable[[Iterator[Any]], Iterator[Any]]
"""A function from RecordBatches to any values; it is pickled and runs in a worker."""

_NOT_FOUND = "TABLE_OR_VIEW_NOT_FOUND"
_NO_QUERY = UsageError(reason="sql runs queries: nothing is created, set or written by a statement")
_CAUSE = re.compile(r"^Caused by: [\w.$]+: (.+)$", re.MULTILINE)


class ResultColumn(NamedTuple):
    """A column of a result: its name, its type in Spark's words, and whether it holds numbers."""

    name: str
    type: str
    is_number: bool


class Result:
    """The rows of a query. Each iteration runs the query again."""

    def __init__(self, dataframe: DataFrame) -> None:
        from pyspark.sql.types import NumericType

        self.columns = tuple(
            ResultColumn(field.name, field.dataType.simpleString(), isinstance(field.dataType, NumericType))
            for field in dataframe.schema.fields
        )
        self.arrow_schema = _arrow_schema(self.columns, dataframe.schema)
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
def query(
    spark: SparkSession, catalog: Catalog, text: str, reading: Reading, allowed: frozenset[Allowed] = frozenset()
) -> Iterator[Result]:
    """Yield the result of a query in SQL; the views that it needs exist as long as the context.

    Raises as `query_rows`, and UsageError for a column of a type that Arrow does not have.
    """
    with query_rows(spark, catalog, text, reading, allowed) as rows:
        yield Result(rows)


@contextmanager
def query_rows(  # noqa: PLR0913
    spark: SparkSession,
    catalog: Catalog,
    text: str,
    reading: Reading,
    allowed: frozenset[Allowed] = frozenset(),
    *,
    is_kept: bool = False,
) -> Iterator[DataFrame]:
    """Yield the rows of a query in SQL, which reads only the columns and ranges that it uses.

    The views of the query exist as long as the context. `is_kept`: the DataFrame is also used later, when a function
    such as `now` has another value. A query with such a function then reads all ranges.

    Raises UsageError for text that Spark does not understand, for anything but a query, for a query that needs more
    than `allowed`, and for topics found twice.
    """
    catalog.case_sensitive = spark.conf.get("spark.sql.caseSensitive") == "true"
    views = _Views(spark, with_named(reading, text), catalog, is_kept=is_kept)
    try:
        with _plainly(catalog):
            session = spark._jsparkSession
            parsed = session.sessionState().sqlParser().parsePlan(text)
            _check_form(parsed, catalog)
            if not is_query(spark._jvm, parsed):  # before the analysis, which would run EXECUTE IMMEDIATE text
                raise _NO_QUERY
            check_parsed(spark, parsed, allowed)
            names = named_relations(parsed)
            for name in names:
                views.add(name, catalog)
            views.check_structs()
            views.check_views_of_session(names)
            views.register_stand_ins()
            execution = _planned(spark, parsed, allowed)
            has_ranges = not (is_kept and depends_on_the_moment(spark._jvm, execution.analyzed()))
            rows = views.aggregated(execution) if has_ranges else None
            if rows is None:
                views.register(execution.optimizedPlan(), has_ranges=has_ranges)
                rows = spark.sql(text)
        yield rows
    finally:
        views.drop()


def _check_form(parsed: Any, catalog: Catalog) -> None:
    """Raise UsageError for statements for which our message is better than Spark's."""
    if asks_for_names(parsed):
        raise UsageError(reason=f"sql runs queries: {catalog.listed()}")
    if takes_where_for_a_name(parsed):
        raise UsageError(
            reason="Spark reads `offset` after `where` as its clause OFFSET here:"
            " write `where (offset in …)`, with parentheses"
        )


def _planned(spark: SparkSession, parsed: Any, allowed: frozenset[Allowed]) -> Any:
    """Return the plans of a query, as Spark's QueryExecution.

    Nothing is run, not even a command. Raises UsageError for anything but a query.
    """
    jvm: Any = spark._jvm
    session = spark._jsparkSession
    skip = jvm.org.apache.spark.sql.execution.CommandExecutionMode.SKIP()
    execution = session.sessionState().executePlan(parsed, skip)
    execution.assertAnalyzed()
    if not is_query(jvm, execution.analyzed()):
        raise _NO_QUERY
    check_analysed(execution.analyzed(), allowed)
    return execution


class _Views:
    """The views of one query in a session, by their identifiers in SQL."""

    def __init__(self, spark: SparkSession, reading: Reading, catalog: Catalog, *, is_kept: bool) -> None:
        self._spark = spark
        self._reading = reading
        self._catalog = catalog
        self._is_kept = is_kept
        self._found: dict[tuple[str, ...], SqlView] = {}
        self._without_structs: dict[str, UsageError] = {}

    def add(self, name: tuple[str, ...], catalog: Catalog) -> None:
        """Add the view that the query calls `name`, if there is one. Raises UsageError."""
        if len(name) == 1:
            view = catalog.find(name[0])
        elif len(name) == 2 and name[0].casefold() == TABLE_DATABASE:
            view = catalog.find_table(name[1])
            if view is None:  # Spark may take such a name for a file of the format `kafkalog`
                raise UsageError(reason=catalog.about(".".join(name), name))
            if self._spark.conf.get(_DATABASE) != TABLE_DATABASE:
                raise UsageError(
                    reason=f"{'.'.join(name)} needs a session that was started with {_DATABASE}={TABLE_DATABASE}:"
                    " session(settings={…}), or kafkalog sql"
                )
        else:
            return
        if view is not None:
            key = (*name[:-1], view.name)
            self._found[key] = view if view.table is not None else self._with_structs(view, catalog)

    def _with_structs(self, view: SqlView, catalog: Catalog) -> SqlView:
        """Return the view with its columns of structs, and remember why it has none."""
        if not self._reading.structs:
            return view
        from kafkalog_cli.ops.scans.structs.columns import StructTypes

        types, typed = StructTypes(catalog.fs, self._reading.decoding, view.partitions), []
        for column in self._reading.structs:
            try:
                typed.append(types.typed(column))
            except UsageError as error:
                self._without_structs[column.name] = error
        return view._replace(structs=tuple(typed))

    def check_structs(self) -> None:
        """Raise UsageError if the query names a column of structs that no topic of the query has."""
        known = {column.name for view in self._found.values() for column in view.structs}
        for name, error in self._without_structs.items():
            if name not in known:
                raise error

    def check_views_of_session(self, names: Iterable[tuple[str, ...]]) -> None:
        """Raise UsageError if a temporary view that the query names may itself mean a topic of the query.

        Spark keeps a view made by SQL as text. The names in it would then be those of the topics.
        """
        known = self._spark._jsparkSession.sessionState().catalog()
        hidden = [key[0] for key in self._found if len(key) == 1 and known.getTempView(key[0]).isDefined()]
        ours = {key[0].casefold() for key in self._found}
        of_session = [name[0] for name in names if len(name) == 1 and name[0].casefold() not in ours]
        of_session = [name for name in of_session if known.getTempView(name).isDefined()]
        if hidden and of_session:
            raise UsageError(
                reason=f"{hidden[0]} is a topic or table here and a temporary view of the session, which"
                f" {of_session[0]} may mean: give the temporary view another name"
            )

    def register_stand_ins(self) -> None:
        """Register views without rows, whose columns carry the name of their view."""
        from pyspark.sql.types import StructField, StructType

        for key, view in self._found.items():
            fields = view.schema(self._reading).fields
            marked = [StructField(one.name, one.dataType, True, {VIEW: _identifier(key)}) for one in fields]
            empty = self._spark.sparkContext.emptyRDD()
            self._create(key, self._spark.createDataFrame(empty, StructType(marked), verifySchema=False))

    def aggregated(self, execution: Any) -> DataFrame | None:
        """Return the rows of a query whose records are aggregated in tasks; None if its plan is not of that kind."""
        if self._reading.mode is not Mode.FAILFAST:
            return None
        plan = execution.optimizedPlan()
        topics = {_identifier(key): view for key, view in self._found.items() if view.table is None}
        ranges = used_ranges(plan, {name: view.numbers for name, view in topics.items()})

        def load(name: str, columns: Sequence[str], partials: Partials, schema: Any) -> LoadedGroups | None:
            wanted = ranges.get(name)
            if name not in topics or wanted is None or wanted.is_empty:
                return None
            view = topics[name]
            scan = view.scan(columns_named(columns), self._reading, wanted).of_partials(partials, schema)
            return LoadedGroups(self._rows_of(scan), sum(map(log_bytes, view.partitions)))

        rows = with_partials(self._spark, plan, load)
        return None if rows is None else rows.toDF(*execution.analyzed().schema().fieldNames())

    def register(self, plan: Any, *, has_ranges: bool) -> None:
        """Replace the stand-ins by views that read only what an optimised plan uses; unused views stay empty.

        Without `has_ranges`, the views read only the columns that the plan uses, but all records.
        """
        found = self._found if has_ranges else {}
        topics = {_identifier(key): view.numbers for key, view in found.items() if view.table is None}
        columns, ranges = used_columns(plan), used_ranges(plan, topics)
        for key, view in self._found.items():
            name = _identifier(key)
            wanted = ranges.get(name)
            if name in columns and (wanted is None or not wanted.is_empty):
                self._create(key, view.dataframe(self._rows_of, frozenset(columns[name]), self._reading, wanted))

    def _rows_of(self, scan: SourceRead) -> DataFrame:
        if self._is_kept:
            return scan.by_source(self._spark)
        if scan.decodes:
            if self._catalog.undecoded is None:
                param: Any = UndecodedParam()
                self._catalog.undecoded = self._spark.sparkContext.accumulator({}, param)
            return scan.planned_here(self._spark, self._catalog.undecoded)
        return scan.planned_here(self._spark) if self._catalog.is_small else scan.by_source(self._spark)

    def drop(self) -> None:
        for key in self._found:
            if len(key) > 1:
                self._spark.catalog.dropGlobalTempView(key[-1])
            else:
                self._spark.catalog.dropTempView(key[0])  # the bare name, not an identifier in SQL

    def _create(self, key: tuple[str, ...], dataframe: DataFrame) -> None:
        if len(key) > 1:
            dataframe.createOrReplaceGlobalTempView(key[-1])
        else:
            dataframe.createOrReplaceTempView(_identifier(key))


def _identifier(key: tuple[str, ...]) -> str:
    return ".".join("`" + part.replace("`", "``") + "`" for part in key)


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
            raise _NO_QUERY from None
        raise


def _reason(error: Any, catalog: Catalog) -> str:
    text = str(error).strip()
    place = re.search(r"line (\d+),? pos (\d+)", text)
    where = "" if place is None else f" (line {place[1]}, position {int(place[2]) + 1})"
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
