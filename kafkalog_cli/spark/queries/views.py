"""The views of one query in a session of Spark: first empty stand-ins, then reads by the sources of this package."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from kafkalog_cli.errors import UsageError
from kafkalog_cli.log.partition import log_bytes
from kafkalog_cli.ops.choices import Mode
from kafkalog_cli.ops.scans.catalog import TABLE_DATABASE, Catalog, View
from kafkalog_cli.ops.scans.schema import FAULT, RECORDS
from kafkalog_cli.spark.queries.groups import Loaded, with_groups
from kafkalog_cli.spark.queries.usage import VIEW, Box, Usage
from kafkalog_cli.spark.starting import SMALL_BYTES
from kafkalog_cli.spark.types import spark_schema

if TYPE_CHECKING:
    from pyspark.accumulators import Accumulator
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.datasource import DataSourceReader

DATABASE_SETTING = "spark.sql.globalTempDatabase"

Name = tuple[str, ...]


class Views:
    """The views of one query, by their names in it.

    `is_kept`: the rows are also used after the context of the query, so Spark plans the reads at each use. Otherwise
    this process plans reads of small logs, and of decoded contents, whose failures `undecoded` has.
    """

    def __init__(self, spark: SparkSession, catalog: Catalog, *, is_kept: bool) -> None:
        self._spark = spark
        self._catalog = catalog
        self._is_kept = is_kept
        self._is_small = catalog.size_bytes <= SMALL_BYTES
        self._found: dict[Name, View] = {}
        self.undecoded: Accumulator[Any] | None = None

    def add(self, names: Collection[Name]) -> None:
        """Add the views that a query names, as stand-ins without rows. Raises UsageError."""
        for name in names:
            view = self._find(name)
            if view is not None:
                key = (*name[:-1], view.name)
                self._found[key] = view
        self._catalog.check_structs()
        self._check_views_of_session(names)
        for key, view in self._found.items():
            self._create(key, self._stand_in(key, view))

    def _find(self, name: Name) -> View | None:
        view = self._catalog.named(name)
        if len(name) > 1 and view is not None and self._spark.conf.get(DATABASE_SETTING) != TABLE_DATABASE:
            raise UsageError(
                reason=f"{'.'.join(name)} needs a session that was started with {DATABASE_SETTING}={TABLE_DATABASE}:"
                " session(settings={…}), or kafkalog sql"
            )
        return view

    def _check_views_of_session(self, names: Collection[Name]) -> None:
        """Raise UsageError if a temporary view that the query names may itself mean a topic of the query.

        Spark keeps a view made by SQL as text. The names in it would then be those of the topics.
        """
        known = self._spark._jsparkSession.sessionState().catalog()
        ours = {key[0].casefold() for key in self._found}
        hidden = [key[0] for key in self._found if len(key) == 1 and known.getTempView(key[0]).isDefined()]
        of_session = [name[0] for name in names if len(name) == 1 and name[0].casefold() not in ours]
        of_session = [name for name in of_session if known.getTempView(name).isDefined()]
        if hidden and of_session:
            raise UsageError(
                reason=f"{hidden[0]} is a topic or table here and a temporary view of the session, which"
                f" {of_session[0]} may mean: give the temporary view another name"
            )

    def _stand_in(self, key: Name, view: View) -> DataFrame:
        """Return no rows, in columns that carry the name of their view."""
        from pyspark.sql.types import StructField, StructType

        fields = spark_schema(view.columns).fields
        marked = [StructField(field.name, field.dataType, True, {VIEW: identifier(key)}) for field in fields]
        empty = self._spark.sparkContext.emptyRDD()
        return self._spark.createDataFrame(empty, StructType(marked), verifySchema=False)

    def planned(self, execution: Any, *, has_boxes: bool) -> DataFrame | None:
        """Return the rows of a query whose records are grouped in tasks.

        For any other query, replace the stand-ins by views that read only what its plan uses, and return None; a view
        of which nothing is used stays empty. Without `has_boxes`, all records are read.
        """
        plan, reading = execution.optimizedPlan(), self._catalog.reading
        topics = {identifier(key): view for key, view in self._found.items() if view.table is None}
        usage = Usage(plan, {name: view.numbers for name, view in topics.items()} if has_boxes else {})

        def load(name: str, columns: list[str]) -> Loaded | None:
            box = usage.boxes.get(name)
            if box is None or box.is_empty:
                return None
            view = topics[name]
            return Loaded(self._read(view, columns, box), sum(map(log_bytes, view.partitions)))

        rows = with_groups(self._spark, plan, load) if has_boxes and reading.mode is Mode.FAILFAST else None
        if rows is not None:
            return rows.toDF(*execution.analyzed().schema().fieldNames())
        for key, view in self._found.items():
            name = identifier(key)
            box = usage.boxes.get(name)
            if name in usage.columns and (box is None or not box.is_empty):
                self._create(key, self._rows(view, usage.columns[name], box))
        return None

    def _rows(self, view: View, used: set[str], box: Box | None) -> DataFrame:
        """Return all columns of a view, of which only the columns in `used` are read; the others are null."""
        if view.table is not None:
            return self._read(view, [], box)
        read = [column.name for column in view.columns if column.name in used or column == FAULT] or [RECORDS.name]
        rows = self._read(view, read, box)
        if read == [RECORDS.name]:  # the number is enough: Spark generates the rows, none comes from a worker
            rows = rows.selectExpr(f"explode(sequence(1, {RECORDS.name}))")
        fields = spark_schema(view.columns).fields
        return rows.selectExpr(  # text sends all columns to Java in one call
            *(
                column.name
                if column.name in read
                else f"cast(null as {column.dataType.simpleString()}) as {column.name}"
                for column in fields
            )
        )

    def _read(self, view: View, columns: Sequence[str], box: Box | None) -> DataFrame:
        """Return some columns of the records in a box (None: of all records); of a table, all columns and rows."""
        from kafkalog_cli.spark.source import KafkalogDataSource
        from kafkalog_cli.spark.table_source import TableDataSource

        reading = self._catalog.reading
        options = view.options(reading, columns, None if box is None else box.partitions)
        if box is not None and reading.mode is Mode.FAILFAST:  # else damage could be missed
            options |= box.options()
        source = KafkalogDataSource if view.table is None else TableDataSource
        known = {column.name: column for column in view.columns}
        schema = spark_schema([known.get(name, RECORDS) for name in columns] if view.table is None else view.columns)
        decodes = any(name.endswith(("_json", "_struct")) for name in columns)
        if self._is_kept or not (self._is_small or decodes):
            from kafkalog_cli.spark.sessions import register_sources

            register_sources(self._spark)
            return self._spark.read.format(source.name()).options(**options).schema(schema).load()
        if decodes and self.undecoded is None:
            param: Any = _UndecodedParam()
            self.undecoded = self._spark.sparkContext.accumulator({}, param)
        reader: Any = source(options).reader(schema)
        return _planned_here(self._spark, reader, schema, self.undecoded if decodes else None)

    def drop(self) -> None:
        """Remove the views from the session."""
        for key in self._found:
            if len(key) > 1:
                self._spark.catalog.dropGlobalTempView(key[-1])
            else:
                self._spark.catalog.dropTempView(key[0])  # the bare name, not an identifier in SQL

    @staticmethod
    def _create(key: Name, rows: DataFrame) -> None:
        if len(key) > 1:
            rows.createOrReplaceGlobalTempView(key[-1])
        else:
            rows.createOrReplaceTempView(identifier(key))


def identifier(key: Name) -> str:
    """Return a name as an identifier in SQL."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in key)


def _planned_here(spark: SparkSession, reader: Any, schema: Any, undecoded: Accumulator[Any] | None) -> DataFrame:
    """Return the rows of tasks that this process plans now, so that Spark starts Python for the tasks only.

    What the tasks cannot decode is added to `undecoded`. Each task gets the plans of all tasks, so this is for few
    tasks. Raises the errors of the reader.
    """
    from pyspark.sql import DataFrame
    from pyspark.sql.udf import UserDefinedFunction
    from pyspark.util import PythonEvalType

    reader.warns = undecoded is None
    tasks = reader.partitions()
    numbers: Any = spark.range(0, len(tasks), 1, max(len(tasks), 1))
    # DataFrame.mapInArrow needs pandas, which kafkalog does not.
    kind = PythonEvalType.SQL_MAP_ARROW_ITER_UDF
    read: Any = UserDefinedFunction(partial(_read_tasks, reader, tasks, undecoded), schema, "kafkalog", kind)
    return DataFrame(numbers._jdf.mapInArrow(read(numbers.id)._jc, False, None), spark)


def _read_tasks(
    reader: DataSourceReader, tasks: Sequence[Any], undecoded: Accumulator[Any] | None, numbers: Iterator[Any]
) -> Iterator[Any]:
    """Iterate over the RecordBatches of the tasks whose numbers are given."""
    from kafkalog_cli.ops.scans.rows import take_undecoded

    for batch in numbers:
        for number in batch.column(0).to_pylist():
            yield from reader.read(tasks[number])
            if undecoded is not None:
                undecoded.add(take_undecoded())


class _UndecodedParam:
    """Collects what tasks did not decode (an AccumulatorParam). Spark may run a task twice: a piece counts once."""

    def zero(self, value: dict[Any, Any]) -> dict[Any, Any]:
        return {}

    def addInPlace(self, value1: dict[Any, Any], value2: dict[Any, Any]) -> dict[Any, Any]:  # noqa: N802
        return {**value1, **value2}
