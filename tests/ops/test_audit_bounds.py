"""What an audit counts and compares exactly at a limit: of times, of runs that are read, of keys and records."""

import math

import numpy as np
import pytest

from kafkalog_cli.format.batch import Batch, BatchColumns
from kafkalog_cli.ops.audit import compare, counting
from kafkalog_cli.ops.audit.compare import Before, History
from kafkalog_cli.ops.audit.counting import KeyStatistics, LogStatistics, StoredKeys, hash_keys


def test_no_rate_without_time():
    assert [compare._rate(6, seconds) for seconds in (-1, 0, 2)] == [None, None, 3]


def test_times_that_spark_can_count_in_microseconds():
    most = (2**63 - 1) // 1000
    assert [compare._time(time) for time in (None, 0, most, -most)] == [None, 0, most, -most]
    assert [compare._time(time) for time in (most + 1, -most - 1)] == [None, None]


@pytest.mark.parametrize(("until_ms", "run"), [(29, "r2"), (30, "r3"), (31, "r3"), (20, "r2"), (9, None)])
def test_the_newest_run_up_to_a_time_is_compared_and_no_older_file_is_read(monkeypatch, until_ms, run):
    """A file that is not of a history ends the comparison, if it is read at all."""
    runs = {f"/h/r{number}.parquet": number for number in (1, 2, 3)}
    read = []

    class Listed:
        def status(self, path):
            return path

        def list_directory(self, path):
            return [type("Entry", (), {"path": one}) for one in runs]

    def rows(_, path, host):
        read.append(runs[path])
        number = runs[path]
        return [{"run": f"r{number}", "time_ms": 10 * number, "path": "/logs/t-0", "log_dir": "/logs", "error": None}]

    monkeypatch.setattr(History, "_rows", rows)
    found = History(Listed(), "/h", "x").before(["/logs"], "host", until_ms)
    assert {place: one.run for place, one in found.items()} == ({} if run is None else {"/logs": run})
    assert all(isinstance(one, Before) for one in found.values())
    assert min(read) == (1 if run is None else int(run[1:]))


def counted(keys, *, most=1 << 18, gathered=1 << 18, size_bytes=1 << 25):
    """Statistics of keys, each added alone."""
    statistics = KeyStatistics(3, most)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting, "GATHERED_ROWS", gathered)
        patch.setattr(counting, "GATHERED_BYTES", size_bytes)
        for key in keys:
            data = np.frombuffer(key, np.uint8)
            stored = StoredKeys(data, np.zeros(1, np.int64), np.array([len(key)]))
            statistics.add_stored(stored, np.zeros(1, np.int64), 0)
    return statistics


def test_so_many_keys_are_counted_one_by_one():
    keys = [b"%d" % at for at in range(9)]
    for most in (8, 9, 10):
        found = counted(keys, most=most, gathered=1).counts()
        assert (found.uncounted_records == 0) == (most >= 9)
        assert (found.keys, found.relative_error) == (9, 0)  # the smallest hashes are all of them


def test_keys_are_counted_when_so_many_are_gathered():
    for count in range(1, 7):
        assert len(counted([b"k"] * count, gathered=3)._waiting) == count % 3
        assert len(counted([b"k" * 6] * count, size_bytes=60)._waiting) == count % 2  # each with 24 bytes of numbers


def test_the_number_of_keys_by_the_smallest_hashes():
    """KMV: (k - 1) / U(k), with the k-th smallest of hashes that are spread over 0 to 1."""
    statistics = KeyStatistics(3, smallest=5)
    statistics._smallest, statistics._has_let_go = np.array([1, 2, 3, 4, 1 << 60], np.uint64), True
    assert statistics._estimate() == (4 * 16, 1 / math.sqrt(3))
    statistics._smallest = statistics._smallest[:4]
    assert statistics._estimate() == (4, 0)


@pytest.mark.parametrize("size", [1, 7, 8, 9, 16, 1023, 1024, 1025])
def test_each_byte_of_a_key_counts(size):
    keys = [bytes(at) + b"x" + bytes(size - at - 1) for at in (0, size // 2, size - 1)]
    found = {int(hash_keys(np.frombuffer(key, np.uint8), np.zeros(1, np.int64), np.array([size]))[0]) for key in keys}
    assert len(found) == len(set(keys))


@pytest.mark.parametrize(("counts", "records"), [((3, 0), 3), ((3, 1), 4), ((3, -1), None)])
def test_the_headers_say_how_many_records_there_are(counts, records):
    """A batch that the cleaner emptied has 0; of a compressed set the number is not known."""
    rows = [Batch(0, 9, at, at, 0, 2, 0, 0, 0, 0, -1, -1, -1, count, 1) for at, count in enumerate(counts)]
    statistics = LogStatistics(None)
    statistics.batches(BatchColumns.from_rows(rows))
    assert statistics.record_count == records
