"""The entries of a log directory, and the files of one partition directory: segments, snapshots and all others."""

import errno
import os
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from kafkalog_cli.disk.directory_contents import (
    has_root_file,
    holds_partition,
    is_name_of_kafka,
    is_sign_of_broker,
    looks_like_partition,
    root_files,
)
from kafkalog_cli.disk.followed_links import LinkNotFollowed
from kafkalog_cli.disk.fs import FileStatus, Filesystem
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
)
from kafkalog_cli.errors import KafkalogError, NotKafkaLayout, PathNotFound, Unreadable

MAX_SEGMENT_BYTES = (1 << 31) - 1
"""The largest size of a segment: FileRecords refuses a larger file."""


class Segment(NamedTuple):
    """One segment. `log` is its `.log` file (`.kafka` in Kafka 0.7); a missing index is None.

    `base_offset` is the number in the file name: an offset, or a byte position in Kafka 0.7 (`is_seven`).
    """

    base_offset: int
    log: FileStatus
    offset_index: FileStatus | None = None
    time_index: FileStatus | None = None
    txn_index: FileStatus | None = None
    is_seven: bool = False


class PartitionFile(NamedTuple):
    """A file of a partition directory, with its parsed name."""

    name: FileName
    status: FileStatus


class Partition(NamedTuple):
    """The contents of a partition directory.

    `segments` are sorted by base offset. `snapshots` are producer snapshots without a work suffix.
    `leftovers` are files with a work suffix, and `orphans` are indexes without a log.
    `metadata_snapshots` are those of KRaft. `runs` are the names of directories in `.kafkalog`.
    `others` are all other files, also those of Kafka 0.7 beside `.log` files, which no broker reads.
    `entries` is the listing that all this comes from, with directories and links: checks of names use it too.
    """

    path: str
    directory: DirectoryName
    segments: tuple[Segment, ...]
    snapshots: tuple[PartitionFile, ...] = ()
    leftovers: tuple[PartitionFile, ...] = ()
    orphans: tuple[PartitionFile, ...] = ()
    metadata_snapshots: tuple[PartitionFile, ...] = ()
    leader_epochs: FileStatus | None = None
    metadata: FileStatus | None = None
    others: tuple[PartitionFile, ...] = ()
    runs: tuple[str, ...] = ()
    entries: tuple[FileStatus, ...] = ()

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


def open_partition(fs: Filesystem, path: str) -> Partition:
    """Return the contents of a partition directory. Raises PathNotFound, NotKafkaLayout, Unreadable."""
    entries = entries_of_log(fs, path)
    directory = directory_name(path)
    if directory.kind is DirectoryKind.OTHER and not looks_like_partition(entries):
        raise NotKafkaLayout(path=path, reason="is not a partition directory")
    return _sorted_out(path, directory, entries, _runs(fs, path, entries))


def open_partition_of(fs: Filesystem, path: str, wanted: frozenset[str] | None) -> Partition:
    """Return the partition at `path`; an empty one around files that were copied out of their directory (`wanted`).

    Raises the exceptions of `open_partition`.
    """
    try:
        return open_partition(fs, path)
    except NotKafkaLayout:
        if wanted is None:
            raise
    return Partition(path, directory_name(path), ())


def entries_of_log(fs: Filesystem, path: str) -> list[FileStatus]:
    """Return the entries of a directory that may belong to the log in it. Raises as `list_directory`.

    A directory that is not named like a partition may be anything, such as /tmp with a copy of a segment. There, files
    with other names than Kafka's, such as x.log, x.deleted or 12.txt, are of others: no command touches or names them.
    """
    entries = fs.list_directory(path)
    if directory_name(path).kind is not DirectoryKind.OTHER:
        return entries
    return [one for one in entries if is_name_of_kafka(name := _name(one.path)) or name == OWN_DIRECTORY]


class OddFile(NamedTuple):
    """An entry that has the name of a file of Kafka, but is not a usable file; `what` describes it."""

    path: str
    what: str
    is_directory: bool = False


def odd_files(
    fs: Filesystem, entries: Iterable[FileStatus], kinds: Collection[FileKind] = PARTITION_KINDS
) -> Iterator[OddFile]:
    """Yield the entries of a directory that no program can use as the files of these kinds that their names promise.

    These are directories, pipes, devices, and links that lead nowhere or are not followed. A link in the place of a
    file of an unfinished cleaning is one too. No broker made it, and the end of the cleaning would put it in place.
    """
    for entry in entries:
        name = classify_file(_name(entry.path))
        if name.kind not in kinds or name.state not in (WorkState.IN_PLACE, WorkState.CLEANED, WorkState.SWAP):
            continue
        if name.state is not WorkState.IN_PLACE:
            if entry.is_symlink and entry.is_file:
                yield OddFile(entry.path, "a symbolic link in the place of a file of an unfinished cleaning or split")
            continue
        if entry.is_directory:
            yield OddFile(entry.path, "a directory", is_directory=True)
        elif entry.is_symlink:
            what = _oddness_of_link(fs, entry.path)
            if what is not None:
                yield OddFile(entry.path, what)
        elif not entry.is_file:
            yield OddFile(entry.path, "a pipe, a socket or a device")


def is_passed_over(entry: FileStatus) -> bool:
    """Whether an entry is a link with the name of a deleted or temporary file.

    No run changes or follows it. A broker that starts removes a deleted file, and of a link nothing but the link.
    """
    state = classify_file(_name(entry.path)).state
    return entry.is_symlink and state in (WorkState.DELETED, WorkState.TEMPORARY)


def _oddness_of_link(fs: Filesystem, path: str) -> str | None:
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
    name = classify_file(_name(path))
    log = fs.status(path)
    if name.offset is None or log is None or name.kind not in (FileKind.LOG, FileKind.SEVEN_LOG):
        return None
    if name.kind is FileKind.SEVEN_LOG:
        return Segment(name.offset, log, is_seven=True)
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
    return classify_directory(_name(os.path.abspath(path)))  # noqa: PTH100  (a name, links are not followed)


def _runs(fs: Filesystem, path: str, entries: list[FileStatus]) -> tuple[str, ...]:
    """Return the names of the runs in the partition's `.kafkalog`; none if this user may not list it.

    The log can be read all the same, and whoever changes it takes the lock in `.kafkalog` first.
    """
    own = [e for e in entries if e.is_directory and classify_directory(_name(e.path)).kind is DirectoryKind.OWN]
    try:
        return tuple(_name(run.path) for e in own for run in fs.list_directory(e.path) if run.is_directory)
    except Unreadable:
        return ()


def _as_given(entry: FileStatus) -> FileStatus:
    return entry._replace(path=entry.given_path) if entry.given_path else entry


def _sorted_out(path: str, directory: DirectoryName, entries: list[FileStatus], runs: tuple[str, ...]) -> Partition:
    of_runs = (entry for entry in entries if entry.is_file and not is_passed_over(entry))
    files = [PartitionFile(classify_file(entry.name), _as_given(entry)) for entry in of_runs]
    in_place = [f for f in files if f.name.state is WorkState.IN_PLACE]
    by_kind: dict[FileKind, list[PartitionFile]] = {}
    for file in in_place:
        by_kind.setdefault(file.name.kind, []).append(file)
    beside = by_kind.pop(FileKind.SEVEN_LOG, []) if any(map(_has_offset, by_kind.get(FileKind.LOG, ()))) else []
    segments, orphans = _segments(by_kind)
    fixed = {kind: found[0].status for kind, found in by_kind.items() if found}
    known = SEGMENT_KINDS | {
        FileKind.SEVEN_LOG,
        FileKind.PRODUCER_SNAPSHOT,
        FileKind.METADATA_SNAPSHOT,
        FileKind.LEADER_EPOCH_CHECKPOINT,
        FileKind.PARTITION_METADATA,
    }
    return Partition(
        path,
        directory,
        tuple(segments),
        tuple(sorted(by_kind.get(FileKind.PRODUCER_SNAPSHOT, ()), key=_offset)),
        tuple(f for f in files if f.name.state is not WorkState.IN_PLACE),
        tuple(orphans),
        tuple(by_kind.get(FileKind.METADATA_SNAPSHOT, ())),
        fixed.get(FileKind.LEADER_EPOCH_CHECKPOINT),
        fixed.get(FileKind.PARTITION_METADATA),
        (*beside, *(f for f in in_place if f.name.kind not in known)),
        runs,
        tuple(entries),
    )


def _segments(by_kind: dict[FileKind, list[PartitionFile]]) -> tuple[list[Segment], list[PartitionFile]]:
    sidecars = {
        (kind, file.name.offset): file
        for kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX)
        for file in by_kind.get(kind, ())
    }

    def take(kind: FileKind, offset: int) -> FileStatus | None:
        found = sidecars.pop((kind, offset), None)
        return None if found is None else found.status

    segments = []
    for file in by_kind.get(FileKind.LOG, []) + by_kind.get(FileKind.SEVEN_LOG, []):
        offset = file.name.offset
        if offset is None:
            continue
        seven = file.name.kind is FileKind.SEVEN_LOG
        if seven:
            segments.append(Segment(offset, file.status, is_seven=True))
        else:
            index, time_index = take(FileKind.OFFSET_INDEX, offset), take(FileKind.TIME_INDEX, offset)
            segments.append(Segment(offset, file.status, index, time_index, take(FileKind.TXN_INDEX, offset)))
    return sorted(segments, key=lambda segment: segment.base_offset), sorted(sidecars.values(), key=_offset)


def _has_offset(file: PartitionFile) -> bool:
    return file.name.offset is not None


def _offset(file: PartitionFile) -> int:
    return -1 if file.name.offset is None else file.name.offset


def _name(path: str) -> str:
    return path.rpartition("/")[2]


Takes = Callable[[DirectoryName], bool]
"""A filter that returns whether the partition directory of this name is selected."""

_PARTITION_KINDS = (DirectoryKind.PARTITION, DirectoryKind.DELETE, DirectoryKind.FUTURE, DirectoryKind.STRAY)

OFFSET_CHECKPOINTS = (
    FileKind.RECOVERY_POINT_CHECKPOINT,
    FileKind.REPLICATION_CHECKPOINT,
    FileKind.LOG_START_CHECKPOINT,
    FileKind.CLEANER_CHECKPOINT,
)


_MOST_LOOKED_AT = 100
"""Directories in which a log directory is looked for, if a directory is none."""


class PartitionPath(NamedTuple):
    """A partition directory that was found but not yet listed."""

    path: str
    directory: DirectoryName


class LogDir(NamedTuple):
    """A log directory: partitions in the order of topic, number and name; root files by kind; all other entries."""

    path: str
    partitions: tuple[PartitionPath, ...]
    root_files: dict[FileKind, FileStatus]
    others: tuple[FileStatus, ...]


def open_logdir(fs: Filesystem, path: str, takes: Takes | None = None) -> LogDir:
    """Return the entries of a log directory. Raises PathNotFound, NotKafkaLayout, Unreadable.

    `takes` selects partitions by name; None selects all. Other partitions are listed only if nothing else shows that
    this is a log directory.

    A log directory without any root file, such as a copy of partition directories, is recognized by the files in its
    partitions. Their names are not enough, as other programs use such directory names too.
    """
    entries = fs.list_directory(path)
    partitions = [
        PartitionPath(entry.path, directory)
        for entry in entries
        if entry.is_directory and (directory := _partition_directory(fs, entry, takes)) is not None
    ]
    at_root = root_files(entries)
    is_known = any(map(is_sign_of_broker, at_root.values()))
    if not is_known:
        partitions, is_known = _with_files(fs, partitions)
    if not is_known and takes is not None:
        is_known = _has_another(fs, entries, takes)
    if not is_known:
        raise NotKafkaLayout(
            path=path, reason=f"is neither a log directory nor a partition directory{_below(fs, entries)}"
        )
    taken = {p.path for p in partitions} | {status.path for status in at_root.values()}
    others = tuple(entry for entry in entries if entry.path not in taken)
    return LogDir(path, tuple(sorted(partitions, key=_order)), at_root, others)


def _below(fs: Filesystem, entries: Iterable[FileStatus]) -> str:
    """Return a hint at log directories in a directory that is none, such as the root of a volume with lost+found."""
    found = []
    for entry in islice((entry for entry in entries if entry.is_directory), _MOST_LOOKED_AT):
        with suppress(KafkalogError):  # lost+found is root's
            if has_root_file(fs, entry.path, is_sign_of_broker):
                found.append(entry.path)
    return f". There is a log directory in it: {', '.join(found[:3])}" if found else ""


def _partition_directory(fs: Filesystem, entry: FileStatus, takes: Takes | None = None) -> DirectoryName | None:
    directory = classify_directory(_name(entry.path))
    if directory.kind not in _PARTITION_KINDS or (takes is not None and not takes(directory)):
        return None
    # Only old documentation has names like topic_0, and other programs' directories have such names too.
    if directory.separator == "_":
        try:
            return directory if looks_like_partition(fs.list_directory(entry.path)) else None
        except KafkalogError:
            return None
    return directory


def _has_another(fs: Filesystem, entries: list[FileStatus], takes: Takes) -> bool:
    """Whether a partition that is not selected contains files of a partition, so that this is a log directory."""
    for entry in entries:
        directory = _partition_directory(fs, entry, lambda name: not takes(name)) if entry.is_directory else None
        if directory is not None and _with_files(fs, [PartitionPath(entry.path, directory)])[1]:
            return True
    return False


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
