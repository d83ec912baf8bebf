"""The committed offsets of groups, and their places in the cluster.

A committed offset is the offset of the next record that the group reads. The first sent record that has this offset
or a larger one gives its place in the cluster. If there is none, the place is after the last sent record.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import NamedTuple

from kafkalog_cli.errors import ClusterError
from kafkalog_cli.format.internal_topics.records import CONSUMER_OFFSETS
from kafkalog_cli.ops.coordinators import CoordinatorTopic, LogDirs
from kafkalog_cli.ops.replay.cluster import Cluster
from kafkalog_cli.ops.replay.plan import ReplayPlan
from kafkalog_cli.ops.replay.state import SentProgress
from kafkalog_cli.ops.tables.coordinator_log import CommittedOffset, CoordinatorEntry, committed_offsets


class ReplayedOffset(NamedTuple):
    """A committed offset of a group, and its place in the cluster.

    `target_offset` is its place. `is_kept`: the group had committed the offset `kept_offset` in the cluster
    already, which stays.
    """

    committed: CommittedOffset
    target_topic: str
    target_offset: int
    kept_offset: int | None = None

    @property
    def is_kept(self) -> bool:
        """Whether the cluster's own offset stays."""
        return self.kept_offset is not None


class GroupOffsetsToMove:
    """The committed offsets of groups in the partitions of a plan."""

    def __init__(self, log_dirs: LogDirs, plan: ReplayPlan) -> None:
        """Read `__consumer_offsets`. Raises NothingSelected if there is none, and as `CoordinatorTopic.load`."""
        topic = CoordinatorTopic(log_dirs, CONSUMER_OFFSETS)
        topic.require("other log directories have the groups, or the command works without --groups")
        planned = {(one.progress.topic, one.progress.partition) for one in plan.partitions}
        self._found: list[CommittedOffset] = []
        for number in topic.numbers:
            _, offsets = topic.load(number, partial(_replayed, number))
            self._found += [one for one in offsets if (one.topic, one.partition) in planned]
        self._found.sort(key=lambda one: (one.group_id, one.topic, one.partition))

    @property
    def count(self) -> int:
        """The number of offsets."""
        return len(self._found)

    def offsets_of(self, topic: str, partition: int) -> set[int]:
        """Return the offsets that are committed in a partition."""
        return {one.offset for one in self._found if (one.topic, one.partition) == (topic, partition)}

    def commit(self, cluster: Cluster, done: Iterable[SentProgress]) -> Iterator[ReplayedOffset | ClusterError]:
        """Commit the offsets of the partitions that are done, and yield them by group, or an error for a group.

        An offset that a group has in the cluster stays: its consumers may have gone on there.
        """
        progress = {(one.topic, one.partition): one for one in done}
        groups: dict[str, list[ReplayedOffset]] = {}
        for one in self._found:
            of_partition = progress.get((one.topic, one.partition))
            if of_partition is not None:
                place = of_partition.translated[one.offset]
                groups.setdefault(one.group_id, []).append(ReplayedOffset(one, of_partition.target_topic, place))
        for group_id, offsets in groups.items():
            try:
                yield from _committed(cluster, group_id, offsets)
            except ClusterError as error:
                yield error


def _committed(cluster: Cluster, group_id: str, offsets: list[ReplayedOffset]) -> list[ReplayedOffset]:
    known = cluster.group_offsets(group_id)
    found = []
    for one in offsets:
        kept = known.get((one.target_topic, one.committed.partition))
        found.append(one if kept is None else one._replace(kept_offset=kept[0]))
    new = {
        (one.target_topic, one.committed.partition): (one.target_offset, one.committed.metadata)
        for one in found
        if not one.is_kept
    }
    if new:
        cluster.commit(group_id, new)
    return found


def _replayed(number: int, entries: Iterator[CoordinatorEntry]) -> list[CommittedOffset]:
    return list(committed_offsets(entries, number))
