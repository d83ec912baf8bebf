"""A directory entry whose status the device cannot give is not taken for a removed one: a segment would be missing."""

import errno
import os
from contextlib import contextmanager

import pytest

from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.errors import Unreadable
from tests.support.commands import kafkalog
from tests.support.logs import R, batch_v2

NAME = f"{1:020}.log"


class BadEntry:
    def __init__(self, entry, number):
        self._entry, self._number, self.name, self.path = entry, number, entry.name, entry.path

    def is_symlink(self):
        return self._entry.is_symlink()

    def stat(self, *, follow_symlinks=True):
        raise OSError(self._number, os.strerror(self._number))


@pytest.fixture
def partition(tmp_path):
    directory = tmp_path / "logs" / "t-0"
    directory.mkdir(parents=True)
    for offset in range(2):
        (directory / f"{offset:020}.log").write_bytes(batch_v2([R(offset, 1_700_000_000_000, b"k", b"v")]))
    return directory


@pytest.fixture
def bad_disk(monkeypatch):
    """Make the status of the last segment fail with an error; the call returns nothing."""
    scan = os.scandir

    def of(number):
        @contextmanager
        def scandir(place):
            with scan(place) as entries:
                yield [BadEntry(entry, number) if entry.name == NAME else entry for entry in entries]

        monkeypatch.setattr(os, "scandir", scandir)

    return of


@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES, errno.EUCLEAN, errno.ESTALE, errno.ENOMEM])
def test_the_listing_fails(partition, bad_disk, number):
    bad_disk(number)
    with pytest.raises(Unreadable, match=os.strerror(number)):
        RealFilesystem().list_directory(str(partition))


def test_a_file_that_was_removed_meanwhile_is_left_out(partition, bad_disk):
    bad_disk(errno.ENOENT)
    assert [one.path.rpartition("/")[2] for one in RealFilesystem().list_directory(str(partition))] == [f"{0:020}.log"]


@pytest.mark.parametrize(
    "command", [("append", "--single-replica"), ("recover",), ("roll", "--force"), ("verify",), ("read",)]
)
def test_no_command_works_without_the_segment(partition, bad_disk, command):
    """Else they would work on a log that ends before the segment."""
    before = {path.name: path.read_bytes() for path in partition.iterdir()}
    bad_disk(errno.EIO)
    code, out, err = kafkalog(command[0], partition, *command[1:])
    assert code != 0
    assert "Input/output error" in out + err
    assert before == {name: (partition / name).read_bytes() for name in before}
