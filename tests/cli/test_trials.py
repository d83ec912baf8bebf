"""Every command where it may not write: a read-only directory, a read-only file system, a full one."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from itertools import count

import pytest

from tests.cli.trials import READERS, RECOVERED, TORN, UNPRIVILEGED, WRITERS, Trial, check_words, logs, tree
from tests.support.product import RealFilesystem
from tests.support.watched_fs import CHANGES, FailingFilesystem, RecordingFilesystem

NO_WAY_ON = {
    "EACCES": "it belongs to this user, whom its mode keeps out: `chmod u+rwX ",
    "EROFS": "mount the file system read-write",
}

NOTHING_DONE = re.compile(r"(\d+ partitions: 0 changed, \d+ failed, [\d.]+ m?s\n)?")
"""The output of a run that could change nothing: the closing line, if it was for several partitions."""


@pytest.fixture
def trial(corpus, tmp_path):
    return Trial(corpus, tmp_path, tmp_path)


def as_user():
    """The prefix of a command that permissions hold for."""
    if os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("root may write everywhere, and there is no setpriv here")
    return UNPRIVILEGED


@pytest.fixture
def disk(tmp_path):
    """2 MiB of memory as a file system."""
    point = tmp_path / "disk"
    point.mkdir()
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root mounts a file system")
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", point], check=False).returncode:
        pytest.skip("no file system can be mounted here")
    yield point
    subprocess.run(["umount", point], check=True)


def answers_of_readers(trial, prefix=None):
    """What each reader says and ends with, less its duration and what it calls its output directory."""
    found = {}
    for name, words in READERS.items():
        done = trial.command(words, prefix)
        check_words(done.returncode, done.stdout, done.stderr, name)
        said = re.sub(r"(?<=KiB, )\d\S* m?s$", "DURATION", done.stdout, flags=re.MULTILINE)
        found[name] = done.returncode, "" if name == "salvage" else said
    return found


def refused_writers(trial, told, prefix=None):
    """Each writer ends with 1, says what to do, and leaves no trace."""
    before = tree(trial.data)
    for name, words in WRITERS.items():
        done = trial.command(words, prefix)
        check_words(done.returncode, done.stdout, done.stderr, name)
        assert done.returncode == 1
        assert NOTHING_DONE.fullmatch(done.stdout), (name, done)
        assert f"\n  next: {told}" in done.stderr, (name, done.stderr)
        assert tree(trial.data) == before, name
    done = trial.command([*WRITERS["recover"], "--format", "json"], prefix)
    error = json.loads(done.stderr.splitlines()[0])
    assert error["next_step"].startswith(told)
    assert json.loads(done.stdout.splitlines()[-1])["exit_code"] == done.returncode == 1


def test_readers_answer_and_writers_change_nothing_in_a_read_only_directory(trial):
    expected = answers_of_readers(trial)
    for path in [trial.data, *trial.data.rglob("*")]:
        path.chmod(path.stat().st_mode & ~0o222)
    before = tree(trial.data)
    try:
        refused_writers(trial, NO_WAY_ON["EACCES"], as_user())
        assert answers_of_readers(trial, as_user()) == expected
        closed = trial.data.parent / "closed"
        closed.mkdir(mode=0o555)
        done = trial.command(["recover", "--salvage", str(closed / "out"), "DATA"], as_user())
        assert done.returncode == 1
        assert NOTHING_DONE.fullmatch(done.stdout)
        assert NO_WAY_ON["EACCES"] in done.stderr
        assert tree(trial.data) == before
    finally:
        for path in [trial.data, *trial.data.rglob("*")]:
            path.chmod(0o755)


def test_writers_on_a_read_only_file_system_change_nothing(corpus, disk, tmp_path):
    trial = Trial(corpus, disk, tmp_path)
    expected = answers_of_readers(trial)
    before = tree(trial.data)
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    refused_writers(trial, NO_WAY_ON["EROFS"])
    found = answers_of_readers(trial)
    for name in ("verify", "verify deep"):  # they name the mount too, which is no damage
        assert found.pop(name)[0] == expected.pop(name)[0]
    assert found == expected
    done = trial.command(["recover", "--salvage", f"{disk}/out", "DATA"])
    assert done.returncode == 1
    assert NOTHING_DONE.fullmatch(done.stdout)
    assert NO_WAY_ON["EROFS"] in done.stderr
    assert tree(trial.data) == before


def test_writers_on_a_full_file_system_change_nothing(corpus, disk, tmp_path):
    """Nothing of a broker's is changed; undo and purge are no exception, but purge needs no room."""
    trial = Trial(corpus, disk, tmp_path)
    expected = answers_of_readers(trial)
    ballast = disk / "ballast"
    free = os.statvfs(disk)
    ballast.write_bytes(b"x" * (free.f_bavail * free.f_frsize))
    assert os.statvfs(disk).f_bavail == 0
    before = logs(trial.data)
    for name, words in WRITERS.items():
        if name == "purge":
            continue
        done = trial.command(words)
        check_words(done.returncode, done.stdout, done.stderr, name)
        assert done.returncode in (13, 5), (name, done)  # 5: in one partition there was nothing to do
        assert "no space left on the device: " in done.stderr, (name, done.stderr)
        # An undo that was begun says how to go on, even if it has not come to the first change.
        assert ("kafkalog undo /" if name.startswith("undo") else "nothing was changed") in done.stderr, done.stderr
        assert "\n  next: make room: `kafkalog purge " in done.stderr, name
        assert "--discard" not in done.stderr or words[0] in {"recover", "truncate"}, (name, done.stderr)
        assert logs(trial.data) == before, name
    done = trial.command(["recover", "--salvage", f"{disk}/out", f"DATA/{TORN}"])
    assert done.returncode == 13
    assert "no space left on the device: " in done.stderr
    assert not (disk / "out").exists()
    assert logs(trial.data) == before
    assert answers_of_readers(trial) == expected
    assert trial.command(WRITERS["purge"]).returncode == 0
    assert not list((trial.data / RECOVERED / ".kafkalog").glob("2*"))
    ballast.unlink()
    assert trial.command(WRITERS["recover"]).returncode == 0


ROOM = {**{name: WRITERS[name] for name in WRITERS if name != "purge"}, "salvage": READERS["salvage"]}


TRIED_WELL = {"salvage": 3}
"""What a command ends with that has room: the tail of one partition is lost."""
STEPS = ((False, 3), (True, 4))
"""Every so manyth call fails once, or from it on all do; the crash matrix has each of them, in memory."""


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ROOM)
def test_writers_that_run_out_of_room_at_any_call_leave_a_complete_log(corpus, tmp_path, name, evidence):
    """ENOSPC where room is taken: 13, nothing of a broker's is lost, and once there is room the command goes through."""
    tried = 0
    for for_ever, step in STEPS:
        for n in count(0, step):
            place = tmp_path / f"{for_ever}-{n}"
            place.mkdir()
            trial = Trial(corpus, place, place)
            before = brokers(trial)
            fs = FailingFilesystem(RealFilesystem(), "ENOSPC", n, for_ever=for_ever)
            code, out, err = trial.here(ROOM[name], fs)
            check_words(code, out, err, name)
            if not fs.fired:
                assert code == TRIED_WELL.get(name, 0)
                break
            tried += 1
            assert code in (TRIED_WELL.get(name, 0), 5, 13), (n, err)
            assert code in (0, 3) or "no space left on the device" in err, (n, err, fs.failed)
            if name == "salvage" or (code and "stopped half way" not in err):
                assert lost(before, brokers(trial)) == [], (n, fs.failed)
            code, out, err = trial.here(ROOM[name], RealFilesystem())
            assert code == TRIED_WELL.get(name, 0), (n, err, fs.failed)
            shutil.rmtree(place)
    assert tried >= 5
    evidence("R16", tried, len(ROOM))


def brokers(trial):
    return {name: data for name, data in logs(trial.data).items() if "/.kafkalog/" not in name}


def lost(before, after):
    """Files that are gone or other than they were, in a partition of which the other is done."""
    changed = {
        name.partition("/")[0]
        for name in before.keys() | after.keys()
        if "/" in name and before.get(name) != after.get(name)
    }
    return sorted(changed) if len(changed) > 1 else []


def test_readers_make_no_call_that_changes(trial):
    for name, words in READERS.items():
        fs = RecordingFilesystem(RealFilesystem())
        code, out, err = trial.here(words, fs)
        check_words(code, out, err, name)
        changed = [call for call in fs.changes if str(trial.data) in call.path]
        assert changed == [], name
        assert name == "salvage" or not fs.changes, name
    assert CHANGES
