"""A reader beside a running broker leaves the page cache as it was: shown with mincore."""

import os
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_cli.disk import page_cache
from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.disk.page_cache import PAGE_BYTES, cold_runs
from tests.support.commands import a_broker_on

PAGES = 64

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="mincore and posix_fadvise are Linux's")


def cold_pages(path):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return {
            page
            for start, end in cold_runs(descriptor, path.stat().st_size)
            for page in range(start // PAGE_BYTES, end // PAGE_BYTES)
        }
    finally:
        os.close(descriptor)


def cool(path, but=range(0)):
    """Let all pages of a file go but some."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)  # no read-ahead
        for page in but:
            os.pread(file.fileno(), 1, page * PAGE_BYTES)


@pytest.fixture
def on_disk():
    """A directory for files that outlive the machine's stop: pages of a file system in memory do not go."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        yield Path(directory)


@pytest.fixture
def segments(on_disk):
    partition = on_disk / "t-0"
    partition.mkdir()
    (on_disk / "meta.properties").write_text("version=1\n")
    logs = [partition / f"{base:020d}.log" for base in (0, 9)]
    for log in logs:
        log.write_bytes(os.urandom(PAGES * PAGE_BYTES))
        cool(log)
        if len(cold_pages(log)) < PAGES:
            pytest.skip("this file system does not let pages go")
    return logs


def read_whole(path):
    with RealFilesystem().open_read(str(path)) as file:
        assert file.read_into(0, memoryview(bytearray(file.size_bytes))) == file.size_bytes


def test_pages_that_were_in_memory_stay_and_the_others_go(segments, on_disk):
    hot = range(8, 24)
    cool(segments[0], but=hot)
    before = cold_pages(segments[0])
    assert before.isdisjoint(hot)
    assert len(before) > PAGES // 2
    with a_broker_on(on_disk):
        read_whole(segments[0])
    assert cold_pages(segments[0]) == before


def test_a_segment_of_many_steps_is_let_go_while_it_is_read(segments, on_disk, monkeypatch):
    monkeypatch.setattr("kafkalog_cli.disk.page_cache.STEP_BYTES", 8 * PAGE_BYTES)
    with a_broker_on(on_disk), RealFilesystem().open_read(str(segments[0])) as file:
        for start in range(0, file.size_bytes, PAGE_BYTES):
            file.read_into(start, memoryview(bytearray(PAGE_BYTES)))
        assert len(cold_pages(segments[0])) > PAGES // 2


def test_the_active_segment_and_a_disk_without_a_broker_are_left_as_they_are(segments, on_disk):
    with a_broker_on(on_disk):
        read_whole(segments[1])
    assert not cold_pages(segments[1])
    read_whole(segments[0])
    assert not cold_pages(segments[0])


@given(st.lists(st.booleans(), min_size=1, max_size=9), st.integers(0, 1))
def test_runs_of_cold_pages(hot, spare_bits):
    """mincore sets the lowest bit of each page in memory; the other bits are reserved."""

    class Libc:
        def mmap(self, *_):
            return 4096

        def mincore(self, _address, _size, resident):
            for page, is_hot in enumerate(hot):
                resident[page] = is_hot | spare_bits << 1
            return 0

        def munmap(self, *_):
            return 0

    with mock.patch.object(page_cache, "_libc", Libc):
        found = cold_runs(0, len(hot) * PAGE_BYTES - 1)
    pages = [page for start, end in found for page in range(start // PAGE_BYTES, end // PAGE_BYTES)]
    assert pages == [page for page, is_hot in enumerate(hot) if not is_hot]
    assert all(end < start for (_, end), (start, _) in pairwise(found))
