"""What bounds the rows of bench/compare_spark.py, and the same queries over the same records in Parquet files.

`make_copies` writes the records into Arrow and Parquet files. The queries of `limit_queries` read the Arrow files by a
source that does nothing but give their columns to Spark from the page cache. For "write Parquet" the Arrow files have
the columns of the export, and the writer of the export writes and syncs them: only reading the logs is left out.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

Query = Callable[[], Any]
EXPORTED = "exported"
"""The copy in Arrow files with the columns of the export."""
COLUMNS = {"all": None, "partition": "partition,offset", "key": "key"}
"""The copies in Arrow files, and the columns of each; None: those that a read without options has."""
NAMES = frozenset((
    "df.count()", "df.select(sum(length(value)))", "df.groupBy(partition).count()", "time range, 1 %",
    "group by key, lz4", "write Parquet",
))  # fmt: skip
"""The rows of the table that need the copies."""
GROUPS = "select count(*), max(n) from (select count(*) n from {} group by key)"


class FilesSource(DataSource):
    """Gives the RecordBatches of the Arrow files in the directory `path`."""

    @classmethod
    def name(cls) -> str:
        return "arrow-files"

    def reader(self, schema: Any) -> DataSourceReader:
        return FilesReader(self.options["path"])


class FilesReader(DataSourceReader):
    """A task for each file."""

    def __init__(self, path: str) -> None:
        self._path = path

    def partitions(self) -> list[Any]:
        return [InputPartition(str(one)) for one in sorted(Path(self._path).iterdir())]

    def read(self, partition: Any) -> Iterator[Any]:
        return batches_of(partition.value)


def batches_of(path: str) -> Iterator[Any]:
    """Iterate over the RecordBatches of an Arrow file, which stays in the page cache."""
    import pyarrow as pa

    with pa.memory_map(path) as mapped:
        file = pa.ipc.open_file(mapped)
        yield from map(file.get_batch, range(file.num_record_batches))


def make_copies(given: dict[str, Any], spark: Any) -> None:
    """Write the Arrow files, a file for each task of ours, and the Parquet files of `kafkalog export`."""
    import pyarrow as pa
    from spark_queries import exported

    from kafkalog_cli.spark import KafkalogDataSource

    copies = Path(given["copies"])
    shutil.rmtree(copies, ignore_errors=True)
    for name, columns in COLUMNS.items():
        topic = given["keyed"] if name == "key" else given["plain"]
        options = {"path": given["data"], "subscribe": topic, **({} if columns is None else {"columns": columns})}
        source = KafkalogDataSource(options)
        reader: Any = source.reader(source.schema())
        (copies / name).mkdir(parents=True)
        for number, task in enumerate(reader.partitions()):
            batches = iter(reader.read(task))
            first = next(batches)
            with pa.ipc.new_file(str(copies / name / f"{number:03}.arrow"), first.schema) as writer:
                for batch in (first, *batches):
                    writer.write_batch(batch)
    for topic in (given["plain"], given["keyed"]):
        exported(given, spark, topic, str(copies / f"parquet-{topic}"))
    exported(given, spark, given["plain"], str(copies / EXPORTED), "arrow")


def limit_queries(given: dict[str, Any]) -> dict[str, Query]:
    """The queries of DataFrames, and the groups by key, over the Arrow files; Parquet written by PyArrow alone."""
    from pyspark.sql import functions as f
    from spark_queries import MASTER, of_dataframes

    from kafkalog_cli.ops.scans.schema import columns_named, default_columns
    from kafkalog_cli.spark import session
    from kafkalog_cli.spark.types import spark_schema

    spark = session(MASTER)
    spark.dataSource.register(FilesSource)
    copies = Path(given["copies"])
    make_copies(given, spark)

    def read(_: str, **options: object) -> Any:
        return files("partition" if "columns" in options else "all")

    def files(name: str) -> Any:
        chosen = COLUMNS[name]
        columns = (
            columns_named(chosen.split(","))
            if chosen
            else default_columns(headers=False, batch_metadata=False, faults=False)
        )
        return spark.read.format("arrow-files").schema(spark_schema(columns)).load(str(copies / name))

    def groups() -> tuple[int, int]:
        files("key").createOrReplaceTempView("keys")
        keys, largest = spark.sql(GROUPS.format("keys")).first()
        return int(keys), int(largest)

    def write() -> int:
        files = sorted(map(str, (copies / EXPORTED).rglob("*.arrow")))
        with ProcessPoolExecutor(os.cpu_count()) as pool:
            return sum(pool.map(_written, files, [given["scratch"]] * len(files)))

    queries = of_dataframes(f, read, given, columns="partition,offset")
    queries.pop("time range by options")
    return {**queries, "group by key, lz4": groups, "write Parquet": write}


def _written(path: str, scratch: str) -> int:
    """Write an Arrow file of the export as Parquet with the export's writer, and sync it; return its records."""
    import pyarrow as pa

    from kafkalog_cli.disk.durable import StagedFile
    from kafkalog_cli.disk.fs import RealFilesystem
    from kafkalog_cli.ops.move.export_files import writer as writer_of
    from kafkalog_cli.ops.move.export_request import ExportRequest, FileFormat

    fs, records = RealFilesystem(), 0
    out = StagedFile(fs, f"{scratch}/{Path(path).stem}.parquet")
    with pa.memory_map(path) as mapped:
        schema = pa.ipc.open_file(mapped).schema
    writer = writer_of(FileFormat.PARQUET, out, schema, ExportRequest().codec)
    for batch in batches_of(path):
        writer.write(batch)
        records += batch.num_rows
    writer.close()
    out.finish()
    Path(out.path).unlink()
    return records


def parquet_queries(given: dict[str, Any]) -> dict[str, Query]:
    """By Spark from the Parquet files."""
    from spark_queries import MASTER

    from kafkalog_cli.spark import session

    spark = session(MASTER)
    for topic in (given["plain"], given["keyed"]):
        spark.read.parquet(f"{given['copies']}/parquet-{topic}/*").createOrReplaceTempView(topic)
    between = (
        f"timestamp >= timestamp_millis({given['since_ms']}) and timestamp < timestamp_millis({given['until_ms']})"
    )
    return _of_tables(given, lambda text: [tuple(row) for row in spark.sql(text).collect()], "length", between)


def duckdb_queries(given: dict[str, Any]) -> dict[str, Query]:
    """By DuckDB from the Parquet files."""
    import duckdb

    database = duckdb.connect(config={"threads": 2})
    for topic in (given["plain"], given["keyed"]):
        database.sql(f"create view {topic} as from read_parquet('{given['copies']}/parquet-{topic}/**/*.parquet')")
    between = f"epoch_ms(timestamp) >= {given['since_ms']} and epoch_ms(timestamp) < {given['until_ms']}"
    return _of_tables(given, lambda text: database.sql(text).fetchall(), "octet_length", between)


def _of_tables(given: dict[str, Any], rows: Callable[[str], Any], length: str, between: str) -> dict[str, Query]:
    plain = given["plain"]
    by_partition = f"select partition, count(*) from {plain} group by partition order by partition"
    return {
        "df.count()": lambda: rows(f"select count(*) from {plain}")[0][0],
        "df.select(sum(length(value)))": lambda: int(rows(f"select sum({length}(value)) from {plain}")[0][0]),
        "df.groupBy(partition).count()": lambda: list(map(list, rows(by_partition))),
        "time range, 1 %": lambda: rows(f"select count(*) from {plain} where {between}")[0][0],
        "group by key, lz4": lambda: tuple(rows(GROUPS.format(given["keyed"]))[0]),
    }
