"""The plan of a recovery: what would be changed in a partition and its checkpoint lines, and what was found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, unique

from kafkalog_cli.broker.log_loader import CutSegment
from kafkalog_cli.change.checkpoint_lines import LineEdit
from kafkalog_cli.disk.names import FileKind
from kafkalog_cli.errors import ExitCode, counted
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.log.segments.log_end import LogBounds
from kafkalog_cli.ops.change_plan import ChangePlan, Remark


@unique
class RecoverMode(Enum):
    """The rules by which a partition is recovered. The value is the word in machine output."""

    REPAIR = "repair"
    LIKE_BROKER = "like-broker"
    INDEXES_ONLY = "indexes-only"


@dataclass(frozen=True, slots=True)
class RecoverPlan(ChangePlan):
    """The recovery plan of one partition. Without changes and line edits there is nothing to do.

    `recovered` contains base offsets of segments whose indexes are rebuilt. `cut` contains the removed ends of logs,
    `removed` the base offsets of removed segments.
    """

    mode: RecoverMode = field(kw_only=True)
    recovered: tuple[int, ...] = ()
    cut: tuple[CutSegment, ...] = ()
    removed: tuple[int, ...] = ()

    @property
    def drops_valid(self) -> bool:
        """Whether valid batches are removed, as a broker would do."""
        return self.drops_records and any(remark.code is ExitCode.CORRUPTION for remark in self.remarks)

    @property
    def drops_records(self) -> bool:
        """Whether data below the log end is removed: then the clean shutdown marker must not be restored."""
        return bool(self.cut or self.removed)


CheckpointLines = Mapping[FileKind, int]
"""The partition's offset in each checkpoint that has a line for it."""


def line_edits(partition: Partition, lines: CheckpointLines, log: LogBounds) -> Iterator[LineEdit]:
    """Yield the edits of lines that do not fit a log with this start and end.

    A broker that starts lowers its high watermark to the log end and raises it to the log start
    (UnifiedLog.updateHighWatermark). Its cleaner starts from the beginning if its line is past the end. A log start
    past the end is left unchanged, as the log cannot give the right value.
    """
    topic, number = partition.topic, partition.number
    for kind in (FileKind.RECOVERY_POINT_CHECKPOINT, FileKind.REPLICATION_CHECKPOINT, FileKind.CLEANER_CHECKPOINT):
        line = lines.get(kind)
        wanted = None if line is None or line < 0 else min(line, log.end)
        if kind is FileKind.REPLICATION_CHECKPOINT and wanted is not None:
            wanted = max(wanted, min(log.start, log.end))
        if kind is FileKind.CLEANER_CHECKPOINT and line is not None and line > log.end:
            wanted = None
        if line != wanted:
            yield LineEdit(kind, topic, number, wanted)
    start = lines.get(FileKind.LOG_START_CHECKPOINT)
    if start is not None and start < 0:
        yield LineEdit(FileKind.LOG_START_CHECKPOINT, topic, number, None)


def watermark_remark(partition: Partition, lines: CheckpointLines, log: LogBounds) -> Iterator[Remark]:
    """Yield a warning if the high watermark is past the log end: acknowledged records are lost here."""
    watermark = lines.get(FileKind.REPLICATION_CHECKPOINT)
    if watermark is None or watermark <= log.end:
        return
    lost = counted(watermark - log.end, "acknowledged record is", "acknowledged records are")
    message = (
        f"the high watermark ({watermark}) is past the end of the log ({log.end}): {lost} lost, unless another replica"
        " has them. The line is lowered, as a broker does when it starts"
    )
    yield Remark(partition.path, message, ExitCode.WARNINGS)
