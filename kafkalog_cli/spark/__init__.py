"""Spark: log directories as DataFrames, and kafkalog's verbs as jobs of Spark.

Programs use four names: `KafkalogDataSource` (to register), `session` (starts a session), `sql` (asks a query) and
`plain_errors` (raises the errors of tasks).

The files are:

- `source.py`, `table_source.py`, `stream.py`, `writer.py`: the data sources, over the reads of `ops/scans`;
  `planned_tasks.py` and `types.py`: their tasks and columns in Spark.
- `sessions.py`, `starting.py`, `jobs.py`: Spark itself: its start, its Java and its errors; `training.py`: the queries
  of `warmup`.
- `map_each.py`: verify, stats, export and import in tasks; `each_host.py`: on the disks of all hosts.
- `queries/`: queries in SQL.

The driver is the process that starts the job, a worker is a process of Spark that runs tasks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkalog_cli.spark.jobs import plain_errors as plain_errors
    from kafkalog_cli.spark.queries.query import sql as sql
    from kafkalog_cli.spark.sessions import session as session
    from kafkalog_cli.spark.source import KafkalogDataSource as KafkalogDataSource

_PLACES = {
    "KafkalogDataSource": "source",
    "plain_errors": "jobs",
    "session": "sessions",
    "sql": "queries.query",
}

__all__ = ["KafkalogDataSource", "plain_errors", "session", "sql"]


def __dir__() -> list[str]:
    """The names of the package, too, which are imported at their first use."""
    return sorted({*globals(), *_PLACES})


def __getattr__(name: str) -> object:
    """Import a name of the package at its first use. Raises KafkalogError without PySpark."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    from kafkalog_cli.spark.starting import need_pyspark

    need_pyspark()
    return getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
