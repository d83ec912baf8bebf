"""Changes between audits exactly at a limit: of times, and of the runs that are read."""

import pytest

from kafkalog_cli.ops.audit import compare
from kafkalog_cli.ops.audit.compare import Before, History


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
