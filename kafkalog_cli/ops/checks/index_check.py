"""Checks offset index entries against the batches of their segment: their positions, and the style of the entries."""

from __future__ import annotations

import heapq
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum, unique
from itertools import compress, repeat
from operator import eq, ge, gt

from kafkalog_cli.errors import ExitCode
from kafkalog_cli.format.batch import NO_OFFSET, RECORD_BATCH_MAGIC, Batch, BatchArrays
from kafkalog_cli.format.columns import any_row, as_array, ascends
from kafkalog_cli.format.index import OffsetIndex
from kafkalog_cli.ops.checks.file_report import ANY_STYLE, Entry, Style, Verdict, verdict_code, worst_code
from kafkalog_cli.ops.checks.segment_walk import BatchRun, SegmentWalk

NO_BATCH = -1

RecordOffsets = Callable[[Batch], tuple[int, int] | None]
"""Returns the offsets of the first and last record of a batch, None if no record can be read."""


@unique
class EntryFinding(IntEnum):
    """The finding at an entry, in the order of `_JUDGEMENTS`."""

    NOT_WALKED = 0
    FITS = 1
    NOT_A_BATCH = 2
    OFFSET_BEFORE = 3
    NEITHER_FIRST_NOR_LAST = 4
    NO_SUCH_OFFSET = 5
    OVERLAPS_NEXT = 6
    IN_DAMAGE = 7
    POSITION_BEYOND = 8
    OFFSET_BEYOND = 9
    NOT_ASCENDING = 10
    BELOW_BASE = 11
    FIRST_BATCH = 12


_JUDGEMENTS: dict[EntryFinding, tuple[Verdict, bool]] = {
    # (verdict, whether every record is still found through the entry)
    EntryFinding.NOT_WALKED: (Verdict.UNVERIFIED, True),
    EntryFinding.FITS: (Verdict.RIGHT, True),
    EntryFinding.NOT_A_BATCH: (Verdict.STALE, False),
    EntryFinding.OFFSET_BEFORE: (Verdict.STALE, False),
    EntryFinding.NEITHER_FIRST_NOR_LAST: (Verdict.STALE, True),
    EntryFinding.NO_SUCH_OFFSET: (Verdict.STALE, True),
    EntryFinding.OVERLAPS_NEXT: (Verdict.STALE, True),
    EntryFinding.IN_DAMAGE: (Verdict.UNVERIFIED, True),
    EntryFinding.POSITION_BEYOND: (Verdict.BEYOND_END, False),
    EntryFinding.OFFSET_BEYOND: (Verdict.BEYOND_END, False),
    EntryFinding.NOT_ASCENDING: (Verdict.OUT_OF_ORDER, False),
    EntryFinding.BELOW_BASE: (Verdict.OUT_OF_ORDER, False),
    EntryFinding.FIRST_BATCH: (Verdict.STALE, True),
}


_BATCH_END = Style.PER_BATCH | Style.APPEND_CALL
_BY_NUMBER = tuple(_JUDGEMENTS[finding] for finding in EntryFinding)
_STYLES = tuple(map(Style, range(ANY_STYLE + 1)))


class OffsetIndexCheck:
    """Checks the entries in use of one offset index while its segment is walked.

    Give `see` every BatchRun in order, then call `finish`. Without a log call neither: then `judge_order` finds only
    the order of the entries.

    An entry (offset, position) is right if a batch starts at the position and the offset fits. Before 2.0, the offset
    is the first of the batch, since 2.0 the last. From 2.0 to 4.0 an append call of several batches got one entry: then
    it is the last offset of a batch before the next entry's position. Every other entry is reported, even if look-ups
    are right with it.
    """

    def __init__(self, index: OffsetIndex, record_offsets: RecordOffsets) -> None:
        self._record_offsets = record_offsets
        self._base_offset = index.base_offset
        self._offset, self._position = index.columns()
        count = len(self._offset)
        self._finding = bytearray(count)
        self._style = bytearray(count)
        # the batch that starts at the position, or contains it
        self._batch = array("q", [NO_BATCH]) * count
        self._batch_first = array("q", [NO_OFFSET]) * count
        self._batch_last = array("q", [NO_OFFSET]) * count
        # the start of the last batch, for an append call of several batches
        self._call_end = array("q", [NO_BATCH]) * count
        self._order = ascending(self._position)
        self._next = 0
        self._open_calls: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self._offset)

    def see(self, batch_run: BatchRun) -> None:
        """Check the entries that point into `batch_run`."""
        order, positions, at = self._order, self._position, self._next
        count = len(order)
        if isinstance(order, range):
            if isinstance(batch_run.batches, BatchArrays):
                at = self._see_many(batch_run, batch_run.batches, at)
            else:
                at = self._see_plain(batch_run, at)
        while at < count and positions[order[at]] < batch_run.end:
            slot = order[at]
            if self._finding[slot] == EntryFinding.FITS:
                at += 1
                continue
            position = positions[slot]
            row = bisect_right(batch_run.position, position) - 1
            if row < 0:
                self._finding[slot] = EntryFinding.IN_DAMAGE if position >= 0 else EntryFinding.NOT_A_BATCH
            else:
                self._compare(slot, batch_run, row)
            at += 1
        self._next = at
        self._close_calls(batch_run)

    def _see_many(self, batch_run: BatchRun, batches: BatchArrays, at: int) -> int:
        """Check many entries at once, from slot `at` on, and return the slot from which to continue one by one.

        An entry fits if it has the position and last offset of a batch v2. If all entries in the run fit, the
        returned slot is after them, else it is `at`.
        """
        import numpy as np

        position, base_offset, last_offset = batches.position, batches.base_offset, batches.last_offset
        end = bisect_left(self._position, batch_run.end, at)
        if end == at:
            return at
        slots = slice(at, end)
        entry_position = np.frombuffer(self._position, np.int64)[slots]
        rows = np.minimum(position.searchsorted(entry_position), len(position) - 1)
        fits = (position[rows] == entry_position) & (entry_position > 0) & (batches.magic[rows] >= 2)
        fits &= last_offset[rows] == np.frombuffer(self._offset, np.int64)[slots]
        styles = np.where(base_offset[rows] == last_offset[rows], int(ANY_STYLE), int(_BATCH_END)).astype(np.uint8)
        np.frombuffer(self._finding, np.uint8)[slots][fits] = EntryFinding.FITS
        np.frombuffer(self._style, np.uint8)[slots][fits] = styles[fits]
        for column, values in (
            (self._batch, position),
            (self._batch_first, base_offset),
            (self._batch_last, last_offset),
        ):
            np.frombuffer(column, np.int64)[slots][fits] = values[rows][fits]
        return end if fits.all() else at

    def _see_plain(self, batch_run: BatchRun, at: int) -> int:
        """See `_see_many`, for columns of plain integers: no code in Python runs for each entry."""
        end = bisect_left(self._position, batch_run.end, at)
        slots, row_at = slice(at, end), {start: row for row, start in enumerate(batch_run.position)}
        positions, offsets = self._position[slots], self._offset[slots]
        rows = [*map(row_at.get, positions, repeat(NO_BATCH))]
        if not rows or NO_BATCH in rows or not positions[0] or min(batch_run.batches.magic) < RECORD_BATCH_MAGIC:
            return at
        first, last = (
            array("q", map(column.__getitem__, rows)) for column in (batch_run.base_offset, batch_run.last_offset)
        )
        if last != offsets:
            return at
        styles = bytes([int(_BATCH_END), int(ANY_STYLE)])
        self._finding[slots] = bytes([EntryFinding.FITS]) * len(rows)
        self._style[slots] = bytes(map(styles.__getitem__, map(eq, first, last)))
        self._batch[slots], self._batch_first[slots], self._batch_last[slots] = positions, first, last
        return end

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
        all_fit = self._finding.count(EntryFinding.FITS) == len(self)
        if all_fit and rises(self._offset, last_offset) and rises(self._position, last_position):
            return
        for slot, offset in enumerate(self._offset):
            position = self._position[slot]
            verdict = _BY_NUMBER[self._finding[slot]][0]
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

    def counts(self) -> Counter[Verdict]:
        """Return the number of entries by verdict."""
        found: Counter[Verdict] = Counter()
        for finding in set(self._finding):
            found[_BY_NUMBER[finding][0]] += self._finding.count(finding)
        return found

    def style_counts(self) -> Counter[Style]:
        """Return the number of right entries by the styles that they fit."""
        all_fit = self._finding.count(EntryFinding.FITS) == len(self)
        fits = map(int(EntryFinding.FITS).__eq__, self._finding)
        right = self._style if all_fit else bytes(compress(self._style, fits))
        return Counter({_STYLES[style]: right.count(style) for style in set(right)})

    def worst(self) -> ExitCode:
        """Return the code of the worst entry."""
        return worst_code(verdict_code(*_JUDGEMENTS[EntryFinding(finding)]) for finding in set(self._finding))

    def entries(self) -> Iterator[Entry]:
        """Yield the entries in file order."""
        for slot, finding in enumerate(self._finding):
            verdict, tolerable = _BY_NUMBER[finding]
            fields: dict[str, object] = {"offset": self._offset[slot], "position": self._position[slot]}
            if finding == EntryFinding.FITS:
                yield Entry(slot, fields, verdict, "", _STYLES[self._style[slot]])
            else:
                yield Entry(slot, fields, verdict, self._detail(slot), Style.NONE, tolerable)

    def _compare(self, slot: int, batch_run: BatchRun, row: int) -> None:
        """Judge an entry that points to the batch of `row`, or into it."""
        offset = self._offset[slot]
        start, first, last = batch_run.position[row], batch_run.base_offset[row], batch_run.last_offset[row]
        self._batch[slot], self._batch_first[slot], self._batch_last[slot] = start, first, last
        if start != self._position[slot]:
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
        if not any_row(ge, as_array(self._call_end)[:-1], as_array(self._position)[1:]):
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

    def _detail(self, slot: int) -> str:
        finding = EntryFinding(self._finding[slot])
        first, last = self._batch_first[slot], self._batch_last[slot]
        offsets = f"offsets {first} to {last}" if first != NO_OFFSET else f"offsets up to {last}"
        batch = f"the batch at {self._batch[slot]}, {offsets}"
        return {
            EntryFinding.NOT_WALKED: "there is no log to check it against",
            EntryFinding.NOT_A_BATCH: f"no batch starts there: it is inside {batch}"
            if self._batch[slot] >= 0
            else "no batch starts there",
            EntryFinding.OFFSET_BEFORE: f"points at {batch}, so the offset is before it",
            EntryFinding.NEITHER_FIRST_NOR_LAST: f"points at {batch}, and no batch begins or ends with the offset",
            EntryFinding.NO_SUCH_OFFSET: f"points at {batch}, and no batch holds the offset",
            EntryFinding.OVERLAPS_NEXT: f"points at {batch}, and the offset is after the target of the next entry",
            EntryFinding.IN_DAMAGE: "the log is damaged there",
            EntryFinding.POSITION_BEYOND: "the position is not before the end of the log",
            EntryFinding.OFFSET_BEYOND: "the offset is not in the log yet",
            EntryFinding.NOT_ASCENDING: "not above an entry before it",
            EntryFinding.BELOW_BASE: "below the base offset",
            EntryFinding.FIRST_BATCH: "points at the first batch, which gets no entry",
        }.get(finding, "")


def rises(keys: array[int], before: int) -> bool:
    """Whether each key is larger than the key before it, and the first is larger than `before`."""
    return not keys or (keys[0] > before and ascends(as_array(keys)))


def ascending(keys: array[int]) -> Sequence[int]:
    """Return the slots in the order of their keys: a range if the keys are already in order."""
    column = as_array(keys)
    if not any_row(gt, column[:-1], column[1:]):
        return range(len(keys))
    return sorted(range(len(keys)), key=keys.__getitem__)
