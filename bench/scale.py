"""Measures whether costs stay in proportion: CPU seconds per GiB of logs, and CPU time and memory per partition.

Partitions are hard links of one log, so that 64 GiB take the room of one partition and come from the page cache. The
plan is that of a read by Spark, without Spark: its driver lists the partitions and cuts them into tasks. The count is
by Spark, with its start, in two threads.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))

from compare import kafkalog_command
from measure import OUR_CODES, run
from partition_rows import Partitions

LARGE_RECORDS, SMALL_RECORDS = 200_000, 8
MOST_COUNTED = 10_000
"""The most partitions that Spark counts: so many tell the cost of each, and the whole run stays within 15 minutes."""
GIB = 1 << 30

PLAN = """
import sys
from kafkalog_cli.spark.source import KafkalogDataSource
source = KafkalogDataSource({"path": sys.argv[1], "columns": "partition"})
print(len(source.reader(source.schema()).partitions()))
"""
COUNT = """
import contextlib, ctypes, os, sys
from kafkalog_cli.spark import session
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: the CPU time of Spark's Pythons is this process's too
spark = session("local[2]")
records = spark.read.format("kafkalog").option("columns", "_records").load(sys.argv[1])
print(records.selectExpr("sum(_records)").first())
gateway = spark.sparkContext._gateway
spark.stop()
gateway.shutdown()
gateway.proc.stdin.close()
gateway.proc.wait()
with contextlib.suppress(ChildProcessError):
    while True:
        os.wait()
"""


class Point(NamedTuple):
    """One measured command: how much it read (GiB or partitions), and its CPU seconds.

    `peak_bytes` is the largest resident set of its processes, which is Java's with Spark.
    """

    work: str
    amount: float
    cpu_seconds: float
    peak_bytes: int


def measured(work: str, amount: float, command: list[str]) -> Point:
    found = run(command, OUR_CODES)
    point = Point(work, amount, found.cpu_seconds, found.peak_bytes)
    print(
        f"{work} {amount:g}: {found.cpu_seconds:.2f} CPU s, {found.peak_bytes >> 20} MiB", file=sys.stderr, flush=True
    )
    return point


def of_bytes(directory: Path, most_gib: int, kafkalog: list[str]) -> list[Point]:
    """Verify 1, 4, 16 … GiB."""
    partitions, points = Partitions(directory, LARGE_RECORDS), []
    for power in range(0, int(math.log2(most_gib)) + 1, 2):
        count = round(2**power * GIB / partitions.size_bytes)
        partitions.add(count)
        size = count * partitions.size_bytes / GIB
        points.append(measured("verify", size, [*kafkalog, "verify", str(partitions.data)]))
    return points


def of_partitions(directory: Path, most: int, kafkalog: list[str]) -> list[Point]:
    """List, check, plan and count 10, 100, 1000 … partitions."""
    partitions, points = Partitions(directory, SMALL_RECORDS), []
    data = str(partitions.data)
    works = {
        "ls": [*kafkalog, "ls", data],
        "verify --level quick": [*kafkalog, "verify", "--level", "quick", data],
        "plan of a read by Spark": [sys.executable, "-c", PLAN, data],
        "count by Spark": [sys.executable, "-c", COUNT, data],
    }
    for power in range(1, int(math.log10(most)) + 1):
        partitions.add(10**power)
        if 10**power > MOST_COUNTED:
            works.pop("count by Spark", None)
        points += [measured(work, 10**power, command) for work, command in works.items()]
    return points


def table(points: list[Point], of: str) -> str:
    """Return a table in Markdown; `of` is the unit of the amounts."""
    lines = [f"| Work | {of} | CPU s | CPU ms for each more | peak MiB |", "|---|---:|---:|---:|---:|"]
    before: dict[str, Point] = {}
    for point in points:
        last = before.get(point.work)
        more = "-"
        if last is not None:
            more = f"{1000 * (point.cpu_seconds - last.cpu_seconds) / (point.amount - last.amount):.3g}"
        lines.append(
            f"| {point.work} | {_shown(point.amount)} | {point.cpu_seconds:.2f} | {more} | {point.peak_bytes >> 20} |"
        )
        before[point.work] = point
    return "\n".join(lines)


def _shown(amount: float) -> str:
    return f"{amount:,.0f}" if amount >= 1000 else f"{amount:.3g}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", type=int, default=64, help="most GiB, a power of two")
    parser.add_argument("--partitions", type=int, default=100_000, help="most partitions, a power of ten")
    options = parser.parse_args()
    kafkalog = kafkalog_command()
    with tempfile.TemporaryDirectory() as folder:
        groups = {
            "GiB": of_bytes(Path(folder) / "large", options.gib, kafkalog),
            "partitions": of_partitions(Path(folder) / "many", options.partitions, kafkalog),
        }
    text = "\n\n".join(table(points, unit) for unit, points in groups.items())
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
