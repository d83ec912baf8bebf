"""Queries whose records tasks group: the rows are those of the plan as it was, and of a naive decoder."""

import pytest

from tests.spark.sql_cases import Chooser, make_logs, oracle_of
from tests.spark.sql_fuzz import answer_of, plain
from tests.support.product import RealFilesystem
from tests.support.product_spark import Catalog, Reading, query, replace_point, sql

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

QUERIES, SEEDS = 2, range(31_000, 31_024, 2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_logs(tmp_path_factory.mktemp("logs"), 5)


@pytest.fixture(autouse=True)
def many_tasks(monkeypatch):
    """Each task reads a few offsets, so that groups have rows of several tasks."""

    def noted(real):
        def options(view, *given):
            return real(view, *given) | ({"maxRecordsPerPartition": "9"} if view.table is None else {})

        return options

    replace_point(monkeypatch, "options of a view", noted)


def asked(spark, folder, text):
    """The rows of a query, its plan, and whether tasks group its records."""
    with query(spark, Catalog(RealFilesystem(), [str(folder)], text, Reading())) as result:
        found = result._dataframe
        plan = found._jdf.queryExecution().executedPlan().toString()
        return plain(map(tuple, found.collect())), plan, "_records#" in plan


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", SEEDS)
def test_random_aggregates_answer_like_sqlite(spark, folder, evidence, seed):
    database = oracle_of(folder)
    for node in (Chooser(seed + number).totals() for number in range(QUERIES)):
        assert asked(spark, folder, node.sql("spark"))[0] == answer_of(database, node), node.sql("spark")
    evidence("R73", QUERIES, len(SEEDS))


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "text",
    [
        "select count(*) from a",
        "select sum(length(value)), sum(octet_length(key)) from a",
        "select partition, count(*) n, max(timestamp) newest from orders group by 1 order by 1",
        "select count(*), max(n) from (select key, count(*) n from b group by key)",
        "select Partition as p, count(*), min(key) from a group by Partition having count(*) > 1",
        "select key, partition, count(*) + 1, sum(length(value)) from a group by partition, key",
    ],
)
def test_aggregates_grouped_in_tasks_answer_as_without_it(spark, folder, monkeypatch, text):
    rows, _, is_grouped = asked(spark, folder, text)
    names = sql(spark, folder, text).columns
    assert is_grouped
    replace_point(monkeypatch, "groups in tasks", lambda _: lambda *_: None)
    assert asked(spark, folder, text)[0] == rows
    assert sql(spark, folder, text).columns == names


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "text",
    [
        "select sum(`offset`) from a",  # Spark reports an overflow
        "select count(distinct key) from a",
        "select count(*) filter (where partition = 0) from a",
        "select count(key) from a",
        "select length(key), count(*) from a group by 1",
        "select count(*), max(headers) from a",
        "select partition, count(*) from a group by grouping sets ((partition), ())",
        "select count(*) from a where `offset` % 2 = 0",
        "select count(*) from a join b using (key)",
        "select count(*) from segments",
        "select max(`offset`) from a where partition > 100",
    ],
)
def test_aggregates_that_tasks_cannot_group_are_left_to_spark(spark, folder, text):
    assert not asked(spark, folder, text)[2]


def test_groups_are_combined_once(spark, folder):
    """After the shuffle only: few rows of a task are alike."""
    for text in ("select key, count(*) from b group by 1", "select topic, count(*) from b group by 1"):
        plan = asked(spark, folder, text)[1]
        assert "1), REPARTITION_BY_NUM" in plan or "SinglePartition, REPARTITION_BY_NUM" in plan, plan
        assert "ENSURE_REQUIREMENTS" not in plan


def test_spark_plans_the_reads_of_kept_dataframes_and_the_command_its_own(spark, folder):
    """A DataFrame that is kept is planned by Spark at each use; the command plans small logs itself, and once."""
    text = "select key from b"
    rows, plan, _ = asked(spark, folder, text)
    assert "MapInArrow" in plan
    kept = sql(spark, folder, text)
    assert "BatchScan kafkalog[" in kept._jdf.queryExecution().toString()
    assert kept.count() == sum(rows.values())
