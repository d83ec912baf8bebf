"""Compare two replicas of a partition: where they diverge, and which is more complete (`verify --against`)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from kafkalog_cli.disk.names import DirectoryKind
from kafkalog_cli.format.batch import Batch
from kafkalog_cli.format.columns import is_many
from kafkalog_cli.format.limits import Limits
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops.check.checks.diagnose import Finding, finding
from kafkalog_cli.ops.check.checks.finding_kinds import FindingKind
from kafkalog_cli.ops.check.verify.replica_side import Head, LogFacts, ReplicaSide
from kafkalog_cli.ops.steps import (
    MOVE_AWAY,
    REPLICATE,
    Argv,
    Step,
    Steps,
    Word,
    on_condition,
    path_word,
    together,
)

_COMPARED = (1, 2, 3, 4, 5, 6, 14)
"""Columns that identify a batch: size, both offsets, leader epoch, magic, CRC, and whether the CRC is right."""


def compare(
    ours: Partition, theirs: Partition, limits: Limits, is_compacted: bool | None, log_start: int
) -> tuple[Finding, ...]:
    """Compare two directories of one partition, batch by batch and, where batches differ, record by record.

    A batch that only one replica has is not a divergence: compaction, deletion or a later end may explain it. Nor are
    other segment boundaries, and batches that the cleaner made smaller. Where `is_compacted` and `log_start` exclude
    compaction and deletion, the replica without the batch has missing records. If no source knows whether the topic is
    compacted (None), the signs of the cleaner in the replica decide. The last finding says which replica to keep, if
    they could be compared. Raises nothing for damage in the logs.
    """
    problem = _cannot_compare(ours, theirs)
    if problem:
        return (not_compared(ours.path, problem),)
    with ReplicaSide.of(ours, limits) as left, ReplicaSide.of(theirs, limits) as right:
        found = compare_sides(left, right, is_compacted, log_start)
    if left.shared:
        found.append(more_complete(ours.path, left, right))
    return tuple(found)


def compare_sides(left: ReplicaSide, right: ReplicaSide, is_compacted: bool | None, log_start: int) -> list[Finding]:
    """Return the differences, and read both sides to their ends."""
    difference = _first_difference(left, right)
    found = [] if difference is None else [_diverged(difference)]
    left.drain()
    right.drain()
    sides = ((left, right), (right, left))
    missing = [one for here, there in sides for one in _missing(here, there, is_compacted, log_start)]
    found += missing
    found += _behind(left, right)
    if not missing and (left.only_here or right.only_here):
        found.append(_gone(left, right))
    if not left.shared and difference is None and not (left.log.is_empty and right.log.is_empty):
        found.append(_nothing_shared(left.log, right.log))
    return found


def more_complete(path: str, *sides: ReplicaSide) -> Finding:
    """Return the finding that says which replica to keep."""
    contents = "; ".join(f"{side.log.place}: {side.words}" for side in sides)
    neither = "neither" if len(sides) == len(("ours", "theirs")) else "none"
    better = max(sides, key=lambda side: (side.log.rank, not side.unexplained))
    further = next((side.log for side in sides if _is_damaged_and_longer(side.log, better.log)), None)
    if further is not None:
        step = f"salvage {further.place} (recover --salvage OUT) before it is given up"
        words = f"{neither} is more complete, the damaged one reaches further: {contents}; {step}"
    else:
        is_alike = len({(side.log.rank, bool(side.unexplained)) for side in sides}) == 1
        words = f"{neither if is_alike or better.unexplained else better.log.place} is more complete: {contents}"
    return finding(FindingKind.MORE_COMPLETE, path, words)


def is_other_name(partition: Partition) -> bool:
    """Whether the directory's name is not a partition's, as a backup's may be: orders-0.bak, backup."""
    return partition.directory.kind is DirectoryKind.OTHER


def not_compared(path: str, why: str, steps: Steps = (), *, kind: FindingKind = FindingKind.NOT_COMPARED) -> Finding:
    """Return a finding that says why nothing was compared."""
    return finding(kind, path, f"not compared: {why}", steps=steps)


def _nothing_shared(ours: LogFacts, theirs: LogFacts) -> Finding:
    for here, there in ((ours, theirs), (theirs, ours)):
        if here.is_empty:
            return not_compared(here.place, f"the log of {here.place} has no valid batch", _restored_from(there))
    ranges = (f"{log.start_offset} to {log.end_offset}" for log in (ours, theirs))
    return not_compared(ours.place, "the logs have no batch in common: offsets " + " and ".join(ranges))


def _restored_from(other: LogFacts) -> Steps:
    """Return the steps that give a directory (PATH) the records that its other replica has."""
    copy: Argv = ("cp", "-a", path_word(other.path), Word.PATH)
    if other.host:
        copy = ("rsync", "-a", f"{other.place.rstrip('/')}/", Word.PATH)
    return (
        *on_condition("if the other replica is in sync", REPLICATE),
        together([MOVE_AWAY, copy], "restore it from the other", "Else"),
    )


def _cannot_compare(ours: Partition, theirs: Partition) -> str:
    if any(segment.is_v07 for segment in (*ours.segments, *theirs.segments)):
        return "logs of Kafka 0.7 have no replicas"
    if os.path.realpath(ours.path) == os.path.realpath(theirs.path):
        return f"{ours.path} and {theirs.path} are the same directory"
    own, other = ours.topic_id, theirs.topic_id
    is_one_topic = own is not None and own == other
    has_other_name = is_other_name(ours) or is_other_name(theirs)
    is_same = ours.number == theirs.number and (ours.topic == theirs.topic or is_one_topic)
    is_copy = is_one_topic and (_is_named_after(ours.name, theirs.name) or _is_named_after(theirs.name, ours.name))
    if not (is_same or is_copy or has_other_name):
        return f"{ours.name} and {theirs.name} are different partitions"
    return of_other_topics(ours.name, own, theirs.name, other)


def of_other_topics(name: str, topic_id: str | None, other_name: str, other_id: str | None) -> str:
    """Return why two directories with these topic ids are not compared, "" if the ids do not differ."""
    if topic_id is None or other_id is None or topic_id == other_id:
        return ""
    return f"{name} and {other_name} are of different topics: the topic ids are {topic_id} and {other_id}"


def _is_named_after(copy: str, name: str) -> bool:
    """Whether a name begins with that of a partition, as a backup's may do: orders-0-2026, orders-0.bak-2026-11-27."""
    return copy.startswith(name) and not copy[len(name) :][:1].isdigit()


# ---- both replicas together


class _Difference(NamedTuple):
    """The first offset at which the replicas differ, the difference in words, and the batches that hold the offset."""

    offset: int
    message: str
    ours: Head
    theirs: Head


def _first_difference(left: ReplicaSide, right: ReplicaSide) -> _Difference | None:
    while True:
        _skip_alike(left, right)
        ours, theirs = left.head(), right.head()
        if ours is None or theirs is None:
            _note_lost_end(left, right)
            _note_lost_end(right, left)
            return None
        if not _is_same(ours.batch, theirs.batch):
            ours, theirs = left.exact(ours), right.exact(theirs)
        if ours.batch.last_offset < theirs.first:
            left.only_here += right.lacks(ours)
            left.step()
        elif theirs.batch.last_offset < ours.first:
            right.only_here += left.lacks(theirs)
            right.step()
        else:
            left.shared += 1
            difference = _differ(left, right, ours, theirs)
            if difference is not None:
                return difference
            end = min(ours.batch.last_offset, theirs.batch.last_offset)
            for side, head in ((left, ours), (right, theirs)):
                if head.batch.last_offset == end:
                    side.step()


def _note_lost_end(here: ReplicaSide, there: ReplicaSide) -> None:
    """Note the batches after the last batch of `here`, below the name of its last segment, that only `there` has."""
    while (head := there.head()) is not None and head.batch.last_offset < here.log.named_end:
        there.only_here += here.lacks(there.exact(head))
        there.step()


def _skip_alike(left: ReplicaSide, right: ReplicaSide) -> None:
    """Skip batches that are the same on both sides, many at once if both sides have column matrices."""
    columns = list(_COMPARED)
    while left.batch_run is not None and right.batch_run is not None:
        ours, theirs = left.batch_run.batches, right.batch_run.batches
        rows = min(len(left.batch_run.batches) - left.row, len(right.batch_run.batches) - right.row)
        if not rows:
            if left.head() is None or right.head() is None:
                return
            continue
        if not is_many(rows):
            return
        parts = (
            ours.array()[columns, left.row : left.row + rows],
            theirs.array()[columns, right.row : right.row + rows],
        )
        alike = (parts[0] == parts[1]).all(axis=0)
        same = rows if alike.all() else int(alike.argmin())
        left.step(same)
        right.step(same)
        left.shared += same
        if same < rows:
            return


def _differ(left: ReplicaSide, right: ReplicaSide, ours: Head, theirs: Head) -> _Difference | None:
    """Return the difference between two batches that share offsets.

    None if the records at shared offsets are the same.
    """
    a, b = ours.batch, theirs.batch
    first = max(ours.first, theirs.first)
    if a.magic >= 2 and b.magic >= 2 and a.leader_epoch != b.leader_epoch:
        message = f"from offset {first} on the leader epoch is {a.leader_epoch} here and {b.leader_epoch} there"
        return _Difference(first, message, ours, theirs)
    if _is_same(a, b):
        return None
    own, other = left.digests_of(ours), right.digests_of(theirs)
    if own is None or other is None:
        return _Difference(first, f"the batches at offset {first} differ, and not both can be read", ours, theirs)
    offset = own.first_different(other)
    if offset is None:
        return None
    return _Difference(offset, f"the records at offset {offset} differ", ours, theirs)


def _is_same(one: Batch, other: Batch) -> bool:
    names = ("size_bytes", "base_offset", "last_offset", "magic", "crc")
    return all(getattr(one, name) == getattr(other, name) for name in names)


def _diverged(difference: _Difference) -> Finding:
    ours, theirs = difference.ours.batch, difference.theirs.batch
    # OffsetsForLeaderEpoch: a follower finds the other epoch, and truncates its log there (KIP-101, KIP-279).
    is_of_epochs = ours.magic >= 2 and theirs.magic >= 2 and ours.leader_epoch != theirs.leader_epoch
    return finding(
        FindingKind.DIVERGED,
        difference.ours.path,
        f"the replicas diverge: {difference.message}; there: {difference.theirs.path} at byte {theirs.position}",
        position=ours.position,
        expected=_words(theirs),
        got=_words(ours),
        offsets=(difference.offset, max(ours.last_offset, theirs.last_offset)),
        broker_effect=_CUT_BY_EPOCH if is_of_epochs else "",
        steps=(KEEP_A_COPY,) if is_of_epochs else (),
    )


_CUT_BY_EPOCH = "a follower cuts its log off at the first batch of another leader epoch, and fetches the leader's"
KEEP_A_COPY = Step("copy the follower's directory to another disk before its broker starts, if its batches are needed")


def _words(batch: Batch) -> str:
    return f"last offset {batch.last_offset}, crc {batch.crc}, leader epoch {batch.leader_epoch}"


def _is_damaged_and_longer(log: LogFacts, other: LogFacts) -> bool:
    """Whether a damaged log reaches further than the other, which has no damage."""
    is_further = (log.last_epoch, log.end_offset) > (other.last_epoch, other.end_offset)
    return log.damaged > 0 and not other.damaged and is_further


def _behind(ours: ReplicaSide, theirs: ReplicaSide) -> Iterator[Finding]:
    """Yield a finding if one replica is less complete than the other, with the difference."""
    if ours.log.rank == theirs.log.rank:
        return
    less, more = sorted((ours, theirs), key=lambda side: side.log.rank)
    how = "less complete than"
    if _is_damaged_and_longer(less.log, more.log):
        less, more, how = more, less, "ends before"
    message = f"{how} {more.log.place}: {less.words}; there: {more.words}"
    end, other_end = less.log.end_offset, more.log.end_offset
    offsets = (end, other_end - 1) if end < other_end else None
    yield finding(FindingKind.REPLICA_BEHIND, less.log.place, message, offsets=offsets)


def _missing(here: ReplicaSide, there: ReplicaSide, is_compacted: bool | None, log_start: int) -> Iterator[Finding]:
    """Yield a finding about offsets missing in `here` that neither compaction nor deletion explains; count them."""
    lost = here.missing
    is_explained = here.log.cleaned_to > 0 if is_compacted is None else is_compacted
    if not lost.ranges or is_explained or lost.reached < log_start:
        return
    message = f"offsets {lost.first} to {lost.last} are missing, and {there.log.place} has them"
    if lost.ranges > 1:
        message += f"; {lost.ranges} gaps of {lost.offsets} offsets in all"
    here.unexplained = lost.offsets
    expected, got = f"batches with offsets {lost.first} to {lost.last}", "no batch"
    offsets = (lost.first, lost.last)
    steps = _restored_from(there.log)
    yield finding(
        FindingKind.RECORDS_MISSING, here.log.place, message, expected=expected, got=got, offsets=offsets, steps=steps
    )


def _gone(ours: ReplicaSide, theirs: ReplicaSide) -> Finding:
    counts = f"{ours.only_here} batches are only here, {theirs.only_here} only in {theirs.log.place}"
    message = f"of offsets that both logs reach, {counts}: cleaning went further on one side, or batches are missing"
    return finding(FindingKind.NOT_COMPARABLE, ours.log.place, message)
