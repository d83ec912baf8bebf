"""Describe a log directory for `ls`: the files at its root, how its broker stopped, and who holds its lock.

A small file that cannot be read or decoded gives a fault, never an exception.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Annotated, NamedTuple, TypeVar

from kafkalog_cli.change.new_partitions import ImportLeftovers, import_leftovers
from kafkalog_cli.disk.directory_contents import is_sign_of_broker, root_files
from kafkalog_cli.disk.fs import FileStatus, Filesystem, read_all
from kafkalog_cli.disk.names import ROOT_KINDS, DirectoryKind, FileKind, classify_directory
from kafkalog_cli.disk.posix_lock import LockOwner, import_owner, lock_owner
from kafkalog_cli.errors import KafkalogError, Unreadable, UnsupportedFormat
from kafkalog_cli.format import checkpoint, meta_properties
from kafkalog_cli.format.fault import Fault, FaultKind, unreadable
from kafkalog_cli.format.json_files import UNKNOWN_BROKER_EPOCH, decode_clean_shutdown
from kafkalog_cli.format.meta_properties import MetaProperties
from kafkalog_cli.log.log_dir import OFFSET_CHECKPOINTS, Shutdown, shutdown_of
from kafkalog_cli.log.partition import UnusableFile, unusable_files
from kafkalog_cli.ops.look.listing.broker_user import BrokerUser, broker_user
from kafkalog_cli.results import FLAT, Named, PathName, keywords

ValueT = TypeVar("ValueT")


class LocatedFault(NamedTuple):
    """Damage of a file.

    `is_corruption`: the bad bytes are before the end of the log, not at its tail or in a file beside it.
    """

    path: PathName
    fault: Annotated[Fault, FLAT]
    is_corruption: Annotated[
        bool,
        Named("severity"),
        keywords(lambda is_bad: "corruption" if is_bad else "warning", type="string", enum=("warning", "corruption")),
    ] = False


class FaultNotes:
    """Collects faults while files are read."""

    def __init__(self, fs: Filesystem) -> None:
        self.fs = fs
        self._found: list[LocatedFault] = []

    @property
    def found(self) -> tuple[LocatedFault, ...]:
        """The faults so far."""
        return tuple(self._found)

    def add(self, path: str, faults: Iterable[Fault], *, is_corruption: bool = False) -> None:
        """Note faults of one file."""
        self._found += [LocatedFault(path, fault, is_corruption) for fault in faults]

    def read(self, path: str) -> bytes | None:
        """Return the bytes of a small file; None, with a fault noted, if it cannot be read."""
        try:
            return read_all(self.fs, path)
        except (KafkalogError, OSError) as error:
            self.add(path, [unreadable(error)])
            return None

    def decoded(
        self, status: FileStatus | None, decode: Callable[[bytes], tuple[ValueT, list[Fault]]]
    ) -> ValueT | None:
        """Decode a small file and note its faults; None if there is no file, or if it cannot be read."""
        data = None if status is None else self.read(status.path)
        if status is None or data is None:
            return None
        value, faults = decode(data)
        self.add(status.path, faults)
        return value


class CheckpointedOffsets(NamedTuple):
    """The partition's lines in the root checkpoints."""

    recovery_point: int | None = None
    high_watermark: int | None = None
    log_start: int | None = None
    cleaner: int | None = None


@dataclass(frozen=True, slots=True)
class LogDirRoot:
    """The root of a log directory.

    `broker_epoch` is the epoch in `.kafka_cleanshutdown`, None if the file has none. `foreign` are directories with
    which a broker does not start, and `others` further entries that Kafka does not know. `odd` have the names of root
    files, but are not usable files. `lock_problem` says why it is
    not known whether the lock is held. `marker_held_for`: kafkalog holds the clean shutdown marker back, because of its
    runs (keys) that changed these partitions. `imports` are the leftovers of interrupted imports. They may also belong
    to a running import; `importer` then is the owner of its lock. `user` is the user that the broker runs as, None
    for root.
    """

    path: str
    shutdown: Shutdown
    broker_epoch: int | None = None
    lock_owner: LockOwner | None = None
    lock_problem: str | None = None
    marker_held_for: dict[str, tuple[str, ...]] = field(default_factory=dict)
    meta: MetaProperties | None = None
    files: tuple[FileStatus, ...] = ()
    foreign: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    odd: tuple[UnusableFile, ...] = ()
    offsets: dict[FileKind, dict[tuple[str, int], int]] = field(default_factory=dict)
    faults: tuple[LocatedFault, ...] = ()
    imports: ImportLeftovers = field(default_factory=ImportLeftovers)
    importer: LockOwner | None = None
    user: BrokerUser | None = None

    @property
    def is_live(self) -> bool:
        """Whether a broker is running on the log directory."""
        return self.lock_owner is not None and self.lock_owner.is_exclusive

    @property
    def marker_held_until(self) -> str:
        """When a marker that is held back can be restored, in words."""
        from kafkalog_cli.change.clean_marker import PURGED

        purged = self.marker_held_for.get(PURGED)
        if purged:
            return f"for good: what a run on {', '.join(purged)} kept is purged"
        runs = (f"run {run} (on {', '.join(names)})" for run, names in self.marker_held_for.items())
        return f"until undone: {', '.join(runs)}"

    def about(self, topic: str, partition: int) -> LogDirRoot:
        """Return the state with the lines of one partition only, small enough to send with each of many partitions."""
        names = ((topic, partition),)
        lines = {
            kind: {name: offsets[name] for name in names if name in offsets} for kind, offsets in self.offsets.items()
        }
        return replace(self, offsets=lines, others=(), foreign=(), files=(), imports=ImportLeftovers())

    def offsets_of(self, topic: str, partition: int) -> CheckpointedOffsets:
        """Return the checkpoint lines of one partition."""
        return CheckpointedOffsets(*(self.offsets.get(kind, {}).get((topic, partition)) for kind in OFFSET_CHECKPOINTS))


def read_root(fs: Filesystem, path: str, partitions: frozenset[str]) -> LogDirRoot:
    """Read the root of the log directory `path`; `partitions` are the paths of its partition directories.

    Raises as `list_directory` does.
    """
    return _root(fs, path, fs.list_directory(path), partitions)


def root_above(fs: Filesystem, partition_path: str) -> LogDirRoot | None:
    """Read the root of the log directory of a partition; None if its parent directory is not a log directory."""
    path = os.path.dirname(os.path.abspath(partition_path))  # noqa: PTH100, PTH120 (a name, links are not followed)
    try:
        entries = fs.list_directory(path)
    except KafkalogError:
        return None
    if not any(map(is_sign_of_broker, entries)):
        return None
    directories = frozenset(entry.path for entry in entries if entry.is_directory)
    return _root(fs, path, entries, directories)


def _root(fs: Filesystem, path: str, entries: list[FileStatus], partitions: frozenset[str]) -> LogDirRoot:
    notes = FaultNotes(fs)
    files = root_files(entries)
    foreign, others = _unknown(entries, partitions, notes)
    owner, problem = _ask(lock_owner, path)
    imports = _imports(fs, path, entries, files, notes)
    return LogDirRoot(
        path,
        shutdown_of(owner, has_marker=FileKind.CLEAN_SHUTDOWN in files) if files else Shutdown.UNKNOWN,
        _broker_epoch(files, notes),
        owner,
        problem,
        _marker_held_for(fs, path, files, notes),
        notes.decoded(files.get(FileKind.META_PROPERTIES), meta_properties.decode),
        tuple(entry for entry in entries if entry.is_file),
        foreign,
        others,
        tuple(unusable_files(fs, entries, ROOT_KINDS)),
        _offsets(files, notes),
        notes.found,
        imports,
        _ask(import_owner, path)[0] if imports else None,
        broker_user(fs.status(path), entries),
    )


def _unknown(
    entries: list[FileStatus], partitions: frozenset[str], notes: FaultNotes
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    foreign, others = [], []
    for entry in entries:
        name = entry.name
        if entry.is_directory:
            directory = classify_directory(name)
            if entry.path in partitions or directory.kind in (DirectoryKind.OWN, DirectoryKind.REMOTE_INDEX_CACHE):
                continue
            if directory.topic is not None and directory.separator == "-":
                others.append(name)  # a partition only by its name
            else:
                message = "is not a partition directory: a broker does not start with it"
                notes.add(entry.path, [Fault(FaultKind.INVALID_ENTRY, 0, message)])
                foreign.append(name)
        elif not root_files([entry]):
            others.append(name)
    return tuple(foreign), tuple(others)


def _ask(ask_lock: Callable[[str], LockOwner | None], path: str) -> tuple[LockOwner | None, str | None]:
    try:
        return ask_lock(path), None
    except OSError as error:
        return None, error.strerror or str(error)


def _broker_epoch(files: dict[FileKind, FileStatus], notes: FaultNotes) -> int | None:
    content = notes.decoded(files.get(FileKind.CLEAN_SHUTDOWN), decode_clean_shutdown)
    return None if content is None or content.broker_epoch == UNKNOWN_BROKER_EPOCH else content.broker_epoch


def _marker_held_for(
    fs: Filesystem, path: str, files: dict[FileKind, FileStatus], notes: FaultNotes
) -> dict[str, tuple[str, ...]]:
    """Return the partitions by the run that holds the clean shutdown marker back.

    If the marker itself exists, a held one beside it is outdated.
    """
    status = files.get(FileKind.HELD_CLEAN_SHUTDOWN)
    if status is None or FileKind.CLEAN_SHUTDOWN in files:
        return {}
    from kafkalog_cli.change.clean_marker import read_held_marker

    try:
        marker = read_held_marker(fs, path)
    except (KafkalogError, OSError) as error:
        notes.add(status.path, [unreadable(error)])
        return {}
    if marker is None:
        message = "holds no marker of a clean shutdown: there is nothing to restore"
        notes.add(status.path, [Fault(FaultKind.INVALID_ENTRY, 0, message)])
        return {}
    return marker.reasons


def _imports(
    fs: Filesystem, path: str, entries: list[FileStatus], files: dict[FileKind, FileStatus], notes: FaultNotes
) -> ImportLeftovers:
    """Return the leftovers of imports.

    If the record of an import cannot be read, it is unknown which directories it needs; there are none then, and a
    fault is noted.
    """
    try:
        return import_leftovers(fs, path, [entry.name for entry in entries if entry.is_directory])
    except (Unreadable, OSError) as error:
        fault = unreadable(error)
    except UnsupportedFormat as error:
        fault = Fault(FaultKind.INVALID_ENTRY, 0, str(error.details["reason"]))
    notes.add(files[FileKind.IMPORT_RECORD].path, [fault])
    return ImportLeftovers()


def _offsets(files: dict[FileKind, FileStatus], notes: FaultNotes) -> dict[FileKind, dict[tuple[str, int], int]]:
    offsets: dict[FileKind, dict[tuple[str, int], int]] = {}
    for kind in OFFSET_CHECKPOINTS:
        entries = notes.decoded(files.get(kind), checkpoint.decode_offsets)
        if entries is not None:
            offsets[kind] = {(entry.topic, entry.partition): entry.offset for entry in entries}
    return offsets
