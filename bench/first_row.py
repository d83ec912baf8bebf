"""Measures `kafkalog sql` on a small log: CPU seconds of all its processes (user and system), and wall seconds.

`python bench/first_row.py RUNS [OPTION ...]` prints the medians; the options go to `kafkalog sql`. Every process that
the command starts becomes a child of this one when its parent ends, so that the system counts its CPU time.

`python bench/first_row.py RUNS --bare ARCHIVE` measures a session of Spark alone instead, which runs a query over
generated rows, with the same options of Java. The first run makes its archive of classes, and is not counted.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

EXAMPLE = Path(__file__).parents[1] / "docs" / "example"
QUERY = "select partition, count(*) records, max(timestamp) newest from mixed group by 1 order by 1"
PR_SET_CHILD_SUBREAPER = 36
JAVA = "-XX:+IgnoreUnrecognizedVMOptions -Xshare:auto -Xlog:disable -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
BARE = """
from pyspark.sql import SparkSession
settings = {"spark.ui.enabled": "false", "spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
builder = SparkSession.builder.master("local[*]")
for name, value in settings.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
query = "select id % 2 p, count(*) records, max(id) newest from range(250) group by 1 order by 1"
print(spark.sql(query).collect(), flush=True)
gateway = spark.sparkContext._gateway
spark.stop()
gateway.shutdown()
gateway.proc.stdin.close()
gateway.proc.wait()
"""


def measured(command: list[str], **variables: str) -> tuple[float, float, float]:
    """Return the CPU seconds of one run, its seconds until rows are printed, and until its last process has ended."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, **variables}) as running:
        assert running.stdout is not None
        running.stdout.readline()
        rows = time.monotonic() - begun
        running.stdout.read()
    assert running.returncode == 0
    while True:
        try:
            os.wait()
        except ChildProcessError:
            break
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, rows, time.monotonic() - begun


def main() -> None:
    """Print the median of some runs as JSON."""
    if ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError("this system does not give processes of ended parents to this process")
    runs, *options = sys.argv[1:]
    if options[:1] == ["--bare"]:
        command = [sys.executable, "-c", BARE]
        if not Path(options[1]).exists():
            measured(command, SPARK_SUBMIT_OPTS=f"{JAVA} -XX:ArchiveClassesAtExit={options[1]}")
        variables = {"SPARK_SUBMIT_OPTS": f"{JAVA} -XX:SharedArchiveFile={options[1]}", "SPARK_LAUNCHER_OPTS": JAVA}
    else:
        command, variables = [sys.executable, "-m", "kafkalog_cli", "sql", str(EXAMPLE), QUERY, *options], {}
    found = [measured(command, **variables) for _ in range(int(runs))]
    names = ("cpu_s", "first_row_s", "all_s")
    medians = [round(statistics.median(one), 2) for one in zip(*found, strict=True)]
    print(json.dumps(dict(zip(names, medians, strict=True))))


if __name__ == "__main__":
    main()
