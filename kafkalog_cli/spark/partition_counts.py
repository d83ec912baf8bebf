"""How many partitions topics have, by which Kafka's default partitioner chooses that of a key."""

from __future__ import annotations

from kafkalog_cli.actions.listing.root import root_above
from kafkalog_cli.errors import KafkalogError, UsageError
from kafkalog_cli.storage.fs import Filesystem
from kafkalog_cli.storage.partition import Partition
from kafkalog_cli.storage.settings.cluster_metadata import metadata_log_in, read_cluster_metadata


def partition_counts(fs: Filesystem, partitions: list[Partition], given: int | None) -> dict[str, int]:
    """How many partitions each topic has: as given, else by `__cluster_metadata` in its log directory.

    Raises UsageError for a topic of which nobody tells: on a disk not all partitions of a topic need to be.
    """
    topics = {one.topic: one for one in partitions}
    if given is not None:
        return dict.fromkeys(topics, given)
    counts: dict[str, int] = {}
    for topic, one in topics.items():
        parent = one.path.rpartition("/")[0] or "."
        path = metadata_log_in(fs, parent) if root_above(fs, one.path) is not None else None
        state = None
        if path is not None:
            try:
                state = read_cluster_metadata(fs, path).topics.get(topic)
            except KafkalogError:
                state = None
        if state is None or not state.partitions:
            raise UsageError(
                reason=f"partitioner murmur2: how many partitions {topic} has is in no metadata beside it;"
                " give option('numPartitions', …)"
            )
        counts[topic] = len(state.partitions)
    return counts
