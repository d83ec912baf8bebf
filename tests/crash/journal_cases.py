"""Made-up changes of all kinds on a partition in memory, and what each step of a plan leaves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from tests.support.memory_fs import START_NS, MemoryFilesystem
from tests.support.product import Cut, Drop, FileAttributes, Move, Put
from tests.support.product_journal import FileKind, LineEdit, RunInfo, apply

ROOT = "/logs"
PARTITION = "/logs/t-0"
OWN = f"{PARTITION}/.kafkalog"
RUN = RunInfo("20260101T000000Z-test-1", "test", ("kafkalog", "test"), 1_767_225_600_000, {"segment.bytes": 100})
RECOVERY_POINT = f"{ROOT}/{FileKind.RECOVERY_POINT_CHECKPOINT.value}"
CHECKPOINT = b"0\n2\nother 3 44\nt 0 600\n"


@dataclass(frozen=True)
class Bytes:
    """New content, given out in pieces."""

    data: bytes
    piece_bytes: int = 700

    @property
    def size_bytes(self) -> int:
        return len(self.data)

    def pieces(self) -> Iterator[bytes]:
        for at in range(0, len(self.data), self.piece_bytes):
            yield self.data[at : at + self.piece_bytes]


FILES = {
    "00.log": bytes(range(1, 251)) * 2,
    "00.index": b"\x01\x02" * 8 + bytes(9000) + b"end",
    "00.timeindex": b"times",
    "50.log": b"second segment" * 90,
    "50.index": b"index" * 5,
    "50.snapshot": b"producers",
    "odd \udcff\x1b.name": b"not ours",
}
NEW = Bytes(b"n" * 900 + bytes(8192) + b"tail")
OTHER = Bytes(b"other content" * 10)
EMPTY = Bytes(b"")
EDITS = (LineEdit(FileKind.RECOVERY_POINT_CHECKPOINT, "t", 0, 500),)

PLANS: dict[str, tuple[Any, ...]] = {
    "cut": (Cut("00.log", 500, 120),),
    "cut to nothing": (Cut("00.index", 9019, 0),),
    "cut of nothing, and move": (Cut("00.log", 500, 500), Move("50.log", "50.log.deleted")),
    "cut of zeros": (Cut("00.index", 9019, 20),),
    "two cuts": (Cut("50.log", 1260, 300), Cut("00.log", 500, 10)),
    "move": (Move("50.log", "50.log.deleted"),),
    "moves": (Move("50.log", "50.log.deleted"), Move("50.index", "50.index.deleted"), Move("00.log", "0.log")),
    "ring of moves": (Move("00.log", "x"), Move("50.log", "00.log"), Move("x", "50.log")),
    "drop": (Drop("50.log"),),
    "drops": (Drop("50.log"), Drop("50.index"), Drop("00.timeindex")),
    "new": (Put("60.log", NEW, False),),
    "new and empty": (Put("60.log", EMPTY, False), Put("60.index", OTHER, False)),
    "replaced": (Put("50.index", NEW, True),),
    "replaced by the same bytes": (Put("50.snapshot", Bytes(b"producers"), True),),
    "two replaced": (Put("50.index", OTHER, True), Put("00.index", EMPTY, True)),
    "moved and made anew": (Move("00.log", "00.log.deleted"), Put("00.log", OTHER, False)),
    "dropped and made anew": (Drop("00.log"), Put("00.log", OTHER, False)),
    "swap": (Put("00.log.swap", NEW, False), Drop("00.log"), Drop("50.log"), Put("00.index", OTHER, True)),
    "moved, then cut": (Move("50.log", "40.log"), Cut("40.log", 1260, 13)),
    "cut, moved, made anew": (Cut("50.log", 1260, 13), Move("50.log", "40.log"), Put("50.log", EMPTY, False)),
    "cut, then dropped": (Cut("50.log", 1260, 13), Drop("50.log")),
    "promoted": (Drop("50.log"), Move("50.index", "50.log"), Move("50.snapshot", "50.index")),
    "recovery": (
        Drop("50.snapshot"),
        Drop("50.log"),
        Drop("50.index"),
        Cut("00.log", 500, 120),
        Put("00.index", OTHER, True),
        Put("00.timeindex", EMPTY, True),
        Put("empty", EMPTY, False),
        Put("12.snapshot", OTHER, False),
    ),
}


def partition() -> MemoryFilesystem:
    """A log directory with one partition; files have all kinds of attributes."""
    fs = MemoryFilesystem()
    fs.add(RECOVERY_POINT, CHECKPOINT)
    fs.add(f"{ROOT}/.lock", b"")
    for at, (name, content) in enumerate(FILES.items()):
        attributes = FileAttributes(0o600 + at, 100 + at, 200, START_NS - at, (("user.x", b"%d" % at),) * (at % 2))
        fs.add(f"{PARTITION}/{name}", content, attributes)
    directory = fs.attributes(PARTITION)
    fs.set_attributes(PARTITION, directory._replace(mode=0o750, mtime_ns=START_NS - 77))
    fs.settle()
    return fs


def contents(fs: MemoryFilesystem) -> dict[str, bytes]:
    """The partition's files, without our own directory."""
    found = fs.tree(PARTITION, without=(OWN,))
    return {path.removeprefix(PARTITION + "/"): value[0] for path, value in found.items() if value[0] is not None}


def steps(changes: tuple[Any, ...]) -> list[dict[str, bytes]]:
    """The contents before the first change and after each: what the changes mean, in the simplest words."""
    found = [dict(FILES)]
    for change in changes:
        found.append(_after(found[-1], change))
    return found


def reachable(changes: tuple[Any, ...]) -> list[dict[str, bytes]]:
    """What a power cut may leave: between two cuts of files any of the changes of names, all before, none after.

    So it is before a log that takes its place, or leaves it, when another has left its own.
    """
    found, before, group = [], dict(FILES), []
    for change in (*changes, None):
        if change is not None and not isinstance(change, Cut) and not _must_wait(change, group):
            group.append(change)
            continue
        for size in range(len(group) + 1):
            found += [_after_all(before, chosen) for chosen in combinations(group, size)]
        before = _after_all(before, group)
        if isinstance(change, Cut):
            before = _after(before, change)
        group = [] if change is None or isinstance(change, Cut) else [change]
    return [contents for contents in found if contents is not None]


def reachable_by_undo(changes: tuple[Any, ...]) -> list[dict[str, bytes]]:
    """What a power cut may leave of an undo that went back over all changes; of the files that are cut only the names."""
    found, group = [], []
    for at in range(len(changes), -1, -1):
        if at and not _must_wait_back(changes[at - 1], group):
            group.insert(0, changes[at - 1])
            continue
        start = at  # those before are still made, those behind the group are not
        for size in range(len(group) + 1):
            found += [_after_all(dict(FILES), (*changes[:start], *chosen)) for chosen in combinations(group, size)]
        group = [] if not at else [changes[at - 1]]
    found += [_after_all(dict(FILES), chosen) for size in range(len(group) + 1) for chosen in combinations(group, size)]
    return [without_cuts(contents, changes) for contents in found if contents is not None]


def _must_wait_back(change: Any, group: Sequence[Any]) -> bool:
    """As `_must_wait`, for changes that are taken back."""
    filled = "" if isinstance(change, Cut) or (isinstance(change, Put) and not change.replaces) else change.name
    leaving = _leaves_when_taken_back(change)
    return _other_log_left([filled, leaving], [_leaves_when_taken_back(one) for one in group])


def _leaves_when_taken_back(change: Any) -> str:
    if isinstance(change, Move):
        return change.new_name
    return change.name if isinstance(change, Put) else ""


def _must_wait(change: Any, group: Sequence[Any]) -> bool:
    """Whether this brings a log to a name, or takes one away, and one of these took one from its own."""
    filled = change.new_name if isinstance(change, Move) else change.name if isinstance(change, Put) else ""
    return _other_log_left([filled, _leaves(change)], [_leaves(one) for one in group])


def _leaves(change: Any) -> str:
    is_leaving = isinstance(change, (Move, Drop)) or (isinstance(change, Put) and change.replaces)
    return change.name if is_leaving else ""


def _other_log_left(names: Sequence[str], left: Sequence[str]) -> bool:
    """Whether one of `names` is a log's, and a log has left another name than these."""
    is_log = any(name.endswith(".log") for name in names)
    return is_log and any(name.endswith(".log") and name not in names for name in left)


def _after_all(before: dict[str, bytes], changes: Sequence[Any]) -> dict[str, bytes] | None:
    for change in changes:
        try:
            before = _after(before, change)
        except KeyError:
            return None
    return before


def _after(before: dict[str, bytes], change: Any) -> dict[str, bytes]:
    now = dict(before)
    if isinstance(change, Cut):
        now[change.name] = now[change.name][: change.to_bytes]
    elif isinstance(change, Move):
        now[change.new_name] = now.pop(change.name)
    elif isinstance(change, Drop):
        del now[change.name]
    else:
        now[change.name] = change.content.data
    return now


def without_cuts(contents: dict[str, bytes], changes: tuple[Any, ...]) -> dict[str, bytes]:
    """Of the files that are cut only the names: an undo fills them in several steps."""
    cut = {change.name for change in changes if isinstance(change, Cut)}
    cut |= {change.new_name for change in changes if isinstance(change, Move) and change.name in cut}
    return {name: b"" if name in cut else data for name, data in contents.items()}


def run_plan(fs: Any, changes: tuple[Any, ...], *, with_lines: bool = True, **options: Any) -> Any:
    """Apply a plan, with the partition's recovery point."""
    edits = EDITS if with_lines else ()
    return apply(fs, PARTITION, changes, run=RUN, log_dir=ROOT, edits=edits, **options)
