"""What is known about a partition directory, and the partition directories of a log directory."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Annotated, NamedTuple

from kafkalog_cli.disk.directories import LinkNotFollowed
from kafkalog_cli.disk.directory_contents import (
    has_root_file,
    holds_partition,
    is_name_of_kafka,
    is_sign_of_broker,
    looks_like_partition,
    root_files,
)
from kafkalog_cli.disk.fs import FileStatus, Filesystem, read_all
from kafkalog_cli.disk.names import (
    OWN_DIRECTORY,
    PARTITION_KINDS,
    SEGMENT_KINDS,
    DirectoryKind,
    DirectoryName,
    FileKind,
    FileName,
    WorkState,
    classify_directory,
    classify_file,
    moved_from_root,
)
from kafkalog_cli.errors import KafkalogError, NothingSelected, NotKafkaLayout, PathNotFound, Unreadable
from kafkalog_cli.format import checkpoint, partition_metadata
from kafkalog_cli.format.checkpoint import BrokerReading, EpochEntry
from kafkalog_cli.format.fault import Fault, FaultKind, unreadable
from kafkalog_cli.log.log_dir import (
    OFFSET_CHECKPOINTS,
    HighWatermark,
    HighWatermarkOrigin,
    LineEdit,
    LogDir,
    LogDirs,
    Shutdown,
    StartState,
)
from kafkalog_cli.results import FLAT, Named, keywords

if TYPE_CHECKING:
    from kafkalog_cli.log.log_end import LogBounds
    from kafkalog_cli.log.settings.cluster_metadata import ClusterMetadata
    from kafkalog_cli.log.settings.source import SettingsSource
    from kafkalog_cli.log.settings.topic_config import Settings

MAX_SEGMENT_BYTES = (1 << 31) - 1
"""The largest size of a segment: FileRecords refuses a larger file."""


class Segment(NamedTuple):
    """One segment. `log` is its `.log` file (`.kafka` in Kafka 0.7); a missing index is None.

    `base_offset` is the number in the file name: an offset, or a byte position in Kafka 0.7 (`is_v07`).
    """

    base_offset: int
    log: FileStatus
    offset_index: FileStatus | None = None
    time_index: FileStatus | None = None
    txn_index: FileStatus | None = None
    is_v07: bool = False


class PartitionFile(NamedTuple):
    """A file of a partition directory."""

    name: Annotated[FileName, FLAT]
    status: Annotated[FileStatus, Named("bytes"), keywords(lambda status: status.size_bytes, type="integer")]


class Partition:
    """What is known about a partition directory. It lists its files when it is opened, and reads all else at first use.

    `segments` are sorted by base offset. `snapshots` are producer snapshots without a work suffix.
    `leftovers` are files with a work suffix, and `orphans` are indexes without a log.
    `metadata_snapshots` are those of KRaft. `runs` are the names of directories in `.kafkalog`.
    `others` are all other files, also those of Kafka 0.7 beside `.log` files, which no broker reads.
    `entries` is the listing that all this comes from, with directories and links: checks of names use it too.
    """

    def __init__(
        self,
        fs: Filesystem,
        path: str,
        entries: Iterable[FileStatus] = (),
        runs: tuple[str, ...] = (),
        log_dirs: LogDirs | None = None,
    ) -> None:
        """`log_dirs` are the log directories of the run, which its partitions share; None: nothing is shared."""
        self.fs = fs
        self.path = path
        self.directory = directory_name(path)
        self.entries = tuple(entries)
        self.runs = runs
        self.has_lines = self.directory.kind is DirectoryKind.PARTITION
        """Whether the checkpoint lines of its topic and number are its own. Those of a directory that a broker does
        not serve are of another directory, or left over."""
        self._log_dirs = log_dirs or LogDirs(fs)
        of_runs = (entry for entry in self.entries if entry.is_file and not is_passed_over(entry))
        files = [PartitionFile(classify_file(entry.name), _as_given(entry)) for entry in of_runs]
        in_place = [f for f in files if f.name.state is WorkState.IN_PLACE]
        by_kind: dict[FileKind, list[PartitionFile]] = {}
        for file in in_place:
            by_kind.setdefault(file.name.kind, []).append(file)
        beside = by_kind.pop(FileKind.SEVEN_LOG, []) if any(map(_has_offset, by_kind.get(FileKind.LOG, ()))) else []
        segments, orphans = _segments(by_kind)
        fixed = {kind: of_kind[0].status for kind, of_kind in by_kind.items() if of_kind}
        self.segments = tuple(segments)
        self.snapshots = tuple(sorted(by_kind.get(FileKind.PRODUCER_SNAPSHOT, ()), key=_offset))
        self.leftovers = tuple(f for f in files if f.name.state is not WorkState.IN_PLACE)
        self.orphans = tuple(orphans)
        self.metadata_snapshots = tuple(by_kind.get(FileKind.METADATA_SNAPSHOT, ()))
        self.leader_epochs = fixed.get(FileKind.LEADER_EPOCH_CHECKPOINT)
        self.metadata = fixed.get(FileKind.PARTITION_METADATA)
        self.others = (*beside, *(f for f in in_place if f.name.kind not in _SORTED_KINDS))

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the listing alone: another process reads all else itself."""
        return Partition, (self.fs, self.path, self.entries, self.runs)

    @property
    def topic(self) -> str:
        """The topic in the directory's name; the whole name if it contains no topic."""
        return self.directory.shown_topic

    @property
    def number(self) -> int:
        """The partition number in the directory's name; -1 if it contains none."""
        return self.directory.shown_partition

    @property
    def name(self) -> str:
        """The directory's name."""
        return self.directory.name

    def join(self, log_dirs: LogDirs) -> None:
        """Share the log directories of a run, and its settings."""
        self._log_dirs = log_dirs

    # -- its log directory

    @cached_property
    def log_dir(self) -> str | None:
        """The path of its log directory, None if it is in none."""
        return self._log_dirs.path_above(self.path)

    @property
    def settings(self) -> SettingsSource | None:
        """The source of the settings of the run; None for a run that asks for none, and reads no metadata log."""
        return self._log_dirs.settings

    @property
    def config(self) -> Settings:
        """The settings of the topic. Raises as `SettingsSource.metadata` does."""
        assert self.settings is not None
        return self.settings.topic_config(self.log_dir, self.topic)

    @property
    def own_config(self) -> Settings:
        """The settings of the topic without those of the command line. Raises as `SettingsSource.metadata` does."""
        assert self.settings is not None
        return self.settings.config_without_command_line(self.log_dir, self.topic)

    @property
    def cluster(self) -> ClusterMetadata | None:
        """The metadata log of its broker, None if none is known. Raises as `SettingsSource.metadata` does."""
        return None if self.settings is None else self.settings.metadata(self.log_dir)

    @property
    def broker_id(self) -> int | None:
        """The id of its broker, None if it is not known. Raises as `SettingsSource.metadata` does."""
        return None if self.settings is None else self.settings.broker_id(self.log_dir)

    @property
    def root(self) -> LogDir | None:
        """The root of its log directory, None if it is in none."""
        return None if self.log_dir is None else self._log_dirs.read(self.log_dir)

    @property
    def shutdown(self) -> Shutdown:
        """How the broker stopped."""
        return Shutdown.UNKNOWN if self.root is None else self.root.shutdown

    @property
    def is_clean(self) -> bool:
        """Whether a broker that starts now finds that the last one stopped cleanly."""
        return self.shutdown is Shutdown.CLEAN

    @property
    def topic_was_cleaned(self) -> bool:
        """Whether cleaner-offset-checkpoint lists a partition of the topic."""
        return self.root is not None and self.topic in self.root.cleaned_topics

    @property
    def lines(self) -> dict[FileKind, int]:
        """The partition's offsets in the checkpoints that have a line of it."""
        root = self.root
        if root is None or not self.has_lines:
            return {}
        offsets = {kind: root.line(kind, self.topic, self.number) for kind in OFFSET_CHECKPOINTS}
        return {kind: offset for kind, offset in offsets.items() if offset is not None}

    def line(self, kind: FileKind) -> int | None:
        """Return the partition's offset in a checkpoint, None if it has no line."""
        root = self.root
        return None if root is None or not self.has_lines else root.line(kind, self.topic, self.number)

    @property
    def log_start(self) -> int:
        """The log start offset that a broker reads when it starts, 0 without a line."""
        return self.line(FileKind.LOG_START_CHECKPOINT) or 0

    def broker_line(self, kind: FileKind) -> int | None:
        """Return the partition's offset in a checkpoint as a broker reads it; None for a damaged file."""
        is_damaged = self.root is not None and kind in dict(self.root.readings)
        return None if is_damaged else self.line(kind)

    @property
    def checkpoint_faults(self) -> tuple[tuple[str, Fault], ...]:
        """Faults of checkpoints, each with its path. Lines that seem to be missing from these files may be lost."""
        return () if self.root is None else self.root.faults

    def check_start(self) -> None:
        """Raise Unreadable if a checkpoint that `start` needs cannot be read, with the command that helps, if any."""
        for path, fault in self.checkpoint_faults:
            if fault.kind is FaultKind.UNREADABLE and path.endswith(_OF_START):
                reason = fault.message.removeprefix("cannot be read: ")
                status = self.fs.status(path)
                if status is not None and not status.is_file:
                    reason += f"; {moved_from_root(path, is_directory=status.is_directory)} moves it away"
                raise Unreadable(path=path, reason=reason)

    @property
    def failing_checkpoint(self) -> tuple[str, Fault, BrokerReading] | None:
        """The first checkpoint that makes a broker's start fail: its path, the fault, and how the broker fails."""
        for kind, reading in () if self.root is None else self.root.readings:
            if kind.value in _OF_START and reading in (BrokerReading.FAILS, BrokerReading.OUT_OF_MEMORY):
                faults = self.checkpoint_faults
                path, fault = next((path, fault) for path, fault in faults if path.endswith(f"/{kind.value}"))
                return path, fault, reading
        return None

    def start(self, *, like_broker: bool = False) -> StartState:
        """Return the start state from the checkpoints, including valid lines of damaged files; 0 for a missing line.

        `like_broker`: a damaged checkpoint gives no line.
        """
        line = self.broker_line if like_broker else self.line
        recovery_point = line(FileKind.RECOVERY_POINT_CHECKPOINT) or 0
        return StartState(self.is_clean, recovery_point, line(FileKind.LOG_START_CHECKPOINT) or 0)

    def high_watermark(self, log_end: int) -> HighWatermark:
        """Return the smaller of the log end and the checkpoint's line; the log end if there is no line."""
        line = self.line(FileKind.REPLICATION_CHECKPOINT)
        if line is None or line > log_end:
            return HighWatermark(log_end, HighWatermarkOrigin.LOG_END)
        return HighWatermark(line, HighWatermarkOrigin.CHECKPOINT)

    def edit(self, kind: FileKind, offset: int | None) -> tuple[LineEdit, ...]:
        """Return the edit that sets a line to `offset` (None removes the line).

        The result is empty if the line is already right, or if the partition has no lines.
        """
        if self.log_dir is None or not self.has_lines or self.line(kind) == offset:
            return ()
        return (LineEdit(kind, self.topic, self.number, offset),)

    def lower(self, kind: FileKind, offset: int) -> tuple[LineEdit, ...]:
        """Return the edit that lowers a line to `offset`, if it is larger."""
        line = self.line(kind)
        return () if line is None or line <= offset else self.edit(kind, offset)

    def lift(self, kind: FileKind, offset: int) -> tuple[LineEdit, ...]:
        """Return the edit that raises a line to `offset`, if there is a line and it is smaller."""
        line = self.line(kind)
        return () if line is None or line >= offset else self.edit(kind, offset)

    # -- its log

    def believes_indexes(self, segment: Segment) -> bool:
        """Whether the broker uses the indexes of `segment` as they are on disk.

        A broker rebuilds the indexes of a segment without an offset index. After an unclean shutdown it also rebuilds
        those of the segments from the recovery point on. A running broker has the active segment's indexes in memory.
        """
        if segment.offset_index is None or self.directory.is_metadata_log:
            return False
        if self.is_clean:
            return True
        following = next((s.base_offset for s in self.segments if s.base_offset > segment.base_offset), None)
        if self.shutdown is Shutdown.UNCLEAN:
            return following is not None and following <= (self.line(FileKind.RECOVERY_POINT_CHECKPOINT) or 0)
        return following is not None

    @cached_property
    def bounds(self) -> LogBounds:
        """The earliest and latest offset, from checkpoints and from the last segment's batches.

        Raises NothingSelected for a partition without segments, and the exceptions of `open_read`.
        """
        from kafkalog_cli.log.log_end import LogBounds, segment_ends, v07_end

        if not self.segments:
            raise NothingSelected(reason=f"{self.path} has no segments")
        first, last = self.segments[0], self.segments[-1]
        if last.is_v07:
            return LogBounds(first.base_offset, v07_end(self.fs, last).next_offset)
        ways = [False, True] if self.believes_indexes(last) else [False]
        last_end, *broker_ends = segment_ends(self.fs, last, ways)
        end = last_end.next_offset
        broker_end = next((other.next_offset for other in broker_ends if other.next_offset != end), None)
        start = max(first.base_offset, self.log_start)
        watermark = self.line(FileKind.REPLICATION_CHECKPOINT)
        if watermark is not None:
            watermark = min(end if broker_end is None else broker_end, watermark)
        return LogBounds(start, end, watermark, broker_end, last_end.last_position, self._remote_start(start))

    def _remote_start(self, start: int) -> int | None:
        """Return the log start of a checkpoint if the log begins in remote storage, else None.

        The line is also below the first segment if a broker was killed after it removed segments. But then it has
        dropped the leader epochs of their records, and a tiered log keeps them (UnifiedLog.deleteSegments).
        """
        log_start = self.line(FileKind.LOG_START_CHECKPOINT)
        if log_start is None or log_start >= start:
            return None
        epochs, _ = try_leader_epochs(self.fs, self)
        return log_start if any(entry.start_offset < start for entry in epochs) else None

    @property
    def latest_offset(self) -> int:
        """The offset that a leader gives as the latest (ListOffsets): its high watermark.

        After a clean shutdown that is the checkpoint's line. Otherwise the line may be some seconds old, and the end of
        the log is closer.
        """
        watermark = self.bounds.high_watermark
        return watermark if watermark is not None and self.is_clean else self.bounds.next_offset

    @cached_property
    def last_epoch(self) -> int:
        """The last epoch in its leader-epoch-checkpoint, -1 without any. Raises as `open_read`."""
        entries, _ = read_leader_epochs(self.fs, self)
        return max((entry.epoch for entry in entries), default=-1)

    @cached_property
    def topic_id(self) -> str | None:
        """The topic id in `partition.metadata`; None if the file is missing or unreadable."""
        return None if self.metadata is None else topic_id_on_disk(self.fs, self.path)


_OF_START = (FileKind.RECOVERY_POINT_CHECKPOINT.value, FileKind.LOG_START_CHECKPOINT.value)
_SORTED_KINDS = SEGMENT_KINDS | {
    FileKind.SEVEN_LOG,
    FileKind.PRODUCER_SNAPSHOT,
    FileKind.METADATA_SNAPSHOT,
    FileKind.LEADER_EPOCH_CHECKPOINT,
    FileKind.PARTITION_METADATA,
}


def topic_id_on_disk(fs: Filesystem, path: str) -> str | None:
    """Return the topic id in the `partition.metadata` of a directory; None if the file is missing or unreadable."""
    try:
        metadata, _ = partition_metadata.decode(read_all(fs, f"{path}/{FileKind.PARTITION_METADATA.value}"))
    except (KafkalogError, OSError):
        return None
    return None if metadata is None else metadata.topic_id


def read_leader_epochs(fs: Filesystem, partition: Partition) -> tuple[list[EpochEntry], list[Fault]]:
    """Return the readable lines of a partition's leader-epoch-checkpoint, and its faults; nothing without the file.

    Raises as `open_read`.
    """
    if partition.leader_epochs is None:
        return [], []
    return checkpoint.decode_leader_epochs(read_all(fs, partition.leader_epochs.path))


def try_leader_epochs(fs: Filesystem, partition: Partition) -> tuple[list[EpochEntry], list[Fault]]:
    """Return what `read_leader_epochs` returns; a file that cannot be read is one fault of the kind UNREADABLE."""
    try:
        return read_leader_epochs(fs, partition)
    except (KafkalogError, OSError) as error:
        return [], [unreadable(error)]


def open_partition(fs: Filesystem, path: str, log_dirs: LogDirs | None = None) -> Partition:
    """Return the partition in a directory. Raises PathNotFound, NotKafkaLayout, Unreadable."""
    entries = entries_of_log(fs, path)
    if directory_name(path).kind is DirectoryKind.OTHER and not looks_like_partition(entries):
        raise NotKafkaLayout(path=path, reason="is not a partition directory")
    return Partition(fs, path, entries, _runs(fs, path, entries), log_dirs)


def open_partition_of(fs: Filesystem, path: str, wanted: frozenset[str] | None) -> Partition:
    """Return the partition at `path`; an empty one around files that were copied out of their directory (`wanted`).

    Raises the exceptions of `open_partition`.
    """
    try:
        return open_partition(fs, path)
    except NotKafkaLayout:
        if wanted is None:
            raise
    return Partition(fs, path)


def entries_of_log(fs: Filesystem, path: str) -> list[FileStatus]:
    """Return the entries of a directory that may belong to the log in it. Raises as `list_directory`.

    A directory that is not named like a partition may be anything, such as /tmp with a copy of a segment. There, files
    with other names than Kafka's, such as x.log, x.deleted or 12.txt, are of others: no command touches or names them.
    """
    entries = fs.list_directory(path)
    if directory_name(path).kind is not DirectoryKind.OTHER:
        return entries
    return [entry for entry in entries if is_name_of_kafka(name := entry.name) or name == OWN_DIRECTORY]


class UnusableFile(NamedTuple):
    """An entry that has the name of a file of Kafka, but is not a usable file; `what` describes it."""

    path: str
    what: str
    is_directory: bool = False


def unusable_files(
    fs: Filesystem, entries: Iterable[FileStatus], kinds: Collection[FileKind] = PARTITION_KINDS
) -> Iterator[UnusableFile]:
    """Yield the entries of a directory that no program can use as the files of these kinds that their names promise.

    These are directories, pipes, devices, and links that lead nowhere or are not followed. A link in the place of a
    file of an unfinished cleaning is one too. No broker made it, and the end of the cleaning would put it in place.
    """
    for entry in entries:
        if entry.is_file and not entry.is_symlink:
            continue
        name = classify_file(entry.name)
        if name.kind not in kinds or name.state not in (WorkState.IN_PLACE, WorkState.CLEANED, WorkState.SWAP):
            continue
        if name.state is not WorkState.IN_PLACE:
            if entry.is_symlink and entry.is_file:
                yield UnusableFile(
                    entry.path, "a symbolic link in the place of a file of an unfinished cleaning or split"
                )
            continue
        if entry.is_directory:
            yield UnusableFile(entry.path, "a directory", is_directory=True)
        elif entry.is_symlink:
            what = _problem_of_link(fs, entry.path)
            if what is not None:
                yield UnusableFile(entry.path, what)
        elif not entry.is_file:
            yield UnusableFile(entry.path, "a pipe, a socket or a device")


def is_passed_over(entry: FileStatus) -> bool:
    """Whether an entry is a link with the name of a deleted or temporary file.

    No run changes or follows it. A broker that starts removes a deleted file, and of a link nothing but the link.
    """
    return entry.is_symlink and classify_file(entry.name).state in (WorkState.DELETED, WorkState.TEMPORARY)


def _problem_of_link(fs: Filesystem, path: str) -> str | None:
    try:
        fs.open_read(path).close()
    except PathNotFound:
        return "a symbolic link that leads nowhere"
    except NotKafkaLayout as error:
        return f"a symbolic link to an entry that {error.details['reason']}"
    except Unreadable as error:
        if isinstance(error.__cause__, LinkNotFollowed):
            return str(error.details["reason"]).removeprefix("it is ").partition("; find out")[0]
        is_loop = isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.ELOOP
        return "a symbolic link that leads nowhere" if is_loop else None
    return None


def segment_of_file(fs: Filesystem, path: str) -> Segment | None:
    """Return the segment with the log file `path` and the indexes in the same directory.

    None if the file does not exist or its name is not that of a log.
    """
    name = classify_file(path.rpartition("/")[2])
    log = fs.status(path)
    if name.offset is None or log is None or name.kind not in (FileKind.LOG, FileKind.SEVEN_LOG):
        return None
    if name.kind is FileKind.SEVEN_LOG:
        return Segment(name.offset, log, is_v07=True)
    stem = path[: -len(FileKind.LOG.value)]
    return Segment(
        name.offset,
        log,
        fs.status(stem + FileKind.OFFSET_INDEX.value),
        fs.status(stem + FileKind.TIME_INDEX.value),
        fs.status(stem + FileKind.TXN_INDEX.value),
    )


def directory_name(path: str) -> DirectoryName:
    """Return the parsed name of the directory at `path`, which may be `.` or end in a slash."""
    name = path.rpartition("/")[2]
    if name in {"", ".", ".."}:
        name = os.path.basename(os.path.abspath(path))  # noqa: PTH100, PTH119  (links are not followed)
    return classify_directory(name)


def _runs(fs: Filesystem, path: str, entries: list[FileStatus]) -> tuple[str, ...]:
    """Return the names of the runs in the partition's `.kafkalog`; none if this user may not list it.

    The log can be read all the same, and whoever changes it takes the lock in `.kafkalog` first.
    """
    own = [e for e in entries if e.is_directory and classify_directory(e.name).kind is DirectoryKind.OWN]
    try:
        return tuple(run.name for e in own for run in fs.list_directory(e.path) if run.is_directory)
    except Unreadable:
        return ()


def _as_given(entry: FileStatus) -> FileStatus:
    return entry._replace(path=entry.given_path) if entry.given_path else entry


def _segments(by_kind: dict[FileKind, list[PartitionFile]]) -> tuple[list[Segment], list[PartitionFile]]:
    sidecars = {
        (kind, file.name.offset): file
        for kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX)
        for file in by_kind.get(kind, ())
    }

    def take(kind: FileKind, offset: int) -> FileStatus | None:
        sidecar = sidecars.pop((kind, offset), None)
        return None if sidecar is None else sidecar.status

    segments = []
    for file in by_kind.get(FileKind.LOG, []) + by_kind.get(FileKind.SEVEN_LOG, []):
        offset = file.name.offset
        if offset is None:
            continue
        if file.name.kind is FileKind.SEVEN_LOG:
            segments.append(Segment(offset, file.status, is_v07=True))
        else:
            index, time_index = take(FileKind.OFFSET_INDEX, offset), take(FileKind.TIME_INDEX, offset)
            segments.append(Segment(offset, file.status, index, time_index, take(FileKind.TXN_INDEX, offset)))
    return sorted(segments, key=lambda segment: segment.base_offset), sorted(sidecars.values(), key=_offset)


def _has_offset(file: PartitionFile) -> bool:
    return file.name.offset is not None


def _offset(file: PartitionFile) -> int:
    return -1 if file.name.offset is None else file.name.offset


Takes = Callable[[DirectoryName], bool]
"""A filter that returns whether the partition directory of this name is selected."""

_PARTITION_KINDS = (DirectoryKind.PARTITION, DirectoryKind.DELETE, DirectoryKind.FUTURE, DirectoryKind.STRAY)

_MOST_LOOKED_AT = 100
"""Directories in which a log directory is looked for, if a directory is none."""


class PartitionPath(NamedTuple):
    """A partition directory that was found but not yet listed."""

    path: str
    directory: DirectoryName


def partitions_in(
    fs: Filesystem, path: str, takes: Takes | None = None, listed: Sequence[FileStatus] | None = None
) -> list[PartitionPath]:
    """Return the partition directories of a log directory, by topic, number and name.

    Raises PathNotFound, NotKafkaLayout, Unreadable.

    `takes` selects partitions by name; None selects all. Other partitions are listed only if nothing else shows that
    this is a log directory. `listed` are its entries; None: they are listed now.

    A log directory without any root file, such as a copy of partition directories, is recognized by the files in its
    partitions. Their names are not enough, as other programs use such directory names too.
    """
    entries = fs.list_directory(path) if listed is None else listed
    partitions = [
        PartitionPath(entry.path, directory)
        for entry in entries
        if entry.is_directory and (directory := _partition_directory(fs, entry, takes)) is not None
    ]
    is_known = any(map(is_sign_of_broker, root_files(entries).values()))
    if not is_known:
        partitions, is_known = _with_files(fs, partitions)
    if not is_known and takes is not None:
        is_known = _has_another(fs, entries, takes)
    if not is_known:
        raise NotKafkaLayout(
            path=path, reason=f"is neither a log directory nor a partition directory{_below(fs, entries)}"
        )
    return sorted(partitions, key=_order)


def _below(fs: Filesystem, entries: Iterable[FileStatus]) -> str:
    """Return a hint at log directories in a directory that is none, such as the root of a volume with lost+found."""
    found = []
    for entry in islice((entry for entry in entries if entry.is_directory), _MOST_LOOKED_AT):
        with suppress(KafkalogError):  # lost+found is root's
            if has_root_file(fs, entry.path, is_sign_of_broker):
                found.append(entry.path)
    return f". There is a log directory in it: {', '.join(found[:3])}" if found else ""


def _partition_directory(fs: Filesystem, entry: FileStatus, takes: Takes | None = None) -> DirectoryName | None:
    directory = classify_directory(entry.name)
    if directory.kind not in _PARTITION_KINDS or (takes is not None and not takes(directory)):
        return None
    # Only old documentation has names like topic_0, and other programs' directories have such names too.
    if directory.separator == "_":
        try:
            return directory if looks_like_partition(fs.list_directory(entry.path)) else None
        except KafkalogError:
            return None
    return directory


def _has_another(fs: Filesystem, entries: Iterable[FileStatus], takes: Takes) -> bool:
    """Whether a partition that is not selected contains files of a partition, so that this is a log directory."""
    for entry in entries:
        directory = _partition_directory(fs, entry, lambda name: not takes(name)) if entry.is_directory else None
        if directory is not None and _with_files(fs, [PartitionPath(entry.path, directory)])[1]:
            return True
    return False


def log_bytes(partition: Partition, wanted: frozenset[str] | None = None) -> int:
    """Return the bytes of a partition's log files; `wanted` limits the sum to these file names."""
    names = ((segment.log.path.rpartition("/")[2], segment.log.size_bytes) for segment in partition.segments)
    return sum(size_bytes for name, size_bytes in names if wanted is None or name in wanted)


def _with_files(fs: Filesystem, partitions: list[PartitionPath]) -> tuple[list[PartitionPath], bool]:
    """Return the partitions with files of a partition or without any entry, and whether any has such files.

    The list is empty if none has such files. Directories that cannot be listed are kept.
    """
    kept, is_known = [], False
    for partition in partitions:
        try:
            entries = fs.list_directory(partition.path)
        except Unreadable:
            kept.append(partition)
            continue
        holds = holds_partition(fs, entries)
        is_known |= holds
        if holds or not entries:
            kept.append(partition)
    return kept if is_known else [], is_known


def _order(partition: PartitionPath) -> tuple[str, int, str]:
    directory = partition.directory
    return directory.topic or "", directory.partition or 0, directory.name
