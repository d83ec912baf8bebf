"""The source through Spark Connect: the random queries of `make fuzz-sql`, as text and as DataFrames of one shared `load()`."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.full]

REASON = "SPARK CONNECT IS NOT TRIED: it needs what `pip install pyspark[connect]` brings"
QUERIES = 24


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_random_queries_through_connect(evidence):
    """Connect starts a server of its own, and so has a process of its own."""
    for needed in ("pyspark", "grpc", "grpc_status", "google.rpc", "pandas", "zstandard"):
        pytest.importorskip(needed, reason=REASON)
    command = [sys.executable, "-m", "tests.spark.sql_fuzz", "--connect", "--count", str(QUERIES), "--seed", "1901"]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=1200, check=False)
    line = re.search(
        r"Connect: (\d+) queries \(frames (\d+), views (\d+)\), (\d+) rows: (\d+) right, 0 wrong", done.stdout
    )
    assert line, done.stdout + done.stderr[-3000:]
    tried, frames, views, rows, right = map(int, line.groups())
    assert (tried, frames, views, right) == (QUERIES, QUERIES // 2, QUERIES // 2, QUERIES)
    assert rows > QUERIES, "queries without rows compare nothing"
    evidence("R74", tried)
