"""Locks on log directories and partitions: who holds them, and how this process takes them beside real holders."""

import errno
import fcntl
import multiprocessing
import os
import stat
import subprocess
import sys
import threading
import time

import pytest

from kafkalog_cli.disk import posix_lock
from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.disk.lock import WATCH_SECONDS, LockPolicy, lock_checkpoints, lock_log_dir, lock_partition, log_dir_of
from kafkalog_cli.disk.posix_lock import BROKER_BYTE, IMPORT_BYTE, LockOwner, import_owner, lock_owner
from kafkalog_cli.errors import Locked, NoSpace, Refused, Unreadable
from tests.support.locks import HOLDER, held_by_another_process
from tests.support.memory_fs import MemoryFilesystem
from tests.support.watched_fs import RecordingFilesystem

# -- Who holds a log directory's lock: asked of a process that holds it, and without leaving a trace


def test_no_lock_file_means_nobody_and_none_is_created(tmp_path):
    assert lock_owner(str(tmp_path)) is None
    assert list(tmp_path.iterdir()) == []


def test_a_file_alone_is_no_lock(tmp_path):
    (tmp_path / ".lock").touch()
    assert lock_owner(f"{tmp_path}/") is None


@pytest.mark.parametrize(("operation", "is_exclusive"), [("LOCK_EX", True), ("LOCK_SH", False)])
def test_lock_owner_gives_the_process_and_kind_of_a_lock(tmp_path, operation, is_exclusive):
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
def test_lock_owner_gives_no_process_for_a_pid_of_another_namespace(pid, told):
    """fcntl(2), F_GETLK: 0 for a process of another pid namespace, as in a container, and -1 for a lock of a file description."""
    fields = dict.fromkeys(range(5), 0)
    fields[3 if posix_lock._BSD_LAYOUT else 0], fields[2 if posix_lock._BSD_LAYOUT else 4] = fcntl.F_WRLCK, pid
    assert posix_lock._owner(posix_lock._FLOCK.pack(*fields.values())) == LockOwner(told, True)


# -- Locks that this process takes, beside real processes that hold them as a broker or another run would


NO_WAIT = LockPolicy(sleep=lambda _seconds: pytest.fail("must not wait"))
TRY = """
import fcntl, sys
lock = open(sys.argv[1], "r+")
try:
    fcntl.lockf(lock, getattr(fcntl, sys.argv[2]) | fcntl.LOCK_NB, int(sys.argv[3]), int(sys.argv[4]))
    print("taken")
except OSError:
    print("held")
"""


def try_in_another_process(path, operation="LOCK_EX", length=0, start=0):
    command = [sys.executable, "-c", TRY, str(path), operation, str(length), str(start)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def log_dir(tmp_path):
    (tmp_path / "meta.properties").touch()
    (tmp_path / "t-0").mkdir()
    return tmp_path


def test_a_writer_keeps_brokers_out_and_lets_other_writers_in(log_dir):
    fs, lock = RealFilesystem(), log_dir / ".lock"
    with lock_log_dir(fs, str(log_dir), NO_WAIT):
        assert try_in_another_process(lock) == "held", "a broker"
        assert try_in_another_process(lock, "LOCK_SH", 1) == "taken", "a kafkalog"
        with lock_checkpoints(fs, str(log_dir), NO_WAIT):
            assert try_in_another_process(lock, "LOCK_EX", 1, 1) == "held"
        assert try_in_another_process(lock, "LOCK_EX", 1, 1) == "taken"
        assert try_in_another_process(lock) == "held", "giving up byte 1 must not give up byte 0"
    assert try_in_another_process(lock) == "taken"
    assert lock.exists()


def test_a_broker_keeps_us_out(log_dir):
    fs = RecordingFilesystem(RealFilesystem())
    (log_dir / ".lock").touch()
    with held_by_another_process(log_dir / ".lock") as pid:
        with pytest.raises(Locked, match=rf"\.lock: locked: a broker \(pid {pid}\) uses this log directory") as caught:
            lock_log_dir(fs, str(log_dir), NO_WAIT)
        with pytest.raises(Locked):
            lock_log_dir(fs, str(log_dir), LockPolicy(assume_offline=True, sleep=NO_WAIT.sleep))
    assert caught.value.exit_code == 11
    assert fs.changes == []
    lock_log_dir(fs, str(log_dir), NO_WAIT).release()


def test_waiting_ends_when_the_lock_is_free_or_the_time_is_over(log_dir):
    fs, slept = RealFilesystem(), []
    (log_dir / ".lock").touch()
    with held_by_another_process(log_dir / ".lock"), pytest.raises(Locked):
        lock_log_dir(fs, str(log_dir), LockPolicy(wait_ms=1000, sleep=slept.append))
    assert sum(slept) == pytest.approx(1.0)
    holder = held_by_another_process(log_dir / ".lock")
    holder.__enter__()
    slept = []

    def sleep(seconds):
        slept.append(seconds)
        if len(slept) == 3:
            holder.__exit__(None, None, None)

    lock_log_dir(fs, str(log_dir), LockPolicy(wait_ms=1000, sleep=sleep)).release()
    assert len(slept) == 3


def test_lock_owner_does_not_release_the_locks_of_this_process(log_dir):
    """Closing any descriptor of a file gives up all POSIX locks of a process on it."""
    fs = RealFilesystem()
    with lock_log_dir(fs, str(log_dir), NO_WAIT):
        assert lock_owner(str(log_dir)) is None
        with lock_log_dir(fs, str(log_dir), NO_WAIT), pytest.raises(BlockingIOError):
            fs.lock(str(log_dir / ".lock"), first_byte=0, exclusive=True)
        with held_by_another_process(log_dir / ".lock", "LOCK_SH") as pid:
            assert lock_owner(str(log_dir)) == (pid, False)
        assert try_in_another_process(log_dir / ".lock") == "held"
    assert try_in_another_process(log_dir / ".lock") == "taken"


def test_a_hard_link_is_the_same_lock(log_dir):
    fs = RealFilesystem()
    (log_dir / ".lock").touch()
    os.link(log_dir / ".lock", log_dir / "other")
    with lock_log_dir(fs, str(log_dir), NO_WAIT):
        with fs.lock(str(log_dir / "other"), first_byte=3, exclusive=True):
            pass
        assert try_in_another_process(log_dir / ".lock") == "held"


def test_threads_are_kept_apart(log_dir):
    fs, seen = RealFilesystem(), []
    inside = threading.Lock()
    patient = LockPolicy(wait_ms=10**9, sleep=lambda _seconds: time.sleep(0.0003))

    def work():
        for _ in range(50):
            with lock_partition(fs, str(log_dir / "t-0"), patient):
                seen.append(inside.acquire(blocking=False))
                inside.release()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [True] * 200


def _child(log_dir, held, answers):
    assert held is None or not held.is_held
    if held is not None:
        held.release()  # does nothing: it is the parent's
    fs = RealFilesystem()
    with lock_log_dir(fs, log_dir, NO_WAIT):
        try:
            lock_partition(fs, f"{log_dir}/t-0", NO_WAIT)
            answers.put("partition taken")
        except Locked as error:
            answers.put(str(error))


def test_a_forked_child_has_no_lock_until_it_takes_its_own(log_dir):
    fs = RealFilesystem()
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    with lock_log_dir(fs, str(log_dir), NO_WAIT) as held, lock_partition(fs, str(log_dir / "t-0"), NO_WAIT):
        child = context.Process(target=_child, args=(str(log_dir), held, answers))
        child.start()
        answer = answers.get(timeout=240)
        child.join()
        assert f"another run of kafkalog holds the lock, pid {os.getpid()}" in answer
        assert try_in_another_process(log_dir / ".lock") == "held", "the child must not take it with it"
        assert try_in_another_process(log_dir / "t-0/.kafkalog/lock") == "held"


def test_a_partition_without_a_log_directory_has_its_own_lock(tmp_path):
    (tmp_path / "t-0").mkdir(mode=0o750)
    assert log_dir_of(RealFilesystem(), str(tmp_path / "t-0")) is None
    with lock_partition(RealFilesystem(), f"{tmp_path}/t-0/", NO_WAIT):
        assert try_in_another_process(tmp_path / "t-0/.kafkalog/lock") == "held"
    assert stat.S_IMODE((tmp_path / "t-0/.kafkalog").stat().st_mode) == 0o750
    assert [path.name for path in tmp_path.iterdir()] == ["t-0"]


def test_the_log_directory_of_a_relative_or_absolute_partition_is_its_parent(log_dir, monkeypatch):
    monkeypatch.chdir(log_dir / "t-0")
    fs = RealFilesystem()
    assert log_dir_of(fs, str(log_dir / "t-0")) == log_dir_of(fs, f"{log_dir}/t-0/") == str(log_dir)
    assert log_dir_of(fs, ".") == log_dir_of(fs, "../t-0") == str(log_dir)


def test_new_lock_files_belong_to_the_directorys_owner(log_dir):
    log_dir.chmod(0o770)
    with lock_log_dir(RealFilesystem(), str(log_dir), NO_WAIT):
        assert stat.S_IMODE((log_dir / ".lock").stat().st_mode) == 0o660
    if os.geteuid() == 0:
        os.chown(log_dir / "t-0", 1234, 2345)
        with lock_partition(RealFilesystem(), str(log_dir / "t-0"), NO_WAIT):
            for path in (log_dir / "t-0/.kafkalog", log_dir / "t-0/.kafkalog/lock"):
                assert (path.stat().st_uid, path.stat().st_gid) == (1234, 2345)


def unsupported():
    fs = MemoryFilesystem()
    fs.add("/logs/replication-offset-checkpoint", b"0\n0\n")
    fs.add("/logs/t-0/x", b"")
    fs.unsupported_locks = True
    return fs


def test_where_locks_do_not_work_a_flag_is_needed():
    for take, path in ((lock_log_dir, "/logs"), (lock_checkpoints, "/logs"), (lock_partition, "/logs/t-0")):
        with pytest.raises(Refused, match="--assume-offline") as caught:
            take(unsupported(), path, NO_WAIT)
        assert caught.value.exit_code == 14


def test_assumed_offline_is_watched_first():
    slept = []
    policy = LockPolicy(assume_offline=True, sleep=slept.append)
    fs = unsupported()
    assert not lock_log_dir(fs, "/logs", policy).has_lock  # type: ignore[attr-defined]
    assert sum(slept) == WATCH_SECONDS == 11
    assert lock_checkpoints(fs, "/logs", policy) is None
    assert not lock_partition(fs, "/logs/t-0", policy).has_lock  # type: ignore[attr-defined]
    assert len(slept) == 11, "once is enough"


@pytest.mark.parametrize("second", [1, 5, 11])
@pytest.mark.parametrize("was_there", [True, False])
def test_assume_offline_refuses_where_a_broker_rewrites_its_checkpoint(second, was_there):
    fs, slept = unsupported(), []
    if not was_there:
        fs.unlink("/logs/replication-offset-checkpoint")

    def sleep(seconds):
        slept.append(seconds)
        if len(slept) == second:
            with fs.create("/logs/new") as file:
                file.write(0, b"0\n0\n")
            fs.rename("/logs/new", "/logs/replication-offset-checkpoint")

    with pytest.raises(Locked, match="a broker is running"):
        lock_log_dir(fs, "/logs", LockPolicy(assume_offline=True, sleep=sleep))
    assert len(slept) == second


class Refusing(MemoryFilesystem):
    def __init__(self, number):
        super().__init__()
        self.number = number
        self.add("/logs/t-0/x", b"")

    def lock(self, path, *, first_byte, exclusive):
        raise OSError(self.number, os.strerror(self.number), path)

    def make_directory(self, path, attributes=None):
        raise OSError(self.number, os.strerror(self.number), path)


@pytest.mark.parametrize(
    ("number", "error", "code"),
    [
        (errno.ENOSPC, NoSpace, 13),
        (errno.EROFS, Unreadable, 1),
        (errno.EACCES, Unreadable, 1),
        (errno.EIO, Unreadable, 1),
    ],
)
def test_a_lock_call_that_the_system_refuses_is_an_error_with_its_code(number, error, code):
    offline = LockPolicy(wait_ms=1000, assume_offline=True, sleep=NO_WAIT.sleep)
    for take, path in ((lock_log_dir, "/logs"), (lock_partition, "/logs/t-0")):
        with pytest.raises(error) as caught:
            take(Refusing(number), path, offline)
        assert caught.value.exit_code == code


def test_a_lock_file_that_another_process_makes_at_the_same_moment(log_dir, monkeypatch):
    real = os.open

    def opening(path, flags, *rest, **at):
        if str(path).endswith(".lock") and not flags & os.O_CREAT and not (log_dir / ".lock").exists():
            (log_dir / ".lock").touch()
            raise FileNotFoundError(errno.ENOENT, "not yet", path)
        return real(path, flags, *rest, **at)

    monkeypatch.setattr(os, "open", opening)
    with lock_log_dir(RealFilesystem(), str(log_dir), NO_WAIT):
        assert try_in_another_process(log_dir / ".lock") == "held"


def test_a_lock_file_that_its_holder_removes_at_the_same_moment(log_dir, monkeypatch):
    """A run that fails removes the lock that it made: who has opened that file holds nothing that others see."""
    real, path = os.open, log_dir / "t-0/.kafkalog/lock"
    removed = []

    def opening(name, flags, *rest, **at):
        descriptor = real(name, flags, *rest, **at)
        if str(name) == "lock" and not removed:
            removed.append(name)
            path.unlink()
        return descriptor

    monkeypatch.setattr(os, "open", opening)
    with pytest.raises(Locked):
        lock_partition(RealFilesystem(), str(log_dir / "t-0"), NO_WAIT)
    with lock_partition(RealFilesystem(), str(log_dir / "t-0"), NO_WAIT):
        assert try_in_another_process(path) == "held"


def test_a_directory_of_ours_that_another_process_makes_at_the_same_moment(log_dir):
    class Late(RealFilesystem):
        def make_directory(self, path, attributes=None):
            super().make_directory(path, attributes)
            raise FileExistsError(errno.EEXIST, "there it is", path)

    with lock_partition(Late(), str(log_dir / "t-0"), NO_WAIT):
        assert try_in_another_process(log_dir / "t-0/.kafkalog/lock") == "held"


def test_a_lock_file_that_cannot_be_given_away_is_no_lock(log_dir, monkeypatch):
    def refuse(*_):
        raise PermissionError(errno.EPERM, "no")

    monkeypatch.setattr(os, "fchmod", refuse)
    log_dir.chmod(0o755)
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0  # noqa: PTH112, PTH208
    with pytest.raises(Unreadable):
        lock_log_dir(RealFilesystem(), str(log_dir), NO_WAIT)
    assert not (log_dir / ".lock").exists()
    assert (len(os.listdir("/proc/self/fd")) if before else 0) == before  # noqa: PTH208
