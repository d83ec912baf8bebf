"""Runs the queries of bench/compare_spark.py one after the other in one process; prints seconds and answers as JSON.

`spark_queries.py WHOSE RUNS JSON`, with a name of the table WHOSE: ours are by the source `kafkalog` and by
`kafkalog_cli.spark.sql`, the peer's by Spark's Kafka source, the core's by the library without Spark. The others are
in spark_limits.py. FIXED is a query of 250 records.
The session is started, and each query run once and once more, before it is measured.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from spark_limits import duckdb_queries, limit_queries, parquet_queries

MASTER = "local[2]"
PRODUCES = "produces"
"""The import by the peer alone, with the start of Spark."""
FIXED = "count(*) of 250 records"
EXAMPLE = Path(__file__).resolve().parent.parent / "docs" / "example"
Query = Callable[[], Any]


def kafkalog_queries(given: dict[str, Any]) -> dict[str, Query]:
    """By the source `kafkalog` and the export of this package."""
    from pyspark.sql import functions as f

    from kafkalog_cli.spark import session, sql

    spark = session(MASTER)
    plain, keyed, since, until = given["plain"], given["keyed"], given["since_ms"], given["until_ms"]

    def read(topic: str, **options: object) -> Any:
        return spark.read.format("kafkalog").option("subscribe", topic).options(**options).load(given["data"])

    def rows(query: str, data: str = given["data"]) -> Any:
        return sql(spark, data, query)

    def groups() -> tuple[int, int]:
        keys, largest = rows(f"select count(*), max(n) from (select count(*) n from {keyed} group by key)").first()
        return int(keys), int(largest)

    between = f"timestamp >= timestamp_millis({since}) and timestamp < timestamp_millis({until})"
    return {
        **of_dataframes(f, read, given, columns="partition,offset"),
        "count(*)": lambda: rows(f"select count(*) from {plain}").first()[0],
        "sum(length(value))": lambda: rows(f"select sum(length(value)) from {plain}").first()[0],
        "time range, 1 %": lambda: rows(f"select count(*) from {plain} where {between}").first()[0],
        "group by key, lz4": groups,
        "write Parquet": lambda: _written(given, spark, plain),
        "write Parquet, 16 partitions": lambda: _written(given, spark, given["wide"]),
        "import of Parquet": lambda: _imported(given, spark, is_warm=False),
        "import of Parquet, warm": lambda: _imported(given, spark, is_warm=True),
        FIXED: lambda: rows("select count(*) from mixed", str(EXAMPLE)).first()[0],
    }


def peer_session(given: dict[str, Any]) -> Any:
    """Start Spark with its own Kafka source."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(MASTER).config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.session.timeZone", "UTC").config("spark.jars", given["jars"])
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def peer_queries(given: dict[str, Any]) -> dict[str, Query]:
    """By Spark's own Kafka source, from the broker."""
    from pyspark.sql import functions as f

    spark = peer_session(given)

    def read(topic: str, **options: object) -> Any:
        found = spark.read.format("kafka").option("kafka.bootstrap.servers", given["address"])
        return found.option("subscribe", topic).options(**options).load()

    def write(topic: str, records: int) -> int:
        with tempfile.TemporaryDirectory(dir=given["scratch"]) as out:
            wanted = ("key", "value", "partition", "offset", "timestamp", "timestampType")
            read(topic, includeHeaders="true").select(*wanted, "headers").write.parquet(f"{out}/parquet")
        return records

    def produce(whose: Callable[[dict[str, Any]], object]) -> int:
        if not parquet_of_keyed(given).exists():
            rows = read(given["keyed"], includeHeaders="true").select("key", "value", "headers")
            rows.write.parquet(str(parquet_of_keyed(given)))
        whose(given)
        return int(given["keyed_records"])

    def groups() -> tuple[int, int]:
        counted = read(given["keyed"]).groupBy("key").count()
        keys, largest = counted.agg(f.count("*"), f.max("count")).first()
        return int(keys), int(largest)

    plain, since, until = given["plain"], given["since_ms"], given["until_ms"]
    between = (f.col("timestamp") >= f.timestamp_millis(f.lit(since))) & (
        f.col("timestamp") < f.timestamp_millis(f.lit(until))
    )
    return {
        **of_dataframes(f, read, given),
        "count(*)": lambda: read(plain).count(),
        "sum(length(value))": lambda: read(plain).select(f.sum(f.length("value"))).first()[0],
        "time range, 1 %": lambda: read(plain).where(between).count(),
        "group by key, lz4": groups,
        "write Parquet": lambda: write(plain, given["records"]),
        "write Parquet, 16 partitions": lambda: write(given["wide"], given["wide_records"]),
        "import of Parquet": lambda: produce(_produced_anew),
        "import of Parquet, warm": lambda: produce(lambda given: produced(given, spark)),
    }


def parquet_of_keyed(given: dict[str, Any]) -> Path:
    """Return the directory of the Parquet files to import."""
    return Path(given["scratch"], "keyed-parquet")


def produced(given: dict[str, Any], spark: Any) -> None:
    """Write the records of Parquet files to the broker, by Spark's Kafka sink."""
    rows = spark.read.parquet(str(parquet_of_keyed(given)))
    to = rows.write.format("kafka").option("kafka.bootstrap.servers", given["address"])
    to.option("topic", given["imported"]).option("includeHeaders", "true").save()


def _produced_anew(given: dict[str, Any]) -> None:
    subprocess.run([sys.executable, __file__, PRODUCES, "1", json.dumps(given)], check=True, stdout=subprocess.DEVNULL)


def of_dataframes(f: Any, read: Callable[..., Any], given: dict[str, Any], **columns: str) -> dict[str, Query]:
    """Return queries of DataFrames, the same of all sources. `columns`: an option, to read these columns alone."""
    plain = given["plain"]
    times = {"startingTimestamp": str(given["since_ms"]), "endingTimestamp": str(given["until_ms"])}

    def by_partition() -> list[list[int]]:
        counted = read(plain, **columns).groupBy("partition").count().orderBy("partition")
        return [list(row) for row in counted.collect()]

    return {
        "df.count()": lambda: read(plain).count(),
        "df.select(sum(length(value)))": lambda: read(plain).select(f.sum(f.length("value"))).first()[0],
        "df.groupBy(partition).count()": by_partition,
        "time range by options": lambda: read(plain, **times, **columns).count(),
    }


def _written(given: dict[str, Any], spark: Any, topic: str) -> int:
    with tempfile.TemporaryDirectory(dir=given["scratch"]) as out:
        return exported(given, spark, topic, f"{out}/parquet")


def exported(given: dict[str, Any], spark: Any, topic: str, out: str, file_format: str = "parquet") -> int:
    """Export a topic to files in a new directory; return the number of records."""
    from kafkalog_cli.disk.fs import RealFilesystem
    from kafkalog_cli.log.partition import open_partition
    from kafkalog_cli.ops.move.export_job import Export
    from kafkalog_cli.ops.move.export_request import ExportRequest, FileFormat

    fs, now_ms = RealFilesystem(), time.time_ns() // 1_000_000
    folders = [open_partition(fs, str(one)) for one in sorted(Path(given["data"]).glob(f"{topic}-*"))]
    form = FileFormat(file_format)
    work = Export(fs, folders, ExportRequest(form, form.codecs[0]), out, None, now_ms)
    return sum(one.records for one in work.run().files)


def _imported(given: dict[str, Any], spark: Any, *, is_warm: bool) -> int:
    """Build four partitions of Parquet files; return the number of records. `is_warm`: without the command's start."""
    from kafkalog_cli.cli.app import run

    files = parquet_of_keyed(given)
    if not files.exists():
        exported(given, spark, given["keyed"], str(files))
    with tempfile.TemporaryDirectory(dir=given["scratch"]) as out:
        words = ["import", str(files), "--log-dir", out, "--topic", "imported", "--partitions", "4"]
        if is_warm:
            with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
                assert run(words) == 0
        else:
            subprocess.run([sys.executable, "-m", "kafkalog_cli", *words], check=True, stdout=subprocess.DEVNULL)
        return int(given["keyed_records"])


def core_queries(given: dict[str, Any]) -> dict[str, Query]:  # noqa: C901 six queries
    """By the library, one partition after the other, without Spark."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    import kafkalog_cli as kl

    warnings.simplefilter("ignore", kl.LogWarning)

    def parts(topic: str, *columns: str, **options: Any) -> Any:
        for one in kl.open(given["data"]):
            if one.topic == topic:
                yield from one.records(columns=list(columns) or None, **options)

    def count() -> int:
        logs = [one for one in kl.open(given["data"]) if one.topic == given["plain"]]
        return sum(pc.sum(part.column("records_count")).as_py() for one in logs for part in one.batches())

    def lengths() -> int:
        return sum(pc.sum(pc.binary_length(part.column("value"))).as_py() for part in parts(given["plain"], "value"))

    def between() -> int:
        times = {"from_time": given["since_ms"], "until": given["until_ms"]}
        since = pa.scalar(given["since_ms"], pa.timestamp("ms", "UTC"))
        found = (part.column("timestamp") for part in parts(given["plain"], "timestamp", **times))
        return sum(pc.sum(pc.greater_equal(one, since)).as_py() or 0 for one in found)

    def groups() -> tuple[int, int]:
        counted = pa.Table.from_batches(parts(given["keyed"], "key")).group_by("key").aggregate([([], "count_all")])
        return counted.num_rows, pc.max(counted.column("count_all")).as_py()

    def write() -> int:
        rows = 0
        with tempfile.TemporaryDirectory(dir=given["scratch"]) as out:
            for number, one in enumerate(one for one in kl.open(given["data"]) if one.topic == given["plain"]):
                with pq.ParquetWriter(f"{out}/{number}.parquet", kl.record_schema()) as file:
                    for part in one.records():
                        file.write_batch(part)
                        rows += part.num_rows
        return rows

    return {
        "count(*)": count, "sum(length(value))": lengths, "time range, 1 %": between,
        "group by key, lz4": groups, "write Parquet": write,
    }  # fmt: skip


WHOSE = {
    "ours": kafkalog_queries, "peer": peer_queries, "core": core_queries, "limit": limit_queries,
    "parquet": parquet_queries, "duckdb": duckdb_queries,
}  # fmt: skip


def main() -> None:
    whose, runs, given = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
    if whose == PRODUCES:
        produced(given, peer_session(given))
        return
    Path(given["scratch"]).mkdir(parents=True, exist_ok=True)
    queries = {name: query for name, query in WHOSE[whose](given).items() if not given["only"] or name in given["only"]}
    found: dict[str, tuple[list[float], Any]] = {name: ([], query()) for name, query in queries.items()}
    for name, query in queries.items():
        seconds, answer = found[name]
        query()  # the one before has left other things in the caches
        for _ in range(runs):
            begun = time.perf_counter()
            assert query() == answer, f"{name} does not give the same again"
            seconds.append(time.perf_counter() - begun)
        print(f"{whose} {name}: {', '.join(f'{one:.2f}' for one in seconds)} s", file=sys.stderr, flush=True)
    shutil.rmtree(given["scratch"], ignore_errors=True)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
