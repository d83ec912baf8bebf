"""SIGINT, SIGTERM and SIGHUP at any call of an append: what had come until then is there, and told; all else is as it was."""

import json
from functools import cache

import pytest

from tests.crash.partitions_on_disk import SOUND_NAMES, all_records, in_memory
from tests.crash.test_signals import APPENDS, PARTS, SIGNALS, Signalled, contents
from tests.crash.writers import KEPT, NEW, NEW_ID, NOW_MS, ROOT, SETTINGS, kafkalog
from tests.support.memory_fs import MemoryFilesystem
from tests.support.watched_fs import RecordingFilesystem

LINES = [b"%d:value of %d" % (at, at) for at in range(12)]
STDIN = b"\n".join(LINES)
OPTIONS = ("--input", "lines", "--key-separator", ":", "--single-replica", "--format", "json", *SETTINGS)
ONE_BY_ONE = ("--batch-bytes", "1", "--config", "flush.messages=1")
SOUND = tuple(f"{ROOT}/{SOUND_NAMES[name]}" for name in ("sound", "committed"))
COMMANDS = {
    "at-once": ("append", SOUND[0], *OPTIONS),
    "one-by-one": ("append", SOUND[0], *OPTIONS, *ONE_BY_ONE),
    "and-roll": ("append", SOUND[0], *OPTIONS, *ONE_BY_ONE, "--config", "internal.segment.bytes=300"),
    "a-transaction": ("append", SOUND[0], *OPTIONS, *ONE_BY_ONE, "--producer-id", "8", "--transaction", "commit"),
    "several": ("append", ROOT, "--topic", "t", *OPTIONS),
    "new": ("append", NEW, *OPTIONS, *ONE_BY_ONE, "--topic-id", NEW_ID),
}
assert len(COMMANDS) == APPENDS
PLACES = 9
"""Of each command and signal so many calls, evenly."""


def disk_of() -> MemoryFilesystem:
    return in_memory(ROOT, SOUND_NAMES).image(KEPT)


def act(fs, command, stdin=STDIN, **more):
    return kafkalog(fs, *COMMANDS[command], stdin=stdin, **more)


def values(found):
    """Of what an append wrote: without its marker."""
    return [key + b":" + value for _, key, value in found if value.startswith(b"value of ")]


def appended(before, there):
    """Directory to the lines that are new; what was there is there."""
    was, found = all_records(before), all_records(there)
    for directory, whole in was.items():
        assert found[directory][: len(whole)] == whole, directory
    return {directory: values(new[len(was.get(directory, [])) :]) for directory, new in found.items()}


def at_work(command):
    recorder = RecordingFilesystem(disk_of())
    assert act(recorder, command).code == 0
    places = [at for at, call in enumerate(recorder.calls) if call.name == "lock" or call in recorder.changes]
    return range(places[0], places[-1])


def interrupted(command, number, n):
    """How many lines are there of a run that a signal hit after its n-th call."""
    disk = disk_of()
    before = contents(disk)
    fs = Signalled(disk, number, n)
    outcome = act(fs, command)
    assert fs.count > n, "no signal was sent"
    there = contents(disk)
    new = appended(before, there)
    lines = [line for found in new.values() for line in found]
    assert disk.locks_held() == 0
    assert outcome.code in (0, 130), outcome
    assert outcome.code == 130 or len(lines) == len(LINES), outcome
    told = [json.loads(line) for line in outcome.out.splitlines()]
    if told:
        markers = sum(one.get("records", 0) for one in told[:-1] if one["type"] == "appended") - len(lines)
        assert markers == (command == "a-transaction" and outcome.code == 0), "a part of a transaction is ended"
        assert told[-1]["exit_code"] == outcome.code
    if command != "several":
        assert lines == LINES[: len(lines)]
    assert lines or all(there.get(path) == data for path, data in before.items()), "nothing came, and it is changed"
    again(disk, command, lines, before)
    return len(lines)


def again(disk, command, lines, before):
    """What is left goes in, and all of it is there once; nothing is wrong with it."""
    left = [line for line in LINES if line not in lines]
    if left:
        stdin = b"\n".join(left)
        outcome = act(disk, command, stdin, token="0002", now_ms=NOW_MS + 1000)
        assert outcome.code == 0, outcome
        found = [line for new in appended(before, contents(disk)).values() for line in new]
        assert sorted(found) == sorted(LINES)
    assert kafkalog(disk, "verify", ROOT).code == verified(command)


@cache
def verified(command):
    """What verify ends with where nobody disturbed it: some of the logs were odd before."""
    disk = disk_of()
    assert act(disk, command).code == 0
    return kafkalog(disk, "verify", ROOT).code


@pytest.mark.exhaustive
@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_signal_at_any_call_of_append_ends_it_at_a_safe_point(command, number, evidence):
    calls = at_work(command)
    found = [interrupted(command, number, n) for n in calls[:: len(calls) // PLACES]]
    assert len(set(found)) > 1, "never in the middle"
    evidence("R19", len(found), PARTS)
