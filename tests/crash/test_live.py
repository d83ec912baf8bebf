"""Readers of a log that grows, is rolled and loses its oldest segments under them, at any of their calls.

What goes may be missed, and what is half written is a tail: nothing of it is told as corruption, and nothing fails in
an odd way. (A truncation is no such thing: what a reader has seen is then wrong.)
"""

import pytest
from evidence import SCALE
from log_directories import END, PARTITION, ROOT, batch, log_directory
from watched_fs import WatchedFilesystem
from writers import (
    APPENDERS,
    DELETE_RECORDS,
    NOW_MS,
    RETAIN,
    RETAIN_AT_ONCE,
    RETAIN_NOTHING,
    ROLL,
    kafkalog,
)

READERS = {
    "ls": ("ls", ROOT),
    "verify": ("verify", ROOT),
    "verify deep": ("verify", "--level", "deep", ROOT),
    "dump-log": ("dump-log", PARTITION),
    "dump-index": ("dump-index", PARTITION),
    "lookup-offset": ("lookup-offset", PARTITION, "20"),
    "lookup-time": ("lookup-time", PARTITION, "--max-timestamp"),
}
ACTIVE = f"{PARTITION}/{14:020d}.log"


def live_disk():
    """As a broker at work has it: no marker, the last indexes at full length."""
    disk = log_directory("killed")
    meta = b"version=1\nnode.id=1\ncluster.id=kFQ3lUTFSsWWjXbfvbOpDw\n"
    disk.unlink(f"{ROOT}/meta.properties")
    disk.add(f"{ROOT}/meta.properties", meta)
    return disk


def append(size_bytes):
    """A broker writes so many bytes of a batch, or all."""

    def act(disk):
        with disk.open_write(ACTIVE) as file:
            file.write(disk.status(ACTIVE).size_bytes, batch(END)[0][:size_bytes])

    return act


CHANGES = {
    **{writer.name: writer.act for writer in (ROLL, RETAIN, RETAIN_NOTHING, RETAIN_AT_ONCE, DELETE_RECORDS)},
    **{writer.name: writer.act for writer in APPENDERS},
    "a batch": append(None),
    "half a batch": append(50),
    "some bytes": append(7),
}


DROPPING = ("retain", "retain-nothing", "retain-at-once", "delete-records")
EVERY = 2
"""The change comes before so many a call; before each of them in `make test-crash`."""


class Changing(WatchedFilesystem):
    """Another changes the log before the n-th call."""

    def __init__(self, below, n, change):
        super().__init__(below)
        self.n, self.change, self.count = n, change, 0

    def before(self, call):
        self.count += 1
        if self.count == self.n:
            self.change(self.below)


def read(fs, reader):
    return kafkalog(fs, *READERS[reader], now_ms=NOW_MS)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("reader", READERS)
def test_a_reader_of_a_log_that_changes(reader, change, evidence):
    counting = Changing(live_disk(), 0, None)
    assert read(counting, reader).code == 0
    calls = range(1, counting.count + 1)[:: 1 if SCALE > 1 else EVERY]
    for n in calls:
        outcome = read(Changing(live_disk(), n, CHANGES[change]), reader)
        assert outcome.code in (0, 1, 3, 5, 10), (n, outcome)  # 1, 5, 10: a file, or the offset asked for, is gone
        if outcome.code not in (0, 3):
            assert change in DROPPING, (n, outcome)
    evidence("R18", len(calls), len(READERS) * len(CHANGES))
