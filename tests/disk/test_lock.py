"""Who holds a log directory's lock: asked of a process that holds it, and without leaving a trace."""

import fcntl
import subprocess
import sys
from contextlib import contextmanager

import pytest

from kafkalog_cli.disk import posix_lock
from kafkalog_cli.disk.posix_lock import BROKER_BYTE, IMPORT_BYTE, LockOwner, import_owner, lock_owner

HOLDER = """
import fcntl, sys
lock = open(sys.argv[1], "r+")
fcntl.lockf(lock, getattr(fcntl, sys.argv[2]), *map(int, sys.argv[3:]))
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def held_by_another_process(path, operation="LOCK_EX", *part):
    """The lock file, or so many bytes of it from one on, is held by a process, whose id this gives; as Java's FileChannel.tryLock does it."""
    command = [sys.executable, "-c", HOLDER, str(path), operation, *map(str, part)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"held\n"
        yield holder.pid
        holder.stdin.close()


def test_no_lock_file_means_nobody_and_none_is_created(tmp_path):
    assert lock_owner(str(tmp_path)) is None
    assert list(tmp_path.iterdir()) == []


def test_a_file_alone_is_no_lock(tmp_path):
    (tmp_path / ".lock").touch()
    assert lock_owner(f"{tmp_path}/") is None


@pytest.mark.parametrize(("operation", "is_exclusive"), [("LOCK_EX", True), ("LOCK_SH", False)])
def test_the_owner_is_named_and_its_lock_told(tmp_path, operation, is_exclusive):
    lock = tmp_path / ".lock"
    lock.touch()
    with held_by_another_process(lock, operation) as pid:
        assert lock_owner(str(tmp_path)) == LockOwner(pid, is_exclusive)
        assert lock_owner(str(tmp_path)) == LockOwner(pid, is_exclusive), "asking must not change anything"
    assert lock_owner(str(tmp_path)) is None


def test_a_lock_on_a_single_byte_counts(tmp_path):
    """kafkalog's own writers lock byte 0 only."""
    lock = tmp_path / ".lock"
    lock.write_bytes(b"")
    with held_by_another_process(lock, "LOCK_SH", 1, BROKER_BYTE) as pid:
        assert lock_owner(str(tmp_path)) == LockOwner(pid, False)
        assert import_owner(str(tmp_path)) is None
    with held_by_another_process(lock, "LOCK_EX", 1, IMPORT_BYTE) as pid:
        assert lock_owner(str(tmp_path)) is None
        assert import_owner(str(tmp_path)) == LockOwner(pid, True)


def test_a_question_that_cannot_be_put_is_an_error(tmp_path):
    (tmp_path / ".lock").symlink_to(tmp_path / ".lock")
    with pytest.raises(OSError, match="symbolic links"):
        lock_owner(str(tmp_path))


def test_our_lock_on_the_checkpoints_is_no_broker(tmp_path):
    lock = tmp_path / ".lock"
    lock.touch()
    script = HOLDER.replace(
        "fcntl.lockf(lock, getattr(fcntl, sys.argv[2]), *map(int, sys.argv[3:]))",
        "fcntl.lockf(lock, fcntl.LOCK_SH, 1, 0); fcntl.lockf(lock, fcntl.LOCK_EX, 1, 1)",
    )
    with subprocess.Popen([sys.executable, "-c", script, str(lock)], stdin=-1, stdout=-1) as holder:
        assert holder.stdout.readline() == b"held\n"
        assert lock_owner(str(tmp_path)) == LockOwner(holder.pid, False)
        holder.stdin.close()


@pytest.mark.parametrize(("pid", "told"), [(1, 1), (4_194_304, 4_194_304), (0, None), (-1, None)])
def test_a_pid_that_is_no_process_here_is_not_told(pid, told):
    """fcntl(2), F_GETLK: 0 for a process of another pid namespace, as in a container, and -1 for a lock of a file description."""
    fields = dict.fromkeys(range(5), 0)
    fields[3 if posix_lock._BSD_LAYOUT else 0], fields[2 if posix_lock._BSD_LAYOUT else 4] = fcntl.F_WRLCK, pid
    assert posix_lock._owner(posix_lock._FLOCK.pack(*fields.values())) == LockOwner(told, True)
