"""What every command tells when a call fails is true of the disk, and each command that it names does what is told."""

import random

import pytest

from tests.crash.library_writers import LIBRARY_CASES
from tests.crash.messages import READ_ONLY, CheckedMessage, candidates
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
def test_the_message_of_a_writer_whose_call_failed_agrees_with_the_disk(writer, fixture, evidence):
    found = candidates(writer, fixture)
    tried = random.Random(f"{writer.name} {fixture} {DIAL.scale}").sample(found, min(A_CASE * DIAL.scale, len(found)))
    for fault, for_ever, n in tried:
        CheckedMessage(writer, fixture, fault, for_ever, n).check()
    evidence("R34", len(tried), len(ALL))


def test_a_new_partition_stays_where_undo_gives_the_marker_back():
    found = (CheckedMessage(MAKE, "sound", *case) for case in candidates(MAKE, "sound", ("ENOSPC",)) if not case[1])
    kept = [told for told in found if "no log was changed, but .kafka_cleanshutdown" in told.text]
    assert kept
    for told in kept:
        assert "this partition was made, and stays" in told.text
        assert told.check()


# -- what it finds


def is_noticed(writer, fixture):
    for fault, for_ever, n in candidates(writer, fixture, ("EIO",)):
        try:
            CheckedMessage(writer, fixture, fault, for_ever, n).check()
        except AssertionError:
            return True
    return False


@pytest.mark.full
def test_unlinked_segments_missing_from_the_message_are_noticed(monkeypatch):
    assert not is_noticed(FREE, "killed")
    plant_bug(monkeypatch, "tell that segments were removed", lambda _, error: error)
    assert is_noticed(FREE, "killed")


@pytest.mark.full
def test_a_removal_that_says_that_nothing_was_changed_is_noticed(monkeypatch):
    assert not is_noticed(RETAIN_AT_ONCE, "compacted")
    plant_bug(monkeypatch, "tell that a removal began", lambda _path, _gone, error: error)
    assert is_noticed(RETAIN_AT_ONCE, "compacted")


@pytest.mark.full
def test_a_clean_shutdown_file_missing_against_the_message_is_noticed(monkeypatch):
    """Recover has something to change in this log, so that it is no more as the run before left it."""
    assert not is_noticed(ROLL, "sound")
    plant_bug(monkeypatch, "find the runs before this one", lambda *_: [])
    assert is_noticed(ROLL, "sound")
