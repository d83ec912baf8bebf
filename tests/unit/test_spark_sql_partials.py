"""Aggregates of `kafkalog sql` that the tasks make: the rows are those of the plan as it was, and of a naive decoder."""

from collections import Counter

import pytest

from kafkalog_cli.spark import partials, sql
from kafkalog_cli.spark.queries import query as query_module
from kafkalog_cli.spark.queries.catalog import Catalog, Reading, SourceRead, SqlView
from tests.spark.conftest import shop  # noqa: F401 fixture
from tests.spark.sql_cases import Chooser, make_logs, oracle_of
from tests.spark.sql_fuzz import answer_of, plain
from tests.support.product import KafkalogError, RealFilesystem

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

QUERIES = 2
"""So many of each seed."""
SEEDS = dict(zip(range(31_000, 31_024, QUERIES), (1, 2, 1, 0, 1, 1, 1, 2, 1, 1, 1, 1), strict=True))
"""How many queries of a seed the tasks aggregate, at least."""
READ_IN_TASKS = "kafkalog-partials"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_logs(tmp_path_factory.mktemp("logs"), 5)


@pytest.fixture(autouse=True)
def many_tasks(monkeypatch):
    """Each task reads a few offsets, so that groups have rows of several tasks."""
    real = SqlView.scan

    def scan(*given):
        found = real(*given)
        return found._replace(options={**found.options, "maxRecordsPerPartition": "9"})

    monkeypatch.setattr(SqlView, "scan", scan)


def asked(spark, folder, text):
    """The rows of a query, and whether its tasks aggregate."""
    with query_module.query(spark, Catalog(RealFilesystem(), [str(folder)]), text, Reading()) as result:
        found = result._dataframe
        return plain(map(tuple, found.collect())), READ_IN_TASKS in found._jdf.queryExecution().toString()


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", SEEDS)
def test_random_aggregates(spark, folder, monkeypatch, evidence, seed):
    database, in_tasks = oracle_of(folder), 0
    nodes = [Chooser(seed + number).totals() for number in range(QUERIES)]
    rewritten = [asked(spark, folder, node.sql("spark")) for node in nodes]
    with monkeypatch.context() as patched:
        patched.setattr(SourceRead, "planned_here", SourceRead.by_source)
        assert rewritten == [asked(spark, folder, node.sql("spark")) for node in nodes]
    monkeypatch.setattr(query_module, "with_partials", lambda *_: None)
    for node, (rows, is_in_tasks) in zip(nodes, rewritten, strict=True):
        assert (rows, False) == asked(spark, folder, node.sql("spark")), node.sql("spark")
        assert rows == answer_of(database, node), node.sql("spark")
        in_tasks += is_in_tasks
    assert in_tasks >= SEEDS[seed]
    evidence("R73", QUERIES, len(SEEDS))


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "text",
    [
        "select count(*) from a",
        "select sum(length(value)) from a",
        "select partition, count(*) n, max(timestamp) newest from orders group by 1 order by 1",
        "select count(*), max(n) from (select key, count(*) n from b group by key)",
        "select distinct topic, partition from orders where `offset` >= 10 and not (key is null or partition = 1)",
        "select Partition as p, count(*) from a where key = X'6b' group by Partition having count(*) > 1",
        "select count(*) from a where timestamp between '2001-01-01' and '2001-01-02'",
        "select count(distinct key), count(*), avg(length(value)) from a",
        "select partition, count(distinct key), max(`offset`) from a group by 1 having count(distinct key) > 1",
        "select date_trunc('HOUR', timestamp), avg(partition) from a group by 1",
        "select length(key), count(*) from a group by 1",
        "select avg(length(value)), count(distinct key) from a where key = X'6e6f6e65'",
    ],
)
def test_aggregated_in_tasks(spark, folder, monkeypatch, text):
    rows, is_in_tasks = asked(spark, folder, text)
    names = sql(spark, folder, text).columns
    monkeypatch.setattr(query_module, "with_partials", lambda *_: None)
    assert is_in_tasks
    assert (rows, False) == asked(spark, folder, text)
    assert names == sql(spark, folder, text).columns


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "text",
    [
        "select sum(`offset`) from a",  # Spark reports an overflow
        "select count(distinct key), count(distinct value) from a",
        "select count(distinct key, value) from a",
        "select sum(distinct partition) from a",
        "select count(*) filter (where partition = 0) from a",
        "select avg(`offset`) from a",  # Spark sums it as a fraction
        "select date_trunc('week', timestamp), count(*) from a group by 1",
        "select min(key) from a",
        "select hour(timestamp), count(*) from a group by 1",
        "select count(*) from a where `offset` % 2 = 0",
        "select count(*) from a join b using (key)",
        "select count(*) from a where `offset` > (select max(`offset`) from b)",
        "select count(*) from segments",
        "select max(`offset`) from a where topic = 'b' and topic = 'orders'",  # no rows, as Spark sees
        "select max(`offset`) from a where partition > 100",  # no rows, as kafkalog sees
        "select count(key, value) from a",
        "select key from a where partition = 0",
    ],
)
def test_not_aggregated_in_tasks(spark, folder, text):
    assert not asked(spark, folder, text)[1]


def test_groups_are_combined_once(spark, folder):
    """After the shuffle only: a row of a task is a group already."""
    for text, tasks in (("select key, count(*) from b group by 1", 1), ("select topic, count(*) from b group by 1", 1)):
        with query_module.query(spark, Catalog(RealFilesystem(), [str(folder)]), text, Reading()) as result:
            plan = result._dataframe._jdf.queryExecution().executedPlan().toString()
        assert f", {tasks}), REPARTITION_BY_NUM" in plan or "SinglePartition, REPARTITION_BY_NUM" in plan, plan
        assert "ENSURE_REQUIREMENTS" not in plan


def test_who_plans_a_read(spark, folder):
    """A DataFrame that is kept is planned by Spark at each use; the command plans small logs itself, and once."""
    text = "select key from b"
    with query_module.query(spark, Catalog(RealFilesystem(), [str(folder)]), text, Reading()) as result:
        assert "MapInArrow kafkalog(" in result._dataframe._jdf.queryExecution().toString()
        rows = result._dataframe.count()
    kept = sql(spark, folder, text)
    assert "BatchScan kafkalog[" in kept._jdf.queryExecution().toString()
    assert kept.count() == rows


def test_groups_that_are_not_held(folder, monkeypatch):
    """A batch whose records are nearly all groups goes on at once, and the others are combined."""
    import pyarrow as pa

    monkeypatch.setattr(partials, "LEAST_ALONE", 1)
    made = partials.Partials([], [["column", "key"]], [("count", ["literal", "integer", 1])])
    schema = pa.schema([("c0", pa.binary()), ("c1", pa.int64())])
    keys = [b"a", b"b", b"a", b"a", b"c", None, b"a", b"a"]
    rows = [row for part in made.rows(_of_two(keys), schema) for row in zip(*part.to_pydict().values(), strict=True)]
    assert rows == [(b"a", 1), (b"b", 1), (b"c", 1), (None, 1), (b"a", 4)]


def test_the_first_hour_of_all(folder):
    """Its start is before the smallest 64-bit number, where Arrow would give a time of the future."""
    import pyarrow as pa

    made = partials.Partials([], [["floor", "hour", ["column", "timestamp"]]], [("count", ["literal", "integer", 1])])
    schema = pa.schema([("c0", pa.timestamp("us", "UTC")), ("c1", pa.int64())])

    def rows(*micros):
        times = pa.array(micros, pa.int64()).cast(pa.timestamp("us", "UTC"))
        parts = made.rows(iter([pa.record_batch({"timestamp": times})]), schema)
        columns = ((part.column(0).cast(pa.int64()), part.column(1)) for part in parts)
        return [row for times, counts in columns for row in zip(times.to_pylist(), counts.to_pylist(), strict=True)]

    assert rows(-1, -3_600_000_000, None) == [(-3_600_000_000, 2), (None, 1)]
    with pytest.raises(KafkalogError, match="in the first hour that Spark has"):
        rows(-(2**63) + 1000)


def test_more_groups_than_a_task_holds(spark, folder, monkeypatch):
    """A group then has several rows, as it has of several tasks."""
    import pyarrow as pa

    monkeypatch.setattr(partials, "MOST_GROUPS", 2)
    made = partials.Partials([], [["column", "key"]], [("count", ["literal", "integer", 1])])
    schema = pa.schema([("c0", pa.binary()), ("c1", pa.int64())])
    keys = [b"a", b"b", None, b"a", b"c", None, b"a", b"a"]
    rows = [row for part in made.rows(_of_two(keys), schema) for row in zip(*part.to_pydict().values(), strict=True)]
    counted = Counter()
    for key, count in rows:
        counted[key] += count
    assert len(rows) > len(counted)
    assert counted == Counter(keys)


def _of_two(keys):
    import pyarrow as pa

    return (pa.record_batch({"key": keys[at : at + 2]}) for at in range(0, len(keys), 2))
