"""Sessions of Spark as the source needs them: the right Java and Python, filters handed down, times in UTC."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kafkalog_cli.spark.java import java_environment, need_pyspark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_MASTER = "local[*]"

SETTINGS = {
    "spark.sql.python.filterPushdown.enabled": "true",  # false by default: the source would be refused
    "spark.sql.session.timeZone": "UTC",
    "spark.speculation": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def session(
    master: str = DEFAULT_MASTER, *, name: str = "kafkalog", settings: Mapping[str, str] | None = None
) -> SparkSession:
    """A session with the source `kafkalog` registered, the running one if there is one.

    `settings` are Spark's own, stronger than SETTINGS. Workers run this Python, unless PYSPARK_PYTHON names another.
    Raises KafkalogError where PySpark or a Java for it is missing.
    """
    need_pyspark()
    from pyspark.sql import SparkSession

    from kafkalog_cli.spark.source import KafkalogDataSource

    if SparkSession.getActiveSession() is None:
        os.environ.update(java_environment(os.environ))
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in {**SETTINGS, **(settings or {})}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.dataSource.register(KafkalogDataSource)
    return spark
