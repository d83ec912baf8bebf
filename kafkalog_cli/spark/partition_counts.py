"""The number of partitions of each topic, from which Kafka's default partitioner computes a key's partition."""

from __future__ import annotations

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.errors import KafkalogError, UsageError
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.log.settings.cluster_metadata import ClusterMetadata, metadata_log_in, read_cluster_metadata
from kafkalog_cli.ops.listing.root import broker_root


def partition_counts(fs: Filesystem, partitions: list[Partition], given: int | None) -> dict[str, int]:
    """Return each topic's number of partitions: `given`, else the number in its log directory's `__cluster_metadata`.

    Raises UsageError if neither is known: a log directory may hold only some of a topic's partitions.
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
    """Return the state in the metadata log of a log directory; None if there is no readable metadata log."""
    path = metadata_log_in(fs, parent) if broker_root(fs, parent) is not None else None
    if path is None:
        return None
    try:
        return read_cluster_metadata(fs, path)
    except KafkalogError:
        return None
