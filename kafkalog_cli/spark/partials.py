"""The data source `kafkalog-partials` of Spark: groups of records, which each task counts, sums and compares in Arrow.

`queries/aggregates.py` makes its options of a query. A group has a row for each task that read records of it, or more.
Expressions are lists in JSON: ["column", NAME], ["literal", TYPE, VALUE], ["floor", UNIT, TIMESTAMP], or a name of
`_FUNCTIONS` and its arguments.
The types are Spark's. Bytes are written in hexadecimal, and timestamps as microseconds since the epoch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from pyspark.sql.datasource import DataSource, DataSourceReader

from kafkalog_cli.errors import KafkalogError
from kafkalog_cli.ops.scans.options import read_options
from kafkalog_cli.ops.scans.schema import arrow_of, arrow_schema_of
from kafkalog_cli.spark.jobs import without_traceback
from kafkalog_cli.spark.source import Reader

Expression = list[Any]

MOST_GROUPS = 1 << 17
"""The most groups that a task holds. With more groups, a group has several rows."""

LEAST_ALONE = 1 << 12
"""From so many groups on, the groups of a RecordBatch are not held if they are more than half of its records."""

_FUNCTIONS = {
    "and": "and_kleene", "or": "or_kleene", "not": "invert", "is null": "is_null", "is not null": "is_valid",
    "=": "equal", "<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal",
}  # fmt: skip
"""Arrow's names of the functions in expressions. All treat null as SQL does."""

AGAIN = {"count": "sum", "sum": "sum", "min": "min", "max": "max"}
"""How the results of a function over parts of a group become its result over the group; Arrow and Spark agree."""


class Partials(NamedTuple):
    """The question to a task: to keep records for which all `conditions` are true, and to group them.

    The columns of the result are `groups`, then the results of `calls`: a key of AGAIN, and its argument. Equal values
    of all `groups` make a group, null among them. Without `groups`, all records are one group.
    """

    conditions: list[Expression]
    groups: list[Expression]
    calls: list[tuple[str, Expression]]

    @classmethod
    def of_json(cls, text: str) -> Partials:
        """Return what `to_json` wrote."""
        return cls(*json.loads(text))

    def to_json(self) -> str:
        """Return it as an option of the source."""
        return json.dumps(self)

    def rows(self, batches: Iterator[Any], schema: Any) -> Iterator[Any]:
        """Iterate over RecordBatches of `schema`: the groups of some RecordBatches, held until they are MOST_GROUPS."""
        held: list[Any] = []
        for batch in batches:
            found = self._grouped([call for call, _ in self.calls], *self._values(batch), schema)
            if found.num_rows > max(batch.num_rows // 2, LEAST_ALONE):  # combining helps little here
                yield from found.to_batches()
                continue
            held.append(found)
            if sum(part.num_rows for part in held) > MOST_GROUPS:
                held = [self._combined(held, schema)]
                if held[0].num_rows > MOST_GROUPS // 2:
                    yield from held.pop().to_batches()
        if held:
            yield from self._combined(held, schema).to_batches()

    def _values(self, batch: Any) -> tuple[list[Any], list[Any]]:
        """Return the groups and the arguments of the calls as arrays of the records that are kept."""
        for condition in self.conditions:
            batch = batch.filter(_value(condition, batch))
        return (
            [_value(group, batch) for group in self.groups],
            [_value(argument, batch) for _, argument in self.calls],
        )

    def _combined(self, tables: list[Any], schema: Any) -> Any:
        import pyarrow as pa

        columns = pa.concat_tables(tables).columns
        groups, results = columns[: len(self.groups)], columns[len(self.groups) :]
        return self._grouped([AGAIN[call] for call, _ in self.calls], groups, results, schema)

    @staticmethod
    def _grouped(calls: list[str], groups: list[Any], arguments: list[Any], schema: Any) -> Any:
        """Return a Table with a row for each group."""
        import pyarrow as pa

        columns = dict(zip(schema.names, [*groups, *arguments], strict=True))
        names = list(columns)[: len(groups)]
        wanted = list(zip(schema.names[len(groups) :], calls, strict=True))
        found = pa.table(columns).group_by(names, use_threads=False).aggregate(wanted)
        results = [*(found.column(name) for name in names), *(found.column(f"{name}_{call}") for name, call in wanted)]
        return pa.table(dict(zip(schema.names, results, strict=True))).cast(schema)


def _value(expression: Expression, batch: Any) -> Any:
    """Return the value of an expression for each row."""
    import pyarrow as pa
    import pyarrow.compute as pc

    name, *arguments = expression
    if name == "column":
        return batch.column(arguments[0])
    if name == "literal":
        kind, value = arguments
        scalar = pa.scalar(bytes.fromhex(value) if kind == "binary" else value, arrow_of(kind))
        return pa.repeat(scalar, batch.num_rows)
    if name == "floor":
        unit, value = arguments[0], _value(arguments[1], batch)
        floor = pc.floor_temporal(value, unit=unit)
        if pc.any(pc.greater(floor, value)).as_py():  # Arrow does not report the overflow
            raise KafkalogError(
                reason=f"date_trunc: a timestamp is in the first {unit} that Spark has, which is not whole"
            )
        return floor
    return pc.call_function(_FUNCTIONS[name], [_value(one, batch) for one in arguments])


class PartialsDataSource(DataSource):
    """Options: those of the source `kafkalog`, and `partials` (Partials in JSON). The schema must be given."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return "kafkalog-partials"

    @without_traceback()
    def reader(self, schema: Any) -> DataSourceReader:
        """Return a reader of groups."""
        options = dict(self.options)
        partials = Partials.of_json(options.pop("partials"))
        return PartialsReader(Reader(read_options(options)), partials, schema)


class PartialsReader(DataSourceReader):
    """Reads groups. Spark pickles it to every worker."""

    def __init__(self, reader: Reader, partials: Partials, schema: Any) -> None:
        self._reader = reader
        self._partials = partials
        self._schema = schema

    def partitions(self) -> list[Any]:
        """Return the tasks of the records."""
        return self._reader.partitions()

    def read(self, partition: Any) -> Iterator[Any]:
        """Iterate over the RecordBatches of a task."""
        with without_traceback():
            yield from self._partials.rows(self._reader.read(partition), arrow_schema_of(self._schema))
