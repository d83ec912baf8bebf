"""After a kill at any call, each of the commands that put it right leaves nothing of ours behind, and purge the rest."""

import random
import re
import shlex
from dataclasses import replace

import pytest

from tests.crash.log_directories import OWN, ROOT
from tests.crash.writer_matrix import BESIDE_THE_MARKER, RECOVER_LATER, copy
from tests.crash.writers import (
    APPENDS,
    CASES,
    KEPT,
    MONTH_MS,
    NEW,
    NOW_MS,
    RECOVER,
    TRUNCATE,
    Kind,
    ids,
    kafkalog,
    undo_all,
)
from tests.support.effort import DIAL
from tests.support.watched_fs import RecordingFilesystem

KILLS = 3
"""So many places of each command on each log directory."""
LATER_MS = NOW_MS + 2 * MONTH_MS
KEEPS = {f"{ROOT}/.lock", OWN, f"{OWN}/lock", f"{NEW}/.kafkalog", f"{NEW}/.kafkalog/lock"}
NAMED = re.compile(r"`kafkalog (undo [^`]*)`")
DISCARDS = [
    (replace(RECOVER, name="recover-discard", argv=(*RECOVER.argv, "--discard")), "five"),
    (replace(RECOVER, name="recover-discard", argv=(*RECOVER.argv, "--discard")), "torn"),
    (replace(TRUNCATE, name="truncate-discard", argv=(*TRUNCATE.argv, "--discard")), "sound"),
    (replace(TRUNCATE, name="truncate-discard", argv=(*TRUNCATE.argv, "--discard")), "old"),
]
KILLED = [*((writer, fixture) for writer, fixture in (*CASES, *APPENDS) if writer.kind is not Kind.COPIES), *DISCARDS]


def left(disk):
    """What is ours: runs, temporary files, a marker that is kept."""
    found = {path for path, _ in disk.walk(ROOT) if "/.kafkalog" in path or path.endswith(".tmp")}
    return sorted(found - KEEPS)


def purge(disk):
    """As it is told to be done: what purge keeps has a command, and so has a marker that waits for a run."""
    outcome = kafkalog(disk, "purge", ROOT, now_ms=LATER_MS, token="0009")
    for command in NAMED.findall(outcome.out + outcome.err):
        undone = kafkalog(disk, *shlex.split(command), now_ms=LATER_MS, token="0009")
        assert undone.code == 0, undone
    if outcome.code == 3:
        outcome = kafkalog(disk, "purge", ROOT, now_ms=LATER_MS, token="000a")
    assert outcome.code == 0, outcome
    assert [path for path in left(disk) if path != BESIDE_THE_MARKER] == []


def look(writer, disk, where):
    try:
        again = copy(disk)
        outcome = replace(writer, now_ms=writer.now_ms + 1000).act(again, token="0002")
        if outcome.code == 14 and "` repairs it" in outcome.out:
            assert RECOVER_LATER.act(again, token="0003").code == 0
        else:
            assert outcome.code in writer.codes | writer.codes_again, outcome
        purge(again)
        if writer.kind is not Kind.REMOVES:  # its leftovers are those of its fixture
            if "--discard" not in writer.argv and writer.comes_back and writer.kind is not Kind.MAKES:
                undo_all(disk)
            purge(disk)
    except AssertionError as error:
        raise AssertionError(f"{where}: {error}") from error


@pytest.mark.exhaustive
@pytest.mark.parametrize(("writer", "fixture"), KILLED, ids=ids(KILLED))
def test_a_killed_writer_and_then_the_same_command_undo_or_purge_leaves_no_file_of_kafkalog(writer, fixture, evidence):
    disk, images = writer.disk(fixture), []
    recorder = RecordingFilesystem(disk, lambda call: images.append((call[:3], disk.image(KEPT))))
    assert writer.act(recorder).code in writer.codes
    tried = random.Random(f"{writer.name} {fixture} {DIAL.scale}").sample(images, min(KILLS * DIAL.scale, len(images)))
    for where, image in tried:
        look(writer, image, f"killed after {where}")
    evidence("R37", len(tried), len(KILLED))
