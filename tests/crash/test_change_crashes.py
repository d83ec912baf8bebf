"""roll, retain, truncate, delete-records under power cuts after each of their calls: nothing is lost, nothing comes twice.

After a cut the log is a whole one, what is missing of it is what was to go, the marker of a clean shutdown tells the
truth, a second run ends where the first would have, and undo gives everything back.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

import pytest
import watched_fs
from evidence import SCALE
from log_directories import (
    BASE_TIME_MS,
    MARKER,
    MARKER_BYTES,
    METADATA,
    PARTITION,
    ROOT,
    Files,
    batch,
    contents,
    identity,
    logs,
    records,
    segment,
    segments,
)
from logs import aborted_txns, end_marker, producer_snapshot
from memory_fs import DEFAULT, START_NS, SURVIVALS, MemoryFilesystem
from watched_fs import RecordingFilesystem
from writers import SETTINGS, kafkalog, undo_all

from kafkalog_cli.storage.fs import FileAttributes

NOW_MS = 1_795_000_000_000
KEPT = SURVIVALS[0]
IMAGES = 25
"""So many of each case's are looked at in a run; RELIABILITY_SCALE=50 looks at all."""
END = 22
OWN = ("replication-offset-checkpoint", "recovery-point-offset-checkpoint")


def plain() -> Files:
    found = segments(4, 3, 4)
    found["leader-epoch-checkpoint"] = b"0\n3\n0 0\n2 10\n3 16\n"
    for base in (8, 14):
        found[f"{base:020d}.snapshot"] = producer_snapshot([])
    return found


def with_transactions() -> Files:
    def part(first: int, sequence: int) -> tuple[bytes, int, int]:
        return batch(first, producer=(9, 0, sequence), bits=0x10)

    def mark(at: int, kind: int) -> tuple[bytes, int, int]:
        return end_marker(at, BASE_TIME_MS + at, (9, 0), kind), at, BASE_TIME_MS + at

    found = segment(0, [part(0, 0), mark(2, 1), part(3, 2), mark(5, 0)])
    found |= segment(6, [part(6, 4), mark(8, 0), batch(9), batch(11)])
    found |= segment(13, [batch(13), part(15, 6), mark(17, 1), batch(18), batch(20)])
    found[f"{0:020d}.txnindex"] = aborted_txns([(9, 3, 5, 6)])
    found[f"{6:020d}.txnindex"] = aborted_txns([(9, 6, 8, 9)])
    state = (9, 7, 8, 1, 0, BASE_TIME_MS + 17, 0, -1)
    for base in (6, 13, END):
        found[f"{base:020d}.snapshot"] = producer_snapshot([state])
    found |= {"leader-epoch-checkpoint": b"0\n2\n0 0\n1 13\n", "partition.metadata": METADATA}
    return found


DIRECTORIES: dict[str, Callable[[], Files]] = {"plain": plain, "with transactions": with_transactions}


def log_directory(name: str) -> MemoryFilesystem:
    fs = MemoryFilesystem()
    fs.add(f"{ROOT}/meta.properties", b"version=1\nnode.id=1\n")
    fs.add(f"{ROOT}/.lock", b"")
    fs.add(MARKER, MARKER_BYTES, FileAttributes(0o604, 7, 8, START_NS + 1_000_000_003))
    for file in OWN:
        fs.add(f"{ROOT}/{file}", b"0\n2\nother 3 44\nt 0 %d\n" % END, FileAttributes(0o640, 5, 6, START_NS + 3))
    fs.add(f"{ROOT}/cleaner-offset-checkpoint", b"0\n1\nt 0 6\n")
    for at, (file, data) in enumerate(DIRECTORIES[name]().items()):
        fs.add(f"{PARTITION}/{file}", data, FileAttributes(0o600 + at % 60, 100 + at, 200, START_NS + at))
    for path in (ROOT, PARTITION):
        fs.set_attributes(path, FileAttributes(0o750, DEFAULT.owner_id, DEFAULT.group_id, START_NS + 77))
    fs.settle()
    return fs


class Change(NamedTuple):
    """A command; of the records stays the end, or (`cuts`) the beginning. `loses`: the marker stays away."""

    name: str
    argv: tuple[str, ...]
    cuts: bool = False
    undoes: bool = True

    def act(self, fs: object, token: str = "0001"):
        return kafkalog(fs, *self.argv, *SETTINGS, now_ms=NOW_MS, token=token)

    def is_touching(self) -> bool:
        """Whether an active segment is touched: then the marker is away meanwhile."""
        return self.name in ("roll", "truncate", "truncate in a segment", "truncate all")


DELETES = ("--config", "cleanup.policy=delete")
KEEP_10_MS = ("--config", f"retention.ms={NOW_MS - BASE_TIME_MS - 10}")
CHANGES = (
    Change("roll", ("roll", ROOT, "--force")),
    Change("retain", ("retain", ROOT, *DELETES, *KEEP_10_MS)),
    Change("retain all", ("retain", ROOT, *DELETES, "--config", "retention.ms=1")),
    Change("retain at once", ("retain", ROOT, *DELETES, *KEEP_10_MS, "--delay", "0s"), undoes=False),
    Change("free", ("retain", ROOT, *DELETES, "--free-bytes", "2000000MB"), undoes=False),
    Change("truncate", ("truncate", PARTITION, "--to", "6", "--single-replica"), cuts=True),
    Change("truncate in a segment", ("truncate", PARTITION, "--to", "18", "--single-replica"), cuts=True),
    Change("truncate all", ("truncate", PARTITION, "--to", "0", "--single-replica"), cuts=True),
    Change("delete-records", ("delete-records", PARTITION, "--before", "15", "--single-replica")),
    Change("delete-records all", ("delete-records", PARTITION, "--before", "-1", "--single-replica")),
)
CASES = [(change, name) for change in CHANGES for name in DIRECTORIES]
IDS = [f"{change.name}-{name}" for change, name in CASES]
OK = {"free": 13}


def done(change: Change, fs: object, token: str = "0001") -> None:
    outcome = change.act(fs, token)
    assert outcome.code == OK.get(change.name, 0), outcome


def live(files: Files) -> Files:
    """Without what is on its way out, and what only we know."""
    return {
        path: data
        for path, data in files.items()
        if not path.endswith((".deleted", ".tmp")) and path != f"{ROOT}/.kafkalog-clean-shutdown"
    }


def without_marker(files: Files) -> Files:
    return {path: data for path, data in live(files).items() if path != MARKER}


@pytest.mark.parametrize(("change", "name"), CASES, ids=IDS)
def test_a_power_cut_after_any_call(change, name):
    before_disk, after_disk = log_directory(name), log_directory(name)
    done(change, after_disk)
    before, after = contents(before_disk), contents(after_disk)
    assert before != after
    records_before, records_after = records(before_disk), records(after_disk)
    images, seen = [], set()
    disk = log_directory(name)

    def keep(where):
        for survival, image in disk.images():
            key = identity(image, exact=True)
            if key not in seen:
                seen.add(key)
                images.append((f"{survival} {where}", image))

    recorder = RecordingFilesystem(disk, lambda call: keep(f"after {call[:3]}"))
    done(change, recorder)
    keep("after all")
    assert len(images) > 10
    chance = random.Random(f"{change.name} {name}")
    for where, image in chance.sample(images, min(len(images), IMAGES * SCALE)):
        try:
            look(change, image, before, after, records_before, records_after)
        except AssertionError as error:
            raise AssertionError(f"{change.name}, {name}, {where}: {error}") from error


def look(change, image, before, after, records_before, records_after):
    found = records(image)
    count = len(found)
    assert count >= len(records_after)
    if change.cuts:
        assert found == records_before[:count], "not the beginning of what was"
    else:
        assert found == records_before[len(records_before) - count :], "not the end of what was"
    there = contents(image)
    if MARKER in there:
        assert there[MARKER] == MARKER_BYTES
        if change.is_touching():
            assert without_marker(there) in (without_marker(before), without_marker(after)), "neither before nor after"
    else:
        assert change.is_touching(), "the marker is away"
    again = image.image(KEPT)
    done(change, again, "0003")
    if change.name == "free":
        # What was unlinked before the cut was not written down; a broker makes the same of it when it starts.
        assert logs(again) == {path: data for path, data in after.items() if path.endswith(".log")}
        assert not [path for path in contents(again) if path.endswith("index") and path not in after]
        return
    assert without_marker(contents(again)) == without_marker(after), "a second run ends elsewhere"
    idle = RecordingFilesystem(again)
    done(change, idle, "0004")
    assert not [call for call in idle.changes if not call.path.endswith("lock")], "a third run finds something to do"
    if change.undoes:
        undo_all(again)
        assert without_marker(contents(again)) == without_marker(before), "what went was not all kept"
        undo_all(image)
        assert without_marker(contents(image)) == without_marker(before), "undo at once"


FAILING = [change for change in CHANGES if change.name in ("retain", "free", "truncate", "delete-records")]
FAULTS = tuple(watched_fs.FAULTS) if SCALE > 1 else ("EIO",)


@pytest.mark.parametrize("change", FAILING, ids=[change.name for change in FAILING])
def test_whatever_fails(change):
    """All is as it was, or as it was to be, or undo puts it back; what is told is so."""
    before = contents(log_directory("plain"))
    records_before = records(log_directory("plain"))
    after_disk = log_directory("plain")
    done(change, after_disk)
    after = without_marker(contents(after_disk))
    tried = 0
    for fs in watched_fs.every_fault(lambda: log_directory("plain"), FAULTS):
        outcome = change.act(fs)
        if not fs.fired:
            continue
        tried += 1
        found = without_marker(contents(fs.below))
        if change.name == "free":
            left = records(fs.below)
            assert left == records_before[len(records_before) - len(left) :], fs.failed
            assert left[-1] == records_before[-1], fs.failed
        elif outcome.code == 0:
            assert found == after, (fs.failed, outcome)
        elif found != without_marker(before):
            undo_all(fs.below)
            assert without_marker(contents(fs.below)) == without_marker(before), (fs.failed, outcome)
    assert tried > 30
