"""`kafkalog_cli.spark.sql`: a query's rows as a DataFrame, which stays right however it is used, and reads what the query needs."""

import json
import threading
import time

import pytest

from tests.spark.querying import ORDERS, log
from tests.spark.sql_cases import Chooser, make_logs, oracle_of
from tests.spark.sql_fuzz import answer_of, plain
from tests.support.logs import BASE_TIME_MS, R, batch_v2
from tests.support.product import ExitCode, PathNotFound, UsageError

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.fixture(scope="module")
def sql(spark):
    from tests.support.product_spark import sql

    return lambda paths, text, **options: sql(spark, paths, text, **options)


def values(frame):
    return sorted(tuple(row) for row in frame.collect())


def scans_of(frame):
    """The options of each scan of the source in a DataFrame's plan."""
    from tests.support.product_spark import roots

    def leaves(plan):
        children = plan.children()
        if not children.size():
            yield plan
        for at in range(children.size()):
            yield from leaves(children.apply(at))

    found = [leaf for root in roots(frame._jdf.queryExecution().analyzed()) for leaf in leaves(root)]
    return [dict(leaf.options()) for leaf in found if leaf.getClass().getSimpleName() == "DataSourceV2Relation"]


def test_kl_sql_returns_a_dataframe_with_the_rows_of_the_query(sql, shop, spark):
    frame = sql(shop, "select key, count(*) records from orders where offset < 4 group by key")
    assert frame.columns == ["key", "records"]
    assert {(row.key and bytes(row.key), row.records) for row in frame.collect()} == {(b"a", 2), (b"b", 1), (None, 1)}
    assert frame.sparkSession is spark
    assert values(sql([str(shop)], "select count(*) from segments")) == [(4,)]


@pytest.mark.full
def test_a_dataframe_of_kl_sql_used_in_many_places_has_all_rows_in_each(sql, shop):
    """A filter on one use makes no other use read less."""
    frame = sql(shop, "select partition, offset, value_size from orders where offset >= 1")
    some = frame.where("offset < 3")
    assert (some.count(), frame.count(), frame.where("offset = 4").count()) == (2, 4, 1)
    assert sorted(row.offset for row in some.union(frame.where("offset > 3")).collect()) == [1, 2, 4]
    joined = frame.alias("a").join(frame.alias("b"), "offset").where("a.offset < 3 and b.value_size is not null")
    assert sorted(row.offset for row in joined.collect()) == [1]
    assert frame.join(some, "offset", "left_anti").count() == 2
    cached = some.cache()
    assert (cached.count(), frame.count(), cached.count()) == (2, 4, 2)
    cached.unpersist()


def test_a_dataframe_of_kl_sql_becomes_a_view_of_its_session(sql, shop, spark):
    sql(shop, "select offset, value from orders where partition = 0").createOrReplaceTempView("from_the_logs")
    try:
        both = "(select count(*) from from_the_logs where `offset` < 2), (select count(*) from from_the_logs)"
        assert [tuple(row) for row in spark.sql(f"select {both}").collect()] == [(2, 5)]
    finally:
        spark.catalog.dropTempView("from_the_logs")


def test_only_what_the_query_uses_is_read(sql, shop):
    (scan,) = scans_of(sql(shop, "select sum(value_size) from orders where partition = 0 and offset between 1 and 2"))
    assert set(scan["columns"].split(",")) == {"partition", "offset", "value_size"}
    assert (scan["fromoffset"], scan["tooffset"]) == ("1", "3")
    assert json.loads(scan["paths"]) == [str(shop / "orders-0")]
    assert scans_of(sql(shop, "select * from orders where partition = 7")) == []


def test_a_query_about_now_reads_everything_at_each_use(sql, tmp_path):
    """What is past when the DataFrame is made is less than what is past when it is used."""
    soon = int(time.time() * 1000) + 2_500
    folder = log(tmp_path, "orders", batch_v2([R(0, BASE_TIME_MS, b"a", b"x"), R(1, soon, b"b", b"y")]))
    frame = sql(folder, "select offset from orders where timestamp < now()")
    assert "until" not in scans_of(frame)[0]
    while time.time() * 1000 < soon + 100:
        time.sleep(0.1)
    assert values(frame) == [(0,), (1,)]
    fixed = sql(folder, f"select offset from orders where timestamp < timestamp_millis({BASE_TIME_MS + 1})")
    assert scans_of(fixed)[0]["until"] == str(BASE_TIME_MS + 1)


def test_a_dataframe_of_kl_sql_has_the_records_at_each_use(sql, tmp_path):
    folder = log(tmp_path, "orders", batch_v2(ORDERS[:3]))
    frame = sql(folder, "select offset from orders where offset > 0")
    assert values(frame) == [(1,), (2,)]
    with (folder / "orders-0" / f"{0:020d}.log").open("ab") as file:
        file.write(batch_v2(ORDERS[3:]))
    assert values(frame) == [(1,), (2,), (3,), (4,)]


def test_the_session_stays_as_it_was(sql, shop, spark, tmp_path):
    spark.sql("select 7 as offset, 'mine' as word").createOrReplaceTempView("orders")
    views = {one.name for one in spark.catalog.listTables()}
    before = {name: spark.conf.get(name) for name in ("spark.sql.runSQLOnFiles", "spark.sql.session.timeZone")}
    try:
        assert values(sql(shop, "select offset from orders where offset < 2")) == [(0,), (1,)]
        spark.range(2).createOrReplaceTempView("numbers")
        assert values(sql(shop, "select o.offset from `my-topic` o join numbers n on o.offset = n.id")) == [(0,), (1,)]
        assert [tuple(row) for row in spark.sql("select word from orders").collect()] == [("mine",)]
        assert {one.name for one in spark.catalog.listTables()} == {*views, "numbers"}
        assert {name: spark.conf.get(name) for name in before} == before
        assert type(spark).getActiveSession()._jsparkSession.equals(spark._jsparkSession)
    finally:
        spark.catalog.dropTempView("orders")
        spark.catalog.dropTempView("numbers")


def test_a_view_of_text_does_not_mean_a_topic_by_chance(sql, shop, spark):
    """Spark reads the text of a view again, where `orders` would be the topic."""
    spark.sql("select 7 as offset").createOrReplaceTempView("orders")
    spark.sql("create temporary view mine as select * from orders")
    try:
        assert values(sql(shop, "select * from mine")) == [(7,)]
        assert values(sql(shop, "select max(offset) from orders")) == [(4,)]
        with pytest.raises(
            UsageError, match=r"orders is a topic or table here and a temporary view .* which mine may mean"
        ):
            sql(shop, "select count(*) from orders, mine")
    finally:
        spark.catalog.dropTempView("mine")
        spark.catalog.dropTempView("orders")


def test_kl_sql_answers_in_a_session_without_our_settings(shop, spark):
    """Views `kafkalog.NAME` need a setting with which Spark starts; nothing else does."""
    from tests.support.product_spark import sql

    other = spark.newSession()
    assert values(sql(other, shop, "select count(*) from orders")) == [(5,)]
    assert values(sql(spark, shop, "select count(*) from kafkalog.segments")) == [(4,)]


@pytest.mark.full
def test_kl_sql_from_many_threads_answers_from_the_logs_of_each(sql, tmp_path_factory):
    """Each thread has logs of its own, with the same topics."""
    found = {}

    def ask(number):
        folder = log(tmp_path_factory.mktemp("of-a-thread"), "orders", batch_v2(ORDERS[: number + 1]))
        rows = sql(folder, "select count(*) n, (select max(next_offset) from kafkalog.segments) from orders")
        found[number] = values(rows)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert found == {number: [(number + 1, number + 1)] for number in range(4)}


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("select * from text.`/etc/hostname`", {}, "reads no file by its path"),
        ("select reflect('java.lang.System', 'getenv', 'HOME')", {}, "calls any method of Java"),
        ("create table x as select 1", {}, "sql runs queries"),
        ("select * from ordes", {}, "there is no view `ordes`. Did you mean orders?"),
        ("select offse from orders", {}, "offse"),
        ("select 1", {"mode": "fast"}, "fast: choose one of failfast, dropmalformed, permissive"),
        ("select 1", {"allow": ["all"]}, "all: choose one of files, java"),
    ],
)
def test_kl_sql_refuses_unsafe_and_wrong_queries(sql, shop, text, options, said):
    with pytest.raises(UsageError, match=said) as raised:
        sql(shop, text, **options)
    assert raised.value.exit_code == ExitCode.USAGE
    assert "\n" not in str(raised.value)


def test_files_are_read_where_that_is_allowed(sql, shop, tmp_path, spark):
    (tmp_path / "words").write_text("a\nb\n")
    spark.read.text(str(tmp_path / "words")).createOrReplaceTempView("words")
    text = "select value from words where cast(value as binary) in (select key from orders)"
    try:
        with pytest.raises(UsageError, match="only the views of its log directories"):
            sql(shop, text)
        assert values(sql(shop, text, allow=["files"])) == [("a",), ("b",)]
    finally:
        spark.catalog.dropTempView("words")


def test_kl_sql_takes_paths_of_every_form(sql, shop, monkeypatch):
    monkeypatch.chdir(shop.parent)
    for path in (shop, str(shop), [shop], shop.as_uri(), shop.name):
        assert values(sql(path, "select max(offset) from orders")) == [(4,)]
    with pytest.raises(PathNotFound):
        sql("/nonexistent/kafka", "select 1")


def test_spark_connect_is_refused(shop):
    """A session of Spark Connect has no access to Spark's plans."""
    from tests.support.product_spark import sql

    session = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()  # Connect itself needs grpc
    with pytest.raises(UsageError, match="Spark Connect does not give"):
        sql(session, shop, "select 1")


@pytest.mark.exhaustive
@pytest.mark.parametrize("at", range(2))
@pytest.mark.parametrize("seed", range(6))
def test_random_queries_of_kl_sql_answer_like_sqlite_at_each_use(sql, tmp_path, seed, at):
    """Each answer twice, in a union, beside a filter, and cached."""
    folder = make_logs(tmp_path / "logs", seed)
    node = Chooser(seed * 1_000 + at).query()
    wanted = answer_of(oracle_of(folder), node)
    frame = sql(folder, node.sql("spark"))
    assert plain(map(tuple, frame.union(frame).collect())) == wanted + wanted, node.sql("spark")
    assert plain(map(tuple, frame.limit(3).union(frame.where("1 = 0")).collect())) <= wanted
    frame.persist()
    assert plain(map(tuple, frame.collect())) == wanted, node.sql("spark")
    frame.unpersist()


def test_the_library_imports_spark_only_when_it_is_asked_for():
    import subprocess
    import sys

    code = "import sys, kafkalog_cli.spark as s; assert 'sql' in dir(s); print('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
