"""The plan of a recovery: what would be changed in a partition and its checkpoint lines, and what was found."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, unique
from typing import Annotated, ClassVar

from kafkalog_cli.broker.loaded_segment import LoadSettings
from kafkalog_cli.broker.log_loader import CutSegment
from kafkalog_cli.change.draft import Draft
from kafkalog_cli.disk.fs import ReadableFile
from kafkalog_cli.disk.names import FileKind, FileName, WorkState, classify_file
from kafkalog_cli.errors import ExitCode, KafkalogError, counted
from kafkalog_cli.format.fault import Fault
from kafkalog_cli.log.log_dir import LineEdit
from kafkalog_cli.log.log_end import LogBounds
from kafkalog_cli.log.partition import Partition, Segment
from kafkalog_cli.log.reading.readable import unreadable_ranges
from kafkalog_cli.log.reading.scan import Scan
from kafkalog_cli.ops.checks.file_report import FileReport
from kafkalog_cli.ops.checks.finding_kinds import StartAction
from kafkalog_cli.ops.checks.segment_walk import SegmentWalk, good_start
from kafkalog_cli.ops.damage import DamageSeen
from kafkalog_cli.ops.plans import ChangePlan, Remark
from kafkalog_cli.ops.steps import NO_COPY_OF_07, SALVAGE, Step
from kafkalog_cli.results import GIVEN, Before, Hidden, result


@unique
class RecoverMode(Enum):
    """The rules by which a partition is recovered. The value is the word in machine output."""

    REPAIR = "repair"
    LIKE_BROKER = "like-broker"
    INDEXES_ONLY = "indexes-only"


@result("kafkalog.recovery/1")
@dataclass(frozen=True, slots=True)
class RecoverPlan(ChangePlan):
    """The result of recover for a partition, or of its dry run.

    `at_start`: what a broker does at its start if the plan is refused.
    """

    dry_run: ClassVar[Hidden[bool]] = GIVEN
    mode: Annotated[RecoverMode, Before("refused")] = field(kw_only=True)
    cut: Annotated[tuple[CutSegment, ...], Before("remarks"), "the removed ends of logs"] = ()
    removed: Annotated[tuple[int, ...], Before("remarks"), "base offsets of the removed segments"] = ()
    recovered: Annotated[tuple[int, ...], Before("remarks"), "base offsets of segments whose indexes are rebuilt"] = ()
    at_start: Hidden[StartAction] = StartAction.DOES_NOT_START

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


UNREADABLE_STEPS = (Step("work on another disk from now on", end="; "), SALVAGE)


class Impossible(Exception):
    """The partition cannot be repaired without loss. The remark says why."""

    def __init__(self, remark: Remark) -> None:
        self.remark = remark
        super().__init__(remark.message)


def torn_at(draft: Draft, name: str, settings: LoadSettings) -> int | None:
    """Return the position of the first torn byte of a log, None if the log is sound.

    Raises Impossible if valid batches follow the damage, or if bad sectors hide whether any follow.
    """
    path = draft.path(name)
    with draft.reader(name) as log:
        bad, code = _damage(draft, log, classify_file(name), settings)
        unreadable = None if bad is None else next(unreadable_ranges(log, bad, log.size_bytes), None)
    if unreadable is not None:
        raise Impossible(_of_bad_sectors(path, unreadable))
    if code is ExitCode.CORRUPTION:
        message = "damaged, and valid batches follow"
        steps = NO_COPY_OF_07 if classify_file(name).kind is FileKind.SEVEN_LOG else (SALVAGE,)
        raise Impossible(Remark(path, message, ExitCode.REFUSED, bad, steps))
    return bad


def torn_near_end(draft: Draft, segment: Segment, settings: LoadSettings) -> int | None:
    """Return the same for the last segment, read only from its last index entries; None also for worse damage."""
    with suppress(KafkalogError, OSError), draft.reader(segment.log.path.rpartition("/")[2]) as log:
        walk = SegmentWalk(log, settings.limits, start=good_start(draft, log, segment, settings.limits))
        walk.run()
        bad = walk.first_bad
        if bad is None or walk.exit_code(draft) is not ExitCode.WARNINGS:
            return None
        return bad if next(unreadable_ranges(log, bad, log.size_bytes), None) is None else None
    return None


def _damage(draft: Draft, log: ReadableFile, name: FileName, settings: LoadSettings) -> tuple[int | None, ExitCode]:
    """Return the position of a log's first damage, and WARNINGS for a torn tail or CORRUPTION."""
    if name.kind is not FileKind.SEVEN_LOG:
        bases = (classify_file(one) for one in draft.names() if one.endswith(FileKind.LOG.value))
        later = [one.offset for one in bases if one.offset is not None and one.offset > (name.offset or 0)]
        walk = SegmentWalk(log, settings.limits, next_offset=min(later, default=None))
        walk.run()
        return walk.first_bad, walk.exit_code(draft)
    seen = DamageSeen()
    reader = Scan(log, limits=settings.limits, seven_base_offset=name.offset or 0)
    for batches in reader.batches():
        seen.batches(batches)
    if reader.fault is not None:
        seen.fault(reader.fault)
    return seen.first_bad, seen.exit_code(draft, log, reader.end_position, settings.limits)


def _of_bad_sectors(path: str, unreadable: Fault) -> Remark:
    """The contents of bad sectors are not known, so they must not be cut."""
    end = unreadable.position + (unreadable.size_bytes or 0)
    message = f"{unreadable.message} (to byte {end}); nothing was changed"
    return Remark(path, message, ExitCode.REFUSED, unreadable.position, UNREADABLE_STEPS)


def torn_logs(reports: list[FileReport]) -> list[str]:
    """Return the damaged logs. A `.deleted` log is none of them: a broker removes it when it starts."""
    logs = (r for r in reports if r.kind is FileKind.LOG and r.state is WorkState.IN_PLACE)
    return [r.path for r in logs if r.exit_code is not ExitCode.OK]
