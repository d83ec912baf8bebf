"""The real disk: what it refuses and keeps, look-ups that fail, calls that do less than asked, temporary files."""

import errno
import os
import stat
from pathlib import Path

import pytest

from kafkalog_cli.disk import ownership, temporary
from kafkalog_cli.disk.fs import DiskFile, FileAttributes, RealFilesystem, read_all
from kafkalog_cli.disk.temporary import SpooledFile, temporary_directory
from kafkalog_cli.errors import Unreadable

# -- The real disk's changing half: what it refuses, what it keeps, and calls of the system that do less than asked


@pytest.fixture
def fs():
    return RealFilesystem()


def raises(number):
    return pytest.raises(OSError, match=rf"\[Errno {number}\]")


@pytest.mark.parametrize("umask", [0o022, 0o002, 0o077])
def test_output_has_the_mode_that_the_umask_leaves(fs, tmp_path, umask):
    old = os.umask(umask)
    try:
        fs.create(f"{tmp_path}/file").close()
        fs.make_directory(f"{tmp_path}/directory")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o666 & ~umask
    assert stat.S_IMODE((tmp_path / "directory").stat().st_mode) == 0o777 & ~umask


def test_a_new_file_is_nobody_elses_until_it_has_its_attributes(fs, tmp_path, monkeypatch):
    modes = []
    give = ownership.give

    def watched(descriptor, *attributes):
        modes.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        give(descriptor, *attributes)

    monkeypatch.setattr("kafkalog_cli.disk.fs.give", watched)
    wanted = FileAttributes(0o640, os.getuid(), os.getgid(), 1_234_567_890_123_456_789)
    with fs.create(f"{tmp_path}/given", wanted):
        pass
    found = fs.attributes(f"{tmp_path}/given")
    assert (found.mode, found.owner_id, found.group_id, found.mtime_ns) == (
        0o640,
        os.getuid(),
        os.getgid(),
        1_234_567_890_123_456_789,
    )
    assert modes == [0o600]
    with raises(errno.EEXIST):
        fs.create(f"{tmp_path}/given")


def test_a_file_that_cannot_have_its_attributes_is_not_left(fs, tmp_path, monkeypatch):
    def refuse(*_a, **_k):
        raise PermissionError(errno.EPERM, "no")

    monkeypatch.setattr(os, "fchown", refuse)
    for group_id in (os.getgid(), os.getgid() + 1):
        for mode in (0o640, 0o604, 0o600):
            stranger = FileAttributes(mode, os.getuid() + 77_777, group_id, 0)
            if group_id == os.getgid():  # the stranger gets in through the group
                fs.create(f"{tmp_path}/f", stranger).close()
                assert (tmp_path / "f").stat().st_mode & 0o070 == 0o060
                (tmp_path / "f").unlink()
                continue
            with raises(errno.EPERM):
                fs.create(f"{tmp_path}/f", stranger)
            with raises(errno.EPERM):
                fs.make_directory(f"{tmp_path}/d", stranger)
    assert list(tmp_path.iterdir()) == []


def test_symbolic_links_are_refused(fs, tmp_path):
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "dangling").symlink_to("nothing")
    with raises(errno.ELOOP):
        fs.open_write(f"{tmp_path}/link")
    with raises(errno.EEXIST):
        fs.create(f"{tmp_path}/dangling")
    with raises(errno.ELOOP):
        fs.set_attributes(f"{tmp_path}/link", fs.attributes(f"{tmp_path}/file"))
    assert fs.attributes(f"{tmp_path}/link").mode != fs.attributes(f"{tmp_path}/file").mode, "of the link itself"
    fs.unlink(f"{tmp_path}/link")
    assert (tmp_path / "file").read_bytes() == b"x"


def test_open_write_refuses_pipes_and_directories_without_hanging(fs, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "directory").mkdir()
    with raises(errno.EINVAL):
        fs.open_write(f"{tmp_path}/fifo")
    with raises(errno.EISDIR):
        fs.open_write(f"{tmp_path}/directory")


def test_a_short_write_of_the_system_is_continued(fs, tmp_path, monkeypatch):
    real, sizes = os.pwrite, []

    def pwrite(descriptor, data, position):
        sizes.append(real(descriptor, data[:3], position))
        return sizes[-1]

    monkeypatch.setattr(os, "pwrite", pwrite)
    with fs.create(f"{tmp_path}/f") as file:
        file.write(2, b"0123456789")
        file.write(4, memoryview(b"ab"))
    assert (tmp_path / "f").read_bytes() == b"\0\0" + b"01ab456789"
    assert sizes == [3, 3, 3, 1, 2]


def test_a_device_that_takes_nothing_ends_the_write(fs, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "pwrite", lambda *_: 0)
    with fs.create(f"{tmp_path}/f") as file, raises(errno.EIO):
        file.write(0, b"x")


def test_a_file_is_extended_by_a_hole(fs, tmp_path):
    with fs.create(f"{tmp_path}/f") as file:
        file.truncate(1 << 20)
    status = fs.status(f"{tmp_path}/f")
    assert (status.size_bytes, status.allocated_bytes) == (1 << 20, 0)
    with fs.open_write(f"{tmp_path}/f") as file:
        file.truncate(5)
        file.close()
        file.close()
    assert (tmp_path / "f").read_bytes() == bytes(5)


def test_extended_attributes_are_kept_and_taken_away(fs, tmp_path):
    (tmp_path / "one").touch()
    (tmp_path / "two").touch()
    try:
        os.setxattr(tmp_path / "one", "user.kept", b"1")
        os.setxattr(tmp_path / "two", "user.gone", b"2")
        os.setxattr(tmp_path / "two", "user.kept", b"other")
    except OSError:
        pytest.skip("no extended attributes here")
    wanted = fs.attributes(f"{tmp_path}/one")
    assert wanted.xattrs == (("user.kept", b"1"),)
    fs.set_attributes(f"{tmp_path}/two", wanted)
    assert fs.attributes(f"{tmp_path}/two").xattrs == wanted.xattrs
    assert os.listxattr(tmp_path / "two") == ["user.kept"]


@pytest.mark.parametrize("number", [errno.ENOTSUP, errno.ENOSYS])
def test_a_disk_without_extended_attributes_has_none(fs, tmp_path, monkeypatch, number):
    def refuse(*_a, **_k):
        raise OSError(number, "no")

    monkeypatch.setattr(os, "listxattr", refuse)
    assert fs.attributes(f"{tmp_path}").xattrs == ()
    monkeypatch.delattr(os, "listxattr")
    assert fs.attributes(f"{tmp_path}").xattrs == ()


def test_xattrs_that_cannot_be_read_are_no_empty_list(fs, tmp_path, monkeypatch):
    def refuse(*_a, **_k):
        raise OSError(errno.EIO, "no")

    monkeypatch.setattr(os, "listxattr", refuse)
    with raises(errno.EIO):
        fs.attributes(f"{tmp_path}")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_owner_group_and_mode_go_together_without_the_bits_that_give_rights(fs, tmp_path):
    (tmp_path / "f").touch()
    for special in (0o4000, 0o2000, 0o1000, 0o7000):
        fs.set_attributes(f"{tmp_path}/f", FileAttributes(special | 0o750, 1234, 2345, 99))
        found = fs.attributes(f"{tmp_path}/f")
        assert (found.mode, found.owner_id, found.group_id, found.mtime_ns) == (0o750, 1234, 2345, 99)


def test_a_directory_keeps_its_own_setgid_bit(fs, tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d").chmod(0o2755)
    fs.set_attributes(f"{tmp_path}/d", fs.attributes(f"{tmp_path}/d")._replace(mode=0o700, mtime_ns=5))
    assert fs.attributes(f"{tmp_path}/d").mode == 0o2700


@pytest.mark.parametrize("change", [{"mode": 0o777}, {"owner_id": 12345}, {"xattrs": (("user.a", b"b"),)}])
def test_rights_of_a_file_with_other_names_stay(fs, tmp_path, change):
    """Between two calls, whoever owns the directory may swap a file for a hard link to another user's."""
    (tmp_path / "theirs").write_bytes(b"x")
    (tmp_path / "theirs").chmod(0o600)
    (tmp_path / "log").hardlink_to(tmp_path / "theirs")
    before = fs.attributes(f"{tmp_path}/theirs")
    with raises(errno.EMLINK):
        fs.set_attributes(f"{tmp_path}/log", before._replace(**change))
    assert fs.attributes(f"{tmp_path}/theirs") == before
    fs.set_attributes(f"{tmp_path}/log", before._replace(mtime_ns=7))
    assert (tmp_path / "log").stat().st_mtime_ns == 7


def test_attributes_have_the_number_of_links(fs, tmp_path):
    (tmp_path / "f").touch()
    fs.link(f"{tmp_path}/f", f"{tmp_path}/g")
    assert fs.attributes(f"{tmp_path}/f").link_count == 2
    before = fs.attributes(f"{tmp_path}/f")
    fs.unlink(f"{tmp_path}/g")
    assert fs.attributes(f"{tmp_path}/f").link_count == 1
    assert fs.attributes(f"{tmp_path}/f").ctime_ns >= before.ctime_ns > 0


def test_a_failed_sync_raises_and_leaves_no_descriptor(fs, tmp_path, monkeypatch):
    def refuse(_descriptor):
        raise OSError(errno.EIO, "no")

    monkeypatch.setattr(os, "fsync", refuse)
    with fs.create(f"{tmp_path}/f") as file, raises(errno.EIO):
        file.sync()
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0  # noqa: PTH112, PTH208
    with raises(errno.EIO):
        fs.sync_directory(f"{tmp_path}")
    after = len(os.listdir("/proc/self/fd")) if before else 0  # noqa: PTH208
    assert after == before


def test_macos_is_asked_to_empty_the_drives_cache(tmp_path, monkeypatch):
    import fcntl

    asked, synced = [], []
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(os, "fsync", synced.append)

    def full(_descriptor, operation):
        asked.append(operation)
        if len(asked) > 1:
            raise OSError(errno.ENOTSUP if len(asked) == 2 else errno.EIO, "no")

    monkeypatch.setattr(fcntl, "fcntl", full)
    with DiskFile(f"{tmp_path}/f", os.open(tmp_path / "f", os.O_CREAT | os.O_RDWR)) as file:
        file.sync()
        assert (asked, synced) == ([51], [])
        file.sync()
        assert len(synced) == 1, "a share that does not know it is synced the other way"
        with raises(errno.EIO):
            file.sync()


def test_attributes_are_compared_by_value():
    one = FileAttributes(0o600, 1, 2, 3)
    assert one._replace() == one != one._replace(mode=0o601)


# -- Files beside a log are read whole, or not at all


def test_a_file_over_the_limit_is_not_read_in_part(tmp_path):
    path = tmp_path / "00000000000000000000.txnindex"
    path.write_bytes(bytes(34))
    assert read_all(RealFilesystem(), str(path), 34) == bytes(34)
    with pytest.raises(Unreadable, match="it has 34 bytes; such a file is read up to 33 bytes"):
        read_all(RealFilesystem(), str(path), 33)


# -- Temporary files: where they may be, and what happens where there is no room for them


def none(*_):
    raise OSError(28, "No space left on device")


def test_temporary_files_are_never_in_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("TMPDIR", "TEMP", "TMP"):
        monkeypatch.setenv(name, ".")
    assert Path(temporary_directory()).parent == Path("/") or temporary_directory() == "/var/tmp"
    monkeypatch.setattr(os, "access", lambda path, _: Path(path) == tmp_path)
    with pytest.raises(OSError, match="set TMPDIR"):
        temporary_directory()
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert temporary_directory() == str(tmp_path)


@pytest.mark.parametrize("has_room", [True, False])
def test_a_spooled_file_has_all_bytes_whether_or_not_there_is_room(monkeypatch, has_room):
    if not has_room:
        monkeypatch.setattr(temporary, "temporary_file", none)
    file = SpooledFile(10)
    for piece in (b"0123456", b"789abc", b"def"):
        file.write(piece)
    assert file.tell() == 16
    assert (len(file._memory.getbuffer()) == 0) == has_room
    file.seek(5)
    file.write(b"XX")
    assert file.read(3) == b"789"
    file.seek(0)
    assert file.read(100) == b"01234XX789abcdef"
    file.close()
