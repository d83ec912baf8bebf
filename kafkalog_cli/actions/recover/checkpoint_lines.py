"""The lines of the root checkpoints that no longer fit a repaired log, as a broker would have them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kafkalog_cli.actions.change_plan import Remark
from kafkalog_cli.actions.log_range import LogRange
from kafkalog_cli.actions.reports.index_verdict import counted
from kafkalog_cli.errors import ExitCode
from kafkalog_cli.storage.checkpoints import LineEdit
from kafkalog_cli.storage.names import FileKind
from kafkalog_cli.storage.partition import Partition

CheckpointLines = Mapping[FileKind, int]
"""The partition's offset in each checkpoint that has a line about it."""


def line_edits(partition: Partition, lines: CheckpointLines, log: LogRange) -> Iterator[LineEdit]:
    """The lines that must change for a log with this start and end.

    A broker that starts lowers its high watermark to the end of the log and raises it to the log's start
    (UnifiedLog.updateHighWatermark), and its cleaner begins anew where its line lies past the end. A log start past
    the end stays: it has no right value that the log could tell.
    """
    topic, number = partition.topic, partition.number
    for kind in (FileKind.RECOVERY_POINT_CHECKPOINT, FileKind.REPLICATION_CHECKPOINT, FileKind.CLEANER_CHECKPOINT):
        line = lines.get(kind)
        wanted = None if line is None or line < 0 else min(line, log.end)
        if kind is FileKind.REPLICATION_CHECKPOINT and wanted is not None:
            wanted = max(wanted, min(log.first, log.end))
        if kind is FileKind.CLEANER_CHECKPOINT and line is not None and line > log.end:
            wanted = None
        if line != wanted:
            yield LineEdit(kind, topic, number, wanted)
    start = lines.get(FileKind.LOG_START_CHECKPOINT)
    if start is not None and start < 0:
        yield LineEdit(FileKind.LOG_START_CHECKPOINT, topic, number, None)


def watermark_remark(partition: Partition, lines: CheckpointLines, log: LogRange) -> Iterator[Remark]:
    """What a high watermark past the end of the log says: records that were acknowledged are lost here."""
    watermark = lines.get(FileKind.REPLICATION_CHECKPOINT)
    if watermark is None or watermark <= log.end:
        return
    lost = counted(watermark - log.end, "acknowledged record is", "acknowledged records are")
    message = (
        f"the high watermark ({watermark}) is past the end of the log ({log.end}): {lost} lost, unless another replica"
        " has them. The line is lowered, as a broker does when it starts"
    )
    yield Remark(partition.path, message, ExitCode.WARNINGS)
