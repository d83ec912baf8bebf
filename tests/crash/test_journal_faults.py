"""The journal when calls fail: each call, each kind of fault, once and for ever; what is told is what is there."""

import errno
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.crash.journal_cases import (
    CHECKPOINT,
    OWN,
    PARTITION,
    PLANS,
    RECOVERY_POINT,
    ROOT,
    RUN,
    Bytes,
    contents,
    partition,
    run_plan,
    steps,
)
from tests.crash.journal_matrix import the_tree
from tests.support.memory_fs import SURVIVALS, MemoryFilesystem
from tests.support.product import (
    Cut,
    Drop,
    HalfChanged,
    KafkalogError,
    Locked,
    Move,
    NoSpace,
    NotChanged,
    Put,
    RealFilesystem,
    Refused,
    Room,
    Unreadable,
)
from tests.support.product_journal import RunState, apply, check_undo, journal, read_manifest, snapshot, undo
from tests.support.watched_fs import Call, FailingFilesystem, RecordingFilesystem, WatchedFilesystem, every_fault

SYNCS = ("sync", "sync_directory")


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", list(PLANS))
def test_a_failed_call_leaves_what_was_or_can_be_undone(name):
    before = the_tree(partition())
    outcomes = Counter()
    for fs in every_fault(partition):
        where = f"{fs.fault} {'for ever ' * fs.for_ever}at candidate {fs.n}"
        disk = fs.below
        try:
            run_plan(fs, PLANS[name])
        except KafkalogError as error:
            assert fs.fired, where
            outcomes[type(error).__name__] += 1
            check_failure(fs, disk, error, before, where)
        else:
            outcomes["no error"] += 1
            assert contents(disk) == steps(PLANS[name])[-1], where
            assert read_manifest(disk, PARTITION, RUN.run_id).state is RunState.DONE, where
        assert disk.locks_held() == 0, where
    print(name, dict(outcomes))
    assert outcomes["no error"] >= 10, "a kind is through when a whole run had no fault"
    assert outcomes["NotChanged"] > 20
    assert outcomes["NoSpace"] > 20


def check_failure(fs, disk, error, before, where):
    half = f"kafkalog undo {PARTITION} {RUN.run_id}" in str(error)
    if fs.fault in ("ENOSPC", "short write"):
        assert error.exit_code == 13, (where, error)
    if fs.failed[0].name in SYNCS and not fs.for_ever:
        assert not [call for call in fs.calls_after if call.name in ("rename", *SYNCS)], (
            f"{where}: went on after a sync failed"
        )
    if not half:
        assert same_but_for_own_directory(the_tree(disk), before), f"{where}: {error}"
        assert disk.tree(ROOT)[RECOVERY_POINT][0] == CHECKPOINT, where
        left = [path for path in disk.tree(OWN) if path.startswith(f"{OWN}/{RUN.run_id}")] if disk.status(OWN) else []
        assert not left or fs.for_ever, f"{where}: {left} is left"
    manifest = read_manifest(disk, PARTITION, RUN.run_id)
    if half:
        assert manifest is not None, where
    if manifest is not None:
        check_undo(disk, PARTITION, manifest, ROOT)
        undo(disk, PARTITION, manifest, ROOT)
        assert the_tree(disk) == before, f"{where}: undo did not help"


def same_but_for_own_directory(found, before):
    """An error right after `.kafkalog` was made leaves the directory's mtime as that made it."""
    return {p: v for p, v in found.items() if p != PARTITION} == {p: v for p, v in before.items() if p != PARTITION}


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["recovery", "swap", "two cuts", "moved and made anew"])
def test_a_failed_call_of_undo_leaves_what_another_completes(name):
    before = the_tree(partition())

    def done():
        disk = partition()
        run_plan(disk, PLANS[name])
        return disk

    failures = 0
    for fs in every_fault(done):
        manifest = read_manifest(fs.below, PARTITION, RUN.run_id)
        try:
            undo(fs, PARTITION, manifest, ROOT)
        except (OSError, KafkalogError):
            assert fs.fired
            failures += 1
            manifest = read_manifest(fs.below, PARTITION, RUN.run_id)
            check_undo(fs.below, PARTITION, manifest, ROOT)
            undo(fs.below, PARTITION, manifest, ROOT)
        assert the_tree(fs.below) == before, (fs.fault, fs.n)
    assert failures > 100


class FullOnce(WatchedFilesystem):
    """The disk is full when the content of the n-th new file is written."""

    def before(self, call):
        if call.name == "write" and call.path.endswith(".new"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), call.path)


def test_no_room_changes_nothing_and_says_so():
    disk = partition()
    with pytest.raises(NoSpace, match="nothing was changed") as caught:
        run_plan(FullOnce(disk), PLANS["recovery"])
    assert caught.value.exit_code == 13
    assert the_tree(disk) == the_tree(partition())
    assert [entry.path for entry in disk.list_directory(OWN)] == [f"{OWN}/lock"]
    run_plan(disk, PLANS["recovery"])
    assert contents(disk) == steps(PLANS["recovery"])[-1]


@pytest.mark.parametrize("free_bytes", [380, 379])
def test_the_copy_of_cut_bytes_is_limited_to_the_size_of_a_segment(monkeypatch, free_bytes):
    """More than a segment can have is a hole, which is not copied for days; the cut is of 500 - 120 bytes."""
    monkeypatch.setattr(journal, "MAX_SEGMENT_BYTES", 0)
    disk = partition()
    disk.room = lambda path: Room(1, free_bytes)
    if free_bytes < 380:
        refused(PLANS["cut"], "nothing was changed", NoSpace, disk)
        return
    run_plan(disk, PLANS["cut"])
    assert contents(disk) == steps(PLANS["cut"])[-1]


def refused(changes, match, error=Refused, disk=None, **options):
    disk = disk or partition()
    before = disk.tree(ROOT, without=(OWN,))
    with pytest.raises(error, match=match):
        run_plan(disk, changes, **options)
    assert disk.tree(ROOT, without=(OWN,)) == before
    assert disk.locks_held() == 0


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ((Cut("00.log", 499, 3),), "has 500 bytes, not 499"),
        ((Cut("99.log", 1, 0),), "99.log is not there"),
        ((Drop("99.log"),), "not there"),
        ((Move("99.log", "x"),), "not there"),
        ((Move("00.log", "50.log"),), "50.log is there"),
        ((Put("00.log", Bytes(b""), False),), "00.log is there"),
        ((Put("99.log", Bytes(b""), True),), "99.log is not there"),
        ((Drop("00.log"), Drop("00.log")), "not there"),
        ((Drop("00.log"), Put("00.log", Bytes(b""), True)), "not there"),
    ],
)
def test_a_plan_for_another_state_is_refused(changes, match):
    refused(changes, match)


@pytest.mark.parametrize(
    "changes",
    [
        (Cut("00.log", 500, 501),),
        (Cut("00.log", 500, -1),),
        (Drop("../t-1/00.log"),),
        (Drop(".."),),
        (Cut("00.log", 500, 300), Cut("00.log", 300, 10)),
        (Put("new", Bytes(b"x"), False), Drop("new")),
        (Put("new", Bytes(b"x"), False), Put("new", Bytes(b"y"), True)),
    ],
)
def test_a_plan_that_contradicts_itself_is_a_bug(changes):
    refused(changes, None, ValueError)


def test_content_of_another_size_than_planned_is_a_bug():
    class Short(Bytes):
        size_bytes = 5

    refused((Put("new", Short(b"1234"), False),), "4 bytes were written, 5 were expected", ValueError)


def test_a_file_with_a_second_name_is_not_cut():
    disk = partition()
    disk.make_directory("/backup")
    disk.link(f"{PARTITION}/00.log", "/backup/00.log")
    refused(PLANS["cut"], "second link", disk=disk)
    run_plan(disk, PLANS["replaced"])


def test_a_run_keeps_its_name_to_itself():
    disk = partition()
    run_plan(disk, PLANS["cut"])
    refused(PLANS["drop"], "there is a run of this name", disk=disk)


def test_nothing_to_do_leaves_no_trace():
    disk = partition()
    before = disk.tree("/")
    assert journal.apply(disk, PARTITION, (), run=RUN) is None
    assert disk.tree("/") == before


def test_a_run_removes_files_that_a_crash_left_before_its_manifest():
    disk = partition()
    recorder = RecordingFilesystem(disk)
    images = []
    recorder.watch = lambda call: images.append(disk.image(next(iter(SURVIVALS))))
    run_plan(recorder, PLANS["two replaced"])
    without = [i for i in images if i.status(f"{OWN}/{RUN.run_id}") and not read_manifest(i, PARTITION, RUN.run_id)]
    assert len(without) > 5
    for image in without:
        run_plan(image, PLANS["cut"])
        assert contents(image) == steps(PLANS["cut"])[-1]
        assert image.attributes(f"{PARTITION}/50.index").link_count == 1


class NoHardLinks(MemoryFilesystem):
    def link(self, old, new):
        raise OSError(errno.EPERM, os.strerror(errno.EPERM), old)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", list(PLANS))
def test_a_disk_without_hard_links(name):
    disk = partition()
    disk.__class__ = NoHardLinks
    before = the_tree(disk)
    manifest = run_plan(disk, PLANS[name])
    assert contents(disk) == steps(PLANS[name])[-1]
    check_undo(disk, PARTITION, manifest, ROOT)
    undo(disk, PARTITION, manifest, ROOT)
    assert the_tree(disk) == before


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", list(PLANS))
def test_discarded_is_not_kept_and_not_undone(name):
    disk = partition()
    manifest = run_plan(disk, PLANS[name], discard=True)
    assert contents(disk) == steps(PLANS[name])[-1]
    assert len(disk.list_directory(f"{OWN}/{RUN.run_id}")) == 1
    with pytest.raises(Refused, match="--discard"):
        check_undo(disk, PARTITION, manifest, ROOT)


def change_time(disk):
    path = f"{PARTITION}/50.snapshot"
    with disk.open_write(path) as file:
        file.write(0, b"P")


def change_line(disk):
    with disk.open_write(RECOVERY_POINT) as file:
        file.write(0, CHECKPOINT.replace(b"600", b"555"))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda d: d.unlink(f"{PARTITION}/50.snapshot"), "50.snapshot is not there"),
        (lambda d: d.create(f"{PARTITION}/51.snapshot"), "51.snapshot is new"),
        (lambda d: d.open_write(f"{PARTITION}/00.log").truncate(119), "00.log has 119 bytes, not 120"),
        (change_time, "50.snapshot was changed since"),
        (change_line, "its line in recovery-point-offset-checkpoint was changed since"),
        (lambda d: d.unlink(f"{OWN}/{RUN.run_id}/0000.cut"), "the file that the run kept is missing"),
        (lambda d: d.open_write(f"{OWN}/{RUN.run_id}/0000.cut").truncate(3), "is too short"),
        (lambda d: d.open_write(f"{OWN}/{RUN.run_id}/0000.cut").write(3, b"x"), "was changed since"),
    ],
)
def test_undo_refuses_what_the_run_did_not_leave(change, match):
    disk = partition()
    manifest = run_plan(disk, PLANS["cut"])
    change(disk)
    before = disk.tree("/")
    with pytest.raises(Refused, match=match) as caught:
        check_undo(disk, PARTITION, manifest, ROOT)
    assert caught.value.exit_code == 14
    assert disk.tree("/") == before


def test_other_partitions_lines_do_not_matter_and_stay():
    disk = partition()
    manifest = run_plan(disk, PLANS["cut"])
    with disk.open_write(RECOVERY_POINT) as file:
        file.write(0, b"0\n2\nother 3 45\nt 0 500\n")
    check_undo(disk, PARTITION, manifest, ROOT)
    undo(disk, PARTITION, manifest, ROOT)
    assert disk.tree(ROOT)[RECOVERY_POINT][0] == b"0\n2\nother 3 45\nt 0 600\n"


def test_runs_are_undone_from_the_last_to_the_first():
    disk = partition()
    before = the_tree(disk)
    first = run_plan(disk, PLANS["cut"])
    second = apply(disk, PARTITION, PLANS["drop"], run=replace(RUN, run_id="second"))
    with pytest.raises(Refused, match=r"50\.log is not there"):
        check_undo(disk, PARTITION, first, ROOT)
    for manifest in (second, first):
        check_undo(disk, PARTITION, manifest, ROOT)
        undo(disk, PARTITION, manifest, ROOT)
    assert the_tree(disk) == before


def test_a_copied_directory_can_be_undone():
    """Another disk, other inodes; sizes and mtimes came along."""
    for name, changes in PLANS.items():
        disk = partition()
        before = the_tree(disk)
        run_plan(disk, changes)
        copy = MemoryFilesystem()
        copy._next_inode = 5000
        for path, inode in disk.walk("/"):
            if not inode.is_directory:
                copy.add(path, inode.content, inode.attributes)
        for path, inode in disk.walk("/"):
            if inode.is_directory:
                copy.set_attributes(path, inode.attributes)
        manifest = read_manifest(copy, PARTITION, RUN.run_id)
        check_undo(copy, PARTITION, manifest, ROOT)
        undo(copy, PARTITION, manifest, ROOT)
        assert the_tree(copy) == before, name


def test_an_interrupt_leaves_what_was():
    class Interrupted(WatchedFilesystem):
        n = 0

        def after(self, call: Call):
            self.n += call.name in ("rename", "unlink", "truncate", "write")
            if self.n == self.at and not self.fired:  # type: ignore[attr-defined]
                self.fired = True
                raise KeyboardInterrupt

    for at in range(1, 40):
        disk = partition()
        fs = Interrupted(disk)
        fs.at, fs.fired = at, False  # type: ignore[attr-defined]
        try:
            run_plan(fs, PLANS["recovery"])
        except KeyboardInterrupt:
            if read_manifest(disk, PARTITION, RUN.run_id) is None:
                assert the_tree(disk) == the_tree(partition()), at
            else:  # it came when all was done
                assert contents(disk) == steps(PLANS["recovery"])[-1]
        if not fs.fired:
            assert at > 20
            break
    else:
        pytest.fail("no run without an interrupt")


def test_new_files_are_like_those_beside_them():
    disk = partition()
    run_plan(disk, PLANS["recovery"])
    log, new = disk.attributes(f"{PARTITION}/00.log"), disk.attributes(f"{PARTITION}/12.snapshot")
    assert (new.mode, new.owner_id, new.group_id, new.xattrs) == (log.mode, log.owner_id, log.group_id, log.xattrs)
    old, replaced = partition().attributes(f"{PARTITION}/00.index"), disk.attributes(f"{PARTITION}/00.index")
    assert (old.mode, old.owner_id, old.xattrs) == (replaced.mode, replaced.owner_id, replaced.xattrs)
    own = disk.attributes(OWN)
    assert (own.mode, own.owner_id) == (disk.attributes(PARTITION).mode, disk.attributes(PARTITION).owner_id)
    empty = MemoryFilesystem()
    empty.add("/logs/t-0/x", b"")
    empty.unlink("/logs/t-0/x")
    apply(empty, "/logs/t-0", (Put("00.log", Bytes(b"1"), False),), run=RUN)
    assert empty.attributes("/logs/t-0/00.log").mode == 0o644


def test_zeros_are_kept_as_holes():
    disk = partition()
    recorder = RecordingFilesystem(disk)
    run_plan(recorder, PLANS["cut to nothing"])
    written = sum(len(call.detail[1]) for call in recorder.calls if call.name == "write" and call.path.endswith(".cut"))
    assert written <= 9019 - 4096
    assert len(disk.tree(OWN)[f"{OWN}/{RUN.run_id}/0000.cut"][0]) == 9019


def test_the_manifest_has_the_files_before_and_after_the_run():
    disk = partition()
    manifest = run_plan(disk, PLANS["cut"], facts={"reason": "a test"})
    found = read_manifest(disk, PARTITION, RUN.run_id)
    assert found == manifest
    assert found.run == RUN
    assert found.facts == {"reason": "a test"}
    assert found.before.files.keys() == found.after.files.keys() == steps(())[0].keys()
    assert (found.before.files["00.log"].size_bytes, found.after.files["00.log"].size_bytes) == (500, 120)
    assert found.before.checkpoint_lines[0].lines[0].text == "t 0 600"
    assert found.after.checkpoint_lines[0].lines[0].text == "t 0 500"
    assert found.finished_ms == RUN.now_ms
    assert found.after == snapshot(disk, PARTITION, ROOT, found.edits)


def test_a_manifest_that_cannot_be_read_is_refused():
    from tests.support.product import UnsupportedFormat

    disk = partition()
    run_plan(disk, PLANS["cut"])
    path = f"{OWN}/{RUN.run_id}/manifest.json"
    text = disk.tree(OWN)[path][0]
    for at in range(0, len(text) - 1, 97):
        disk.add(path, text[:at])
        with pytest.raises(Refused, match="cannot be read"):
            read_manifest(disk, PARTITION, RUN.run_id)
    for bad in (b"[]", b"{}", b"null", b'{"format":1}', text.replace(b'"done"', b'"finished"'), b"\xff" * 9):  # type: ignore[attr-defined]
        disk.add(path, bad)
        with pytest.raises(Refused, match="cannot be read"):
            read_manifest(disk, PARTITION, RUN.run_id)
    disk.add(path, text.replace(b'"format": 1', b'"format": 2'))  # type: ignore[attr-defined]
    with pytest.raises(UnsupportedFormat, match="format 2"):
        read_manifest(disk, PARTITION, RUN.run_id)


def test_errors_have_their_exit_codes():
    assert [kind(path="p", reason="r", run="x").exit_code for kind in (NoSpace, Locked, Refused)] == [13, 11, 14]
    assert [kind(path="p", reason="r", run="x").exit_code for kind in (NotChanged, HalfChanged, Unreadable)] == [
        1,
        1,
        1,
    ]


def as_started(disk):
    """The manifest as it was before the run had told of its end."""
    manifest = read_manifest(disk, PARTITION, RUN.run_id)
    return replace(manifest, state=RunState.STARTED, after=None)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda d: d.unlink(f"{PARTITION}/50.snapshot"), "50.snapshot is not there"),
        (lambda d: d.open_write(f"{PARTITION}/00.log").truncate(119), "00.log has 119 bytes, not 120 to 500"),
        (lambda d: d.open_write(f"{PARTITION}/00.log").truncate(501), "00.log has 501 bytes, not 120 to 500"),
    ],
)
def test_a_run_cut_off_half_way_is_not_undone_if_others_changed_what_it_left(change, match):
    disk = partition()
    run_plan(disk, PLANS["cut"])
    change(disk)
    with pytest.raises(Refused, match=match):
        check_undo(disk, PARTITION, as_started(disk), ROOT)


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("cut", "did not keep the bytes that it cut"),
        ("drop", "the run did not keep it"),
        ("replaced", "the run did not keep the replaced file"),
    ],
)
def test_a_run_that_kept_nothing_is_undone_only_where_nothing_was_done(name, match):
    disk = partition()
    run_plan(disk, PLANS[name], discard=True)
    manifest = as_started(disk)
    check_undo(disk, PARTITION, manifest, ROOT)
    with pytest.raises(Refused, match=match):
        undo(disk, PARTITION, manifest, ROOT)
    untouched = partition()
    untouched.make_directory(OWN)
    untouched.make_directory(f"{OWN}/{RUN.run_id}")
    untouched.add(f"{OWN}/{RUN.run_id}/manifest.json", b"")
    assert undo(untouched, PARTITION, manifest, ROOT).state is RunState.UNDONE
    assert contents(untouched) == steps(())[0]


def test_undo_refuses_where_the_log_directory_of_its_checkpoints_is_gone():
    disk = partition()
    manifest = run_plan(disk, PLANS["cut"])
    with pytest.raises(Refused, match="it is not in a log directory"):
        check_undo(disk, PARTITION, manifest, None)


def test_undo_reports_a_change_by_another_process_while_it_works():
    class Meddled(WatchedFilesystem):
        def after(self, call):
            if call.name == "rename" and call.to.endswith("50.log"):
                self.below.unlink(f"{PARTITION}/50.snapshot")

    disk = partition()
    manifest = run_plan(disk, PLANS["drop"])
    with pytest.raises(HalfChanged, match=r"a part differs from the earlier state: 50\.snapshot is not there"):
        undo(Meddled(disk), PARTITION, manifest, ROOT)


def test_a_run_reports_a_change_by_another_process_while_it_writes():
    class Meddled(WatchedFilesystem):
        def status(self, path):
            return None if path.endswith(".new") else super().status(path)

    disk = partition()
    with pytest.raises(NotChanged, match="nothing was changed: No such file"):
        run_plan(Meddled(disk), PLANS["new"])
    assert the_tree(disk).keys() == the_tree(partition()).keys()


def test_a_run_reports_a_file_that_gets_shorter_while_its_bytes_are_kept():
    class Meddled(WatchedFilesystem):
        def before(self, call):
            if call.name == "open_read" and call.path.endswith("00.log"):
                self.below.open_write(call.path).truncate(200)

    with pytest.raises(NotChanged, match="ends before byte 500"):
        run_plan(Meddled(partition()), PLANS["cut"])


def test_a_symbolic_link_is_not_cut(tmp_path):
    (tmp_path / "t-0").mkdir()
    (tmp_path / "elsewhere").write_bytes(b"12345")
    (tmp_path / "t-0" / "00.log").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Refused, match="symbolic link"):
        apply(RealFilesystem(), str(tmp_path / "t-0"), (Cut("00.log", 5, 1),), run=RUN)
    apply(RealFilesystem(), str(tmp_path / "t-0"), (Put("new", Bytes(b"x"), False),), run=replace(RUN, run_id="2"))
    assert (tmp_path / "elsewhere").read_bytes() == b"12345"


def test_no_descriptor_stays_open(tmp_path):
    """An error keeps the frames that it passed, and what they have open."""

    def descriptors():
        return len(list(Path("/proc/self/fd").iterdir()))

    if not Path("/proc/self/fd").exists():
        pytest.skip("no /proc")
    directory = tmp_path / "t-0"
    directory.mkdir()
    (directory / "00.log").write_bytes(os.urandom(3 << 20))
    before, errors = descriptors(), []
    for n in range(60):
        try:
            fs = FailingFilesystem(RealFilesystem(), "ENOSPC", n)
            apply(fs, str(directory), (Cut("00.log", 3 << 20, 5), Drop("00.log")), run=replace(RUN, run_id=str(n)))
        except KafkalogError as error:
            errors.append(error)
        assert descriptors() == before, n
        if not fs.fired:
            break
    assert len(errors) > 10
