"""Spark: log directories as DataFrames. `KafkalogDataSource` to register, `session` to start one, `audit` to audit."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkalog_cli.spark.audit_job import audit as audit
    from kafkalog_cli.spark.sessions import session as session
    from kafkalog_cli.spark.source import KafkalogDataSource as KafkalogDataSource

_PLACES = {"KafkalogDataSource": "source", "audit": "audit_job", "session": "sessions"}

__all__ = ["KafkalogDataSource", "audit", "session"]


def __getattr__(name: str) -> object:
    """What the package has, imported when it is asked for. Raises KafkalogError without PySpark."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    from kafkalog_cli.spark.java import need_pyspark

    need_pyspark()
    return getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
