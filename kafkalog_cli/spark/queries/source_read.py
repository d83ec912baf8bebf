"""Reads of this package's sources in a query. Either Spark or this process plans the tasks of a read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
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

    def planned_here(self, spark: SparkSession) -> DataFrame:
        """Return the rows of tasks that this process plans now, so that Spark starts Python for the tasks only.

        Each task gets the plans of all tasks, so this is for few tasks. Raises the errors of the source's reader.
        """
        from pyspark.sql import DataFrame
        from pyspark.sql.udf import UserDefinedFunction
        from pyspark.util import PythonEvalType

        reader: Any = self.source(dict(self.options)).reader(self.schema)
        tasks = reader.partitions()
        numbers = spark.range(0, len(tasks), 1, max(len(tasks), 1))
        # DataFrame.mapInArrow needs pandas, which kafkalog does not.
        kind, name = PythonEvalType.SQL_MAP_ARROW_ITER_UDF, self.source.name()
        read: Any = UserDefinedFunction(partial(_rows, reader, tasks), self.schema, name, kind)
        rows: Any = numbers
        return DataFrame(rows._jdf.mapInArrow(read(numbers.id)._jc, False, None), spark)


def _rows(reader: DataSourceReader, tasks: Sequence[Any], numbers: Iterator[Any]) -> Iterator[Any]:
    """Iterate over the RecordBatches of the tasks whose numbers are given."""
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            yield from reader.read(tasks[number])
