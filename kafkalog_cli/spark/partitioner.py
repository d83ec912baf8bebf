"""The partition of a key, as Kafka's default partitioner chooses it (BuiltInPartitioner, Utils.murmur2)."""

from __future__ import annotations

from kafkalog_cli.actions.listing_root import root_above
from kafkalog_cli.errors import KafkalogError, UsageError
from kafkalog_cli.storage.cluster_metadata import metadata_log_in, read_cluster_metadata
from kafkalog_cli.storage.fs import Filesystem
from kafkalog_cli.storage.partition import Partition

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """MurmurHash2 with Kafka's seed, as an unsigned 32 bits number."""
    value = _SEED ^ len(data)
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * _MULTIPLIER & _MASK
        word = (word ^ word >> 24) * _MULTIPLIER & _MASK
        value = value * _MULTIPLIER & _MASK ^ word
    if whole < len(data):
        value = (value ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _MASK
    value = (value ^ value >> 13) * _MULTIPLIER & _MASK
    return value ^ value >> 15


def partition_of(key: bytes, partitions: int) -> int:
    """The number of the partition that a key goes to, of so many."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


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
