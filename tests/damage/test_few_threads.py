"""A system that gives few threads or none, by a limit of processes or of memory: the tasks run in those that there are."""

import threading

import pytest

from tests.support.commands import kafkalog
from tests.support.logs import BASE_TIME_MS, R, batch_v2


@pytest.fixture(params=[0, 1, 2])
def given(request, monkeypatch):
    """The number of threads that may run at a time beside those of this process."""
    real, before = threading.Thread.start, threading.active_count()

    def start(thread):
        if threading.active_count() - before >= request.param:
            raise RuntimeError("can't start new thread")
        real(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    return request.param


def test_verify_of_several_partitions_works_where_no_thread_can_start(given, tmp_path):
    """It ended with an internal error."""
    for number in range(5):
        partition = tmp_path / f"t-{number}"
        partition.mkdir()
        (partition / f"{0:020}.log").write_bytes(batch_v2([R(0, BASE_TIME_MS, b"k", b"v")]))
    ran = kafkalog("verify", tmp_path, "--jobs", "4", "--format", "json")
    assert (ran.code, ran.out.count('"partition"') > 0) == (3, True), (given, ran.err)


def test_records_are_read_without_threads(given, tmp_path, monkeypatch):
    """A log that is read ahead in threads elsewhere; its records are the same."""
    partition = tmp_path / "t-0"
    partition.mkdir()
    records = [R(at, BASE_TIME_MS, b"k%d" % at, bytes(1000)) for at in range(3000)]
    parts = [batch_v2(records[at : at + 10]) for at in range(0, 3000, 10)]
    (partition / f"{0:020}.log").write_bytes(b"".join(parts))
    few = kafkalog("read", partition, "--format", "json")
    monkeypatch.undo()
    all_threads = kafkalog("read", partition, "--format", "json")
    assert (few.code, few.out) == (all_threads.code, all_threads.out)
    assert few.out.count("kafkalog.record/") == 3000
