"""SQL and streams over logs with gaps, damage and transactions: each answer is that over the rows of a decoder in plain Python."""

import pytest

from tests.spark.odd_logs import DDL, OddLog, Random, make_odd_logs, naive_rows

pytest.importorskip("pyspark", reason="the extra `spark` is not installed: nothing of Spark is tested")

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
