"""`kafkalog sql`: SQL queries over log directories, on Spark or DuckDB."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeVar

from typer import Argument, Context

from kafkalog_cli.cli.commands import Command
from kafkalog_cli.cli.engine import spark_session, spark_settings
from kafkalog_cli.cli.exit_codes import READ, exit_codes
from kafkalog_cli.cli.options import (
    DEFAULT_MASTER,
    Conf,
    Contents,
    Format,
    IsolationOption,
    Master,
    output_option,
    selection_option,
)
from kafkalog_cli.cli.run import Run
from kafkalog_cli.disk.durable import new_file
from kafkalog_cli.disk.fs import WritableFilesystem
from kafkalog_cli.disk.named_places import check_new_file
from kafkalog_cli.errors import ExitCode, PathNotFound, Refused, UsageError, of_the_system
from kafkalog_cli.ops.choices import Allowed, Isolation, Mode
from kafkalog_cli.ops.scans.catalog import DUCKDB, SPARK, Catalog, Reading
from kafkalog_cli.ops.selection import expand
from kafkalog_cli.output.progress import Waiting
from kafkalog_cli.output.sql_output import (
    Written,
    arrow_parts,
    row_cells,
    row_lines,
    write_cells,
    write_lines,
    write_parquet,
)
from kafkalog_cli.results import PathText

if TYPE_CHECKING:
    from kafkalog_cli.duck import query as duck
    from kafkalog_cli.spark.queries import query as spark

    Result = duck.Result | spark.Result

EXAMPLES = {
    "Print the committed offsets of all groups": ("kafkalog sql /var/lib/kafka 'select * from committed_offsets'"),
    "Answer at once, without Java": ("kafkalog sql --engine duckdb /var/lib/kafka 'select count(*) from orders'"),
    "Write a result as Parquet": "kafkalog sql /var/lib/kafka 'select * from orders' --output orders.parquet",
}
EXIT_CODES = READ | exit_codes(ExitCode.REFUSED)


# fmt: off
class SqlOptions(NamedTuple):
    """The options of sql."""

    paths: Annotated[list[str], Argument(metavar="LOG_DIR...",
        help="Log directories, partition directories, or globs of them.", show_default=False)]
    query: Annotated[str, Argument(metavar="QUERY",
        help="A query in Spark SQL, or in DuckDB's. Backticks, in DuckDB double quotes, enclose names with other"
        " characters than letters, digits and _.",
        show_default=False)]
    isolation: IsolationOption = Isolation.READ_UNCOMMITTED
    include_control: Annotated[bool, selection_option("--include-control",
        help="Include control records, which have a value in the column control.")] = False
    mode: Annotated[Mode, selection_option(
        help="At damage: failfast ends with exit code 4, dropmalformed leaves out unreadable records, permissive has a"
        " row per damaged place, with the fault in _fault.")] = Mode.FAILFAST
    allow: Annotated[list[Allowed] | None, selection_option(
        help="Permit more to the query; may be repeated. files: read any file by its path, as text.`/etc/hostname`."
        " java: call any method of Java, and functions that were not checked.", show_default=False)] = None
    contents: Contents = Contents()
    output_format: Format = "text"
    output: Annotated[str | None, output_option(metavar="FILE",
        help="Write a new Parquet file instead of printing.")] = None
    max_rows: Annotated[int | None, output_option(metavar="N", min=1, envvar="KAFKALOG_MAX_ROWS",
        help="Most rows to print or write. Without it: 1000 rows in a table, else all.")] = None
    engine: Annotated[Literal["spark", "duckdb"], selection_option("--engine",
        help="spark: needs Java and the extra `spark`. duckdb: on this machine, without Java, and starts at once; needs"
        " the extra `duckdb`.")] = "spark"
    master: Master = DEFAULT_MASTER
    conf: Conf = None
# fmt: on


def sql(context: Context, options: SqlOptions) -> int:
    """Query topics, groups and cluster metadata in SQL.

    Each topic is a view. So are committed_offsets, offset_commits, groups, group_members, transactions, topics,
    partitions, configs, brokers, features, batches and segments. A topic with such a name is kafkalog.NAME.

    A query may name fields of Avro or Protobuf: value_struct.id. The columns value_struct and key_struct have the type
    of the topic's newest schema. The columns value_json and key_json are JSON text, of all formats: get_json_object(
    value_json, '$.id'). Without --value-format, contents with a Schema Registry's framing are decoded.

    Only the topics and columns that the query uses are read: count(*) decompresses nothing. Nothing is locked or
    changed. A query reads no other file and calls no code, unless --allow permits it.
    """
    run = Run(context, options.output_format)
    if any("\udc80" <= character <= "\udcff" for character in options.query):  # Java's strings cannot have these
        raise UsageError(reason="the query has bytes that are not UTF-8")
    decoding = options.contents.decoding.or_auto().absolute()
    reading = Reading(options.isolation, options.mode, options.include_control, decoding)
    answer = _with_duckdb if options.engine == "duckdb" else _with_spark
    return answer(run, options, reading)


def _catalog(run: Run, options: SqlOptions, reading: Reading) -> Catalog:
    """Return the views of the query. Raises as `_check_output` too."""
    paths = [os.path.abspath(path) for path in options.paths]  # noqa: PTH100 - workers
    dialect = DUCKDB if options.engine == "duckdb" else SPARK
    catalog = Catalog(run.fs, paths, options.query, reading, dialect)
    if options.output is not None:
        _check_output(run.fs, options.output, options.paths)
    return catalog


def _with_duckdb(run: Run, options: SqlOptions, reading: Reading) -> int:
    if options.allow or options.conf or options.master != DEFAULT_MASTER:
        raise UsageError(reason="--allow, --master and --conf need --engine spark")
    from kafkalog_cli.duck.query import query

    with query(run.fs, _catalog(run, options, reading)) as result:
        return _answer(run, options, result)


def _with_spark(run: Run, options: SqlOptions, reading: Reading) -> int:
    from kafkalog_cli.spark.starting import SMALL_BYTES, need_pyspark

    given = spark_settings(options.conf)
    need_pyspark()
    catalog = _catalog(run, options, reading)
    from kafkalog_cli.spark.queries.confinement import settings_of
    from kafkalog_cli.spark.queries.query import SETTINGS, query

    allowed = frozenset(options.allow or ())
    settings = {**SETTINGS, **settings_of(allowed), **given}
    is_small = catalog.size_bytes <= SMALL_BYTES
    with (
        spark_session(run.environment, options.master, settings, as_json=run.as_json, is_small=is_small) as spark,
        query(spark, catalog, allowed) as result,
    ):
        return _answer(run, options, result)


class Parser(Command):
    """Takes a query that begins with a comment. A space before it keeps it from being read as an option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: D102
        return super().parse_args(ctx, [f" {word}" if word.startswith("-- ") else word for word in args])


PartT = TypeVar("PartT")

DEFAULT_MOST_ROWS = 1000
"""The default limit of a table: its columns are as wide as their widest cell, so all rows are in memory."""


def _answer(run: Run, options: SqlOptions, result: "Result") -> int:
    if options.output is not None:
        written = _write_file(run, result, options.output, options.max_rows)
    elif run.as_json:
        names, most = _names(result), options.max_rows
        parts = _wait_for(run, result.rendered(partial(row_lines, names), None if most is None else most + 1))
        written = write_lines(run.out.write_bytes, parts, most)
    else:
        most = options.max_rows or DEFAULT_MOST_ROWS
        rows = _wait_for(run, result.rendered(row_cells, most + 1))
        written = write_cells(run.out, result.columns, rows, most)
    file = {} if options.output is None else {"path": PathText(options.output)}
    for one in result.notes():
        run.messages.warn(one.kind, one.message, path=one.path)
        run.codes.append(ExitCode.WARNINGS)
    code = run.end(rows=written.rows, more_rows=written.more, **file)
    if written.more and not run.as_json:
        run.messages.warn("more-rows", f"there are more than these {written.rows} rows: --max-rows N shows more")
    return code


def _wait_for(run: Run, parts: Iterable[PartT]) -> Iterator[PartT]:
    """Yield the parts of the result; until the first arrives, the terminal shows that the query runs."""
    with Waiting(run.environment.stderr, "running the query", is_shown=not run.as_json) as waiting:
        for part in parts:
            waiting.end()
            yield part


def _write_file(run: Run, result: "Result", path: str, most: int | None) -> Written:
    names = _names(result)
    try:
        with new_file(run.fs, os.path.abspath(path)) as file:  # noqa: PTH100
            parts = _wait_for(run, result.rendered(arrow_parts, None if most is None else most + 1))
            written = write_parquet(file, names, result.arrow_schema, parts, most)
    except OSError as error:
        raise of_the_system(path, error) from error
    if not run.as_json:
        run.out.write(f"{written.rows} rows in {path}\n")
    return written


def _check_output(fs: WritableFilesystem, path: str, paths: list[str]) -> None:
    """Check that the output is a new file outside of the paths. Raises UsageError, Refused, PathNotFound."""
    full_path = os.path.abspath(path)  # noqa: PTH100
    check_new_file(fs, path, "sql")
    if fs.status(os.path.dirname(full_path)) is None:  # noqa: PTH120
        raise PathNotFound(path=os.path.dirname(full_path))  # noqa: PTH120
    for one in expand(fs, paths):
        directory = os.path.abspath(one)  # noqa: PTH100
        if full_path.startswith(directory.rstrip("/") + "/"):
            raise Refused(path=path, reason=f"a broker's files are in {one}: write it elsewhere")


def _names(result: "Result") -> list[str]:
    """Return the column names. Raises UsageError if two columns have the same name."""
    names = [column.name for column in result.columns]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise UsageError(reason=f"two columns are called {twice[0]}: give them names with `as`")
    return names
