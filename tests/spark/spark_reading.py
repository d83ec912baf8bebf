"""Reads with the source's own classes, as Spark's workers call them, but without a JVM."""

import pickle

import pytest

pytest.importorskip("pyspark", reason="the extra `spark` is not installed: nothing of Spark is tested")
pa = pytest.importorskip("pyarrow")

from pyspark.serializers import CloudPickleSerializer  # noqa: E402
from pyspark.sql import datasource as filters  # noqa: E402
from pyspark.sql import types  # noqa: E402
from pyspark.sql.pandas.types import to_arrow_schema  # noqa: E402

from tests.support.product_spark import (  # noqa: E402
    KafkalogDataSource,
    arrow_schema,
    columns_named,
    spark_schema,
)

PICKLER = CloudPickleSerializer()


def source(path, **options):
    return KafkalogDataSource({"path": str(path), **options})


def tasks(path, schema=None, **options):
    """(reader, partitions)."""
    made = source(path, **options)
    reader = PICKLER.loads(PICKLER.dumps(made)).reader(schema if schema is not None else made.schema())
    return reader, reader.partitions()


def rows(path, schema=None, **options):
    """All rows as one Arrow table with timestamps as microseconds, not every one of which is a datetime."""
    reader, parts = tasks(path, schema, **options)
    return rows_of(reader, parts)


def rows_of(reader, parts):
    schema = arrow_schema(reader._options.columns)
    found = []
    for part in parts or [filters.InputPartition(None)]:
        moved = PICKLER.loads(PICKLER.dumps(reader))
        for batch in moved.read(pickle.loads(pickle.dumps(part))):
            assert batch.schema == schema
            batch.validate(full=True)
            assert batch.num_rows
            found.append(batch)
    table = pa.Table.from_batches(found, schema)
    arrays = [
        column.cast(pa.int64()) if field.type == pa.timestamp("us", tz="UTC") else column
        for field, column in zip(table.schema, table.columns, strict=True)
    ]
    return pa.Table.from_arrays(arrays, names=table.schema.names)


def offsets(path, schema="offset", **options):
    return rows(path, subset(schema), **options).column("offset").to_pylist()


def subset(*names):
    """A StructType of some columns."""
    return spark_schema(columns_named(names))


__all__ = ["filters", "offsets", "pa", "rows", "rows_of", "source", "subset", "tasks", "to_arrow_schema", "types"]
