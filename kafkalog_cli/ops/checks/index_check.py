"""Checks the entries of indexes against the batches of their segment, and of offset indexes also their style."""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum, unique
from itertools import compress
from operator import eq, ge, gt

from kafkalog_cli.errors import ExitCode
from kafkalog_cli.format.batch import NO_OFFSET, RECORD_BATCH_MAGIC, Batch
from kafkalog_cli.format.columns import any_row, ascends
from kafkalog_cli.format.index import OffsetIndex
from kafkalog_cli.ops.checks.file_report import ANY_STYLE, Entry, Style, Verdict, verdict_code, worst_code
from kafkalog_cli.ops.checks.segment_walk import BatchRun, SegmentWalk

NO_BATCH = -1

RecordOffsets = Callable[[Batch], tuple[int, int] | None]
"""Returns the offsets of the first and last record of a batch, None if no record can be read."""


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
_FINDINGS = tuple(EntryFinding)
_STYLES = tuple(map(Style, range(ANY_STYLE + 1)))


class IndexCheck(ABC):
    """Checks the entries in use of one index while its segment is walked.

    Give `see` every BatchRun in order, then call `finish`. Without a log call neither: then `judge_order` finds only
    the order of the entries. `keys` are the column that leads to the batches of an entry.
    """

    def __init__(self, findings: type[IndexFinding], keys: array[int]) -> None:
        self._findings = tuple(findings)
        self._keys = keys
        self._finding = bytearray(len(keys))
        self._order = ascending(keys)
        self._next = 0

    def __len__(self) -> int:
        return len(self._finding)

    def see(self, batch_run: BatchRun) -> None:
        """Check the entries that point into `batch_run`."""
        order, keys, at, end_key = self._order, self._keys, self._next, self._end_key(batch_run)
        if isinstance(order, range):
            end = bisect_left(keys, end_key, at)
            if end > at and self._do_all_fit(batch_run, slice(at, end)):
                at = end
        while at < len(order) and keys[order[at]] < end_key:
            if self._finding[order[at]] != FITS:
                self._compare(order[at], batch_run)
            at += 1
        self._next = at

    @abstractmethod
    def _end_key(self, batch_run: BatchRun) -> int:
        """Return the key after all keys of entries that point into the run or before it."""

    @abstractmethod
    def _do_all_fit(self, batch_run: BatchRun, slots: slice) -> bool:
        """Note which of many entries fit that point into the run, and return whether it is all of them."""

    @abstractmethod
    def _compare(self, slot: int, batch_run: BatchRun) -> None:
        """Judge one entry that points into the run."""

    def counts(self) -> Counter[Verdict]:
        """Return the number of entries by verdict."""
        found: Counter[Verdict] = Counter()
        for finding in set(self._finding):
            found[self._findings[finding].verdict] += self._finding.count(finding)
        return found

    def worst(self) -> ExitCode:
        """Return the code of the worst entry."""
        found = (self._findings[finding] for finding in set(self._finding))
        return worst_code(verdict_code(one.verdict, one.is_tolerable) for one in found)

    def _do_all_rise(self, *columns: tuple[array[int], int]) -> bool:
        """Whether all entries fit, and each column rises from above the number beside it."""
        return self._finding.count(FITS) == len(self) and all(rises(keys, before) for keys, before in columns)


class OffsetIndexCheck(IndexCheck):
    """Checks the entries in use of one offset index while its segment is walked.

    An entry (offset, position) is right if a batch starts at the position and the offset fits. Before 2.0, the offset
    is the first of the batch, since 2.0 the last. From 2.0 to 4.0 an append call of several batches got one entry: then
    it is the last offset of a batch before the next entry's position. Every other entry is reported, even if look-ups
    are right with it.
    """

    def __init__(self, index: OffsetIndex, record_offsets: RecordOffsets) -> None:
        self._record_offsets = record_offsets
        self._base_offset = index.base_offset
        self._offset, self._position = index.columns()
        super().__init__(EntryFinding, self._position)
        count = len(self)
        self._style = bytearray(count)
        # the batch that starts at the position, or contains it
        self._batch = array("q", [NO_BATCH]) * count
        self._batch_first = array("q", [NO_OFFSET]) * count
        self._batch_last = array("q", [NO_OFFSET]) * count
        # the start of the last batch, for an append call of several batches
        self._call_end = array("q", [NO_BATCH]) * count
        self._open_calls: list[tuple[int, int]] = []

    def see(self, batch_run: BatchRun) -> None:
        """Check the entries that point into `batch_run`."""
        super().see(batch_run)
        self._close_calls(batch_run)

    def _end_key(self, batch_run: BatchRun) -> int:
        return batch_run.end

    def _do_all_fit(self, batch_run: BatchRun, slots: slice) -> bool:
        """See IndexCheck. An entry fits if it has the position and last offset of a batch v2."""
        position, base_offset, last_offset, magic = (
            getattr(batch_run.batches, name) for name in ("position", "base_offset", "last_offset", "magic")
        )
        positions, offsets = self._position[slots], self._offset[slots]
        rows = [bisect_left(position, at) for at in positions]
        if not positions[0] or rows[-1] == len(position) or min(map(magic.__getitem__, rows)) < RECORD_BATCH_MAGIC:
            return False
        starts, first, last = (
            array("q", map(column.__getitem__, rows)) for column in (position, base_offset, last_offset)
        )
        if starts != positions or last != offsets:
            return False
        styles = bytes([int(_BATCH_END), int(ANY_STYLE)])
        self._finding[slots] = bytes([EntryFinding.FITS]) * len(rows)
        self._style[slots] = bytes(map(styles.__getitem__, map(eq, first, last)))
        self._batch[slots], self._batch_first[slots], self._batch_last[slots] = positions, first, last
        return True

    def finish(self, walk: SegmentWalk) -> None:
        """End the check after the whole log: entries that point after its last batch are beyond the end."""
        for slot in self._order[self._next :]:
            beyond = self._position[slot] >= walk.end_position
            self._finding[slot] = EntryFinding.POSITION_BEYOND if beyond else EntryFinding.NOT_A_BATCH
        for _, slot in self._open_calls:
            self._finding[slot] = EntryFinding.OFFSET_BEYOND
        self._next = len(self._order)
        self._open_calls.clear()
        self._look_at_calls()

    def judge_order(self) -> None:
        """Find entries out of order, compared with the earlier entries that are not stale."""
        last_offset, last_position = self._base_offset - 1, -1
        if self._do_all_rise((self._offset, last_offset), (self._position, last_position)):
            return
        for slot, offset in enumerate(self._offset):
            position = self._position[slot]
            verdict = _FINDINGS[self._finding[slot]].verdict
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

    def style_counts(self) -> Counter[Style]:
        """Return the number of right entries by the styles that they fit."""
        all_fit = self._finding.count(EntryFinding.FITS) == len(self)
        fits = map(int(EntryFinding.FITS).__eq__, self._finding)
        right = self._style if all_fit else bytes(compress(self._style, fits))
        return Counter({_STYLES[style]: right.count(style) for style in set(right)})

    def entries(self) -> Iterator[Entry]:
        """Yield the entries in file order."""
        for slot, number in enumerate(self._finding):
            fields: dict[str, object] = {"offset": self._offset[slot], "position": self._position[slot]}
            if number == FITS:
                yield Entry(slot, fields, Verdict.RIGHT, "", _STYLES[self._style[slot]])
            else:
                finding = _FINDINGS[number]
                detail, tolerable = self._detail(slot, finding), finding.is_tolerable
                yield Entry(slot, fields, finding.verdict, detail, Style.NONE, tolerable)

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
            self._call_end[slot] = batch_run.position[row]
        elif records is not None and offset == records[0] and compressed_set:
            self._fits(slot, Style.FIRST_OFFSET)

    def _close_calls(self, batch_run: BatchRun) -> None:
        """Find the last batches of the append calls that started in this run or before."""
        calls = self._open_calls
        while calls and calls[0][0] <= batch_run.reached[-1]:
            offset, slot = heapq.heappop(calls)
            row = batch_run.first_reaching(offset)
            self._call_end[slot] = batch_run.position[row]
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
        if not any_row(ge, memoryview(self._call_end)[:-1], memoryview(self._position)[1:]):
            return
        for slot in range(len(self) - 1):
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


def rises(keys: array[int], before: int) -> bool:
    """Whether each key is larger than the key before it, and the first is larger than `before`."""
    return not keys or (keys[0] > before and ascends(memoryview(keys)))


def ascending(keys: array[int]) -> Sequence[int]:
    """Return the slots in the order of their keys: a range if the keys are already in order."""
    column = memoryview(keys)
    if not any_row(gt, column[:-1], column[1:]):
        return range(len(keys))
    return sorted(range(len(keys)), key=keys.__getitem__)
