"""Checks the entries of indexes against the batches of their segment, and of offset indexes also their style."""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator
from enum import IntEnum, unique
from functools import cached_property, lru_cache
from itertools import compress
from typing import Any, ClassVar, NamedTuple

from kafkalog_cli.disk.fs import ReadableFile
from kafkalog_cli.disk.names import FileKind
from kafkalog_cli.errors import ExitCode
from kafkalog_cli.format import native
from kafkalog_cli.format.batch import NO_OFFSET, Batch
from kafkalog_cli.format.columns import IntColumn
from kafkalog_cli.format.fault import FaultKind
from kafkalog_cli.format.index import OFFSET_INDEX_ENTRY, OffsetIndex, OffsetIndexEntry, SegmentIndex, length_faults
from kafkalog_cli.format.limits import Limits
from kafkalog_cli.log.partition import PartitionFile
from kafkalog_cli.ops.check.checks.file_report import (
    ANY_STYLE,
    NO_LOG_NOTE,
    Entries,
    Entry,
    FileNote,
    FileReport,
    Style,
    Verdict,
    fault_note,
    finding_kind,
    verdict_code,
    worst_code,
)
from kafkalog_cli.ops.check.checks.finding_kinds import FindingKind
from kafkalog_cli.ops.check.checks.segment_walk import BatchRun, SegmentWalk, record_offsets
from kafkalog_cli.ops.check.checks.sidecar_files import DirectoryFiles, SidecarContent

NO_BATCH = -1
CACHED_BATCHES = 1024
MAX_ENTRIES = 10 * (1 << 20) // OFFSET_INDEX_ENTRY.size
"""The most entries that are checked: those of a full offset index of the default size (segment.index.bytes).

With the default of index.interval.bytes a segment has at most half as many. Each takes 60 bytes while it is checked.
"""


class IndexedLog(NamedTuple):
    """The log that indexes belong to. `file` is None if the log cannot be opened or does not exist (`is_there`)."""

    is_there: bool
    file: ReadableFile | None
    limits: Limits


class IndexFinding(IntEnum):
    """The finding at an entry of an index: a number of one byte. The first is "not walked", the second "fits".

    `detail` is the sentence about it, with places for values. `is_tolerable`: every record is still found through the
    entry.
    """

    verdict: Verdict
    detail: str
    is_tolerable: bool

    def __new__(cls, verdict: Verdict, detail: str = "", is_tolerable: bool = True) -> IndexFinding:
        """Give the findings of an index the numbers from 0 on."""
        number = len(cls.__members__)
        made = int.__new__(cls, number)
        made._value_, made.verdict, made.detail, made.is_tolerable = number, verdict, detail, is_tolerable
        return made


NOT_WALKED = "there is no log to check it against"
FITS = 1


@unique
class EntryFinding(IndexFinding):
    """The finding at an entry of an offset index."""

    NOT_WALKED = Verdict.UNVERIFIED, NOT_WALKED
    FITS = Verdict.RIGHT
    NOT_A_BATCH = Verdict.STALE, "no batch starts there: it is inside {batch}", False
    OFFSET_BEFORE = Verdict.STALE, "points at {batch}, so the offset is before it", False
    NEITHER_FIRST_NOR_LAST = Verdict.STALE, "points at {batch}, and no batch begins or ends with the offset"
    NO_SUCH_OFFSET = Verdict.STALE, "points at {batch}, and no batch holds the offset"
    OVERLAPS_NEXT = Verdict.STALE, "points at {batch}, and the offset is after the target of the next entry"
    IN_DAMAGE = Verdict.UNVERIFIED, "the log is damaged there"
    POSITION_BEYOND = Verdict.BEYOND_END, "the position is not before the end of the log", False
    OFFSET_BEYOND = Verdict.BEYOND_END, "the offset is not in the log yet", False
    NOT_ASCENDING = Verdict.OUT_OF_ORDER, "not above an entry before it", False
    BELOW_BASE = Verdict.OUT_OF_ORDER, "below the base offset", False
    FIRST_BATCH = Verdict.STALE, "points at the first batch, which gets no entry"


_BATCH_END = Style.PER_BATCH | Style.APPEND_CALL
_STYLES = tuple(map(Style, range(ANY_STYLE + 1)))
_STYLE_OF_SINGLE = bytes([_BATCH_END, ANY_STYLE]).ljust(256)
"""The style of an entry that has the last offset of a batch, by whether the batch has only that offset."""


class IndexCheck(ABC):
    """Checks the entries in use of one index file while its segment is walked.

    Give `see` every BatchRun in order, then call `finish`. Without a log call neither: then only the order of the
    entries is checked. `_columns` has the columns of the entries, `_keys` is the one that leads to batches. The first
    entry must be above `_before` in both columns.
    """

    index: ClassVar[type[SegmentIndex[Any]]]
    findings: ClassVar[tuple[IndexFinding, ...]]
    _keys: IntColumn
    _before: tuple[int, int]

    def __init__(self, files: DirectoryFiles, file: PartitionFile, log: IndexedLog) -> None:
        self._files, self._file, self._log = files, file, log
        content, kind = files.read(file), file.name.kind
        self._base_offset = file.name.offset or 0
        whole = self.index(content.data, self._base_offset)
        used = _in_use(whole)
        if used > MAX_ENTRIES:
            message = f"{used} entries are too many to check, at most {MAX_ENTRIES}"
            note = FileNote(message, ExitCode.WARNINGS, finding_kind(kind, ExitCode.WARNINGS))
            content = SidecarContent(b"", (*content.notes, note), is_whole=False)
            used, whole = 0, self.index(b"", self._base_offset)
        # The file's bytes, possibly 10 MiB of zeros, are not kept.
        self._is_read, self._read_notes = content.is_whole, content.notes
        has_more = len(whole.data) > used * whole.layout.size
        self._faults = tuple(length_faults(whole, used)) if has_more else ()
        self._zero_tail_bytes = _zero_tail(whole, used, content.zero_bytes) if has_more else content.zero_bytes
        self._columns = whole.columns(used)
        self._finding = bytearray(used)
        self._next = 0

    def _begin(self, keys: IntColumn, rise: int) -> None:
        self._keys = keys
        self._order = range(len(keys)) if rise >= 0 else sorted(range(len(keys)), key=keys.__getitem__)

    def __len__(self) -> int:
        return len(self._finding)

    def see(self, batch_run: BatchRun) -> None:
        """Check the entries that point into `batch_run`."""
        order, keys, at, end_key = self._order, self._keys, self._next, self._end_key(batch_run)
        if isinstance(order, range) and batch_run.is_ordered:
            at += self._fit_from(at, batch_run)
        while at < len(order) and keys[order[at]] < end_key:
            self._compare(order[at], batch_run)
            at += 1
        self._next = at

    @abstractmethod
    def _end_key(self, batch_run: BatchRun) -> int:
        """Return the key after all keys of entries that point into the run or before it."""

    @abstractmethod
    def _fit_from(self, slot: int, batch_run: BatchRun) -> int:
        """Return how many entries from `slot` on fit batches of the run, of which only C looked at each; note that."""

    @abstractmethod
    def _compare(self, slot: int, batch_run: BatchRun) -> None:
        """Judge one entry that points into the run."""

    @abstractmethod
    def finish(self, walk: SegmentWalk) -> None:
        """End the check after the whole log: entries that point after its last batch are beyond the end."""

    @abstractmethod
    def _judge_order(self) -> None:
        """Find entries out of order, compared with the earlier entries that are not stale."""

    @abstractmethod
    def _entries(self) -> Iterator[Entry]:
        """Yield the entries in file order."""

    def worst(self) -> ExitCode:
        """Return the code of the worst entry."""
        found = (self.findings[number] for number in set(self._finding))
        return worst_code(verdict_code(one.verdict, one.is_tolerable) for one in found)

    def is_sound(self, walk: SegmentWalk | None, *, is_closed: bool) -> bool:
        """Whether the report after the walk would have nothing to say; arguments as for `report`."""
        is_whole = self._is_read and not self._read_notes and not self._faults
        return is_whole and self._all_fit() and self._log.is_there and not (is_closed and self._zero_tail_bytes)

    def report(self, walk: SegmentWalk | None, *, is_closed: bool) -> FileReport:
        """Return the report after the walk; `walk` is None if the log was not walked to its end.

        `is_closed`: another segment in place follows, so nothing will be appended.
        """
        self._judge_order()
        counts: Counter[Verdict] = Counter()
        for number in set(self._finding):
            counts[self.findings[number].verdict] += self._finding.count(number)
        return self._files.blank(
            self._file,
            entries=Entries(self._entries),
            notes=(*self._read_notes, *self._notes(walk, is_closed=is_closed)),
            counts=counts,
            worst_entry=self.worst(),
            style_counts=self._style_counts(),
            zero_tail_bytes=self._zero_tail_bytes,
            is_read=self._is_read,
        )

    def _style_counts(self) -> Counter[Style]:
        """Return how many right entries have each style."""
        return Counter()

    def _notes(self, walk: SegmentWalk | None, *, is_closed: bool) -> Iterator[FileNote]:
        if not self._log.is_there:
            yield NO_LOG_NOTE
        for fault in self._faults:
            # A broker rounds the length down. Entries after an unused entry mislead its search.
            code = ExitCode.WARNINGS if fault.kind is FaultKind.INVALID_LENGTH else ExitCode.CORRUPTION
            yield fault_note(self._file.name.kind, fault, code)
        if is_closed and self._zero_tail_bytes:
            message = "the segment is not the last: a broker reads its zero tail as entries (KAFKA-10207)"
            yield FileNote(message, ExitCode.WARNINGS, FindingKind.INDEX_ZERO_TAIL)

    def _all_fit(self) -> bool:
        """Whether all entries fit, and each of the two columns rises from above its number in `_before`."""
        first, second, *rises = self._columns
        if self._finding.count(FITS) != len(self):
            return False
        return not len(first) or (first[0] > self._before[0] and second[0] > self._before[1] and min(rises) > 0)


def index_check(files: DirectoryFiles, file: PartitionFile, log: IndexedLog) -> IndexCheck:
    """Return the check of an `.index` or `.timeindex` file."""
    if file.name.kind is FileKind.OFFSET_INDEX:
        return OffsetIndexCheck(files, file, log)
    from kafkalog_cli.ops.check.checks.time_index_check import TimeIndexCheck

    return TimeIndexCheck(files, file, log)


class OffsetIndexCheck(IndexCheck):
    """Checks the entries of an offset index.

    An entry (offset, position) is right if a batch starts at the position and the offset fits. Before 2.0, the offset
    is the first of the batch, since 2.0 the last. From 2.0 to 4.0 an append call of several batches got one entry: then
    it is the last offset of a batch before the next entry's position. Every other entry is reported, even if look-ups
    are right with it.
    """

    index = OffsetIndex
    findings = tuple(EntryFinding)

    def __init__(self, files: DirectoryFiles, file: PartitionFile, log: IndexedLog) -> None:
        super().__init__(files, file, log)
        self._offset, self._position, _, rise = self._columns
        self._before = self._base_offset - 1, -1
        self._begin(self._position, rise)
        count = len(self)
        self._style = bytearray(count)
        # the batch that starts at the position, or contains it: not of entries that fit all at once
        self._batch = array("q", [NO_BATCH]) * count
        self._batch_first = array("q", [NO_OFFSET]) * count
        self._batch_last = array("q", [NO_OFFSET]) * count
        # the start of the last batch, for an append call of several batches
        self._call_end = array("q", [NO_BATCH]) * count
        self._has_calls = False
        self._open_calls: list[tuple[int, int]] = []

    @cached_property
    def _record_offsets(self) -> Callable[[Batch], tuple[int, int] | None]:
        return lru_cache(CACHED_BATCHES)(self._read_offsets)

    def _read_offsets(self, batch: Batch) -> tuple[int, int] | None:
        """Return the offsets of the first and last record of a batch, None if no record can be read."""
        return None if self._log.file is None else record_offsets(self._log.file, batch, self._log.limits)

    def see(self, batch_run: BatchRun) -> None:
        """Check the entries that point into `batch_run`."""
        super().see(batch_run)
        self._close_calls(batch_run)

    def _end_key(self, batch_run: BatchRun) -> int:
        return batch_run.end

    def _fit_from(self, slot: int, batch_run: BatchRun) -> int:
        """An entry fits if it has the position and last offset of a batch v2."""
        single = native.match_positions(self._offset[slot:], self._position[slot:], batch_run.batches)
        end = slot + len(single)
        self._finding[slot:end] = bytes([EntryFinding.FITS]) * len(single)
        self._style[slot:end] = single.translate(_STYLE_OF_SINGLE)
        return len(single)

    def finish(self, walk: SegmentWalk) -> None:
        """See IndexCheck."""
        for slot in self._order[self._next :]:
            beyond = self._position[slot] >= walk.end_position
            self._finding[slot] = EntryFinding.POSITION_BEYOND if beyond else EntryFinding.NOT_A_BATCH
        for _, slot in self._open_calls:
            self._finding[slot] = EntryFinding.OFFSET_BEYOND
        self._next = len(self._order)
        self._open_calls.clear()
        self._look_at_calls()

    def _style_counts(self) -> Counter[Style]:
        all_fit = self._finding.count(FITS) == len(self)
        right = self._style if all_fit else bytes(compress(self._style, map(int(FITS).__eq__, self._finding)))
        return Counter({_STYLES[style]: right.count(style) for style in set(right)})

    def _judge_order(self) -> None:
        if self._all_fit():
            return
        last_offset, last_position = self._before
        for slot, offset in enumerate(self._offset):
            position = self._position[slot]
            verdict = self.findings[self._finding[slot]].verdict
            if verdict is Verdict.BEYOND_END:
                continue
            if position < 0:
                self._finding[slot] = EntryFinding.NOT_A_BATCH
            elif offset < self._base_offset:
                self._finding[slot] = EntryFinding.BELOW_BASE
            elif offset <= last_offset or position <= last_position:
                self._finding[slot] = EntryFinding.NOT_ASCENDING
            elif verdict is not Verdict.STALE:
                last_offset, last_position = offset, position

    def _entries(self) -> Iterator[Entry]:
        for slot, number in enumerate(self._finding):
            value = OffsetIndexEntry(self._offset[slot], self._position[slot])
            if number == FITS:
                yield Entry(slot, value, Verdict.RIGHT, "", _STYLES[self._style[slot]])
            else:
                finding = self.findings[number]
                detail, tolerable = self._detail(slot, finding), finding.is_tolerable
                yield Entry(slot, value, finding.verdict, detail, Style.NONE, tolerable)

    def _compare(self, slot: int, batch_run: BatchRun) -> None:
        offset, position = self._offset[slot], self._position[slot]
        row = bisect_right(batch_run.position, position) - 1
        if row < 0:
            self._finding[slot] = EntryFinding.IN_DAMAGE if position >= 0 else EntryFinding.NOT_A_BATCH
            return
        start, first, last = batch_run.position[row], batch_run.base_offset[row], batch_run.last_offset[row]
        self._batch[slot], self._batch_first[slot], self._batch_last[slot] = start, first, last
        if start != position:
            self._finding[slot] = EntryFinding.NOT_A_BATCH
        elif not start:
            self._finding[slot] = EntryFinding.FIRST_BATCH
        elif offset == last:
            # The header of a compressed message set lacks its first offset; only for a single message is it known.
            known = first if first != NO_OFFSET else batch_run.offset_before(row) + 1
            self._fits(slot, ANY_STYLE if known == last else _BATCH_END)
        elif offset == first:
            self._fits(slot, Style.FIRST_OFFSET)
        elif offset <= batch_run.offset_before(row):
            self._finding[slot] = EntryFinding.OFFSET_BEFORE
        elif offset > last:
            heapq.heappush(self._open_calls, (offset, slot))
        else:
            self._compare_records(slot, batch_run, row)

    def _compare_records(self, slot: int, batch_run: BatchRun, row: int) -> None:
        """Judge an entry whose offset is in the batch of `row`, or in the gap before it."""
        offset = self._offset[slot]
        self._finding[slot] = EntryFinding.NEITHER_FIRST_NOR_LAST
        if not batch_run.holds(row, offset):
            self._finding[slot] = EntryFinding.NO_SUCH_OFFSET
            return
        compressed_set = batch_run.base_offset[row] == NO_OFFSET
        if (
            compressed_set
            and offset == batch_run.offset_before(row) + 1
            and (row or batch_run.reached_before != NO_OFFSET)
        ):
            self._fits(slot, Style.FIRST_OFFSET)
            return
        records = self._record_offsets(batch_run.batches.row(row))
        if records is not None and offset == records[1]:
            # From 2.0 to 4.0, the cleaner indexed the last record that it kept, not the batch's last offset.
            self._fits(slot, Style.APPEND_CALL)
            self._call_end[slot], self._has_calls = batch_run.position[row], True
        elif records is not None and offset == records[0] and compressed_set:
            self._fits(slot, Style.FIRST_OFFSET)

    def _close_calls(self, batch_run: BatchRun) -> None:
        """Find the last batches of the append calls that started in this run or before."""
        calls = self._open_calls
        while calls and calls[0][0] <= batch_run.reached[-1]:
            offset, slot = heapq.heappop(calls)
            row = batch_run.first_reaching(offset)
            self._call_end[slot], self._has_calls = batch_run.position[row], True
            if batch_run.last_offset[row] == offset:
                self._fits(slot, Style.APPEND_CALL)
            elif not batch_run.holds(row, offset):
                in_damage = batch_run.is_after_damage and row == 0
                self._finding[slot] = EntryFinding.IN_DAMAGE if in_damage else EntryFinding.NO_SUCH_OFFSET
            else:
                records = self._record_offsets(batch_run.batches.row(row))
                self._finding[slot] = EntryFinding.NEITHER_FIRST_NOR_LAST
                if records is not None and offset == records[1]:
                    self._fits(slot, Style.APPEND_CALL)

    def _look_at_calls(self) -> None:
        """Check that each append call ends before the batch that the next entry points to."""
        for slot in range(len(self) - 1) if self._has_calls else ():
            follows = self._finding[slot + 1] == EntryFinding.FITS and self._position[slot + 1] > self._position[slot]
            if (
                follows
                and self._finding[slot] == EntryFinding.FITS
                and self._call_end[slot] >= self._position[slot + 1]
            ):
                self._finding[slot] = EntryFinding.OVERLAPS_NEXT

    def _fits(self, slot: int, style: Style) -> None:
        self._finding[slot] = EntryFinding.FITS
        self._style[slot] = style

    def _detail(self, slot: int, finding: IndexFinding) -> str:
        if finding is EntryFinding.NOT_A_BATCH and self._batch[slot] < 0:
            return "no batch starts there"
        first, last = self._batch_first[slot], self._batch_last[slot]
        offsets = f"offsets {first} to {last}" if first != NO_OFFSET else f"offsets up to {last}"
        return finding.detail.format(batch=f"the batch at {self._batch[slot]}, {offsets}")


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
