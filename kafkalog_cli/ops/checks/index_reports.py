"""Reports on the sidecar files of one partition, ordered by base offset and kind. Each segment is walked once."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

from kafkalog_cli.disk.names import FileKind, FileName, WorkState, segment_file_name
from kafkalog_cli.errors import ExitCode, KafkalogError
from kafkalog_cli.format import checkpoint, producer_snapshot, txnindex
from kafkalog_cli.format.batch import Batch
from kafkalog_cli.format.checkpoint import EpochEntry
from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.format.producer_snapshot import ProducerEntry
from kafkalog_cli.log.log_end import LogBounds
from kafkalog_cli.log.partition import Partition, Segment, open_partition_of
from kafkalog_cli.log.reading.header import header_at
from kafkalog_cli.log.settings.cluster_metadata import read_snapshot
from kafkalog_cli.ops.checks.file_report import FileNote, FileReport, closed_note, fault_note
from kafkalog_cli.ops.checks.finding_kinds import FindingKind
from kafkalog_cli.ops.checks.log_questions import EpochRuns, LogObserver, ProducerTrail, ReadProducers, Watch
from kafkalog_cli.ops.checks.segment_reports import ReadContext, SegmentFiles, SegmentReports
from kafkalog_cli.ops.checks.segment_walk import UNKNOWN_RANGE, SegmentWalk, log_range
from kafkalog_cli.ops.checks.sidecar_files import MAX_STATE_BYTES, SEGMENT_SIDECARS, STATES, DirectoryFiles, SidecarFile
from kafkalog_cli.ops.checks.state_check import (
    check_epochs,
    check_producers,
    epoch_offsets,
    epochs_not_told,
    read_metadata_file,
    snapshot_offsets,
    txn_offsets,
)

NO_NUMBER_NOTE = FileNote(
    "the name does not begin with an offset: a broker that finds it does not start",
    ExitCode.CORRUPTION,
    FindingKind.BAD_NAME,
)
_AT_START = {
    WorkState.CLEANED: "a broker that starts deletes it",
    WorkState.DELETED: "a broker that starts deletes it",
    WorkState.SWAP: "a broker that starts puts it in place, but deletes it beside a .cleaned of its offset or lower",
}
SMALL_FILES = (FileKind.LEADER_EPOCH_CHECKPOINT, FileKind.PARTITION_METADATA, FileKind.QUORUM_STATE)


class PartitionReports:
    """The reports on a partition directory, or on single files of it (`wanted`, by name). Iterate for them.

    Segments are walked in order, so that questions of snapshots and epochs about earlier segments are answered in time.
    `listed`: the partition, if the caller has listed it. Raises PathNotFound, NotKafkaLayout, Unreadable for the
    directory itself.
    """

    def __init__(
        self,
        read_context: ReadContext,
        path: str,
        wanted: frozenset[str] | None = None,
        observer: LogObserver | None = None,
        listed: Partition | None = None,
    ) -> None:
        self._read_context = read_context
        # The directory is listed before the log is read.
        partition = open_partition_of(read_context.fs, path, wanted) if listed is None else listed
        self._files = DirectoryFiles(read_context.fs, path, partition.directory, wanted, partition.entries)
        self._segments: dict[int, Segment] = {s.base_offset: s for s in partition.segments if not s.is_seven}
        self._next_offsets = dict(pairwise(sorted(self._segments)))
        self._hold_changing()
        self._partition = partition
        self._is_range_walked = wanted is None and observer is not None and self._is_first_of_one_segment()
        self._watch = Watch(UNKNOWN_RANGE if self._is_range_walked else self._range(), observer=observer)
        self._log_end: int | None = None
        self._last_walk: SegmentWalk | None = None
        self._ask()

    def _is_first_of_one_segment(self) -> bool:
        """Whether the log is one segment, which is walked before any report: its end need not be searched before."""
        offsets = (file.name.offset for file in self._files.all)
        first = min((offset for offset in offsets if offset is not None), default=None)
        return len(self._partition.segments) == 1 and first in self._segments

    def _range(self, walk: SegmentWalk | None = None) -> LogBounds:
        """Return the offsets of the log, from the walk of its only segment if that met no damage."""
        if walk is not None and walk.is_sound:
            start = self._partition.segments[0].base_offset
            return LogBounds(start, start if walk.last_offset is None else walk.last_offset + 1)
        context = self._read_context
        try:
            found = log_range(context.fs, self._partition, context.limits)
        except KafkalogError:  # reported with the segment
            found = None
        return found or UNKNOWN_RANGE

    @property
    def log(self) -> LogBounds | None:
        """The offsets of the log, None if no log can be read. Known after the iteration."""
        return None if self._watch.log is UNKNOWN_RANGE else self._watch.log

    def __iter__(self) -> Iterator[FileReport]:
        sidecars = self._files.wanted(FileKind.LOG, *SEGMENT_SIDECARS, FileKind.PRODUCER_SNAPSHOT)
        by_offset: dict[int, list[SidecarFile]] = {offset: [] for offset in self._segments}
        for file in sidecars:
            if file.name.offset is None:
                yield self._files.report(file, notes=[NO_NUMBER_NOTE])
            else:
                by_offset.setdefault(file.name.offset, []).append(file)
        for offset in sorted(by_offset):
            yield from self._at_offset(offset, by_offset[offset])
        for file in self._files.wanted(FileKind.METADATA_SNAPSHOT):
            yield small_report(self._files, file)
        for file in self._files.wanted(*SMALL_FILES):
            if file.name.kind is FileKind.LEADER_EPOCH_CHECKPOINT:
                yield self._epochs_report(file)
            else:
                yield small_report(self._files, file)
        if self._files.is_everything_wanted:
            yield from self._missing_state()

    # ---- what is asked of the log before it is walked

    def _hold_changing(self) -> None:
        """Read files that a broker appends to or replaces, before the log end is read: so they are not newer."""
        last = max(self._segments, default=None)
        for file in self._in_place(FileKind.TXN_INDEX):
            if file.name.offset == last:
                self._files.hold(file, MAX_STATE_BYTES)
        for file in self._in_place(FileKind.LEADER_EPOCH_CHECKPOINT):
            self._files.hold(file, MAX_STATE_BYTES)

    def _ask(self) -> None:
        questions, log = self._watch.questions, self._watch.log
        markers: set[int] = set()
        snapshots: dict[int, ReadProducers] = {}
        *older, newest = self._files.wanted(FileKind.PRODUCER_SNAPSHOT) or (None,)
        # If there are too many entries for all files, the newest matter most: a broker begins with them.
        for file in (newest, *reversed(self._in_place(FileKind.TXN_INDEX)), *reversed(older)):
            if file is None:
                continue
            if file.name.kind is FileKind.TXN_INDEX:
                aborted = txnindex.decode(self._files.peek(file, MAX_STATE_BYTES).data, 0)[0]
                if self._watch.asks(file, partial(txn_offsets, aborted, log)):
                    markers.update(entry.last_offset for entry in aborted)
                continue
            entries = self._producers(file)
            is_asked = self._watch.asks(file, partial(snapshot_offsets, entries, log))
            if is_asked and entries and file.name.offset is not None and file.name.state is WorkState.IN_PLACE:
                snapshots[file.name.offset] = partial(self._producers, file)
        for file in self._in_place(FileKind.LEADER_EPOCH_CHECKPOINT):
            questions.ask_all(epoch_offsets(self._epochs(file), log))
        if self._files.is_everything_wanted:
            self._watch.epochs = EpochRuns()
        if (snapshots or markers) and self._files.is_everything_wanted:
            self._watch.trail = ProducerTrail(snapshots, frozenset(markers))

    def _in_place(self, kind: FileKind) -> list[SidecarFile]:
        return [file for file in self._files.wanted(kind) if file.name.state is WorkState.IN_PLACE]

    def _producers(self, file: SidecarFile) -> Sequence[ProducerEntry]:
        return producer_snapshot.decode(self._files.read(file, MAX_STATE_BYTES).data)[0]

    def _epochs(self, file: SidecarFile) -> list[EpochEntry]:
        return checkpoint.decode_leader_epochs(self._files.peek(file, MAX_STATE_BYTES).data)[0]

    # ---- a base offset after the other

    def _at_offset(self, offset: int, files: list[SidecarFile]) -> Iterator[FileReport]:
        """Yield the reports on files with this base offset: first files in place, then by work suffix."""
        in_place = [file for file in files if file.name.state is WorkState.IN_PLACE]
        indexes = [file for file in in_place if file.name.kind in SEGMENT_SIDECARS]
        if offset in self._segments:
            yield from self._segment(self._segments[offset], indexes)
        elif indexes:
            yield from SegmentReports(self._read_context, self._files, SegmentFiles(None, indexes), self._watch)
        for file in in_place:
            if file.name.kind is FileKind.PRODUCER_SNAPSHOT:
                yield self._snapshot_report(file, offset)
        for state in STATES[1:]:
            leftovers = [file for file in files if file.name.state is state]
            if leftovers:
                yield from self._leftovers(leftovers)

    def _segment(self, segment: Segment, indexes: list[SidecarFile]) -> Iterator[FileReport]:
        name = FileName(segment.log.path.rpartition("/")[2], FileKind.LOG, WorkState.IN_PLACE, segment.base_offset)
        log = SidecarFile(name, segment.log)
        found = SegmentFiles(log, indexes, segment, self._next_offsets.get(segment.base_offset))
        range_of = self._range if self._is_range_walked else None
        reports = SegmentReports(self._read_context, self._files, found, self._watch, range_of)
        if self._log_end is not None and self._log_end < segment.base_offset:
            last = segment.base_offset - 1
            message = f"no segment covers offsets {self._log_end} to {last}: lost, or removed by compaction"
            reports.say(FileNote(message, kind=FindingKind.OFFSET_GAP, offsets=(self._log_end, last)))
        yield from reports
        if segment.log.size_bytes:
            self._last_walk = reports.walk
        self._log_end = _end_of(segment, reports.walk)

    def _leftovers(self, files: list[SidecarFile]) -> Iterator[FileReport]:
        """Yield the reports on files with one work suffix: indexes are checked against the log with the same suffix."""
        indexes = [file for file in files if file.name.kind in SEGMENT_SIDECARS]
        watch = Watch(UNKNOWN_RANGE)
        for file in indexes:
            if file.name.kind is FileKind.TXN_INDEX:
                entries = txnindex.decode(self._files.read(file, MAX_STATE_BYTES).data, 0)[0]
                watch.asks(file, partial(txn_offsets, entries, UNKNOWN_RANGE))
        log = self._files.log_of(files[0])
        reports = SegmentReports(self._read_context, self._files, SegmentFiles(log, indexes), watch)
        if self._files.is_everything_wanted and log is not None and log.name.state is not WorkState.IN_PLACE:
            reports.say(FileNote(_AT_START.get(log.name.state, "left over")))
        yield from reports
        for file in files:
            if file.name.kind is FileKind.PRODUCER_SNAPSHOT:
                yield self._snapshot_report(file, file.name.offset or 0)

    # ---- state of the partition

    def _snapshot_report(self, file: SidecarFile, offset: int) -> FileReport:
        content = self._files.read(file, MAX_STATE_BYTES)
        is_large = file.status.size_bytes > MAX_STATE_BYTES or file.status.path in self._watch.unasked
        if not content.is_whole and not is_large:
            return self._files.unread(file, content)
        entries, faults = producer_snapshot.decode(b"" if is_large else content.data)
        watch = self._watch
        missed: dict[int, str] = {}
        if watch.trail is not None:
            watch.trail.reach(offset)
            missed = watch.trail.missed.get(offset, {})
        check = partial(check_producers, entries, offset, watch.log, watch.questions.answer, missed)
        notes = self._of_large_snapshot(file) if is_large else [_snapshot_note(fault) for fault in faults]
        if file.name.state is not WorkState.IN_PLACE:  # a broker will remove it, so its contents do not matter
            report = self._files.report(file, check, notes)
            return replace(report, worst_entry=ExitCode.OK)
        if offset > watch.log.end:
            message = f"its offset {offset} is past the end of the log ({watch.log.end}): a broker deletes it"
            expected, got = f"at most {watch.log.end}", str(offset)
            notes.append(FileNote(message, ExitCode.CORRUPTION, FindingKind.SNAPSHOT_BEYOND_END, expected, got))
        elif offset <= watch.log.start and self._segments:
            message = f"not above the first offset of the log, {watch.log.start}: a broker deletes it"
            notes.append(FileNote(message))
        return self._files.report(file, check, notes)

    def _of_large_snapshot(self, file: SidecarFile) -> list[FileNote]:
        """Return the notes on a snapshot with too many entries to look at: its length and checksum are checked."""
        try:
            count, faults = producer_snapshot.check(file.status.size_bytes, partial(self._files.pieces, file))
        except (KafkalogError, OSError) as error:
            return [closed_note(error)]
        notes = [_snapshot_note(fault) for fault in faults]
        if count:
            message = f"{count} producers are too many to be compared with the log; the checksum is right"
            notes.append(FileNote(message, kind=FindingKind.ENTRIES_NOT_CHECKED))
        return notes

    def _epochs_report(self, file: SidecarFile) -> FileReport:
        if file.name.state is not WorkState.IN_PLACE:
            return self._files.report(file, notes=[FileNote("a checkpoint that was being written")])
        content = self._files.read(file, MAX_STATE_BYTES)
        if not content.is_whole:
            return self._files.unread(file, content)
        entries, faults = checkpoint.decode_leader_epochs(content.data)
        notes = [fault_note(file.name.kind, fault) for fault in faults]
        watch = self._watch
        if watch.epochs is not None:
            notes += epochs_not_told(entries, watch.epochs.runs)
        return self._files.report(file, partial(check_epochs, entries, watch.log, watch.questions.answer), notes)

    def _missing_state(self) -> Iterator[FileReport]:
        """Yield reports on missing files that a broker with record batches v2 always has."""
        there = {file.name.kind for file in self._files.all if file.name.state is WorkState.IN_PLACE}
        if {FileKind.PRODUCER_SNAPSHOT, FileKind.LEADER_EPOCH_CHECKPOINT} <= there:
            return
        first = self._first_batch()
        if first is None or first.magic < 2:
            return
        if FileKind.PRODUCER_SNAPSHOT not in there and len(self._segments) > 1:
            kind, last = FileKind.PRODUCER_SNAPSHOT, max(self._segments)
            message = "missing, as is every other: after a clean shutdown a broker forgets the producers"
            name = FileName(segment_file_name(last, kind), kind, offset=last)
            yield self._files.missing(name, message, FindingKind.SNAPSHOTS_MISSING)
        if FileKind.LEADER_EPOCH_CHECKPOINT not in there and first.leader_epoch >= 0 and not self._ends_in_old_format():
            kind = FileKind.LEADER_EPOCH_CHECKPOINT
            message = "missing: a broker knows no leader epochs before the next"
            yield self._files.missing(FileName(kind.value, kind), message, FindingKind.EPOCHS_MISSING)

    def _ends_in_old_format(self) -> bool:
        """Whether the last batch has no epoch: a broker configured to write format 0 or 1 removes the checkpoint."""
        magic = None if self._last_walk is None else self._last_walk.last_magic
        return magic is not None and magic < 2

    def _first_batch(self) -> Batch | None:
        """Return the header of the first batch in the last non-empty segment, None if it cannot be read."""
        if self._last_walk is not None and self._last_walk.first_batch is not None:
            return self._last_walk.first_batch
        for base in sorted(self._segments, reverse=True):
            log = self._segments[base].log
            if log.size_bytes:
                try:
                    with self._read_context.fs.open_read(log.path) as file:
                        header = header_at(file, 0)
                except KafkalogError:
                    return None
                return header if isinstance(header, Batch) else None
        return None


def _end_of(segment: Segment, walk: SegmentWalk | None) -> int | None:
    """Return the offset that must come next, None if it is not known. A segment without a batch has no offset."""
    if walk is not None and walk.last_offset is not None:
        return max(walk.last_offset + 1, segment.base_offset)
    return segment.base_offset if walk is not None or not segment.log.size_bytes else None


def small_report(files: DirectoryFiles, file: SidecarFile) -> FileReport:
    """Return the report on a metadata file, or on a snapshot of KRaft's metadata log."""
    name = file.name
    if name.kind in (FileKind.METADATA_SNAPSHOT, FileKind.BOOTSTRAP_SNAPSHOT):
        of = "" if name.offset is None else f" up to offset {name.offset}, epoch {name.epoch}"
        notes = [FileNote(f"records of the metadata log{of}: kafkalog dump-log prints them")]
        if name.state is WorkState.IN_PLACE:
            fault = read_snapshot(files.fs, file.status.path).fault
            notes += [] if fault is None else [fault_note(name.kind, fault)]
        return files.report(file, notes=notes)
    if name.state is not WorkState.IN_PLACE:
        return files.report(file, notes=[FileNote("a file that was being written")])
    content = files.read(file, MAX_STATE_BYTES)
    if not content.is_whole:
        return files.unread(file, content)
    entries, notes = read_metadata_file(name.kind, content.data)
    return replace(files.blank(file), entries=entries, notes=tuple(notes))


def _snapshot_note(fault: Fault) -> FileNote:
    # The CRC covers bytes after the last entry, and a broker ignores them.
    code = ExitCode.WARNINGS if fault.kind is FaultKind.TRAILING_BYTES else ExitCode.CORRUPTION
    return fault_note(FileKind.PRODUCER_SNAPSHOT, fault, code)
