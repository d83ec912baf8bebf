"""A reader beside a running broker leaves the page cache as it was: shown with mincore."""

import ctypes
import mmap
import os
import sys
import tempfile
from pathlib import Path

import pytest

from kafkalog_cli.disk.fs import RealFilesystem
from tests.support.commands import a_broker_on

PAGES = 64
PAGE_BYTES = mmap.PAGESIZE

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="mincore and posix_fadvise are Linux's")


def cold_pages(path):
    """The pages of a file that are not in memory, as mincore reports them."""
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    with path.open("rb") as file:
        address = ctypes.c_void_p(libc.mmap(None, PAGES * PAGE_BYTES, 1, 1, file.fileno(), ctypes.c_long(0)))
    resident = (ctypes.c_ubyte * PAGES)()
    assert libc.mincore(address, ctypes.c_size_t(PAGES * PAGE_BYTES), resident) == 0
    libc.munmap(address, ctypes.c_size_t(PAGES * PAGE_BYTES))
    return {page for page in range(PAGES) if not resident[page] & 1}


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


def test_pages_go_while_a_segment_is_read(segments, on_disk):
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
