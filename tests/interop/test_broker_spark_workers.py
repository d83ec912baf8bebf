"""A real broker does not start on a log directory while a worker of a killed `compact --engine spark` is at work."""

import os
import signal
from pathlib import Path

import pytest

from tests.interop.broker import Client, broker
from tests.interop.broker_records import our_lines, served_lines
from tests.interop.recovering import kafkalog
from tests.interop.test_broker_serves_compacted import settings_of
from tests.interop.test_broker_starts_corpus import put_in_place
from tests.spark.test_spark_engine_faults import SPARK, holders, started, until

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("broker")]

DYING = Path(__file__).parents[1] / "spark" / "dying_tasks.py"
TOPICS = ("cmp-none", "cmp-gzip", "cmp-snappy")


def assert_it_does_not_start(one):
    with pytest.raises(RuntimeError, match="the broker does not start"):
        one.start()
    assert "Failed to acquire lock on file .lock" in one.log()


@pytest.mark.full
@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="who holds a lock is read from /proc/locks")
def test_a_broker_starts_when_the_last_worker_is_gone_and_serves_what_a_rerun_made(real_kafka, corpus, tmp_path):
    pytest.importorskip("pyspark")
    before = corpus / "compact-plain" / "before"
    class_path = real_kafka.broker_class_path
    (tmp_path / "broker").mkdir()
    with broker(tmp_path / "broker", class_path) as one, Client(one.address, class_path) as client:
        one.start()
        for topic in TOPICS:
            client.do("create", topic, **settings_of(before.parent, topic))
        one.stop()
        put_in_place(dict.fromkeys(TOPICS, before), one.data)
        command = ["compact", "--force", "--topic-pattern", "cmp-.*", one.data]
        driver = started(DYING, "stays", tmp_path / "at", ".swap", *command, *SPARK)
        workers = set()
        try:
            until(lambda: driver.poll() is not None or len(list(tmp_path.glob("at-*"))) == 2)
            assert driver.poll() is None, driver.communicate()
            workers = {int(path.name[3:]) for path in tmp_path.glob("at-*")}
            driver.kill()
            driver.wait()
            until(lambda: holders(one.data / ".lock") == workers)
            assert_it_does_not_start(one)
            os.kill(workers.pop(), signal.SIGKILL)
            until(lambda: holders(one.data / ".lock") == workers)
            assert_it_does_not_start(one)
        finally:
            for worker in workers:
                os.kill(worker, signal.SIGKILL)
            driver.communicate()
        until(lambda: not holders(one.data / ".lock"))
        done = kafkalog(*command)
        assert (done.code, done.err.count("was cut off half way, and is undone now")) == (0, 2), done.err
        ours = {topic: our_lines(one.data / f"{topic}-0") for topic in TOPICS}
        one.start()
        assert served_lines(client, list(TOPICS), tmp_path) == ours
        one.stop()
