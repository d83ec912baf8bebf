"""Checks time index entries against their segment: whether each timestamp is the largest up to its offset."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from enum import IntEnum, unique

from kafkalog_cli.errors import ExitCode
from kafkalog_cli.format.batch import NO_TIMESTAMP, TIMESTAMP_TYPE_MASK, BatchArrays
from kafkalog_cli.format.timeindex import TimeIndex
from kafkalog_cli.ops.checks.file_report import Entry, Verdict, verdict_code, worst_code
from kafkalog_cli.ops.checks.index_check import ascending, rises
from kafkalog_cli.ops.checks.segment_walk import BatchRun, SegmentWalk


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
        if isinstance(batch_run.batches, BatchArrays) and batch_run.is_ordered and isinstance(order, range):
            at = self._see_many(batch_run, batch_run.batches, at)
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
