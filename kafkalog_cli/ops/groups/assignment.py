"""Assigns partitions to the members of a group by ranges, as consumers have done since Kafka 0.7 (RangeAssignor)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from kafkalog_cli.disk.names import DirectoryKind, DirectoryName
from kafkalog_cli.ops.coordinators import LogDirs
from kafkalog_cli.ops.groups.describe import GroupDescription
from kafkalog_cli.ops.selection import partitions_taken
from kafkalog_cli.ops.tables.groups import GroupMember


class RangeAssignment(NamedTuple):
    """The partitions of a topic that the range assignor gives to a member, and the partitions that it owns now."""

    group_id: str
    topic: str
    member: GroupMember
    partitions: tuple[int, ...]
    owned: tuple[int, ...]


def ranges_of(partitions: Sequence[int], members: int) -> list[tuple[int, ...]]:
    """Divide partitions among members: member i gets the partitions from i·N to (i+1)·N-1, N = partitions / members.

    If the division leaves a rest, each of the first members gets one more.
    """
    each, rest = divmod(len(partitions), members)
    starts = [member * each + min(member, rest) for member in range(members + 1)]
    return [tuple(partitions[start:end]) for start, end in pairwise(starts)]


def assign_ranges(log_dirs: LogDirs, described: GroupDescription) -> Iterator[RangeAssignment]:
    """Yield what a rebalance of the group's members would give to each, by topic and in the order of the assignor.

    The metadata log has the partitions of a topic; without it, the log directories have them. Static members come
    first, by instance id; the others follow by member id. Raises as `partitions_taken`.
    """
    subscribed = {topic for one in described.members for topic in one.member.subscribed_topics or ()}
    for topic in sorted(subscribed):
        members = [one for one in described.members if topic in (one.member.subscribed_topics or ())]
        members.sort(key=lambda one: _place(one.member))
        for one, given in zip(members, ranges_of(_numbers(log_dirs, topic), len(members)), strict=True):
            owned = next((part.partitions for part in one.owned if part.topic == topic), ())
            yield RangeAssignment(described.group_id, topic, one.member, given, owned)


def _place(member: GroupMember) -> tuple[bool, str]:
    instance = member.group_instance_id
    return instance is None, member.member_id if instance is None else instance


def _numbers(log_dirs: LogDirs, topic: str) -> list[int]:
    known = None if log_dirs.metadata is None else log_dirs.metadata.topics.get(topic)
    if known is not None:
        return sorted(known.partitions)

    def takes(name: DirectoryName) -> bool:
        return name.topic == topic and name.kind is DirectoryKind.PARTITION

    return sorted({one.number for one in partitions_taken(log_dirs.fs, log_dirs.paths, takes)})
