"""What a log directory says of its partitions: how the broker stopped, and the lines of the checkpoints."""

from __future__ import annotations

import os
from dataclasses import dataclass
from threading import Lock
from typing import Any

from kafkalog_cli.errors import Unreadable
from kafkalog_cli.format.checkpoint import BrokerReading
from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.storage.checkpoints import (
    HighWatermark,
    LineEdit,
    RootCheckpoints,
    high_watermark,
    read_root_checkpoints,
)
from kafkalog_cli.storage.fs import Filesystem
from kafkalog_cli.storage.log.log_loader import StartState
from kafkalog_cli.storage.names import FileKind
from kafkalog_cli.storage.partition import Partition

_LINES = (
    FileKind.RECOVERY_POINT_CHECKPOINT,
    FileKind.LOG_START_CHECKPOINT,
    FileKind.REPLICATION_CHECKPOINT,
    FileKind.CLEANER_CHECKPOINT,
)
_OF_START = (FileKind.RECOVERY_POINT_CHECKPOINT.value, FileKind.LOG_START_CHECKPOINT.value)


@dataclass(frozen=True, slots=True)
class RootState:
    """What a log directory says of one partition: whether it was stopped cleanly, and the lines of its checkpoints."""

    log_dir: str | None
    topic: str
    partition: int
    is_clean: bool = False
    lines: tuple[tuple[FileKind, int], ...] = ()
    faults: tuple[tuple[str, Fault], ...] = ()
    """What is wrong with a checkpoint, by its path: then the lines that it seems not to have may be lost."""
    readings: tuple[tuple[FileKind, BrokerReading], ...] = ()
    """What a broker gets from each damaged checkpoint."""

    def line(self, kind: FileKind) -> int | None:
        """The partition's offset in a checkpoint, None without one."""
        return dict(self.lines).get(kind)

    def check_start(self) -> None:
        """Raises Unreadable where what `start` tells is not known, as the device does not give it."""
        for path, fault in self.faults:
            if fault.kind is FaultKind.UNREADABLE and path.endswith(_OF_START):
                raise Unreadable(path=path, reason=fault.message.removeprefix("cannot be read: "))

    @property
    def broker_start(self) -> StartState:
        """What a broker knows of the partition when it starts: of a file that throws when it is read, no line."""
        recovery_point = self.broker_line(FileKind.RECOVERY_POINT_CHECKPOINT) or 0
        return StartState(self.is_clean, recovery_point, self.broker_line(FileKind.LOG_START_CHECKPOINT) or 0)

    def broker_line(self, kind: FileKind) -> int | None:
        """The partition's offset in a checkpoint as a broker reads it: of a damaged file it has no line."""
        return None if kind in dict(self.readings) else self.line(kind)

    @property
    def failing_checkpoint(self) -> tuple[str, Fault, BrokerReading] | None:
        """The first checkpoint with which a broker's start fails: its path, the problem, and how it fails."""
        for kind, reading in self.readings:
            if kind.value in _OF_START and reading in (BrokerReading.FAILS, BrokerReading.OUT_OF_MEMORY):
                path, fault = next((path, fault) for path, fault in self.faults if path.endswith(f"/{kind.value}"))
                return path, fault, reading
        return None

    @property
    def start(self) -> StartState:
        """What the checkpoints say of the partition, also beside damaged lines: 0 where there is no line."""
        recovery_point = self.line(FileKind.RECOVERY_POINT_CHECKPOINT) or 0
        return StartState(self.is_clean, recovery_point, self.log_start)

    @property
    def log_start(self) -> int:
        """What a broker is told when it starts: 0 without a line."""
        return self.line(FileKind.LOG_START_CHECKPOINT) or 0

    def high_watermark(self, log_end_offset: int) -> HighWatermark:
        """See storage/checkpoints.py."""
        return high_watermark(log_end_offset, self.line(FileKind.REPLICATION_CHECKPOINT))

    def edit(self, kind: FileKind, offset: int | None) -> tuple[LineEdit, ...]:
        """The change that makes a line say `offset` (None: there shall be none); nothing if it does, or no root is."""
        if self.log_dir is None or self.line(kind) == offset:
            return ()
        return (LineEdit(kind, self.topic, self.partition, offset),)

    def lower(self, kind: FileKind, offset: int) -> tuple[LineEdit, ...]:
        """The change that has a line say no more than `offset`."""
        line = self.line(kind)
        return () if line is None or line <= offset else self.edit(kind, offset)

    def lift(self, kind: FileKind, offset: int) -> tuple[LineEdit, ...]:
        """The change that has a line, where there is one, say no less than `offset`."""
        line = self.line(kind)
        return () if line is None or line >= offset else self.edit(kind, offset)


class Roots:
    """The states of log directories, each as it was when it was first asked for; threads share it.

    Changing one partition takes the marker away for a while, which says nothing of the next.
    """

    def __init__(self, fs: Filesystem) -> None:
        self._fs = fs
        self._reading = Lock()
        self._found: dict[str, tuple[bool, RootCheckpoints]] = {}  # by where they really are

    def __getstate__(self) -> dict[str, Any]:
        """For another process: with what was found."""
        return {"_fs": self._fs, "_found": self._found}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """See `__getstate__`."""
        self.__dict__.update(state, _reading=Lock())

    def checkpoints(self, log_dir: str | None) -> RootCheckpoints | None:
        """The checkpoints of a log directory, None where there is none."""
        return None if log_dir is None else self._of(log_dir)[1]

    def state(self, log_dir: str | None, partition: Partition) -> RootState:
        """What is said of a partition of `log_dir` (None: it lies in none)."""
        if log_dir is None:
            return RootState(None, partition.topic, partition.number)
        is_clean, checkpoints = self._of(log_dir)
        found = ((kind, checkpoints.offset(kind, partition.topic, partition.number)) for kind in _LINES)
        lines = tuple((kind, offset) for kind, offset in found if offset is not None)
        faults, readings = checkpoints.faults, checkpoints.readings
        return RootState(log_dir, partition.topic, partition.number, is_clean, lines, faults, readings)

    def _of(self, log_dir: str) -> tuple[bool, RootCheckpoints]:
        path = os.path.realpath(log_dir)
        with self._reading:  # who asks second must not look when the first has taken the marker away
            if path not in self._found:
                is_clean = self._fs.status(f"{log_dir}/{FileKind.CLEAN_SHUTDOWN.value}") is not None
                self._found[path] = is_clean, read_root_checkpoints(self._fs, log_dir)
            return self._found[path]
