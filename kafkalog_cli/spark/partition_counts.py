"""How many partitions topics have, by which Kafka's default partitioner chooses that of a key."""

from __future__ import annotations

from kafkalog_cli.actions.listing.root import broker_root
from kafkalog_cli.errors import KafkalogError, UsageError
from kafkalog_cli.storage.fs import Filesystem
from kafkalog_cli.storage.partition import Partition
from kafkalog_cli.storage.settings.cluster_metadata import ClusterMetadata, metadata_log_in, read_cluster_metadata


def partition_counts(fs: Filesystem, partitions: list[Partition], given: int | None) -> dict[str, int]:
    """How many partitions each topic has: as given, else by `__cluster_metadata` in its log directory.

    Raises UsageError for a topic of which nobody tells: on a disk not all partitions of a topic need to be.
    """
    topics = {one.topic: one for one in partitions}
    if given is not None:
        return dict.fromkeys(topics, given)
    counts: dict[str, int] = {}
    known: dict[str, ClusterMetadata | None] = {}
    for topic, one in topics.items():
        parent = one.path.rpartition("/")[0] or "."
        if parent not in known:
            known[parent] = _metadata_in(fs, parent)
        metadata = known[parent]
        state = None if metadata is None else metadata.topics.get(topic)
        if state is None or not state.partitions:
            raise UsageError(
                reason=f"partitioner murmur2: how many partitions {topic} has is in no metadata beside it;"
                " give option('numPartitions', …)"
            )
        counts[topic] = len(state.partitions)
    return counts


def _metadata_in(fs: Filesystem, parent: str) -> ClusterMetadata | None:
    """What the metadata log says that lies in a log directory."""
    path = metadata_log_in(fs, parent) if broker_root(fs, parent) is not None else None
    if path is None:
        return None
    try:
        return read_cluster_metadata(fs, path)
    except KafkalogError:
        return None
