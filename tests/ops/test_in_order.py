"""Tasks in threads, results in order: whatever they take, raise or are stopped by; and the sizes of --io-bytes-per-s."""

import random
import threading
import time

import pytest

from kafkalog_cli.ops.engine import AHEAD, InOrder
from kafkalog_cli.ops.option_values import parse_seconds, parse_size_bytes
from tests.support.product import UsageError


@pytest.mark.parametrize("jobs", [1, 2, 7])
def test_results_come_in_the_order_of_the_tasks(jobs):
    source = random.Random(jobs)
    waits = [source.random() / 200 for _ in range(40)]

    def task(number):
        return lambda: (time.sleep(waits[number]), number)[1]

    with InOrder((task(number) for number in range(40)), jobs, "test") as results:
        assert list(results) == list(range(40))


def test_no_more_at_a_time_than_jobs_and_none_far_ahead():
    lock, running, most, begun = threading.Lock(), set(), [], set()
    hold = threading.Event()

    def task(number):
        def run():
            with lock:
                running.add(number)
                begun.add(number)
                most.append(len(running))
            if number == 0:
                hold.wait(300)
            with lock:
                running.discard(number)
            return number

        return run

    with InOrder((task(number) for number in range(30)), 3, "test") as results:
        threading.Timer(0.3, hold.set).start()
        assert next(results) == 0
        assert len(begun) <= AHEAD * 3  # the first held up the others
        assert list(results) == list(range(1, 30))
    assert max(most) <= 3


@pytest.mark.parametrize("jobs", [1, 3])
def test_what_a_task_raises_comes_in_its_turn(jobs):
    def task(number):
        return lambda: 1 // (number != 2) * number

    with InOrder((task(number) for number in range(5)), jobs, "test") as results:
        assert [next(results), next(results)] == [0, 1]
        with pytest.raises(ZeroDivisionError):
            next(results)
        assert list(results) == [3, 4]


def test_after_a_stop_only_what_was_begun():
    begun, go = [], threading.Event()

    def task(number):
        def run():
            begun.append(number)
            go.wait(300)
            return number

        return run

    with InOrder((task(number) for number in range(30)), 2, "test") as results:
        threading.Timer(0.2, go.set).start()
        assert next(results) == 0
        results.stop()
        rest = list(results)
    assert [0, *rest] == sorted(begun)
    assert len(begun) <= AHEAD * 2 + 1


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("0", 0), ("1048576", 1 << 20), ("1e6", 1_000_000), ("50MiB", 50 << 20), ("50mb", 50_000_000), ("1.5 GiB", 3 << 29),
     ("2TB", 2 * 10**12), ("3KiB", 3072), ("9223372036854775807", (1 << 63) - 1)],
)  # fmt: skip
def test_sizes(text, size_bytes):
    assert parse_size_bytes(text) == size_bytes


@pytest.mark.parametrize(
    "text", ["", "-1", "MiB", "1 000", "1.2.3", "5XB", "5 M", "1e", "nan", "inf", "0x10", "5MiB/s"]
)
def test_no_sizes(text):
    with pytest.raises(UsageError, match="is not a size"):
        parse_size_bytes(text)


@pytest.mark.parametrize(
    ("text", "seconds"), [("0", 0), ("90", 90), ("1.5", 1.5), ("90s", 90), ("15m", 900), ("2h", 7200)]
)
def test_spans_of_time(text, seconds):
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "-5", "soon", "5 m", "1.5h", "1e3", "inf"])
def test_no_spans_of_time(text):
    with pytest.raises(UsageError, match="is not a duration"):
        parse_seconds(text)
