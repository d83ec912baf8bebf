"""The clean-shutdown marker is there only while every partition is whole, and comes back with the same bytes."""

import errno
import multiprocessing
import os

import pytest

from tests.crash.journal_cases import PARTITION, PLANS, ROOT, RUN, contents, partition, run_plan, steps
from tests.crash.journal_matrix import the_tree
from tests.crash.test_journal_crashes import DropSync, SwapRenames
from tests.support.memory_fs import SURVIVALS
from tests.support.product import FileAttributes, KafkalogError, NotChanged, RealFilesystem
from tests.support.product_journal import (
    HELD_MARKER,
    RunState,
    check_undo,
    hold_marker,
    read_held_marker,
    read_manifest,
    release_marker,
    undo,
)
from tests.support.watched_fs import RecordingFilesystem, WatchedFilesystem, every_fault

MARKER = f"{ROOT}/.kafka_cleanshutdown"
HELD = f"{ROOT}/{HELD_MARKER}"
CONTENT = b'{"version":0,"brokerEpoch":123}'
ATTRIBUTES = FileAttributes(0o640, 7, 8, 1_500_000_000_000_000_003, (("user.a", b"\xff"),))
PLAN = PLANS["recovery"]


def with_marker():
    disk = partition()
    disk.add(MARKER, CONTENT, ATTRIBUTES)
    return disk


def marker(disk):
    """The marker, checked; None if it is away."""
    found = disk.tree(ROOT).get(MARKER)
    a = ATTRIBUTES
    assert found in (None, (CONTENT, a.mode, a.owner_id, a.group_id, a.mtime_ns, a.xattrs)), "not the same marker"
    return found


def tree(disk):
    return {path: value for path, value in the_tree(disk).items() if not path.startswith(HELD)}


def run(fs):
    assert hold_marker(fs, ROOT, RUN.run_id, ["t-0"])
    run_plan(fs, PLAN)
    assert release_marker(fs, ROOT, RUN.run_id, ["t-0"])


def take_back(fs):
    hold_marker(fs, ROOT, RUN.run_id, ["t-0"])
    manifest = read_manifest(fs, PARTITION, RUN.run_id)
    if manifest is not None:
        check_undo(fs, PARTITION, manifest, ROOT)
        undo(fs, PARTITION, manifest, ROOT)
    release_marker(fs, ROOT, RUN.run_id, ["t-0"])


def look(image, where):
    """A marker only beside a partition that is as before or as planned; and an undo brings it back."""
    if marker(image) is not None:
        manifest = read_manifest(image, PARTITION, RUN.run_id)
        done = manifest is not None and manifest.state is RunState.DONE
        assert contents(image) == steps(PLAN)[-1 if done else 0], f"{where}: the marker says more than is true"
    take_back(image)
    assert {p: v for p, v in tree(image).items() if p != PARTITION} == {
        p: v for p, v in tree(with_marker()).items() if p != PARTITION
    }, where
    assert marker(image) is not None
    assert image.status(HELD) is None, where


def matrix(wrap=lambda fs: fs):
    disk, found = with_marker(), []
    recorder = RecordingFilesystem(disk, lambda call: found.extend((call[:3], *image) for image in disk.images()))
    run(wrap(recorder))
    for call, name, image in found:
        look(image, f"{name} after {call}")
    for name, image in disk.images():
        assert marker(image) is not None, name
        assert image.status(HELD) is None, name
        assert contents(image) == steps(PLAN)[-1], name
    return len(found), recorder


def test_a_power_cut_never_leaves_a_clean_shutdown_file_beside_an_unverified_log():
    count, recorder = matrix()
    print(f"{len(recorder.changes)} calls, {count} images")
    assert count > 500


@pytest.mark.full
@pytest.mark.parametrize("mutant", [DropSync, SwapRenames])
def test_dropped_syncs_and_swapped_renames_are_caught(mutant):
    disk = with_marker()
    recorder = RecordingFilesystem(disk)
    hold_marker(recorder, ROOT, RUN.run_id, ["t-0"])
    first = len(recorder.calls)
    run_plan(recorder, PLAN)
    last = len(recorder.calls)
    release_marker(recorder, ROOT, RUN.run_id, ["t-0"])
    names = ("sync", "sync_directory") if mutant is DropSync else ("rename",)
    calls = [(at, call) for at, call in enumerate(recorder.calls) if call.name in names]
    ours = [n for n, (at, _) in enumerate(calls) if at < first or at >= last]
    if mutant is SwapRenames:
        ours = [n for n in range(len(calls) - 1) if n in ours or n + 1 in ours]
    alive = []
    for n in ours:
        try:
            matrix(lambda fs, n=n: mutant(fs, n))
        except (AssertionError, OSError, KafkalogError):
            continue
        alive.append(calls[n])
    assert len(ours) >= (5 if mutant is DropSync else 2)
    assert alive == []


@pytest.mark.full
def test_a_failed_call_never_leaves_a_clean_shutdown_file_beside_an_unverified_log():
    for fs in every_fault(with_marker):
        disk = fs.below
        try:
            run(fs)
        except (KafkalogError, OSError):  # release_marker leaves it to the commands what they tell
            assert fs.fired
        where = f"{fs.fault} {'for ever ' * fs.for_ever}at {fs.n}"
        if disk.locks_held():
            pytest.fail(f"{where}: a lock is held")
        look(disk.image(SURVIVALS[0]), where)


def test_a_directory_without_a_marker_never_gets_one():
    disk = partition()
    before = disk.tree(ROOT)
    assert not hold_marker(disk, ROOT, "run", ["t-0"])
    assert not release_marker(disk, ROOT, "run", ["t-0"])
    assert disk.tree(ROOT) == before


def test_the_last_of_several_runs_restores_the_clean_shutdown_file():
    disk = with_marker()
    assert hold_marker(disk, ROOT, "one", ["t-0", "t-1"])
    assert hold_marker(disk, ROOT, "two", ["u-0"])
    assert marker(disk) is None
    assert not release_marker(disk, ROOT, "one", ["t-1"])
    assert not release_marker(disk, ROOT, "two", ["u-0"])
    assert read_held_marker(disk, ROOT).reasons == {"one": ("t-0",)}
    assert release_marker(disk, ROOT, "one", ["t-0"])
    assert marker(disk) is not None
    assert disk.status(HELD) is None


def test_a_run_that_lost_records_or_crashed_keeps_the_clean_shutdown_file_away():
    disk = with_marker()
    hold_marker(disk, ROOT, "lossy", ["t-0", "t-1"])
    assert not release_marker(disk, ROOT, "lossy", ["t-1"])
    assert hold_marker(disk, ROOT, "later", ["t-2"])
    assert not release_marker(disk, ROOT, "later", ["t-2"])
    assert marker(disk) is None
    assert hold_marker(disk, ROOT, "lossy", ["t-0"]), "its undo"
    assert release_marker(disk, ROOT, "lossy", ["t-0"])
    assert marker(disk) is not None


def test_a_brokers_own_marker_counts_more_than_one_that_waits():
    disk = with_marker()
    hold_marker(disk, ROOT, "lossy", ["t-0"])
    disk.add(MARKER, b"{}", ATTRIBUTES)
    assert release_marker(disk, ROOT, "lossy", ["t-0"])
    assert disk.tree(ROOT)[MARKER][0] == b"{}"
    assert hold_marker(disk, ROOT, "new", ["t-1"])
    assert read_held_marker(disk, ROOT).reasons == {"new": ("t-1",)}
    assert release_marker(disk, ROOT, "new", ["t-1"])
    assert disk.tree(ROOT)[MARKER][0] == b"{}"


@pytest.mark.parametrize("bad", [b"", b"{}", b"[]", b'{"content":"!"}', b"\xff", b"null"])
def test_an_unreadable_held_marker_is_not_restored(bad):
    disk = partition()
    disk.add(HELD, bad)
    assert read_held_marker(disk, ROOT) is None
    assert not hold_marker(disk, ROOT, "run", ["t-0"])
    assert not release_marker(disk, ROOT, "run", ["t-0"])
    assert disk.status(MARKER) is None


def test_a_failed_sync_is_no_leave_to_change():
    class NoDirectorySync(WatchedFilesystem):
        def before(self, call):
            if call.name == "sync_directory":
                raise OSError(errno.EIO, os.strerror(errno.EIO), call.path)

    with pytest.raises(NotChanged, match="Input/output error"):
        hold_marker(NoDirectorySync(with_marker()), ROOT, "run", ["t-0"])

    class NoUnlink(WatchedFilesystem):
        def before(self, call):
            if call.path == MARKER and call.name == "unlink":
                raise OSError(errno.EACCES, os.strerror(errno.EACCES), call.path)

    disk = with_marker()
    with pytest.raises(NotChanged, match="Permission denied"):
        hold_marker(NoUnlink(disk), ROOT, "run", ["t-0"])
    assert marker(disk) is not None


def _hold_and_release(root, number, wrong):
    fs = RealFilesystem()
    for turn in range(8):
        run_id, names = f"run-{number}-{turn}", [f"t-{number}"]
        hold_marker(fs, root, run_id, names)
        if os.path.exists(f"{root}/.kafka_cleanshutdown"):  # noqa: PTH110
            wrong.put(f"{run_id}: there while a partition is changed")
        release_marker(fs, root, run_id, names)


def test_several_processes_hold_and_release_one_marker_without_loss(tmp_path):
    (tmp_path / ".kafka_cleanshutdown").write_bytes(CONTENT)
    (tmp_path / ".kafka_cleanshutdown").chmod(0o640)
    context = multiprocessing.get_context("fork")
    wrong = context.SimpleQueue()
    workers = [context.Process(target=_hold_and_release, args=(str(tmp_path), n, wrong)) for n in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(300)
    assert [worker.exitcode for worker in workers] == [0] * 4
    assert wrong.empty()
    assert (tmp_path / ".kafka_cleanshutdown").read_bytes() == CONTENT
    assert sorted(p.name for p in tmp_path.iterdir()) == [".kafka_cleanshutdown", ".lock"]


def test_a_marker_on_a_real_disk_comes_back_with_its_bytes_and_mode(tmp_path):
    path = tmp_path / ".kafka_cleanshutdown"
    path.write_bytes(b"")
    path.chmod(0o604)
    os.utime(path, ns=(5, 1_000_000_007))
    fs = RealFilesystem()
    assert hold_marker(fs, f"{tmp_path}/", "run", ["odd \udcff"])
    assert not path.exists()
    assert read_held_marker(fs, str(tmp_path)).reasons == {"run": ("odd \udcff",)}
    assert release_marker(fs, str(tmp_path), "run", ["odd \udcff"])
    assert (path.read_bytes(), path.stat().st_mode & 0o777, path.stat().st_mtime_ns) == (b"", 0o604, 1_000_000_007)
    assert sorted(p.name for p in tmp_path.iterdir()) == [".kafka_cleanshutdown", ".lock"]
