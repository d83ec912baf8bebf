"""The facts about a partition directory that `ls` keeps until its last row is known."""

from __future__ import annotations

from typing import NamedTuple

from kafkalog_cli.disk.names import DirectoryName
from kafkalog_cli.log.partition import Partition, PartitionFile


class ListedPartition(NamedTuple):
    """The facts about a partition's files that are shown; a Partition with the status of each file is larger.

    A listing of 100,000 partitions is in memory until its last row is known. `segments` is their number, `snapshots`
    are the offsets of producer snapshots. All else is that of Partition.
    """

    path: str
    directory: DirectoryName
    segments: int
    is_seven: bool
    snapshots: tuple[int, ...]
    leftovers: tuple[PartitionFile, ...]
    orphans: tuple[PartitionFile, ...]
    metadata_snapshots: tuple[PartitionFile, ...]
    runs: tuple[str, ...]

    @classmethod
    def of(cls, partition: Partition) -> ListedPartition:
        """Return what is kept of `partition`."""
        return cls(
            partition.path,
            partition.directory,
            len(partition.segments),
            any(segment.is_seven for segment in partition.segments),
            tuple(file.name.offset for file in partition.snapshots if file.name.offset is not None),
            partition.leftovers,
            partition.orphans,
            partition.metadata_snapshots,
            partition.runs,
        )
