"""What `kafkalog sql` does not take for a query, or says in its own words; and what a query leaves behind: nothing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.querying import rows, sql

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module", autouse=True)
def in_spark(spark):
    return spark


def in_a_process(folder, *words):
    """What a process of its own says, working in `folder`."""
    command = [sys.executable, "-m", "kafkalog_cli", "sql", *map(str, words), "--master", "local[1]"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, check=False)


@pytest.mark.parametrize(
    ("query", "code", "said"),
    [
        ("selec 1", 2, "[PARSE_SYNTAX_ERROR] Syntax error at or near 'selec'. (line 1, position 1)"),
        ("select nothing from orders", 2, "A column, variable, or function parameter with name `nothing` cannot be resolved"),
        ("select * from my-topic", 2, "The unquoted identifier my-topic is invalid and must be back quoted as: `my-topic`"),
        ("select cast(value as int) from orders", 2, 'cannot cast "BINARY" to "INT"'),
        ("select 1/(offset - offset) from orders", 1, "[DIVIDE_BY_ZERO] Division by zero"),
        ("select interval 3 days as i", 2, "the column i is interval day: cast it to string"),
        ("create table x as select 1", 2, "sql runs queries: nothing is created, set or written by a statement"),
        ("insert overwrite directory '{tmp}/made' using parquet select 1", 2, "sql runs queries"),
        ("with a as (select 1) insert into orders select * from a", 2, "sql runs queries"),
        ("from orders insert into `a.b` select *", 2, "sql runs queries"),
        ("select transform(offset) using 'touch {tmp}/made' as (x) from orders", 2, "sql runs queries"),
        ("show tables", 2, "sql runs queries: the views here are a.b, my-topic, orders, topics, committed_offsets,"),
        ("describe orders", 2, "`select * from NAME limit 0` shows the columns of one"),
        ("select count(*) from orders where offset in (1, 2)", 2, "write `where (offset in …)`, with parentheses"),
        ("select 1 from orders version as of 1", 2, "`orders` has no versions, and no expression may make its name"),
        ("select 1 from identifier('or' || 'ders')", 2, "no expression may make the name of a view"),
        ("select cast('x' as int)", 1, "to tolerate malformed input and return NULL instead.\n"),
        ("set spark.sql.ansi.enabled = false", 2, "sql runs queries"),
        ("cache table orders", 2, "sql runs queries"),
        ("drop view orders", 2, "sql runs queries"),
        ("begin select 1; end", 2, "sql runs queries"),
        ("execute immediate \"insert overwrite directory '{tmp}/made' using parquet select 1\"", 2, "sql runs queries"),
        ("", 2, "[PARSE_EMPTY_STATEMENT]"),
    ],
)  # fmt: skip
def test_sql_refuses_texts_that_are_no_query(shop, tmp_path, query, code, said):
    found, out, err = sql(shop, query.format(tmp=tmp_path))
    assert (found, out) == (code, ""), err
    assert said in err
    assert err.startswith("kafkalog: "), err
    assert err.count("\n") == 1, err
    assert "Traceback" not in err
    assert "\tat " not in err
    assert list(tmp_path.iterdir()) == []


def test_a_query_leaves_no_view(shop, spark):
    """The next one in the session may be of other logs."""
    before = spark.catalog.listTables()  # views of other tests
    for query in ("select count(*) from orders", "select * from `a.b`", "select * from kafkalog.segments limit 0"):
        assert sql(shop, query)[0] == 0
    assert spark.catalog.listTables() == before
    assert [
        table for table in spark.catalog.listTables("kafkalog") if not table.isTemporary
    ] == []  # those stand in any


@pytest.mark.full
def test_a_process_of_its_own_says_nothing_else(shop, tmp_path):
    """Java, Spark and PySpark are silent, and leave nothing where it runs."""
    done = in_a_process(tmp_path, shop, "select count(*) from orders")
    assert (done.returncode, done.stdout, done.stderr) == (0, "count(1)\n       5\n", "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.full
def test_a_name_that_is_none_leaves_nothing(shop, tmp_path):
    """Spark makes a directory for tables where it looks for one, in the working directory by default."""
    done = in_a_process(tmp_path, shop, "select * from nobody")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("kafkalog: there is no view `nobody`. Views here: a.b, my-topic, orders")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.full
def test_java_that_ends_in_the_middle(shop, tmp_path):
    """Its end is said in a line, and the thread that hears accumulators of PySpark says nothing."""
    done = in_a_process(tmp_path, shop, "select java_method('java.lang.System', 'exit', 3)", "--allow", "java")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("kafkalog: Spark")
    assert done.stderr.count("\n") == 1, done.stderr


def test_a_query_that_begins_with_a_comment(shop):
    assert rows(shop, "-- how many\nselect count(*) from orders") == [(5,)]


def test_sql_prints_values_without_a_type(shop):
    assert rows(shop, "select array() a, named_struct('b', null) b, null c") == [([], {"b": None}, None)]
    code, _, err = sql(shop, "select map() m")
    assert (code, err) == (2, "kafkalog: the column m is map<void,void>: cast it to string\n")


def test_sql_takes_the_same_directory_twice_once(shop):
    """What several paths lead to is there once."""
    for more in (shop, f"{shop}/", shop / "orders-0"):
        assert rows(
            [shop, more], "select count(*), (select count(*) from batches where topic = 'orders') from orders"
        ) == [(5, 2)]
