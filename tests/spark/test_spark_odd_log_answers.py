"""DataFrames, SQL and streams over logs with gaps, damage and transactions: each answer is that over the rows of a decoder in plain Python."""

import pytest

from tests.spark.odd_logs import DDL, OddLog, Random, make_odd_logs, naive_rows

pytest.importorskip("pyspark", reason="the extra `spark` is not installed: nothing of Spark is tested")

from pyspark.sql import Window
from pyspark.sql import functions as f

from tests.support.product_spark import sql

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

SEED = 18


def is_committed(options):
    return "read_committed" in options.values()


@pytest.fixture(autouse=True)
def views_go(spark):
    """The session is that of all tests of Spark: the views of a question go with it."""
    before = {one.name for one in spark.catalog.listTables()}
    yield
    for one in spark.catalog.listTables():
        if one.name not in before:
            spark.catalog.dropTempView(one.name)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_odd_logs(tmp_path_factory.mktemp("odd"), SEED)


def rows_of(df):
    """The rows, sorted, with bytes and tuples for what Spark makes of them."""
    return sorted(map(plain, df.collect()), key=repr)


def plain(value):
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    if isinstance(value, (tuple, list)):
        return tuple(map(plain, value))
    if isinstance(value, dict):
        return tuple(sorted((plain(key), plain(one)) for key, one in value.items()))
    return value


PLACE = ["topic", "partition", "offset"]
FILTERS = (
    "partition = 1", "offset between 9 and 30", "offset in (1, 28, 29, 41)", "key is null", "timestamp_ms = -1",
    "length(value) > 20", "topic like 't%' and partition != 1", "size(headers) > 0", "not (offset > 20) or partition = 2",
    "offset % 3 = 0", "value = x'' or key = x'6b31'", "timestampType < 0", "offset = 28L and partition = 2", "false",
)  # fmt: skip
STEPS = (
    lambda df, one: df.where(one()),
    lambda df, one: df.where(one()).unionByName(df.where(one())),
    lambda df, one: df.join(df.where(one()).select(*PLACE), PLACE, "left_semi"),
    lambda df, one: df.join(f.broadcast(df.where(one()).select("key").distinct()), "key", "left_anti"),
    lambda df, one: df.exceptAll(df.where(one())),
    lambda df, one: df.repartition(3, "key").dropDuplicates(PLACE),
    lambda df, one: df.where(one()).localCheckpoint(),
    lambda df, one: df.orderBy(*PLACE).offset(3).limit(70),
    lambda df, one: df.where(one()).cache(),
)


def _by_offset():
    return Window.partitionBy("topic", "partition").orderBy("offset")


ENDS = (
    lambda df: df,
    lambda df: df.select(*PLACE, "headers.key", f.col("headers")[0]["value"].alias("first")),
    lambda df: df.select(*PLACE, f.explode_outer("headers").alias("h")).where("h is null or h.value is not null"),
    lambda df: df.select(
        *PLACE, f.lag("key").over(_by_offset()).alias("before"), f.sum(f.length("value")).over(_by_offset()).alias("n")
    ),
    lambda df: df.groupBy("topic").pivot("partition", [0, 1, 2]).agg(f.count("value"), f.max("offset")),
    lambda df: df.rollup("topic", "timestampType").agg(f.count("*").alias("n"), f.min("timestamp_ms"), f.max("key")),
    lambda df: df.select("key").distinct(),
    lambda df: df.select(f.md5("value"), f.col("value").cast("string"), f.size("headers")),
)
READS = [
    {}, {"isolation": "read_committed", "maxRecordsPerPartition": "120"}, {"minPartitions": "20"},
    {"kafka.isolation.level": "read_committed"},
]  # fmt: skip
CHAINS = 48


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(CHAINS))
def test_a_random_chain_of_dataframe_calls_answers_like_the_naive_reader(spark, folder, seed, evidence):
    """Its DataFrame, of which each use may read other columns and offsets, has all rows afterwards."""
    options = READS[seed % len(READS)]
    made = spark.read.format("kafkalog").options(includeHeaders="true", **options).load(str(folder))
    made = made.withColumn("timestamp_ms", f.unix_millis("timestamp")).drop("timestamp")
    rows = naive_rows(folder, committed=is_committed(options))
    answers = []
    for df in (made, spark.createDataFrame(rows, DDL)):
        random = Random(seed)
        whole = df = df.select(*spark.createDataFrame([], DDL).columns)
        for step in random.sample(STEPS, 3):
            df = step(df, lambda random=random: random.choice(FILTERS))
        answers.append((rows_of(random.choice(ENDS)(df)), whole.count(), whole.where("offset = 28").count()))
    spark.catalog.clearCache()
    assert answers[0] == answers[1]
    assert answers[0][1] == len(rows)
    evidence("R49", 1, CHAINS)


QUERIES = [
    "select a.topic, a.partition, a.offset from {txn} a join {txn} b on b.partition = a.partition and b.offset = a.offset + 2",
    "select topic, count(*) from (select topic from {old} where offset = 28 union all select topic from {thin}) group by topic",
    "select partition, offset from {old} where offset between 38 and 44 except select partition, offset from {old} where offset = 41",
    "select count(*) from {mixed} where partition = 1 and offset < 9 union all select count(*) from {mixed}",
    "select topic, partition, offset from (select topic, partition, offset from {old} union all select topic, partition, offset from {txn} where offset = 10) a"
    " left anti join {old} b using (topic, partition, offset)",
    "select (select count(*) from {thin} where offset > 30), (select max(offset) from {thin} where partition = 2)",
    "from {txn} |> where partition = 1 |> aggregate max(offset) m group by key |> where m > 4 |> select m",
    "select key, count(*) over (partition by key order by partition, offset) n from {mixed} where partition != 0",
    "select t.offset, m.offset from {txn} t full join {mixed} m on t.offset = m.offset and t.partition = 0 and m.partition = 1",
    "with a as (select * from {old} where offset > 45) select a.offset from a where not exists"
    " (select 1 from {old} o where o.partition = a.partition and o.offset = a.offset - 1)",
    "select partition, offset, h.key, h.value from {txn} lateral view outer explode(headers) e as h where offset < 15",
    "select timestampType, count(*), min(timestamp) < timestamp'1970-01-01' from {old} group by rollup (timestampType)",
]  # fmt: skip


SOME = 4
"""Queries of a case."""
CASES = range(0, len(QUERIES), SOME)


@pytest.mark.exhaustive
@pytest.mark.parametrize("first", CASES)
@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_sql_over_logs_with_gaps_damage_and_transactions_answers_like_the_naive_reader(
    spark, folder, isolation, first, evidence
):
    rows = naive_rows(folder, committed=isolation == "read_committed")
    whole = spark.createDataFrame(rows, DDL).withColumnsRenamed({"timestamp_ms": "ms"})
    whole = whole.selectExpr("*", "timestamp_millis(ms) timestamp")
    topics = ("old", "txn", "thin", "mixed")
    for topic in topics:
        whole.where(f"topic = '{topic}'").createOrReplaceTempView(f"naive_{topic}")
    for query in QUERIES[first : first + SOME]:
        wanted = rows_of(spark.sql(query.format(**{topic: f"naive_{topic}" for topic in topics})))
        found = sql(spark, folder, query.format(**{topic: topic for topic in topics}), isolation=isolation)
        assert rows_of(found) == wanted
        assert rows_of(found.union(found)) == sorted(2 * wanted, key=repr)
    for topic in topics:
        spark.catalog.dropTempView(f"naive_{topic}")
    evidence("R50", 2 * SOME, 2 * len(CASES) + len(STREAMS))


STREAMS = [{}, {"isolation": "read_committed"}, {"maxOffsetsPerTrigger": "40", "isolation": "read_committed"}]


@pytest.mark.full
@pytest.mark.parametrize("options", STREAMS, ids=lambda options: " ".join(options) or "plain")
def test_a_stream_that_is_started_again_has_each_record_once(spark, tmp_path, options, evidence):
    """Between the two runs, open transactions end, logs grow, and a partition comes."""
    logs, out = make_odd_logs(tmp_path / "logs", SEED + 1), tmp_path / "out"
    counts = []
    for run in range(3):
        source = spark.readStream.format("kafkalog").options(**options, startingOffsets="earliest").load(str(logs))
        place = source.select("topic", "partition", "offset", "key", "value")
        writing = place.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "at"))
        writing.trigger(availableNow=True).start(str(out)).awaitTermination()
        wanted = [(*row[2:5], row[0], row[1]) for row in naive_rows(logs, committed=is_committed(options))]
        assert rows_of(spark.read.parquet(str(out))) == sorted(wanted, key=repr)
        counts.append(len(wanted))
        grow(logs, run)
    assert counts[0] < counts[1] < counts[2]
    evidence("R50", 3, 2 * len(CASES) + len(STREAMS))


def grow(logs, run):
    random = Random(run)
    for number in range(3):
        last = max(row[4] for row in naive_rows(logs) if row[2:4] == ("txn", number))
        log = OddLog(logs, f"txn-{number}", random, base=last + 9)
        log.ended(9, commits=run)
        log.transaction(9)
        log.v2()
        log.roll()
    fresh = OddLog(logs, f"mixed-{7 + run}", random, base=5)
    fresh.v2(6)
    fresh.roll()
