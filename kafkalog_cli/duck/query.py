"""Runs one query: each view is a stream of Arrow that DuckDB opens at each scan, and reads the columns of its plan.

First the query is planned over the streams, whose columns have names of their own in it. The plan says which columns
it scans, and the streams then have values only in those. No word of the query is taken for a column.

DuckDB reaches no file, extension or setting: it has a configuration for that, which is locked before the query.
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.disk.temporary import temporary_directory
from kafkalog_cli.errors import KafkalogError, UsageError
from kafkalog_cli.ops.look.read.visible import ReadNote
from kafkalog_cli.ops.scans.catalog import TABLE_DATABASE, Catalog, ResultColumn, View
from kafkalog_cli.ops.scans.offsets import partitions_of, ranges_of
from kafkalog_cli.ops.scans.options import read_options
from kafkalog_cli.ops.scans.rows import MOST_ROWS, rows_of, take_undecoded, undecoded_notes
from kafkalog_cli.ops.scans.schema import FAULT, arrow_schema
from kafkalog_cli.ops.scans.splits import tasks_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

ROWS_AT_ONCE = 1 << 13
_NUMBERS = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|FLOAT|DOUBLE|DECIMAL.*")

_OF_THE_SYSTEM = frozenset(("information_schema", "pg_catalog"))
"""Schemas of DuckDB's own views."""

_SPARK_NAMES = (
    "create macro get_json_object(json, path) as json_extract_string(json, path)",
    "create macro unix_millis(timestamp) as epoch_ms(timestamp)",
    "create macro timestamp_millis(ms) as make_timestamp(1000 * ms)::timestamptz",
)
"""Functions of Spark that queries of logs need most."""


@contextmanager
def query(fs: Filesystem, catalog: Catalog) -> Iterator[Result]:
    """Yield the result of the catalog's query. Raises KafkalogError without DuckDB, and UsageError.

    A UsageError is for text that DuckDB does not understand, for anything but one query, and for a column of a type
    that only DuckDB has.
    """
    _need_duckdb()
    with _connection() as connection:
        streams = _Streams(fs, catalog)
        with streams.plain_errors():
            statement = _only_query(connection, catalog.query)
            if statement.casefold().lstrip().startswith("show"):
                raise UsageError(reason=f"sql runs queries: {catalog.listed()}")
            streams.register(connection, catalog.query)
            relation = connection.sql(statement)  # errors are found here, where positions are those of the text
            (plan,) = connection.execute(f"explain (format json) {statement}").fetchall()
            streams.use(set(_scanned(json.loads(plan[1]))))
            yield Result(connection, relation, streams)


def _need_duckdb() -> None:
    for module in ("duckdb", "pyarrow"):
        if importlib.util.find_spec(module) is None:
            raise KafkalogError(reason=f"--engine duckdb needs {module}: pip install 'kafkalog-cli[duckdb]'")


@contextmanager
def _connection() -> Iterator[DuckDBPyConnection]:
    """Yield an empty database in memory, which only its own directory for temporary files extends."""
    import duckdb

    with TemporaryDirectory(prefix="kafkalog-duckdb-", dir=temporary_directory()) as temporary:
        connection = duckdb.connect(":memory:")
        try:
            connection.execute("set temp_directory = $1", [temporary])
            for setting in (
                "set timezone = 'UTC'", "set python_enable_replacements = false",
                "set autoinstall_known_extensions = false", "set autoload_known_extensions = false",
                "set allow_community_extensions = false", "set enable_external_access = false",
                f"create schema {TABLE_DATABASE}", *_SPARK_NAMES, "set lock_configuration = true",
            ):  # fmt: skip
                connection.execute(setting)
            yield connection
        finally:
            connection.close()


def _only_query(connection: DuckDBPyConnection, text: str) -> str:
    """Return the only statement of a text. Raises UsageError if it is none or not a query."""
    statements = connection.extract_statements(text)
    with suppress(ValueError):  # a type that the package does not name
        if len(statements) == 1 and statements[0].type.name == "SELECT":
            return str(statements[0].query)
    raise UsageError(reason="sql runs queries, one at a time: nothing is created, set or written by a statement")


def _objects(node: Any) -> Iterator[dict[str, Any]]:
    """Iterate over the objects in the tree of a query."""
    if isinstance(node, dict):
        yield node
    for part in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _objects(part)


def _scanned(nodes: list[Any]) -> Iterator[str]:
    """Iterate over the columns that the scans of a plan read."""
    for node in nodes:
        if not node["children"]:
            columns = node["extra_info"].get("Projections", [])
            yield from [columns] if isinstance(columns, str) else columns
        yield from _scanned(node["children"])


class Result:
    """The rows of a query."""

    def __init__(self, connection: DuckDBPyConnection, relation: DuckDBPyRelation, streams: _Streams) -> None:
        import pyarrow as pa

        self._connection, self._relation, self._streams = connection, relation, streams
        kinds = [str(kind) for kind in relation.types]
        self.columns = tuple(
            ResultColumn(name, kind, _NUMBERS.fullmatch(kind) is not None)
            for name, kind in zip(relation.columns, kinds, strict=True)
        )
        schema = relation.limit(0).to_arrow_table().schema
        types = [_arrow_type(column, field.type) for column, field in zip(self.columns, schema, strict=True)]
        self.arrow_schema = pa.schema([pa.field(f"c{at}", kind) for at, kind in enumerate(types)])

    def rendered(self, render: Callable[[Iterator[Any]], Iterator[Any]], most_rows: int | None = None) -> Iterator[Any]:
        """Iterate over the results of `render` on RecordBatches of `arrow_schema`, which come in order."""
        return render(self.batches(most_rows))

    def batches(self, most_rows: int | None = None) -> Iterator[Any]:
        """Iterate over RecordBatches of `arrow_schema`. Raises the errors of the streams, and KafkalogError."""
        relation = self._relation if most_rows is None else self._relation.limit(most_rows)
        # DuckDB lets no signal through, so another thread waits for it.
        with self._streams.plain_errors(), ThreadPoolExecutor(1, "kafkalog-duckdb") as thread:
            try:
                reader = thread.submit(relation.to_arrow_reader, ROWS_AT_ONCE).result()
                while (batch := thread.submit(next, reader, None).result()) is not None:
                    yield self._converted(batch)
            except KeyboardInterrupt:
                self._connection.interrupt()
                raise

    def _converted(self, batch: Any) -> Any:
        import pyarrow as pa

        try:
            arrays = [array.cast(field.type) for array, field in zip(batch.columns, self.arrow_schema, strict=True)]
        except pa.ArrowInvalid as error:
            raise KafkalogError(reason=f"DuckDB: a number has more than 64 bits: {error}") from None
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow_schema)

    def notes(self) -> list[ReadNote]:
        """Return what was not decoded."""
        return self._streams.notes()


def _arrow_type(column: ResultColumn, kind: Any) -> Any:
    """Return the type of a column of a result. Raises UsageError for a type that files and text have no form for."""
    import pyarrow as pa

    if column.type == "HUGEINT":  # the sum of integers
        return pa.int64()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_interval(kind) or pa.types.is_time(kind) or column.type == "BIT":
        raise UsageError(reason=f"the column {column.name} is {column.type}: cast it to varchar")
    return kind


class _Streams:
    """The views of a query, as streams and as views that name their columns."""

    def __init__(self, fs: Filesystem, catalog: Catalog) -> None:
        self._fs, self._catalog = fs, catalog
        self._streams: list[_Stream] = []

    def register(self, connection: DuckDBPyConnection, text: str) -> None:
        """Make the views that a query names. Raises UsageError for a name that is none."""
        (tree,) = connection.execute("select json_serialize_sql($1)", [text]).fetchall()[0]
        objects = list(_objects(json.loads(tree)))
        of_query = {str(one["key"]).casefold() for one in objects if "key" in one}  # common table expressions
        known = set()
        for one in objects:
            parts = [str(one[name]) for name in ("schema_name", "table_name") if one.get(name)]
            if one.get("type") != "BASE_TABLE" or parts[0].casefold() in _OF_THE_SYSTEM:
                continue
            view = self._find(parts)
            if view is None and parts[-1].casefold() in of_query:
                continue
            if view is None:
                raise UsageError(reason=self._catalog.about(".".join(parts), parts))
            key = (*(part.casefold() for part in parts[:-1]), view.name)
            if key not in known:
                known.add(key)
                self._add(connection, key, view)
        self._catalog.check_structs()

    def _find(self, parts: list[str]) -> View | None:
        if len(parts) == 1:
            return self._catalog.find(parts[0])
        return self._catalog.find_table(parts[1]) if parts[0].casefold() == TABLE_DATABASE and len(parts) == 2 else None

    def _add(self, connection: DuckDBPyConnection, key: tuple[str, ...], view: View) -> None:
        stream = _Stream(self._fs, self._catalog, view, len(self._streams))
        self._streams.append(stream)
        connection.register(stream.name, stream)
        columns = ", ".join(f"{_quoted(stream.column(one.name))} as {_quoted(one.name)}" for one in view.columns)
        connection.execute(f"create view {'.'.join(map(_quoted, key))} as select {columns} from {_quoted(stream.name)}")

    def use(self, columns: set[str]) -> None:
        """Have values only in these columns from now on."""
        for stream in self._streams:
            stream.use(columns)

    def notes(self) -> list[ReadNote]:
        """Return what the streams did not decode."""
        return undecoded_notes(take_undecoded())

    @contextmanager
    def plain_errors(self) -> Iterator[None]:
        """Raise the error of a stream itself, and an error of DuckDB as UsageError or KafkalogError."""
        import duckdb

        try:
            yield
        except (duckdb.Error, OSError) as error:  # pyarrow raises OSError for a stream of DuckDB that fails
            for stream in self._streams:
                if stream.failure is not None:
                    raise stream.failure from None
            if not isinstance(error, duckdb.Error) and not type(error).__module__.startswith("pyarrow"):
                raise
            if isinstance(error, duckdb.InterruptException):
                raise KeyboardInterrupt from None
            of_query = (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException)
            if isinstance(error, (*of_query, duckdb.PermissionException)):
                raise UsageError(reason=f"DuckDB: {_message(error)}{_position(str(error))}") from None
            raise KafkalogError(reason=f"DuckDB: {_message(error)}") from None


def _message(error: BaseException) -> str:
    """Return DuckDB's message in a line."""
    said = " ".join(str(error).partition("\n\nLINE ")[0].split())
    if re.search('near "(from|where|=|[<>]=?|in|between|,)"', said):
        said += '; a column offset is written "offset", or with its view: orders.offset'
    return said


def _position(text: str) -> str:
    """Return the position in the query that a message marks in a copy of the line."""
    found = re.search(r"\n\n(LINE (\d+): ).*\n( *)\^", text)
    return "" if found is None else f" (line {found[2]}, position {len(found[3]) - len(found[1]) + 1})"


class _Stream:
    """A view as a stream that can be opened again. DuckDB opens it at each scan, and for its schema."""

    def __init__(self, fs: Filesystem, catalog: Catalog, view: View, number: int) -> None:
        import pyarrow as pa

        self.name = f"{number}"
        self.failure: BaseException | None = None
        self._fs, self._catalog, self._view = fs, catalog, view
        self._used: set[str] = set()
        named = [pa.field(self.column(one.name), one.type) for one in arrow_schema(view.columns)]
        # DuckDB scans the first column if it needs none.
        self._schema = pa.schema([pa.field(self.column(""), pa.int8()), *named])
        self._nothing = {field.type: pa.nulls(MOST_ROWS, field.type) for field in self._schema}

    def column(self, name: str) -> str:
        """Return the name of a column in the plan."""
        return f"{self.name}.{name}"

    def use(self, columns: set[str]) -> None:
        """Have values only in these columns of the plan."""
        self._used = {one.name for one in self._view.columns if self.column(one.name) in columns or one == FAULT}

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Open the stream."""
        import pyarrow as pa

        reader = pa.RecordBatchReader.from_batches(self._schema, self._batches())
        return reader.__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[Any]:
        import pyarrow as pa

        try:
            for rows in self._rows():
                known = {self.column(name): rows.column(name) for name in rows.schema.names}
                arrays = [known.get(one.name, self._nothing[one.type].slice(0, len(rows))) for one in self._schema]
                yield pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        except (KafkalogError, OSError) as error:
            self.failure = error
            raise

    def _rows(self) -> Iterator[Any]:
        """Iterate over RecordBatches that have at least the columns used."""
        view, fs, reading = self._view, self._fs, self._catalog.reading
        if view.table is not None:
            for paths in view.table.tasks([one.path for one in view.partitions]):
                yield from view.table.batches(fs, paths, reading.mode)
            return
        columns = [one.name for one in view.columns if one.name in self._used] or ["partition"]
        options = read_options(view.options(reading, columns))
        options = options._replace(columns=tuple(one for one in view.columns if one.name in columns))
        for task in tasks_of(fs, ranges_of(fs, partitions_of(fs, options), options), None, None):
            yield from rows_of(fs, task, options)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
