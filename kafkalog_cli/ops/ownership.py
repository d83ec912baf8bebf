"""Whether the cluster gives a partition directory to the broker that it lies with, and what that broker does if not."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kafkalog_cli.disk.fs import Filesystem, WritableFilesystem
from kafkalog_cli.disk.names import DirectoryKind, moved_out, partition_directory_name
from kafkalog_cli.errors import KafkalogError, Refused, shell_word
from kafkalog_cli.log.partition import Partition, partitions_in, topic_id_on_disk
from kafkalog_cli.log.settings.source import SettingsSource

if TYPE_CHECKING:
    from kafkalog_cli.log.settings.cluster_metadata import ClusterMetadata
    from kafkalog_cli.log.settings.metadata_image import PartitionRegistration, TopicState

Places = Mapping[tuple[str, int], tuple[str, ...]]
"""The real directories of partitions, by topic and number."""


class Replication(NamedTuple):
    """A partition's replicas in the metadata log. `broker_id` is this broker, None if it is not known."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    broker_id: int | None

    @property
    def words(self) -> str:
        """Describe the replicas in words: leader, in-sync replicas, and this broker's place among them."""
        leader = f"leader {self.leader}" if self.leader >= 0 else "no leader"
        in_sync = f"in sync: {_numbers(self.isr)}" if self.isr else "none in sync"
        return f"replicas {_numbers(self.replicas)}; {leader}; {in_sync}; {self._place()}"

    def _place(self) -> str:
        if self.broker_id is None:
            return "which of them this is, is not known"
        if self.broker_id == self.leader:
            return f"this is the leader, {self.broker_id}"
        if self.broker_id not in self.replicas:
            return f"this is {self.broker_id}, none of them"
        return f"this is {self.broker_id}, {'in sync' if self.broker_id in self.isr else 'not in sync'}"


class Ownership(NamedTuple):
    """What the metadata log has for a partition directory.

    `unknown_because`: there is no metadata log, or it is damaged; all else is None then. `topic` is the topic of the
    directory's name, and `other_topic_because` says why it is another topic than the directory's, "" if it is not.
    `registration` is its partition of that number. `not_assigned_because` says why a broker does not hold it: the topic
    has no such partition, or the broker is none of its replicas; "" if it may be held.
    """

    unknown_because: str = ""
    topic: TopicState | None = None
    other_topic_because: str = ""
    registration: PartitionRegistration | None = None
    not_assigned_because: str = ""

    @property
    def is_held(self) -> bool:
        """Whether the metadata log has the partition, with a replica on the broker if that is known."""
        return self.topic is not None and not self.other_topic_because and not self.not_assigned_because


def find_owner(
    metadata: ClusterMetadata | None, topic: str, number: int | None, topic_id: str | None, broker_id: int | None
) -> Ownership:
    """Return whether a broker (None: not known which) owns the partition of a directory.

    `topic` and `number` are those of the directory's name, `topic_id` is the id in it, None if it has none.
    """
    if metadata is None:
        return Ownership("there is no metadata log to ask")
    if not metadata.is_complete:
        return Ownership(f"the metadata log is damaged ({metadata.path})")
    topic_state = metadata.topics.get(topic)
    if topic_state is None:
        return Ownership()
    other = not_assigned = ""
    if topic_id not in (None, topic_state.topic_id):
        other = f"the metadata log has another topic of that name (id {topic_state.topic_id}, here {topic_id})"
    state = None if number is None else topic_state.partitions.get(number)
    if state is None:
        count = len(topic_state.partitions)
        has = f"{count} partitions, 0 to {count - 1}" if count > 1 else "only partition 0"
        not_assigned = f"the metadata log has no partition {number} of {topic}: it has {has}"
    elif broker_id is not None and broker_id not in state.replicas:
        not_assigned = f"broker {broker_id} is none of the replicas ({_numbers(state.replicas)}) of {topic}-{number}"
    return Ownership("", topic_state, other, state, not_assigned)


def owner_of(partition: Partition) -> Ownership:
    """Return whether the broker of its log directory owns a partition. Raises as `SettingsSource.metadata` does."""
    cluster = partition.cluster
    if cluster is None:  # the two files with the ids are not read then
        return find_owner(None, partition.topic, partition.number, None, None)
    return find_owner(cluster, partition.topic, partition.number, partition.topic_id, partition.broker_id)


def replication_of(partition: Partition) -> tuple[Replication | None, str]:
    """Return the replicas, or None and the reason why they are not known. Raises as `SettingsSource.metadata` does."""
    own = owner_of(partition)
    state = own.registration
    if state is None:
        return None, own.unknown_because or "the metadata log does not have this partition"
    if own.other_topic_because:
        return None, own.other_topic_because
    return Replication(state.replicas, state.isr, state.leader, partition.broker_id), ""


def is_set_aside(
    number: int | None, topic_id: str | None, metadata: ClusterMetadata | None, broker_id: int | None
) -> bool:
    """Whether a broker in KRaft mode would rename the directory to -stray (LogManager.isStrayKraftReplica).

    It goes by the topic id, and looks before it looks for a second directory of the partition. False if the metadata
    log is not known.
    """
    if metadata is None or not metadata.is_complete:
        return False
    topic_state = None if topic_id is None else metadata.topic_of_id(topic_id)
    return topic_state is None or not find_owner(metadata, topic_state.name, number, topic_id, broker_id).is_held


def registered_topic(metadata: ClusterMetadata | None, topic: str) -> TopicState | None:
    """Return the topic of that name in a metadata log that is known completely."""
    return find_owner(metadata, topic, None, None, None).topic


def topic_of_directory(partition: Partition, own_id: str | None, metadata: ClusterMetadata) -> TopicState | None:
    """Return the topic that a directory is named after; None if the metadata log does not have it.

    The name may be cut to 255 characters; the topic id decides then. Raises Refused if there is no topic id, and
    several topics begin with the characters that are left.
    """
    if not partition.directory.topic_may_be_cut:
        return metadata.topics.get(partition.topic)
    if own_id is not None:
        return metadata.topic_of_id(own_id)
    topics = [topic for name, topic in metadata.topics.items() if name.startswith(partition.topic)]
    if len(topics) > 1:
        names = " and ".join(sorted(topic.name for topic in topics))
        reason = f"the directory's name is cut, and it has no topic id: it may be of {names}"
        raise Refused(path=partition.path, reason=reason)
    return topics[0] if topics else None


def path_of_stray(fs: Filesystem, partition: Partition, log_dir: str | None, settings: SettingsSource) -> str:
    """Return the path where a broker looks for the partition of a `-stray` directory.

    Raises Refused if the directory must not or cannot be renamed. That is without a complete metadata log, and if that
    log lacks the topic or the partition, has another topic id, or has no replica on this broker. It is also if the path
    exists.
    """
    path = partition.path
    metadata = settings.metadata(log_dir)
    if metadata is None:
        step = f"`kafkalog recover {shell_word(path)} --metadata DIR`"
        reason = "no metadata log says which topic the -stray directory belongs to; give the metadata.log.dir of a"
        raise Refused(path=path, reason=f"{reason} controller, or a copy of it: {step}")
    if not metadata.is_complete:
        raise Refused(path=path, reason="the metadata log is damaged: whether the topic still exists is not known")
    own_id = topic_id_on_disk(fs, path)
    topic = topic_of_directory(partition, own_id, metadata)
    if topic is None:
        raise Refused(path=path, reason=f"the metadata log has no topic {partition.topic}: it was deleted")
    if own_id is not None and own_id != topic.topic_id:
        reason = f"it is of topic id {own_id}, but the metadata log has {topic.topic_id} for {topic.name}"
        raise Refused(path=path, reason=f"{reason}: the topic was deleted and created again")
    own = find_owner(metadata, topic.name, partition.number, own_id, settings.broker_id(log_dir))
    if own.not_assigned_because:
        raise Refused(path=path, reason=f"{own.not_assigned_because}: a broker would set it aside again")
    live = os.path.join(os.path.dirname(path), partition_directory_name(topic.name, partition.number))  # noqa: PTH118, PTH120
    if fs.status(live) is not None:
        option = "" if settings.metadata_option is None else f" --metadata {shell_word(settings.metadata_option)}"
        raise Refused(
            path=path,
            reason=f"{live} exists. `kafkalog ls {shell_word(live)} {shell_word(path)}` shows what both hold. To bring"
            f" this one back, with the broker stopped: {moved_out(live)} and"
            f" `kafkalog recover {shell_word(path)}{option}`",
        )
    return live


def places_of_partitions(fs: WritableFilesystem, log_dirs: Sequence[str]) -> Places:
    """Return the real directories of each (topic, partition) in the given log directories; several are a fault.

    A log directory that cannot be listed is skipped.
    """
    paths: dict[tuple[str, int], list[str]] = {}
    for log_dir in log_dirs:
        try:
            partitions = partitions_in(fs, log_dir)
        except KafkalogError:
            continue
        for partition in partitions:
            directory = partition.directory
            if directory.kind is DirectoryKind.PARTITION and directory.topic and directory.partition is not None:
                places = paths.setdefault((directory.topic, directory.partition), [])
                path = os.path.realpath(partition.path)
                if path not in places:
                    places.append(path)
    return {key: tuple(places) for key, places in paths.items()}


def other_directories(partition: Partition, places: Places) -> tuple[tuple[str, ...], bool]:
    """Return the other directories of the partition, and whether a broker sets this one aside, or has done so.

    If a broker keeps this directory, only kept directories count.
    """

    def is_kept(topic_id: str | None) -> bool:
        return not is_set_aside(partition.number, topic_id, partition.cluster, partition.broker_id)

    real = os.path.realpath(partition.path)
    others = [path for path in places.get((partition.topic, partition.number), ()) if path != real]
    if not others:
        return (), False
    if not is_kept(partition.topic_id):
        return tuple(others), True
    is_stray = partition.directory.kind is DirectoryKind.STRAY
    return tuple(path for path in others if is_kept(topic_id_on_disk(partition.fs, path))), is_stray


def _numbers(values: Sequence[int]) -> str:
    return ", ".join(map(str, values))
