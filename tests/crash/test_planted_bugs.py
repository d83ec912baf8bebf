"""Every sync left out and every two renames swapped, in every command: the power cuts find it, or nobody could."""

import random

import pytest

from tests.crash.log_directories import OWN, PARTITION, RECOVERY_POINT, ROOT
from tests.crash.mutants import SYNCS, DropSync, SwapRenames
from tests.crash.writer_matrix import WriterMatrix, known_good
from tests.crash.writers import (
    APPENDERS,
    COMPACT,
    DELETE_RECORDS,
    INDEXES_ONLY,
    LIKE_BROKER,
    MAKE,
    PURGE,
    RECOVER,
    REPAIRERS,
    RETAIN,
    ROLL,
    RUN_ID,
    SALVAGE,
    TRUNCATE,
    UNDO,
    ids,
)
from tests.support.effort import DIAL
from tests.support.product import KafkalogError
from tests.support.product_journal import plant_bug
from tests.support.watched_fs import RecordingFilesystem

SOME = [(RECOVER, "three"), (RECOVER, "swap"), (LIKE_BROKER, "deleted"), (INDEXES_ONLY, "torn"), (SALVAGE, "one"),
        (UNDO, "three"), (UNDO, "torn"), (PURGE, "three"), (RETAIN, "sound")]  # fmt: skip
APPENDED = [(MAKE, "sound")]
MORE_APPENDED = [(writer, "sound") for writer in APPENDERS]
MORE = [(ROLL, "old"), (RETAIN, "sound"), (TRUNCATE, "old"), (DELETE_RECORDS, "sound"), (COMPACT, "keyed")]
EACH = SOME if DIAL.scale == 1 else [*((writer, name) for writer in REPAIRERS for name in writer.fixtures), *MORE]
CASES = [*EACH, *(APPENDED if DIAL.scale == 1 else MORE_APPENDED)]
MOST_MUTANTS = 8
"""So many mutants of each kind of a case that somebody could tell; all of them, and the others, in a night."""

TIME_INDEX = f"{PARTITION}/{0:020d}.timeindex"
EQUIVALENT = {
    # Without its manifest a run is one that never began, whether or not what it kept is gone too.
    (PURGE, DropSync): ("sync_directory", f"{OWN}/{RUN_ID}", ""),
    # Logs leave one by one, so that none is missing between others; where what was made of them all is in place already,
    # nobody misses one.
    (RECOVER, DropSync): ("sync_directory", PARTITION, ""),
    # An index is made anew from its log, whichever of the two came first.
    (RECOVER, SwapRenames): ("rename", f"{PARTITION}/{0:020d}.index.swap", f"{PARTITION}/{0:020d}.index"),
    # One whose log is gone is an orphan, under either name.
    (DELETE_RECORDS, SwapRenames): ("rename", TIME_INDEX, f"{TIME_INDEX}.deleted"),
}
_LATE = {
    # Nothing stays of these two segments, so that nothing can be lost when one of their names comes too late.
    *("0.timeindex.cleaned", "0.timeindex.swap", "0.timeindex.deleted", "4.timeindex.deleted", "0.timeindex"),
    # What comes as .cleaned counts for nothing yet, and a log that is there as .swap without its indexes has them made
    # anew; the entries of aborted transactions hide nothing, whose records are gone.
    *("8.txnindex.cleaned", "13.timeindex.cleaned"),
    # A start completes it, since what comes next as .cleaned has a larger offset.
    "8.txnindex",
    # What a log replaces goes with it when a start finds that as .swap.
    "13.timeindex.deleted",
}
SPARED = {(COMPACT, DropSync): _LATE, (COMPACT, SwapRenames): {*_LATE, "18.timeindex.deleted"}}
"""The same by the file that was renamed last: a step that may come after the next."""
MOST_ALIVE = {COMPACT: 9 / 10}
"""Of all: its renames come in threes and fours."""


@pytest.mark.exhaustive
@pytest.mark.parametrize("mutant", [DropSync, SwapRenames])
@pytest.mark.parametrize(("writer", "fixture"), CASES, ids=ids(CASES))
def test_a_dropped_sync_or_swapped_rename_of_any_writer_is_found_by_power_cuts(writer, fixture, mutant, evidence):
    whole = WriterMatrix(writer, fixture, known_good(writer, fixture))
    for image in whole.images():
        whole.look(image)
    recorder = RecordingFilesystem(writer.disk(fixture))
    writer.act(recorder)
    places = [at for at, call in enumerate(recorder.changes) if call.name in mutant.kinds]
    numbers = range(len(places) - (mutant is SwapRenames))
    if DIAL.scale == 1:
        numbers = [n for n in numbers if not is_nobodys(recorder.changes, places, n, mutant)]
        numbers = sorted(random.Random(f"{writer.name} {fixture}").sample(numbers, min(MOST_MUTANTS, len(numbers))))
    tried = len(numbers)
    alive = [n for n in numbers if not is_found(WriterMatrix(writer, fixture, set(whole.known)), mutant, n)]
    late = [n for n in alive if not is_nobodys(recorder.changes, places, n, mutant)]
    spared = SPARED.get((writer, mutant), set())
    told = [recorder.changes[places[n]][:3] for n in late if renamed_last(recorder.changes, places[n]) not in spared]
    if EQUIVALENT.get((writer, mutant)) in told:
        told.remove(EQUIVALENT[writer, mutant])  # one of them
    assert told == []
    assert spared <= {renamed_last(recorder.changes, places[n]) for n in late}
    if DIAL.scale > 1:  # most renames have no sync between them
        assert len(alive) <= MOST_ALIVE.get(writer, 2 / 3) * tried or tried < 4
    evidence("R24", max(0, tried), 2 * len(CASES))


def renamed_last(calls, at):
    """The new name that a rename gave there, or the last one before: without the zeroes before its offset."""
    renames = (call for call in reversed(calls[: at + 1]) if call.name == "rename")
    name = next((call[2] for call in renames), "").rpartition("/")[2]
    number, _, rest = name.partition(".")
    return f"{int(number)}.{rest}" if number.isdecimal() else name


def is_found(matrix, mutant, n):
    try:
        for image in matrix.images(lambda fs: mutant(fs, n)):
            matrix.look(image)
    except (AssertionError, OSError, KafkalogError):
        return True
    return False


def is_nobodys(calls, places, n, mutant):
    """Two renames with no sync between them: a disk may order them as it likes, and the next sync waits for both.

    What an append puts beside a log is made anew from it, and its manifest speaks only of names that are to come.
    """
    if mutant is DropSync:
        return is_done_by_the_next(calls, places[n]) or is_of_no_use(calls, places[n])
    first, second = (calls[at] for at in places[n : n + 2])
    between = calls[places[n] : places[n + 1]]
    is_put = first.path.endswith("/new") and not first.to.endswith(".log")
    return (is_put and second.to.endswith("/manifest.json")) or not any(call.name in SYNCS for call in between)


def is_done_by_the_next(calls, at):
    """Checkpoints are written one after the other: the next sync of their directory does for both."""
    if calls[at][:2] != ("sync_directory", ROOT):
        return False
    wanted = (call.path for call in calls[at + 1 :] if call.path.startswith(PARTITION) or call[:2] == calls[at][:2])
    return next(wanted, PARTITION) == ROOT


def is_of_no_use(calls, at):
    """A sync of an append after which nothing else is on the disk, or on which nothing depends before the next.

    On those of the log and its directory does a recovery point depend, and on a log's name that of the next one; on that
    of the run's directory what is done in the partition. An older recovery point makes a broker look at more.
    """
    call, before, behind = calls[at], calls[:at], calls[at + 1 :]
    last = max((n for n, other in enumerate(before) if other[:2] == call[:2]), default=-1)
    touched = [other.to or other.path for other in before[last + 1 :] if touches(other, call)]
    if not touched:
        return True
    has_log = any(path.endswith(".log") for path in touched)
    if call.path == ROOT:
        renamed = [other.to for other in before if other.name == "rename" and parent(other.to) == ROOT]
        return renamed[-1:] == [RECOVERY_POINT] and call[:2] in [other[:2] for other in behind]
    for other in behind:
        if other[:2] == call[:2]:
            return True
        if other.name in SYNCS or other.name not in NAME_CHANGES:
            continue
        path = other.to or other.path
        if path == RECOVERY_POINT or (has_log and path.endswith(".log")):
            return False
        if "/.kafkalog" in call.path and "/.kafkalog" not in path:
            return False
    return False


NAME_CHANGES = ("create", "make_directory", "rename", "link", "unlink", "remove_directory")


def touches(other, sync):
    """Whether a call changes what the sync is of."""
    if sync.name == "sync_directory":
        return other.name in NAME_CHANGES and sync.path in (parent(other.path), parent(other.to))
    return other.path == sync.path and other.name not in SYNCS


def parent(path):
    return path.rpartition("/")[0]


# -- the same for the sources of the commands: what these take for granted


def nothing(*_):
    pass


@pytest.mark.full
@pytest.mark.parametrize(
    ("writer", "fixture", "name", "replacement"),
    [
        (SALVAGE, "three", "suffix of a salvage that is not done", ""),
        (RECOVER, "torn", "sync names", nothing),
        (UNDO, "torn", "sync names", nothing),
        (UNDO, "three", "remove what an undone run keeps", nothing),
    ],
)
def test_bugs_planted_in_the_code_are_found_by_power_cuts(writer, fixture, name, replacement, monkeypatch):
    matrix = WriterMatrix(writer, fixture)
    plant_bug(monkeypatch, name, replacement)
    with pytest.raises((AssertionError, KafkalogError)):  # noqa: PT012
        for image in matrix.images():
            matrix.look(image)
