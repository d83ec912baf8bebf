"""`kafkalog sql --engine duckdb` through the real command: rows, what is read, errors; and `kl.sql`, the library's."""

# ruff: noqa: F811 - `shop` is a fixture

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import kafkalog_cli as kl
from tests.spark.conftest import shop  # noqa: F401 fixture
from tests.spark.querying import (
    ORDERS,
    check_counting_decompresses_nothing,
    kafkalog,
    log,
    log_of_unreadable_records,
)
from tests.spark.querying import rows as rows_of
from tests.spark.querying import sql as sql_of
from tests.spark.sql_fuzz import AskedOfDuckDB, fuzz_sql
from tests.support.logs import BASE_TIME_MS, R, batch_v2
from tests.support.product import DamagedLog, KafkalogError, UsageError

pytest.importorskip("duckdb", reason="the extra `duckdb` is not installed: nothing of DuckDB is tested")

DUCKDB = ("--engine", "duckdb")
DOCS = Path(__file__).parents[2] / "docs"


def sql(path, query, *options):
    return sql_of(path, query, *DUCKDB, *options)


def rows(path, query, *options):
    return rows_of(path, query, *DUCKDB, *options)


def test_duckdb_answers_queries_over_records_batches_and_groups(shop):
    assert rows(shop, "select key, count(*) from orders group by key order by key nulls first") == [
        (None, 1), (b"a", 2), (b"b", 1), (b"c", 1),
    ]  # fmt: skip
    assert rows(shop, "select a.offset one, b.offset two from orders a join ORDERS b on a.key = b.key order by 1, 2") == [
        (0, 0), (0, 2), (1, 1), (2, 0), (2, 2), (4, 4),
    ]  # fmt: skip
    assert rows(
        shop, 'select sum("offset"), (select count(*) from "my-topic"), (select count(*) from "a.b") from orders'
    ) == [(10, 2, 1)]
    assert rows(shop, "select unnest(headers).key from orders") == [("h",), ("g",)]
    assert rows(
        shop, "with segments as (select 7 n) select n, (select count(*) from kafkalog.segments) from segments"
    ) == [(7, 4)]
    assert rows(shop, "select unix_millis(timestamp) from orders order by 1") == [(r.timestamp,) for r in ORDERS]
    assert rows(shop, f"select o.offset from orders o where timestamp > timestamp_millis({BASE_TIME_MS + 3})") == [(4,)]
    assert rows(shop, "select key_text, value_size from orders where codec = 'none' order by sequence") == [
        (None, 4), ("c", 0),
    ]  # fmt: skip


def test_every_column_is_as_with_spark(shop):
    code, out, _ = sql(shop, "select * from orders o order by o.offset limit 1", "--format", "json")
    assert code == 0
    row = json.loads(out.splitlines()[0])["row"]
    assert row == {
        "key": {"encoding": "utf-8", "data": "a"}, "value": {"encoding": "utf-8", "data": "one"}, "topic": "orders",
        "partition": 0, "offset": 0, "timestamp": row["timestamp"], "timestampType": 0,
        "headers": [{"key": "h", "value": {"encoding": "utf-8", "data": "1"}}, {"key": "g", "value": None}],
        "segment": f"{0:020d}.log", "position": 0, "batch_base_offset": 0, "codec": "lz4", "producer_id": -1,
        "producer_epoch": -1, "sequence": -1, "leader_epoch": 0, "transactional": False, "control": False,
        "key_size": 1, "value_size": 3,
    }  # fmt: skip
    assert row["timestamp"].endswith("Z")


def test_the_documented_queries_are_answered(corpus):
    """Those of docs/sql.md, over a broker's log directory; `orders` is one of its topics."""
    (block,) = re.findall(r"```sql\n(.*?)```", (DOCS / "sql.md").read_text(), re.DOTALL)
    found = [one for one in block.split(";") if one.strip() and "value_struct" not in one]
    assert len(found) >= 4
    for query in found:
        code, _, err = sql(corpus / "internal" / "data", query.replace("orders", '"in-a"'))
        assert code in (0, 3), (query, err)


def test_duckdb_count_decompresses_nothing(tmp_path):
    folder = log_of_unreadable_records(tmp_path)
    check_counting_decompresses_nothing(folder, *DUCKDB, offset='"offset"')
    with pytest.raises(DamagedLog):
        kl.sql(folder, "select key from orders").read_all()


def test_only_records_that_can_pass_the_filter_of_a_scan_are_read(tmp_path):
    """Any other segment has records that no decompressor takes."""
    folder = log_of_unreadable_records(tmp_path)
    log(folder, "orders", (folder / "orders-0" / f"{0:020d}.log").read_bytes(), partition=1)
    records = [R(7 + at, BASE_TIME_MS + 100 + at, b"k", b"v") for at in range(3)]
    (folder / "orders-0" / f"{7:020d}.log").write_bytes(batch_v2(records, 1))
    after = f"timestamp_millis({BASE_TIME_MS + 100})"
    for condition, found in (
        ("partition = 0 and a.offset >= 7", 3),
        ("partition < 1 and a.offset in (8, 9)", 2),
        ("a.partition in (0) and a.offset between 8 and 20 and key is not null", 2),
        ("(partition = 0 or partition = 7) and (a.offset = 7 or a.offset > 8)", 2),
        (f"timestamp >= {after} and not partition = 1", 3),
        (f"a.offset > 6 and timestamp < {after}", 0),
        ("topic = 'orders' and a.offset >= 7 and value = 'v'::blob", 3),
        ("a.offset is null", 0),
        ("a.offset > 9223372036854775806", 0),
        ("partition = 5", 0),
    ):
        query = f"select count(key) from orders a where {condition}"
        assert rows(folder, query) == [(found,)], condition
    assert rows(
        folder,
        "select (select count(key) from orders where partition = 0 and orders.offset >= 8), count(value)"
        " from orders where partition = 0 and orders.offset = 7",
    ) == [(2, 1)]
    assert sql(folder, "select count(key) from orders where partition = 0")[0] == 4
    assert sql(folder, "select count(key) from orders where orders.offset >= 6 or partition = 1")[0] == 4
    (folder / "other-0").mkdir()
    (folder / "other-0" / f"{0:020d}.log").write_bytes(b"\0" * 30)
    assert sql(folder, "select count(*) from batches")[0] == 4
    assert rows(folder, "select count(*), sum(records) from batches where topic = 'orders' and partition = 0") == [
        (2, 10)
    ]


def test_a_topic_may_be_called_like_a_number(tmp_path):
    folder = log(tmp_path, "0", batch_v2([R(0, BASE_TIME_MS, b"k", b"v")]))
    assert rows(folder, 'select key, "0".offset from "0"') == [(b"k", 0)]


@pytest.mark.parametrize(
    ("query", "code", "said"),
    [
        ("select * from ordes", 2, "there is no view ordes. Did you mean orders?"),
        ("select offse from orders", 2, 'Referenced column "offse" not found in FROM clause! Candidate bindings: "offset"'),
        ("select offset from orders", 2, 'a column offset is written "offset", or with its view: orders.offset'),
        ("selec 1", 2, 'syntax error at or near "selec" (line 1, position 1)'),
        ("select * from kafkalog.nothing", 2, "there is no view kafkalog.nothing"),
        ("select * from a.b", 2, 'there is no view a.b; the topic is to be written "a.b"'),
        ("select cast('x' as int)", 1, "Could not convert string 'x' to INT32\n"),
        ("select error('no more') from orders", 1, "no more"),
        ("select 9223372036854775807::hugeint + 1", 1, "a number has more than 64 bits"),
        ("select interval 3 days as i", 2, "the column i is INTERVAL: cast it to varchar"),
        ("select map {}", 2, 'is MAP("NULL", "NULL"): cast it to varchar'),
        ("select [{'a': map {}}] as m from orders", 2, 'the column m is STRUCT(a MAP("NULL", "NULL"))[]: cast it to varchar'),
        ("select map([1], [time '01:00:00']) as m", 2, "the column m is MAP(INTEGER, TIME): cast it to varchar"),
        ("select ['101'::bit]::bit[1] as b", 2, "the column b is BIT[1]: cast it to varchar"),
        ("select 1; select 2", 2, "sql runs queries, one at a time"),
        ("", 2, "sql runs queries, one at a time"),
        ("show tables", 2, "sql runs queries: the views here are a.b, my-topic, orders, topics, committed_offsets,"),
        ("select value_struct.id from orders", 2, "there is no schema orders-value"),
    ],
)  # fmt: skip
def test_duckdb_mistakes_are_one_line_with_a_documented_code(shop, query, code, said):
    found, out, err = sql(shop, query)
    assert (found, out) == (code, "")
    assert said in err
    assert (err.startswith("kafkalog: "), err.count("\n")) == (True, 1), err


def test_a_map_without_entries_has_the_types_of_its_cast(shop):
    found = kl.sql(shop, "select map {}::map(int, blob) a, null::map(int, int) b").read_all()
    assert found.to_pylist() == [{"a": [], "b": None}]


def test_times_in_other_types_are_those_times(shop):
    query = (
        "select [timestamp_s '2020-01-01'] a, map {1: timestamp_ms '2020-01-01'} b, {c: timestamp_ns '2020-01-01'} s,"
        " [timestamp '2020-01-01']::timestamp[1] f, [timestamp_ns '2020-01-01 00:00:00.123456789'] n"
    )
    code, out, _ = sql(shop, query, "--format", "json")
    time = "2020-01-01T00:00:00.000"
    assert (code, json.loads(out.splitlines()[0])["row"]) == (
        0, {"a": [time], "b": [[1, time]], "s": {"c": time}, "f": [time], "n": ["2020-01-01T00:00:00.123456"]},
    )  # fmt: skip


def test_two_topics_that_differ_in_case(tmp_path):
    folder = log(log(tmp_path, "a", b""), "A", b"")
    assert sql(folder, "select * from a")[::2] == (
        2,
        "kafkalog: a may be either of the topics A, a: DuckDB does not tell them apart; give the partition directories"
        " of only one of them\n",
    )


def test_options_of_spark_are_refused(shop):
    for option in (("--master", "local[1]"), ("--conf", "a=b"), ("--allow", "files")):
        assert sql(shop, "select 1", *option)[::2] == (
            2,
            "kafkalog: --allow, --master and --conf need --engine spark\n",
        )


def test_sql_without_duckdb_names_the_extra_to_install(shop, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "duckdb" else object())
    code, _, err = sql(shop, "select 1")
    assert (code, err) == (1, "kafkalog: --engine duckdb needs duckdb: pip install 'kafkalog-cli[duckdb]'\n")


def test_duckdb_writes_rows_to_parquet(shop, tmp_path):
    import pyarrow.parquet as pq

    path = tmp_path / "rows.parquet"
    code, out, err = sql(
        shop, 'select "offset" n, key, timestamp, sum("offset") over () s from orders', "--output", path
    )
    assert (code, out, err) == (0, f"5 rows in {path}\n", "")
    found = pq.read_table(path)
    assert found.schema.names == ["n", "key", "timestamp", "s"]
    assert sorted(found.column("n").to_pylist()) == [0, 1, 2, 3, 4]
    assert set(found.column("s").to_pylist()) == {10}
    assert sql(shop, "select 1", "--output", shop / "new.parquet")[0] == 14


def test_rows_beyond_the_limit_are_left_out_with_a_warning(shop):
    code, out, err = sql(shop, 'select "offset" n from orders order by 1', "--max-rows", "2")
    assert (code, out.split(), "more than these 2 rows" in err) == (0, ["n", "0", "1"], True)


def test_the_library_returns_rows_of_duckdb_and_raises_its_errors(shop):
    reader = kl.sql(shop, "select key, count(*) n from orders group by key order by n desc, key limit 1")
    assert reader.read_all().to_pylist() == [{"key": b"a", "n": 2}]
    assert kl.sql([shop], "select 1 where false").read_all().to_pylist() == []
    with pytest.raises(UsageError, match="fast: choose one of failfast"):
        kl.sql(shop, "select 1", mode="fast")
    with pytest.raises(UsageError, match="Did you mean orders"):
        kl.sql(shop, "select * from ordes")
    with pytest.raises(KafkalogError, match="no more"):
        kl.sql(shop, "select error('no more')").read_all()


@pytest.mark.full
def test_random_duckdb_queries_answer_like_sqlite(tmp_path):
    """`python -m tests.spark.sql_fuzz --engine duckdb` asks 2,000."""
    tally = fuzz_sql(None, tmp_path, seed=11, count=60, ways=("duckdb",), asked_of=AskedOfDuckDB)
    assert not tally.different
    assert tally.rows > 60


def test_nothing_is_left_in_the_directory_for_temporary_files(shop, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    ((place,),) = rows(shop, "select current_setting('temp_directory')")
    assert place.startswith(f"{tmp_path}/kafkalog-duckdb-")
    assert list(tmp_path.iterdir()) == []


ENDLESS = "select count(*) from range(1000000) a, range(1000000) b where hash(a.range, b.range) = 1"


@pytest.mark.parametrize("waits", [(1,), (1, 0, 0), (0.3, 0.0003), (0.5, 0.001), (0, 0.003), (0.7, 0.02), (1, 0.2)])
def test_interrupts_end_a_query(shop, tmp_path, waits):
    """DuckDB aborts a process that closes the connection of a running query. The directory is made at its start."""
    argv = [sys.executable, "-m", "kafkalog_cli", "sql", str(shop), *DUCKDB, ENDLESS]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdout=pipe, stderr=pipe, cwd=DOCS.parent, env=environment) as child:
        while not any(tmp_path.iterdir()):
            time.sleep(0.01)
        for seconds in waits:
            time.sleep(seconds)
            child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)
    assert (child.returncode, out, err) == (130, b"", b"")


def test_an_interrupt_as_soon_as_duckdb_works_ends_the_query(shop, monkeypatch):
    submit = ThreadPoolExecutor.submit

    def submit_and_interrupt(*work):
        result = submit(*work)
        os.kill(os.getpid(), signal.SIGINT)
        return result

    monkeypatch.setattr(ThreadPoolExecutor, "submit", submit_and_interrupt)
    assert sql(shop, ENDLESS) == (130, "", "")


def test_duckdb_starts_no_java(tmp_path):
    """The example of the documentation, in a process of its own, without a Java to find."""
    argv = [sys.executable, "-m", "kafkalog_cli", "sql", *DUCKDB, str(DOCS / "example"), "select count(*) n from mixed"]
    done = subprocess.run(
        argv, capture_output=True, text=True, check=False, cwd=DOCS.parent, env={"PATH": "", "TMPDIR": str(tmp_path)}
    )
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, ["n", "250"], "")
    assert kafkalog("sql", DOCS / "example", "select count(*) n from mixed", *DUCKDB)[1].split() == ["n", "250"]
