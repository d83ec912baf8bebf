"""Root checkpoints: only the wanted lines change, they come back as they were, and no crash leaves half a file."""

import errno
import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_cli.change import checkpoint_lines
from kafkalog_cli.change.checkpoint_lines import OldLines, change_lines, read_old_lines, restore_lines
from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.disk.lock import LockPolicy
from kafkalog_cli.disk.names import FileKind
from kafkalog_cli.errors import KafkalogError, Locked, Refused
from kafkalog_cli.format.checkpoint import encode_offsets
from kafkalog_cli.format.strict_json import form_of, plain
from kafkalog_cli.log.log_dir import LineEdit, read_log_dir
from tests.support.memory_fs import MemoryFilesystem
from tests.support.watched_fs import CHANGES, RecordingFilesystem, every_fault

RECOVERY, REPLICATION, LOG_START = (
    FileKind.RECOVERY_POINT_CHECKPOINT,
    FileKind.REPLICATION_CHECKPOINT,
    FileKind.LOG_START_CHECKPOINT,
)
KINDS = (RECOVERY, REPLICATION, LOG_START, FileKind.CLEANER_CHECKPOINT)

topics = st.sampled_from(["a", "b", "orders", "größe"])
places = st.tuples(topics, st.integers(0, 2))
offsets = st.integers(0, 2**63 - 1)
files = st.none() | st.just({}) | st.dictionaries(places, offsets, max_size=6)
edits = st.lists(
    st.builds(LineEdit, st.sampled_from(KINDS), topics, st.integers(0, 2), st.none() | offsets),
    min_size=1,
    max_size=5,
    unique_by=lambda edit: edit[:3],
)


def text_of(lines):
    return encode_offsets([(topic, partition, offset) for (topic, partition), offset in lines.items()])


def disk(contents):
    """A log directory whose checkpoints have these lines; None: no file, {}: 0 bytes, as a broker begins."""
    fs = MemoryFilesystem()
    fs.add("/d/meta.properties", b"#\n")
    for kind, lines in contents.items():
        if lines is not None:
            fs.add(f"/d/{kind.value}", text_of(lines) if lines else b"")
    fs.add("/d/.lock", b"")
    return fs


def read(fs, name):
    with fs.open_read("/d/" + name) as file:
        data = bytearray(file.size_bytes)
        file.read_into(0, memoryview(data))
    return bytes(data)


@given(contents=st.fixed_dictionaries(dict.fromkeys(KINDS, files)), wanted=edits)
def test_lines_change_and_come_back(contents, wanted):
    fs = disk(contents)
    before = fs.tree()
    old = read_old_lines(fs, "/d", wanted)
    assert fs.tree() == before
    change_lines(fs, "/d", wanted)
    expected = {kind: dict(lines or {}) for kind, lines in contents.items()}
    for kind, topic, partition, offset in wanted:
        if offset is None:
            expected[kind].pop((topic, partition), None)
        else:
            expected[kind][topic, partition] = offset  # in place, or at the end: as a dict has it
    for kind in KINDS:
        if contents[kind] != expected[kind] and not (contents[kind] is None and not expected[kind]):
            assert read(fs, kind.value) == text_of(expected[kind])
    changed = fs.tree()
    change_lines(fs, "/d", wanted)
    assert fs.tree() == changed  # a second time changes nothing, not even a time
    kept = tuple(form_of(OldLines)(json.loads(json.dumps(plain(lines)))) for lines in old)
    assert kept == old
    restore_lines(fs, "/d", kept)
    same = {path: entry for path, entry in fs.tree().items() if path not in ("/d", "/d/.lock")}
    assert same == {path: entry for path, entry in before.items() if path not in ("/d", "/d/.lock")}
    restored = fs.tree()
    restore_lines(fs, "/d", kept)
    assert fs.tree() == restored


@given(first=edits, second=edits, contents=st.fixed_dictionaries(dict.fromkeys(KINDS, files)))
def test_only_the_lines_of_the_run_come_back(first, second, contents):
    """Another run has changed other lines meanwhile: those stay."""
    taken = {edit[:3] for edit in first}
    second = [edit for edit in second if edit[:3] not in taken]
    fs, alone = disk(contents), disk(contents)
    old = read_old_lines(fs, "/d", first)
    change_lines(fs, "/d", first)
    change_lines(fs, "/d", second)
    restore_lines(fs, "/d", old)
    change_lines(alone, "/d", second)
    ours, theirs = read_log_dir(fs, "/d"), read_log_dir(alone, "/d")
    assert not ours.faults
    for kind in KINDS:
        assert ours.offsets.get(kind, {}) == theirs.offsets.get(kind, {})


def test_a_file_that_others_changed_too_keeps_its_new_time():
    fs = disk({RECOVERY: {("a", 0): 1}})
    old = read_old_lines(fs, "/d", [LineEdit(RECOVERY, "a", 0, 2)])
    change_lines(fs, "/d", [LineEdit(RECOVERY, "a", 0, 2), LineEdit(RECOVERY, "b", 0, 2)])
    restore_lines(fs, "/d", old)
    assert read(fs, RECOVERY.value) == b"0\n2\na 0 1\nb 0 2\n"
    assert fs.attributes(f"/d/{RECOVERY.value}").mtime_ns > old[0].mtime_ns


def test_other_lines_keep_their_bytes():
    fs = MemoryFilesystem()
    odd = b"0\n3\nb  1\t07\na 0 5\nc 0 1\n"  # a broker reads it; what is not ours stays as odd as it is
    fs.add(f"/d/{RECOVERY.value}", odd)
    wanted = [LineEdit(RECOVERY, "a", 0, 6), LineEdit(RECOVERY, "b", 1, 7)]
    old = read_old_lines(fs, "/d", wanted)
    change_lines(fs, "/d", wanted)
    assert read(fs, RECOVERY.value) == odd.replace(b"a 0 5", b"a 0 6")
    restore_lines(fs, "/d", old)
    assert read(fs, RECOVERY.value) == odd


def test_of_two_lines_a_broker_goes_by_the_last():
    fs = MemoryFilesystem()
    fs.add(f"/d/{RECOVERY.value}", b"0\n3\na 0 1\nb 0 2\na 0 3\n")
    old = read_old_lines(fs, "/d", [LineEdit(RECOVERY, "a", 0, 9)])
    change_lines(fs, "/d", [LineEdit(RECOVERY, "a", 0, 9)])
    assert read(fs, RECOVERY.value) == b"0\n3\na 0 1\nb 0 2\na 0 9\n"
    restore_lines(fs, "/d", old)
    assert read(fs, RECOVERY.value) == b"0\n3\na 0 1\nb 0 2\na 0 3\n"
    change_lines(fs, "/d", [LineEdit(RECOVERY, "a", 0, None)])
    assert read(fs, RECOVERY.value) == b"0\n1\nb 0 2\n"


@pytest.mark.parametrize(
    "data", [b"0\n2\na 0 1\n", b"1\n1\na 0 1\n", b"0\n1\na 0 x\n", b"x", b"\0\0\0", b"0\n1\na 0 1\nb 0 2\n", b"0\n1\n\xff 0 1\n"]
)  # fmt: skip
def test_a_file_that_no_broker_reads_is_not_touched(data):
    fs = MemoryFilesystem()
    fs.add(f"/d/{RECOVERY.value}", data)
    fs.add("/d/.lock", b"")
    before = fs.tree()
    edit = [LineEdit(RECOVERY, "a", 0, 5)]
    with pytest.raises(Refused, match="no broker can read it"):
        read_old_lines(fs, "/d", edit)
    with pytest.raises(Refused, match="no broker can read it"):
        change_lines(fs, "/d", edit)
    assert fs.tree() == before
    assert read_log_dir(fs, "/d").faults


def test_a_linked_file_is_refused(tmp_path):
    (tmp_path / "elsewhere").write_bytes(b"0\n0\n")
    (tmp_path / RECOVERY.value).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Refused, match="symbolic link"):
        change_lines(RealFilesystem(), str(tmp_path), [LineEdit(RECOVERY, "a", 0, 5)])
    assert (tmp_path / "elsewhere").read_bytes() == b"0\n0\n"


def test_new_bytes_have_the_attributes_of_the_old(tmp_path):
    path = tmp_path / RECOVERY.value
    path.write_bytes(b"0\n0\n")
    path.chmod(0o640)
    of_a_broker = tmp_path / (RECOVERY.value + ".tmp")
    of_a_broker.write_bytes(b"of a broker that was killed")
    change_lines(RealFilesystem(), str(tmp_path), [LineEdit(RECOVERY, "a", 0, 5), LineEdit(LOG_START, "a", 0, 1)])
    assert path.read_bytes() == b"0\n1\na 0 5\n"
    assert path.stat().st_mode & 0o777 == 0o640
    assert (tmp_path / LOG_START.value).stat().st_mode & 0o777 == 0o640  # as its sibling
    assert of_a_broker.read_bytes() == b"of a broker that was killed"
    of_a_broker.unlink()
    assert sorted(p.name for p in tmp_path.iterdir()) == [".lock", LOG_START.value, RECOVERY.value]


def test_every_change_of_checkpoint_lines_happens_under_the_lock_on_byte_1():
    below = disk({RECOVERY: {("a", 0): 1}})
    held = []
    fs = RecordingFilesystem(below, lambda call: held.append([lock.first_byte for lock in below._locks.get(inode, [])]))
    inode = below.status("/d/.lock").inode
    change_lines(fs, "/d", [LineEdit(RECOVERY, "a", 0, 2)])
    assert held
    assert all(bytes_held == [1] for bytes_held in held)
    assert below._locks.get(inode, []) == []


def test_lines_are_not_changed_while_another_holds_the_lock(monkeypatch):
    monkeypatch.setattr(checkpoint_lines, "_PATIENCE", LockPolicy(0, assume_offline=True))
    fs = disk({RECOVERY: {("a", 0): 1}})
    with fs.lock("/d/.lock", first_byte=0, exclusive=False):
        change_lines(fs, "/d", [LineEdit(RECOVERY, "a", 0, 2)])
    before = fs.tree()
    with fs.lock("/d/.lock", first_byte=1, exclusive=True), pytest.raises(Locked):
        change_lines(fs, "/d", [LineEdit(RECOVERY, "a", 0, 3)])
    assert fs.tree() == before


BEFORE = {RECOVERY: {("a", 0): 1, ("b", 0): 7}, REPLICATION: {("a", 0): 4}, LOG_START: {}}
WANTED = [
    LineEdit(RECOVERY, "a", 0, 2),
    LineEdit(REPLICATION, "a", 0, None),
    LineEdit(LOG_START, "a", 0, 2),
    LineEdit(FileKind.CLEANER_CHECKPOINT, "a", 0, 5),  # there is no such file yet
]
OLD, NEW = (1, 4, None, None), (2, None, 2, 5)


def check_old_or_new(fs):
    found = read_log_dir(fs, "/d")
    assert found.faults == ()
    assert found.line(RECOVERY, "b", 0) == 7
    for kind, old, new in zip(KINDS, OLD, NEW, strict=True):
        assert found.line(kind, "a", 0) in (old, new)
    return tuple(found.line(kind, "a", 0) for kind in KINDS)


@pytest.mark.parametrize("back", [False, True])
def test_after_any_crash_each_file_is_the_old_or_the_new(back):
    """At every change and every image of a power cut; a second run then ends where the first would have."""
    below = disk(BEFORE)
    old = read_old_lines(below, "/d", WANTED)
    if back:
        change_lines(below, "/d", WANTED)
        below.settle()
    seen, images = set(), 0

    def watch(_):
        nonlocal images
        for _, image in below.images():
            seen.add(check_old_or_new(image))
            (restore_lines(image, "/d", old) if back else change_lines(image, "/d", WANTED))
            assert check_old_or_new(image) == (OLD if back else NEW)
            images += 1

    fs = RecordingFilesystem(below, watch)
    (restore_lines(fs, "/d", old) if back else change_lines(fs, "/d", WANTED))
    assert {OLD, NEW} <= seen
    assert images > 100
    for _, image in below.images():  # all is durable in the end
        assert check_old_or_new(image) == (OLD if back else NEW)


def test_a_checkpoint_file_is_as_before_or_rewritten_after_each_fault_of_the_disk(monkeypatch):
    monkeypatch.setattr(checkpoint_lines, "_PATIENCE", LockPolicy(0, assume_offline=True))
    raised = 0
    made = []

    def below():
        made.append(disk(BEFORE))
        return made[-1]

    for fs in every_fault(below):
        try:
            change_lines(fs, "/d", WANTED)
            assert check_old_or_new(made[-1]) == NEW
        except (OSError, KafkalogError):
            raised += 1
            check_old_or_new(made[-1])
            after = [call for call in fs.calls_after if call.name in CHANGES]
            if any(call.name == "sync" for call in fs.failed):
                assert [call.name for call in after if call.name != "unlink"] == []
    assert raised > 50


def test_a_checkpoint_that_was_mended_meanwhile_stays():
    fs = disk({REPLICATION: {("a", 0): 5}, RECOVERY: {("a", 0): 5}})
    fs.add(f"/d/{REPLICATION.value}", b"0\n1\na 0\n")
    known = read_log_dir(fs, "/d")
    fs.add(f"/d/{REPLICATION.value}", text_of({("a", 0): 7, ("b", 0): 0}))
    assert checkpoint_lines.rebuild_damaged(fs, known, "run") == []
    assert read(fs, REPLICATION.value) == text_of({("a", 0): 7, ("b", 0): 0})


def test_lines_from_offset_0_on_are_kept():
    fs = disk({RECOVERY: {("a", 0): 5}})
    fs.add(f"/d/{REPLICATION.value}", b"0\n4\na 0 3\na 1 0\na 2 -1\na 0 7\n")
    rebuilt = checkpoint_lines.rebuild_damaged(fs, read_log_dir(fs, "/d"), "run")
    assert [one.lines for one in rebuilt] == [2]
    assert read(fs, REPLICATION.value) == text_of({("a", 0): 7, ("a", 1): 0})


class NoHardLinks(MemoryFilesystem):
    def link(self, old, new):
        raise OSError(errno.EPERM, os.strerror(errno.EPERM), old)


def test_a_damaged_checkpoint_is_kept_as_a_copy_where_there_are_no_hard_links():
    fs = disk({RECOVERY: {("a", 0): 5}})
    damaged = b"0\n1\na 0\n"
    fs.add(f"/d/{REPLICATION.value}", damaged)
    fs.__class__ = NoHardLinks
    (rebuilt,) = checkpoint_lines.rebuild_damaged(fs, read_log_dir(fs, "/d"), "run")
    assert rebuilt.kept_as == f"/d/{REPLICATION.value}.damaged-run"
    assert read(fs, f"{REPLICATION.value}.damaged-run") == damaged
    assert read(fs, REPLICATION.value) == text_of({})
