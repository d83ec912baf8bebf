"""`df.write.format("kafkalog")` through Spark itself: rows of many tasks, offsets, failures that leave nothing."""

import pytest
from pyspark.sql import functions

from tests.spark.importing import new_log_dir, records, seen
from tests.spark.test_import import ID
from tests.spark.test_spark_rows import log_dir
from tests.support.logs import BASE_TIME_MS, R, batch_v2
from tests.support.metadata_logs import batches, partition, value
from tests.support.product_kafka import partition_of_key

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def write(frame, log_dir, mode="append", **options):
    frame.write.format("kafkalog").mode(mode).options(**options).save(str(log_dir))


def test_a_dataframe_written_by_key_has_each_row_in_the_partition_of_its_key(spark, tmp_path):
    """Rows of a partition come from several tasks."""
    frame = spark.range(1000).select(
        functions.concat(functions.lit("k"), functions.col("id") % 50).alias("key"),
        functions.col("id").cast("string").alias("value"),
    )
    new = new_log_dir(tmp_path / "new")
    write(frame.repartition(4), new, topic="orders", partitions=3, topicId=ID, codec="zstd", prove="true")
    assert seen(new) == [f"orders-{number}" for number in range(3)]
    found = set()
    for number in range(3):
        rows = records(new / f"orders-{number}")
        assert [row["offset"] for row in rows] == list(range(len(rows)))
        assert {partition_of_key(row["key"], 3) for row in rows} == {number}
        assert ID in (new / f"orders-{number}" / "partition.metadata").read_text()
        found |= {int(row["value"]) for row in rows}
    assert found == set(range(1000))


@pytest.mark.full
def test_a_dataframe_of_one_log_written_to_another_keeps_its_records(spark, tmp_path):
    """With offsets, timestamps and headers, the columns of the source."""
    headers = ((b"a", b""), (b"b", None), (b"a", b"1"))
    for number in range(2):
        data = batch_v2([R(3 * i, BASE_TIME_MS + i, b"k", b"v%d" % i, headers) for i in range(30)])
        folder = log_dir(tmp_path / "log", data, partition=number)
    frame = spark.read.format("kafkalog").option("includeHeaders", "true").load(str(folder))
    new = new_log_dir(tmp_path / "new")
    write(frame.repartition(3), new, prove="true")
    for number in range(2):
        assert records(new / f"orders-{number}") == records(folder / f"orders-{number}")
    write(frame.where("partition = 0").drop("offset"), new, topic="again", partitions=2)
    assert [row["offset"] for row in records(new / "again-0")] == list(range(30))  # the column's partition counts
    assert seen(new) == ["again-0", "orders-0", "orders-1"]


def test_another_number_of_partitions_than_the_metadata_log_has(spark, tmp_path):
    """It is refused before any task runs, and with a topic column before anything is visible."""
    new = new_log_dir(tmp_path / "new")
    (new / "__cluster_metadata-0").mkdir()
    records = [value("TopicRecord", name="t", topicId=ID), *(partition(ID, at) for at in range(6))]
    (new / "__cluster_metadata-0" / f"{0:020d}.log").write_bytes(batches([records])[0])
    before = seen(new)
    frame = spark.range(100).select(functions.col("id").cast("string").alias("key"))
    for rows, options in (
        (frame.where("raise_error('it ran') is null"), {"topic": "t"}),
        (frame.selectExpr("*", "'t' topic"), {}),
    ):
        with pytest.raises(Exception, match="--partitions 6 fits"):
            write(rows, new, partitions=4, **options)
        assert seen(new) == before
    write(frame, new, topic="t", partitions=6)
    assert len(seen(new)) == len(before) + 6


def test_a_task_that_fails_leaves_nothing(spark, tmp_path):
    frame = spark.range(100).select(
        functions.expr("cast(if(id = 77, raise_error('no'), id) as string) as value"),
        functions.lit(0).alias("partition"),
    )
    new = new_log_dir(tmp_path / "new")
    with pytest.raises(Exception, match="no"):
        write(frame.repartition(3), new, topic="t")
    assert seen(new) == []


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("options", "mode", "message"),
    [
        ({"topic": "t"}, "overwrite", "an import overwrites nothing"),
        ({"partitions": 1}, "append", "the topic is not known"),
        ({"topic": "t"}, "append", "the partition is not known"),
        ({"topic": "t", "partitions": 1, "oops": 1}, "append", "unknown option 'oops'"),
        ({"topic": "t", "partitions": 1, "codec": "x"}, "append", "codec 'x': choose one of"),
    ],
)
def test_a_dataframe_write_refuses_wrong_modes_and_options(spark, tmp_path, options, mode, message):
    new = new_log_dir(tmp_path / "new")
    with pytest.raises(Exception, match=message):
        write(spark.range(3).select(functions.col("id").cast("string").alias("value")), new, mode, **options)
    assert seen(new) == []


def test_a_commit_that_fails_leaves_nothing(spark, tmp_path):
    """The partition is there already."""
    new = new_log_dir(tmp_path / "new")
    frame = spark.range(3).select(functions.col("id").cast("string").alias("value"))
    write(frame, new, topic="t", partitions=1)
    before = records(new / "t-0")
    with pytest.raises(Exception, match="it already exists"):
        write(frame, new, topic="t", partitions=2)
    assert (seen(new), records(new / "t-0")) == (["t-0"], before)
