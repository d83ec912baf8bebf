"""Streams on a busy host: Spark and its workers get a fifth of the time, or none for seconds, or start too slowly."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress

import pytest

pytest.importorskip("pyspark.sql.streaming.datasource", reason="this PySpark has no limits for streams")

from tests.spark.test_spark_stream import Log
from tests.support.product_spark import KafkalogDataSource

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

PAUSED_SECONDS = float(os.environ.get("STREAM_PAUSED_SECONDS", "4"))
SHARE, PERIOD_SECONDS, SLOW_SECONDS, AT_MOST_SECONDS = 0.2, 0.25, 6, 600
SOURCE_WORKER = "pyspark.sql.streaming.python_streaming_source_runner"


def processes(spark):
    """The pids of Spark's Java and of all that it has started."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    children = {}
    for line in listed.splitlines():
        pid, parent = map(int, line.split())
        children.setdefault(parent, []).append(pid)
    found = [spark.sparkContext._gateway.proc.pid]
    for pid in found:
        found += children.get(pid, [])
    return found


def paused(spark, seconds):
    pids = processes(spark)
    assert len(pids) > 1
    stopped = []
    try:
        for pid in pids:
            try:
                os.kill(pid, signal.SIGSTOP)
            except ProcessLookupError:
                continue
            stopped.append(pid)
        time.sleep(seconds)
    finally:
        for pid in stopped:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def start(spark, root, place, **trigger):
    stream = spark.readStream.format("kafkalog").schema("partition int, offset long, value binary")
    query = stream.options(startingOffsets="earliest").load(str(root)).writeStream.format("parquet")
    return query.option("checkpointLocation", str(place / "checkpoint")).trigger(**trigger).start(str(place / "result"))


def assert_each_once(spark, place, count):
    found = spark.read.parquet(str(place / "result")).select("offset", "value").collect()
    assert sorted((offset, bytes(value)) for offset, value in found) == [(at, b"%d" % at) for at in range(count)]


@pytest.fixture
def log(tmp_path):
    (tmp_path / "logs").mkdir()
    made = Log(tmp_path / "logs")
    made.add(50)
    return made


def first_batch(query):
    end = time.monotonic() + AT_MOST_SECONDS
    while not any(progress.numInputRows for progress in query.recentProgress):
        assert query.isActive, query.exception()
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_stream_that_is_stopped_for_seconds_goes_on(spark, tmp_path, log):
    query = start(spark, tmp_path / "logs", tmp_path, processingTime="0 seconds")
    try:
        first_batch(query)
        adding = threading.Thread(target=lambda: (time.sleep(PAUSED_SECONDS / 2), log.add(70)))
        adding.start()
        paused(spark, PAUSED_SECONDS)
        adding.join()
        query.processAllAvailable()
    finally:
        query.stop()
    assert_each_once(spark, tmp_path, 120)


@pytest.mark.full
def test_a_stream_with_a_fifth_of_the_time_has_each_record_once(spark, tmp_path, log):
    query = start(spark, tmp_path / "logs", tmp_path, processingTime="0 seconds")
    try:
        first_batch(query)
        end = time.monotonic() + SLOW_SECONDS
        while time.monotonic() < end:
            log.add(5)
            paused(spark, PERIOD_SECONDS * (1 - SHARE))
            time.sleep(PERIOD_SECONDS * SHARE)
        query.processAllAvailable()
    finally:
        query.stop()
    assert log.next > 60
    assert_each_once(spark, tmp_path, log.next)


@pytest.mark.full
def test_a_worker_that_starts_too_late_ends_the_query_and_loses_nothing(spark, tmp_path, log):
    """Spark waits 10 s for the source's worker to connect, which no setting changes; the next start goes on."""
    slow = tmp_path / "python"
    slow.write_text(f'#!/bin/sh\ncase "$*" in *{SOURCE_WORKER}*) sleep 13;; esac\nexec {sys.executable} "$@"\n')
    slow.chmod(0o755)
    start(spark, tmp_path / "logs", tmp_path, availableNow=True).awaitTermination(AT_MOST_SECONDS)
    log.add(30)
    before = spark.sparkContext.pythonExec
    spark.sparkContext.pythonExec = str(slow)
    try:
        spark.dataSource.register(KafkalogDataSource)
        with pytest.raises(Exception, match="Python worker failed to connect back"):
            start(spark, tmp_path / "logs", tmp_path, availableNow=True).awaitTermination(AT_MOST_SECONDS)
    finally:
        spark.sparkContext.pythonExec = before
        spark.dataSource.register(KafkalogDataSource)
    assert_each_once(spark, tmp_path, 50)
    start(spark, tmp_path / "logs", tmp_path, availableNow=True).awaitTermination(AT_MOST_SECONDS)
    assert_each_once(spark, tmp_path, 80)
