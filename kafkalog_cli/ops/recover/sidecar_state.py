"""Facts that a repair finds: where damage starts, sidecar files to rebuild, checkpoint lines to correct."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

from kafkalog_cli.broker.loaded_segment import LoadSettings
from kafkalog_cli.change.checkpoint_lines import LineEdit
from kafkalog_cli.change.draft import Draft
from kafkalog_cli.disk.fs import Filesystem, ReadableFile
from kafkalog_cli.disk.names import FileKind, FileName, classify_file
from kafkalog_cli.errors import ExitCode, KafkalogError, counted
from kafkalog_cli.format.batch import CONTROL_MASK
from kafkalog_cli.format.columns import any_row, integers, least_and_largest
from kafkalog_cli.format.fault import Fault
from kafkalog_cli.format.index import OffsetIndex, TimeIndex
from kafkalog_cli.format.records import RecordBlock
from kafkalog_cli.format.txnindex import ABORTED_TXN
from kafkalog_cli.log.partition import Partition, Segment
from kafkalog_cli.log.reading.scan import unreadable_ranges
from kafkalog_cli.log.reading.segment_reader import SegmentReader
from kafkalog_cli.log.segments.log_end import LogBounds
from kafkalog_cli.ops.change_plan import Remark
from kafkalog_cli.ops.checks.file_report import ODD_VERDICTS, FileReport
from kafkalog_cli.ops.checks.segment_walk import BatchRun, SegmentWalk
from kafkalog_cli.ops.damage import DamageSeen
from kafkalog_cli.ops.log_range import good_start
from kafkalog_cli.ops.next_steps import SALVAGE
from kafkalog_cli.ops.verify.batch_checks import AbortedCheck


def is_wrong(report: FileReport) -> bool:
    """Whether the file is missing, misleads a reader, or cannot be read."""
    return report.size_bytes is None or report.exit_code is ExitCode.CORRUPTION or is_unreadable(report)


def is_inexact(report: FileReport) -> bool:
    """Whether the file is odd but misleads no reader: a length, a zero tail, an entry with too low a value."""
    if any(note.code is ExitCode.WARNINGS and note.kind is not None for note in report.notes):
        return True
    is_odd = report.worst_entry is ExitCode.WARNINGS
    return is_odd and any(
        entry.exit_code is ExitCode.WARNINGS and entry.verdict in ODD_VERDICTS for entry in report.entries
    )


def entries_alone(report: FileReport, data: bytes) -> bytes | None:
    """Return the bytes of an index's entries if only the bytes after them are odd; None for any other fault.

    A dense index stays dense that way: a rebuilt index has only an entry per index.interval.bytes.
    """
    size = _ENTRY_BYTES.get(report.kind)
    is_entry_odd = report.worst_entry is not ExitCode.OK or report.lacks_largest
    return None if size is None or is_entry_odd else data[: sum(report.counts.values()) * size]


_ENTRY_BYTES = {FileKind.OFFSET_INDEX: OffsetIndex.layout.size, FileKind.TIME_INDEX: TimeIndex.layout.size}


def is_torn(report: FileReport) -> bool:
    """Whether a transaction index ends within an entry: a broker ignores that, and appends its next entry after it."""
    return report.kind is FileKind.TXN_INDEX and bool((report.size_bytes or 0) % ABORTED_TXN.size)


def is_unreadable(report: FileReport) -> bool:
    """Whether the device cannot read all of the file. A file that may not be opened does not count."""
    is_closed = any(note.is_closed for note in report.notes)
    return report.exit_code is ExitCode.FAILURE and not is_closed


def why_rebuilt(report: FileReport) -> str:
    """Return the reason in a few words."""
    if report.size_bytes is None:
        return "it was missing"
    if is_unreadable(report):
        return "it cannot be read"
    return "it did not fit the log" if report.exit_code is ExitCode.CORRUPTION else "it was inexact"


class BatchMarks:
    """Which segments contain producers' control batches, and whether the leader epochs of batches decrease.

    `without_entry`: segments with an aborted transaction that their transaction index does not contain.
    """

    wants_records = False

    def __init__(self, fs: Filesystem) -> None:
        self.in_segments: set[int] = set()
        self.without_entry: set[int] = set()
        self._aborted = AbortedCheck(fs)
        self.epochs_go_down = False
        self._epoch = -1
        self._segment = 0

    def begin(self, segment: Segment, next_offset: int | None) -> bool:
        """See LogObserver."""
        del next_offset
        self._segment = segment.base_offset
        return True

    def see(self, batch_run: BatchRun) -> None:
        """See LogObserver."""
        self._aborted.see(batch_run)
        batches = batch_run.batches
        if any_row(
            lambda bits, producer, magic: (bits & CONTROL_MASK != 0) & (producer >= 0) & (magic >= 2),
            batches.attributes, batches.producer_id, batches.magic,
        ):  # fmt: skip
            self.in_segments.add(self._segment)
        least, largest = least_and_largest(batches.leader_epoch)
        if least < largest or least < self._epoch:  # most segments have one epoch
            for epoch in integers(batches.leader_epoch):
                if epoch >= 0:
                    self.epochs_go_down |= epoch < self._epoch
                    self._epoch = epoch
        else:
            self._epoch = largest

    def records(self, block: RecordBlock) -> None:
        """See LogObserver."""

    def end(self, walk: SegmentWalk, code: ExitCode) -> None:
        """See LogObserver."""
        if any(self._aborted.findings(walk.file)):
            self.without_entry.add(self._segment)


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


SALVAGE_STEP = SALVAGE.text

UNREADABLE_STEP = f"work on another disk from now on; {SALVAGE_STEP}"


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
        raise Impossible(Remark(path, message, ExitCode.REFUSED, bad, SALVAGE_STEP))
    return bad


def torn_near_end(draft: Draft, segment: Segment, settings: LoadSettings) -> int | None:
    """Return the same for the last segment, read only from its last index entries; None also for worse damage."""
    with suppress(KafkalogError, OSError), draft.reader(segment.log.path.rpartition("/")[2]) as log:
        walk = SegmentWalk(
            log, settings.limits, settings.kernels, start=good_start(draft, log, segment, settings.limits)
        )
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
        walk = SegmentWalk(log, settings.limits, settings.kernels, next_offset=min(later, default=None))
        walk.run()
        return walk.first_bad, walk.exit_code(draft)
    seen = DamageSeen()
    reader = SegmentReader(log, limits=settings.limits, seven_base_offset=name.offset or 0)
    for batches in reader.batches():
        seen.batches(batches)
    if reader.fault is not None:
        seen.fault(reader.fault)
    return seen.first_bad, seen.exit_code(draft, log, reader.end_position, settings.limits)


def _of_bad_sectors(path: str, unreadable: Fault) -> Remark:
    """The contents of bad sectors are not known, so they must not be cut."""
    end = unreadable.position + (unreadable.size_bytes or 0)
    message = f"{unreadable.message} (to byte {end}); nothing was changed"
    return Remark(path, message, ExitCode.REFUSED, unreadable.position, UNREADABLE_STEP)
