"""Reports on one segment: it is walked once, and every index is checked during the walk."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import NamedTuple

from kafkalog_cli.disk.fs import Filesystem, ReadableFile
from kafkalog_cli.disk.names import FileKind, FileName, WorkState, segment_file_name
from kafkalog_cli.errors import ExitCode, KafkalogError, counted
from kafkalog_cli.format.batch import Batch
from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits
from kafkalog_cli.log.log_end import LogBounds, segment_end
from kafkalog_cli.log.partition import Segment
from kafkalog_cli.log.reading.header import header_at
from kafkalog_cli.ops.checks.file_report import FileNote, FileReport, closed_note
from kafkalog_cli.ops.checks.finding_kinds import FindingKind
from kafkalog_cli.ops.checks.index_files import IndexedLog, IndexFile, txn_report
from kafkalog_cli.ops.checks.log_questions import Check, LogObserver, Watch
from kafkalog_cli.ops.checks.segment_walk import SegmentWalk
from kafkalog_cli.ops.checks.sidecar_files import MAX_INDEX_BYTES, MAX_STATE_BYTES, DirectoryFiles, SidecarFile


class ReadContext(NamedTuple):
    """The environment of a check. `sleep` (seconds) pauses before a fresh look at files that a broker changes."""

    fs: Filesystem
    limits: Limits = DEFAULT_LIMITS
    sleep: Callable[[float], None] = time.sleep


class SegmentFiles(NamedTuple):
    """The log of a segment and the indexes with the same offset and suffix.

    `log` is None if there is none. `segment` is set for a segment in place. `next_offset` is then the base offset of
    the next segment, None for the last.
    """

    log: SidecarFile | None
    indexes: list[SidecarFile]
    segment: Segment | None = None
    next_offset: int | None = None


class SegmentReports:
    """The reports on a segment in place, or on a segment with a work suffix. Iterate for them.

    Afterwards `walk` has the facts about the log; None if the log was not read to its end. `range_of` returns the
    offsets of the partition from that walk, if they are not known before.
    """

    def __init__(
        self,
        read_context: ReadContext,
        files: DirectoryFiles,
        segment: SegmentFiles,
        watch: Watch,
        range_of: Callable[[SegmentWalk | None], LogBounds] | None = None,
    ) -> None:
        self.walk: SegmentWalk | None = None
        self._range_of = range_of
        self._read_context = read_context
        self._files = files
        self._segment = segment
        self._watch = watch
        self._observer: LogObserver | None = None
        if watch.observer is not None and segment.segment is not None:
            wanted = watch.observer.begin(segment.segment, segment.next_offset)
            self._observer = watch.observer if wanted else None
        self._notes: list[FileNote] = []

    def say(self, note: FileNote) -> None:
        """Add a note on the log itself."""
        self._notes.append(note)

    def __iter__(self) -> Iterator[FileReport]:
        files, segment = self._files, self._segment
        with ExitStack() as stack:
            # A broker writes a batch first and its index entries afterwards. An index that is read before the size of
            # the log is taken has no entry beyond the log's end.
            for file in segment.indexes:
                files.hold(file, MAX_STATE_BYTES if file.name.kind is FileKind.TXN_INDEX else MAX_INDEX_BYTES)
            log = IndexedLog(segment.log is not None, self._open_log(stack), self._read_context.limits)
            indexes = [
                IndexFile(files, file, log)
                for file in segment.indexes
                if file.name.kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX)
            ]
            if log.file is not None:
                self._look_through(log.file, indexes)
            if self._range_of is not None:
                self._watch.log = self._range_of(self.walk)
            if self._notes and segment.log is not None:
                yield files.report(segment.log, notes=self._notes)
            is_closed = segment.segment is not None and segment.next_offset is not None
            for index in indexes:
                yield index.report(self.walk, is_closed=is_closed)
            for file in segment.indexes:
                if file.name.kind is FileKind.TXN_INDEX:
                    yield txn_report(files, file, log, self._watch)
            if files.is_everything_wanted and log.file is not None and segment.segment is not None:
                yield from self._missing(log.file, segment.segment.base_offset)

    def _open_log(self, stack: ExitStack) -> ReadableFile | None:
        if self._segment.log is not None:
            try:
                return stack.enter_context(self._read_context.fs.open_read(self._segment.log.status.path))
            except KafkalogError as error:
                self.say(closed_note(error))
        return None

    def _look_through(self, log: ReadableFile, indexes: list[IndexFile]) -> None:
        if not self._is_wanted(indexes):
            return
        observer = self._observer
        records = observer.records if observer is not None and observer.wants_records else None
        context, next_offset = self._read_context, self._segment.next_offset
        walk = SegmentWalk(log, context.limits, records=records, next_offset=next_offset)
        checks: list[Check] = [*indexes, self._watch, *([] if observer is None else [observer])]
        for batch_run in walk:
            for check in checks:
                check.see(batch_run)
            if not self._is_wanted(indexes):
                break
        else:
            self._finish(walk, indexes)
        code = self._note_damage(walk)
        if observer is not None:
            observer.end(walk, code)
        self._note_end(walk, indexes)

    def _is_wanted(self, indexes: list[IndexFile]) -> bool:
        """Whether more of the log must be read."""
        watch, next_offset = self._watch, self._segment.next_offset
        limit = watch.log.end if next_offset is None else next_offset
        if self._observer is not None:
            return True
        return bool(indexes) or watch.wants_everything or watch.questions.is_pending_below(limit)

    def _finish(self, walk: SegmentWalk, indexes: list[IndexFile]) -> None:
        self.walk = walk
        for index in indexes:
            index.finish(walk)
        if self._segment.segment is None and self._segment.log is not None:
            # A leftover's range is that of its own log.
            base = self._segment.log.name.offset or 0
            self._watch.log = LogBounds(base, base if walk.last_offset is None else max(walk.last_offset + 1, base))

    # ---- the log itself

    def _note_damage(self, walk: SegmentWalk) -> ExitCode:
        found = [
            f"at byte {start}: {counted(end - start, 'byte', 'bytes')} that are not a batch; valid batches follow"
            for start, end in walk.damaged
        ]
        if walk.damaged_count > len(walk.damaged):
            found.append(counted(walk.damaged_count - len(walk.damaged), "more such place", "more such places"))
        if walk.fault is not None:
            found.append(f"at byte {walk.fault.position}: {walk.fault.message}")
        if walk.bad_crcs:
            found.append(f"{counted(walk.bad_crcs, 'batch', 'batches')} whose CRC does not match")
        if walk.disordered_at is not None:
            found.append(f"at byte {walk.disordered_at}: offsets do not ascend")
        if walk.unknown_magic_at is not None:
            found.append(f"at byte {walk.unknown_magic_at}: a batch with an unknown magic")
        code = walk.exit_code(self._read_context.fs) if found else ExitCode.OK
        if found:
            self._notes += [FileNote(message, code) for message in found]
        return code

    def _note_end(self, walk: SegmentWalk, indexes: list[IndexFile]) -> None:
        """Note if a broker after a clean shutdown, which trusts the index, would find an earlier log end."""
        segment, last_offset = self._segment.segment, walk.last_offset
        is_whole = walk.fault is None and not walk.damaged and all(index.is_right() for index in indexes)
        if is_whole or segment is None or self._segment.next_offset is not None or last_offset is None:
            return
        try:
            end = segment_end(self._read_context.fs, segment, like_clean_start=True).next_offset
        except (KafkalogError, OSError):  # reported for the file itself
            return
        if end <= last_offset:
            message = f"after a clean shutdown a broker uses {end} as the end of the log"
            message += f", although batches continue to offset {last_offset}"
            expected, got = str(last_offset + 1), str(end)
            self.say(FileNote(message, ExitCode.WARNINGS, FindingKind.END_NOT_SEEN, expected, got))

    def _missing(self, log: ReadableFile, base_offset: int) -> Iterator[FileReport]:
        """Yield reports on missing indexes that a broker would have beside a log with batches."""
        first = header_at(log, 0) if self.walk is None or self.walk.first_batch is None else self.walk.first_batch
        if not isinstance(first, Batch):
            return
        there = {file.name.kind for file in self._files.at(base_offset) if file.name.state is WorkState.IN_PLACE}
        if FileKind.OFFSET_INDEX not in there:
            message = "missing: a broker rebuilds it from the log when it starts"
            yield self._files.missing(_name(base_offset, FileKind.OFFSET_INDEX), message, FindingKind.INDEX_MISSING)
        if FileKind.TIME_INDEX not in there and first.magic >= 2:
            message = (
                "missing: after a clean shutdown a broker leaves it empty, and uses the modification time of the file"
            )
            yield self._files.missing(_name(base_offset, FileKind.TIME_INDEX), message, FindingKind.TIME_INDEX_MISSING)


def _name(offset: int, kind: FileKind) -> FileName:
    return FileName(segment_file_name(offset, kind), kind, WorkState.IN_PLACE, offset)
