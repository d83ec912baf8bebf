"""The data source `kafkalog-table` of Spark: a table of `tables.TABLES`, read from partition directories."""

import json
from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.errors import UsageError
from kafkalog_cli.ops.choices import Mode
from kafkalog_cli.ops.scans.tables import TABLES, Table
from kafkalog_cli.spark.jobs import without_traceback
from kafkalog_cli.spark.types import spark_schema


class TableDataSource(DataSource):
    """Options: `table` (a name), `paths` (a JSON list of partition directories) and `mode` (a Mode).

    In every mode but failfast, unreadable data is left out.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return "kafkalog-table"

    def schema(self) -> Any:
        """Return all columns, as a StructType."""
        return spark_schema(self._table.columns)

    def reader(self, schema: Any) -> DataSourceReader:
        """Return a reader of all columns."""
        return TableReader(self._table.name, json.loads(self.options["paths"]), Mode(self.options["mode"]))

    @property
    def _table(self) -> Table:
        name = self.options["table"]
        if name not in TABLES:
            raise UsageError(reason=f"there is no table {name}; there are {', '.join(TABLES)}")
        return TABLES[name]


class TableReader(DataSourceReader):
    """Reads a table. Spark pickles it to every worker."""

    def __init__(self, name: str, paths: list[str], mode: Mode) -> None:
        self._name = name
        self._paths = paths
        self._mode = mode

    def partitions(self) -> list[Any]:
        """Return a partition of Spark for each task; its value is a list of directories."""
        return [InputPartition(paths) for paths in TABLES[self._name].tasks(self._paths)]

    def read(self, partition: Any) -> Iterator[Any]:
        """Iterate over the RecordBatches of a task. For an empty read, Spark makes one task without a value."""
        with without_traceback():
            yield from TABLES[self._name].batches(RealFilesystem(), partition.value or [], self._mode)
