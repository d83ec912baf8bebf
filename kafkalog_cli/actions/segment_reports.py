"""Reports on the indexes of one segment: the segment is walked once, and every index checked on the way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from kafkalog_cli.actions.index_check import OffsetIndexCheck
from kafkalog_cli.actions.index_verdict import Entry, FileReport, Note, counted, fault_note
from kafkalog_cli.actions.log_questions import EpochRuns, OffsetQuestions, ProducerTrail
from kafkalog_cli.actions.log_range import LogRange
from kafkalog_cli.actions.segment_walk import SegmentWalk, Stretch, record_offsets
from kafkalog_cli.actions.sidecar_files import MAX_INDEX_BYTES, MAX_STATE_BYTES, Content, DirectoryFiles, SidecarFile
from kafkalog_cli.actions.state_check import Marker, check_aborted_txns
from kafkalog_cli.actions.timeindex_check import TimeIndexCheck
from kafkalog_cli.errors import ExitCode, KafkalogError
from kafkalog_cli.format import txnindex
from kafkalog_cli.format.batch import NO_TIMESTAMP, Batch
from kafkalog_cli.format.fault import FaultKind
from kafkalog_cli.format.index import OffsetIndex
from kafkalog_cli.format.index_entries import length_faults
from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits
from kafkalog_cli.format.timeindex import TimeIndex
from kafkalog_cli.storage.fs import Filesystem, ReadableFile
from kafkalog_cli.storage.header import header_at
from kafkalog_cli.storage.kernels import KernelChoice
from kafkalog_cli.storage.log_end import segment_end
from kafkalog_cli.storage.names import FileKind, FileName, WorkState, segment_file_name
from kafkalog_cli.storage.partition import Segment
from kafkalog_cli.storage.read import RecordReader
from kafkalog_cli.storage.scan import Scan

CACHED_BATCHES = 1024
NO_NUMBER_NOTE = Note(
    "the name does not begin with an offset: a broker that meets it does not start", ExitCode.CORRUPTION
)
NO_LOG_NOTE = Note("there is no log beside it", ExitCode.WARNINGS)


@dataclass(frozen=True, slots=True)
class Means:
    """What a check works with."""

    fs: Filesystem
    limits: Limits = DEFAULT_LIMITS
    choice: KernelChoice | None = None


@dataclass(slots=True)
class Watch:
    """What else wants to see the batches of the segments that are walked."""

    log: LogRange
    questions: OffsetQuestions = field(default_factory=OffsetQuestions)
    trail: ProducerTrail | None = None
    epochs: EpochRuns | None = None

    @property
    def wants_everything(self) -> bool:
        """Whether every batch is to be seen, not only those up to the last question."""
        return self.trail is not None or self.epochs is not None

    def see(self, stretch: Stretch) -> None:
        """Show some batches."""
        self.questions.see(stretch)
        if self.trail is not None:
            self.trail.see(stretch)
        if self.epochs is not None:
            self.epochs.see(stretch)


class _OffsetIndexFile(NamedTuple):
    file: SidecarFile
    content: Content
    whole: OffsetIndex
    used: int
    check: OffsetIndexCheck


class _TimeIndexFile(NamedTuple):
    file: SidecarFile
    content: Content
    whole: TimeIndex
    used: int
    check: TimeIndexCheck


class SegmentReports:
    """One segment, or one that was or will be: its log, and the indexes with the same offset and suffix.

    `next_offset` is the base offset of the next segment (None: it is the last), `segment` is it if it is in place.
    Iterate for the reports; afterwards `walk` is what was found in the log (None: it was not looked at), and
    `is_complete` whether all of it was seen.
    """

    def __init__(  # noqa: PLR0913, PLR0917
        self,
        means: Means,
        files: DirectoryFiles,
        log: SidecarFile | None,
        indexes: list[SidecarFile],
        watch: Watch,
        next_offset: int | None = None,
        segment: Segment | None = None,
    ) -> None:
        self.walk: SegmentWalk | None = None
        self.is_complete = False
        self._means = means
        self._files = files
        self._log = log
        self._indexes = indexes
        self._watch = watch
        self._next_offset = next_offset
        self._segment = segment
        self._notes: list[Note] = []
        self._open: ReadableFile | None = None
        self._record_offsets = lru_cache(CACHED_BATCHES)(self._read_record_offsets)
        self._marker_of = lru_cache(None)(self._read_marker)

    def __iter__(self) -> Iterator[FileReport]:
        offset_indexes = [self._offset_index(file) for file in self._indexes if self._is(file, FileKind.OFFSET_INDEX)]
        time_indexes = [self._time_index(file) for file in self._indexes if self._is(file, FileKind.TIME_INDEX)]
        with ExitStack() as stack:
            self._open_log(stack)
            if self._open is not None:
                self._look_through(self._open, offset_indexes, time_indexes)
                self._note_damage(any(index.check.worst() is not ExitCode.OK for index in offset_indexes))
            if self._notes and self._log is not None:
                yield self._files.report(self._log, notes=self._notes)
            for offset_index in offset_indexes:
                yield self._offset_report(offset_index)
            for time_index in time_indexes:
                yield self._time_report(time_index)
            for file in self._indexes:
                if self._is(file, FileKind.TXN_INDEX):
                    yield self._txn_report(file)
                elif file.name.offset is None:
                    yield self._files.report(file, notes=[NO_NUMBER_NOTE])
            if self._files.is_everything_wanted and self._open is not None and self._segment is not None:
                yield from self._missing(self._open)

    def say(self, note: Note) -> None:
        """Say something about the log itself too."""
        self._notes.append(note)

    @staticmethod
    def _is(file: SidecarFile, kind: FileKind) -> bool:
        return file.name.kind is kind and file.name.offset is not None

    def _open_log(self, stack: ExitStack) -> None:
        if self._log is not None:
            try:
                self._open = stack.enter_context(self._means.fs.open_read(self._log.status.path))
            except KafkalogError as error:
                self.say(Note(str(error), ExitCode.FAILURE))

    def _look_through(
        self, log: ReadableFile, offset_indexes: list[_OffsetIndexFile], time_indexes: list[_TimeIndexFile]
    ) -> None:
        watch = self._watch
        has_checks = bool(offset_indexes or time_indexes)
        limit = watch.log.end if self._next_offset is None else self._next_offset
        if not (has_checks or watch.wants_everything or watch.questions.is_pending_below(limit)):
            return
        walk = self.walk = SegmentWalk(log, self._means.limits, self._means.choice)
        for stretch in walk:
            for offset_index in offset_indexes:
                offset_index.check.see(stretch)
            for time_index in time_indexes:
                time_index.check.see(stretch)
            watch.see(stretch)
            if not (has_checks or watch.wants_everything or watch.questions.is_pending_below(limit)):
                return
        self.is_complete = True
        for offset_index in offset_indexes:
            offset_index.check.finish(walk.end_position)
        for time_index in time_indexes:
            time_index.check.finish(walk.largest_timestamp)
        if self._segment is None:  # a leftover: its own log says what it holds
            base = self._log.name.offset if self._log is not None else None
            end = 0 if walk.last_offset is None else walk.last_offset + 1
            watch.log = LogRange(base or 0, max(end, base or 0))

    # ---- the log

    def _note_damage(self, index_lies: bool) -> None:
        walk = self.walk
        if walk is None:
            return
        found = [
            f"at byte {start}: {end - start} bytes that are no batches, others follow ({fault.message})"
            for start, end, fault in walk.damaged
        ]
        if walk.damaged_count > len(walk.damaged):
            found.append(f"{walk.damaged_count - len(walk.damaged)} more such places")
        if walk.fault is not None:
            found.append(f"at byte {walk.fault.position}: {walk.fault.message}")
        if walk.bad_crcs:
            found.append(f"{counted(walk.bad_crcs, 'batch', 'batches')} whose CRC does not match")
        if walk.disordered_at is not None:
            found.append(f"at byte {walk.disordered_at}: offsets do not go up")
        if walk.unknown_magic_at is not None:
            found.append(f"at byte {walk.unknown_magic_at}: a batch with an unknown magic")
        if found:
            code = walk.exit_code(self._means.fs)
            self._notes += [Note(message, code) for message in found]
        if self._next_offset is None and self._segment is not None and (walk.fault is not None or walk.damaged or index_lies):
            end = segment_end(self._means.fs, self._segment, like_clean_start=True).next_offset
            if walk.last_offset is not None and end <= walk.last_offset:
                message = f"after a clean shutdown a broker takes {end} for the end of the log"
                self.say(Note(f"{message}, though batches go on to offset {walk.last_offset}", ExitCode.WARNINGS))

    def _missing(self, log: ReadableFile) -> Iterator[FileReport]:
        assert self._log is not None
        offset, first = self._log.name.offset, header_at(log, 0)
        if not isinstance(first, Batch) or offset is None:
            return
        there = {
            file.name.kind
            for file in self._files.all
            if file.name.state is WorkState.IN_PLACE and file.name.offset == offset
        }
        if FileKind.OFFSET_INDEX not in there:
            message = "missing: a broker makes it anew when it starts, from the log"
            yield self._files.missing(_name(offset, FileKind.OFFSET_INDEX), message)
        if FileKind.TIME_INDEX not in there and first.magic >= 2:
            message = "missing: a broker leaves it empty after a clean shutdown, and takes the file's time for the log's"
            yield self._files.missing(_name(offset, FileKind.TIME_INDEX), message)

    # ---- offset index

    def _offset_index(self, file: SidecarFile) -> _OffsetIndexFile:
        content = self._files.read(file, MAX_INDEX_BYTES)
        whole = OffsetIndex(content.data, file.name.offset or 0)
        used = whole.in_use_count()
        if used == 1 and not any(content.data[: whole.layout.size]):
            used = 0  # preallocated and never written: no broker indexes the first batch
        index = OffsetIndex(content.data[: used * whole.layout.size], whole.base_offset)
        return _OffsetIndexFile(file, content, whole, used, OffsetIndexCheck(index, self._record_offsets))

    def _offset_report(self, index: _OffsetIndexFile) -> FileReport:
        index.check.judge_order()
        return self._files.counted(
            index.file,
            _Entries(index.check),
            (*index.content.notes, *self._index_notes(index.file, index.whole, index.used)),
            counts=index.check.counts(),
            worst_entry=index.check.worst(),
            style_counts=index.check.style_counts(),
            zero_tail_bytes=_zero_tail(index.whole, index.used),
        )

    # ---- time index

    def _time_index(self, file: SidecarFile) -> _TimeIndexFile:
        content = self._files.read(file, MAX_INDEX_BYTES)
        whole = TimeIndex(content.data, file.name.offset or 0)
        used = whole.in_use_count()
        if used == 1 and len(whole) > 1 and not any(content.data[: whole.layout.size]):
            used = 0
        index = TimeIndex(content.data[: used * whole.layout.size], whole.base_offset)
        return _TimeIndexFile(file, content, whole, used, TimeIndexCheck(index))

    def _time_report(self, index: _TimeIndexFile) -> FileReport:
        index.check.judge_order()
        notes = [*index.content.notes, *self._index_notes(index.file, index.whole, index.used)]
        worst = index.check.worst()
        walk, last = self.walk, index.check.last_timestamp
        closed = self._segment is not None and self._next_offset is not None and self.is_complete
        if closed and walk is not None and worst is ExitCode.OK and NO_TIMESTAMP != walk.largest_timestamp > last:
            message = f"no entry for the largest timestamp of the segment, {walk.largest_timestamp}"
            notes.append(Note(message, ExitCode.WARNINGS))
        return self._files.counted(
            index.file,
            _Entries(index.check),
            tuple(notes),
            counts=index.check.counts(),
            worst_entry=worst,
            zero_tail_bytes=_zero_tail(index.whole, index.used),
        )

    def _index_notes(self, file: SidecarFile, whole: OffsetIndex | TimeIndex, used: int) -> Iterator[Note]:
        if self._open is None:
            yield NO_LOG_NOTE
        for fault in length_faults(whole, used):
            # A broker rounds the length down; entries behind an unused one lead its search astray.
            code = ExitCode.WARNINGS if fault.kind is FaultKind.INVALID_LENGTH else ExitCode.CORRUPTION
            yield fault_note(fault, code)
        is_closed = self._next_offset is not None and file.name.state is WorkState.IN_PLACE
        if is_closed and _zero_tail(whole, used):
            message = "the segment is not the last: a broker takes its zero tail for entries (KAFKA-10207)"
            yield Note(message, ExitCode.WARNINGS)

    # ---- transaction index

    def _txn_report(self, file: SidecarFile) -> FileReport:
        content = self._files.read(file, MAX_STATE_BYTES)
        base_offset = file.name.offset or 0
        entries, faults = txnindex.decode(content.data, base_offset)
        notes = [*content.notes]
        for fault in faults:
            if fault.kind is FaultKind.INVALID_VERSION:
                notes.append(fault_note(fault))
            elif fault.kind is FaultKind.INVALID_LENGTH:  # a broker ignores a cut-off entry
                notes.append(fault_note(fault, ExitCode.WARNINGS))
        if self._open is None:
            notes.append(NO_LOG_NOTE)
        watch, known = self._watch, self._open is not None

        def checked() -> Iterator[Entry]:
            ask = watch.questions.answer if known else None
            return check_aborted_txns(entries, base_offset, watch.log, ask, self._marker_of)

        return self._files.report(file, checked, notes)

    def _read_marker(self, batch: Batch) -> Marker:
        """What kind of control record a batch holds."""
        assert self._open is not None
        end = batch.position + batch.size_bytes
        reader = RecordReader(self._means.limits)
        for chunk in Scan(self._open, start=batch.position, end=end, limits=self._means.limits):
            for block in reader.blocks(chunk):
                for record in block.rows():
                    key = record.key or b""
                    kind = int.from_bytes(key[2:4], "big", signed=True) if len(key) >= 4 else -1
                    return Marker(kind) if kind in (Marker.ABORT.value, Marker.COMMIT.value) else Marker.OTHER
        return Marker.OTHER

    def _read_record_offsets(self, batch: Batch) -> tuple[int, int] | None:
        assert self._open is not None
        return record_offsets(self._open, batch, self._means.limits)


class _Entries:
    """The entries of a check, once for each pass."""

    def __init__(self, check: OffsetIndexCheck | TimeIndexCheck) -> None:
        self._check = check

    def __iter__(self) -> Iterator[Entry]:
        return self._check.entries()


def _zero_tail(whole: OffsetIndex | TimeIndex, used: int) -> int:
    """The bytes behind the entries in use if they are all zero, as they are in a preallocated index; else 0."""
    tail = whole.data[used * whole.layout.size : len(whole) * whole.layout.size]
    return len(tail) if tail.count(0) == len(tail) else 0


def _name(offset: int, kind: FileKind) -> FileName:
    return FileName(segment_file_name(offset, kind), kind, WorkState.IN_PLACE, offset)
