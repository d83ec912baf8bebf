"""Checks the entries of a time index against the batches of their segment."""

from array import array
from collections.abc import Iterator
from dataclasses import replace
from enum import unique

from kafkalog_cli.errors import ExitCode
from kafkalog_cli.format import native
from kafkalog_cli.format.batch import NO_TIMESTAMP, TIMESTAMP_TYPE_MASK
from kafkalog_cli.format.index import TimeIndex, TimeIndexEntry
from kafkalog_cli.log.partition import PartitionFile
from kafkalog_cli.ops.check.checks.file_report import Entry, FileNote, FileReport, Verdict, verdict_code, worst_code
from kafkalog_cli.ops.check.checks.finding_kinds import FindingKind
from kafkalog_cli.ops.check.checks.index_check import NOT_WALKED, IndexCheck, IndexedLog, IndexFinding
from kafkalog_cli.ops.check.checks.segment_walk import BatchRun, SegmentWalk
from kafkalog_cli.ops.check.checks.sidecar_files import DirectoryFiles


@unique
class TimeFinding(IndexFinding):
    """The finding at an entry of a time index."""

    NOT_WALKED = Verdict.UNVERIFIED, NOT_WALKED
    FITS = Verdict.RIGHT
    FITS_RECORD = Verdict.RIGHT
    NO_SUCH_OFFSET = Verdict.STALE, "no batch holds the offset"
    TOO_LARGE = Verdict.STALE, "no batch up to the offset has so large a timestamp, the largest is {timestamp}"
    LARGER_BEFORE = Verdict.STALE, "a larger timestamp, {timestamp}, comes at or before the offset"
    OF_EARLIER_BATCH = Verdict.STALE, "the largest timestamp up to the offset, but of an earlier batch"
    IN_DAMAGE = Verdict.UNVERIFIED, "the log is damaged there"
    OFFSET_BEYOND = Verdict.BEYOND_END, "the offset is not in the log yet"
    NOT_ASCENDING = Verdict.OUT_OF_ORDER, "timestamp not above, or offset below, that of an entry before it"
    BELOW_BASE = Verdict.OUT_OF_ORDER, "below the base offset"
    SAME_BEFORE = Verdict.STALE, "an earlier batch has the timestamp too"
    NOT_IN_MESSAGES = (
        Verdict.GONE, "messages of format 0 hold no timestamps: the broker that converted them wrote it"
    )  # fmt: skip


class TimeIndexCheck(IndexCheck):
    """Checks the entries of a time index.

    An entry (timestamp, offset) is right if the batch that contains the offset is the first with that largest
    timestamp, and no earlier batch has a larger timestamp. Brokers wrote the last offset of that batch or, as seen from
    2.8, the offset of the record. The same is true for an append call of several batches that got one entry. The
    exception is LogAppendTime, where the entry has the call's last batch.

    Whether an entry is tolerable depends on the batches before it, not on the finding.
    """

    index = TimeIndex
    findings = tuple(TimeFinding)

    def __init__(self, files: DirectoryFiles, file: PartitionFile, log: IndexedLog) -> None:
        super().__init__(files, file, log)
        self._timestamp, self._offset, _, rise = self._columns
        self._before = NO_TIMESTAMP, self._base_offset - 1
        self._begin(self._offset, rise)
        self._tolerable = bytearray(b"\1" * len(self))
        self._largest = array("q", [NO_TIMESTAMP]) * len(self)

    def _end_key(self, batch_run: BatchRun) -> int:
        return batch_run.last_reached + 1

    def _fit_from(self, slot: int, batch_run: BatchRun) -> int:
        """An entry fits if it has the last offset of the first batch with its timestamp."""
        batches, before = batch_run.batches, batch_run.timestamp_before
        fitting = native.match_times(self._timestamp[slot:], self._offset[slot:], batches, before)
        self._finding[slot : slot + fitting] = bytes([TimeFinding.FITS]) * fitting
        return fitting

    def finish(self, walk: SegmentWalk) -> None:
        """See IndexCheck."""
        for slot in self._order[self._next :]:
            self._finding[slot] = TimeFinding.OFFSET_BEYOND
        self._next = len(self._order)
        last = len(self) - 1
        # Brokers use the last entry's timestamp as the segment's largest, for retention and to find a segment by time.
        if last >= 0 and self._timestamp[last] > walk.largest_timestamp:
            self._tolerable[last] = False

    def is_sound(self, walk: SegmentWalk | None, *, is_closed: bool) -> bool:
        """See IndexCheck."""
        lacks_largest = is_closed and walk is not None and walk.largest_timestamp > self._last_timestamp
        return not lacks_largest and all(self._tolerable) and super().is_sound(walk, is_closed=is_closed)

    @property
    def _last_timestamp(self) -> int:
        return self._timestamp[-1] if len(self) else NO_TIMESTAMP

    def _judge_order(self) -> None:
        if self._all_fit():
            return
        last_timestamp, last_offset = NO_TIMESTAMP, self._base_offset
        for slot, timestamp in enumerate(self._timestamp):
            offset = self._offset[slot]
            verdict = self.findings[self._finding[slot]].verdict
            if verdict is Verdict.BEYOND_END:
                continue
            if offset < self._base_offset:
                self._finding[slot] = TimeFinding.BELOW_BASE
            elif timestamp <= last_timestamp or offset < last_offset:
                self._finding[slot] = TimeFinding.NOT_ASCENDING
            elif verdict is not Verdict.STALE:
                last_timestamp, last_offset = timestamp, offset

    def worst(self) -> ExitCode:
        """Return the code of the worst entry."""
        pairs = set(zip(self._finding, self._tolerable, strict=True))
        return worst_code(verdict_code(self.findings[number].verdict, bool(tolerable)) for number, tolerable in pairs)

    def report(self, walk: SegmentWalk | None, *, is_closed: bool) -> FileReport:
        """See IndexCheck. Brokers take the timestamp of the last entry as the largest of the segment."""
        report = super().report(walk, is_closed=is_closed)
        if walk is None or not is_closed or report.worst_entry is not ExitCode.OK:
            return report
        if walk.largest_timestamp <= self._last_timestamp:
            return report
        message = f"no entry for the largest timestamp of the segment, {walk.largest_timestamp}"
        note = FileNote(message, ExitCode.WARNINGS, FindingKind.TIME_INDEX_INEXACT)
        return replace(report, notes=(*report.notes, note), lacks_largest=True)

    def _entries(self) -> Iterator[Entry]:
        for slot, number in enumerate(self._finding):
            finding = self.findings[number]
            value = TimeIndexEntry(self._timestamp[slot], self._offset[slot])
            detail = finding.detail.format(timestamp=self._largest[slot])
            yield Entry(slot, value, finding.verdict, detail, is_tolerable=bool(self._tolerable[slot]))

    def _compare(self, slot: int, batch_run: BatchRun) -> None:
        timestamp, offset = self._timestamp[slot], self._offset[slot]
        row = batch_run.first_reaching(offset)
        before, largest = batch_run.timestamp_so_far[row : row + 2]
        holds = batch_run.holds(row, offset)
        if not holds:
            in_damage = batch_run.is_after_damage and row == 0
            self._finding[slot] = TimeFinding.IN_DAMAGE if in_damage else TimeFinding.NO_SUCH_OFFSET
            largest = before
        elif largest > timestamp:
            self._finding[slot] = TimeFinding.LARGER_BEFORE
        elif largest < timestamp and int(batch_run.batches.magic[row]) == 0:
            self._finding[slot] = TimeFinding.NOT_IN_MESSAGES
        elif largest < timestamp:
            self._finding[slot] = TimeFinding.TOO_LARGE
        elif batch_run.max_timestamp[row] != timestamp:
            self._finding[slot] = TimeFinding.OF_EARLIER_BATCH
        elif before == timestamp and not _is_append_time(batch_run, row):
            self._finding[slot] = TimeFinding.SAME_BEFORE
        else:
            at_end = offset == batch_run.last_offset[row]
            self._finding[slot] = TimeFinding.FITS if at_end else TimeFinding.FITS_RECORD
        self._largest[slot] = largest
        # A search for this timestamp or a later one starts at the offset, so no such record may be before it.
        self._tolerable[slot] = before < timestamp


def _is_append_time(batch_run: BatchRun, row: int) -> bool:
    is_append_time = int(batch_run.batches.attributes[row]) & TIMESTAMP_TYPE_MASK
    return bool(is_append_time and batch_run.batches.magic[row] > 0)
