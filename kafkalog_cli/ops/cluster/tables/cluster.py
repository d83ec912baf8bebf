"""Rows of topics, partitions, settings, brokers and features from the replayed metadata log."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, NamedTuple

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.log.log_dir import metadata_log_in
from kafkalog_cli.log.settings.cluster_metadata import ClusterMetadata, MetadataPoint, read_cluster_metadata
from kafkalog_cli.log.settings.metadata_image import BROKER_RESOURCE, TOPIC_RESOURCE, BrokerState
from kafkalog_cli.ops.cluster.tables.coordinator_log import OnDamage
from kafkalog_cli.ops.damage import damaged_log
from kafkalog_cli.results import INTEGER, Count, Int32, result

_RESOURCES = {TOPIC_RESOURCE: "TOPIC", BROKER_RESOURCE: "BROKER", 8: "BROKER_LOGGER", 16: "CLIENT_METRICS", 32: "GROUP"}
"""Names of resource types by number (ConfigResource.Type)."""


@result("kafkalog.cluster-topic/1")
class Topic(NamedTuple):
    """A topic."""

    topic: str
    topic_id: str
    partitions: Annotated[Count, INTEGER]
    replication_factor: Annotated[Count, INTEGER, "the most replicas of a partition"]


class TopicPartitionState(NamedTuple):
    """A partition in the controller's metadata.

    `directories` are ids of log directories, in the order of `replicas`.
    """

    topic: str
    topic_id: str
    partition: Int32
    leader: Int32
    leader_epoch: Int32
    partition_epoch: Int32
    replicas: tuple[Int32, ...]
    isr: tuple[Int32, ...]
    adding_replicas: tuple[Int32, ...]
    removing_replicas: tuple[Int32, ...]
    directories: tuple[str, ...]
    is_recovering: bool


class ConfigSetting(NamedTuple):
    """A setting of a topic, a broker (`resource_name` "": all brokers), a group, and so on."""

    resource_type: str
    resource_name: str
    name: str
    value: str


@result("kafkalog.cluster-feature/1")
class Feature(NamedTuple):
    """A finalized feature."""

    name: str
    level: Int32


def metadata_logs(fs: Filesystem, log_dirs: Sequence[str], path: str | None) -> Sequence[str]:
    """Return the paths of the metadata logs in log directories, or the one at `path` if it is given."""
    if path is not None:
        return [path]
    return [metadata_log for log_dir in log_dirs if (metadata_log := metadata_log_in(fs, log_dir)) is not None]


def furthest_metadata(
    fs: Filesystem,
    paths: Iterable[str],
    on_damage: OnDamage,
    *,
    until: MetadataPoint | None = None,
) -> ClusterMetadata | None:
    """Return the replica of the metadata log with the last offset; None if there are no replicas.

    `until` is that of `read_cluster_metadata`.

    Raises as `on_damage` does if damage in that replica may hide later records, and as `read_cluster_metadata` does.
    """
    images = [read_cluster_metadata(fs, path, until=until) for path in paths]
    if not images:
        return None
    furthest = max(images, key=lambda metadata: metadata.end_offset)
    if not furthest.is_complete:
        for path, fault in furthest.faults:
            on_damage(damaged_log(path, fault))
    return furthest


def topics(metadata: ClusterMetadata) -> Iterator[Topic]:
    """Yield the topics, by name."""
    for name, topic in sorted(metadata.topics.items()):
        replicas = max((len(partition.replicas) for partition in topic.partitions.values()), default=0)
        yield Topic(name, topic.topic_id, len(topic.partitions), replicas)


def partitions(metadata: ClusterMetadata) -> Iterator[TopicPartitionState]:
    """Yield the partitions, by topic and number."""
    for name, topic in sorted(metadata.topics.items()):
        for number, state in sorted(topic.partitions.items()):
            yield TopicPartitionState(
                name, topic.topic_id, number, state.leader, state.leader_epoch, state.partition_epoch, state.replicas,
                state.isr, state.adding_replicas, state.removing_replicas, state.directories, state.is_recovering,
            )  # fmt: skip


def configs(metadata: ClusterMetadata) -> Iterator[ConfigSetting]:
    """Yield the settings, by resource and name."""
    for (kind, resource), settings in sorted(metadata.configs.items()):
        for name, value in sorted(settings.items()):
            yield ConfigSetting(_RESOURCES.get(kind, f"UNKNOWN ({kind})"), resource, name, value)


def brokers(metadata: ClusterMetadata) -> Iterator[BrokerState]:
    """Yield the brokers, by id."""
    for _, broker in sorted(metadata.brokers.items()):
        yield broker


def features(metadata: ClusterMetadata) -> Iterator[Feature]:
    """Yield the features, by name."""
    for name, level in sorted(metadata.features.items()):
        yield Feature(name, level)
