"""`kl.sql`: the rows of a query in DuckDB's SQL."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.ops.scans.catalog import DUCKDB, Catalog, Reading
from kafkalog_cli.ops.scans.options import local_path

if TYPE_CHECKING:
    import pyarrow as pa

Path = str | os.PathLike[str]


def sql(  # noqa: PLR0913
    paths: Path | Sequence[Path],
    query: str,
    *,
    isolation: str = "read_uncommitted",
    mode: str = "failfast",
    include_control: bool = False,
    key_format: str = "auto",
    value_format: str = "auto",
    schemas: Path | None = None,
) -> pa.RecordBatchReader:
    """Return the rows of a query, as `kafkalog sql --engine duckdb` prints them.

    Rows are made as the reader is read, and larger sorts and groups go into temporary files. `kafkalog_cli.spark.sql`
    gives the rows of Spark's SQL. Raises UsageError for text that DuckDB does not understand and for a statement that
    is not a query, KafkalogError without the extra `duckdb`, and the errors of the command; errors of the data come
    while the rows are read.
    """
    import pyarrow as pa

    reading = Reading.of_words(isolation, mode, include_control, key_format, value_format, schemas)
    listed = [paths] if isinstance(paths, str | os.PathLike) else paths
    catalog = Catalog(RealFilesystem(), [local_path(os.fspath(path)) for path in listed], query, reading, DUCKDB)
    rows = _rows(catalog)
    return pa.RecordBatchReader.from_batches(next(rows), rows)


def _rows(catalog: Catalog) -> Iterator[Any]:
    """Yield the schema of the rows, then their RecordBatches."""
    import pyarrow as pa

    from kafkalog_cli.duck.query import query

    with query(RealFilesystem(), catalog) as result:
        names = [column.name for column in result.columns]
        types = [field.type for field in result.arrow_schema]
        schema = pa.schema(list(zip(names, types, strict=True)))
        yield schema
        for batch in result.batches():
            yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)
