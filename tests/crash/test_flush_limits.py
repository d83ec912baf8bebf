"""append syncs the log after flush.messages records, so that a power cut loses no more than the topic allows."""

import os

import pytest

from tests.support.commands import kafkalog
from tests.support.logs import BASE_TIME_MS, R, batch_v2, write_segment
from tests.support.product import RealFilesystem
from tests.support.watched_fs import WatchedFilesystem


class Syncs(WatchedFilesystem):
    """How many bytes the log has at each of its syncs."""

    def __init__(self, log):
        super().__init__(RealFilesystem())
        self.log, self.sizes = log, []

    def after(self, call):
        if call.name == "sync" and call.path == str(self.log):
            self.sizes.append(self.log.stat().st_size)


@pytest.fixture
def partition(tmp_path):
    (tmp_path / "t-0").mkdir()
    write_segment(tmp_path / "t-0", 0, [(batch_v2([R(0, BASE_TIME_MS)]), 0, BASE_TIME_MS)])
    return tmp_path / "t-0"


APPEND = ("--single-replica", "--input", "lines", "--batch-bytes", "61", "--now", BASE_TIME_MS)


@pytest.mark.parametrize(("most", "synced"), [(1, [1, 2, 3, 4, 5]), (2, [2, 4, 5]), (5, [5]), (6, [5])])
def test_append_syncs_as_soon_as_flush_messages_records_are_written(partition, most, synced):
    """UnifiedLog.append: unflushedMessages >= flush.messages. The rest is synced at the end."""
    log = partition / f"{0:020d}.log"
    before, fs = log.stat().st_size, Syncs(log)
    ran = kafkalog("append", partition, *APPEND, "--config", f"flush.messages={most}", fs=fs, stdin=b"v\n" * 5)
    assert ran.code == 0, ran
    size = (log.stat().st_size - before) // 5
    assert sorted({(at - before) // size for at in fs.sizes} - {0}) == synced


class RecordThenSilence:
    """A pipe that gives a record, at which so much time has passed, and ends after some looks at it."""

    def __init__(self, clock, seconds):
        self.clock, self.seconds, self.looks = clock, seconds, 0
        self.reader, self.writer = os.pipe()
        os.write(self.writer, b"v\n")

    def fileno(self):
        self.looks += 1
        if self.looks == 5:
            os.close(self.writer)
        return self.reader

    def read(self, size):
        self.clock.now += self.seconds
        return os.read(self.reader, size)


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.mark.parametrize(("seconds", "is_synced"), [(0.999, False), (1.0, True)])
def test_append_syncs_a_record_when_flush_ms_has_passed(partition, seconds, is_synced):
    clock = Clock()
    log, stdin = partition / f"{0:020d}.log", RecordThenSilence(clock, seconds)
    before, while_open = log.stat().st_size, []

    class Watched(Syncs):
        def after(self, call):
            super().after(call)
            while_open.extend(size > before for size in self.sizes if stdin.looks < 5)

    ran = kafkalog("append", partition, *APPEND, "--config", "flush.ms=1000", fs=Watched(log), stdin=stdin, clock=clock)
    os.close(stdin.reader)
    assert (ran.code, log.stat().st_size > before) == (0, True), ran
    assert any(while_open) is is_synced
