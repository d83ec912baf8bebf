"""`sql` where Spark is not started: what is refused before, and a machine without PySpark."""

import importlib.util
import io
import json

import pytest

from tests.support.product import Environment, hide_pyspark, run


def sql(*argv):
    """(exit code, stdout, stderr)."""
    out, err = io.BytesIO(), io.BytesIO()
    code = run(["sql", *map(str, argv)], Environment(out, err))
    return code, out.getvalue().decode(), err.getvalue().decode()


@pytest.fixture(autouse=True)
def no_pyspark(monkeypatch):
    hide_pyspark(monkeypatch)


def test_sql_without_pyspark_names_the_extra_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pyspark" else object())
    assert sql(tmp_path, "select 1") == (1, "", "kafkalog: Spark needs pyspark: pip install 'kafkalog-cli[spark]'\n")
    code, out, err = sql(tmp_path, "select 1", "--format", "json")
    assert (code, out, json.loads(err)["exit_code"]) == (1, "", 1)


def test_sql_refuses_mistakes_before_spark_starts(monkeypatch, tmp_path):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: object())  # PySpark seems to be there
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / f"{0:020d}.log").write_bytes(b"")
    assert sql("/no/such/place", "select 1")[0] == 10
    assert sql(tmp_path / "*.nothing", "select 1")[0] == 10
    assert sql(tmp_path, "select 1", "--conf", "spark.x") == (2, "", "kafkalog: --conf spark.x: NAME=VALUE\n")
    assert sql(tmp_path, "select 1", "--output", tmp_path / "x.parquet")[0] == 14
    assert sql(tmp_path, "select 1", "--output", tmp_path.parent)[0] == 2
    assert sql("select 1")[0] == 2
    assert sql(tmp_path, "select 1", "--max-rows", 0)[0] == 2
    assert sql(tmp_path, "select 1", "--mode", "lenient")[0] == 2
    code, _, err = sql(tmp_path, "select 1")
    assert (code, "internal error" in err) == (1, True)  # only now it would have been started
