"""The data source `kafkalog-table` of Spark: a table of `tables.TABLES`, read from partition directories."""

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.errors import DamagedLog, UsageError
from kafkalog_cli.ops.choices import Mode
from kafkalog_cli.ops.scans.schema import arrow_schema_of
from kafkalog_cli.ops.scans.tables import TABLES, Table, Task
from kafkalog_cli.spark.jobs import without_traceback

MOST_ROWS = 1 << 13
_MOST_MS = ((1 << 63) - 1) // 1000


class TableDataSource(DataSource):
    """Options: `table` (a name), `paths` (a JSON list of partition directories) and `mode` (a Mode).

    In every mode but failfast, unreadable data is left out.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return "kafkalog-table"

    def schema(self) -> str:
        """Return all columns as DDL."""
        return self._table.ddl

    def reader(self, schema: Any) -> DataSourceReader:
        """Return a reader of all columns."""
        return TableReader(self._table.name, json.loads(self.options["paths"]), Mode(self.options["mode"]), schema)

    @property
    def _table(self) -> Table:
        name = self.options["table"]
        if name not in TABLES:
            raise UsageError(reason=f"there is no table {name}; there are {', '.join(TABLES)}")
        return TABLES[name]


class TableReader(DataSourceReader):
    """Reads a table. Spark pickles it to every worker."""

    def __init__(self, name: str, paths: list[str], mode: Mode, schema: Any) -> None:
        self._name = name
        self._paths = paths
        self._mode = mode
        self._schema = schema

    def partitions(self) -> list[Any]:
        """Return a partition of Spark for each task; its value is a list of directories."""
        task = TABLES[self._name].task
        many = task.value if task is not Task.EVERYTHING else len(self._paths) or 1
        return [InputPartition(self._paths[at : at + many]) for at in range(0, len(self._paths), many)]

    def read(self, partition: Any) -> Iterator[Any]:
        """Iterate over the RecordBatches of a task. For an empty read, Spark makes one task without a value."""
        with without_traceback():
            rows = TABLES[self._name].rows(RealFilesystem(), partition.value or [], self._on_damage)
            yield from record_batches(rows, arrow_schema_of(self._schema))

    def _on_damage(self, damage: DamagedLog) -> None:
        if self._mode is Mode.FAILFAST:
            raise damage


def record_batches(rows: Iterable[Any], schema: Any) -> Iterator[Any]:
    """Convert rows to RecordBatches of a schema that has their fields in their order."""
    import pyarrow as pa

    waiting = iter(rows)
    while part := list(islice(waiting, MOST_ROWS)):
        columns = zip(*part, strict=True)
        arrays = [_array(values, field.type) for values, field in zip(columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(values: tuple[Any, ...], kind: Any) -> Any:
    import pyarrow as pa

    if pa.types.is_timestamp(kind):
        return pa.array([None if one is None or abs(one) > _MOST_MS else one * 1000 for one in values], kind)
    if pa.types.is_list(kind):
        return pa.array([_plain(one) for one in values], kind)
    return pa.array(values, kind)


def _plain(value: Any) -> Any:
    """Convert structs to the dicts that pyarrow takes."""
    if hasattr(value, "_asdict"):
        return {name: _plain(part) for name, part in value._asdict().items()}
    return [_plain(part) for part in value] if isinstance(value, tuple) else value
