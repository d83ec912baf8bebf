"""Readers of a log that a broker changes under them, at any of their calls.

First our own commands change the log in place of a broker; then a broker's steps are taken file by file: appends, rolls,
aborted transactions, cleaning with its swap, retention, truncation. What is removed may be missed, and what is half
written is a tail: nothing of it is reported as corruption, and nothing ends in an internal error.
"""

import threading

import pytest

from tests.crash.log_directories import BASE_TIME_MS, END, PARTITION, ROOT, batch, log_directory, segment
from tests.crash.writers import (
    APPENDERS,
    DELETE_RECORDS,
    NOW_MS,
    RETAIN,
    RETAIN_AT_ONCE,
    RETAIN_NOTHING,
    ROLL,
    kafkalog,
)
from tests.support.effort import DIAL
from tests.support.logs import aborted_txns, end_marker, producer_snapshot
from tests.support.memory_fs import SURVIVALS, MemoryFilesystem
from tests.support.watched_fs import WatchedFilesystem

READERS = {
    "ls": ("ls", ROOT),
    "verify": ("verify", ROOT),
    "verify quick": ("verify", "--level", "quick", ROOT),
    "verify deep": ("verify", "--level", "deep", ROOT),
    "dump-log": ("dump-log", PARTITION),
    "dump-index": ("dump-index", PARTITION),
    "lookup-offset": ("lookup-offset", PARTITION, "20"),
    "lookup-time": ("lookup-time", PARTITION, "--max-timestamp"),
}
ACTIVE = f"{PARTITION}/{14:020d}.log"


def live_disk():
    """As a broker at work has it: no marker, the last indexes at full length."""
    disk = log_directory("killed")
    meta = b"version=1\nnode.id=1\ncluster.id=kFQ3lUTFSsWWjXbfvbOpDw\n"
    disk.unlink(f"{ROOT}/meta.properties")
    disk.add(f"{ROOT}/meta.properties", meta)
    return disk


def append(size_bytes):
    """A broker writes so many bytes of a batch, or all."""

    def act(disk):
        with disk.open_write(ACTIVE) as file:
            file.write(disk.status(ACTIVE).size_bytes, batch(END)[0][:size_bytes])

    return act


CHANGES = {
    **{writer.name: writer.act for writer in (ROLL, RETAIN, RETAIN_NOTHING, RETAIN_AT_ONCE, DELETE_RECORDS)},
    **{writer.name: writer.act for writer in APPENDERS},
    "a batch": append(None),
    "half a batch": append(50),
    "some bytes": append(7),
}


DROPPING = ("retain", "retain-nothing", "retain-at-once", "delete-records")
EVERY = 2
"""The change comes before so many a call; before each of them at night."""


class Changing(WatchedFilesystem):
    """Another changes the log before the n-th call."""

    def __init__(self, below, n, change):
        super().__init__(below)
        self.n, self.change, self.count = n, change, 0

    def before(self, call):
        self.count += 1
        if self.count == self.n:
            self.change(self.below)


def read(fs, reader):
    return kafkalog(fs, *READERS[reader], now_ms=NOW_MS)


@pytest.mark.exhaustive
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("reader", READERS)
def test_a_reader_reports_no_corruption_of_a_log_that_changes_at_any_call(reader, change, evidence):
    counting = Changing(live_disk(), 0, None)
    assert read(counting, reader).code == 0
    calls = range(1, counting.count + 1)[:: 1 if DIAL.scale > 1 else EVERY]
    for n in calls:
        outcome = read(Changing(live_disk(), n, CHANGES[change]), reader)
        assert outcome.code in (0, 1, 3, 5, 10), (n, outcome)  # 1, 5, 10: a file, or the offset asked for, is gone
        if outcome.code not in (0, 3):
            assert change in DROPPING, (n, outcome)
    evidence("R18", len(calls), len(READERS) * len(CHANGES) + len(DONE) * 4)


# -- what a broker does to the files, step by step, on logs with all four kinds of indexes


def name(base, kind):
    return f"{PARTITION}/{base:020d}.{kind}"


def busy_disk(fixture):
    """The same of a log with transactions: no marker, the last indexes at full length, one of aborted transactions."""
    disk = log_directory(fixture)
    active = {"killed": 14, "committed": 13}[fixture]
    files = {path: inode.content for path, inode in disk.walk(ROOT) if not inode.is_directory}
    files[f"{ROOT}/meta.properties"] = b"version=1\nnode.id=1\ncluster.id=kFQ3lUTFSsWWjXbfvbOpDw\n"
    for kind, size in (("index", 4096), ("timeindex", 4092)):
        files[name(active, kind)] = files[name(active, kind)].ljust(size, b"\0")
    for path in (f"{ROOT}/.kafka_cleanshutdown", name(END, "snapshot")):
        files.pop(path, None)
    if fixture == "committed":
        files[f"{PARTITION}/leader-epoch-checkpoint"] = b"0\n1\n0 0\n"
        for base, sequence, last, at in ((6, 3, 4, 5), (13, 5, 7, 8)):
            files[name(base, "snapshot")] = producer_snapshot([(9, 0, sequence, last, 1, BASE_TIME_MS + at, 0, -1)])
    made = MemoryFilesystem()
    for path, data in files.items():
        made.add(path, data)
    made.settle()
    return made


def put(path, data):
    return lambda disk: disk.add(path, data) if disk.status(path) is None else None


def written(path, data):
    """At the end of what is there."""

    def step(disk):
        with disk.open_write(path) as file:
            file.write(disk.status(path).size_bytes, data)

    return step


def cut(path, size_bytes):
    def step(disk):
        with disk.open_write(path) as file:
            file.truncate(size_bytes)

    return step


def renamed(old, new):
    return lambda disk: disk.rename(old, new) if disk.status(old) is not None else None


def gone(path):
    return lambda disk: disk.unlink(path) if disk.status(path) is not None else None


KINDS = ("log", "index", "timeindex", "txnindex")


def suffixed(base, old, new):
    """changeFileSuffixes."""
    return [renamed(name(base, kind) + old, name(base, kind) + new) for kind in KINDS]


def unlinked(base):
    return [gone(name(base, kind) + ".deleted") for kind in KINDS]


def roll(disk, base):
    """LocalLog.roll, and what is written next; the indexes of the segment before get their own length."""
    before = 14 if disk == "killed" else 13
    return [
        put(name(base, "snapshot"), producer_snapshot([])),
        cut(name(before, "index"), 8), cut(name(before, "timeindex"), 12),
        *(put(name(base, kind), b"\0" * size) for kind, size in (("log", 0), ("index", 4096), ("timeindex", 4092))),
        written(name(base, "log"), batch(base)[0]),
        written(name(base, "log"), batch(base + 2)[0]),
    ]  # fmt: skip


def cleaning(disk):
    """LocalLog.replaceSegments: the first two segments give way to one."""

    def part(first, sequence):
        return batch(first, producer=(9, 0, sequence), bits=0x10)

    def mark(at, kind):
        return end_marker(at, BASE_TIME_MS + at, (9, 0), kind), at, BASE_TIME_MS + at

    kept = [batch(0), batch(4), batch(10)]
    if disk == "committed":
        kept = [part(0, 0), mark(2, 1), part(3, 2), mark(5, 0), part(6, 4), mark(8, 0), batch(11)]
    made = {f"{PARTITION}/{file}": data for file, data in segment(0, kept, ".cleaned").items()}
    if disk == "committed":
        made[name(0, "txnindex") + ".cleaned"] = aborted_txns([(9, 3, 5, 6), (9, 6, 8, 9)])
    return [
        *(put(path, data) for path, data in made.items()),
        *suffixed(0, ".cleaned", ".swap"),
        *suffixed(0, "", ".deleted"), *suffixed(6, "", ".deleted"),
        renamed(name(6, "snapshot"), name(6, "snapshot") + ".deleted"),
        *suffixed(0, ".swap", ""),
        *unlinked(0), *unlinked(6), gone(name(6, "snapshot") + ".deleted"),
    ]  # fmt: skip


def retention(disk):
    """The oldest segments go."""
    return [*suffixed(0, "", ".deleted"), *unlinked(0), *suffixed(6, "", ".deleted"), *unlinked(6)]


def truncation(disk):
    """A follower gives up the active segment's end; what the leader has instead comes."""
    active, kept, first = (14, batch(14), 16) if disk == "killed" else (13, batch(13), 15)
    return [
        cut(name(active, "index"), 0), cut(name(active, "timeindex"), 0), cut(name(active, "log"), len(kept[0])),
        written(name(active, "log"), batch(first, 3)[0]), written(name(active, "log"), batch(first + 3, 5)[0]),
    ]  # fmt: skip


def truncated_segments(disk):
    """The same, back to the segment before."""
    active = 14 if disk == "killed" else 13
    return [*suffixed(active, "", ".deleted"), gone(name(active, "snapshot")), *unlinked(active),
            cut(name(6, "index"), 0), cut(name(6, "timeindex"), 0), gone(name(6, "txnindex")),
            cut(name(6, "log"), len(batch(6)[0]))]  # fmt: skip


def aborts(disk):
    """A transaction that is aborted: its records, the marker, the entry of the index."""
    active = 14 if disk == "killed" else 13
    mark = end_marker(END + 2, BASE_TIME_MS + END + 2, (9, 0), 0)
    return [
        written(name(active, "log"), batch(END, producer=(9, 0, 8), bits=0x10)[0]),
        written(name(active, "log"), mark),
        put(name(active, "txnindex"), b""),
        written(name(active, "txnindex"), aborted_txns([(9, END, END + 2, END + 3)])),
        put(name(END + 3, "snapshot"), producer_snapshot([(9, 0, 9, END + 1, 1, BASE_TIME_MS + END + 2, 0, -1)])),
    ]


def snapshots(disk):
    """Old snapshots go, a new one is written."""
    return [gone(name(base, "snapshot")) for base in (6, 13, 14)] + [put(name(END, "snapshot"), producer_snapshot([]))]


DONE = {
    "roll": lambda disk: roll(disk, END),
    "append": lambda disk: [
        written(name(14 if disk == "killed" else 13, "log"), batch(END + 2 * n)[0]) for n in range(3)
    ],
    "abort": aborts,
    "snapshots": snapshots,
    "clean": cleaning,
    "retention": retention,
    "truncate": truncation,
    "truncate segments": truncated_segments,
}
TAKING = ("clean", "retention", "truncate", "truncate segments", "snapshots")
"""After these a file or an offset may be gone that a reader was about to look at."""


class Stepping(WatchedFilesystem):
    """A broker is at work from the n-th call on: a step before each call, or all steps before that one."""

    def __init__(self, below, n, steps, *, at_once):
        super().__init__(below)
        self.n, self.steps, self.at_once, self.count = n, list(steps), at_once, 0
        self.turn = threading.Lock()  # readers call from several threads

    def before(self, call):
        with self.turn:
            self.count += 1
            while self.steps and self.count >= self.n:
                self.steps.pop(0)(self.below)
                if not self.at_once:
                    break


WIDE_READERS = {
    **READERS,
    "verify quick": ("verify", "--level", "quick", ROOT),
    "verify partition": ("verify", "--level", "deep", PARTITION),
    "dump-log deep": ("dump-log", "--strict", "--deep-iteration", PARTITION),
    "read": ("read", PARTITION),
    "read committed": ("read", "--isolation", "read_committed", PARTITION),
    "read from": ("read", PARTITION, "--from", "7"),
    "lookup-time at": ("lookup-time", PARTITION, str(BASE_TIME_MS + 9)),
    "ls partition": ("ls", PARTITION),
    **{f"dump-index {kind}": ("dump-index", None) for kind in ("index", "timeindex", "txnindex", "snapshot")},
}


def read_wide(fs, reader, disk):
    argv = WIDE_READERS[reader]
    if argv[-1] is None:  # the file of that kind that is busiest
        kind = reader.split()[1]
        base = {"killed": {"snapshot": 14, "txnindex": None}, "committed": {"txnindex": 6, "snapshot": 13}}[disk]
        argv = ("dump-index", name(base.get(kind, {"killed": 14, "committed": 13}[disk]), kind))  # type: ignore[attr-defined]
    return kafkalog(fs, *argv, now_ms=NOW_MS)


@pytest.mark.exhaustive
@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "step by step"])
@pytest.mark.parametrize("disk", ["killed", "committed"])
@pytest.mark.parametrize("done", DONE)
def test_a_reader_beside_a_busy_broker_reports_no_corruption(done, disk, at_once, evidence):
    """Every reader; nothing is corruption, nothing is an internal error, and nothing fails but for what is gone."""
    readers = [reader for reader in WIDE_READERS if (reader, disk) != ("dump-index txnindex", "killed")]
    base, steps, tried = busy_disk(disk), DONE[done](disk), 0
    for at, reader in enumerate(readers):
        counting = Stepping(base.image(SURVIVALS[0]), 0, (), at_once=True)
        assert read_wide(counting, reader, disk).code in (0, 3), reader
        stride = 1 if DIAL.scale > 1 else max(1, counting.count // 3)
        for n in range(1 + at % stride, counting.count + 1, stride):
            fs = Stepping(base.image(SURVIVALS[0]), n, steps, at_once=at_once)
            outcome = read_wide(fs, reader, disk)
            tried += 1
            assert outcome.code in (0, 1, 3, 5, 10), (reader, n, outcome)
            if outcome.code not in (0, 3):
                assert done in TAKING, (reader, n, outcome)
    evidence("R18", tried, len(READERS) * len(CHANGES) + len(DONE) * 4)


DELETED = f"{PARTITION}.0f6c8e1d2b3a49d0a1b2c3d4e5f60718-delete"


def topic_deletion(disk):
    """LogManager.asyncDelete: the directory gets another name, and is removed later."""
    names = sorted(entry.path.rpartition("/")[2] for entry in disk.list_directory(PARTITION))
    return [
        lambda disk: disk.rename(PARTITION, DELETED),
        *(lambda disk, name=name: disk.unlink(f"{DELETED}/{name}") for name in names),
        lambda disk: disk.remove_directory(DELETED),
    ]


@pytest.mark.exhaustive
@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "step by step"])
@pytest.mark.parametrize("reader", ["ls", "verify", "verify quick", "dump-index"])
def test_a_topic_is_deleted_while_its_log_directory_is_read(reader, at_once):
    """A partition that goes meanwhile makes no command over the log directory fail."""
    argv = {**WIDE_READERS, "dump-index": ("dump-index", ROOT)}[reader]
    base = busy_disk("committed")
    counting = Stepping(base.image(SURVIVALS[0]), 0, (), at_once=True)
    assert kafkalog(counting, *argv, now_ms=NOW_MS).code in (0, 3)
    for n in range(1, counting.count + 1, 1 if DIAL.scale > 1 else max(1, counting.count // 15)):
        disk = base.image(SURVIVALS[0])
        fs = Stepping(disk, n, topic_deletion(disk), at_once=at_once)
        outcome = kafkalog(fs, *argv, now_ms=NOW_MS)
        assert outcome.code in (0, 3), (n, outcome)
