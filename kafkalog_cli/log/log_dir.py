"""What the root of a log directory says about its partitions: how the broker stopped, and the lines of checkpoints.

`change.checkpoint_lines` changes the lines of offset checkpoints.
"""

from __future__ import annotations

import os
from enum import Enum, unique
from threading import Lock
from typing import TYPE_CHECKING, Annotated, NamedTuple

from kafkalog_cli.disk.fs import Filesystem, read_all
from kafkalog_cli.disk.lock import log_dir_of
from kafkalog_cli.disk.names import METADATA_TOPIC, FileKind, partition_directory_name
from kafkalog_cli.disk.posix_lock import LockOwner, lock_owner
from kafkalog_cli.errors import KafkalogError, PathNotFound
from kafkalog_cli.format import checkpoint
from kafkalog_cli.format.checkpoint import BrokerReading
from kafkalog_cli.format.fault import Fault, unreadable
from kafkalog_cli.format.strict_json import int32
from kafkalog_cli.results import HIDDEN, Hidden, Named, as_text

if TYPE_CHECKING:
    from kafkalog_cli.log.settings.source import SettingsSource

OFFSET_CHECKPOINTS = (
    FileKind.RECOVERY_POINT_CHECKPOINT,
    FileKind.REPLICATION_CHECKPOINT,
    FileKind.LOG_START_CHECKPOINT,
    FileKind.CLEANER_CHECKPOINT,
)


@unique
class Shutdown(Enum):
    """How the broker of the directory stopped. The value is the word that machine output uses."""

    CLEAN = "clean"
    UNCLEAN = "unclean"
    RUNNING = "running"  # a broker holds the lock
    UNKNOWN = "unknown"  # no root file at all: a copy of partition directories


def shutdown_of(owner: LockOwner | None, *, has_marker: bool) -> Shutdown:
    """Return how the broker of a log directory stopped, from the owner of its lock and the clean-shutdown file."""
    if owner is not None and owner.is_exclusive:
        return Shutdown.RUNNING
    return Shutdown.CLEAN if has_marker else Shutdown.UNCLEAN


class LogDir(NamedTuple):
    """A log directory: how its broker stopped, and its four offset checkpoints.

    `offsets` are by (topic, partition). A damaged file contributes the lines that can be read, though a broker reads
    none of them. `faults` are pairs of path and fault.
    """

    path: str
    shutdown: Shutdown
    offsets: dict[FileKind, dict[tuple[str, int], int]]
    faults: tuple[tuple[str, Fault], ...] = ()
    readings: tuple[tuple[FileKind, BrokerReading], ...] = ()
    """How a broker reacts to each damaged file."""
    repeated: frozenset[FileKind] = frozenset()
    """The files with several lines for one partition."""
    cleaned_topics: frozenset[str] = frozenset()
    """The topics with a line in cleaner-offset-checkpoint. The policy of one partition is that of all of the topic."""

    def needs_rebuild(self, kind: FileKind) -> bool:
        """Whether a broker cannot read the file, or it has several lines for one partition."""
        return kind in self.repeated or any(kind is damaged for damaged, _ in self.readings)

    def line(self, kind: FileKind, topic: str, partition: int) -> int | None:
        """Return the offset in a partition's line; None if there is no line."""
        return self.offsets.get(kind, {}).get((topic, partition))


def read_log_dir(fs: Filesystem, path: str) -> LogDir:
    """Read the root of a log directory. A missing checkpoint has no lines, a damaged one has faults. Never raises."""
    has_marker = fs.status(f"{path}/{FileKind.CLEAN_SHUTDOWN.value}") is not None
    try:
        shutdown = shutdown_of(lock_owner(path), has_marker=has_marker)
    except OSError:
        shutdown = shutdown_of(None, has_marker=has_marker)
    offsets: dict[FileKind, dict[tuple[str, int], int]] = {}
    faults: list[tuple[str, Fault]] = []
    readings: list[tuple[FileKind, BrokerReading]] = []
    repeated: set[FileKind] = set()
    for kind in OFFSET_CHECKPOINTS:
        file = checkpoint_path(path, kind)
        try:
            data = read_all(fs, file)
            entries, found = checkpoint.decode_offsets(data)
        except PathNotFound:
            continue
        except (KafkalogError, OSError) as error:
            faults.append((file, unreadable(error)))
            continue
        offsets[kind] = {(entry.topic, entry.partition): entry.offset for entry in entries}
        faults += [(file, fault) for fault in found]
        if found:
            readings.append((kind, checkpoint.broker_reading(data)))
        if len(offsets[kind]) < len(entries):
            repeated.add(kind)
    cleaned = frozenset(topic for topic, _ in offsets.get(FileKind.CLEANER_CHECKPOINT, {}))
    return LogDir(path, shutdown, offsets, tuple(faults), tuple(readings), frozenset(repeated), cleaned)


class LogDirs:
    """The log directories of one run, each read once, at the first request. Threads share this object.

    A change to one partition removes the clean-shutdown file for a while. For other partitions the shutdown is still
    clean.
    """

    def __init__(self, fs: Filesystem) -> None:
        self.settings: SettingsSource | None = None
        self._fs = fs
        self._reading = Lock()
        self._above: dict[str, str | None] = {}
        self._read: dict[str, LogDir] = {}  # by its path, and by its real path

    def again(self) -> LogDirs:
        """Return the same log directories, to be read again."""
        log_dirs = LogDirs(self._fs)
        log_dirs.settings = self.settings
        return log_dirs

    def path_above(self, path: str) -> str | None:
        """Return the log directory of a partition at `path`, None if it is in none. Each parent is looked up once."""
        parent = os.path.dirname(os.path.abspath(path))  # noqa: PTH100, PTH120  (links are not followed)
        if parent not in self._above:
            self._above[parent] = log_dir_of(self._fs, path)
        return self._above[parent]

    def read(self, path: str) -> LogDir:
        """Return what the root of the log directory at `path` says."""
        log_dir = self._read.get(path)
        if log_dir is None:
            real = os.path.realpath(path)
            with self._reading:  # a second caller must not read after the first has removed the clean-shutdown file
                log_dir = self._read[path] = self._read.get(real) or read_log_dir(self._fs, path)
                self._read[real] = log_dir
        return log_dir


def metadata_log_in(fs: Filesystem, directory: str) -> str | None:
    """Return the path of the metadata log in a log directory (or metadata.log.dir), None if it does not exist."""
    path = f"{directory.rstrip('/')}/{partition_directory_name(METADATA_TOPIC, 0)}"
    status = fs.status(path)
    return path if status is not None and status.is_directory else None


def checkpoint_path(log_dir: str, kind: FileKind) -> str:
    """Return the path of an offset checkpoint."""
    return os.path.join(log_dir, kind.value)  # noqa: PTH118 (paths are text)


@unique
class HighWatermarkOrigin(Enum):
    """The source of a high watermark. The value is its word in JSON output."""

    CHECKPOINT = FileKind.REPLICATION_CHECKPOINT.value
    LOG_END = "log-end"


class HighWatermark(NamedTuple):
    """The offset below which every in-sync replica has the records, as far as the disk shows."""

    offset: int
    origin: HighWatermarkOrigin


class StartState(NamedTuple):
    """The state of a partition in its log directory when the broker starts.

    The offsets come from the checkpoints, 0 without a line. `is_clean`: the last broker stopped cleanly.
    """

    is_clean: bool
    recovery_point: int = 0
    log_start_offset: int = 0


class LineEdit(NamedTuple):
    """The partition's line in a checkpoint of the log directory."""

    kind: Annotated[FileKind, Named("file"), as_text(lambda kind: kind.value), "the name of the checkpoint"]
    topic: Hidden[str]
    partition: Annotated[int, HIDDEN, int32]
    offset: Annotated[int | None, "null: the line is removed"]
