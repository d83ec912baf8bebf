"""A real file system that is full: as far filled as makes each step of a run and of its undo fail in turn."""

import os
import shutil
import subprocess

import pytest

from tests.crash.journal_cases import Bytes
from tests.support import commands
from tests.support.product import Cut, Drop, KafkalogError, Move, Put, RealFilesystem
from tests.support.product_journal import RunInfo, apply

KIB = 1 << 10
INFO = RunInfo("run-1", "test", (), 0)


def kafkalog(*argv):
    return commands.kafkalog(*argv, now_ms=lambda: 4_000_000_000_000)


def tree(root, *, with_own=False):
    """All below a directory: content, mode, owner, mtime; what kafkalog keeps beside it only `with_own`."""
    found = {}
    for path in sorted(root.rglob("*")):
        if with_own or (".kafkalog" not in path.parts and path.name != ".lock"):
            status = path.lstat()
            content = path.read_bytes() if path.is_file() else None
            found[path] = (content, status.st_mode, status.st_uid, status.st_gid, status.st_mtime_ns)
    return found


def changes_of(partition):
    """Some of everything, by the files that are there."""
    logs = sorted(partition.glob("*.log"))
    size = logs[-1].stat().st_size
    found = [Cut(logs[-1].name, size, size // 2), Put("new.snapshot", Bytes(b"new" * 99), False)]
    found += [Put(p.name, Bytes(b"\0" * 9000), True) for p in sorted(partition.glob("*.index"))[:1]]
    found += [Drop(p.name) for p in sorted(partition.glob("*.timeindex"))[:1]]
    return [*found, *(Move(p.name, p.name + ".deleted") for p in logs[:-1][:1])]


@pytest.fixture
def small_disk(tmp_path):
    """2 MiB of memory as a file system."""
    point = tmp_path / "disk"
    point.mkdir()
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root mounts a file system")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", point], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("no file system can be mounted here")
    yield point
    subprocess.run(["umount", point], check=True)


@pytest.fixture
def partition(small_disk):
    found = small_disk / "logs" / "t-0"
    found.mkdir(parents=True)
    (found.parent / "meta.properties").touch()
    for offset in (0, 10):
        for suffix, size in ((".log", 300 * KIB), (".index", 30 * KIB), (".timeindex", 10 * KIB)):
            (found / f"{offset:020d}{suffix}").write_bytes(os.urandom(size))
    return found


def fill(disk, free_kib):
    """Leave so much room."""
    ballast = disk / "ballast"
    ballast.unlink(missing_ok=True)
    room = os.statvfs(disk)
    with ballast.open("wb") as file:
        file.write(b"x" * max(0, room.f_bavail * room.f_frsize - free_kib * KIB))
    return ballast


@pytest.mark.parametrize("free_kib", [0, 4, 8, 12, 20, 40, 80, 120, 160, 164, 168, 172, 176])
def test_a_run_on_a_full_disk_changes_nothing(partition, small_disk, free_kib):
    before = tree(partition)
    changes = changes_of(partition)
    ballast = fill(small_disk, free_kib)
    failure = None
    try:
        apply(RealFilesystem(), str(partition), changes, run=INFO)
    except KafkalogError as error:
        failure = error
    if failure is not None:
        assert free_kib < 176
        assert failure.exit_code == 13, failure
        assert "nothing was changed" in str(failure) or "lock" in str(failure)
        assert tree(partition) == before
        own = partition / ".kafkalog"
        assert not own.exists() or [path.name for path in own.iterdir()] in ([], ["lock"])
    else:
        assert free_kib >= 160, "what is cut off alone is 150 KiB"
        assert tree(partition) != before
        assert kafkalog("undo", partition, "run-1")[0] in (0, 13)
    ballast.unlink()
    if (partition / ".kafkalog/run-1").exists():
        assert kafkalog("undo", partition, "run-1")[0] == 0
    assert tree(partition) == before


def test_undo_on_a_full_disk_ends_with_13_and_completes_when_there_is_room(partition, small_disk):
    before = tree(partition)
    apply(RealFilesystem(), str(partition), changes_of(partition), run=INFO)
    codes = []
    for free_kib in (0, 4, 40, 100, 148):
        ballast = fill(small_disk, free_kib)
        code, _, err = kafkalog("undo", partition, "run-1")
        codes.append(code)
        assert "internal error" not in err
        assert "kafkalog undo" in err or "manifest" in err or code == 0
        ballast.unlink()
    assert codes[:3] == [13] * 3
    assert kafkalog("undo", partition, "run-1")[0] == 0
    assert tree(partition) == before


def test_purge_on_a_full_disk_works_without_room(partition, small_disk):
    apply(RealFilesystem(), str(partition), changes_of(partition), run=INFO)
    fill(small_disk, 0)
    used = os.statvfs(small_disk).f_bavail
    assert kafkalog("purge", partition)[0] == 0
    assert os.statvfs(small_disk).f_bavail - used >= 150 * KIB // os.statvfs(small_disk).f_frsize


def test_a_run_on_a_read_only_disk_changes_nothing(partition, small_disk):
    apply(RealFilesystem(), str(partition), changes_of(partition), run=INFO)
    before = tree(partition.parent, with_own=True)
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    for argv in (("undo", partition, "run-1"), ("purge", partition)):
        code, out, err = kafkalog(*argv)
        assert (code, out) == (1, ""), err
        assert "Read-only file system" in err
    assert kafkalog("undo", partition, "run-1", "--dry-run")[0] == 0
    assert tree(partition.parent, with_own=True) == before
