"""The space on the disk: sizes, allocated space and what could be freed, of partitions, topics and log directories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kafkalog_cli.change.runs import run_directory
from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.errors import ExitCode
from kafkalog_cli.ops.choices import SortKey
from kafkalog_cli.ops.listing.listing import BytesByKind, PartitionListing


@dataclass(frozen=True, slots=True)
class Freeable:
    """Allocated bytes that `retain` and `compact` would free now. None: not known for any of the partitions.

    `due_bytes` are files that earlier runs or a broker renamed to `.deleted`, and whose time is over. A partition
    counts as unknown if one of its two plans is refused; `unknown_because` has the reasons.
    """

    due_bytes: int = 0
    retention_bytes: int | None = None
    compaction_bytes: int | None = None
    unknown_because: tuple[str, ...] = ()
    partitions: int = 0
    unknown_partitions: int = 0

    @property
    def exit_code(self) -> ExitCode:
        """Always OK: a listing does not fail because a setting is not known."""
        return ExitCode.OK

    @property
    def known_bytes(self) -> int:
        """The sum of what is known."""
        return self.due_bytes + (self.retention_bytes or 0) + (self.compaction_bytes or 0)

    def __add__(self, other: Freeable) -> Freeable:
        return Freeable(
            self.due_bytes + other.due_bytes,
            _sum(self.retention_bytes, other.retention_bytes),
            _sum(self.compaction_bytes, other.compaction_bytes),
            tuple(dict.fromkeys((*self.unknown_because, *other.unknown_because))),
            self.partitions + other.partitions,
            self.unknown_partitions + other.unknown_partitions,
        )


def _sum(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else one + other


@dataclass(frozen=True, slots=True)
class Usage:
    """The files of one or more partitions. `freeable` is None if it was not asked for.

    `run_bytes` and `run_allocated_bytes` are of the files that runs of kafkalog keep in `.kafkalog`, the other sizes of
    the files beside it.
    """

    partitions: int = 0
    segments: int = 0
    sizes: BytesByKind = field(default_factory=BytesByKind)
    allocated_bytes: int = 0
    run_bytes: int = 0
    run_allocated_bytes: int = 0
    freeable: Freeable | None = None

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
            self.partitions + other.partitions,
            self.segments + other.segments,
            self.sizes + other.sizes,
            self.allocated_bytes + other.allocated_bytes,
            self.run_bytes + other.run_bytes,
            self.run_allocated_bytes + other.run_allocated_bytes,
            sum(both, Freeable()) if both else None,
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


@dataclass(frozen=True, slots=True)
class TopicUsage:
    """The files of a topic in all log directories that were listed."""

    topic: str
    log_dirs: tuple[str, ...]
    usage: Usage


def usage_of(fs: Filesystem, listing: PartitionListing, freeable: Freeable | None) -> Usage:
    """Return the usage of one partition. Raises as `list_directory`."""
    kept = [
        entry
        for run in listing.partition.runs
        for entry in fs.list_directory(run_directory(listing.partition.path, run))
        if entry.is_file
    ]
    return Usage(
        1,
        listing.partition.segments,
        listing.bytes_by_kind,
        listing.allocated_bytes,
        sum(entry.size_bytes for entry in kept),
        sum(entry.allocated_bytes for entry in kept),
        freeable,
    )


def by_topic(rows: Iterable[tuple[PartitionListing, Usage]], key: SortKey) -> list[TopicUsage]:
    """Return the sums per topic, sorted."""
    sums: dict[str, Usage] = {}
    log_dirs: dict[str, dict[str, None]] = {}
    for listing, usage in rows:
        topic = listing.partition.directory.shown_topic
        sums[topic] = sums.get(topic, Usage()) + usage
        log_dirs.setdefault(topic, {})[_parent_of(listing)] = None
    found = [TopicUsage(topic, tuple(log_dirs[topic]), usage) for topic, usage in sums.items()]
    return sorted(found, key=lambda each: (each.usage.rank(key), each.topic))


def by_log_dir(rows: Iterable[tuple[PartitionListing, Usage]]) -> Mapping[str, Usage]:
    """Return the sums per log directory, in the order of the partitions."""
    sums: dict[str, Usage] = {}
    for listing, usage in rows:
        log_dir = _parent_of(listing)
        sums[log_dir] = sums.get(log_dir, Usage()) + usage
    return sums


def in_order(rows: Iterable[tuple[PartitionListing, Usage]], key: SortKey) -> list[tuple[PartitionListing, Usage]]:
    """Return the partitions, sorted."""

    def place(row: tuple[PartitionListing, Usage]) -> tuple[int, str, int]:
        directory = row[0].partition.directory
        return row[1].rank(key), directory.shown_topic, directory.shown_partition

    return sorted(rows, key=place)


def _parent_of(listing: PartitionListing) -> str:
    """Return the directory in which the partition's directory is."""
    return listing.partition.path.rpartition("/")[0] or "."
