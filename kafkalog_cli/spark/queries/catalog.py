"""The views that a query can name: the topics under the paths, and the tables, which `kafkalog.NAME` names too.

If a topic has a table's name, the bare name is the topic. A view is made by a read of a source of this package: either
Spark or this process plans its tasks.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.errors import UsageError, did_you_mean
from kafkalog_cli.format.values.value_format import ValueFormat
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops.choices import Isolation, Mode
from kafkalog_cli.ops.decoding import Decoding
from kafkalog_cli.ops.engine import log_bytes
from kafkalog_cli.ops.read.visible import ReadNote
from kafkalog_cli.ops.scans.offsets import unique
from kafkalog_cli.ops.scans.schema import (
    BATCH_COLUMNS,
    FAULT,
    HEADERS,
    KAFKA_COLUMNS,
    RECORDS,
    SIZE_COLUMNS,
    STRUCT_COLUMNS,
    TEXT_COLUMNS,
    SourceColumn,
)
from kafkalog_cli.ops.scans.tables import TABLES, Table
from kafkalog_cli.ops.selection import Selection, select_served
from kafkalog_cli.ops.values import UndecodedCounts
from kafkalog_cli.spark.queries.ranges import ScanRange
from kafkalog_cli.spark.starting import SMALL_BYTES
from kafkalog_cli.spark.types import spark_schema

if TYPE_CHECKING:
    from pyspark.accumulators import Accumulator
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.datasource import DataSource, DataSourceReader

    from kafkalog_cli.spark.partials import Partials


class SourceRead(NamedTuple):
    """A read by a source of this package: the source's class, its options, and the columns as a StructType."""

    source: type[DataSource]
    options: Mapping[str, str]
    schema: Any

    def of_partials(self, partials: Partials, schema: Any) -> SourceRead:
        """Return the read of groups of these records; `schema` has the columns of the groups."""
        from kafkalog_cli.spark.partials import PartialsDataSource

        return SourceRead(PartialsDataSource, {**self.options, "partials": partials.to_json()}, schema)

    def by_source(self, spark: SparkSession) -> DataFrame:
        """Return the rows. Spark plans the read at each use of them, in Python processes that it starts for that."""
        from kafkalog_cli.spark.sessions import register_sources

        register_sources(spark)
        return spark.read.format(self.source.name()).options(**self.options).schema(self.schema).load()

    @property
    def decodes(self) -> bool:
        """Whether keys or values are decoded."""
        columns = self.options.get("columns", "").split(",")
        return any(name.endswith(("_json", "_struct")) for name in columns)

    def planned_here(self, spark: SparkSession, undecoded: Accumulator[Any] | None = None) -> DataFrame:
        """Return the rows of tasks that this process plans now, so that Spark starts Python for the tasks only.

        What the tasks cannot decode is added to `undecoded`. Each task gets the plans of all tasks, so this is for
        few tasks. Raises the errors of the source's reader.
        """
        from pyspark.sql import DataFrame
        from pyspark.sql.udf import UserDefinedFunction
        from pyspark.util import PythonEvalType

        reader: Any = self.source(dict(self.options)).reader(self.schema)
        reader.warns = undecoded is None
        tasks = reader.partitions()
        numbers = spark.range(0, len(tasks), 1, max(len(tasks), 1))
        # DataFrame.mapInArrow needs pandas, which kafkalog does not.
        kind, name = PythonEvalType.SQL_MAP_ARROW_ITER_UDF, self.source.name()
        read: Any = UserDefinedFunction(partial(_rows, reader, tasks, undecoded), self.schema, name, kind)
        rows: Any = numbers
        return DataFrame(rows._jdf.mapInArrow(read(numbers.id)._jc, False, None), spark)


def _rows(
    reader: DataSourceReader, tasks: Sequence[Any], undecoded: Accumulator[Any] | None, numbers: Iterator[Any]
) -> Iterator[Any]:
    """Iterate over the RecordBatches of the tasks whose numbers are given."""
    from kafkalog_cli.ops.scans.rows import take_undecoded

    for batch in numbers:
        for number in batch.column(0).to_pylist():
            yield from reader.read(tasks[number])
            if undecoded is not None:
                undecoded.add(take_undecoded())


class UndecodedParam:
    """Collects what tasks did not decode (an AccumulatorParam). Spark may run a task twice: a piece counts once."""

    def zero(self, value: dict[Any, Any]) -> dict[Any, Any]:
        """Return no counts."""
        return {}

    def addInPlace(self, value1: dict[Any, Any], value2: dict[Any, Any]) -> dict[Any, Any]:  # noqa: N802
        """Return all counts."""
        return {**value1, **value2}


RowsOf = Callable[[SourceRead], "DataFrame"]
"""Returns the rows of a read."""

TABLE_DATABASE = "kafkalog"
"""The database of the tables, whatever the topics are called: Spark's database of global temporary views."""

_SHOWN = 20


class Reading(NamedTuple):
    """How topics are read; the options of the source."""

    isolation: Isolation = Isolation.READ_UNCOMMITTED
    mode: Mode = Mode.FAILFAST
    include_control: bool = False
    decoding: Decoding = Decoding(ValueFormat.AUTO, ValueFormat.AUTO)
    texts: tuple[SourceColumn, ...] = ()
    """The columns of TEXT_COLUMNS that views of topics have."""
    structs: tuple[SourceColumn, ...] = ()
    """The columns of STRUCT_COLUMNS that views of topics have if the topic has a schema."""


def with_named(reading: Reading, query: str) -> Reading:
    """Return a reading with the columns of TEXT_COLUMNS and STRUCT_COLUMNS whose names a query contains.

    So `select *` without them has each value once.
    """
    texts, structs = (
        tuple(column for column in columns if column.name in query.casefold())
        for columns in (TEXT_COLUMNS, STRUCT_COLUMNS)
    )
    return reading._replace(texts=texts, structs=structs)


class SqlView(NamedTuple):
    """A view of a topic (`table` is None) or of a table; `partitions` are the partitions that it is read from."""

    name: str
    table: Table | None
    partitions: tuple[Partition, ...]
    structs: tuple[SourceColumn, ...] = ()
    """The columns of STRUCT_COLUMNS, with the types of this topic."""

    def schema(self, reading: Reading) -> Any:
        """Return all columns as a StructType."""
        from pyspark.sql.types import StructType

        if self.table is not None:
            return StructType.fromDDL(self.table.ddl)
        return spark_schema(self._of_record(reading))

    def columns(self, reading: Reading) -> tuple[str, ...]:
        """Return the names of all columns, without PySpark."""
        if self.table is not None:
            return tuple(self.table.row._fields)
        return tuple(column.name for column in self._of_record(reading))

    def _of_record(self, reading: Reading) -> tuple[SourceColumn, ...]:
        """Return the columns of a topic's view."""
        columns = (*KAFKA_COLUMNS, HEADERS, *BATCH_COLUMNS, *SIZE_COLUMNS, *reading.texts, *self.structs)
        return (*columns, FAULT) if reading.mode is Mode.PERMISSIVE else columns

    @property
    def numbers(self) -> frozenset[int]:
        """The numbers of the view's partitions."""
        return frozenset(one.number for one in self.partitions)

    def dataframe(
        self, rows_of: RowsOf, used: frozenset[str], reading: Reading, wanted: ScanRange | None = None
    ) -> DataFrame:
        """Return all columns, of which only the columns in `used` are read; the others are null.

        For a topic, `wanted` limits the records and must not be empty; None: all records. Raises UsageError if a
        partition is found twice.
        """
        if self.table is not None:
            from kafkalog_cli.spark.table_source import TableDataSource  # paths are checked before PySpark is there

            unique(self.partitions)
            options = {"table": self.table.name, "paths": self._paths(self.numbers), "mode": reading.mode.value}
            return rows_of(SourceRead(TableDataSource, options, self.schema(reading)))
        return self._of_topic(rows_of, used, reading, wanted)

    def scan(self, columns: Sequence[SourceColumn], reading: Reading, wanted: ScanRange | None = None) -> SourceRead:
        """Return the read of some columns of a topic; the parameters and errors are those of `dataframe`."""
        from kafkalog_cli.spark.source import KafkalogDataSource  # paths are checked before PySpark is there

        unique(self.partitions)
        wanted = wanted or ScanRange(self.numbers)
        options = {
            "paths": self._paths(wanted.partitions), "isolation": reading.isolation.value, "mode": reading.mode.value,
            "includeControl": str(reading.include_control).lower(), "columns": ",".join(one.name for one in columns),
            **reading.decoding.options(),
            **(wanted.records.options() if reading.mode is Mode.FAILFAST else {}),  # else damage could be missed
        }  # fmt: skip
        return SourceRead(KafkalogDataSource, options, spark_schema(columns))

    def _paths(self, numbers: frozenset[int]) -> str:
        return json.dumps([one.path for one in self.partitions if one.number in numbers])

    def _of_topic(self, rows_of: RowsOf, used: frozenset[str], reading: Reading, wanted: ScanRange | None) -> DataFrame:
        known = self._of_record(reading)
        columns = tuple(one for one in known if one.name in used or one == FAULT) or (RECORDS,)
        names = [one.name for one in columns if one != RECORDS]
        read = rows_of(self.scan(columns, reading, wanted))
        if not names:  # the number of records is enough: Spark generates the rows, none comes from a worker
            read = read.selectExpr(f"explode(sequence(1, {RECORDS.name}))")
        fields = spark_schema(known).fields
        return read.selectExpr(*(_expression(field, is_read=field.name in names) for field in fields))


def _expression(field: Any, *, is_read: bool) -> str:
    """Return a column of a view as SQL: text sends all columns to Java in one call."""
    return field.name if is_read else f"cast(null as {field.dataType.simpleString()}) as {field.name}"


class Catalog:
    """The views under some paths. Raises as `select_served`."""

    def __init__(self, fs: Filesystem, paths: Sequence[str]) -> None:
        self.fs = fs
        self.case_sensitive = False
        """The value of spark.sql.caseSensitive."""
        self.undecoded: Accumulator[Any] | None = None
        """What the tasks of a query did not decode, by piece."""
        self._partitions = [one for one in select_served(fs, list(paths), Selection()) if _is_text(one.path)]
        self._topics: dict[str, list[Partition]] = {}
        for one in self._partitions:
            if one.segments or one.directory.is_metadata_log:
                self._topics.setdefault(one.topic, []).append(one)

    @property
    def is_small(self) -> bool:
        """Whether the logs under the paths are so small that Java compiles no query of them thoroughly."""
        return sum(map(log_bytes, self._partitions)) <= SMALL_BYTES

    def _fold(self, name: str) -> str:
        return name if self.case_sensitive else name.casefold()

    def undecoded_notes(self) -> list[ReadNote]:
        """Return what was not decoded, by partition and reason."""
        counts: dict[str, UndecodedCounts] = {}
        found = {} if self.undecoded is None else self.undecoded.value
        for (path, _), failures in sorted(found.items()):
            of_partition = counts.setdefault(path, UndecodedCounts())
            for one in failures:
                of_partition.add(one.what, one.reason, one.first_offset, one.records)
        return [ReadNote("undecoded", path, one.message) for path, count in counts.items() for one in count.failures()]

    def find(self, name: str) -> SqlView | None:
        """Return the view with this name; None if there is none. Raises UsageError if two topics have the name."""
        topics = [topic for topic in self._topics if self._fold(topic) == self._fold(name)]
        if len(topics) > 1:
            raise UsageError(
                reason=f"{name} may be either of the topics {', '.join(sorted(topics))}:"
                " --conf spark.sql.caseSensitive=true tells them apart"
            )
        if topics:
            return SqlView(topics[0], None, tuple(self._topics[topics[0]]))
        return self.find_table(name)

    def find_table(self, name: str) -> SqlView | None:
        """Return the table with this name; None if there is none, or if there is no partition to read it from."""
        table = next((one for one in TABLES.values() if self._fold(one.name) == self._fold(name)), None)
        if table is None:
            return None
        partitions = [one for one in self._partitions if table.topic in (None, one.topic)]
        return SqlView(table.name, table, tuple(partitions)) if partitions or table.topic is None else None

    def about(self, name: str, parts: Sequence[str]) -> str:
        """Return the message for a name that is not a view."""
        table = TABLES.get(self._fold(parts[-1]))
        if table is not None and table.topic is not None:
            return f"{name} is read from {table.topic}, which is not under these paths"
        whole = ".".join(parts)
        if len(parts) > 1 and whole in self._topics:
            return f"there is no view {name}; the topic is to be written `{whole}`, with backticks"
        if len(parts) == 1 and self.find(whole) is not None:
            return f"{name} has no versions, and no expression may make its name: a query names it as it is"
        question = did_you_mean(whole, [*sorted(self._topics), *TABLES])
        return f"there is no view {name}. {question or f'Views here: {self._names(whole)}'}"

    def listed(self) -> str:
        """Return the message for a statement that asks for the names of views or of their columns."""
        return f"the views here are {self._names('')}; `select * from NAME limit 0` shows the columns of one"

    def _names(self, like: str) -> str:
        known = [*sorted(self._topics), *TABLES]
        shown = difflib.get_close_matches(like, known, n=3) or known[:_SHOWN]
        return ", ".join(shown) + (f", and {len(known) - len(shown)} more" if len(known) > len(shown) else "")


def _is_text(path: str) -> bool:
    try:
        path.rpartition("/")[2].encode()
    except UnicodeEncodeError:
        return False
    return True
