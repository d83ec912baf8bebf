"""Planned changes of the files of a partition, in an order that is safe for a broker that starts in between."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kafkalog_cli.disk.durable import Content
from kafkalog_cli.disk.names import SEGMENT_KINDS, FileKind, WorkState, classify_file, segment_file_name


@dataclass(frozen=True, slots=True)
class Cut:
    """Shorten `name` in place, from `from_bytes` to `to_bytes`."""

    name: str
    from_bytes: int
    to_bytes: int


@dataclass(frozen=True, slots=True)
class Move:
    """Rename the file `name`, which an earlier Put may have written, to `new_name`, which is free at that time."""

    name: str
    new_name: str


@dataclass(frozen=True, slots=True)
class Drop:
    """Remove the file."""

    name: str


@dataclass(frozen=True, slots=True)
class Put:
    """Write a file. `replaces`: the file replaces an existing file of this name; otherwise the name is free."""

    name: str
    content: Content
    replaces: bool

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the name and the size but not the content: the process that makes the bytes also writes them."""
        return Put, (self.name, Staged(self.name, self.content.size_bytes), self.replaces)


@dataclass(frozen=True, slots=True)
class Staged(Content):
    """Content that a run has already written into its own directory, as a file called `name`."""

    name: str
    size_bytes: int

    def pieces(self) -> Iterator[bytes]:
        """Raise NotImplementedError: the journal renames the staged file and never reads its bytes here."""
        raise NotImplementedError


Change = Cut | Move | Drop | Put
"""One change of a plan. The changes are made in the order of the plan."""


def in_log_order(changes: Iterable[Change]) -> tuple[Change, ...]:
    """Sort the changes of a draft so that the directory always contains a segment.

    The order is:

    1. drops that free a name for a later change;
    2. new files, and the files of segments whose log is written;
    3. renames, from the start of the log;
    4. other drops, from the end of the log;
    5. cuts;
    6. other replaced files, which describe the rest.

    The log of a segment is changed before its indexes: a broker removes an index without a log, but it would
    recover a log without an index.
    """
    found = list(changes)
    puts = [change for change in found if isinstance(change, Put)]
    new_logs = {change.name for change in puts if change.name.endswith(FileKind.LOG.value)}
    early = [put for put in puts if not put.replaces or _log_name(put.name) in new_logs]
    moves = [change for change in found if isinstance(change, Move)]
    drops = [change for change in found if isinstance(change, Drop)]
    taken = {move.new_name for move in moves} | {put.name for put in puts}
    freeing = [drop for drop in drops if drop.name in taken]
    return (
        *freeing,
        *sorted(early, key=lambda put: _rank(put.name)),
        *sorted(moves, key=lambda move: _rank(move.name)),
        *sorted((drop for drop in drops if drop not in freeing), key=lambda drop: _rank(drop.name, is_reversed=True)),
        *(change for change in found if isinstance(change, Cut)),
        *(put for put in puts if put not in early),
    )


def keeping(changes: Iterable[Change]) -> tuple[Change, ...]:
    """Return the changes with each rename to `.deleted` turned into a drop.

    The journal keeps a dropped file in the run's directory, which no broker reads.
    Other changes of names that end in `.deleted` are left out.
    """
    suffix = WorkState.DELETED.value
    found: list[Change] = []
    for change in changes:
        if isinstance(change, Move) and change.new_name.endswith(suffix):
            found.append(Drop(change.name))
        elif not change.name.endswith(suffix):  # such a change would only prepare a file for its deletion
            found.append(change)
    return tuple(found)


def _log_name(name: str) -> str | None:
    """Return the name of the log of the segment that the file belongs to; None if it belongs to no segment."""
    found = classify_file(name)
    is_of_segment = found.kind in SEGMENT_KINDS and found.offset is not None
    return segment_file_name(found.offset or 0, FileKind.LOG, found.state) if is_of_segment else None


def _rank(name: str, *, is_reversed: bool = False) -> tuple[int, bool, str]:
    found = classify_file(name)
    offset = 0 if found.offset is None else found.offset
    return -offset if is_reversed else offset, found.kind not in (FileKind.LOG, FileKind.SEVEN_LOG), name
