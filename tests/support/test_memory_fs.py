"""The disk in memory against the real one: the same calls, the same answers; and what its power cuts leave."""

import errno
import os
import shutil
import tempfile
import threading
from contextlib import suppress

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.support import memory_fs
from tests.support.memory_fs import SURVIVALS, MemoryFilesystem, Survival
from tests.support.product import FileAttributes, KafkalogError, RealFilesystem, read_all
from tests.support.watched_fs import FailingFilesystem, every_fault

NAMES = st.sampled_from(["a", "b", "d", "d/a", "d/b", "d/e", "d/e/a", "a/x"])
DATA = st.binary(max_size=12)
SMALL = st.integers(0, 20)


class SameAnswers(RuleBasedStateMachine):
    """Each rule makes one call on both disks."""

    def __init__(self):
        super().__init__()
        self.directory = tempfile.mkdtemp()
        self.real = RealFilesystem()
        self.memory = MemoryFilesystem()
        self.memory.make_directory("/top")

    def teardown(self):
        shutil.rmtree(self.directory)

    def both(self, call):
        answers = []
        for fs, top in ((self.real, self.directory), (self.memory, "/top")):
            try:
                answers.append(call(fs, top))
            except OSError as error:
                # rmdir and rename say ENOTEMPTY or EEXIST, as the system likes
                answers.append(errno.ENOTEMPTY if error.errno == errno.EEXIST else error.errno)
            except KafkalogError as error:
                answers.append(type(error))
        assert answers[0] == answers[1]

    @rule(name=NAMES, data=DATA, position=SMALL)
    def create(self, name, data, position):
        def call(fs, top):
            with fs.create(f"{top}/{name}") as file:
                file.write(position, data)
                file.sync()

        self.both(call)

    @rule(name=NAMES, data=DATA, position=SMALL, size=st.one_of(st.none(), SMALL))
    def write(self, name, data, position, size):
        def call(fs, top):
            with fs.open_write(f"{top}/{name}") as file:
                file.write(position, memoryview(data))
                if size is not None:
                    file.truncate(size)

        self.both(call)

    @rule(old=NAMES, new=NAMES)
    def rename(self, old, new):
        self.both(lambda fs, top: fs.rename(f"{top}/{old}", f"{top}/{new}"))

    @rule(old=NAMES, new=NAMES)
    def link(self, old, new):
        self.both(lambda fs, top: fs.link(f"{top}/{old}", f"{top}/{new}"))

    @rule(name=NAMES, call=st.sampled_from(["unlink", "make_directory", "remove_directory", "sync_directory"]))
    def change_a_name(self, name, call):
        self.both(lambda fs, top: getattr(fs, call)(f"{top}/{name}"))

    @rule(name=NAMES, mode=st.sampled_from([0o600, 0o644, 0o750]), mtime_ns=st.integers(0, 2**60))
    def set_attributes(self, name, mode, mtime_ns):
        def call(fs, top):
            before = fs.attributes(f"{top}/{name}")
            fs.set_attributes(f"{top}/{name}", before._replace(mode=mode, mtime_ns=mtime_ns))
            after = fs.attributes(f"{top}/{name}")
            return after.mode, after.mtime_ns, after.link_count if fs.open_read(f"{top}/{name}") else None

        self.both(call)

    @rule(name=NAMES)
    def read(self, name):
        self.both(lambda fs, top: read_all(fs, f"{top}/{name}"))

    @rule(name=NAMES)
    def list_directory(self, name):
        def call(fs, top):
            found = fs.list_directory(f"{top}/{name}")
            return [(entry.path.removeprefix(top), entry.is_file, entry.is_directory) for entry in found]

        self.both(call)

    @rule(name=NAMES, other=NAMES)
    def same_file(self, name, other):
        def call(fs, top):
            one, two = fs.status(f"{top}/{name}"), fs.status(f"{top}/{other}")
            if one is None or two is None:
                return one is two
            return one.inode == two.inode, one.is_file, one.size_bytes if one.is_file else None

        self.both(call)

    @invariant()
    def same_trees(self):
        assert tree(self.real, self.directory) == tree(self.memory, "/top")


def tree(fs, top, under=""):
    found = {}
    for entry in fs.list_directory(f"{top}{under}"):
        name = entry.path.removeprefix(top)
        found[name] = None if entry.is_directory else read_all(fs, entry.path)
        if entry.is_directory:
            found.update(tree(fs, top, name))
    return found


TestSameAnswers = SameAnswers.TestCase
TestSameAnswers.settings = settings(stateful_step_count=40, deadline=None)


def small_disk():
    fs = MemoryFilesystem()
    fs.add("/d/old", b"before")
    return fs


def contents(fs):
    return {path: value[0] for path, value in fs.tree().items() if value[0] is not None}


def images(fs):
    return {name: contents(image) for name, image in fs.images()}


def test_bytes_that_were_not_synced_may_be_lost_on_the_memory_disk():
    fs = small_disk()
    with fs.create("/d/new") as file:
        file.write(0, b"content")
    found = images(fs)
    assert found["kept"] == {"/d/old": b"before", "/d/new": b"content"}
    assert found["data lost"] == {"/d/old": b"before", "/d/new": b""}
    assert found["data zeros"] == {"/d/old": b"before", "/d/new": bytes(7)}
    assert found["names lost"] == found["data and names lost"] == {"/d/old": b"before"}
    assert found["torn at 0"] == {"/d/old": b"before", "/d/new": b""}
    assert found["torn at 1"] == {"/d/old": b"before", "/d/new": b"c"}
    assert found["torn at 3"] == {"/d/old": b"before", "/d/new": b"con"}


def test_a_synced_file_can_still_lose_its_name():
    fs = small_disk()
    with fs.create("/d/new") as file:
        file.write(0, b"content")
        file.sync()
    assert images(fs)["data lost"]["/d/new"] == b"content"
    assert images(fs)["names lost"] == {"/d/old": b"before"}
    fs.sync_directory("/d")
    assert all(image["/d/new"] == b"content" for image in images(fs).values())


def test_a_cut_of_a_file_counts_once_it_is_synced():
    fs = small_disk()
    with fs.open_write("/d/old") as file:
        file.truncate(3)
        assert images(fs)["data lost"] == {"/d/old": b"before"}
        assert images(fs)["kept"] == {"/d/old": b"bef"}
        file.sync()
    assert all(image == {"/d/old": b"bef"} for image in images(fs).values())


def test_a_rename_between_directories_can_leave_two_names_or_none():
    fs = small_disk()
    fs.make_directory("/e")
    fs.sync_directory("/")
    fs.rename("/d/old", "/e/old")
    assert images(fs)["names lost"] == {"/d/old": b"before"}
    fs.sync_directory("/d")
    assert images(fs)["names lost"] == {}
    fs = small_disk()
    fs.make_directory("/e")
    fs.sync_directory("/")
    fs.rename("/d/old", "/e/old")
    fs.sync_directory("/e")
    two = fs.image(Survival("names lost", names="lost"))
    assert contents(two) == {"/d/old": b"before", "/e/old": b"before"}
    assert two.status("/d/old").inode == two.status("/e/old").inode
    assert two.attributes("/d/old").link_count == 2


def test_a_directory_survives_with_its_parents_name_of_it():
    fs = MemoryFilesystem()
    fs.make_directory("/a")
    with fs.create("/a/file") as file:
        file.sync()
    fs.sync_directory("/a")
    assert contents(fs.image(SURVIVALS[3])) == {}
    fs.sync_directory("/")
    assert contents(fs.image(SURVIVALS[3])) == {"/a/file": b""}


def test_attributes_are_lost_with_the_data():
    fs = small_disk()
    before = fs.attributes("/d/old")
    fs.set_attributes("/d/old", before._replace(mode=0o400, mtime_ns=7))
    lost = fs.image(Survival("data lost", data="lost"))
    assert (lost.attributes("/d/old").mode, lost.attributes("/d/old").mtime_ns) == (before.mode, before.mtime_ns)
    with fs.open_write("/d/old") as file:
        file.sync()
    kept = fs.image(Survival("data lost", data="lost"))
    assert (kept.attributes("/d/old").mode, kept.attributes("/d/old").mtime_ns) == (0o400, 7)


def test_changes_of_names_may_survive_out_of_order():
    fs = small_disk()
    with fs.create("/d/one") as file:
        file.sync()
    fs.rename("/d/old", "/d/older")
    fs.unlink("/d/one")
    fs.rename("/d/older", "/d/two")
    assert images(fs)["last name only"] == {"/d/old": b"before", "/d/two": b"before"}
    found = {frozenset(contents(fs.image(Survival("chance", seed=seed)))) for seed in range(60)}
    assert frozenset({"/d/old", "/d/one", "/d/two"}) in found
    assert frozenset({"/d/older"}) in found
    assert frozenset({"/d/two"}) in found
    fs.sync_directory("/d")
    assert {frozenset(image) for image in images(fs).values()} == {frozenset({"/d/two"})}


def two_writes(fs):
    with fs.create("/d/new") as file:
        file.write(0, b"12")
        file.write(2, b"3456")


def test_a_short_write_leaves_half():
    fs = FailingFilesystem(small_disk(), "short write", 1)
    with pytest.raises(OSError, match="No space"):
        two_writes(fs)
    assert contents(fs.below)["/d/new"] == b"1234"


def test_all_faults_are_tried_until_a_run_has_none():
    runs = []
    for fs in every_fault(small_disk):
        with suppress(OSError):
            two_writes(fs)
        runs.append((fs.fault, fs.for_ever, len(fs.failed)))
    assert len([run for run in runs if run[2]]) == 2 * (3 + 3 + 3 + 1 + 2)
    assert len([run for run in runs if not run[2]]) == 2 * 5
    with pytest.raises(AssertionError, match="no call can fail"):
        for _ in every_fault(small_disk):
            pass


def test_a_lock_of_the_memory_disk_keeps_others_out():
    fs = small_disk()
    shared = fs.lock("/d/.lock", first_byte=0, exclusive=False)
    with fs.lock("/d/.lock", first_byte=0, exclusive=False), fs.lock("/d/.lock", first_byte=1, exclusive=True):
        with pytest.raises(BlockingIOError):
            fs.lock("/d/.lock", first_byte=0, exclusive=True)
        with pytest.raises(BlockingIOError):
            fs.lock("/d/.lock", first_byte=1, exclusive=True)
    shared.release()
    shared.release()
    assert fs.locks_held() == 0
    fs.lock("/d/.lock", first_byte=0, exclusive=True)
    fs.foreign_locks.add("/d/.lock")
    with pytest.raises(BlockingIOError):
        fs.lock("/d/.lock", first_byte=5, exclusive=False)


def test_threads_that_lock_a_file_at_once_get_locks_of_their_own(monkeypatch):
    """Two threads that both found the byte free got the lock that came second; the first was never released."""
    fs, taken, meet = small_disk(), [], threading.Barrier(2)

    class Slow(memory_fs.MemoryLock):
        def __init__(self, *fields):
            with suppress(threading.BrokenBarrierError):
                meet.wait(0.3)
            super().__init__(*fields)

    def take():
        with suppress(BlockingIOError):
            taken.append(fs.lock("/d/.lock", first_byte=1, exclusive=True))

    monkeypatch.setattr(memory_fs, "MemoryLock", Slow)
    threads = [threading.Thread(target=take) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == 1
    taken[0].release()
    assert fs.locks_held() == 0


def test_the_real_disk_takes_a_chown_only_if_it_changes_something(tmp_path, monkeypatch):
    (tmp_path / "f").write_bytes(b"")
    fs = RealFilesystem()
    monkeypatch.setattr(os, "chown", lambda *_a, **_k: pytest.fail("nothing to change"))
    fs.set_attributes(str(tmp_path / "f"), fs.attributes(str(tmp_path / "f"))._replace(mtime_ns=5))
    assert fs.attributes(str(tmp_path / "f")).mtime_ns == 5
    assert isinstance(fs.attributes(str(tmp_path)), FileAttributes)
