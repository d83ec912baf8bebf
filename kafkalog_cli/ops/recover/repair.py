"""Repairs a partition: cuts a torn tail, completes or undoes swaps, and rebuilds missing or wrong files.

Unlike a broker, a repair checks every segment and does not trust the clean shutdown marker. It keeps the valid entries
of an index. If valid batches follow damage in a log, it changes nothing.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

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
from kafkalog_cli.errors import ExitCode, PathNotFound, Unreadable
from kafkalog_cli.format.checkpoint import decode_leader_epochs
from kafkalog_cli.format.index import OffsetIndex
from kafkalog_cli.log.log_dir import LineEdit, StartState
from kafkalog_cli.log.log_end import LogBounds, entries_in_use
from kafkalog_cli.log.partition import Partition, open_partition
from kafkalog_cli.ops.checks.file_report import FileReport
from kafkalog_cli.ops.checks.finding_kinds import FindingKind
from kafkalog_cli.ops.checks.log_check import LogCheck
from kafkalog_cli.ops.checks.partition_check import PartitionCheck, ReadContext
from kafkalog_cli.ops.checks.segment_walk import SegmentWalk
from kafkalog_cli.ops.plans import Remark, fingerprints_of
from kafkalog_cli.ops.recover.plan import (
    CheckpointLines,
    Impossible,
    RecoverMode,
    RecoverPlan,
    line_edits,
    torn_at,
    torn_logs,
    torn_near_end,
    watermark_remark,
)
from kafkalog_cli.ops.recover.sidecar_state import entries_alone, is_inexact, is_torn, is_wrong, why_rebuilt
from kafkalog_cli.ops.steps import SALVAGE

_SWAP, _CLEANED = WorkState.SWAP.value, WorkState.CLEANED.value
_LOG_SWAP = FileKind.LOG.value + _SWAP
_SNAPSHOT = FileKind.PRODUCER_SNAPSHOT.value
_STATE_KINDS = (FileKind.PRODUCER_SNAPSHOT, FileKind.LEADER_EPOCH_CHECKPOINT)

INDEX_KINDS = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX)


class Scope(NamedTuple):
    """How much to repair. `since` (an offset): segments that end before it are not checked; None: all are.

    `lines` are the partition's lines in the root checkpoints. `with_inexact`: also rebuild files that are inexact but
    mislead no reader.
    """

    indexes_only: bool = False
    since: int | None = None
    lines: CheckpointLines | None = None
    with_inexact: bool = True

    def lines_of(self, start: StartState) -> CheckpointLines:
        """Return the lines; without any, the recovery point of `start`."""
        return {FileKind.RECOVERY_POINT_CHECKPOINT: start.recovery_point} if self.lines is None else self.lines

    @property
    def mode(self) -> RecoverMode:
        """The mode that a plan names."""
        return RecoverMode.INDEXES_ONLY if self.indexes_only else RecoverMode.REPAIR


EVERYTHING = Scope()


def plan_repair(
    draft: Draft, partition: Partition, start: StartState, settings: LoadSettings, scope: Scope = EVERYTHING
) -> RecoverPlan:
    """Plan the repair of the partition on its draft. The clean shutdown marker in `start` is ignored.

    Raises Unreadable if a file exists but cannot be opened, because its contents could change the plan.
    """
    prints = fingerprints_of(draft, partition.path)
    repair = _Repair(draft, partition, settings, start.log_start_offset, scope)
    try:
        repair.run(indexes_only=scope.indexes_only)
        end_offset = repair.end_offset
    except Impossible as reason:
        _raise_unopened(repair.draft)
        remarks = (reason.remark,)  # the others say what has been drafted, and nothing of it is done
        return RecoverPlan.of(partition, mode=scope.mode, remarks=remarks, fingerprints=prints, is_refused=True)
    _raise_unopened(repair.draft)
    edits: list[LineEdit] = []
    if repair.knows_end and not scope.indexes_only:
        log, lines = LogBounds(repair.start_offset, end_offset), scope.lines_of(start)
        edits += line_edits(partition, lines, log)
        repair.remarks += watermark_remark(partition, lines, log)
    return RecoverPlan.of(
        partition,
        mode=scope.mode,
        changes=tuple(repair.draft.changes()),
        line_edits=tuple(edits),
        log_start_offset=repair.start_offset,
        log_end_offset=end_offset,
        recovered=tuple(sorted(repair.recovered)),
        cut=tuple(repair.cut),
        remarks=tuple(repair.remarks),
        fingerprints=prints,
    )


def _raise_unopened(draft: Draft) -> None:
    """Raise the first of the errors with which files could not be opened."""
    for error in draft.unopened:
        raise error


class _Repair:
    """Works on a draft of the partition, and checks the files that it changed before it ends."""

    def __init__(
        self, draft: Draft, partition: Partition, settings: LoadSettings, log_start_offset: int, scope: Scope
    ) -> None:
        self.draft = draft
        self.remarks: list[Remark] = []
        self.cut: list[CutSegment] = []
        self.recovered: set[int] = set()
        self._cuts: list[Remark] = []
        self._log_end: int | None = None
        self._seven = [segment for segment in partition.segments if segment.is_seven]
        self._before = frozenset(self.draft.names())
        self._partition = partition
        self._settings = settings
        self._log_start_offset = log_start_offset
        self._log_check = LogCheck(draft)
        self._replay: tuple[int, Rebuilt] | None = None
        self._epochs: dict[int, LeaderEpochs] = {}
        self._since = scope.since
        self._with_inexact = scope.with_inexact

    @property
    def end_offset(self) -> int:
        """The offset after the last batch; in 0.7, where offsets are positions, the byte after it."""
        if self._seven:
            last = self._seven[-1]
            return last.base_offset + self.draft.size_bytes(last.log.path.rpartition("/")[2])
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
        reports = self._look()
        torn = torn_logs(reports)
        if torn and self.cut:  # a wrong index may have led into a record's value: again without it
            self.draft, self.cut, self._cuts = whole, [], []
            reports = self._look()
            torn = torn_logs(reports)
        torn += [segment.log.path for segment in self._seven]
        if not indexes_only and self._cut_tail(torn):
            reports = self._look()
        looked_at = self.draft.fork()
        self.remarks += self._cuts  # only reported once no other damage was found
        self._rebuild_indexes(reports)
        self._rebuild_missing_txn_indexes()
        if not indexes_only:
            self._rebuild_epochs(reports)
            self._rebuild_snapshots(reports)
        self._say_what_stays(self._now(reports, self.draft.differences(looked_at)))

    def _now(self, reports: list[FileReport], made: set[str]) -> list[FileReport]:
        """Return the reports for the repaired files. Reports on logs stay valid if only state files were rebuilt."""
        if all(classify_file(name).kind in _STATE_KINDS for name in made):
            return [report for report in reports if report.path.rpartition("/")[2] not in made]
        return self._look()

    def _look(self) -> list[FileReport]:
        settings = self._settings
        read_context = ReadContext(self._looked_at(), settings.limits)
        self._log_check = LogCheck(read_context.fs, settings.limits)
        found = PartitionCheck(read_context, self._partition.path, self._log_check)
        reports = list(found)
        self._log_end = None if found.log is None else found.log.end
        return reports

    def _looked_at(self) -> Draft:
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
        segments = open_partition(view, self._partition.path).segments
        index = segments[-1].offset_index if segments else None
        if index is not None:
            used, _ = entries_in_use(view, index.path, OffsetIndex, segments[-1].base_offset)
            view.cut(index.path.rpartition("/")[2], len(used) * used.layout.size)
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
            self._say(name, "damaged: removed; the segments that it was to replace stay")
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
            self._say(name, "left by an unfinished cleaning or split: removed")
            return
        self._say(name, "left by a finished cleaning or split: moved to its place")
        index = in_place.removesuffix(FileKind.LOG.value) + FileKind.OFFSET_INDEX.value
        if name.endswith(_LOG_SWAP) and index + _SWAP not in self._before:
            self.draft.drop(index)  # a broker leaves an index here that is all zeros

    def _is_whole(self, name: str) -> bool:
        with self.draft.reader(name) as log:
            walk = SegmentWalk(log, self._settings.limits)
            walk.run()
            return walk.fault is None and not walk.damaged and not walk.bad_crcs

    # -- the log

    def _cut_torn_end(self) -> None:
        """Cut the torn end that a crash leaves before the full check, which is then needed only once."""
        segments = open_partition(self.draft, self._partition.path).segments
        if segments and not segments[-1].is_seven:
            bad = torn_near_end(self.draft, segments[-1], self._settings)
            if bad is not None:
                self._cut(segments[-1].log.path.rpartition("/")[2], bad)

    def _cut_tail(self, suspects: Sequence[str]) -> bool:
        """Cut everything after the last valid batch of each suspect log. Return whether anything was cut."""
        was_cut = False
        for path in suspects:
            name = path.rpartition("/")[2]
            bad = torn_at(self.draft, name, self._settings)
            if bad is not None:
                self._cut(name, bad)
                was_cut = True
        return was_cut

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
            if report.kind not in INDEX_KINDS or report.state is not WorkState.IN_PLACE or offset is None:
                continue
            name = report.path.rpartition("/")[2]
            if segment_file_name(offset, FileKind.LOG) not in self.draft:
                self._say(name, "it belongs to no segment: removed")
                self.draft.drop(name)
                continue
            if not is_wrong(report) and not is_torn(report) and not (self._with_inexact and is_inexact(report)):
                continue
            there = None if is_wrong(report) else self._content(name)
            kept = None if there is None else entries_alone(report, there)
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
            data = self._index_of(base_offset, FileKind.TXN_INDEX)
            if data and (not is_there or self._content(name) != data):
                what = "lacks entries of" if is_there else "missing, though there are"
                self._say(name, f"{what} aborted transactions: rebuilt from the log")
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
        wrong = [r for r in reports if r.kind is FileKind.LEADER_EPOCH_CHECKPOINT and is_wrong(r)]
        if not wrong:
            return
        name = FileKind.LEADER_EPOCH_CHECKPOINT.value
        goes_back = any(one.kind is FindingKind.EPOCH_GOES_BACK for one in self._log_check.findings)
        if goes_back and self._can_be_read(name):
            self._say(name, "the leader epochs of batches go down somewhere, so no file fits them: left as it is")
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
        wrong = [r for r in in_place if is_wrong(r) or (self._with_inexact and is_inexact(r))]
        if not wrong and not self.cut:
            return
        for report in wrong:
            self.draft.drop(report.path.rpartition("/")[2])
        try:
            snapshots = ProducerSnapshots(self.draft, self._settings)
            snapshots.without_producers = frozenset(self._log_check.without_producers)
            snapshots.rebuild(self._searched(), self.start_offset, self.end_offset, from_clean_stop=False)
        except LoadFailed as failure:
            raise self._impossible(failure) from failure
        for report in wrong:
            self._remark(report, self._snapshot_outcome(report.path.rpartition("/")[2]))

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
        return Impossible(Remark(self._partition.path, str(failure), ExitCode.REFUSED, steps=(SALVAGE,)))

    def _say(self, name: str, message: str, position: int | None = None) -> None:
        self.remarks.append(Remark(self.draft.path(name), message, ExitCode.WARNINGS, position))

    def _remark(self, report: FileReport, what: str) -> None:
        self.remarks.append(Remark(report.path, f"{why_rebuilt(report)}: {what}", ExitCode.WARNINGS))

    def _say_what_stays(self, reports: Iterable[FileReport]) -> None:
        for report in reports:
            for note in report.notes if report.state is not WorkState.DELETED else ():
                if note.code is ExitCode.CORRUPTION:
                    self.remarks.append(Remark(report.path, note.message, note.code))
