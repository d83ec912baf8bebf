"""Tasks and records that are made in threads: their order, their errors, and no thread that is left."""

import os
import random
import sys
import threading
import time
from contextlib import closing
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_cli.errors import BadInput
from kafkalog_cli.log.reading.budget import started_pool
from kafkalog_cli.ops import map_each as module
from kafkalog_cli.ops.change.append import inputs
from kafkalog_cli.ops.change.append.inputs import read_ahead
from kafkalog_cli.ops.change.append.records import NewRecord, RecordMaker
from kafkalog_cli.ops.map_each import AHEAD, Forks, Item, Known, map_each


def results(work, count, jobs, **how):
    """What `map_each` yields for the numbers below `count`."""
    return map_each(map(Item, range(count)), work, jobs=jobs, name="test", **how)


@pytest.mark.parametrize("jobs", [1, 2, 7])
def test_results_come_in_the_order_of_the_items(jobs):
    source = random.Random(jobs)
    waits = [source.random() / 200 for _ in range(40)]

    def work(number, _):
        time.sleep(waits[number])
        return number

    items = [Known(-1), *map(Item, range(40)), Known(-2)]
    assert list(map_each(items, work, jobs=jobs, name="test")) == [-1, *range(40), -2]


def test_threads_run_no_more_tasks_than_jobs_and_none_far_ahead():
    lock, running, most, begun = threading.Lock(), set(), [], set()
    hold = threading.Event()

    def work(number, _):
        with lock:
            running.add(number)
            begun.add(number)
            most.append(len(running))
        if number == 0:
            hold.wait(300)
        with lock:
            running.discard(number)
        return number

    found = results(work, 30, 3)
    threading.Timer(0.3, hold.set).start()
    assert next(found) == 0
    assert len(begun) <= AHEAD * 3  # the first held up the others
    assert list(found) == list(range(1, 30))
    assert max(most) <= 3


def of_numbers_but_2(number, _):
    if number == 2:
        raise BadInput(path="it", reason=f"{number}")
    return number


@pytest.mark.parametrize("jobs", [1, 3])
def test_an_error_comes_in_its_turn(jobs):
    found = results(of_numbers_but_2, 5, jobs)
    assert [next(found), next(found)] == [0, 1]
    with pytest.raises(BadInput):
        next(found)
    assert list(found) == []


@pytest.mark.parametrize("jobs", [1, 3])
def test_a_result_stands_for_an_error(jobs):
    assert list(results(of_numbers_but_2, 5, jobs, failed=lambda item, error: (item.value, str(error)))) == [
        0, 1, (2, "it: 2"), 3, 4,
    ]  # fmt: skip


@pytest.mark.parametrize("jobs", [1, 3])
def test_bytes_that_the_work_does_not_report_are_reported_after_it(jobs):
    heard = []
    items = [Item(own_bytes, 10, (f"p-{own_bytes}",)) for own_bytes in (0, 4, 10, 25)]
    work = lambda own_bytes, advance: own_bytes and advance(own_bytes, "file")  # noqa: E731
    list(map_each(items, work, jobs=jobs, advance=lambda *report: heard.append(report)))
    assert sorted(heard) == [(4, "file"), (6, "p-4"), (10, "file"), (10, "p-0"), (25, "file")]


def test_threads_end_at_their_next_report_after_an_early_end():
    """As after Ctrl-C: nobody waits for the rest of a large log."""
    ended, go = [], threading.Event()

    def work(number, advance):
        if number == 0:
            return number
        go.wait(300)
        try:
            advance(1)
        except KeyboardInterrupt:
            ended.append(number)
            raise
        return number

    found = results(work, 30, 2)
    assert next(found) == 0
    threading.Timer(0.3, go.set).start()
    found.close()
    assert ended
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("test")]


@pytest.fixture(params=[0, 1, 2])
def few_threads(request, monkeypatch):
    """The number of threads that may run at a time beside those of this process."""
    real, before = threading.Thread.start, threading.active_count()

    def start(thread):
        if threading.active_count() - before >= request.param:
            raise RuntimeError("can't start new thread")
        real(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    return request.param


def test_each_item_is_worked_on_once_in_the_threads_that_there_are(few_threads):
    ran = []
    assert list(results(lambda at, _: ran.append(at) or at, 20, 4)) == [*range(20)]
    assert sorted(ran) == [*range(20)]
    pool = started_pool(3, "test")
    assert (pool is None) == (not few_threads)
    if pool is not None:
        with pool:
            assert len(pool._threads) == few_threads


# -- forked processes


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux forks")
def test_large_items_and_groups_of_small_items_are_shared_out_to_processes(monkeypatch):
    monkeypatch.setattr(module, "LEAST_BYTES", 1)
    monkeypatch.setattr(module, "_cores", lambda: 2)
    heard = []
    sizes = [1000, 900, *[10] * 100]
    items = [Item(number, size_bytes, (str(number),)) for number, size_bytes in enumerate(sizes)]
    found = list(
        map_each(
            items, lambda number, _: (number, os.getpid()), forks=Forks.OF_LARGE_ITEMS,
            advance=lambda size_bytes, path="": heard.append(size_bytes),
        )
    )  # fmt: skip
    assert [number for number, _ in found] == list(range(102))
    pids = [pid for _, pid in found]
    assert os.getpid() not in pids
    assert pids[0] != pids[1]
    assert len(set(pids)) == 2
    assert sum(heard) == sum(sizes)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux forks")
def test_an_error_of_a_process_comes_with_its_traceback(monkeypatch):
    monkeypatch.setattr(module, "LEAST_BYTES", 1)
    monkeypatch.setattr(module, "_cores", lambda: 2)
    with pytest.raises(ZeroDivisionError) as raised:
        list(map_each([Item(1, 9), Item(0, 9)], lambda number, _: 1 // number, forks=Forks.OF_LARGE_ITEMS))
    assert "1 // number" in str(raised.value.__cause__)


# -- records for append, taken in a thread ahead


@pytest.fixture(autouse=True)
def threads_for_few_bytes(monkeypatch):
    monkeypatch.setattr(inputs, "_LARGE_BYTES", 1)


def run_of(number):
    made = RecordMaker(9, 0)
    made.add(NewRecord(None, b"%d" % number))
    (records,) = made.records()
    return records


def told(found):
    """What can be compared."""
    return None if found is None else int(bytes(found.buffer[: found.size_bytes]))


def threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("kafkalog-append")]


ITEMS = st.lists(st.none() | st.integers(0, 255), max_size=40)
ERRORS = st.sampled_from([None, BadInput(path="it", reason="line 7: no JSON"), OSError(5, "gone"), KeyboardInterrupt()])


@given(ITEMS, ERRORS)
def test_mapping_in_threads_gives_the_results_in_order(items, error):
    def source():
        for item in items:
            yield None if item is None else run_of(item)
        if error is not None:
            raise error

    found, raised = [], None
    with closing(read_ahead(source())) as ahead:
        try:
            found.extend(told(item) for item in ahead)
        except BaseException as ended:
            raised = ended
    assert found == items
    assert raised is error
    assert not threads()


@pytest.mark.parametrize("taken", [0, 1, 2, 9])
def test_an_early_end_of_the_results_leaves_no_thread(taken):
    """Nor anything open."""
    closed = []

    def source():
        try:
            for number in count():
                yield run_of(number % 256)
        finally:
            closed.append(taken)

    with closing(read_ahead(source())) as ahead:
        assert [told(next(ahead)) for _ in range(taken)] == list(range(taken))
        assert len(threads()) == (taken > 1)
    assert not threads()
    assert closed == [taken] * (taken > 0)


def test_mapping_in_threads_does_not_run_far_ahead():
    """Memory is bounded by what waits."""
    made = []

    def source():
        for number in range(200):
            made.append(number)
            yield run_of(number)

    with closing(read_ahead(source())) as ahead:
        for at, _ in enumerate(ahead):
            assert made[-1] - at < 6
