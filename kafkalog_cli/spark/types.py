"""Columns as a schema of PySpark."""

from collections.abc import Iterable
from typing import Any

from kafkalog_cli.ops.scans.schema import SourceColumn


def spark_schema(columns: Iterable[SourceColumn]) -> Any:
    """Return the columns as a pyspark StructType; all are nullable, as in Spark's own source."""
    from pyspark.sql.types import StructType

    fields = [{"name": column.name, "type": column.spark, "nullable": True, "metadata": {}} for column in columns]
    return StructType.fromJson({"type": "struct", "fields": fields})
