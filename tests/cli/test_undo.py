"""`kafkalog undo` on copies of real brokers' logs: the tree as it was, what is refused, and what is told."""

import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from kafkalog_cli.change.checkpoint_lines import LineEdit
from kafkalog_cli.change.clean_marker import hold_marker, release_marker
from kafkalog_cli.change.journal import CheckpointEdits, apply
from kafkalog_cli.change.manifest import RunInfo
from kafkalog_cli.disk.names import FileKind
from tests.crash.journal_cases import Bytes
from tests.support import commands
from tests.support.locks import held_by_another_process
from tests.support.logs import R, batch_v2
from tests.support.memory_fs import MemoryFilesystem
from tests.support.product import Cut, Drop, Move, Put, RealFilesystem
from tests.support.watched_fs import FailingFilesystem, RecordingFilesystem

CASES = ["txn", "crash-torn", "clean-asis", "crash-zero-tail", "upgraded", "v1", "retention"]
NOW_MS = 4_000_000_000_000


def kafkalog(*argv, fs=None):
    return commands.kafkalog(*argv, fs=fs, now_ms=lambda: NOW_MS)


def tree(root, *, with_own=False):
    """Everything under a directory: content, mode, owner, mtime; not `.kafkalog`, `.lock`, or the root's mtime."""
    found = {}
    for path in sorted(Path(root).rglob("*")):
        name = str(path.relative_to(root))
        if with_own or (".kafkalog" not in path.parts and path.name != ".lock"):
            status = path.lstat()
            content = path.read_bytes() if path.is_file() else None
            found[name] = (content, status.st_mode, status.st_uid, status.st_gid, status.st_mtime_ns)
    return found


def names_in(directory):
    return [path.name for path in directory.iterdir()]


def partitions(log_dir):
    return sorted(
        p for p in log_dir.iterdir() if p.is_dir() and list(p.glob("*.log")) and not p.name.startswith("__cl")
    )


@pytest.fixture(params=CASES)
def log_dir(request, corpus, tmp_path):
    source = corpus / request.param
    candidates = [p for p in (source, *sorted(source.rglob("*"))) if p.is_dir() and partitions(p)]
    copy = shutil.copytree(candidates[0], tmp_path / "logs", copy_function=shutil.copy2)
    (copy / "meta.properties").touch()
    return copy


@pytest.fixture
def one(corpus, tmp_path):
    """A partition of the case `txn`, in a log directory with all kinds of files at its root."""
    copy = tmp_path / "logs"
    copy.mkdir()
    source = partitions(next(p for p in (corpus / "txn", *(corpus / "txn").iterdir()) if p.is_dir() and partitions(p)))[
        0
    ]
    shutil.copytree(source, copy / "t-0", copy_function=shutil.copy2)
    (copy / "meta.properties").touch()
    (copy / "recovery-point-offset-checkpoint").write_bytes(b"0\n2\nother 1 5\nt 0 9\n")
    return copy / "t-0"


def changes_of(partition):
    """Some of everything, by the files that are there."""
    logs = sorted(p for p in partition.glob("*.log"))
    size = logs[-1].stat().st_size
    found = [Cut(logs[-1].name, size, size // 2), Put("new.snapshot", Bytes(b"new" * 99), False)]
    found += [Put(p.name, Bytes(b"\0" * 9000), True) for p in sorted(partition.glob("*.index"))[:1]]
    found += [Drop(p.name) for p in sorted(partition.glob("*.timeindex"))[:1]]
    found += [Move(p.name, p.name + ".deleted") for p in logs[:-1][:1]]
    return found


def change(partition, run_id="run-1", **options):
    """Change a partition as a writer does that takes the marker away."""
    fs, log_dir = RealFilesystem(), str(partition.parent)
    info = RunInfo(run_id, "test", ("kafkalog",), NOW_MS - 5000, holds_marker=True)
    is_held = hold_marker(fs, log_dir, run_id, [partition.name])
    topic, _, number = partition.name.rpartition("-")
    edit = LineEdit(FileKind.RECOVERY_POINT_CHECKPOINT, topic, int(number), 1)
    manifest = apply(
        fs, str(partition), changes_of(partition), run=info, checkpoints=CheckpointEdits(log_dir, (edit,)), **options
    )
    if is_held:
        release_marker(fs, log_dir, run_id, [partition.name])
    return manifest


def test_the_tree_is_what_it_was(log_dir):
    before = tree(log_dir)
    for partition in partitions(log_dir):
        change(partition)
    assert tree(log_dir) != before
    code, out, err = kafkalog("undo", log_dir, "run-1")
    assert (code, err) == (0, "")
    assert tree(log_dir) == before
    assert out.count("is undone") == len(partitions(log_dir))
    assert out.count("  an undo cannot be undone; test makes such changes again\n") == len(partitions(log_dir))
    assert all(name == "manifest.json" for p in partitions(log_dir) for name in names_in(p / ".kafkalog/run-1"))


def test_a_second_undo_is_a_no_op(one):
    change(one)
    assert kafkalog("undo", one, "run-1")[0] == 0
    before = tree(one.parent, with_own=True)
    code, out, _ = kafkalog("undo", one, "run-1")
    assert (code, out) == (0, f"{one}: run run-1: was undone before\n")
    assert kafkalog("undo", one, "run-1", "--quiet") == (0, "", "")
    assert tree(one.parent, with_own=True) == before


def test_a_dry_run_tells_the_steps_and_touches_nothing(one):
    change(one)
    before = tree(one.parent, with_own=True)
    recorder = RecordingFilesystem(RealFilesystem())
    code, out, err = kafkalog("undo", one, "run-1", "--dry-run", fs=recorder)
    assert (code, err) == (0, "")
    assert recorder.changes == []
    assert [call for call in recorder.calls if call.name == "lock"] == []
    assert tree(one.parent, with_own=True) == before
    lines = out.splitlines()
    assert lines[0] == f"{one}: run run-1 (test) would be undone"
    assert "  new.snapshot: removed, it was new" in lines
    assert any(line.endswith(" bytes back") for line in lines)
    assert "  recovery-point-offset-checkpoint: line t 0 9" in lines


def fits_its_schema(thing):
    """No field is missing, none is undocumented."""
    name = thing["schema"].replace("/", "-")
    schema = json.loads((Path(__file__).parents[2] / "docs" / "schemas" / f"{name}.json").read_text())

    def close(part):
        if isinstance(part, dict):
            if "properties" in part:
                part["additionalProperties"] = False
            for item in part.values():
                close(item)

    close(schema)
    Draft202012Validator(schema).validate(thing)
    return True


def test_machine_output(one):
    change(one)
    code, out, err = kafkalog("undo", one, "run-1", "--format", "json")
    first, summary = map(json.loads, out.splitlines())
    assert (code, err, summary["exit_code"], summary["undone"]) == (0, "", 0, 1)
    assert (first["schema"], first["run"], first["undone"], first["state"]) == (
        "kafkalog.undo/1",
        "run-1",
        True,
        "done",
    )
    assert {step["what"] for step in first["steps"]} >= {"restore", "remove", "checkpoint"}
    assert fits_its_schema(first)
    _, out, _ = kafkalog("undo", one, "run-1", "--format", "json", "--dry-run")
    assert fits_its_schema(json.loads(out.splitlines()[0]))


def test_the_installed_command_does_the_same(one):
    before = tree(one.parent)
    change(one)
    command = [sys.executable, "-m", "kafkalog_cli", "undo", "t-0", "run-1", "--now", "2100-01-01"]
    done = subprocess.run(command, cwd=one.parent, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert tree(one.parent) == before


@contextmanager
def as_it_is(root):
    before = tree(root, with_own=True)
    yield
    assert tree(root, with_own=True) == before


def test_what_is_not_there(one):
    change(one)
    with as_it_is(one.parent):
        for argv in ((one, "run-2"), (one.parent, "run-2"), (one.parent / "nothing", "run-1")):
            code, out, err = kafkalog("undo", *argv)
            assert (code, out) == (10, ""), err
        assert kafkalog("undo", one, "..")[0] == 2
        assert kafkalog("undo", one, "../t-0")[0] == 2
        assert kafkalog("undo", one)[0] == 2


@pytest.mark.parametrize("what", ["grown", "removed", "new", "touched", "line", "kept"])
def test_what_the_run_did_not_leave_is_refused(one, what):
    change(one)
    log = sorted(one.glob("*.log"))[-1]
    if what == "grown":
        with log.open("ab") as file:
            file.write(b"a broker wrote this")
    elif what == "removed":
        (one / "new.snapshot").unlink()
    elif what == "new":
        (one / "00000000000000099999.snapshot").touch()
    elif what == "touched":
        os.utime(log)
    elif what == "line":
        (one.parent / "recovery-point-offset-checkpoint").write_bytes(b"0\n2\nother 1 5\nt 0 7\n")
    else:
        next((one / ".kafkalog/run-1").glob("*.cut")).write_bytes(b"")
    with as_it_is(one.parent):
        for options in ((), ("--dry-run",)):
            code, out, err = kafkalog("undo", one, "run-1", *options)
            assert (code, out) == (14, "")
            assert "refused: " in err


def test_what_was_not_kept_is_refused(one):
    change(one, discard=True)
    code, _, err = kafkalog("undo", one, "run-1")
    assert code == 14
    assert "--discard" in err


def test_a_broker_that_runs_keeps_it_out(one):
    change(one)
    recorder = RecordingFilesystem(RealFilesystem())
    with held_by_another_process(one.parent / ".lock") as pid, as_it_is(one.parent):
        code, out, err = kafkalog("undo", one, "run-1", fs=recorder)
    assert (code, out) == (11, "")
    assert f"pid {pid}" in err
    assert recorder.changes == []


def test_another_run_on_the_partition_keeps_it_out(one):
    change(one)
    with held_by_another_process(one / ".kafkalog/lock"), as_it_is(one.parent):
        code, _, err = kafkalog("undo", one, "run-1", "--wait", "0.2")
        assert code == 11
        assert "another run of kafkalog" in err


@pytest.mark.parametrize(("fault", "code"), [("ENOSPC", 13), ("EACCES", 1), ("EIO", 1)])
def test_a_disk_that_fails_is_told_and_the_next_undo_completes(one, fault, code):
    before = tree(one.parent)
    change(one)
    failures = 0
    for n in range(3, 200, 2):
        fs = FailingFilesystem(RealFilesystem(), fault, n)
        found, _, err = kafkalog("undo", one, "run-1", fs=fs)
        if not fs.fired:
            break
        failures += found != 0
        assert found in (0, code), (n, err, fs.failed)
        assert "internal error" not in err
    assert failures > 3
    assert kafkalog("undo", one, "run-1")[0] == 0
    assert tree(one.parent) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_may_not_be_written(one):
    change(one)
    one.chmod(0o555)
    with as_it_is(one.parent):
        code, _, err = kafkalog("undo", one, "run-1")
        assert code == 1
        assert "Permission denied" in err
    one.chmod(0o755)


def test_the_marker_comes_back_with_the_last_partition(one):
    fs, log_dir = RealFilesystem(), one.parent
    marker = log_dir / ".kafka_cleanshutdown"
    marker.write_bytes(b'{"version":0,"brokerEpoch":7}')
    before = tree(log_dir)
    hold_marker(fs, str(log_dir), "run-1", ["t-0"])
    info = RunInfo("run-1", "truncate", (), NOW_MS, holds_marker=True)
    apply(fs, str(one), changes_of(one), run=info)
    assert not marker.exists(), "records were lost: it is not given back"
    code, out, _ = kafkalog("undo", one, "run-1")
    assert code == 0
    assert ".kafka_cleanshutdown: is there again" in out
    assert tree(log_dir) == before


def test_hostile_names_do_not_reach_the_terminal(tmp_path):
    partition = tmp_path / "t-0"
    partition.mkdir()
    (partition / "00000000000000000000.log").write_bytes(b"")
    name = "\x1b[2J\udcff.log"
    (partition / name).write_bytes(b"x")
    apply(RealFilesystem(), str(partition), (Drop(name),), run=RunInfo("\x1b]0;x", "test", (), 0))
    code, out, err = kafkalog("undo", partition, "\x1b]0;x")
    assert code == 0
    assert "\x1b" not in out + err
    assert (partition / name).read_bytes() == b"x"


def test_in_memory_too():
    disk = MemoryFilesystem()
    disk.add("/logs/t-0/00000000000000000000.log", b"x" * 100)
    before = disk.tree("/logs", without=("/logs/t-0/.kafkalog",))
    apply(disk, "/logs/t-0", (Cut("00000000000000000000.log", 100, 50),), run=RunInfo("r", "test", (), 0))
    assert kafkalog("undo", "/logs/t-0", "r", fs=disk)[0] == 0
    assert disk.tree("/logs", without=("/logs/t-0/.kafkalog",)) == before


def test_a_run_that_never_began_is_removed(one):
    before = tree(one.parent)
    staged = one / ".kafkalog" / "20261122T000000.000Z-recover-ab12"
    staged.mkdir(parents=True)
    os.link(next(one.glob("*.log")), staged / "0000.old")
    os.utime(one, ns=(0, before["t-0"][4]))
    code, out, err = kafkalog("undo", one, "20261122T000000.000Z-recover-ab12", "--dry-run")
    assert (code, out, err) == (0, f"{one}: run 20261122T000000.000Z-recover-ab12: had changed nothing\n", "")
    assert staged.exists()
    code, out, err = kafkalog("undo", one, "20261122T000000.000Z-recover-ab12")
    assert (code, out, err) == (
        0,
        f"{one}: run 20261122T000000.000Z-recover-ab12: had changed nothing, its leftovers are removed\n",
        "",
    )
    assert not staged.exists()
    assert tree(one.parent) == before


def test_an_undo_that_was_cut_off_before_the_marker_came_back_is_completed(one):
    fs, log_dir = RealFilesystem(), one.parent
    (log_dir / ".kafka_cleanshutdown").write_bytes(b"{}")
    before = tree(log_dir)
    change(one)
    assert kafkalog("undo", one, "run-1")[0] == 0
    hold_marker(fs, str(log_dir), "run-1", ["t-0"])
    assert not (log_dir / ".kafka_cleanshutdown").exists()
    code, out, _ = kafkalog("undo", one, "run-1")
    assert (code, out) == (0, f"{one}: run run-1: was undone before\n")
    assert tree(log_dir) == before


@pytest.mark.parametrize("before", [b"", None, b"0\n0\n"], ids=["empty", "missing", "no-lines"])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_a_checkpoint_without_lines_comes_back_in_every_order_of_undo(tmp_path, before, order):
    """recover prints an undo for each partition; a user may run these commands in any order."""
    checkpoint = tmp_path / "recovery-point-offset-checkpoint"
    (tmp_path / "meta.properties").write_text("version=0\nbroker.id=1\n")
    if before is not None:
        checkpoint.write_bytes(before)
        os.utime(checkpoint, (5, 5))
    for number in range(3):
        (tmp_path / f"t-{number}").mkdir()
        (tmp_path / f"t-{number}" / f"{0:020d}.log").write_bytes(batch_v2([R(0, 1_700_000_000_000)]) + b"torn")
    whole = tree(tmp_path)
    code, out, err = kafkalog("recover", "--like-broker", tmp_path)
    assert (code, checkpoint.read_bytes().splitlines()[1]) == (0, b"3"), err
    runs = dict(re.findall(r"undo: kafkalog undo (\S+) (\S+)", out))
    for number in order:
        code, _, err = kafkalog("undo", tmp_path / f"t-{number}", runs[str(tmp_path / f"t-{number}")])
        assert code == 0, err
    assert tree(tmp_path) == whole
