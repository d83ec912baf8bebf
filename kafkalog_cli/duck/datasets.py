"""Topics and tables as datasets of pyarrow, to which DuckDB gives the columns and the filter of each scan in its plan.

DuckDB relies on a dataset to return only the rows that pass the filter. Which partitions, offsets and times cannot pass
is a question to pyarrow, which leaves fragments out in the same way: no filter is parsed here.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import dataset
from pyarrow.fs import LocalFileSystem

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.errors import KafkalogError
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops.choices import Mode
from kafkalog_cli.ops.ranges import Range
from kafkalog_cli.ops.scans.catalog import Catalog, View
from kafkalog_cli.ops.scans.offsets import partitions_of, ranges_of
from kafkalog_cli.ops.scans.options import read_options
from kafkalog_cli.ops.scans.rows import rows_of
from kafkalog_cli.ops.scans.schema import FAULT, MOST_MS, arrow_schema
from kafkalog_cli.ops.scans.splits import tasks_of

_FORMAT, _NO_FILES = dataset.IpcFileFormat(), LocalFileSystem()
_MOST_OFFSET = (1 << 63) - 1
_FIRST = "partition"
"""The first column of a topic's dataset: DuckDB scans the first column of a dataset if it needs none."""


class ViewDataset(dataset.Dataset):  # type: ignore[misc]
    """A view of a query. `failure` is the error with which a scan ended."""

    def __init__(self, fs: Filesystem, catalog: Catalog, view: View) -> None:
        self.failure: BaseException | None = None
        self._fs, self._catalog, self._view = fs, catalog, view
        columns = sorted(view.columns, key=lambda column: column.name != _FIRST)
        self._schema = arrow_schema(columns)

    @property
    def schema(self) -> Any:
        """The columns."""
        return self._schema

    def scanner(self, columns: Sequence[str] | None = None, filter: Any = None) -> _Scan:  # noqa: A002
        """Return a scan of these columns (None: of all) of the rows that pass a filter (None: of all)."""
        return _Scan(self, self._schema.names if columns is None else list(columns), filter)

    def rows(self, schema: Any, condition: Any) -> Iterator[Any]:
        """Iterate over the RecordBatches of a scan."""
        try:
            for batch in self._batches(set(schema.names), condition):
                rows = pa.Table.from_batches([batch])
                passing = rows if condition is None else rows.filter(condition)
                yield from passing.select(schema.names).to_batches()
        except (KafkalogError, OSError) as error:
            self.failure = error
            raise

    def _batches(self, names: set[str], condition: Any) -> Iterator[Any]:
        """Iterate over RecordBatches with at least these columns and those of the condition."""
        view, fs, reading = self._view, self._fs, self._catalog.reading
        partitions = self._that_can_pass(condition)
        if view.table is not None:
            for paths in view.table.tasks([one.path for one in partitions]):
                yield from view.table.batches(fs, paths, reading.mode)
            return
        if not partitions:
            return
        of_condition = set(self._columns_of(condition))
        columns = [one for one in view.columns if one.name in names | of_condition or one == FAULT]
        options = read_options(view._replace(partitions=partitions).options(reading, [one.name for one in columns]))
        options = options._replace(columns=tuple(columns))
        if reading.mode is Mode.FAILFAST:  # else damage could be missed
            options = options._replace(records=self._range_of(condition, of_condition))
        for task in tasks_of(fs, ranges_of(fs, partitions_of(fs, options), options), None, None):
            yield from rows_of(fs, task, options)

    def _columns_of(self, condition: Any) -> Iterator[str]:
        """Iterate over the columns that a condition names: pyarrow refuses it without any of these."""
        for at, name in enumerate(self._schema.names if condition is not None else ()):
            try:
                _passable(condition, self._schema.remove(at), [dataset.scalar(value=True)])
            except pa.ArrowInvalid:
                yield name

    def _that_can_pass(self, condition: Any) -> tuple[Partition, ...]:
        """Return the partitions with rows that can pass a condition."""
        view = self._view
        if condition is None or (view.table is not None and view.table.topic is not None):
            return view.partitions  # `partition` is a column of other topics there
        topic, number = dataset.field("topic"), dataset.field("partition")
        of_partitions = [(topic == partition.topic) & (number == partition.number) for partition in view.partitions]
        return tuple(view.partitions[at] for at in _passable(condition, self._schema, of_partitions))

    def _range_of(self, condition: Any, names: set[str]) -> Range:
        """Return the offsets and times outside of which no record passes a condition that names these columns."""
        first, end = self._limits(condition, "offset", _MOST_OFFSET) if "offset" in names else (None, None)
        since, until = self._limits(condition, "timestamp", MOST_MS * 1000) if "timestamp" in names else (None, None)
        return Range(first, end, since and -(-since // 1000), until if until is None else -(-until // 1000))

    def _limits(self, condition: Any, name: str, most: int) -> tuple[int | None, int | None]:
        """Return from which value (inclusive) to which (exclusive) of a column a row can pass; None: without a limit.

        Each limit is the neighbour of a value for which pyarrow says that no row up to it, or from it on, can pass.
        """
        column, kind = dataset.field(name), self._schema.field(name).type

        def can_pass(values: Any) -> bool:
            return bool(_passable(condition, self._schema, [values]))

        first = bisect_left(range(most), True, key=lambda value: can_pass(column <= pa.scalar(value, kind)))
        end = bisect_left(range(most), True, key=lambda value: not can_pass(column >= pa.scalar(value, kind)))
        return first or None, None if end == most else end


class _Scan(NamedTuple):
    """A scan, as DuckDB asks for it."""

    view: ViewDataset
    columns: list[str]
    condition: Any

    def to_reader(self) -> Any:
        """Return a reader of the rows."""
        schema = pa.schema([self.view.schema.field(name) for name in self.columns])
        return pa.RecordBatchReader.from_batches(schema, self.view.rows(schema, self.condition))


def _passable(condition: Any, schema: Any, guarantees: Sequence[Any]) -> list[int]:
    """Return the numbers of the guarantees, expressions that are true for some rows, with which a row can pass.

    Raises ArrowInvalid if the schema lacks a column of the condition.
    """
    fragments = [_FORMAT.make_fragment(str(at), _NO_FILES, guarantee) for at, guarantee in enumerate(guarantees)]
    matching = dataset.FileSystemDataset(fragments, schema, _FORMAT).get_fragments(condition)
    return sorted(int(fragment.path) for fragment in matching)
