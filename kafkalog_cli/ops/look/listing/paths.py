"""Find what `ls` lists for a path: a log directory with its partitions, one partition directory, or one file."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, NamedTuple

from kafkalog_cli.disk.fs import FileStatus, Filesystem
from kafkalog_cli.disk.names import FileKind, FileName, KindOfFile, NumberInName, StateOfFile, WorkState, classify_file
from kafkalog_cli.disk.posix_lock import LockOwner
from kafkalog_cli.errors import KafkalogError, NotKafkaLayout
from kafkalog_cli.format.meta_properties import MetaProperties
from kafkalog_cli.log.log_dir import LogDirs, Shutdown
from kafkalog_cli.log.partition import Partition, PartitionPath, directory_name, open_partition
from kafkalog_cli.ops.look.listing.listing import (
    BytesByKind,
    DiskUse,
    PartitionListing,
    SegmentListing,
    broker_believes_indexes,
    list_partition,
    list_segment,
)
from kafkalog_cli.ops.look.listing.root import LocatedFault, LogDirRoot, read_root, root_above
from kafkalog_cli.ops.selection import Selection, in_its_log_dir, partition_paths
from kafkalog_cli.results import ABSENT, FLAT, AtName, Hidden, Named, PathName, each, of, result


@result("kafkalog.file/1")
@dataclass(frozen=True, slots=True)
class FileListing:
    """A file that is not a segment, named in the command line of ls."""

    name: Hidden[FileName]
    status: Hidden[FileStatus]
    path: ClassVar[PathName] = of("status.path")
    kind: ClassVar[KindOfFile] = of("name.kind")
    state: ClassVar[StateOfFile] = of("name.state")
    offset: ClassVar[NumberInName] = of("name.offset")
    size_bytes: ClassVar[Annotated[int, Named("bytes")]] = of("status.size_bytes")
    modified_ms: ClassVar[int] = of("status.mtime_ms")


class RootFile(NamedTuple):
    """A file of a log directory."""

    name: PathName
    bytes: int


class HeldMarker(NamedTuple):
    """A run of kafkalog that keeps .kafka_cleanshutdown away."""

    run: str
    partitions: list[AtName]


@dataclass(frozen=True, slots=True)
class Imports:
    """The state of imports: of a committed run that was interrupted, and of runs without a commit."""

    root: Hidden[LogDirRoot]
    run: ClassVar[Annotated[str | None, "the run that was interrupted after its commit; null: there is none"]] = of(
        "root.imports.run"
    )
    coming: ClassVar[Annotated[list[AtName], "its partitions that are still to be put in place"]] = each(
        lambda file: AtName(file.path), "root.imports.coming"
    )
    lost: ClassVar[Annotated[list[AtName], "its partitions that a broker removed when it started"]] = each(
        AtName, "root.imports.lost"
    )
    staged: ClassVar[Annotated[list[AtName], "directories of runs without a commit"]] = each(
        AtName, "root.imports.stale"
    )
    at_work: ClassVar[Annotated[bool, "an import has the log directory now"]] = of(
        lambda imports: imports.root.importer is not None
    )


@result("kafkalog.logdir/1")
@dataclass(frozen=True, slots=True)
class LogDirListing:
    """A log directory: its own files, and sums over the listed partitions."""

    root: Hidden[LogDirRoot]
    listed: Hidden[list[PartitionListing]]
    path: ClassVar[PathName] = of("root.path")
    shutdown: ClassVar[Shutdown] = of("root.shutdown")
    broker_epoch: ClassVar[Annotated[int | None, "of .kafka_cleanshutdown"]] = of("root.broker_epoch")
    marker_held_for: ClassVar[
        Annotated[
            list[HeldMarker],
            ".kafka_cleanshutdown is away until these runs are undone (run `purged`: permanently)",
        ]
    ] = of(
        lambda listing: [HeldMarker(run, [*map(AtName, names)]) for run, names in listing.root.marker_held_for.items()]
    )
    imports: ClassVar[Imports] = of(lambda listing: Imports(listing.root))
    lock: ClassVar[LockOwner | None] = of("root.lock_owner")
    meta_properties: ClassVar[MetaProperties | None] = of("root.meta")
    topics: ClassVar[int] = of(lambda listing: len({partition.topic for partition in listing.listed}))
    partitions: ClassVar[int] = of(lambda listing: len(listing.listed))
    directories: ClassVar[Annotated[dict[str, int], "partition directories by kind"]] = of(
        lambda listing: dict(Counter(partition.directory_kind.name.lower() for partition in listing.listed))
    )
    segments: ClassVar[int] = of(lambda listing: sum(partition.segments for partition in listing.listed))
    sizes: ClassVar[Annotated[BytesByKind, Named("bytes")]] = of(
        lambda listing: sum((partition.bytes_by_kind for partition in listing.listed), BytesByKind())
    )
    allocated_bytes: ClassVar[int] = of(lambda listing: sum(partition.allocated_bytes for partition in listing.listed))
    leftovers: ClassVar[int] = of(lambda listing: sum(len(partition.leftovers) for partition in listing.listed))
    open_transactions: ClassVar[int] = of(
        lambda listing: sum(len(partition.open_transactions or ()) for partition in listing.listed)
    )
    root_files: ClassVar[list[RootFile]] = each(lambda file: RootFile(file.name, file.size_bytes), "root.files")
    foreign_directories: ClassVar[Annotated[list[AtName], "a broker does not start with them"]] = each(
        AtName, "root.foreign"
    )
    other_entries: ClassVar[list[AtName]] = each(AtName, "root.others")
    faults: ClassVar[tuple[LocatedFault, ...]] = of("root.faults")
    usage: Annotated[DiskUse | None, FLAT, ABSENT] = None


@dataclass(slots=True)
class Listing:
    """The partitions and files under one path.

    `log_dir` is set if the path is a log directory. `roots` are the log directories of the partitions and files listed.
    `failures` are partition directories that could not be read. `removed` are directories that a broker removed or
    renamed after the log directory was read.
    """

    path: str
    log_dir: LogDirRoot | None = None
    roots: list[LogDirRoot] = field(default_factory=list)
    partitions: list[PartitionListing] = field(default_factory=list)
    segments: list[SegmentListing] = field(default_factory=list)
    files: list[FileListing] = field(default_factory=list)
    failures: list[tuple[str, KafkalogError]] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was selected."""
        return not (self.log_dir or self.partitions or self.segments or self.files or self.failures)

    @property
    def faults(self) -> list[LocatedFault]:
        """All faults, each once."""
        return list(dict.fromkeys(fault for faults in self.faults_of_targets() for fault in faults))

    def faults_of_targets(self) -> Iterator[tuple[LocatedFault, ...]]:
        """Yield the faults of the log directory, of each partition and of each segment."""
        if self.log_dir is not None:
            yield self.log_dir.faults
        for partition in self.partitions:
            yield partition.faults
        for segment in self.segments:
            yield segment.faults


class Lister:
    """Lists paths; caches log directories and partitions that several paths have in common."""

    def __init__(
        self, fs: Filesystem, selection: Selection, *, segments: bool = False, transactions: bool = True
    ) -> None:
        self._fs = fs
        self._selection = selection
        self._wants_segments = segments
        self._wants_transactions = transactions
        self._log_dirs = LogDirs(fs)
        self._roots: dict[str, LogDirRoot | None] = {}
        self._partitions: dict[str, Partition] = {}

    def list(self, path: str) -> Listing:
        """List what is under `path`. Raises PathNotFound, NotKafkaLayout, Unreadable."""
        listing = Listing(path)
        status = self._fs.status(path)
        if status is not None and not status.is_directory:
            if self._selection.is_everything or self._selection.takes(directory_name(_parent(path))):
                self._file(path, status, listing)
            return listing
        trimmed = in_its_log_dir(self._fs, path).rstrip("/") or "/"
        partition_directories = [*partition_paths(self._fs, trimmed)]
        chosen = [partition for partition in partition_directories if self._selection.takes(partition.directory)]
        if [partition.path for partition in partition_directories] == [trimmed]:
            root = self._root_above(trimmed)
            listing.roots = [] if root is None else [root]
        elif chosen or self._selection.is_everything:
            paths = frozenset(partition.path for partition in partition_directories)
            root = listing.log_dir = read_root(self._fs, trimmed, paths)
            listing.roots = [root]
        else:
            return listing
        del partition_directories
        chosen.reverse()
        while chosen:  # 100,000 partitions take less memory so
            self._partition(chosen.pop(), root, listing)
        return listing

    def _partition(self, at: PartitionPath, root: LogDirRoot | None, listing: Listing) -> None:
        try:
            partition = open_partition(self._fs, at.path, self._log_dirs)
            listed = list_partition(self._fs, partition, root, with_transactions=self._wants_transactions)
        except KafkalogError as error:
            if at.path != listing.path and self._fs.status(at.path) is None:
                listing.removed.append(at.path)
            else:
                listing.failures.append((at.path, error))
            return
        listing.partitions.append(listed)
        if self._wants_segments:
            clean = broker_believes_indexes(partition)
            listing.segments += [list_segment(self._fs, partition, s, clean=clean) for s in partition.segments]

    def _file(self, path: str, status: FileStatus, listing: Listing) -> None:
        if not status.is_file:
            raise NotKafkaLayout(path=path, reason="is not a regular file")
        name = classify_file(path.rpartition("/")[2])
        root = self._root_above(_parent(path))
        listing.roots = [] if root is None else [root]
        is_segment = name.kind in (FileKind.LOG, FileKind.SEVEN_LOG) and name.state is WorkState.IN_PLACE
        if not is_segment or name.offset is None:
            listing.files.append(FileListing(name, status))
            return
        partition = self._partition_of(_parent(path))
        clean = broker_believes_indexes(partition)
        for segment in partition.segments:
            if segment.log.path.rpartition("/")[2] == name.name:
                listing.segments.append(list_segment(self._fs, partition, segment, clean=clean))

    def _partition_of(self, directory: str) -> Partition:
        if directory not in self._partitions:
            self._partitions[directory] = open_partition(self._fs, directory)
        return self._partitions[directory]

    def _root_above(self, directory: str) -> LogDirRoot | None:
        parent = _parent(directory)
        if parent not in self._roots or directory in (".", ".."):
            self._roots[parent] = root_above(self._fs, directory)
        return self._roots[parent]


def _parent(path: str) -> str:
    parent, slash, _ = path.rpartition("/")
    return parent or ("/" if slash else ".")
