"""The run of Spark from which `starting.make_archive` takes the classes: queries like those of `kafkalog sql`."""

from collections.abc import Iterator
from typing import Any

from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.ops.choices import Mode
from kafkalog_cli.ops.demo import make_demo
from kafkalog_cli.ops.scans.catalog import Catalog, Reading
from kafkalog_cli.spark.queries.confinement import settings_of
from kafkalog_cli.spark.queries.query import SETTINGS, query
from kafkalog_cli.spark.sessions import command_session

QUERIES = (
    "select * from orders where partition = 0 and offset < 10",
    "select partition, count(*) records, max(timestamp) newest from orders group by 1 order by 1",
    "select c.key_text, count(*), sum(o.value_size) from orders o join customers c using (key) group by 1 order by 2",
    "select topic, codec, sum(records) from batches group by topic, codec",
    "select topic, max(next_offset) from segments group by topic having max(next_offset) > 1",
)


def train(log_dir: str) -> None:
    """Make a log directory of the demo and query it; return when Java has ended. `log_dir` must not exist yet."""
    fs = RealFilesystem()
    make_demo(fs, log_dir)
    with command_session("local[2]", settings={**SETTINGS, **settings_of(frozenset())}) as spark:
        gateway: Any = spark.sparkContext._gateway
        for text in QUERIES:
            with query(spark, Catalog(fs, [log_dir], text, Reading(mode=Mode.DROPMALFORMED))) as result:
                list(result.rendered(_counted))
        spark.sparkContext.parallelize([1, 2], 2).map(abs).collect()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


def _counted(batches: Iterator[Any]) -> Iterator[int]:
    return (batch.num_rows for batch in batches)
