"""A look-up that fails is not a missing file: a writer would act on a log without it."""

import errno
import os
from contextlib import contextmanager

import pytest

from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.errors import NotLookedUp, Unreadable
from tests.support.commands import kafkalog
from tests.support.logs import R, batch_v2, write_segment

# -- A look-up that fails is not a missing file: a writer would act on a file that it does not see


UNKNOWN = [errno.EIO, errno.EACCES, errno.EUCLEAN, errno.ESTALE, errno.ENOMEM]


@pytest.fixture
def disk(tmp_path):
    """A log directory with one partition, cleanly stopped."""
    folder = tmp_path / "log"
    (folder / "t-0").mkdir(parents=True)
    write_segment(folder / "t-0", 0, [(batch_v2([R(0, 1_795_000_000_000, None, b"v")]), 0, 1_795_000_000_000)])
    (folder / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=a2Fma2Fsb2ctdGVzdHMtMQ\n")
    (folder / ".kafka_cleanshutdown").write_bytes(b'{"version":0,"brokerEpoch":7}')
    return folder


@pytest.fixture
def failing(monkeypatch):
    """Let each look-up of an entry with this name fail; the call returns nothing."""
    real = {name: getattr(os, name) for name in ("stat", "lstat")}

    def of(wanted, number):
        for name, call in real.items():

            def look(path, *args, call=call, **more):
                if str(path).rpartition("/")[2] == wanted:
                    raise OSError(number, os.strerror(number), path)
                return call(path, *args, **more)

            monkeypatch.setattr(os, name, look)

    return of


@pytest.mark.parametrize("number", UNKNOWN)
@pytest.mark.parametrize("is_held", [False, True])
def test_a_lookup_that_fails_is_no_missing_file(disk, failing, number, is_held):
    fs = RealFilesystem()
    if is_held:
        fs.hold_directory(str(disk))
    failing("meta.properties", number)
    with pytest.raises(NotLookedUp, match=os.strerror(number)):
        fs.status(f"{disk}/meta.properties")


@pytest.mark.parametrize("is_held", [False, True])
def test_a_path_that_leads_nowhere_has_no_status(disk, is_held):
    fs = RealFilesystem()
    if is_held:
        fs.hold_directory(str(disk))
    (disk / "loop").symlink_to("loop")
    (disk / "dangling").symlink_to("nowhere")
    for name in ("none", "meta.properties/below", "none/below", "loop", "dangling", "x" * 300, "nul\0"):
        assert fs.status(f"{disk}/{name}") is None


@pytest.mark.parametrize("command", [("append", "--single-replica"), ("recover",), ("roll", "--force")])
def test_a_marker_that_cannot_be_looked_up_stays(disk, failing, command):
    """An append took such a marker for none, and changed the log beside it."""
    before = {path: path.read_bytes() for path in disk.rglob("*") if path.is_file()}
    failing(".kafka_cleanshutdown", errno.EIO)
    code, _, err = kafkalog(command[0], disk / "t-0", *command[1:], "--input" if command[0] == "append" else "--quiet",
                            *(["lines"] if command[0] == "append" else []), stdin=b"more\n")  # fmt: skip
    assert (code, "Input/output error" in err, "could not be restored" in err) == (1, True, False), err
    assert {path: path.read_bytes() for path in before} == before


def test_data_behind_a_hole_is_found(tmp_path):
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.write(b"begin")
        file.seek(1 << 30)
        file.write(b"end")
        file.truncate(1 << 40)
    with RealFilesystem().open_read(str(path)) as file:
        assert file.data_from(0) == 0
        assert (1 << 30) - (1 << 21) < file.data_from(1 << 22) <= 1 << 30
        assert file.data_from(1 << 35) == 1 << 40
        assert file.data_from(1 << 41) == 1 << 40


# -- A directory entry whose status the device cannot give is not taken for a removed one: a segment would be missing


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
def test_a_listing_with_an_entry_that_cannot_be_looked_up_fails(partition, bad_disk, number):
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
