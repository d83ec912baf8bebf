"""The commands that change partitions, run on a disk in memory: the whole command line.

One that is new is a row of WRITERS; its kind says what the tests ask of a disk on which it was cut off.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, unique
from typing import NamedTuple

from tests.crash.log_directories import BASE_TIME_MS, FIXTURES, OWN, PARTITION, ROOT, SOUND, log_directory
from tests.support import commands
from tests.support.memory_fs import SURVIVALS, MemoryFilesystem
from tests.support.product_journal import as_in_a_process

NOW_MS = 1_795_000_000_000
MONTH_MS = 30 * 86_400_000
SETTINGS = ("--config", "segment.index.bytes=4096", "--config", "index.interval.bytes=100")
RUN_TIME = "20261118T110640.000Z"
RUN_ID = f"{RUN_TIME}-recover-0001"
OUT = "/out"
KEPT = SURVIVALS[0]


class Outcome(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


def kafkalog(fs: object, *argv: str, now_ms: int = NOW_MS, token: str = "0001", stdin: bytes = b"") -> Outcome:
    """Run a command line. Its run is named by the time and `token`: two runs at one time need two. It looks again without a pause."""
    how = {"now_ms": lambda: now_ms, "sleep": lambda _: None, "stdin": stdin, "errors": "replace"}
    with as_in_a_process(token):
        return Outcome(*commands.kafkalog(*argv, fs=fs, **how))


@unique
class Kind(Enum):
    """What a command is, and so what another run, `recover` and `undo` must make of a disk on which it was cut off."""

    REPAIRS = "repairs"  # ends where the whole run would have, from wherever it was cut off
    CHANGES = "changes"  # of sound logs: what goes, goes from one side, and `undo` gives back what was before
    FREES = "frees"  # the same, at once and for good, and told when it is done
    CLEANS = "cleans"  # whole segments are made anew, of what stays of them
    UNDOES = "undoes"
    REMOVES = "removes"  # what nothing refers to any more
    COPIES = "copies"  # into a directory of its own; nothing else is touched
    APPENDS = "appends"  # behind what is there, so that a part of it may be left, and a second run appends it again
    MAKES = "makes"  # a partition that is not there, and appends to it


@unique
class Left(Enum):
    """What is left of the records of a log, however far a command came."""

    ALL = "all"
    BEGINNING = "beginning"
    END = "end"


@dataclass(frozen=True)
class Writer:
    """A command: `argv` without options that do not matter; `codes` are the exit codes of a run that did it all.

    `codes_again`: also of a run that has nothing left to do. `keeps_marker`: of a clean shutdown, all the time. `comes_back`: with `undo`.
    """

    name: str
    kind: Kind
    argv: tuple[str, ...]
    now_ms: int = NOW_MS
    codes: frozenset[int] = frozenset({0})
    codes_again: frozenset[int] = frozenset()
    left: Left = Left.ALL
    keeps_marker: bool = False
    comes_back: bool = True
    stdin: bytes = b""

    @property
    def fixtures(self) -> tuple[str, ...]:
        """The log directories on which it has something to do."""
        if self.kind is Kind.CLEANS:
            return ("keyed", "committed", "old", "killed")
        if self.kind is Kind.MAKES:
            return ("sound", "killed")
        return tuple(SOUND if self.kind in (Kind.CHANGES, Kind.FREES, Kind.APPENDS) else FIXTURES)

    @property
    def run_id(self) -> str:
        """Of its first run, or of the one that it takes back or away."""
        if self.kind in (Kind.UNDOES, Kind.REMOVES):
            return RUN_ID
        return f"{RUN_TIME}-{self.argv[0]}-0001"

    def act(self, fs: object, *more: str, token: str = "0001") -> Outcome:
        return kafkalog(fs, *self.argv, *more, now_ms=self.now_ms, token=token, stdin=self.stdin)

    def disk(self, fixture: str) -> MemoryFilesystem:
        """A disk on which it has something to do: undo and purge need a run, purge one that is old."""
        return _disk(self, fixture).image(KEPT)


@functools.cache
def _disk(writer: Writer, fixture: str) -> MemoryFilesystem:
    fs = log_directory(fixture)
    if writer.kind is Kind.FREES:  # never touches a log that was compacted
        fs.add(f"{ROOT}/cleaner-offset-checkpoint", b"0\n1\nelse 0 6\n")
    for path, keys in KEY_FILES.items():
        if path in writer.argv:
            fs.add(path, keys)
    if writer.kind in (Kind.UNDOES, Kind.REMOVES):
        assert RECOVER.act(fs).code == 0
        assert fs.status(f"{OWN}/{RUN_ID}") is not None
    if writer.kind is Kind.REMOVES:
        fs.add(f"{PARTITION}/{300:020d}.log.deleted", b"gone")
        fs.add(f"{PARTITION}/{300:020d}.index.deleted", b"")
    fs.settle()
    return fs


RECOVER = Writer("recover", Kind.REPAIRS, ("recover", ROOT, *SETTINGS))
LIKE_BROKER = Writer("like-broker", Kind.REPAIRS, ("recover", "--like-broker", ROOT, *SETTINGS))
INDEXES_ONLY = Writer("indexes-only", Kind.REPAIRS, ("recover", "--indexes-only", ROOT, *SETTINGS))
SALVAGE = Writer("salvage", Kind.COPIES, ("recover", "--salvage", OUT, ROOT, *SETTINGS), codes=frozenset({0, 3, 4}))
UNDO = Writer("undo", Kind.UNDOES, ("undo", ROOT, RUN_ID))
PURGE = Writer("purge", Kind.REMOVES, ("purge", ROOT), NOW_MS + MONTH_MS)
REPAIRERS = (RECOVER, LIKE_BROKER, INDEXES_ONLY, SALVAGE, UNDO, PURGE)


def _retains(name: str, *options: str, kind: Kind = Kind.CHANGES, **more: object) -> Writer:
    # The topic is named alone: the policy of the command line overrides lines of cleaner-offset-checkpoint then.
    argv = ("retain", ROOT, *SETTINGS, "--topic", "t", "--config", "cleanup.policy=delete", *options)
    return Writer(name, kind, argv, left=Left.END, keeps_marker=True, **more)


def _truncates(name: str, offset: int) -> Writer:
    """Where the offset is in a batch the log ends before it: another time it is outside the log."""
    argv = ("truncate", PARTITION, "--to", str(offset), "--single-replica", *SETTINGS)
    return Writer(name, Kind.CHANGES, argv, left=Left.BEGINNING, codes_again=frozenset({0, 1}))


def _deletes(name: str, offset: int) -> Writer:
    argv = ("delete-records", PARTITION, "--before", str(offset), "--single-replica", *SETTINGS)
    return Writer(name, Kind.CHANGES, argv, left=Left.END, keeps_marker=True)


UP_TO_10_MS = ("--config", f"retention.ms={NOW_MS - BASE_TIME_MS - 10}")
ROLL = Writer("roll", Kind.CHANGES, ("roll", ROOT, "--force", *SETTINGS))
RETAIN = _retains("retain", *UP_TO_10_MS)
RETAIN_NOTHING = _retains("retain-nothing", "--config", "retention.bytes=0")
RETAIN_AND_KEEP = _retains("retain-and-keep", "--config", "retention.bytes=0", "--keep")
RETAIN_AT_ONCE = _retains("retain-at-once", *UP_TO_10_MS, "--delay", "0s", comes_back=False)
NOT_TIERED = ("--config", "remote.storage.enable=false")
FREE = _retains(
    "free", "--free-bytes", "2000000MB", *NOT_TIERED, kind=Kind.FREES, codes=frozenset({13}), comes_back=False
)
TRUNCATE = _truncates("truncate", 6)
TRUNCATE_IN_A_BATCH = _truncates("truncate-in-a-batch", 17)
TRUNCATE_FULLY = _truncates("truncate-fully", 3)
DELETE_RECORDS = _deletes("delete-records", 15)
DELETE_ALL_RECORDS = _deletes("delete-all-records", -1)
_COMPACTS = ("compact", ROOT, *SETTINGS, "--config", "cleanup.policy=compact", "--config", "segment.bytes=320")
COMPACT = Writer("compact", Kind.CLEANS, (*_COMPACTS, "--config", "min.cleanable.dirty.ratio=0"), keeps_marker=True)
KEYS, KEYS_OF_CLOSED_SEGMENTS = "/keys", "/keys-of-closed-segments"
KEY_FILES = {KEYS: b"k1\ne\nx\nb\nk16\n", KEYS_OF_CLOSED_SEGMENTS: b"k1\nk9\ne\nd\n"}
ERASE = Writer(
    "erase",
    Kind.CLEANS,
    (*_COMPACTS, "--config", "min.cleanable.dirty.ratio=1", "--erase-keys", KEYS, "--input", "lines"),
    codes=frozenset({0, 3}),  # what is in the active segment stays
    keeps_marker=True,
    comes_back=False,
)


def _erases_only(name: str, keys: str, *, keeps_marker: bool) -> Writer:
    """An erasure from a topic that is not compacted."""
    argv = ("compact", ROOT, "--topic", "t", *SETTINGS, "--erase-keys", keys, "--input", "lines")
    options = {"codes": frozenset({0, 3}), "comes_back": False}
    return Writer(name, Kind.CLEANS, argv, keeps_marker=keeps_marker, **options)


ERASE_ONLY = _erases_only("erase-only", KEYS_OF_CLOSED_SEGMENTS, keeps_marker=True)
ROLL_AND_ERASE = _erases_only("roll-and-erase", KEYS, keeps_marker=False)
CHANGERS = (
    *(ROLL, RETAIN, RETAIN_NOTHING, RETAIN_AND_KEEP, RETAIN_AT_ONCE, FREE),
    *(
        TRUNCATE,
        TRUNCATE_IN_A_BATCH,
        TRUNCATE_FULLY,
        DELETE_RECORDS,
        DELETE_ALL_RECORDS,
        COMPACT,
        ERASE,
        ERASE_ONLY,
        ROLL_AND_ERASE,
    ),
)
WRITERS = (*REPAIRERS, *CHANGERS)


def _appends(name: str, count: int, *options: str) -> Writer:
    """Small batches: a segment takes a few, so that others begin."""
    lines = b"".join(b"key %d:appended %d\n" % (at, at) for at in range(count))
    argv = ("append", PARTITION, "--input", "lines", "--key-separator", ":", "--single-replica", "--batch-bytes", "150")
    return Writer(name, Kind.APPENDS, (*argv, *SETTINGS, *options), stdin=lines)


APPEND = _appends("append", 2)
APPEND_AND_ROLL = _appends("append-and-roll", 12, "--config", "internal.segment.bytes=500")
APPEND_AND_FLUSH = _appends("append-and-flush", 9, "--config", "flush.messages=1")
ABORT = _appends("abort", 3, "--producer-id", "8", "--transaction", "abort", "--config", "segment.ms=1")
NEW = f"{ROOT}/new-3"
NEW_ID = "kFQ3lUTFSsWWjXbfvbOpDw"
MAKE = Writer(
    "make",
    Kind.MAKES,
    ("append", NEW, "--input", "lines", "--topic-id", NEW_ID, "--single-replica", *SETTINGS),
    stdin=b"one\ntwo\n",
)
APPENDERS = (APPEND, APPEND_AND_ROLL, APPEND_AND_FLUSH, ABORT, MAKE)
APPENDS = tuple((writer, name) for writer in APPENDERS for name in writer.fixtures)
CASES = tuple((writer, name) for writer in WRITERS for name in writer.fixtures)


def ids(cases: Iterable[tuple[Writer, str]]) -> list[str]:
    """Names of cases for people."""
    return [f"{writer.name}-{name}" for writer, name in cases]


def runs_of(fs: MemoryFilesystem) -> list[str]:
    """The partition's runs, newest first."""
    if fs.status(OWN) is None:
        return []
    names = (entry.path.rpartition("/")[2] for entry in fs.list_directory(OWN) if entry.is_directory)
    return sorted(names, reverse=True)


def undo_all(fs: MemoryFilesystem) -> None:
    """Take all runs back, the newest first; with one those go that never began."""
    for run_id in runs_of(fs):
        if run_id not in runs_of(fs):
            continue
        outcome = kafkalog(fs, "undo", ROOT, run_id)
        assert outcome.code == 0, outcome
