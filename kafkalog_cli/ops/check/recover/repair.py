"""Repairs a partition: cuts a torn tail, completes or undoes swaps, and rebuilds missing or wrong files.

Files are rebuilt by the mechanisms of a broker's loader, on the same draft. Unlike a broker, a repair checks every
segment, does not trust the clean-shutdown file, and keeps each file that the log does not contradict. A torn tail is
damage at the end of the last segment, with no valid batch after it: only a torn tail is cut. If valid batches follow
damage in a log, nothing is changed.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from types import MappingProxyType

from kafkalog_cli.broker.leader_epochs import LeaderEpochs
from kafkalog_cli.broker.load_error import InvalidOffset, LoadFailed, Rebuilt, SegmentOverflow
from kafkalog_cli.broker.loaded_segment import LoadedSegment, LoadSettings
from kafkalog_cli.broker.log_loader import CutSegment, complete_swaps
from kafkalog_cli.broker.producer_snapshots import ProducerSnapshots
from kafkalog_cli.broker.producer_state import ProducerState
from kafkalog_cli.change.draft import Draft
from kafkalog_cli.disk.names import (
    SEGMENT_KINDS,
    FileKind,
    WorkState,
    classify_file,
    offset_of_file_name,
    segment_file_name,
)
from kafkalog_cli.errors import ExitCode, KafkalogError, PathNotFound, Unreadable, counted
from kafkalog_cli.format.checkpoint import decode_leader_epochs
from kafkalog_cli.format.index import OffsetIndex, TimeIndex
from kafkalog_cli.format.txnindex import ABORTED_TXN
from kafkalog_cli.log.log_dir import LineEdit
from kafkalog_cli.log.log_end import LogBounds, entries_in_use
from kafkalog_cli.log.partition import Partition, Segment, open_partition
from kafkalog_cli.log.reading.readable import unreadable_ranges
from kafkalog_cli.log.reading.scan import Scan
from kafkalog_cli.ops.change.plans import Remark, fingerprints_of
from kafkalog_cli.ops.check.checks.file_report import FAULTY_VERDICTS, FileReport
from kafkalog_cli.ops.check.checks.finding_kinds import FindingKind
from kafkalog_cli.ops.check.checks.log_check import LogCheck
from kafkalog_cli.ops.check.checks.partition_check import PartitionCheck, ReadContext
from kafkalog_cli.ops.check.checks.segment_walk import SegmentWalk, good_start
from kafkalog_cli.ops.check.recover.plan import RecoverMode, RecoverPlan
from kafkalog_cli.ops.damage import DamageSeen
from kafkalog_cli.ops.steps import NO_COPY_OF_07, SALVAGE, Step

_SWAP, _CLEANED = WorkState.SWAP.value, WorkState.CLEANED.value
_LOG_SWAP = FileKind.LOG.value + _SWAP
_SNAPSHOT = FileKind.PRODUCER_SNAPSHOT.value
_EPOCHS = FileKind.LEADER_EPOCH_CHECKPOINT.value
_STATE_KINDS = (FileKind.PRODUCER_SNAPSHOT, FileKind.LEADER_EPOCH_CHECKPOINT)
_INDEX_KINDS = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX)

UNREADABLE_STEPS = (Step("work on another disk from now on", end="; "), SALVAGE)

CheckpointLines = Mapping[FileKind, int]
"""The partition's offset in each checkpoint that has a line for it."""

_NO_LINES: CheckpointLines = MappingProxyType({})


class Impossible(Exception):
    """The partition cannot be repaired without loss. The remark says why."""

    def __init__(self, remark: Remark) -> None:
        self.remark = remark
        super().__init__(remark.message)


def plan_repair(  # noqa: PLR0913
    draft: Draft,
    partition: Partition,
    settings: LoadSettings,
    *,
    log_start_offset: int = 0,
    lines: CheckpointLines = _NO_LINES,
    indexes_only: bool = False,
    since: int | None = None,
    with_inexact: bool = True,
) -> RecoverPlan:
    """Plan the repair of the partition on its draft.

    `log_start_offset` and `lines` are the partition's in the root checkpoints. `since` (an offset): segments that end
    before it are not checked. `with_inexact`: also rebuild files that are inexact but mislead no reader.

    Raises Unreadable if a file exists but cannot be opened, because its contents could change the plan.
    """
    mode = RecoverMode.INDEXES_ONLY if indexes_only else RecoverMode.REPAIR
    prints = fingerprints_of(draft, partition.path)
    repair = _Repair(draft, partition, settings, log_start_offset, since, with_inexact=with_inexact)
    refusal = None
    try:
        repair.run(indexes_only=indexes_only)
        end_offset = repair.end_offset
    except Impossible as reason:
        refusal = reason.remark
    for error in repair.draft.unopened:
        raise error
    if refusal is not None:  # the other remarks say what has been drafted, and nothing of it is done
        return RecoverPlan.of(partition, mode=mode, remarks=(refusal,), fingerprints=prints, is_refused=True)
    edits: list[LineEdit] = []
    if repair.knows_end and not indexes_only:
        log = LogBounds(repair.start_offset, end_offset)
        edits += _line_edits(partition, lines, log)
        repair.remarks += _watermark_remark(partition, lines, log)
    return RecoverPlan.of(
        partition,
        mode=mode,
        changes=tuple(repair.draft.changes()),
        line_edits=tuple(edits),
        log_start_offset=repair.start_offset,
        log_end_offset=end_offset,
        recovered=tuple(sorted(repair.recovered)),
        cut=tuple(repair.cut),
        remarks=tuple(repair.remarks),
        fingerprints=prints,
    )


def _line_edits(partition: Partition, lines: CheckpointLines, log: LogBounds) -> Iterator[LineEdit]:
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


def _watermark_remark(partition: Partition, lines: CheckpointLines, log: LogBounds) -> Iterator[Remark]:
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


class _Repair:
    """Works on a draft of the partition, and checks the files that it changed before it ends."""

    def __init__(  # noqa: PLR0913
        self,
        draft: Draft,
        partition: Partition,
        settings: LoadSettings,
        log_start_offset: int,
        since: int | None,
        *,
        with_inexact: bool,
    ) -> None:
        self.draft = draft
        self.remarks: list[Remark] = []
        self.cut: list[CutSegment] = []
        self.recovered: set[int] = set()
        self._cuts: list[Remark] = []
        self._log_end: int | None = None
        self._seven = [segment for segment in partition.segments if segment.is_v07]
        self._before = frozenset(self.draft.names())
        self._path = partition.path
        self._settings = settings
        self._log_start_offset = log_start_offset
        self._log_check = LogCheck(draft)
        self._replay: tuple[int, Rebuilt] | None = None
        self._epochs: dict[int, LeaderEpochs] = {}
        self._since = since
        self._with_inexact = with_inexact

    @property
    def end_offset(self) -> int:
        """The offset after the last batch; in 0.7, where offsets are positions, the byte after it."""
        if self._seven:
            last = self._seven[-1]
            return last.base_offset + self.draft.size_bytes(_name(last.log.path))
        return self._log_start_offset if self._log_end is None else self._log_end

    @property
    def knows_end(self) -> bool:
        """Whether `end_offset` was read. No checkpoint line may follow from a log that could not be opened."""
        return bool(self._seven) or self._log_end is not None or not self._segments()

    @property
    def start_offset(self) -> int:
        """The first offset of the log."""
        if self._seven:
            return self._seven[0].base_offset
        segments = self._segments()
        return max(self._log_start_offset, segments[0].base_offset if segments else 0)

    def run(self, *, indexes_only: bool) -> None:
        """Draft the repairs. Raises Impossible."""
        whole = self.draft
        if not indexes_only:
            self._complete_swaps()
            whole = self.draft.fork()
            self._cut_torn_end()
        reports = self._check()
        if self.cut and self._log_check.damaged_logs:  # a wrong index may have led into a record's value
            self.draft, self.cut, self._cuts = whole, [], []
            reports = self._check()
        if not indexes_only:
            damaged = self._log_check.damaged_logs | dict(map(self._damage_of_v07, self._seven))
            if self._cut_tails(damaged):
                reports = self._check()
        checked = self.draft.fork()
        self.remarks += self._cuts  # only reported once no other damage was found
        self._rebuild_indexes(reports)
        self._rebuild_missing_txn_indexes()
        if not indexes_only:
            self._rebuild_epochs(reports)
            self._rebuild_snapshots(reports)
        made = self.draft.differences(checked)
        if all(classify_file(name).kind in _STATE_KINDS for name in made):  # the reports on logs are still right
            reports = [report for report in reports if _name(report.path) not in made]
        else:
            reports = self._check()
        self._report_what_stays(reports)

    def _check(self) -> list[FileReport]:
        context = ReadContext(self._checked_files(), self._settings.limits)
        self._log_check = LogCheck(context.fs, context.limits)
        found = PartitionCheck(context, open_partition(context.fs, self._path), self._log_check)
        reports = list(found)
        self._log_end = None if found.log is None else found.log.end
        return reports

    def _checked_files(self) -> Draft:
        """Return the draft without the segments that are not checked, as if they had been deleted before."""
        bases = [segment.base_offset for segment in self._segments()]
        if self._since is None or not any(base <= self._since for base in bases):
            return self.draft
        first = max(base for base in bases if base <= self._since)
        view = self.draft.fork()
        for name in view.names():
            found = classify_file(name)
            if found.kind in SEGMENT_KINDS and found.offset is not None and found.offset < first:
                view.drop(name)
        return view

    def _segments(self, view: Draft | None = None) -> list[LoadedSegment]:
        draft = view or self.draft
        names = (name for name in draft.names() if name.endswith(FileKind.LOG.value))
        offsets = (offset_of_file_name(name) for name in names)
        return [LoadedSegment(draft, offset, self._settings) for offset in offsets if offset is not None]

    def _searched(self) -> list[LoadedSegment]:
        """Return the segments for look-ups. The last index is cut to its entries: unused room misleads a search."""
        view = self.draft.fork()
        segments = open_partition(view, self._path).segments
        index = segments[-1].offset_index if segments else None
        if index is not None:
            used, _ = entries_in_use(view, index.path, OffsetIndex, segments[-1].base_offset)
            view.cut(_name(index.path), len(used) * used.layout.size)
        return self._segments(view)

    # -- swaps

    def _complete_swaps(self) -> None:
        """Complete an interrupted cleaning or split as a broker would, unless its output is damaged."""
        swaps = [name for name in self.draft.names() if name.endswith(WorkState.SWAP.value)]
        damaged = [name for name in swaps if name.endswith(_LOG_SWAP) and not self._is_whole(name)]
        for name in damaged:
            path = self.draft.path(name)
            if name.removesuffix(WorkState.SWAP.value) not in self.draft:
                message = "damaged, and the segments that it was to replace are missing; nothing was changed"
                raise Impossible(Remark(path, message, ExitCode.REFUSED, steps=(SALVAGE,)))
            self._warn(name, "damaged: removed; the segments that it was to replace stay")
        for name in swaps if damaged else ():
            self.draft.drop(name)
        unfinished = [name for name in self.draft.names() if name.endswith((_SWAP, _CLEANED))]
        try:
            complete_swaps(self.draft, self._settings)
        except LoadFailed as failure:
            raise self._impossible(failure) from failure
        for name in unfinished:
            self._swapped(name)

    def _swapped(self, name: str) -> None:
        in_place = name.removesuffix(_SWAP)
        if self.draft.name_on_disk(in_place) != name:
            self._warn(name, "left by an unfinished cleaning or split: removed")
            return
        self._warn(name, "left by a finished cleaning or split: moved to its place")
        index = in_place.removesuffix(FileKind.LOG.value) + FileKind.OFFSET_INDEX.value
        if name.endswith(_LOG_SWAP) and index + _SWAP not in self._before:
            self.draft.drop(index)  # a broker leaves an index here that is all zeros

    def _is_whole(self, name: str) -> bool:
        with self.draft.reader(name) as log:
            walk = SegmentWalk(log, self._settings.limits).run()
            return walk.fault is None and not walk.damaged and not walk.bad_crcs

    # -- the log

    def _cut_torn_end(self) -> None:
        """Cut the torn end that a crash leaves before the full check, which is then needed only once."""
        segments = open_partition(self.draft, self._path).segments
        if segments and not segments[-1].is_v07:
            bad = self._torn_near_end(segments[-1])
            if bad is not None:
                self._cut(_name(segments[-1].log.path), bad)

    def _torn_near_end(self, segment: Segment) -> int | None:
        """Return where a log is torn, read only from its last index entries; None if it is sound, or worse damaged."""
        limits = self._settings.limits
        with suppress(KafkalogError, OSError), self.draft.reader(_name(segment.log.path)) as log:
            walk = SegmentWalk(log, limits, start=good_start(self.draft, log, segment, limits)).run()
            bad = walk.first_bad
            if bad is None or walk.exit_code(self.draft) is not ExitCode.WARNINGS:
                return None
            return bad if next(unreadable_ranges(log, bad, log.size_bytes), None) is None else None
        return None

    def _cut_tails(self, damaged: Mapping[str, tuple[int | None, ExitCode]]) -> bool:
        """Cut everything after the last valid batch of each damaged log. Return whether anything was cut.

        Raises Impossible if valid batches follow the damage, or if bad sectors hide whether any follow.
        """
        was_cut = False
        for path, (bad, code) in damaged.items():
            name = classify_file(_name(path))
            with self.draft.reader(name.name) as log:
                bad_sectors = None if bad is None else next(unreadable_ranges(log, bad, log.size_bytes), None)
            if bad_sectors is not None:  # their contents are not known, so they must not be cut
                end = bad_sectors.position + (bad_sectors.size_bytes or 0)
                message = f"{bad_sectors.message} (to byte {end}); nothing was changed"
                raise Impossible(Remark(path, message, ExitCode.REFUSED, bad_sectors.position, UNREADABLE_STEPS))
            if code is ExitCode.CORRUPTION:
                steps = NO_COPY_OF_07 if name.kind is FileKind.SEVEN_LOG else (SALVAGE,)
                message = "damaged, and valid batches follow"
                raise Impossible(Remark(path, message, ExitCode.REFUSED, bad, steps))
            if bad is not None:
                self._cut(name.name, bad)
                was_cut = True
        return was_cut

    def _damage_of_v07(self, segment: Segment) -> tuple[str, tuple[int | None, ExitCode]]:
        """Return the path of a log of 0.7, and its damage as in `LogCheck.damaged_logs`."""
        seen, limits = DamageSeen(), self._settings.limits
        with self.draft.reader(_name(segment.log.path)) as log:
            scan = Scan(log, limits=limits, v07_base_offset=segment.base_offset)
            for batches in scan.batches():
                seen.batches(batches)
            if scan.fault is not None:
                seen.fault(scan.fault)
            return segment.log.path, (seen.first_bad, seen.exit_code(self.draft, log, scan.end_position, limits))

    def _cut(self, name: str, position: int) -> None:
        size_bytes = self.draft.size_bytes(name) - position
        self.draft.cut(name, position)
        self.cut.append(CutSegment(classify_file(name).offset or 0, position, size_bytes))
        message = f"{size_bytes} bytes at the end are not valid batches: cut off"
        self._cuts.append(Remark(self.draft.path(name), message, ExitCode.WARNINGS, position))

    # -- what is made of the log

    def _rebuild_indexes(self, reports: Iterable[FileReport]) -> None:
        for report in reports:
            offset = report.offset
            if report.kind not in _INDEX_KINDS or report.state is not WorkState.IN_PLACE or offset is None:
                continue
            name = _name(report.path)
            if segment_file_name(offset, FileKind.LOG) not in self.draft:
                self._warn(name, "it belongs to no segment: removed")
                self.draft.drop(name)
                continue
            if not _is_wrong(report) and not _is_torn(report) and not (self._with_inexact and _is_inexact(report)):
                continue
            there = None if _is_wrong(report) else self._content(name)
            kept = None if there is None else _entries_alone(report, there)
            data = self._index_of(offset, report.kind) if kept is None else kept
            if there == data:  # identical to what a broker would write, however odd
                continue
            self._remark(report, "rebuilt from the log" if kept is None else "cut to its entries")
            self.recovered.add(offset)
            self.draft.put(name, data)

    def _rebuild_missing_txn_indexes(self) -> None:
        """Rebuild transaction indexes that lack entries.

        Without an entry, a reader treats an aborted transaction as committed. A cleaned segment may rightly have no
        entry.
        """
        lacking = {one.path for one in self._log_check.findings if one.kind is FindingKind.TXN_INDEX_WRONG}
        for base_offset in sorted(self._log_check.with_markers):
            name = segment_file_name(base_offset, FileKind.TXN_INDEX)
            if (is_there := name in self.draft) and self.draft.path(name) not in lacking:
                continue
            data = self._index_of(base_offset, FileKind.TXN_INDEX)  # refuses a marker at which a broker fails
            if data and (not is_there or self._content(name) != data):
                what = "lacks entries of" if is_there else "missing, though there are"
                self._warn(name, f"{what} aborted transactions: rebuilt from the log")
                self.recovered.add(base_offset)
                self.draft.put(name, data)

    def _index_of(self, base_offset: int, kind: FileKind) -> bytes:
        """Return the bytes that an index should have."""
        segment = LoadedSegment(self.draft, base_offset, self._settings)
        try:
            if kind is FileKind.TXN_INDEX:
                snapshots = ProducerSnapshots(self.draft.fork(), self._settings)
                snapshots.rebuild(self._segments(), self._log_start_offset, base_offset, from_clean_stop=False)
                return segment.rebuild(snapshots.state, LeaderEpochs()).txn_index
            # One replay gives both indexes, which are asked for in turn, and the leader epochs for later.
            if self._replay is None or self._replay[0] != base_offset:
                epochs = LeaderEpochs()
                self._replay = base_offset, segment.rebuild(ProducerState(self.draft.directory), epochs)
                self._epochs[base_offset] = epochs
        except (InvalidOffset, SegmentOverflow, LoadFailed) as error:
            path = self.draft.path(segment_file_name(base_offset, FileKind.LOG))
            raise Impossible(Remark(path, str(error), ExitCode.REFUSED, steps=(SALVAGE,))) from error
        rebuilt = self._replay[1]
        return rebuilt.offset_index if kind is FileKind.OFFSET_INDEX else rebuilt.time_index

    def _rebuild_epochs(self, reports: Iterable[FileReport]) -> None:
        wrong = [r for r in reports if r.kind is FileKind.LEADER_EPOCH_CHECKPOINT and _is_wrong(r)]
        if not wrong:
            return
        name = _EPOCHS
        goes_back = any(one.kind is FindingKind.EPOCH_GOES_BACK for one in self._log_check.findings)
        if goes_back and self._can_be_read(name):
            self._warn(name, "the leader epochs of batches go down somewhere, so no file fits them: left as it is")
            return
        epochs = LeaderEpochs()
        for segment in self._segments():
            known = self._epochs.get(segment.base_offset)
            if known is not None:  # its log was replayed for its indexes
                epochs.assign_later(known.entries)
                continue
            try:
                segment.rebuild(ProducerState(self.draft.directory), epochs)
            except (InvalidOffset, SegmentOverflow, LoadFailed) as error:
                raise Impossible(Remark(wrong[0].path, str(error), ExitCode.REFUSED, steps=(SALVAGE,))) from error
        epochs.truncate_from_start(self._log_start_offset)
        data = epochs.encode()
        if self._content(name) != data:
            self._remark(wrong[0], "rebuilt from the leader epochs of the batches")
            self.draft.put(name, data)

    def _can_be_read(self, name: str) -> bool:
        """Whether a broker can read leader-epoch-checkpoint: it does not start with a malformed file."""
        content = self._content(name)
        return content is not None and not decode_leader_epochs(content)[1]

    def _content(self, name: str) -> bytes | None:
        """Return the bytes of a small file, None if it is missing or unreadable."""
        try:
            return self.draft.read(name)
        except (PathNotFound, Unreadable, OSError):
            return None

    def _rebuild_snapshots(self, reports: Iterable[FileReport]) -> None:
        in_place = [r for r in reports if r.kind is FileKind.PRODUCER_SNAPSHOT and r.state is WorkState.IN_PLACE]
        wrong = [r for r in in_place if _is_wrong(r) or (self._with_inexact and _is_inexact(r))]
        if not wrong and not self.cut:
            return
        for report in wrong:
            self.draft.drop(_name(report.path))
        try:
            snapshots = ProducerSnapshots(self.draft, self._settings)
            snapshots.without_producers = frozenset(self._log_check.without_producers)
            snapshots.rebuild(self._searched(), self.start_offset, self.end_offset, from_clean_stop=False)
        except LoadFailed as failure:
            raise self._impossible(failure) from failure
        for report in wrong:
            self._remark(report, self._snapshot_outcome(_name(report.path)))

    def _snapshot_outcome(self, name: str) -> str:
        if name in self.draft:
            return "rebuilt from the log"
        if (offset_of_file_name(name) or 0) > self.end_offset:
            return f"removed, because the log ends at {self.end_offset}"
        return "removed, because a later snapshot has all entries"

    # -- what is said

    def _impossible(self, failure: LoadFailed) -> Impossible:
        """Return the refusal; a file in whose name a broker finds no offset is only to be renamed."""
        for name in self.draft.names():
            if name.endswith((_SWAP, _CLEANED, _SNAPSHOT)) and offset_of_file_name(name) is None:
                steps = FindingKind.BAD_NAME.steps
                return Impossible(Remark(self.draft.path(name), str(failure), ExitCode.REFUSED, steps=steps))
        return Impossible(Remark(self._path, str(failure), ExitCode.REFUSED, steps=(SALVAGE,)))

    def _warn(self, name: str, message: str, position: int | None = None) -> None:
        self.remarks.append(Remark(self.draft.path(name), message, ExitCode.WARNINGS, position))

    def _remark(self, report: FileReport, what: str) -> None:
        self.remarks.append(Remark(report.path, f"{_why_rebuilt(report)}: {what}", ExitCode.WARNINGS))

    def _report_what_stays(self, reports: Iterable[FileReport]) -> None:
        for report in reports:
            for note in report.notes if report.state is not WorkState.DELETED else ():
                if note.code is ExitCode.CORRUPTION:
                    self.remarks.append(Remark(report.path, note.message, note.code))


def _name(path: str) -> str:
    return path.rpartition("/")[2]


# ---- which files must be rebuilt


def _is_wrong(report: FileReport) -> bool:
    """Whether the file is missing, misleads a reader, or cannot be read."""
    return report.size_bytes is None or report.exit_code is ExitCode.CORRUPTION or _is_unreadable(report)


def _is_inexact(report: FileReport) -> bool:
    """Whether the file is odd but misleads no reader: a length, a zero tail, an entry with too low a value."""
    if any(note.code is ExitCode.WARNINGS and note.kind is not None for note in report.notes):
        return True
    is_odd = report.worst_entry is ExitCode.WARNINGS
    return is_odd and any(
        entry.exit_code is ExitCode.WARNINGS and entry.verdict in FAULTY_VERDICTS for entry in report.entries
    )


def _entries_alone(report: FileReport, data: bytes) -> bytes | None:
    """Return the bytes of an index's entries if only the bytes after them are odd; None for any other fault.

    A dense index stays dense that way: a rebuilt index has only an entry per index.interval.bytes.
    """
    size = _ENTRY_BYTES.get(report.kind)
    is_entry_odd = report.worst_entry is not ExitCode.OK or report.lacks_largest
    return None if size is None or is_entry_odd else data[: sum(report.counts.values()) * size]


_ENTRY_BYTES = {FileKind.OFFSET_INDEX: OffsetIndex.layout.size, FileKind.TIME_INDEX: TimeIndex.layout.size}


def _is_torn(report: FileReport) -> bool:
    """Whether a transaction index ends within an entry: a broker ignores that, and appends its next entry after it."""
    return report.kind is FileKind.TXN_INDEX and bool((report.size_bytes or 0) % ABORTED_TXN.size)


def _is_unreadable(report: FileReport) -> bool:
    """Whether the device cannot read all of the file. A file that may not be opened does not count."""
    is_closed = any(note.is_closed for note in report.notes)
    return report.exit_code is ExitCode.FAILURE and not is_closed


def _why_rebuilt(report: FileReport) -> str:
    """Return the reason in a few words."""
    if report.size_bytes is None:
        return "it was missing"
    if _is_unreadable(report):
        return "it cannot be read"
    return "it did not fit the log" if report.exit_code is ExitCode.CORRUPTION else "it was inexact"
