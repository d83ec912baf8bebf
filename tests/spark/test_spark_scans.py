"""Scans of one `load()` or one view do not see each other's filters; `kafkalog sql` asks a view for what all its scans use."""

from pathlib import Path

import pytest

from tests.spark.querying import log, rows
from tests.spark.sql_cases import make_logs, oracle_of
from tests.spark.sql_fuzz import Asked, fuzz_sql
from tests.support.logs import BASE_TIME_MS
from tests.support.product import RealFilesystem
from tests.support.product_spark import Catalog, Reading, query, replace_point

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

EXAMPLE = Path(__file__).parents[2] / "docs" / "example"
ON = "a.topic = b.topic and a.partition = b.partition and a.`offset` = b.`offset`"


@pytest.fixture(params=["true", "false"])
def handing_down(spark, request):
    """Spark's setting by which it would hand filters down to a source in Python."""
    name = "spark.sql.python.filterPushdown.enabled"
    before = spark.conf.get(name)
    spark.conf.set(name, request.param)
    yield
    spark.conf.set(name, before)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_logs(tmp_path_factory.mktemp("logs"), 5)


@pytest.mark.exhaustive
@pytest.mark.usefixtures("handing_down")
def test_a_dataframe_used_twice_has_all_rows_in_each_use(spark):
    frame = spark.read.format("kafkalog").option("subscribe", "mixed").load(str(EXAMPLE))
    some = frame.where("partition = 1 and offset < 10")
    assert some.count() == 10
    assert frame.count() == 250
    assert (some.count(), frame.where("offset >= 10").count()) == (10, 230)
    assert some.union(frame.where("partition = 0 and offset < 3")).count() == 13
    assert some.join(frame.where("partition = 0"), "offset").count() == 10
    frame.createOrReplaceTempView("of_mixed")
    counts = "(select count(*) from of_mixed where partition = 1 and `offset` < 10), (select count(*) from of_mixed)"
    assert [tuple(row) for row in spark.sql(f"select {counts}").collect()] == [(10, 250)]
    cached = some.cache()
    assert (cached.count(), frame.count(), cached.count()) == (10, 250, 10)
    cached.unpersist()
    assert frame.where("partition = 0").count() == 125


@pytest.mark.exhaustive
@pytest.mark.usefixtures("handing_down")
def test_three_loads_and_a_join_that_spark_doubles(spark, folder):
    """Spark pushes semi and anti joins through unions, and so scans the third twice, each time under another filter."""
    one, two, three = (spark.read.format("kafkalog").load(str(folder)) for _ in range(3))
    some = two.where("`offset` = 10 and topic = 'orders'")
    everything = sum(
        oracle_of(folder).execute(f"select count(*) from {topic}").fetchone()[0] for topic in ("a", "b", "orders")
    )
    twice = oracle_of(folder).execute("select count(*) from orders where `offset` = 10").fetchone()[0]
    assert everything > 100
    assert twice > 0
    for number, frame in enumerate((one, two, three), 1):
        frame.createOrReplaceTempView(f"v{number}")
    union = "(select * from v1 union all select * from v2 where `offset` = 10 and topic = 'orders') a"
    counts = {
        kind: spark.sql(f"select count(*) from {union} left {kind} join v3 b on {ON}").first()[0]
        for kind in ("anti", "semi")
    }
    assert counts == {"anti": 0, "semi": everything + twice}
    of_frames = one.union(some).join(three, ["topic", "partition", "offset"], "left_semi").count()
    assert of_frames == everything + twice


@pytest.mark.full
def test_a_view_of_sql_used_twice_has_all_rows_in_each_use(spark):
    of_each = (
        "select partition, count(*) n from mixed where partition = 0 and `offset` < 5 group by 1"
        " union all select partition, count(*) from mixed where partition = 1 and `offset` < 7 group by 1"
    )
    assert sorted(rows(EXAMPLE, of_each)) == [(0, 5), (1, 7)]
    scalars = (
        "select (select count(*) from mixed where partition = 1 and `offset` < 10) a, (select count(*) from mixed) b"
    )
    assert rows(EXAMPLE, scalars) == [(10, 250)]
    joined = (
        "select count(*) from mixed a join mixed b using (partition, offset) where a.partition = 1 and b.`offset` < 10"
    )
    assert rows(EXAMPLE, joined) == [(10,)]
    common = (
        "with c as (select * from mixed) select count(*) from c union all select count(*) from c where `offset` = 3"
    )
    assert sorted(rows(EXAMPLE, common)) == [(2,), (250,)]
    assert rows(EXAMPLE, "select count(*) from mixed where timestamp < timestamp'+12345-01-01'") == [(250,)]
    from tests.support.product_spark import session

    assert session() is spark  # a command leaves the running session as the active session


def at(ms):
    return f"timestamp_millis({BASE_TIME_MS + ms})"


def limits(*given):
    """The options of a range of offsets and times."""
    names = ("fromOffset", "toOffset", "since", "until")
    return {name: str(one) for name, one in zip(names, given, strict=False) if one}


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("text", "partitions", "records"),
    [
        ("select offset from {0}", {0, 1, 11}, limits()),
        ("select offset from {0} where offset >= 3 and offset < 9", {0, 1, 11}, limits(3, 9)),
        ("select offset from {0} where 3 < offset and 9 >= offset and partition > 0", {1, 11}, limits(4, 10)),
        ("select offset from {0} where partition in (0, 11, 12) and offset in (4, 7, 5)", {0, 11}, limits(4, 8)),
        (f"select offset from {{0}} where `offset` in ({', '.join(map(str, range(4, 24)))})", {0, 1, 11}, limits(4, 24)),
        ("select offset from {0} where offset = 3 or partition = 1 and offset = 9", {0, 1, 11}, limits(3, 10)),
        ("select offset from {0} where offset = 3 or key is null", {0, 1, 11}, limits()),
        ("select offset from {0} where not (offset < 3) and offset + 1 < 9", {0, 1, 11}, limits(3, None)),
        (
            f"select offset from {{0}} where timestamp between {at(5)} and {at(7)}",
            {0, 1, 11},
            limits(0, None, BASE_TIME_MS + 5, BASE_TIME_MS + 8),
        ),
        (
            f"select offset from {{0}} where timestamp > {at(5)} and timestamp < {at(7)} + interval 1 microsecond",
            {0, 1, 11},
            limits(0, None, BASE_TIME_MS + 6, BASE_TIME_MS + 8),
        ),
        ("select offset from {0} where partition = 0 union all select offset from {0} where offset > 5", {0, 1, 11}, limits()),
        (
            "select offset from {0} where partition = 0 and offset < 4 union all"
            " select offset from {0} where partition = 1 and offset > 2 and offset < 9",
            {0, 1},
            limits(0, 9),
        ),
        ("select offset, (select count(*) from {0}) from {0} where offset < 4", {0, 1, 11}, limits()),
        ("select a.offset from {0} a join {0} b on a.offset = b.offset where a.offset < 4", {0, 1, 11}, limits(0, 4)),
        ("select a.offset from {0} a left join {0} b on a.key = b.key and b.offset < 4", {0, 1, 11}, limits()),
        ("select offset from (select * from {0} order by offset limit 3) where offset > 4", {0, 1, 11}, limits()),
        ("select offset from {0} tablesample (3 rows) where offset > 4", {0, 1, 11}, limits()),
        ("with c as (select * from {0}) select count(*) from c where offset < 2 union all select count(*) from c", {0, 1, 11}, limits()),
    ],
)  # fmt: skip
def test_a_view_reads_only_the_partitions_and_records_of_its_query(
    spark, folder, monkeypatch, text, partitions, records
):
    asked = []

    def noted(real):
        def rows(views, view, used, box):
            asked.append((box.partitions, box.options()))
            return real(views, view, used, box)

        return rows

    replace_point(monkeypatch, "view of a query", noted)
    replace_point(monkeypatch, "groups in tasks", lambda _: lambda *_: None)  # the views, also of groups
    with query(spark, Catalog(RealFilesystem(), [str(folder)], text.format("orders"), Reading())):
        assert asked == [(partitions, records)]


def test_a_view_of_which_no_column_is_used_reads_no_records(tmp_path):
    """It is not read: damage in it is no matter of the query."""
    log(tmp_path, "orders", b"no log at all")
    for nothing in (
        "partition = 7",
        "offset < 0",
        "offset > 5 and offset < 3",
        f"timestamp > {at(5)} and timestamp < {at(5)}",
    ):
        assert rows(tmp_path, f"select count(*) from orders where {nothing}") == [(0,)]


@pytest.mark.full
def test_random_sql_queries_answer_like_sqlite(spark, tmp_path, capsys):
    """`make fuzz-sql` asks 2,000."""
    tally = fuzz_sql(spark, tmp_path, seed=7, count=24, show=print)
    with capsys.disabled():
        print(f" {tally} ", end="")
    assert not tally.different
    assert tally.rows > 24


@pytest.mark.full
def test_the_fuzz_sees_filters_of_another_scan(spark, folder, tmp_path):
    """With views of which a range is taken away, as Spark took it from all scans: answers are wrong, and it says so."""

    class Cut(Asked):
        def __init__(self, spark, folder, isolation):
            super().__init__(spark, folder, isolation)
            self._frames = {topic: frame.where("`offset` < 12") for topic, frame in self._frames.items()}

    wrong = []
    tally = fuzz_sql(spark, tmp_path, seed=7, count=9, ways=("views",), show=wrong.append, asked_of=Cut)
    assert tally.different
    assert "rows wanted" in "".join(wrong)
