"""One walk through a partition: reports on its files, ordered by base offset and kind, and the damage in its log."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cache, partial
from itertools import pairwise
from typing import NamedTuple

from kafkalog_cli.disk.fs import Filesystem, ReadableFile
from kafkalog_cli.disk.names import FileKind, FileName, WorkState, segment_file_name
from kafkalog_cli.errors import ExitCode, KafkalogError
from kafkalog_cli.format import checkpoint, producer_snapshot, txnindex
from kafkalog_cli.format.batch import Batch
from kafkalog_cli.format.checkpoint import EpochEntry
from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits
from kafkalog_cli.format.producer_snapshot import ProducerEntry
from kafkalog_cli.log.log_end import LogBounds, segment_end
from kafkalog_cli.log.partition import Partition, PartitionFile, Segment
from kafkalog_cli.log.reading.header import control_type_at, header_at
from kafkalog_cli.ops.check.checks.file_report import (
    NO_LOG_NOTE,
    FileNote,
    FileReport,
    closed_note,
    fault_note,
    note_of,
)
from kafkalog_cli.ops.check.checks.finding_kinds import FindingKind
from kafkalog_cli.ops.check.checks.index_check import IndexCheck, IndexedLog, index_check
from kafkalog_cli.ops.check.checks.log_check import LogCheck
from kafkalog_cli.ops.check.checks.log_questions import LogQuestions
from kafkalog_cli.ops.check.checks.producers import ProducerTrail, ReadProducers
from kafkalog_cli.ops.check.checks.segment_walk import UNKNOWN_RANGE, SegmentWalk, log_range
from kafkalog_cli.ops.check.checks.sidecar_files import (
    MAX_STATE_BYTES,
    SEGMENT_SIDECARS,
    STATES,
    DirectoryFiles,
    SidecarContent,
)
from kafkalog_cli.ops.check.checks.state_check import (
    check_aborted_txns,
    check_epochs,
    check_producers,
    epoch_offsets,
    missing_epochs,
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
_INDEXES = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX)


class ReadContext(NamedTuple):
    """The environment of a check. `sleep` (seconds) pauses before a check is repeated beside a running broker."""

    fs: Filesystem
    limits: Limits = DEFAULT_LIMITS
    sleep: Callable[[float], None] = time.sleep


class PartitionCheck:
    """The check of a partition directory, or of single files of it (`wanted`, by name). Iterate for the reports.

    Segments are walked in order, so that questions of snapshots and epochs about earlier segments are answered in time.
    `log_check` checks the batches of the logs in place that are wanted; with its `headers_only` no file beside a log is
    read. `problems_only`: an index without problems has no report. `partition` must be listed before, as its files may
    grow.
    """

    def __init__(
        self,
        context: ReadContext,
        partition: Partition,
        log_check: LogCheck,
        wanted: frozenset[str] | None = None,
        *,
        problems_only: bool = False,
    ) -> None:
        self._context = context
        self._problems_only = problems_only
        self._check = log_check
        self._partition = partition
        self._wanted = wanted
        self._files = DirectoryFiles(context.fs, partition.path, partition.directory, wanted, partition.entries)
        self._segments: dict[int, Segment] = {s.base_offset: s for s in partition.segments if not s.is_v07}
        self._next_offsets = dict(pairwise(sorted(self._segments)))
        self._log_end: int | None = None
        self._reached: int | None = None
        self._last_walk: SegmentWalk | None = None
        self._epochs: tuple[list[EpochEntry], list[Fault]] = [], []
        self._questions = LogQuestions(UNKNOWN_RANGE)
        self._followed = range(0)
        """The offsets in which producers are followed: from the first that a file names to the last file."""
        self._is_range_walked = wanted is None and self._is_first_of_one_segment()
        if not log_check.headers_only:
            self._read_changing_early()
            if not self._is_range_walked:
                self._questions.log = self._range()
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
        try:
            found = log_range(self._context.fs, self._partition, self._context.limits)
        except KafkalogError:  # reported with the segment
            found = None
        return found or UNKNOWN_RANGE

    @property
    def log(self) -> LogBounds | None:
        """The offsets of the log, None if no log can be read. Known after the iteration."""
        if self._check.headers_only:
            return None if self._reached is None else LogBounds(min(self._segments), self._reached)
        return None if self._questions.log is UNKNOWN_RANGE else self._questions.log

    def __iter__(self) -> Iterator[FileReport]:
        if self._check.headers_only:
            for _, segment in sorted(self._segments.items()):
                if self._takes(segment):
                    yield from self._segment(segment, [])
                else:
                    self._log_end = None
            return
        by_offset: dict[int, list[PartitionFile]] = {offset: [] for offset in self._segments}
        for file in self._files.wanted(FileKind.LOG, *SEGMENT_SIDECARS, FileKind.PRODUCER_SNAPSHOT):
            if file.name.offset is None:
                yield self._files.report(file, notes=[NO_NUMBER_NOTE])
            else:
                by_offset.setdefault(file.name.offset, []).append(file)
        for offset in sorted(by_offset):
            yield from self._at_offset(offset, by_offset[offset])
        for file in (*self._files.wanted(FileKind.METADATA_SNAPSHOT), *self._files.wanted(*SMALL_FILES)):
            is_epochs = file.name.kind is FileKind.LEADER_EPOCH_CHECKPOINT
            yield self._epochs_report(file) if is_epochs else small_report(self._files, file)
        if self._files.is_everything_wanted:
            yield from self._missing_state()

    def _takes(self, segment: Segment) -> bool:
        return self._wanted is None or segment.log.name in self._wanted

    # ---- what is asked of the log before it is walked

    def _read_changing_early(self) -> None:
        """Read files that a broker appends to or replaces, before the log end is read: so they are not newer."""
        last = max(self._segments, default=None)
        for file in self._in_place(FileKind.TXN_INDEX, FileKind.LEADER_EPOCH_CHECKPOINT):
            if file.name.kind is FileKind.LEADER_EPOCH_CHECKPOINT or file.name.offset == last:
                self._files.read_early(file)

    def _ask(self) -> None:
        files, questions = self._files, self._questions
        markers: set[int] = set()
        snapshots: dict[str, tuple[int, ReadProducers]] = {}
        *older, newest = files.wanted(FileKind.PRODUCER_SNAPSHOT) or (None,)
        end = 0
        # If there are too many entries for all files, the newest matter most: a broker begins with them.
        for file in (newest, *reversed(self._in_place(FileKind.TXN_INDEX)), *reversed(older)):
            offset = None if file is None else file.name.offset
            if file is None or offset is None:
                continue
            if file.name.kind is FileKind.TXN_INDEX:
                aborted = txnindex.decode(files.peek(file).data, 0)[0]
                if questions.ask(file, partial(txn_offsets, aborted, questions.log)):
                    markers.update(entry.last_offset for entry in aborted)
                end = max(end, offset + 1)
                continue
            read = partial(_producers, files, file)
            entries = read()
            if questions.ask(file, partial(snapshot_offsets, entries, questions.log)) and entries:
                snapshots[file.status.path] = offset, read
                end = max(end, offset)
        lists_markers = self._check.checks_transactions
        questions.trail = ProducerTrail(snapshots, frozenset(markers), questions.answer, lists_markers=lists_markers)
        if files.is_everything_wanted:
            self._followed = range(UNKNOWN_RANGE.end)
        elif questions.first_pending is not None:
            self._followed = range(questions.first_pending, end)
        for file in self._in_place(FileKind.LEADER_EPOCH_CHECKPOINT):
            self._epochs = checkpoint.decode_leader_epochs(files.peek(file).data)
            questions.ask_for_batches(epoch_offsets(self._epochs[0], questions.log))

    def _in_place(self, *kinds: FileKind) -> list[PartitionFile]:
        return [file for file in self._files.wanted(*kinds) if file.name.state is WorkState.IN_PLACE]

    # ---- a base offset after the other

    def _at_offset(self, offset: int, files: list[PartitionFile]) -> Iterator[FileReport]:
        """Yield the reports on files with this base offset: first files in place, then by work suffix."""
        in_place = [file for file in files if file.name.state is WorkState.IN_PLACE]
        indexes = [file for file in in_place if file.name.kind in SEGMENT_SIDECARS]
        if offset in self._segments:
            yield from self._segment(self._segments[offset], indexes)
        elif indexes:
            yield from self._of_log(None, indexes, self._questions)
        for file in in_place:
            if file.name.kind is FileKind.PRODUCER_SNAPSHOT:
                yield self._snapshot_report(file, offset)
        for state in STATES[1:]:
            leftovers = [file for file in files if file.name.state is state]
            if leftovers:
                yield from self._leftovers(leftovers)

    def _segment(self, segment: Segment, indexes: list[PartitionFile]) -> Iterator[FileReport]:
        base_offset, before, notes = segment.base_offset, self._log_end, []
        if before is not None and before < base_offset:
            last = base_offset - 1
            message = f"no segment covers offsets {before} to {last}: lost, or removed by compaction"
            notes.append(FileNote(message, kind=FindingKind.OFFSET_GAP, offsets=(before, last)))
        log = PartitionFile(FileName(segment.log.name, FileKind.LOG, WorkState.IN_PLACE, base_offset), segment.log)
        yield from self._of_log(log, indexes, self._questions, segment=segment, notes=notes)

    def _leftovers(self, files: list[PartitionFile]) -> Iterator[FileReport]:
        """Yield the reports on files with one work suffix: indexes are checked against the log with the same suffix."""
        indexes = [file for file in files if file.name.kind in SEGMENT_SIDECARS]
        questions, markers = LogQuestions(UNKNOWN_RANGE), set[int]()
        for file in indexes:
            if file.name.kind is FileKind.TXN_INDEX:
                entries = txnindex.decode(self._files.read(file).data, 0)[0]
                if questions.ask(file, partial(txn_offsets, entries, UNKNOWN_RANGE)):
                    markers.update(entry.last_offset for entry in entries)
        questions.trail = ProducerTrail({}, frozenset(markers), questions.answer)
        log = self._files.log_of(files[0])
        notes = []
        if self._files.is_everything_wanted and log is not None and log.name.state is not WorkState.IN_PLACE:
            notes.append(FileNote(_AT_START.get(log.name.state, "left over")))
        yield from self._of_log(log, indexes, questions, notes=notes)
        for file in files:
            if file.name.kind is FileKind.PRODUCER_SNAPSHOT:
                yield self._snapshot_report(file, file.name.offset or 0)

    # ---- a log and its indexes

    def _of_log(
        self,
        log: PartitionFile | None,
        indexes: list[PartitionFile],
        questions: LogQuestions,
        *,
        segment: Segment | None = None,
        notes: Sequence[FileNote] = (),
    ) -> Iterator[FileReport]:
        """Yield the reports on a log and its indexes; `segment` is set for a segment in place."""
        files, notes, walk, opened = self._files, [*notes], None, None
        is_wanted = segment is not None and self._takes(segment)
        check = self._check if is_wanted else LogCheck(self._context.fs, self._context.limits, transactions=False)
        with ExitStack() as stack:
            # A broker writes a batch first and its index entries afterwards. An index that is read before the size of
            # the log is taken has no entry beyond the log's end.
            for file in indexes:
                files.read_early(file)
            if log is not None:
                check.count(log.status)
                opened = self._opened(log, stack, notes)
            in_log = IndexedLog(log is not None, opened, self._context.limits)
            entries = [index_check(files, file, in_log) for file in indexes if file.name.kind in _INDEXES]
            next_offset = None if segment is None else self._next_offsets.get(segment.base_offset)
            if log is not None and opened is not None:
                begun = check.begin(opened, log.name.offset or 0, next_offset)
                limit = questions.log.end if next_offset is None else next_offset
                begin = log.name.offset or 0
                is_in_range = begin < self._followed.stop and limit > self._followed.start
                questions.is_following = segment is None or is_in_range
                is_whole = is_wanted or bool(entries) or (segment is not None and is_in_range)
                walk = self._walked(begun, check, entries, questions, None if is_whole else limit)
                notes += map(note_of, check.damage)
                notes += self._end_note(begun, segment, next_offset, entries)
            self._after_walk(walk, log, segment, questions)
            if notes and log is not None:
                yield files.report(log, notes=notes)
            is_closed = segment is not None and next_offset is not None
            for index in entries:
                if self._problems_only and index.is_sound(walk, is_closed=is_closed):
                    continue
                yield index.report(walk, is_closed=is_closed)
            for file in indexes:
                if file.name.kind is FileKind.TXN_INDEX:
                    yield self._txn_report(file, in_log, questions)
            if opened is not None and segment is not None:
                yield from self._missing_indexes(opened, walk, segment.base_offset)

    def _opened(self, log: PartitionFile, stack: ExitStack, notes: list[FileNote]) -> ReadableFile | None:
        try:
            return stack.enter_context(self._context.fs.open_read(log.status.path))
        except KafkalogError as error:
            notes.append(closed_note(error))
        return None

    @staticmethod
    def _walked(
        walk: SegmentWalk,
        check: LogCheck,
        entries: list[IndexCheck],
        questions: LogQuestions,
        limit: int | None = None,
    ) -> SegmentWalk | None:
        """Walk through a log; return the walk if it went to the end.

        With a `limit` only as far as an answer is missing that a segment below this offset may give.
        """
        is_whole = limit is None or questions.is_pending_below(limit)
        for batch_run in walk if is_whole else ():
            for index in entries:
                index.see(batch_run)
            questions.see(batch_run)
            check.see(batch_run)
            if limit is not None and not questions.is_pending_below(limit):
                is_whole = False
                break
        if is_whole:
            for index in entries:
                index.finish(walk)
        check.end(walk, questions.trail if questions.is_following else None)
        return walk if is_whole else None

    def _after_walk(
        self, walk: SegmentWalk | None, log: PartitionFile | None, segment: Segment | None, questions: LogQuestions
    ) -> None:
        """Note where the log ends."""
        if log is None:
            return
        base_offset = log.name.offset or 0
        end = None if walk is None and log.status.size_bytes else base_offset
        if walk is not None and walk.last_offset is not None:
            end = max(walk.last_offset + 1, base_offset)
        if segment is None:
            if walk is not None and end is not None:  # a leftover's range is that of its own log
                questions.log = LogBounds(base_offset, end)
            return
        self._log_end = end
        self._reached = self._reached if end is None else end
        if segment.log.size_bytes:
            self._last_walk = walk
        if self._is_range_walked:
            questions.log = self._range(walk)

    def _end_note(
        self, walk: SegmentWalk, segment: Segment | None, next_offset: int | None, entries: list[IndexCheck]
    ) -> Iterator[FileNote]:
        """Note if a broker after a clean shutdown, which trusts the index, would find an earlier log end."""
        last_offset = walk.last_offset
        if segment is None or next_offset is not None or last_offset is None or self._check.headers_only:
            return
        if walk.fault is None and not walk.damaged and all(index.worst() is ExitCode.OK for index in entries):
            return
        try:
            end = segment_end(self._context.fs, segment, like_clean_start=True).next_offset
        except (KafkalogError, OSError):  # reported for the file itself
            return
        if end <= last_offset:
            message = f"after a clean shutdown a broker uses {end} as the end of the log"
            message += f", although batches continue to offset {last_offset}"
            yield FileNote(message, ExitCode.WARNINGS, FindingKind.END_NOT_SEEN, str(last_offset + 1), str(end))

    def _missing_indexes(self, log: ReadableFile, walk: SegmentWalk | None, base_offset: int) -> Iterator[FileReport]:
        """Yield reports on missing indexes that a broker would have beside a log with batches."""
        if not self._files.is_everything_wanted or self._check.headers_only:
            return
        first = header_at(log, 0) if walk is None or walk.first_batch is None else walk.first_batch
        if not isinstance(first, Batch):
            return
        there = {file.name.kind for file in self._files.at(base_offset) if file.name.state is WorkState.IN_PLACE}
        for kind, found, message in (
            (FileKind.OFFSET_INDEX, FindingKind.INDEX_MISSING, "a broker rebuilds it from the log when it starts"),
            (
                FileKind.TIME_INDEX,
                FindingKind.TIME_INDEX_MISSING,
                "after a clean shutdown a broker leaves it empty, and uses the modification time of the file",
            ),
        ):
            if kind not in there and (kind is FileKind.OFFSET_INDEX or first.magic >= 2):
                name = FileName(segment_file_name(base_offset, kind), kind, WorkState.IN_PLACE, base_offset)
                yield self._files.missing(name, f"missing: {message}", found)

    def _txn_report(self, file: PartitionFile, log: IndexedLog, questions: LogQuestions) -> FileReport:
        """Return the report on a `.txnindex` file; `questions` has the answers to `txn_offsets`."""
        content = self._files.read(file)
        if not content.is_whole:
            return self._files.unread(file, content)
        base_offset = file.name.offset or 0
        entries, faults = txnindex.decode(content.data, base_offset)
        if file.status.path in questions.unasked:
            message = f"{len(entries)} aborted transactions are too many to be compared with the log"
            note = FileNote(message, kind=FindingKind.ENTRIES_NOT_CHECKED)
            return self._files.unread(file, SidecarContent(b"", (note,)))
        notes = [] if log.is_there else [NO_LOG_NOTE]
        for fault in faults:
            if fault.kind is FaultKind.INVALID_VERSION:
                notes.append(fault_note(FileKind.TXN_INDEX, fault))
            elif fault.kind is FaultKind.INVALID_LENGTH:  # a broker ignores an incomplete entry
                notes.append(fault_note(FileKind.TXN_INDEX, fault, ExitCode.WARNINGS))
        # The entries are made again when the log is closed.
        marker_at = None if log.file is None else cache(partial(control_type_at, log.file))
        return self._files.report(file, partial(check_aborted_txns, entries, base_offset, marker_at, questions), notes)

    # ---- state of the partition

    def _snapshot_report(self, file: PartitionFile, offset: int) -> FileReport:
        content = self._files.read(file)
        is_large = file.status.size_bytes > MAX_STATE_BYTES or file.status.path in self._questions.unasked
        if not content.is_whole and not is_large:
            return self._files.unread(file, content)
        entries, faults = producer_snapshot.decode(b"" if is_large else content.data)
        questions, log = self._questions, self._questions.log
        questions.trail.reach(offset)
        check = partial(check_producers, entries, file.status.path, offset, questions)
        notes = self._of_large_snapshot(file) if is_large else [_snapshot_note(fault) for fault in faults]
        if file.name.state is not WorkState.IN_PLACE:  # a broker will remove it, so its contents do not matter
            report = self._files.report(file, check, notes)
            return replace(report, worst_entry=ExitCode.OK)
        if offset > log.end:
            message = f"its offset {offset} is past the end of the log ({log.end}): a broker deletes it"
            expected, got = f"at most {log.end}", str(offset)
            notes.append(FileNote(message, ExitCode.CORRUPTION, FindingKind.SNAPSHOT_BEYOND_END, expected, got))
        elif offset <= log.start and self._segments:
            message = f"not above the first offset of the log, {log.start}: a broker deletes it"
            notes.append(FileNote(message))
        return self._files.report(file, check, notes)

    def _of_large_snapshot(self, file: PartitionFile) -> list[FileNote]:
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

    def _epochs_report(self, file: PartitionFile) -> FileReport:
        if file.name.state is not WorkState.IN_PLACE:
            return self._files.report(file, notes=[FileNote("a checkpoint that was being written")])
        content = self._files.read(file)
        if not content.is_whole:
            return self._files.unread(file, content)
        entries, faults = self._epochs
        notes = [fault_note(file.name.kind, fault) for fault in faults]
        if self._files.is_everything_wanted:
            notes += missing_epochs(entries, self._check.epochs)
        return self._files.report(file, partial(check_epochs, entries, self._questions), notes)

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
                    with self._context.fs.open_read(log.path) as file:
                        header = header_at(file, 0)
                except KafkalogError:
                    return None
                return header if isinstance(header, Batch) else None
        return None


def _producers(files: DirectoryFiles, file: PartitionFile) -> Sequence[ProducerEntry]:
    return producer_snapshot.decode(files.read(file).data)[0]


def small_report(files: DirectoryFiles, file: PartitionFile) -> FileReport:
    """Return the report on a metadata file, or on a snapshot of KRaft's metadata log."""
    name = file.name
    if name.kind in (FileKind.METADATA_SNAPSHOT, FileKind.BOOTSTRAP_SNAPSHOT):
        of = "" if name.offset is None else f" up to offset {name.offset}, epoch {name.epoch}"
        notes = [FileNote(f"records of the metadata log{of}: kafkalog dump-log prints them")]
        if name.state is WorkState.IN_PLACE:
            from kafkalog_cli.log.settings.cluster_metadata import read_snapshot

            fault = read_snapshot(files.fs, file.status.path).fault
            notes += [] if fault is None else [fault_note(name.kind, fault)]
        return files.report(file, notes=notes)
    if name.state is not WorkState.IN_PLACE:
        return files.report(file, notes=[FileNote("a file that was being written")])
    content = files.read(file)
    if not content.is_whole:
        return files.unread(file, content)
    entries, notes = read_metadata_file(name.kind, content.data)
    return files.blank(file, entries=entries, notes=tuple(notes))


def _snapshot_note(fault: Fault) -> FileNote:
    # The CRC covers bytes after the last entry, and a broker ignores them.
    code = ExitCode.WARNINGS if fault.kind is FaultKind.TRAILING_BYTES else ExitCode.CORRUPTION
    return fault_note(FileKind.PRODUCER_SNAPSHOT, fault, code)
