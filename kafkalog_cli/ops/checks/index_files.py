"""The index files of a segment: their entries in use, their check while the segment is walked, and their report."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any, NamedTuple, cast

from kafkalog_cli.disk.fs import ReadableFile
from kafkalog_cli.disk.names import FileKind
from kafkalog_cli.errors import ExitCode
from kafkalog_cli.format import txnindex
from kafkalog_cli.format.batch import NO_TIMESTAMP, Batch
from kafkalog_cli.format.fault import FaultKind
from kafkalog_cli.format.index import OFFSET_INDEX_ENTRY, OffsetIndex, SegmentIndex, TimeIndex, length_faults
from kafkalog_cli.format.limits import Limits
from kafkalog_cli.log.reading.header import control_type_at
from kafkalog_cli.ops.checks.file_report import (
    NO_LOG_NOTE,
    Entry,
    FileNote,
    FileReport,
    fault_note,
    finding_kind,
)
from kafkalog_cli.ops.checks.finding_kinds import FindingKind
from kafkalog_cli.ops.checks.index_check import OffsetIndexCheck, RecordOffsets
from kafkalog_cli.ops.checks.log_questions import Watch
from kafkalog_cli.ops.checks.segment_walk import BatchRun, SegmentWalk, record_offsets
from kafkalog_cli.ops.checks.sidecar_files import (
    MAX_INDEX_BYTES,
    MAX_STATE_BYTES,
    DirectoryFiles,
    Entries,
    SidecarContent,
    SidecarFile,
)
from kafkalog_cli.ops.checks.state_check import TxnContext, check_aborted_txns
from kafkalog_cli.ops.checks.time_index_check import TimeIndexCheck

CACHED_BATCHES = 1024


class IndexedLog(NamedTuple):
    """The log that indexes belong to, and the limits for reading it.

    `file` is None if the log cannot be opened or does not exist (`is_there`).
    """

    is_there: bool
    file: ReadableFile | None
    limits: Limits


MAX_ENTRIES = 10 * (1 << 20) // OFFSET_INDEX_ENTRY.size
"""The most entries that are checked: those of a full offset index of the default size (segment.index.bytes).

With the default of index.interval.bytes a segment has at most half as many. Each takes 60 bytes while it is checked.
"""


class IndexFile:
    """An `.index` or `.timeindex` file, checked while its segment is walked."""

    def __init__(self, files: DirectoryFiles, file: SidecarFile, log: IndexedLog) -> None:
        self._files = files
        self._file = file
        self._has_log = log.is_there
        content = files.read(file, MAX_INDEX_BYTES)
        data, base_offset, kind = content.data, file.name.offset or 0, file.name.kind
        of_kind: type[OffsetIndex | TimeIndex] = OffsetIndex if kind is FileKind.OFFSET_INDEX else TimeIndex
        whole = of_kind(data, base_offset)
        used = _in_use(whole)
        if used > MAX_ENTRIES:
            message = f"{used} entries are too many to check, at most {MAX_ENTRIES}"
            note = FileNote(message, ExitCode.WARNINGS, finding_kind(kind, ExitCode.WARNINGS))
            content = SidecarContent(b"", (*content.notes, note), is_whole=False)
            data, used, whole = b"", 0, of_kind(b"", base_offset)
        in_use = of_kind(data[: used * whole.layout.size], base_offset)
        self._check: OffsetIndexCheck | TimeIndexCheck
        if isinstance(in_use, OffsetIndex):
            self._check = OffsetIndexCheck(in_use, _record_offsets_of(log))
        else:
            self._check = TimeIndexCheck(in_use)
        # The file's bytes, possibly 10 MiB of zeros, are not kept.
        self._is_read, self._read_notes = content.is_whole, content.notes
        self._faults = tuple(length_faults(cast("SegmentIndex[tuple[int, int]]", whole), used))
        self._zero_tail_bytes = _zero_tail(whole, used, content.zero_bytes)

    def see(self, batch_run: BatchRun) -> None:
        """Check the entries that point to these batches."""
        self._check.see(batch_run)

    def finish(self, walk: SegmentWalk) -> None:
        """End the check after the walk of the whole segment."""
        self._check.finish(walk)

    def is_right(self) -> bool:
        """Whether every entry is right."""
        return self._check.worst() is ExitCode.OK

    def report(self, walk: SegmentWalk | None, *, is_closed: bool) -> FileReport:
        """Return the report, after the walk; None if the log was not walked to its end.

        `is_closed`: another segment in place follows, so nothing will be appended.
        """
        check = self._check
        check.judge_order()
        lacks_largest = walk is not None and is_closed and self._lacks_largest(walk)
        notes = [*self._read_notes, *self._notes(is_closed=is_closed)]
        if walk is not None and lacks_largest:
            message = f"no entry for the largest timestamp of the segment, {walk.largest_timestamp}"
            notes.append(FileNote(message, ExitCode.WARNINGS, FindingKind.TIME_INDEX_INEXACT))
        return replace(
            self._files.blank(self._file),
            entries=Entries(check.entries),
            notes=tuple(notes),
            counts=check.counts(),
            worst_entry=check.worst(),
            style_counts=check.style_counts() if isinstance(check, OffsetIndexCheck) else Counter(),
            zero_tail_bytes=self._zero_tail_bytes,
            is_read=self._is_read,
            lacks_largest=lacks_largest,
        )

    def _notes(self, *, is_closed: bool) -> Iterator[FileNote]:
        if not self._has_log:
            yield NO_LOG_NOTE
        for fault in self._faults:
            # A broker rounds the length down. Entries after an unused entry mislead its search.
            code = ExitCode.WARNINGS if fault.kind is FaultKind.INVALID_LENGTH else ExitCode.CORRUPTION
            yield fault_note(self._file.name.kind, fault, code)
        if is_closed and self._zero_tail_bytes:
            message = "the segment is not the last: a broker reads its zero tail as entries (KAFKA-10207)"
            yield FileNote(message, ExitCode.WARNINGS, FindingKind.INDEX_ZERO_TAIL)

    def _lacks_largest(self, walk: SegmentWalk) -> bool:
        """Whether the entries of a time index are right, and end below the largest timestamp."""
        check = self._check
        if not isinstance(check, TimeIndexCheck) or not self.is_right():
            return False
        return NO_TIMESTAMP != walk.largest_timestamp > check.last_timestamp


def txn_report(files: DirectoryFiles, file: SidecarFile, log: IndexedLog, watch: Watch) -> FileReport:
    """Return the report on a `.txnindex` file; `watch` has the answers to `txn_offsets`."""
    content = files.read(file, MAX_STATE_BYTES)
    if not content.is_whole:
        return files.unread(file, content)
    base_offset = file.name.offset or 0
    entries, faults = txnindex.decode(content.data, base_offset)
    if file.status.path in watch.unasked:
        message = f"{len(entries)} aborted transactions are too many to be compared with the log"
        return files.unread(file, SidecarContent(b"", (FileNote(message, kind=FindingKind.ENTRIES_NOT_CHECKED),)))
    notes = [] if log.is_there else [NO_LOG_NOTE]
    for fault in faults:
        if fault.kind is FaultKind.INVALID_VERSION:
            notes.append(fault_note(FileKind.TXN_INDEX, fault))
        elif fault.kind is FaultKind.INVALID_LENGTH:  # a broker ignores an incomplete entry
            notes.append(fault_note(FileKind.TXN_INDEX, fault, ExitCode.WARNINGS))
    ask = None if log.file is None else watch.questions.answer
    ended = {} if watch.trail is None else watch.trail.ended

    @cache
    def marker_of(batch: Batch) -> int | None:
        return None if log.file is None else control_type_at(log.file, batch.position)

    def checked() -> Iterator[Entry]:
        return check_aborted_txns(entries, base_offset, TxnContext(watch.log, ask, marker_of, ended))

    return files.report(file, checked, notes)


def _record_offsets_of(log: IndexedLog) -> RecordOffsets:
    @lru_cache(CACHED_BATCHES)
    def read(batch: Batch) -> tuple[int, int] | None:
        return None if log.file is None else record_offsets(log.file, batch, log.limits)

    return read


def _in_use(whole: SegmentIndex[Any]) -> int:
    """Return the number of entries in use; 0 for a file that was preallocated and never written.

    No broker indexes the first batch, so a single zero entry of an offset index is unused. In a time index it can be a
    record of 1970, unless preallocated zeros follow.
    """
    used = whole.in_use_count()
    lone_zero = used == 1 and not any(whole.data[: whole.layout.size])
    return 0 if lone_zero and (isinstance(whole, OffsetIndex) or len(whole) > 1) else used


def _zero_tail(whole: SegmentIndex[Any], used: int, zero_bytes: int) -> int:
    """Return the bytes after the entries in use if all are zero, as in a preallocated index; else 0.

    `zero_bytes` follow the entries of `whole` in the file.
    """
    start, end = used * whole.layout.size, len(whole) * whole.layout.size
    return end - start + zero_bytes if whole.data.count(0, start, end) == end - start else 0
