"""SIGINT, SIGTERM and SIGHUP at any call of a command on several partitions: each is done, or as it was."""

import json
import os
import signal
import subprocess
import sys
import textwrap
from functools import cache
from pathlib import Path

import pytest

from tests.crash.partitions_on_disk import NAMES, SOUND_NAMES, all_records, in_memory, of_partition
from tests.crash.writers import (
    DELETE_RECORDS,
    KEPT,
    RETAIN,
    RETAIN_AT_ONCE,
    ROLL,
    ROOT,
    RUN_ID,
    SETTINGS,
    TRUNCATE,
    kafkalog,
)
from tests.support.product_journal import plant_bug
from tests.support.watched_fs import RecordingFilesystem, WatchedFilesystem

IN_TURN = ("--jobs", "1", "--format", "json")
COMMANDS = {
    "recover": ("recover", ROOT, *SETTINGS, *IN_TURN),
    "undo": ("undo", ROOT, RUN_ID, "--format", "json"),
    **{writer.name: (*writer.argv, *IN_TURN) for writer in (ROLL, RETAIN, RETAIN_AT_ONCE)},
    **{writer.name: (*writer.argv, "--format", "json") for writer in (TRUNCATE, DELETE_RECORDS)},
}
OF_SOUND = frozenset(COMMANDS) - {"recover", "undo"}
OF_ONE = (TRUNCATE.name, DELETE_RECORDS.name)
PLACES = 11
"""Of each command and signal so many calls, evenly."""


@cache
def _disk(command):
    disk = in_memory(ROOT, SOUND_NAMES if command in OF_SOUND else NAMES)
    if command == "undo":
        assert kafkalog(disk, *COMMANDS["recover"]).code == 0
    disk.settle()
    return disk


def disk_of(command):
    return _disk(command).image(KEPT)


def contents(disk):
    """Path below the log directory to content, without what we keep."""
    found = {path.removeprefix(f"{ROOT}/"): inode for path, inode in disk.walk(ROOT) if not inode.is_directory}
    return {path: inode.content for path, inode in found.items() if ".kafkalog" not in path and path != ".lock"}


@cache
def expected(command):
    disk = disk_of(command)
    before = contents(disk)
    recorder = RecordingFilesystem(disk)
    assert kafkalog(recorder, *COMMANDS[command]).code == 0
    # Before the first lock nothing is done that a signal could disturb, and it ends the process as it always does.
    at_work = [at for at, call in enumerate(recorder.calls) if call.name == "lock" or call in recorder.changes]
    return before, contents(disk), range(at_work[0], at_work[-1])


class Signalled(WatchedFilesystem):
    """Sends this process a signal after the n-th call."""

    def __init__(self, below, number, n):
        super().__init__(below)
        self.number, self.n, self.count = number, n, 0

    def after(self, call):
        self.count += 1
        if self.count == self.n + 1:
            os.kill(os.getpid(), self.number)


def interrupted(command, number, n):
    """What was done of a run that a signal hit after its n-th call: (partitions done, not done)."""
    before, after, _ = expected(command)
    disk = disk_of(command)
    fs = Signalled(disk, number, n)
    outcome = kafkalog(fs, *COMMANDS[command])
    assert fs.count > n, "no signal was sent"
    there = contents(disk)
    done, undone = [], []
    for directory in sorted({path.partition("/")[0] for path in before if "/" in path}):
        if of_partition(there, directory) == of_partition(after, directory):
            done.append(directory)
        else:
            assert of_partition(there, directory) == of_partition(before, directory), f"{directory}: half done"
            undone.append(directory)
    assert disk.locks_held() == 0
    if undone:
        assert outcome.code == 130, outcome
    if outcome.out:
        summary = json.loads(outcome.out.splitlines()[-1])
        assert summary["type"] == "summary"
        assert summary["exit_code"] == outcome.code
        assert {path["path"].rpartition("/")[2] for path in summary.get("not_done", [])} >= set(undone)
    assert kafkalog(disk, *COMMANDS[command], token="0002").code == 0
    assert contents(disk) == after
    return done, undone


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
APPENDS = 6
"""Commands of test_append_signals.py, which share the row."""
PARTS = len(SIGNALS) * (len(COMMANDS) + APPENDS)


@pytest.mark.exhaustive
@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_signal_at_any_call_of_a_writer_ends_it_at_a_safe_point(command, number, evidence):
    calls = expected(command)[2]
    found = [interrupted(command, number, n) for n in calls[:: len(calls) // PLACES]]
    if command in OF_ONE:
        assert any("t-0" in done for done, _ in found)
        assert any("t-0" in undone for _, undone in found)
    else:
        assert any(done and undone for done, undone in found), "never in the middle"
    evidence("R19", len(found), PARTS)


def test_a_command_that_stops_where_it_is_is_noticed(monkeypatch):
    """As if the signal were raised wherever it hits, and nothing were taken back."""

    def ask(self):
        raise KeyboardInterrupt

    plant_bug(monkeypatch, "wait with an interrupt for a safe point", ask)
    plant_bug(monkeypatch, "take back a change that was interrupted", lambda *_: None)
    with pytest.raises((AssertionError, KeyboardInterrupt)):  # noqa: PT012
        for n in expected("recover")[2][::5]:
            interrupted("recover", signal.SIGINT, n)


def test_a_sighup_that_is_ignored_by_nohup_stays_ignored(tmp_path):
    """A SIGHUP that is ignored stays ignored."""
    code = """
        import signal
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        from tests.support.product_journal import Interruptions
        with Interruptions().watched():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    """
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], cwd=root, check=True)


def test_records_are_as_before_after_a_writer_was_interrupted():
    """What is compared above has records."""
    assert sum(map(len, all_records(expected("recover")[1]).values())) > 100
