"""A log directory's information about its partitions: how the broker stopped, and the lines of the checkpoints."""

from __future__ import annotations

import os
from dataclasses import dataclass
from threading import Lock
from typing import Any

from kafkalog_cli.broker.log_loader import StartState
from kafkalog_cli.change.checkpoint_lines import LineEdit
from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.disk.names import FileKind
from kafkalog_cli.errors import Unreadable
from kafkalog_cli.format.checkpoint import BrokerReading
from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.log.checkpoints import HighWatermark, RootCheckpoints, high_watermark, read_root_checkpoints
from kafkalog_cli.log.partition import Partition

_LINES = (
    FileKind.RECOVERY_POINT_CHECKPOINT,
    FileKind.LOG_START_CHECKPOINT,
    FileKind.REPLICATION_CHECKPOINT,
    FileKind.CLEANER_CHECKPOINT,
)
_OF_START = (FileKind.RECOVERY_POINT_CHECKPOINT.value, FileKind.LOG_START_CHECKPOINT.value)


@dataclass(frozen=True, slots=True)
class RootState:
    """A log directory's information about one partition: whether the shutdown was clean, and its checkpoint lines."""

    log_dir: str | None
    topic: str
    partition: int
    is_clean: bool = False
    lines: tuple[tuple[FileKind, int], ...] = ()
    faults: tuple[tuple[str, Fault], ...] = ()
    """Faults of checkpoints, each with its path. Lines that seem to be missing from these files may be lost."""
    readings: tuple[tuple[FileKind, BrokerReading], ...] = ()
    """How a broker reads each damaged checkpoint."""
    topic_was_cleaned: bool = False
    """Whether cleaner-offset-checkpoint lists a partition of the topic."""

    def line(self, kind: FileKind) -> int | None:
        """Return the partition's offset in a checkpoint, None if it has no line."""
        return dict(self.lines).get(kind)

    def check_start(self) -> None:
        """Raise Unreadable if the device cannot read a checkpoint that `start` needs."""
        for path, fault in self.faults:
            if fault.kind is FaultKind.UNREADABLE and path.endswith(_OF_START):
                raise Unreadable(path=path, reason=fault.message.removeprefix("cannot be read: "))

    @property
    def broker_start(self) -> StartState:
        """The broker's start state for the partition. A damaged checkpoint that a broker cannot read gives no line."""
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
        return (LineEdit(kind, self.topic, self.partition, offset),)

    def lower(self, kind: FileKind, offset: int) -> tuple[LineEdit, ...]:
        """Return the edit that lowers a line to `offset`, if it is larger."""
        line = self.line(kind)
        return () if line is None or line <= offset else self.edit(kind, offset)

    def lift(self, kind: FileKind, offset: int) -> tuple[LineEdit, ...]:
        """Return the edit that raises a line to `offset`, if there is a line and it is smaller."""
        line = self.line(kind)
        return () if line is None or line >= offset else self.edit(kind, offset)


class Roots:
    """The states of log directories, each read once, at the first request. Threads share this object.

    A change to one partition removes the clean shutdown marker for a while. For other partitions the shutdown is still
    clean.
    """

    def __init__(self, fs: Filesystem) -> None:
        self._fs = fs
        self._reading = Lock()
        self._found: dict[str, tuple[bool, RootCheckpoints]] = {}  # by the real path

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle, with everything that was read."""
        return {"_fs": self._fs, "_found": self._found}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """See `__getstate__`."""
        self.__dict__.update(state, _reading=Lock())

    def checkpoints(self, log_dir: str | None) -> RootCheckpoints | None:
        """Return the checkpoints of a log directory, None for None."""
        return None if log_dir is None else self._of(log_dir)[1]

    def state(self, log_dir: str | None, partition: Partition) -> RootState:
        """Return the state of a partition of `log_dir` (None: it is in no log directory)."""
        if log_dir is None:
            return RootState(None, partition.topic, partition.number)
        is_clean, checkpoints = self._of(log_dir)
        found = ((kind, checkpoints.offset(kind, partition.topic, partition.number)) for kind in _LINES)
        lines = tuple((kind, offset) for kind, offset in found if offset is not None)
        faults, readings = checkpoints.faults, checkpoints.readings
        cleaned = partition.topic in checkpoints.cleaned_topics
        return RootState(log_dir, partition.topic, partition.number, is_clean, lines, faults, readings, cleaned)

    def _of(self, log_dir: str) -> tuple[bool, RootCheckpoints]:
        path = os.path.realpath(log_dir)
        with self._reading:  # a second caller must not read after the first has removed the marker
            if path not in self._found:
                is_clean = self._fs.status(f"{log_dir}/{FileKind.CLEAN_SHUTDOWN.value}") is not None
                self._found[path] = is_clean, read_root_checkpoints(self._fs, log_dir)
            return self._found[path]
