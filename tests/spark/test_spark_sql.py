"""`kafkalog sql` through the real command: columns, names, tables, output, damage, refusals; the library's rows."""

import json
from collections import Counter

import pytest

import kafkalog_cli as kl
from tests.spark.querying import (
    ORDERS,
    OTHER,
    check_counting_decompresses_nothing,
    kafkalog,
    log,
    log_of_unreadable_records,
    rows,
    sql,
)
from tests.spark.spark_reading import pa
from tests.support.commands import Terminal
from tests.support.logs import BASE_TIME_MS, TRANSACTIONAL, R, batch_v2, end_marker
from tests.support.product_spark import Reading, replace_point

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.fixture(scope="module", autouse=True)
def in_spark(spark):
    return spark


def test_sql_answers_queries_with_joins_subqueries_and_functions(shop):
    scalars = (
        "with o as (select key, value v from orders), r as (select rand() r, key from orders) select"
        " (select count(*) from o where v is null) a, (select max(offset) from `my-topic`) b, count(value) c,"
        " (select count(*) from r x join r y on x.r = y.r) d from orders"
    )
    assert rows(shop, scalars) == [(1, 1, 4, 5)]
    assert rows(shop, "select key, count(*) from orders group by key order by key") == [
        (None, 1), (b"a", 2), (b"b", 1), (b"c", 1),
    ]  # fmt: skip
    assert rows(shop, "select key, value from orders where value is not null order by offset desc limit 2") == [
        (b"c", b""), (None, b"four"),
    ]  # fmt: skip
    assert rows(shop, "select a.offset one, b.offset two from orders a join orders b on a.key = b.key order by 1, 2") == [
        (0, 0), (0, 2), (1, 1), (2, 0), (2, 2), (4, 4),
    ]  # fmt: skip
    assert rows(shop, "select offset from orders where key in (select key from `my-topic`) order by 1") == [(0,), (2,)]
    union = rows(shop, "select * from orders union all select * from `my-topic`")
    assert Counter(row[2] for row in union) == {"orders": 5, "my-topic": 2}
    assert sorted(row[1] or b"" for row in union) == [b"", b"", b"four", b"one", b"two", b"x", b"y"]
    assert rows(shop, "select h.key, h.value from orders lateral view explode(headers) t as h") == [
        ("h", b"1"), ("g", None),
    ]  # fmt: skip
    windowed = "row_number() over (partition by key order by timestamp desc)"
    assert rows(shop, f"select position, codec, producer_id, sequence, leader_epoch, {windowed} from orders order by offset") == [
        (0, "lz4", -1, -1, 0, 2), (0, "lz4", -1, -1, 0, 1), (0, "lz4", -1, -1, 0, 1),
        (len(batch_v2(ORDERS[:3], 3)), "none", 9, 4, 2, 1), (len(batch_v2(ORDERS[:3], 3)), "none", 9, 5, 2, 1),
    ]  # fmt: skip
    late = f"select offset from orders where timestamp > timestamp_millis({BASE_TIME_MS + 3})"
    assert rows(shop, late) == [(4,)]


def test_sql_prints_every_column_of_records(shop):
    code, out, _ = sql(shop, "select * from orders order by offset limit 1", "--format", "json")
    assert code == 0
    (row, _) = map(json.loads, out.splitlines())
    assert row["row"] == {
        "key": {"encoding": "utf-8", "data": "a"}, "value": {"encoding": "utf-8", "data": "one"}, "topic": "orders",
        "partition": 0, "offset": 0, "timestamp": row["row"]["timestamp"], "timestampType": 0,
        "headers": [{"key": "h", "value": {"encoding": "utf-8", "data": "1"}}, {"key": "g", "value": None}],
        "segment": f"{0:020d}.log", "position": 0, "batch_base_offset": 0, "codec": "lz4", "producer_id": -1,
        "producer_epoch": -1, "sequence": -1, "leader_epoch": 0, "transactional": False, "control": False,
        "key_size": 1, "value_size": 3,
    }  # fmt: skip
    assert rows(shop, "select key_size, value_size from orders order by offset") == [
        (1, 3), (1, 3), (1, None), (None, 4), (1, 0),
    ]  # fmt: skip
    assert rows(shop, "select count(*) from orders a, orders b, `my-topic` c") == [(50,)]
    assert rows(shop, "select 1 from orders limit 3") == [(1,)] * 3
    assert rows(shop, "select unix_millis(timestamp) from orders order by 1") == [(r.timestamp,) for r in ORDERS]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("select count(*) from orders", {"orders": set()}),
        ("select key, count(*) from orders group by key", {"orders": {"key"}}),
        ("select count(*) from (select key, value from orders)", {"orders": set()}),
        ("select count(*) from orders where offset > 3", {"orders": {"offset"}}),
        ("select a.offset from orders a join orders b on a.key = b.key", {"orders": {"key", "offset"}}),
        ("with o as (select key, value from orders) select count(key) from o", {"orders": {"key"}}),
        ("select value from orders union all select key from `my-topic`", {"orders": {"value"}, "my-topic": {"key"}}),
        ("select (select max(offset) from `my-topic`), partition from orders", {"orders": {"partition"}, "my-topic": {"offset"}}),
        ("select offset from orders where exists (select 1 from `my-topic` m where m.key = orders.key)",
         {"orders": {"key", "offset"}, "my-topic": {"key"}}),
        ("select max(offset), (select count(*) from orders), (select sum(length(value)) from orders) from orders",
         {"orders": {"offset", "value"}}),
        ("select offset, rank() over (partition by key order by timestamp) from orders", {"orders": {"key", "timestamp", "offset"}}),
        ("select h.key from orders lateral view explode(headers) t as h", {"orders": {"headers"}}),
        ("select distinct codec from orders", {"orders": {"codec"}}),
        ("select key from orders except select key from `my-topic`", {"orders": {"key"}, "my-topic": {"key"}}),
        ("select * from orders where 1 = 0", {}),
        ("select 1", {}),
    ],
)  # fmt: skip
def test_only_the_columns_that_a_query_uses_are_read(shop, spark, query, wanted, monkeypatch):
    from tests.support.product import RealFilesystem
    from tests.support.product_spark import Catalog
    from tests.support.product_spark import query as asked_query

    made = {}

    def noted(real):
        def rows(views, view, used, box):
            made[view.name] = set(used)
            return real(views, view, used, box)

        return rows

    replace_point(monkeypatch, "view of a query", noted)
    replace_point(monkeypatch, "groups in tasks", lambda _: lambda *_: None)  # the views, also of groups
    with asked_query(spark, Catalog(RealFilesystem(), [str(shop)], query, Reading())):
        assert made == wanted


def test_sql_count_decompresses_nothing(tmp_path):
    check_counting_decompresses_nothing(log_of_unreadable_records(tmp_path))


CASES = ("format-0.7", "v0", "v1", "v2-mixed", "v2-zstd", "txn", "compact-edge", "compact-tx")
"""Of all magics and 0.7, compacted, with transactions and control records; of each the largest partition."""


@pytest.fixture(scope="module")
def every_log(corpus, tmp_path_factory):
    made = tmp_path_factory.mktemp("every-log")
    for case in CASES:
        folders = [path for path in (corpus / case).rglob("*-[0-9]") if path.is_dir() and "expected" not in path.parts]
        largest = max((one for one in folders if not one.name.startswith("__")), key=size_of)
        (made / f"{case}.{largest.name}").symlink_to(largest)
    return made


def size_of(folder):
    return sum(path.stat().st_size for path in folder.iterdir())


def of_the_core(log, isolation):
    """(records, bytes of keys, bytes of values, sum of offsets)"""
    import pyarrow.compute as pc

    found = [0, 0, 0, 0]
    for part in log.records(columns=["offset", "key", "value"], isolation=isolation, on_damage=lambda damage: None):
        found[0] += part.num_rows
        for at, name in ((1, "key"), (2, "value")):
            found[at] += pc.sum(pc.binary_length(part.column(name))).as_py() or 0
        found[3] += pc.sum(part.column("offset")).as_py() or 0
    return tuple(found)


@pytest.mark.full
@pytest.mark.filterwarnings("ignore::kafkalog_cli.LogWarning")
def test_sql_sums_the_records_of_every_kind_of_log_of_the_corpus(every_log):
    """Counts and sums; the counts alone, which are made of headers, are the same."""
    wanted = {one.topic: of_the_core(one, "read_uncommitted") for one in kl.open(every_log)}
    sums = "coalesce(sum(length(key)), 0), coalesce(sum(length(value)), 0), coalesce(sum(offset), 0)"
    query = " union all ".join(f"select '{topic}', count(*), {sums} from `{topic}`" for topic in wanted)
    options = ("--mode", "dropmalformed")
    assert {row[0]: row[1:] for row in rows(every_log, query, *options)} == wanted
    some = [topic for topic in wanted if topic.partition(".")[0] in ("v1", "v2-zstd", "compact-edge")]
    query = " union all ".join(f"select '{topic}', count(*) from `{topic}`" for topic in some)
    assert dict(rows(every_log, query, *options)) == {topic: wanted[topic][0] for topic in some}
    assert sum(one[0] for one in wanted.values()) > 1000
    (of_transactions,) = (one for one in kl.open(every_log) if one.topic.startswith("txn."))
    committed = of_the_core(of_transactions, "read_committed")
    assert committed != wanted[of_transactions.topic]
    query = f"select count(*), {sums} from `{of_transactions.topic}`"
    assert rows(every_log, query, "--isolation", "read_committed") == [committed]


def test_rows_in_parquet_are_those_of_the_library(every_log, tmp_path):
    import pyarrow.parquet as pq

    (one,) = (log for log in kl.open(every_log) if log.topic.startswith("v2-mixed"))
    code, out, err = sql(
        every_log, f"select offset, key, value, unix_millis(timestamp) ms, leader_epoch as e from `{one.topic}`",
        "--output", tmp_path / "rows.parquet",
    )  # fmt: skip
    found = pq.read_table(tmp_path / "rows.parquet")
    assert (code, out, err) == (0, f"{found.num_rows} rows in {tmp_path / 'rows.parquet'}\n", "")
    wanted = pa.Table.from_batches(list(one.records(columns=["offset", "key", "value", "timestamp", "leader_epoch"])))
    wanted = wanted.set_column(3, "ms", wanted.column("timestamp").cast(pa.int64())).rename_columns(
        ["offset", "key", "value", "ms", "e"]
    )
    assert found.to_pylist() == wanted.to_pylist()
    assert found.num_rows > 50
    assert list(tmp_path.iterdir()) == [tmp_path / "rows.parquet"]
    again = sql(every_log, "select 1", "--output", tmp_path / "rows.parquet")
    assert again[0] == 2
    assert "already exists, and sql overwrites nothing" in again[2]
    code, out, err = sql(every_log, "select 1 as a, 2 as a", "--output", tmp_path / "twice.parquet")
    assert (code, err) == (2, "kafkalog: two columns are called a: give them names with `as`\n")
    code, out, err = sql(every_log, "select raise_error('no more') as x", "--output", tmp_path / "none.parquet")
    assert code == 1
    assert "no more" in err
    assert len(list(tmp_path.iterdir())) == 1  # nothing is left of a file that was not finished
    empty = sql(every_log, "select 1 as a where 1 = 0", "--output", tmp_path / "empty.parquet", "--format", "json")
    assert json.loads(empty[1])["rows"] == 0
    assert pq.read_table(tmp_path / "empty.parquet").schema.names == ["a"]


def test_parquet_goes_nowhere_near_a_broker(shop):
    for place in (shop / "new.parquet", shop / "orders-0" / "new.parquet"):
        code, out, err = sql(shop, "select 1", "--output", place)
        assert (code, out) == (14, "")
        assert "a broker's files are in" in err
        assert not place.exists()
    code, _, err = sql(shop, "select 1", "--output", shop.parent / "nowhere" / "x.parquet")
    assert (code, err) == (10, f"kafkalog: {shop.parent / 'nowhere'}: no such file or directory\n")


@pytest.mark.full
def test_sql_tables_of_a_real_broker_have_its_groups_and_topics(corpus):
    data = corpus / "internal" / "data"
    assert rows(data, "select group_id, topic, partition, offset from committed_offsets where offset > 0 order by 1, 2, 3") == [
        ("g-classic", "in-a", 0, 25), ("g-new", "in-b", 0, 30), ("g-new2", "in-a", 0, 50), ("g-static", "in-a", 0, 20),
        ("g-tx", "in-a", 0, 5),
    ]  # fmt: skip
    _, out, _ = kafkalog("read", data / "__consumer_offsets-0", "--format", "json")
    decoded = [json.loads(line).get("decoded") or {} for line in out.splitlines()]
    commits = [one["value"] is None for one in decoded if one.get("type") == "OffsetCommit"]
    found = rows(data, "select count(*), count_if(is_tombstone), count(producer_id) from offset_commits")
    assert found == [(len(commits), sum(commits), 2)]
    assert rows(data, "select group_id, group_type, members from groups where members > 0 order by 1") == [
        ("g-new2", "consumer", 1), ("g-static", "classic", 1),
    ]  # fmt: skip
    assert rows(
        data,
        "select m.member_id is not null, t.topic, m.a.partitions from (select member_id, explode(assignment) a from"
        " group_members) m join topics t on t.topic_id = m.a.topic_id order by t.topic",
    ) == [(True, "in-a", [0, 1]), (True, "in-b", [0])]
    assert rows(data, "select transactional_id, state, partitions from kafkalog.transactions order by 1")[-1] == (
        "tx-open", "Ongoing", [{"topic": "in-b", "partitions": [0]}],
    )  # fmt: skip
    assert rows(data, "select topic, max(partition) + 1, (select count(*) from brokers) from partitions group by 1 order by 1")[3:] == [
        ("in-a", 2, 1), ("in-b", 1, 1),
    ]  # fmt: skip
    assert rows(data, "select value from configs where resource_name = 'in-a' and name = 'retention.ms'") == [
        ("100000000",)
    ]
    assert rows(data, "select level from features where name = 'transaction.version'") == [(2,)]
    lag = rows(
        data,
        "select c.group_id, sum(s.next_offset - c.offset) from committed_offsets c join segments s"
        " on s.topic = c.topic and s.partition = c.partition and s.is_active group by 1 order by 1",
    )
    ends = {one.topic + str(one.partition): one.offsets().end for one in kl.open(data)}
    assert dict(lag)["g-static"] == ends["in-a0"] - 20 + ends["in-a1"]
    sums = rows(
        data,
        "select topic, partition, sum(size_bytes), sum(records) from batches where topic like 'in-%' group by 1, 2",
    )
    for topic, partition, size, records in sums:
        assert size == sum(path.stat().st_size for path in (data / f"{topic}-{partition}").glob("*.log"))
        assert records == ends[f"{topic}{partition}"]
    assert len(sums) == 2  # the third has no records
    assert rows(data, "select count(*) from __consumer_offsets") == [(87,)]
    assert rows(data, "select count(*) from __consumer_offsets", "--include-control") == [(89,)]


def test_sql_finds_topics_and_tables_by_name(shop, tmp_path):
    assert rows(shop, "select count(*) from topics") == [(1,)]  # the topic
    code, out, err = sql(shop, "select count(*) from kafkalog.topics")
    assert (code, out) == (2, "")
    assert err.startswith("kafkalog: kafkalog.topics is read from __cluster_metadata, which is not under these paths")
    assert rows(shop, "select count(*) from KAFKALOG.`Segments`") == [(4,)]
    assert rows(shop, "select count(*) from `a.b`") == [(1,)]
    assert rows(shop, "select count(*) from ORDERS o, orders p") == [(25,)]
    assert "A topic with dots in its name is written `a.b`, between backticks" in sql(shop, "select * from a.b")[2]
    assert "there is no view `ordes`. Did you mean orders?" in sql(shop, "select * from ordes")[2]
    assert rows(shop, "with groups as (select 1 x) select * from groups") == [(1,)]
    log(tmp_path, "Orders", batch_v2(OTHER))
    log(tmp_path, "orders", batch_v2(ORDERS))
    code, _, err = sql(tmp_path, "select count(*) from orders")
    assert (code, "may be either of the topics Orders, orders" in err) == (2, True)
    assert rows(
        tmp_path, "select (select count(*) from Orders), count(*) from orders", "--conf", "spark.sql.caseSensitive=true"
    ) == [(2, 5)]
    assert rows(tmp_path, "select 1", "--conf", "spark.sql.caseSensitive=false") == [(1,)]


def test_sql_reads_a_topic_in_several_log_directories_and_refuses_doubles(shop, tmp_path):
    log(tmp_path / "one", "orders", batch_v2(ORDERS), 1)
    assert rows([shop, tmp_path / "one"], "select partition, count(*) from orders group by 1 order by 1") == [
        (0, 5),
        (1, 5),
    ]
    assert rows(f"{shop}/orders-*[0-9]", "select count(*) from orders") == [(5,)]
    log(tmp_path / "two", "orders", batch_v2(ORDERS), 0)
    code, _, err = sql([shop, tmp_path / "two"], "select count(*) from orders")
    assert (code, "orders-0 is in " in err, "each record comes twice" in err) == (2, True, True)
    assert rows([shop, tmp_path / "two"], "select count(*) from `my-topic`") == [(2,)]


def test_sql_reads_by_the_given_isolation(tmp_path):
    data = batch_v2([R(0, BASE_TIME_MS, b"k", b"gone")], producer=(7, 0, 0), bits=TRANSACTIONAL)
    data += end_marker(1, BASE_TIME_MS, (7, 0), 0) + batch_v2([R(2, BASE_TIME_MS, b"k", b"here")])
    folder = log(tmp_path, "orders", data)
    assert rows(folder, "select count(*) from orders") == [(2,)]
    assert rows(folder, "select value from orders", "--isolation", "read_committed") == [(b"here",)]
    assert rows(folder, "select offset, control from orders", "--include-control") == [
        (0, False),
        (1, True),
        (2, False),
    ]


def test_sql_prints_a_table_as_text(shop):
    code, out, err = sql(shop, "select key, value, offset from orders order by offset")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "key   value  offset", "a     one         0", "b     two         1", "a     null        2", "null  four        3",
        "c                 4",
    ]  # fmt: skip
    code, out, err = sql(shop, "select offset from orders order by offset", "--max-rows", 2)
    assert (code, out) == (0, "offset\n     0\n     1\n")
    assert err == "kafkalog: there are more than these 2 rows: --max-rows N shows more\n"
    code, out, _ = sql(shop, "select x'ff00', 'a\x1bb', repeat('w', 300), array(1, null), 1.50, true", out=Terminal())
    assert code == 0
    assert "\x1b[2J" not in out
    code, out, _ = sql(
        shop,
        "select x'ff00' b, 'a\x1b[2Jb' as `\x1b[2J`, repeat('w', 300) w, array(1, null) a, 1.50 d, true t, map(1, 2) m",
    )
    assert out.splitlines()[1].split() == [
        "X'ff00'",
        r"a\x1b[2Jb",
        "w" * 255 + "…",
        "[1,null]",
        "1.50",
        "true",
        "[[1,2]]",
    ]
    assert "\x1b" not in out


def test_sql_prints_rows_as_json(shop):
    query = (
        "select map('a', 1) m, struct(1 x, binary('q') y) s, array(timestamp'2020-01-01 00:00:00.000001') t, 1.50 d,"
        " date'2020-02-03' day, null n, x'ff00' b, timestamp_ntz'2020-01-01 00:00:00' z, 9223372036854775807 big"
    )
    code, out, _ = sql(shop, query, "--format", "json")
    assert code == 0
    assert json.loads(out.splitlines()[0]) == {
        "schema": "kafkalog.row/1", "type": "row",
        "row": {
            "m": {"a": 1}, "s": {"x": 1, "y": {"encoding": "utf-8", "data": "q"}}, "t": ["2020-01-01T00:00:00.000001Z"],
            "d": "1.50", "day": "2020-02-03", "n": None, "b": {"encoding": "base64", "data": "/wA="},
            "z": "2020-01-01T00:00:00.000", "big": 9223372036854775807,
        },
    }  # fmt: skip
    code, out, _ = sql(shop, "select offset from orders order by offset", "--format", "json", "--max-rows", 3)
    assert [json.loads(line).get("row") for line in out.splitlines()] == [
        {"offset": 0},
        {"offset": 1},
        {"offset": 2},
        None,
    ]
    assert json.loads(out.splitlines()[-1])["more_rows"] is True
    code, out, _ = sql(shop, "select id from range(0, 5000, 1, 3) order by id desc", "--format", "json")
    assert [json.loads(line)["row"]["id"] for line in out.splitlines()[:-1]] == list(range(4999, -1, -1))


@pytest.mark.full
def test_damage_has_its_code_and_its_place(tmp_path):
    good = [batch_v2([R(i, BASE_TIME_MS, b"k", b"v" * 30)]) for i in range(3)]
    folder = log(tmp_path, "orders", good[0] + good[1][:-3] + b"xyz" + good[2])
    path = f"{folder}/orders-0/{0:020d}.log"
    code, out, err = sql(folder, "select count(*) from orders")
    assert (code, out) == (4, "")
    assert err.startswith(f"kafkalog: {path}: at byte {len(good[0])}: its CRC does not match")
    code, _, err = sql(folder, "select value from orders", "--format", "json")
    told = json.loads(err)
    assert (code, told["kind"], told["exit_code"]) == (4, "DamagedLog", 4)
    assert rows(folder, "select count(*) from orders", "--mode", "dropmalformed") == [(2,)]
    assert rows(folder, "select offset, _fault is null from orders order by offset", "--mode", "permissive") == [
        (0, True), (1, False), (2, True),
    ]  # fmt: skip
    assert rows(folder, "select base_offset, crc_valid from batches order by 1") == [(0, True), (1, False), (2, True)]
    torn = log(tmp_path / "torn", "orders", good[0] + b"\0" * 20)
    code, _, err = sql(torn, "select count(*) from batches")
    assert (code, err.startswith(f"kafkalog: {torn}/orders-0/{0:020d}.log: at byte {len(good[0])}: ")) == (4, True)
    assert rows(torn, "select count(*) from batches", "--mode", "dropmalformed") == [(1,)]


def test_sql_of_an_empty_log_has_no_rows(tmp_path):
    folder = log(tmp_path, "orders", b"")
    (folder / "bare-0").mkdir()
    (folder / "bare-0" / "partition.metadata").write_bytes(b"")
    assert rows(folder, "select count(*) from orders") == [(0,)]
    assert rows(folder, "select count(*) from batches") == [(0,)]
    assert "there is no view `bare`" in sql(folder, "select * from bare")[2]


def test_no_column_of_records_is_read_where_their_number_is_enough(shop, spark):
    from tests.support.product_spark import sql

    def plan(text, **options):
        return sql(spark, shop, text, **options)._jdf.queryExecution().optimizedPlan().toString()

    assert "[_records#" in plan("select count(*) from orders")
    assert "[_records#" in plan("select 1 from orders")
    assert "[_fault#" in plan("select count(*) from orders", mode="permissive")


def test_sql_of_the_demo_has_its_rows(tmp_path):
    assert kafkalog("demo", tmp_path / "shop")[0] == 0
    assert rows(tmp_path / "shop", "select count(*), count(distinct key) from customers") == [(500, 40)]
