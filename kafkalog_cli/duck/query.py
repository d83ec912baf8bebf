"""Runs one query: each view is a dataset, of which DuckDB reads the columns and rows that its plan uses.

DuckDB reaches no file, extension or setting: it has a configuration for that, which is locked before the query.
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.disk.temporary import temporary_directory
from kafkalog_cli.errors import KafkalogError, UsageError
from kafkalog_cli.ops.call.interruptions import POLL_SECONDS, Interruptions
from kafkalog_cli.ops.call.observer import Note
from kafkalog_cli.ops.scans.catalog import TABLE_DATABASE, Catalog, ResultColumn, View
from kafkalog_cli.ops.scans.rows import take_undecoded, undecoded_notes

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation
    from duckdb.sqltypes import DuckDBPyType

    from kafkalog_cli.duck.datasets import ViewDataset

ROWS_AT_ONCE = 1 << 13
_NESTED = frozenset(("list", "array", "struct", "map"))
_WITHOUT_FORM = frozenset(("interval", "time", "time with time zone", "time_ns", "bit", "bignum", "union"))
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
    with _interrupted_as_elsewhere(), _connection() as connection:
        views = _Views(fs, catalog)
        with views.plain_errors():
            statement = _only_query(connection, catalog.query)
            if statement.casefold().lstrip().startswith("show"):
                raise UsageError(reason=f"sql runs queries: {catalog.listed()}")
            views.add(connection, catalog.query)
            result = Result(connection, connection.sql(statement), views)
        yield result


def _need_duckdb() -> None:
    for module in ("duckdb", "pyarrow"):
        if importlib.util.find_spec(module) is None:
            raise KafkalogError(reason=f"--engine duckdb needs {module}: pip install 'kafkalog-cli[duckdb]'")


@contextmanager
def _interrupted_as_elsewhere() -> Iterator[None]:
    """Raise KeyboardInterrupt where DuckDB raises an error of its own for Ctrl-C in the main thread."""
    try:
        yield
    except RuntimeError as error:
        if str(error) == "Query interrupted":
            raise KeyboardInterrupt from None
        raise


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


class Result:
    """The rows of a query."""

    def __init__(self, connection: DuckDBPyConnection, relation: DuckDBPyRelation, views: _Views) -> None:
        import pyarrow as pa

        self._connection, self._relation, self._views = connection, relation, views
        for name, kind in zip(relation.columns, relation.types, strict=True):
            _check_type(name, kind, kind)
        kinds = [str(kind) for kind in relation.types]
        self.columns = tuple(
            ResultColumn(name, kind, _NUMBERS.fullmatch(kind) is not None)
            for name, kind in zip(relation.columns, kinds, strict=True)
        )
        schema = relation.limit(0).to_arrow_table().schema
        types = [  # a HUGEINT is the sum of integers
            pa.int64() if column.type == "HUGEINT" else _arrow_type(field.type)
            for column, field in zip(self.columns, schema, strict=True)
        ]
        self.arrow_schema = pa.schema([pa.field(f"c{at}", kind) for at, kind in enumerate(types)])

    def rendered(self, render: Callable[[Iterator[Any]], Iterator[Any]], most_rows: int | None = None) -> Iterator[Any]:
        """Iterate over the results of `render` on RecordBatches of `arrow_schema`, which come in order."""
        return render(self.batches(most_rows))

    def batches(self, most_rows: int | None = None) -> Iterator[Any]:
        """Iterate over RecordBatches of `arrow_schema`. Raises the errors of the scans, and KafkalogError."""
        relation = self._relation if most_rows is None else self._relation.limit(most_rows)
        with self._views.plain_errors(), ThreadPoolExecutor(1, "kafkalog-duckdb") as thread:
            reader = self._in_thread(thread, relation.to_arrow_reader, ROWS_AT_ONCE)
            while (batch := self._in_thread(thread, next, reader, None)) is not None:
                yield self._converted(batch)

    def _in_thread(self, thread: ThreadPoolExecutor, work: Callable[..., Any], *arguments: Any) -> Any:
        """Return the result of work of DuckDB, which lets no signal through.

        Raises KeyboardInterrupt after its interrupted query ended. If the connection were closed before, DuckDB would
        abort the process. An interrupt before signals are watched must find no work: nothing would end that.
        """
        interruptions = Interruptions()
        with interruptions.watched():
            result = thread.submit(work, *arguments)
            while not wait((result,), POLL_SECONDS).done:
                if interruptions.is_requested:  # more than once: a query that only begins forgets an interrupt
                    self._connection.interrupt()
        interruptions.safe_point()
        return result.result()

    def _converted(self, batch: Any) -> Any:
        import pyarrow as pa

        try:
            arrays = [
                array.cast(field.type, safe="[ns" not in str(array.type))  # nanoseconds are cut off
                for array, field in zip(batch.columns, self.arrow_schema, strict=True)
            ]
        except pa.ArrowInvalid as error:
            raise KafkalogError(reason=f"DuckDB: a number has more than 64 bits: {error}") from None
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow_schema)

    def notes(self) -> list[Note]:
        """Return what was not decoded."""
        return undecoded_notes(take_undecoded())


def _check_type(name: str, whole: DuckDBPyType, kind: DuckDBPyType) -> None:
    """Raise UsageError for a type, or a type in it, that text and files have no form for.

    DuckDB gives `map {}` keys without a type. Arrow aborts the process for rows with such a map.
    """
    nested = [part for _, part in kind.children] if kind.id in _NESTED else []
    if kind.id in _WITHOUT_FORM or (kind.id == "map" and nested[0].id == "null"):
        raise UsageError(reason=f"the column {name} is {whole}: cast it to varchar")
    for part in nested if kind.id != "array" else nested[:1]:
        _check_type(name, whole, part)


def _arrow_type(kind: Any) -> Any:
    """Return the type in which results have a type of Arrow: as with Spark, times have microseconds."""
    import pyarrow as pa

    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(_arrow_type(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(_arrow_type(kind.key_type), _arrow_type(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_arrow_type(field.type)) for field in kind])
    return kind


class _Views:
    """The views of a query: each names the columns of a dataset in their order."""

    def __init__(self, fs: Filesystem, catalog: Catalog) -> None:
        self._fs, self._catalog = fs, catalog
        self._datasets: list[ViewDataset] = []

    def add(self, connection: DuckDBPyConnection, text: str) -> None:
        """Add the views that a query names. Raises UsageError for a name that is none."""
        (tree,) = connection.execute("select json_serialize_sql($1)", [text]).fetchall()[0]
        objects = list(_objects(json.loads(tree)))
        of_query = {str(node["key"]).casefold() for node in objects if "key" in node}  # common table expressions
        known = set()
        for node in objects:
            parts = [str(node[name]) for name in ("schema_name", "table_name") if node.get(name)]
            if node.get("type") != "BASE_TABLE" or parts[0].casefold() in _OF_THE_SYSTEM:
                continue
            view = self._catalog.named(parts)
            if view is None and parts[-1].casefold() in of_query:
                continue
            if view is None:
                raise UsageError(reason=self._catalog.about(".".join(parts), parts))
            key = (*(part.casefold() for part in parts[:-1]), view.name)
            if key not in known:
                known.add(key)
                self._add(connection, key, view)
        self._catalog.check_structs()

    def _add(self, connection: DuckDBPyConnection, key: tuple[str, ...], view: View) -> None:
        from kafkalog_cli.duck.datasets import ViewDataset

        name = f"rows of view {len(self._datasets)}"  # no topic has spaces in its name
        self._datasets.append(ViewDataset(self._fs, self._catalog, view))
        connection.register(name, self._datasets[-1])
        columns = ", ".join(_quoted(column.name) for column in view.columns)
        connection.execute(f"create view {'.'.join(map(_quoted, key))} as select {columns} from {_quoted(name)}")

    @contextmanager
    def plain_errors(self) -> Iterator[None]:
        """Raise the error of a scan itself, and an error of DuckDB as UsageError or KafkalogError."""
        import duckdb

        try:
            yield
        except (duckdb.Error, OSError) as error:  # pyarrow raises OSError for a result of DuckDB that fails
            for scanned in self._datasets:
                if scanned.failure is not None:
                    raise scanned.failure from None
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
    message = " ".join(str(error).partition("\n\nLINE ")[0].split())
    if re.search('near "(from|where|=|[<>]=?|in|between|,)"', message):
        message += '; a column offset is written "offset", or with its view: orders.offset'
    return message


def _position(text: str) -> str:
    """Return the position in the query that a message marks in a copy of the line."""
    match = re.search(r"\n\n(LINE (\d+): ).*\n( *)\^", text)
    return "" if match is None else f" (line {match[2]}, position {len(match[3]) - len(match[1]) + 1})"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
