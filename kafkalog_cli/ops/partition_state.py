"""The state of a partition: what its log directory says about it, and where its log begins and ends."""

from __future__ import annotations

import os
from collections.abc import Iterable
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.disk.names import DirectoryKind, FileKind, classify_file, moved_from_root
from kafkalog_cli.errors import NothingSelected, Unreadable
from kafkalog_cli.format.checkpoint import BrokerReading
from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.log.checkpoints import (
    HighWatermark,
    RootCheckpoints,
    high_watermark,
    read_root_checkpoints,
    try_leader_epochs,
)
from kafkalog_cli.log.log_end import LogBounds, segment_ends
from kafkalog_cli.log.partition import OFFSET_CHECKPOINTS, Partition, Segment
from kafkalog_cli.log.reading.segment_reader import SegmentReader
from kafkalog_cli.ops.listing.root import LogDirRoot, Shutdown, broker_root

if TYPE_CHECKING:
    from kafkalog_cli.broker.log_loader import StartState
    from kafkalog_cli.change.checkpoint_lines import LineEdit

_OF_START = (FileKind.RECOVERY_POINT_CHECKPOINT.value, FileKind.LOG_START_CHECKPOINT.value)


class PartitionState(NamedTuple):
    """A log directory's information about one partition: how the broker stopped, and the lines of the checkpoints.

    `log_dir` is None if the partition is in no log directory, or must not be changed there.
    """

    log_dir: str | None
    topic: str
    partition: int
    shutdown: Shutdown = Shutdown.UNKNOWN
    lines: tuple[tuple[FileKind, int], ...] = ()
    faults: tuple[tuple[str, Fault], ...] = ()
    """Faults of checkpoints, each with its path. Lines that seem to be missing from these files may be lost."""
    readings: tuple[tuple[FileKind, BrokerReading], ...] = ()
    """How a broker reads each damaged checkpoint."""
    topic_was_cleaned: bool = False
    """Whether cleaner-offset-checkpoint lists a partition of the topic."""

    @property
    def is_clean(self) -> bool:
        """Whether a broker that starts now finds the marker of a clean shutdown."""
        return self.shutdown is Shutdown.CLEAN

    def line(self, kind: FileKind) -> int | None:
        """Return the partition's offset in a checkpoint, None if it has no line."""
        return dict(self.lines).get(kind)

    def check_start(self, fs: Filesystem) -> None:
        """Raise Unreadable if a checkpoint that `start` needs cannot be read, with the command that helps, if any."""
        for path, fault in self.faults:
            if fault.kind is FaultKind.UNREADABLE and path.endswith(_OF_START):
                reason = fault.message.removeprefix("cannot be read: ")
                found = fs.status(path)
                if found is not None and not found.is_file:
                    reason += f"; {moved_from_root(path, is_directory=found.is_directory)} moves it away"
                raise Unreadable(path=path, reason=reason)

    @property
    def broker_start(self) -> StartState:
        """The broker's start state for the partition. A damaged checkpoint that a broker cannot read gives no line."""
        from kafkalog_cli.broker.log_loader import StartState  # a heavy import that readers do not need

        recovery_point = self.broker_line(FileKind.RECOVERY_POINT_CHECKPOINT) or 0
        return StartState(self.is_clean, recovery_point, self.broker_line(FileKind.LOG_START_CHECKPOINT) or 0)

    def broker_line(self, kind: FileKind) -> int | None:
        """Return the partition's offset in a checkpoint as a broker reads it; None for a damaged file."""
        return None if kind in dict(self.readings) else self.line(kind)

    @property
    def failing_checkpoint(self) -> tuple[str, Fault, BrokerReading] | None:
        """The first checkpoint that makes a broker's start fail: its path, the fault, and how the broker fails."""
        for kind, reading in self.readings:
            if kind.value in _OF_START and reading in (BrokerReading.FAILS, BrokerReading.OUT_OF_MEMORY):
                path, fault = next((path, fault) for path, fault in self.faults if path.endswith(f"/{kind.value}"))
                return path, fault, reading
        return None

    @property
    def start(self) -> StartState:
        """The start state from the checkpoints, including valid lines of damaged files; 0 for a missing line."""
        from kafkalog_cli.broker.log_loader import StartState  # as above

        recovery_point = self.line(FileKind.RECOVERY_POINT_CHECKPOINT) or 0
        return StartState(self.is_clean, recovery_point, self.log_start)

    @property
    def log_start(self) -> int:
        """The log start offset that a broker reads when it starts, 0 without a line."""
        return self.line(FileKind.LOG_START_CHECKPOINT) or 0

    def high_watermark(self, log_end_offset: int) -> HighWatermark:
        """See log/checkpoints.py."""
        return high_watermark(log_end_offset, self.line(FileKind.REPLICATION_CHECKPOINT))

    def edit(self, kind: FileKind, offset: int | None) -> tuple[LineEdit, ...]:
        """Return the edit that sets a line to `offset` (None removes the line).

        The result is empty if the line is already right, or without a log directory.
        """
        if self.log_dir is None or self.line(kind) == offset:
            return ()
        from kafkalog_cli.change.checkpoint_lines import LineEdit

        return (LineEdit(kind, self.topic, self.partition, offset),)

    def lower(self, kind: FileKind, offset: int) -> tuple[LineEdit, ...]:
        """Return the edit that lowers a line to `offset`, if it is larger."""
        line = self.line(kind)
        return () if line is None or line <= offset else self.edit(kind, offset)

    def lift(self, kind: FileKind, offset: int) -> tuple[LineEdit, ...]:
        """Return the edit that raises a line to `offset`, if there is a line and it is smaller."""
        line = self.line(kind)
        return () if line is None or line >= offset else self.edit(kind, offset)

    def believes_indexes(self, partition: Partition, segment: Segment) -> bool:
        """Whether the broker uses the indexes of `segment` as they are on disk.

        A broker rebuilds the indexes of a segment without an offset index. After an unclean shutdown it also rebuilds
        those of the segments from the recovery point on. A running broker has the active segment's indexes in memory.
        """
        if segment.offset_index is None or partition.directory.is_metadata_log:
            return False
        if self.shutdown is Shutdown.CLEAN:
            return True
        following = next((s.base_offset for s in partition.segments if s.base_offset > segment.base_offset), None)
        if self.shutdown is Shutdown.UNCLEAN:
            return following is not None and following <= (self.line(FileKind.RECOVERY_POINT_CHECKPOINT) or 0)
        return following is not None


class Roots:
    """The states of log directories, each read once, at the first request. Threads share this object.

    A change to one partition removes the clean shutdown marker for a while. For other partitions the shutdown is still
    clean.
    """

    def __init__(self, fs: Filesystem) -> None:
        self._fs = fs
        self._reading = Lock()
        self._found: dict[str, tuple[bool, RootCheckpoints]] = {}  # by the real path

    def checkpoints(self, log_dir: str | None) -> RootCheckpoints | None:
        """Return the checkpoints of a log directory, None for None."""
        return None if log_dir is None else self._of(log_dir)[1]

    def state(self, log_dir: str | None, partition: Partition) -> PartitionState:
        """Return the state of a partition of `log_dir` (None: it is in no log directory)."""
        if log_dir is None:
            return PartitionState(None, partition.topic, partition.number)
        is_clean, checkpoints = self._of(log_dir)
        topic, number = partition.topic, partition.number
        lines = _lines(checkpoints.offset(kind, topic, number) for kind in OFFSET_CHECKPOINTS)
        shutdown = Shutdown.CLEAN if is_clean else Shutdown.UNCLEAN
        cleaned, faults, readings = topic in checkpoints.cleaned_topics, checkpoints.faults, checkpoints.readings
        return PartitionState(log_dir, topic, number, shutdown, lines, faults, readings, cleaned)

    def _of(self, log_dir: str) -> tuple[bool, RootCheckpoints]:
        path = os.path.realpath(log_dir)
        with self._reading:  # a second caller must not read after the first has removed the marker
            if path not in self._found:
                is_clean = self._fs.status(f"{log_dir}/{FileKind.CLEAN_SHUTDOWN.value}") is not None
                self._found[path] = is_clean, read_root_checkpoints(self._fs, log_dir)
            return self._found[path]


def state_in(root: LogDirRoot | None, partition: Partition) -> PartitionState:
    """Return the state of a partition in a root that was read, for reading alone."""
    topic, number = partition.topic, partition.number
    if root is None:
        return PartitionState(None, topic, number)
    faults = tuple((one.path, one.fault) for one in root.faults if _is_checkpoint(one.path))
    return PartitionState(None, topic, number, root.shutdown, _lines(root.offsets_of(topic, number)), faults)


def _lines(offsets: Iterable[int | None]) -> tuple[tuple[FileKind, int], ...]:
    pairs = zip(OFFSET_CHECKPOINTS, offsets, strict=True)
    return tuple((kind, offset) for kind, offset in pairs if offset is not None)


def _is_checkpoint(path: str) -> bool:
    return classify_file(path.rpartition("/")[2]).kind in OFFSET_CHECKPOINTS


class BrokerViews:
    """The states of many partitions as a broker finds them: the files of each log directory are read once.

    Readers use this class. Writers use `Roots`, which reads a directory before its marker is moved away, and which
    knows how a broker reads each damaged checkpoint.
    """

    def __init__(self, fs: Filesystem) -> None:
        self._fs = fs
        self._roots: dict[str, LogDirRoot | None] = {}

    def of(self, partition: Partition) -> PartitionState:
        """Return the state of a partition from its log directory's files; without lines outside a log directory."""
        path = os.path.dirname(os.path.abspath(partition.path))  # noqa: PTH100, PTH120 (a name, links are not followed)
        if path not in self._roots:
            self._roots[path] = broker_root(self._fs, path)
        state = state_in(self._roots[path], partition)
        return state if partition.directory.kind is DirectoryKind.PARTITION else state._replace(lines=())


def broker_view(fs: Filesystem, partition: Partition) -> PartitionState:
    """Return the state of one partition as a broker finds it."""
    return BrokerViews(fs).of(partition)


def log_bounds(fs: Filesystem, partition: Partition, view: PartitionState | None = None) -> LogBounds:
    """Return the earliest and latest offset, from checkpoints and from the last segment's batches.

    Raises NothingSelected for a partition without segments, and the exceptions of `open_read`.
    """
    if not partition.segments:
        raise NothingSelected(reason=f"{partition.path} has no segments")
    first, last = partition.segments[0], partition.segments[-1]
    if last.is_seven:
        with fs.open_read(last.log.path) as log:
            reader = SegmentReader(log, seven_base_offset=last.base_offset).run()
            return LogBounds(first.base_offset, last.base_offset + reader.end_position)
    view = view or broker_view(fs, partition)
    ways = [False, True] if view.believes_indexes(partition, last) else [False]
    found, *taken = segment_ends(fs, last, ways)
    end = found.next_offset
    broker_end = next((other.next_offset for other in taken if other.next_offset != end), None)
    start = max(first.base_offset, view.log_start)
    bounds = LogBounds(start, end, broker_end=broker_end, last_position=found.last_position)
    bounds = bounds._replace(remote_start=_remote_start(fs, partition, start, view.line(FileKind.LOG_START_CHECKPOINT)))
    watermark = view.line(FileKind.REPLICATION_CHECKPOINT)
    return bounds if watermark is None else bounds._replace(high_watermark=min(bounds.next_offset, watermark))


def _remote_start(fs: Filesystem, partition: Partition, start: int, log_start: int | None) -> int | None:
    """Return the log start of a checkpoint if the log begins in remote storage, else None.

    The line is also below the first segment if a broker was killed after it removed segments. But then it has dropped
    the leader epochs of their records, and a tiered log keeps them (UnifiedLog.deleteSegments).
    """
    if log_start is None or log_start >= start:
        return None
    epochs, _ = try_leader_epochs(fs, partition)
    return log_start if any(entry.start_offset < start for entry in epochs) else None
