"""A look-up that fails is not a missing file: a writer would act on a file that it does not see."""

import errno
import os

import pytest

from kafkalog_cli.disk.fs import RealFilesystem, data_from
from kafkalog_cli.errors import NotLookedUp
from tests.support.commands import kafkalog
from tests.support.logs import R, batch_v2, write_segment

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
def test_it_is_not_missing(disk, failing, number, is_held):
    fs = RealFilesystem()
    if is_held:
        fs.hold_directory(str(disk))
    failing("meta.properties", number)
    with pytest.raises(NotLookedUp, match=os.strerror(number)):
        fs.status(f"{disk}/meta.properties")


@pytest.mark.parametrize("is_held", [False, True])
def test_nothing_is_there(disk, is_held):
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
        assert data_from(file, 0) == 0
        assert (1 << 30) - (1 << 21) < data_from(file, 1 << 22) <= 1 << 30
        assert data_from(file, 1 << 35) == 1 << 40
        assert data_from(file, 1 << 41) == 1 << 40
