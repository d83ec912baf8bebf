"""The words that a shell completes: topics, partitions and groups under the paths of an incomplete command line."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from kafkalog_cli.errors import KafkalogError

MOST_LOG_BYTES = 32 << 20
"""A larger `__consumer_offsets` is not read for a completion: the shell waits for it."""


def complete_topics(ctx: Any, incomplete: str) -> list[str]:
    """Return the topics that begin with `incomplete`."""
    return sorted({topic for topic, _ in _partitions(ctx) if topic.startswith(incomplete)})


def complete_partitions(ctx: Any, incomplete: str) -> list[str]:
    """Return the partition numbers that begin with `incomplete`, of the topics that are typed, or of all topics."""
    topics = ctx.params.get("topic") or ()
    numbers = {number for topic, number in _partitions(ctx) if not topics or topic in topics}
    return [str(number) for number in sorted(numbers) if str(number).startswith(incomplete)]


def complete_groups(ctx: Any, incomplete: str) -> list[str]:
    """Return the ids of groups that begin with `incomplete`."""
    with suppress(KafkalogError, OSError):
        return sorted({group for group in _groups(_paths(ctx)) if group.startswith(incomplete) and group.isprintable()})
    return []


def _partitions(ctx: Any) -> set[tuple[str, int]]:
    from kafkalog_cli.disk.fs import RealFilesystem
    from kafkalog_cli.disk.names import DirectoryKind
    from kafkalog_cli.ops.selection import expand, partition_paths

    fs, partitions = RealFilesystem(), set[tuple[str, int]]()
    with suppress(KafkalogError, OSError):
        for path in expand(fs, _paths(ctx)):
            for name in (partition.directory for partition in partition_paths(fs, path)):
                if name.kind is DirectoryKind.PARTITION and name.topic is not None and name.partition is not None:
                    partitions.add((name.topic, name.partition))
    return partitions


def _groups(paths: list[str]) -> Iterator[str]:
    from kafkalog_cli.disk.fs import RealFilesystem
    from kafkalog_cli.ops.cluster.coordinators import Copies
    from kafkalog_cli.ops.cluster.groups import GroupsRequest, consumer_offsets, describe_groups

    log_dirs = Copies(RealFilesystem(), paths)
    topic = consumer_offsets(log_dirs)
    copies = (log_dirs.best(topic.topic, number) for number in topic.numbers)
    if sum(segment.log.size_bytes for copy in copies if copy for segment in copy.segments) <= MOST_LOG_BYTES:
        yield from (described.group_id for described in describe_groups(log_dirs, GroupsRequest()))


def _paths(ctx: Any) -> list[str]:
    """Return the paths of an incomplete command line, which the parser leaves in `args`."""
    return [word for word in ctx.params.get("paths") or ctx.args if not word.startswith("-")]
