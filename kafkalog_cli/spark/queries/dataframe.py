"""Gives the rows of a query in SQL as a DataFrame of the caller's session."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.errors import UsageError
from kafkalog_cli.ops.choices import Allowed, Isolation, Mode
from kafkalog_cli.ops.decoding import Decoding
from kafkalog_cli.ops.scans.options import local_path
from kafkalog_cli.spark.jobs import plain_errors
from kafkalog_cli.spark.queries.catalog import Catalog, Reading
from kafkalog_cli.spark.queries.confinement import settings_of
from kafkalog_cli.spark.queries.plans import dataframe_of
from kafkalog_cli.spark.queries.query import query_rows
from kafkalog_cli.spark.sessions import cloned_session, register_sources

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Path = str | os.PathLike[str]

_planning = Lock()
"""Held while a query is planned: all sessions of one Spark share the views of the database `kafkalog`."""


def sql(  # noqa: PLR0913
    spark: SparkSession,
    paths: Path | Sequence[Path],
    text: str,
    *,
    isolation: str = "read_uncommitted",
    mode: str = "failfast",
    include_control: bool = False,
    allow: Iterable[str] = (),
    key_format: str = "auto",
    value_format: str = "auto",
    schemas: Path | None = None,
) -> DataFrame:
    """Return the rows of a query in Spark's SQL over log directories, as `kafkalog sql` prints them.

    Each topic under `paths` is a view, and so are the tables of docs/spark.md. The DataFrame reads the partitions,
    offsets, times and columns that the query uses. It has the same rows in each use: a filter on it makes it read no
    less. It lists the files of the logs at each use, so it has the records that a broker has appended since. The value
    of `now` changes from use to use, so a query with such a function reads all partitions, offsets and times.

    The session is not changed. The query may also name its temporary views and functions. `allow` has the permissions
    of the option `--allow`: "files" for views that read other files, "java" for functions of the caller. `key_format`,
    `value_format` and `schemas` choose how decoded columns are made, as the options of the command.

    Raises UsageError for text that Spark does not understand, for a statement that is not a query, and for a query that
    needs more than `allow`. Raises UsageError for an unknown option. Raises UsageError for a session of Spark Connect,
    which has no access to Spark's plans. Raises PathNotFound, NotKafkaLayout and Unreadable, as each command does.
    Spark raises DamagedLog and other errors of tasks as its own exceptions, unless the DataFrame is used in
    `plain_errors`.
    """
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise UsageError(
            reason="sql() reads Spark's plan of a query, which a session of Spark Connect does not give:"
            ' use spark.read.format("kafkalog") with options there, or a session of Spark itself'
        )
    decoding = Decoding.of_words(key_format, value_format, None if schemas is None else os.fspath(schemas)).absolute()
    reading = Reading(_chosen(Isolation, isolation), _chosen(Mode, mode), include_control, decoding)
    allowed = frozenset(_chosen(Allowed, one) for one in allow)
    listed = [paths] if isinstance(paths, str | os.PathLike) else paths
    catalog = Catalog(RealFilesystem(), [local_path(os.fspath(path)) for path in listed])
    register_sources(spark)  # a DataFrame's scans look for them in their own session
    with (
        _planning,
        plain_errors(),
        cloned_session(spark, settings_of(allowed)) as own,
        query_rows(own, catalog, text, reading, allowed, is_kept=True) as rows,
    ):
        return dataframe_of(spark, rows._jdf.queryExecution().analyzed())


def _chosen(kind: type[Isolation] | type[Mode] | type[Allowed], value: str) -> Any:
    """Return the member of an Enum with a value. Raises UsageError if there is none."""
    try:
        return kind(value)
    except ValueError:
        names = ", ".join(one.value for one in kind)
        raise UsageError(reason=f"{value}: choose one of {names}") from None
