"""Runs the same queries by our source, by the core alone and by Spark's own Kafka source, and prints a table.

The peer reads the logs from a real broker on this machine, whose log directory ours reads. Its connector comes through
Maven; it runs on the PySpark that is installed, as ours does. DuckDB (`pip install duckdb`) and Spark read the same
records from Parquet files.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.append(str(Path(__file__).resolve().parent.parent))

from jvm import cache_directory, java_version
from page import measured_now, publish, with_rows_before
from spark_inputs import IMPORTED, KEYED, KEYED_RECORDS, PLAIN, WIDE, WIDE_RECORDS, ServedLogs
from spark_limits import NAMES
from spark_queries import FIXED

from tests.kafka.spark_connector import CONNECTOR, connector_jars

_BENCH = Path(__file__).resolve().parent
TABLE_BEGIN, TABLE_END = "<!-- spark -->", "<!-- end of spark -->"


class Bar(NamedTuple):
    """How many times as fast as the Kafka source: what has to be reached, and what would be wonderful."""

    floor: float
    moonshot: float


BARS = {
    "df.count()": Bar(2, 5),
    "df.select(sum(length(value)))": Bar(2, 5),
    "df.groupBy(partition).count()": Bar(5, 10),
    "count(*)": Bar(10, 30),
    "sum(length(value))": Bar(4, 15),
    "time range, 1 %": Bar(12, 20),
    "time range by options": Bar(0.9, 1),
    "group by key, lz4": Bar(2, 4),
    "write Parquet": Bar(5, 8),
    "write Parquet, 16 partitions": Bar(5, 8),
    "import of Parquet": Bar(1, 3),
    "import of Parquet, warm": Bar(1, 3),
}


def run(whose: str, options: argparse.Namespace, given: dict[str, Any]) -> dict[str, Any]:
    """The seconds and the answer of each query, in a process of its own."""
    python = sys.executable
    words = [python, str(_BENCH / "spark_queries.py"), whose, str(options.runs), json.dumps(given)]
    path = [str(_BENCH), *filter(None, [os.environ.get("PYTHONPATH")])]  # workers import the source of the limits
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": python,
        "PYTHONPATH": os.pathsep.join(path),
    }
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def middle_times(data: Path) -> tuple[int, int, int]:
    """Of the plain topic: two times (epoch ms) with a hundredth of the records between them, and how many these are."""
    import numpy as np
    import pyarrow as pa

    import kafkalog_cli as kl

    logs = [one for one in kl.open(data) if one.topic == PLAIN]
    times = [
        part.column("timestamp").cast(pa.int64()).to_numpy()
        for one in logs
        for part in one.records(columns=["timestamp"])
    ]
    millis = np.sort(np.concatenate(times))
    return int(millis[len(millis) // 2]), int(millis[len(millis) * 51 // 100]), len(millis)


COPIES = {"parquet": "Spark of Parquet s", "duckdb": "DuckDB of Parquet s"}


HEADINGS = ["Query", "Kafka source s", "kafkalog s", "ratio", "limit s", *COPIES.values(), "measured"]


def rows_of(found: dict[str, dict[str, Any]]) -> list[list[str]]:
    """Return a row for each query: medians, and how many times as fast as the peer.

    The limit is that of spark_limits.py. Other rows have the time of the core alone and that of a query of almost no
    records, which Spark takes by itself.
    """
    rows = []
    for name, bar in BARS.items():
        if name not in found["ours"]:
            continue
        seconds = {whose: median(found[whose][name][0]) for whose in found if name in found[whose]}
        if "limit" not in seconds and "core" in seconds and FIXED in found["ours"]:
            seconds["limit"] = seconds["core"] + median(found["ours"][FIXED][0])
        ratio = seconds["peer"] / seconds["ours"]
        beside = (_seconds(seconds.get(whose)) for whose in ("limit", *COPIES))
        times = f"**{ratio:.2f}**" + (f" (missed: {bar.floor:g})" if ratio < bar.floor else "")
        row = [name, f"{seconds['peer']:.3g}", f"{seconds['ours']:.3g}", times, *beside, measured_now()]
        rows.append(row)
    return rows


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return the table in Markdown."""
    lines = [f"| {' | '.join(HEADINGS)} |", f"|---|{'---:|' * (len(HEADINGS) - 2)}---|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=("full", "small"), default="full", help="1 GiB, or little for a smoke run")
    parser.add_argument("--runs", type=int, default=3, help="measured runs a query")
    parser.add_argument("--only", action="append", default=[], metavar="QUERY", help="only this query; may be repeated")
    parser.add_argument("--connector", default=CONNECTOR, metavar="VERSION", help="of Spark's Kafka source")
    parser.add_argument("--publish", action="store_true", help="write the table into docs/bench.md")
    return parser.parse_args()


def main() -> int:
    options = parse_options()
    jars = connector_jars(options.connector)
    directory = cache_directory() / f"bench-spark-{options.size}"
    with ServedLogs(directory, options.size) as logs:
        since_ms, until_ms, records = middle_times(logs.data)
        given = {
            "data": str(logs.data), "address": logs.address, "jars": jars, "plain": PLAIN, "keyed": KEYED,
            "since_ms": since_ms, "until_ms": until_ms, "records": records, "only": options.only,
            "scratch": str(directory / "scratch"), "copies": str(directory / "copies"), "wide": WIDE,
            "imported": IMPORTED, "wide_records": WIDE_RECORDS[options.size],
            "keyed_records": KEYED_RECORDS[options.size],
        }  # fmt: skip
        found = {"peer": run("peer", options, given)}
    of_copies = ("limit", *COPIES) if not options.only or not NAMES.isdisjoint(options.only) else ()
    for whose in ("ours", "core", *of_copies):  # the logs are as the broker left them when it stopped
        found[whose] = run(whose, options, given)
    shutil.rmtree(directory / "copies", ignore_errors=True)
    for name in found["ours"]:
        answers = {whose: found[whose][name][1] for whose in found if name in found[whose]}
        if len({json.dumps(one) for one in answers.values()}) > 1:
            raise SystemExit(f"{name}: the answers differ: {answers}")
    rows: Sequence[Sequence[str]] = rows_of(found)
    print(table(rows))
    if options.publish:
        if options.only:
            rows = with_rows_before(rows, BARS, TABLE_BEGIN, TABLE_END)
        note = f"PySpark {version('pyspark')}, connector {options.connector}, Java {java_version()}."
        publish(f"{note}\n\n{table(rows)}", TABLE_BEGIN, TABLE_END)
    shutil.rmtree(directory / "scratch", ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
