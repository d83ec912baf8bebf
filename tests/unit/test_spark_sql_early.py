"""Misspelt names are found before Spark is started, and no query is refused that Spark takes."""

# ruff: noqa: F811 - `shop` is a fixture

from itertools import chain

import pytest

from kafkalog_cli.ops.scans.schema import STRUCTS, TEXT_COLUMNS
from kafkalog_cli.ops.scans.tables import TABLES
from kafkalog_cli.spark.queries import early
from kafkalog_cli.spark.queries.catalog import Catalog, Reading, SqlView
from kafkalog_cli.spark.queries.early import NO_COLUMNS, check_names, similar_columns
from tests.spark.conftest import shop  # noqa: F401 fixture
from tests.spark.querying import kafkalog, make_shop
from tests.spark.sql_cases import Chooser, make_logs
from tests.support.product import ExitCode, KafkalogError, RealFilesystem, UsageError

COLUMNS = (
    "key, value, topic, partition, offset, timestamp, timestampType, headers, segment, position, batch_base_offset, codec,"
    " producer_id, producer_epoch, sequence, leader_epoch, transactional, control, key_size, value_size, key_text, value_text"
)


@pytest.fixture(scope="module")
def catalog(tmp_path_factory):
    return Catalog(RealFilesystem(), [str(make_shop(tmp_path_factory.mktemp("shop")))])


def said(query, catalog):
    with pytest.raises(UsageError) as raised:
        check_names(query, catalog, Reading())
    return str(raised.value)


WRONG = {
    "select * from ordes": "there is no view `ordes`. Did you mean orders?",
    "select count(*) from ORDERZ where offset > 3": "there is no view `orderz`. Did you mean orders?",
    "select count(*) from `my_topic`": "there is no view `my_topic`. Did you mean my-topic",
    "select o.key from orders o join segmnts s on o.partition = s.partition": "there is no view `segmnts`. Did you mean segments?",
    "select offse from orders": f"there is no column offse in orders. Did you mean offset? Columns: {COLUMNS}",
    "select key, max(ofset) from orders group by key": f"there is no column ofset in orders. Did you mean offset? Columns: {COLUMNS}",
    "SELECT count(*) FROM orders WHERE Partitn = 0 AND offset >= 10": (
        f"there is no column partitn in orders. Did you mean partition? Columns: {COLUMNS}"
    ),
    "select valuetext, key_text from orders": (
        f"there is no column valuetext in orders. Did you mean value_text? Columns: {COLUMNS}"
    ),
    "select value_texts, value_text from orders": (
        f"there is no column value_texts in orders. Did you mean value_text? Columns: {COLUMNS}"
    ),
    "select sum(size_byte) from segments where is_active": "there is no column size_byte in segments. Did you mean size_bytes?",
    "select topic from batches where not crcvalid order by topic": "there is no column crcvalid in batches. Did you mean crc_valid?",
    "select `offse` from `orders`": f"there is no column offse in orders. Did you mean offset? Columns: {COLUMNS}",
}  # fmt: skip


@pytest.mark.parametrize("query", WRONG)
def test_what_is_answered_early(catalog, query):
    assert said(query, catalog).startswith(WRONG[query])


TAKEN = (
    "select offset as offse from orders order by offse",
    "select offset offse from orders where offset > 1 order by offse",
    "select max(offset) + 1 offse, 2 * max(offset) from orders having offse > 0",
    "select offse + 1 from orders as o (a, b, c, d, offse, f, g, h, i, j, k, l, m, n, p, q, r, s, t, u)",
    "select stack(1, offset, 2) as (offse, other) from orders order by offse",
    "select inline(from_json('[{\"offse\":1}]', 'array<struct<offse:int>>')) from orders order by offse",
    "select transform(array(1), offse -> offse + 1) from orders",
    "with ordes as (select 1 x) select * from ordes",
    "select offse from (select offset offse from orders)",
    "select offse from orders lateral view explode(array(1)) t as offse",
    "select offse from orders, lateral (select 1 as offse)",
    "select count(*) from orders, values (1) as ordes (offse)",
    "select timestampdiff(minute, timestamp, localtimestamp()) from orders where timestamp < current_timestamp",
    "select extract(hour from timestamp) from orders",
    "select 1 is distinct from 2",
    "select 1",
    "select key is not distinct from value from orders",
    "select `offset` /* offse */ from orders -- ordes",
    "select position('a' in cast(key as string)) positions from orders",
    "select * from range(3)",
    "select sum(offsets) from (select offset offsets from orders)",
    "select partition, count(*) partitions from orders group by partition having partitions > 1",
    "select rank() over topik from orders window topik as (order by offset)",
    "select count(*) from ORDERS o where o.OFFSET > 2 and KEY is not null",
    "select key_text, Value_Text from orders",
    "select trim(both 'a' from key_text) from orders",
    "select case when offset > 1 then 'offse' else 'x' end offse from orders group by offse",
)


@pytest.mark.exhaustive
@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("query", TAKEN)
def test_what_spark_takes_is_let_through(catalog, shop, spark, query):
    check_names(query, catalog, Reading())
    code, _, err = kafkalog("sql", shop, query)
    assert code == ExitCode.OK, err


@pytest.mark.exhaustive
@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("query", WRONG)
def test_what_is_answered_early_is_refused_by_spark_too(shop, spark, query, monkeypatch):
    monkeypatch.setattr(early, "check_names", lambda *_: None)
    code, out, _ = kafkalog("sql", shop, query)
    assert (code, out) == (ExitCode.USAGE, "")


@pytest.mark.parametrize(
    "query", ["select * from my-topic", "select * from `a`.b", "select * from ordes, orders", "select 'x"]
)
def test_where_spark_says_it_better(catalog, query):
    """Spark refuses these with a message of its own, for instance that a name needs backticks."""
    check_names(query, catalog, Reading())


def test_no_spark_is_started_for_it(shop, monkeypatch):
    from kafkalog_cli.cli import sql

    def started(*_, **__):
        raise KafkalogError(reason="Spark starts")

    monkeypatch.setattr(sql, "shown_session", started)
    assert kafkalog("sql", shop, "select * from ordes") == (
        ExitCode.USAGE, "", "kafkalog: there is no view `ordes`. Did you mean orders?\n",
    )  # fmt: skip
    for options in (("--conf", "spark.sql.caseSensitive=true"), ("--allow", "files")):
        code, _, err = kafkalog("sql", shop, "select * from ordes", *options)
        assert (code, err) == (ExitCode.FAILURE, "kafkalog: Spark starts\n")


def test_random_queries_are_let_through(tmp_path):
    """The queries of `make fuzz-sql`, which Spark takes."""
    made = Catalog(RealFilesystem(), [str(make_logs(tmp_path / "logs", 1))])
    for at in range(3_000):
        check_names(Chooser(1_000_000 + at).query().sql("spark"), made, Reading())


@pytest.mark.full
@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_words_of_spark_are_no_misspelt_columns(spark):
    """Every word that Spark may take without a column is known, if it is similar to a column of any view."""
    everything = [*SqlView("orders", None, ()).columns(Reading(texts=TEXT_COLUMNS)), *STRUCTS]
    views = [everything, *(list(table.row._fields) for table in TABLES.values())]
    keywords = {row.keyword.lower() for row in spark.sql("select keyword from sql_keywords()").collect()}
    without_parentheses = {
        "current_catalog",
        "current_database",
        "current_date",
        "current_time",
        "current_timestamp",
        "current_user",
    }
    units = {"year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond", "microsecond"}
    similar = {
        word for word, columns in ((word, columns) for word in keywords | without_parentheses | units for columns in views)
        if word.isidentifier() and similar_columns(word, columns)
    }  # fmt: skip
    assert similar <= NO_COLUMNS | set(chain(*views)), sorted(similar - NO_COLUMNS - set(chain(*views)))
