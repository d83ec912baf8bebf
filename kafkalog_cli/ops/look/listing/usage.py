"""The space on the disk: sizes, allocated space and what could be freed, of partitions, topics and log directories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated

from kafkalog_cli.change.runs import run_directory
from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.ops.choices import SortKey
from kafkalog_cli.ops.look.listing.listing import BytesByKind, DiskUse, Freeable, PartitionListing
from kafkalog_cli.results import FLAT, AtPath, Before, Named, PathName, result


@dataclass(frozen=True, slots=True)
class Usage(DiskUse):
    """The files of one or more partitions."""

    partitions: Annotated[int, Before("run_bytes")] = 0
    segments: Annotated[int, Before("run_bytes")] = 0
    sizes: Annotated[BytesByKind, Named("bytes"), Before("run_bytes")] = field(default_factory=BytesByKind)
    allocated_bytes: Annotated[int, Before("run_bytes"), "the space of these files on the disk"] = 0

    @property
    def size_bytes(self) -> int:
        """The sum of all sizes."""
        return self.sizes.total + self.run_bytes

    @property
    def disk_bytes(self) -> int:
        """All of the allocated space."""
        return self.allocated_bytes + self.run_allocated_bytes

    def __add__(self, other: Usage) -> Usage:
        both = [freeable for freeable in (self.freeable, other.freeable) if freeable is not None]
        return Usage(
            self.run_bytes + other.run_bytes,
            self.run_allocated_bytes + other.run_allocated_bytes,
            sum(both, Freeable()) if both else None,
            self.partitions + other.partitions,
            self.segments + other.segments,
            self.sizes + other.sizes,
            self.allocated_bytes + other.allocated_bytes,
        )

    def rank(self, key: SortKey) -> int:
        """Return the number by which rows are sorted, the smallest first."""
        if key is SortKey.BY_NAME:
            return 0
        freeable = 0 if self.freeable is None else self.freeable.known_bytes
        numbers = {
            SortKey.SIZE: self.size_bytes,
            SortKey.ALLOCATED: self.disk_bytes,
            SortKey.SEGMENTS: self.segments,
            SortKey.FREEABLE: freeable,
        }
        return -numbers[key]


@result("kafkalog.topic/1")
@dataclass(frozen=True, slots=True)
class TopicUsage:
    """The files of a topic in all listed log directories (ls --topics)."""

    topic: PathName
    log_dirs: Annotated[tuple[AtPath, ...], "the directories that contain its partitions"]
    usage: Annotated[Usage, FLAT]


def usage_of(fs: Filesystem, listing: PartitionListing, freeable: Freeable | None) -> Usage:
    """Return the usage of one partition. Raises as `list_directory`."""
    kept = [
        entry
        for run in listing.runs
        for entry in fs.list_directory(run_directory(listing.path, run.name))
        if entry.is_file
    ]
    return Usage(
        sum(entry.size_bytes for entry in kept),
        sum(entry.allocated_bytes for entry in kept),
        freeable,
        1,
        listing.segments,
        listing.bytes_by_kind,
        listing.allocated_bytes,
    )


def by_topic(rows: Iterable[tuple[PartitionListing, Usage]], key: SortKey) -> list[TopicUsage]:
    """Return the sums per topic, sorted."""
    sums: dict[str, Usage] = {}
    log_dirs: dict[str, dict[str, None]] = {}
    for listing, usage in rows:
        topic = listing.directory.shown_topic
        sums[topic] = sums.get(topic, Usage()) + usage
        log_dirs.setdefault(topic, {})[_parent_of(listing)] = None
    usages = [TopicUsage(topic, tuple(map(AtPath, log_dirs[topic])), usage) for topic, usage in sums.items()]
    return sorted(usages, key=lambda each: (each.usage.rank(key), each.topic))


def by_log_dir(rows: Iterable[tuple[PartitionListing, Usage]]) -> Mapping[str, Usage]:
    """Return the sums per log directory, in the order of the partitions."""
    sums: dict[str, Usage] = {}
    for listing, usage in rows:
        log_dir = _parent_of(listing)
        sums[log_dir] = sums.get(log_dir, Usage()) + usage
    return sums


def in_order(rows: Iterable[tuple[PartitionListing, Usage]], key: SortKey) -> list[tuple[PartitionListing, Usage]]:
    """Return the partitions, sorted."""

    def order(row: tuple[PartitionListing, Usage]) -> tuple[int, str, int]:
        directory = row[0].directory
        return row[1].rank(key), directory.shown_topic, directory.shown_partition

    return sorted(rows, key=order)


def _parent_of(listing: PartitionListing) -> str:
    """Return the directory in which the partition's directory is."""
    return listing.path.rpartition("/")[0] or "."
