"""The index files of a segment: their entries in use, their check while the segment is walked, and their report."""

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from enum import IntEnum, unique
from functools import cache, lru_cache
from itertools import repeat
from operator import lt
from typing import Any, NamedTuple, cast

from kafkalog_cli.disk.fs import ReadableFile
from kafkalog_cli.disk.names import FileKind
from kafkalog_cli.errors import ExitCode
from kafkalog_cli.format import txnindex
from kafkalog_cli.format.batch import NO_TIMESTAMP, TIMESTAMP_TYPE_MASK, Batch, BatchArrays
from kafkalog_cli.format.control import ABORT, COMMIT
from kafkalog_cli.format.fault import FaultKind
from kafkalog_cli.format.index import OFFSET_INDEX_ENTRY, OffsetIndex, SegmentIndex, TimeIndex, length_faults
from kafkalog_cli.format.limits import Limits
from kafkalog_cli.log.reading.header import control_type_at
from kafkalog_cli.ops.checks.file_report import (
    NO_LOG_NOTE,
    Entry,
    FileNote,
    FileReport,
    Verdict,
    fault_note,
    finding_kind,
    verdict_code,
    worst_code,
)
from kafkalog_cli.ops.checks.finding_kinds import FindingKind
from kafkalog_cli.ops.checks.index_check import NO_BATCH, OffsetIndexCheck, RecordOffsets, ascending, rises
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
from kafkalog_cli.ops.checks.state_check import ControlMarker, TxnContext, check_aborted_txns

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


class LogSeen(NamedTuple):
    """The facts about the log for the reports on its indexes.

    `is_there`: it exists. `is_closed`: another segment in place follows, so nothing will be appended. `walk` is set if
    the whole log was walked.
    """

    is_there: bool
    is_closed: bool
    walk: SegmentWalk | None = None


class IndexFile:
    """An `.index` or `.timeindex` file, checked while its segment is walked."""

    def __init__(self, files: DirectoryFiles, file: SidecarFile, log: IndexedLog) -> None:
        self._files = files
        self._file = file
        content = files.read(file, MAX_INDEX_BYTES)
        data, base_offset = content.data, file.name.offset or 0
        self._check: OffsetIndexCheck | TimeIndexCheck
        whole: SegmentIndex[Any]
        is_offset_index = file.name.kind is FileKind.OFFSET_INDEX
        whole = OffsetIndex(data, base_offset) if is_offset_index else TimeIndex(data, base_offset)
        used = _in_use(whole)
        if used > MAX_ENTRIES:
            message = f"{used} entries are too many to check, at most {MAX_ENTRIES}"
            note = FileNote(message, ExitCode.WARNINGS, finding_kind(file.name.kind, ExitCode.WARNINGS))
            content = SidecarContent(b"", (*content.notes, note), is_whole=False)
            data, used = b"", 0
            whole = OffsetIndex(data, base_offset) if is_offset_index else TimeIndex(data, base_offset)
        if is_offset_index:
            in_use = OffsetIndex(data[: used * whole.layout.size], base_offset)
            self._check = OffsetIndexCheck(in_use, _record_offsets_of(log))
        else:
            self._check = TimeIndexCheck(TimeIndex(data[: used * whole.layout.size], base_offset))
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

    def report(self, seen: LogSeen) -> FileReport:
        """Return the report, after the walk."""
        check = self._check
        check.judge_order()
        return self._files.counted(
            self._file,
            Entries(check.entries),
            (*self._read_notes, *self._notes(seen)),
            counts=check.counts(),
            worst_entry=check.worst(),
            style_counts=check.style_counts() if isinstance(check, OffsetIndexCheck) else None,
            zero_tail_bytes=self._zero_tail_bytes,
            is_read=self._is_read,
            lacks_largest=self._lacks_largest(seen),
        )

    def _notes(self, seen: LogSeen) -> Iterator[FileNote]:
        if not seen.is_there:
            yield NO_LOG_NOTE
        for fault in self._faults:
            # A broker rounds the length down. Entries after an unused entry mislead its search.
            code = ExitCode.WARNINGS if fault.kind is FaultKind.INVALID_LENGTH else ExitCode.CORRUPTION
            yield fault_note(self._file.name.kind, fault, code)
        if seen.is_closed and self._zero_tail_bytes:
            message = "the segment is not the last: a broker reads its zero tail as entries (KAFKA-10207)"
            yield FileNote(message, ExitCode.WARNINGS, FindingKind.INDEX_ZERO_TAIL)
        if seen.walk is not None and self._lacks_largest(seen):
            message = f"no entry for the largest timestamp of the segment, {seen.walk.largest_timestamp}"
            yield FileNote(message, ExitCode.WARNINGS, FindingKind.TIME_INDEX_INEXACT)

    def _lacks_largest(self, seen: LogSeen) -> bool:
        """Whether the right entries of a closed segment's time index end below the largest timestamp."""
        check, walk = self._check, seen.walk
        if not isinstance(check, TimeIndexCheck) or walk is None or not seen.is_closed or not self.is_right():
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
    def marker_of(batch: Batch) -> ControlMarker:
        kind = None if log.file is None else control_type_at(log.file, batch.position)
        return ControlMarker(kind) if kind in (ABORT, COMMIT) else ControlMarker.OTHER

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


@unique
class TimeFinding(IntEnum):
    """The finding at an entry."""

    NOT_WALKED = 0
    FITS = 1
    FITS_RECORD = 2
    NO_SUCH_OFFSET = 3
    TOO_LARGE = 4
    LARGER_BEFORE = 5
    OF_EARLIER_BATCH = 6
    IN_DAMAGE = 7
    OFFSET_BEYOND = 8
    NOT_ASCENDING = 9
    BELOW_BASE = 10
    SAME_BEFORE = 11
    NOT_IN_MESSAGES = 12


_VERDICTS: dict[TimeFinding, Verdict] = {
    TimeFinding.NOT_WALKED: Verdict.UNVERIFIED,
    TimeFinding.FITS: Verdict.RIGHT,
    TimeFinding.FITS_RECORD: Verdict.RIGHT,
    TimeFinding.NO_SUCH_OFFSET: Verdict.STALE,
    TimeFinding.TOO_LARGE: Verdict.STALE,
    TimeFinding.LARGER_BEFORE: Verdict.STALE,
    TimeFinding.OF_EARLIER_BATCH: Verdict.STALE,
    TimeFinding.IN_DAMAGE: Verdict.UNVERIFIED,
    TimeFinding.OFFSET_BEYOND: Verdict.BEYOND_END,
    TimeFinding.NOT_ASCENDING: Verdict.OUT_OF_ORDER,
    TimeFinding.BELOW_BASE: Verdict.OUT_OF_ORDER,
    TimeFinding.SAME_BEFORE: Verdict.STALE,
    TimeFinding.NOT_IN_MESSAGES: Verdict.GONE,
}

_DETAILS: dict[TimeFinding, str] = {
    TimeFinding.NOT_WALKED: "there is no log to check it against",
    TimeFinding.NO_SUCH_OFFSET: "no batch holds the offset",
    TimeFinding.TOO_LARGE: "no batch up to the offset has so large a timestamp, the largest is {timestamp}",
    TimeFinding.LARGER_BEFORE: "a larger timestamp, {timestamp}, comes at or before the offset",
    TimeFinding.OF_EARLIER_BATCH: "the largest timestamp up to the offset, but of an earlier batch",
    TimeFinding.IN_DAMAGE: "the log is damaged there",
    TimeFinding.OFFSET_BEYOND: "the offset is not in the log yet",
    TimeFinding.NOT_ASCENDING: "timestamp not above, or offset below, that of an entry before it",
    TimeFinding.BELOW_BASE: "below the base offset",
    TimeFinding.SAME_BEFORE: "an earlier batch has the timestamp too",
    TimeFinding.NOT_IN_MESSAGES: "messages of format 0 hold no timestamps: the broker that converted them wrote it",
}


class TimeIndexCheck:
    """Checks the entries in use of one time index while its segment is walked.

    Give `see` every BatchRun in order, then call `finish`. Without a log call neither, only `judge_order`.

    An entry (timestamp, offset) is right if the batch that contains the offset is the first with that largest
    timestamp, and no earlier batch has a larger timestamp. Brokers wrote the last offset of that batch or, as seen from
    2.8, the offset of the record. The same is true for an append call of several batches that got one entry. The
    exception is LogAppendTime, where the entry has the call's last batch.
    """

    def __init__(self, index: TimeIndex) -> None:
        self._base_offset = index.base_offset
        self._timestamp, self._offset = index.columns()
        count = len(self._offset)
        self._finding = bytearray(count)
        self._tolerable = bytearray(b"\1" * count)
        self._largest = array("q", [NO_TIMESTAMP]) * count
        self._order = ascending(self._offset)
        self._next = 0

    def __len__(self) -> int:
        return len(self._offset)

    @property
    def last_timestamp(self) -> int:
        """The timestamp of the last entry, which brokers take as the largest of the segment; -1 without entries."""
        return self._timestamp[-1] if len(self) else NO_TIMESTAMP

    def see(self, batch_run: BatchRun) -> None:
        """Check the entries whose offsets are in `batch_run`."""
        order, offsets, at = self._order, self._offset, self._next
        count, last_offset = len(order), batch_run.last_reached
        if batch_run.is_ordered and isinstance(order, range):
            if isinstance(batch_run.batches, BatchArrays):
                at = self._see_many(batch_run, batch_run.batches, at)
            else:
                at = self._see_plain(batch_run, at)
        while at < count and offsets[order[at]] <= last_offset:
            slot = order[at]
            if self._finding[slot] == TimeFinding.FITS:
                at += 1
                continue
            self._compare(slot, batch_run, batch_run.first_reaching(offsets[slot]))
            at += 1
        self._next = at

    def _see_many(self, batch_run: BatchRun, batches: BatchArrays, at: int) -> int:
        """Check many entries at once, from slot `at` on, and return the slot from which to continue one by one.

        An entry fits if it has the last offset of the first batch with its timestamp. If all entries in the run
        fit, the returned slot is after them, else it is `at`.
        """
        import numpy as np

        last_offset, timestamps = batches.last_offset, batches.max_timestamp
        end = bisect_right(self._offset, batch_run.last_reached, at)
        if end == at:
            return at
        slots = slice(at, end)
        offset = np.frombuffer(self._offset, np.int64)[slots]
        timestamp = np.frombuffer(self._timestamp, np.int64)[slots]
        rows = last_offset.searchsorted(offset)
        so_far = np.maximum.accumulate(np.append(batch_run.timestamp_before, timestamps))  # before each row
        fits = (last_offset[rows] == offset) & (timestamps[rows] == timestamp) & (so_far[rows] < timestamp)
        np.frombuffer(self._finding, np.uint8)[slots][fits] = TimeFinding.FITS
        np.frombuffer(self._largest, np.int64)[slots][fits] = timestamp[fits]
        return end if fits.all() else at

    def _see_plain(self, batch_run: BatchRun, at: int) -> int:
        """See `_see_many`, for columns of plain integers: no code in Python runs for each entry."""
        end = bisect_right(self._offset, batch_run.last_reached, at)
        slots, row_of = slice(at, end), {last: row for row, last in enumerate(batch_run.last_offset)}
        timestamps = self._timestamp[slots]
        rows = [*map(row_of.get, self._offset[slots], repeat(NO_BATCH))]
        if not rows or NO_BATCH in rows or array("q", map(batch_run.max_timestamp.__getitem__, rows)) != timestamps:
            return at
        before = (batch_run.timestamp_before, *batch_run.timestamp_so_far)  # each row
        if not all(map(lt, map(before.__getitem__, rows), timestamps)):
            return at
        self._finding[slots] = bytes([TimeFinding.FITS]) * len(rows)
        self._largest[slots] = timestamps
        return end

    def finish(self, walk: SegmentWalk) -> None:
        """End the check after the whole log: offsets that no batch reached are beyond the end."""
        for slot in self._order[self._next :]:
            self._finding[slot] = TimeFinding.OFFSET_BEYOND
        self._next = len(self._order)
        last = len(self) - 1
        # Brokers use the last entry's timestamp as the segment's largest, for retention and to find a segment by time.
        if last >= 0 and self._timestamp[last] > walk.largest_timestamp:
            self._tolerable[last] = False

    def judge_order(self) -> None:
        """Find entries out of order, compared with the earlier entries that are not stale."""
        last_timestamp, last_offset = NO_TIMESTAMP, self._base_offset
        all_fit = self._finding.count(TimeFinding.FITS) == len(self)
        if all_fit and rises(self._timestamp, last_timestamp) and rises(self._offset, last_offset - 1):
            return
        for slot, timestamp in enumerate(self._timestamp):
            offset = self._offset[slot]
            verdict = _VERDICTS[TimeFinding(self._finding[slot])]
            if verdict is Verdict.BEYOND_END:
                continue
            if offset < self._base_offset:
                self._finding[slot] = TimeFinding.BELOW_BASE
            elif timestamp <= last_timestamp or offset < last_offset:
                self._finding[slot] = TimeFinding.NOT_ASCENDING
            elif verdict is not Verdict.STALE:
                last_timestamp, last_offset = timestamp, offset

    def counts(self) -> Counter[Verdict]:
        """Return the number of entries by verdict."""
        found: Counter[Verdict] = Counter()
        for finding in set(self._finding):
            found[_VERDICTS[TimeFinding(finding)]] += self._finding.count(finding)
        return found

    def worst(self) -> ExitCode:
        """Return the code of the worst entry."""
        pairs = set(zip(self._finding, self._tolerable, strict=True))
        return worst_code(verdict_code(_VERDICTS[TimeFinding(found)], bool(tolerable)) for found, tolerable in pairs)

    def entries(self) -> Iterator[Entry]:
        """Yield the entries in file order."""
        for slot, found in enumerate(self._finding):
            finding = TimeFinding(found)
            fields: dict[str, object] = {"timestamp": self._timestamp[slot], "offset": self._offset[slot]}
            detail = _DETAILS.get(finding, "").format(timestamp=self._largest[slot])
            yield Entry(slot, fields, _VERDICTS[finding], detail, is_tolerable=bool(self._tolerable[slot]))

    def _compare(self, slot: int, batch_run: BatchRun, row: int) -> None:
        timestamp, offset = self._timestamp[slot], self._offset[slot]
        largest = batch_run.timestamp_so_far[row]
        holds = batch_run.holds(row, offset)
        if not holds:
            in_damage = batch_run.is_after_damage and row == 0
            self._finding[slot] = TimeFinding.IN_DAMAGE if in_damage else TimeFinding.NO_SUCH_OFFSET
            largest = batch_run.timestamp_until(row)
        elif largest > timestamp:
            self._finding[slot] = TimeFinding.LARGER_BEFORE
        elif largest < timestamp and int(batch_run.batches.magic[row]) == 0:
            self._finding[slot] = TimeFinding.NOT_IN_MESSAGES
        elif largest < timestamp:
            self._finding[slot] = TimeFinding.TOO_LARGE
        elif batch_run.max_timestamp[row] != timestamp:
            self._finding[slot] = TimeFinding.OF_EARLIER_BATCH
        elif batch_run.timestamp_until(row) == timestamp and not _is_append_time(batch_run, row):
            self._finding[slot] = TimeFinding.SAME_BEFORE
        else:
            at_end = offset == batch_run.last_offset[row]
            self._finding[slot] = TimeFinding.FITS if at_end else TimeFinding.FITS_RECORD
        self._largest[slot] = largest
        # A search for this timestamp or a later one starts at the offset, so no such record may be before it.
        self._tolerable[slot] = batch_run.timestamp_until(row) < timestamp


def _is_append_time(batch_run: BatchRun, row: int) -> bool:
    is_append_time = int(batch_run.batches.attributes[row]) & TIMESTAMP_TYPE_MASK
    return bool(is_append_time and batch_run.batches.magic[row] > 0)
