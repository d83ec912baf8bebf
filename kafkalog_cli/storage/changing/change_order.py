"""The order in which the changes of a log are made, so that a broker that starts in between finds a log."""

from __future__ import annotations

from collections.abc import Iterable

from kafkalog_cli.storage.changing.changes import Change, Cut, Drop, Move, Put
from kafkalog_cli.storage.names import SEGMENT_KINDS, FileKind, WorkState, classify_file, segment_file_name


def in_log_order(changes: Iterable[Change]) -> tuple[Change, ...]:
    """What a draft wants, a new segment first, so that there always is one.

    Then what goes: renamed from the log's start on, taken away from its end on, the log of a segment before its
    indexes (without a log a broker removes them, without an index it would recover the log); then cuts, and at
    last files that are written anew, which describe the rest.
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
    """The same, but what would wait as `.deleted` goes into the run's directory, where no broker looks."""
    suffix = WorkState.DELETED.value
    found: list[Change] = []
    for change in changes:
        if isinstance(change, Move) and change.new_name.endswith(suffix):
            found.append(Drop(change.name))
        elif not change.name.endswith(suffix):  # else it gives one that goes its last form
            found.append(change)
    return tuple(found)


def _log_name(name: str) -> str | None:
    """The log of the segment that an index belongs to."""
    found = classify_file(name)
    is_of_segment = found.kind in SEGMENT_KINDS and found.offset is not None
    return segment_file_name(found.offset or 0, FileKind.LOG, found.state) if is_of_segment else None


def _rank(name: str, *, is_reversed: bool = False) -> tuple[int, bool, str]:
    found = classify_file(name)
    offset = 0 if found.offset is None else found.offset
    return -offset if is_reversed else offset, found.kind not in (FileKind.LOG, FileKind.SEVEN_LOG), name
