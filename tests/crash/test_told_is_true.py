"""What every command tells when a call fails is true of the disk, and each command that it names does what is told."""

import random

import pytest

from tests.crash.library_writers import LIBRARY_CASES
from tests.crash.told import READ_ONLY, Told, candidates
from tests.crash.writers import APPENDS, CASES, FREE, MAKE, RETAIN_AT_ONCE, ROLL, ids
from tests.support import watched_fs
from tests.support.effort import DIAL
from tests.support.product_journal import plant_bug

ALL = (*CASES, *APPENDS, *LIBRARY_CASES)
A_CASE = 7
"""So many faults of each command on each log directory."""


@pytest.fixture(autouse=True)
def _read_only(monkeypatch):
    monkeypatch.setitem(watched_fs.FAULTS, "EROFS", READ_ONLY)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("writer", "fixture"), ALL, ids=ids(ALL))
def test_what_is_told_is_true(writer, fixture, evidence):
    found = candidates(writer, fixture)
    tried = random.Random(f"{writer.name} {fixture} {DIAL.scale}").sample(found, min(A_CASE * DIAL.scale, len(found)))
    for fault, for_ever, n in tried:
        Told(writer, fixture, fault, for_ever, n).check()
    evidence("R34", len(tried), len(ALL))


def test_a_new_partition_stays_where_undo_gives_the_marker_back():
    found = (Told(MAKE, "sound", *case) for case in candidates(MAKE, "sound", ("ENOSPC",)) if not case[1])
    kept = [told for told in found if "no log was changed, but .kafka_cleanshutdown" in told.text]
    assert kept
    for told in kept:
        assert "this partition was made, and stays" in told.text
        assert told.check()


# -- what it finds


def is_noticed(writer, fixture):
    for fault, for_ever, n in candidates(writer, fixture, ("EIO",)):
        try:
            Told(writer, fixture, fault, for_ever, n).check()
        except AssertionError:
            return True
    return False


@pytest.mark.full
def test_segments_that_were_unlinked_and_not_told_of_are_noticed(monkeypatch):
    assert not is_noticed(FREE, "killed")
    plant_bug(monkeypatch, "tell that segments were removed", lambda _, error: error)
    assert is_noticed(FREE, "killed")


@pytest.mark.full
def test_a_removal_that_says_that_nothing_was_changed_is_noticed(monkeypatch):
    assert not is_noticed(RETAIN_AT_ONCE, "compacted")
    plant_bug(monkeypatch, "tell that a removal began", lambda _path, _gone, error: error)
    assert is_noticed(RETAIN_AT_ONCE, "compacted")


@pytest.mark.full
def test_a_marker_that_does_not_come_back_as_told_is_noticed(monkeypatch):
    """Recover has something to change in this log, so that it is no more as the run before left it."""
    assert not is_noticed(ROLL, "sound")
    plant_bug(monkeypatch, "find the runs before this one", lambda *_: [])
    assert is_noticed(ROLL, "sound")
