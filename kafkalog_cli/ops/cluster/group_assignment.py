"""Assigns partitions to the members of a group: by ranges, as consumers have done since Kafka 0.7, or uniformly."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Annotated, NamedTuple, TypeVar

from kafkalog_cli.disk.names import DirectoryKind, DirectoryName
from kafkalog_cli.ops.cluster.coordinators import Copies
from kafkalog_cli.ops.cluster.groups import GroupDescription
from kafkalog_cli.ops.cluster.tables.groups import GroupMember
from kafkalog_cli.ops.selection import partitions_taken
from kafkalog_cli.results import result

PartitionT = TypeVar("PartitionT")


@result("kafkalog.range-assignment/1")
class RangeAssignment(NamedTuple):
    """The partitions of a topic that the range assignor gives to a member (groups --assign)."""

    group_id: str
    topic: str
    member_id: str
    group_instance_id: str | None
    partitions: Annotated[tuple[int, ...], "by the range assignor"]
    owned: Annotated[tuple[int, ...], "the member's partitions of this topic in __consumer_offsets"]


def ranges_of(partitions: Sequence[int], members: int) -> list[tuple[int, ...]]:
    """Divide partitions among members: member i gets the partitions from i·N to (i+1)·N-1, N = partitions / members.

    If the division leaves a rest, each of the first members gets one more.
    """
    each, rest = divmod(len(partitions), members)
    starts = [member * each + min(member, rest) for member in range(members + 1)]
    return [tuple(partitions[start:end]) for start, end in pairwise(starts)]


def uniform_of(
    subscribed: Mapping[str, Collection[PartitionT]], owned: Mapping[str, Collection[PartitionT]]
) -> dict[str, set[PartitionT]]:
    """Return the partitions of each member so that their numbers differ by one at most, where the topics allow it.

    `subscribed` has all partitions of each member's topics, in order, and `owned` the partitions that it has now. As
    with Kafka's UniformAssignor, members keep as many of these as the balance allows. If all members have the same
    topics, no assignment moves fewer partitions.
    """
    subscribers: dict[PartitionT, list[str]] = {}
    for member, partitions in subscribed.items():
        for partition in partitions:
            subscribers.setdefault(partition, []).append(member)
    assigned = {
        member: {partition for partition in owned.get(member, ()) if member in subscribers.get(partition, ())}
        for member in subscribed
    }

    def least_of(partition: PartitionT) -> str:
        return min(subscribers[partition], key=lambda member: len(assigned[member]))

    free = subscribers.keys() - set().union(*assigned.values())
    for partition in sorted(
        (partition for partition in subscribers if partition in free), key=lambda partition: len(subscribers[partition])
    ):
        assigned[least_of(partition)].add(partition)
    order = {partition: number for number, partition in enumerate(subscribers)}

    def next_move() -> tuple[str, PartitionT] | None:
        for owner in sorted(assigned, key=lambda member: -len(assigned[member])):
            for partition in sorted(assigned[owner], key=order.__getitem__, reverse=True):
                if len(assigned[least_of(partition)]) + 1 < len(assigned[owner]):
                    return owner, partition
        return None

    while (move := next_move()) is not None:
        owner, partition = move
        assigned[least_of(partition)].add(partition)
        assigned[owner].remove(partition)
    return assigned


def assign_ranges(log_dirs: Copies, described: GroupDescription) -> Iterator[RangeAssignment]:
    """Yield what a rebalance of the group's members would give to each, by topic and in the order of the assignor.

    The metadata log has the partitions of a topic; without it, the log directories have them. Static members come
    first, by instance id; the others follow by member id. Raises as `partitions_taken`.
    """
    subscribed = {topic for member in described.members for topic in member.member.subscribed_topics or ()}
    for topic in sorted(subscribed):
        members = [member for member in described.members if topic in (member.member.subscribed_topics or ())]
        members.sort(key=lambda member: _place(member.member))
        for member, partitions in zip(members, ranges_of(_numbers(log_dirs, topic), len(members)), strict=True):
            owned = next((each.partitions for each in member.assignment if each.topic == topic), ())
            yield RangeAssignment(
                described.group_id, topic, member.member_id, member.group_instance_id, partitions, owned
            )


def _place(member: GroupMember) -> tuple[bool, str]:
    instance = member.group_instance_id
    return instance is None, member.member_id if instance is None else instance


def _numbers(log_dirs: Copies, topic: str) -> list[int]:
    known = None if log_dirs.metadata is None else log_dirs.metadata.topics.get(topic)
    if known is not None:
        return sorted(known.partitions)

    def takes(name: DirectoryName) -> bool:
        return name.topic == topic and name.kind is DirectoryKind.PARTITION

    return sorted({partition.number for partition in partitions_taken(log_dirs.fs, log_dirs.paths, takes)})
