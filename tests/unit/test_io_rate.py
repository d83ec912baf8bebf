"""A limit on bytes a second, reads that end early, and the disk that keeps to both."""

import threading

import pytest

from kafkalog_cli.disk.fs import read_all
from kafkalog_cli.disk.metered_fs import LEAST_PIECE_BYTES, IoRate, MeteredFilesystem
from tests.support.memory_fs import MemoryFilesystem

# -- A limit on bytes a second, and the disk that keeps it: by a clock of the test's


class Clock:
    def __init__(self):
        self.now, self.slept = 50.0, []

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds


def rate(bytes_per_second):
    clock = Clock()
    return clock, IoRate(bytes_per_second, clock=clock, sleep=clock.sleep)


def test_who_has_moved_bytes_waits_until_they_were_due():
    clock, limit = rate(1000)
    limit.take(500)
    limit.take(250)
    clock.now += 0.2
    limit.take(300)
    assert clock.slept == pytest.approx([0.5, 0.25, 0.3])
    assert clock.now == pytest.approx(51.25)


def test_time_that_was_not_used_is_not_saved_up():
    clock, limit = rate(1000)
    clock.now += 3600
    limit.take(1000)
    limit.take(1000)
    assert clock.slept == pytest.approx([1, 1])


def test_threads_share_the_rate():
    _, limit = rate(1 << 20)
    waits, lock = [], threading.Lock()

    def note(seconds):
        with lock:
            waits.append(seconds)

    limit._sleep = note

    def work():
        for _ in range(50):
            limit.take(1 << 20)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(waits) == pytest.approx(range(1, 201))  # the clock stands still: each comes a second later


@pytest.mark.parametrize(("bytes_per_second", "piece_bytes"), [(1, LEAST_PIECE_BYTES), (10 << 20, 1 << 20)])
def test_pieces_are_smaller_at_a_lower_rate(bytes_per_second, piece_bytes):
    assert rate(bytes_per_second)[1].piece_bytes == piece_bytes


def metered(piece_bytes):
    below = MemoryFilesystem()
    told = []
    return below, MeteredFilesystem(below, lambda path, size: told.append((path, size)), piece_bytes), told


@pytest.mark.parametrize(("piece_bytes", "pieces"), [(None, [10]), (4, [4, 4, 2]), (10, [10]), (100, [10])])
def test_the_meter_gets_each_piece_that_is_read_or_written(piece_bytes, pieces):
    below, fs, told = metered(piece_bytes)
    with fs.create("/a") as file:
        file.write(3, b"0123456789")
    assert told == [("/a", size) for size in pieces]
    assert read_all(below, "/a") == b"\0\0\0" + b"0123456789"
    told.clear()
    buffer = bytearray(10)
    with fs.open_read("/a") as file:
        assert (file.path, file.size_bytes) == ("/a", 13)
        assert file.read_into(3, memoryview(buffer)) == 10
    assert buffer == b"0123456789"
    assert told == [("/a", size) for size in pieces]


def test_a_short_read_ends_the_pieces():
    _, fs, told = metered(4)
    with fs.create("/a") as file:
        file.write(0, b"0123456")
    told.clear()
    buffer = bytearray(20)
    with fs.open_read("/a") as file:
        assert file.read_into(0, memoryview(buffer)) == 7
    assert [size for _, size in told] == [4, 3]


def test_what_the_meter_raises_ends_the_call():
    below = MemoryFilesystem()
    with below.create("/a") as file:
        file.write(0, b"x" * 10)

    def stop(path, size):
        raise KeyboardInterrupt

    fs = MeteredFilesystem(below, stop, 4)
    with fs.open_read("/a") as file, pytest.raises(KeyboardInterrupt):
        file.read_into(0, memoryview(bytearray(10)))  # type: ignore[attr-defined]
