"""Checks of a partition's batches during the walk of its segments: damage, order, gaps, epochs, timestamps."""

from collections import Counter
from operator import ne, sub
from typing import Any

from kafkalog_cli.disk.fs import Filesystem, ReadableFile
from kafkalog_cli.errors import ExitCode
from kafkalog_cli.format.batch import (
    CONTROL_MASK,
    NO_OFFSET,
    RECORD_BATCH,
    RECORD_BATCH_MAGIC,
    TRANSACTIONAL_MASK,
    Batch,
    BatchColumns,
)
from kafkalog_cli.format.columns import is_many, least_and_largest, rows_where
from kafkalog_cli.format.fault import Fault
from kafkalog_cli.format.records import RecordBlock
from kafkalog_cli.log.partition import Segment
from kafkalog_cli.log.reading.header import header_at
from kafkalog_cli.log.reading.held import DamagedBytes
from kafkalog_cli.ops.checks.diagnose import Finding, as_kind, finding
from kafkalog_cli.ops.checks.finding_kinds import MAX_TOLD, FindingKind
from kafkalog_cli.ops.checks.log_questions import NO_LEADER_EPOCH
from kafkalog_cli.ops.checks.segment_walk import BatchRun, SegmentWalk
from kafkalog_cli.ops.verify.aborted import AbortedCheck
from kafkalog_cli.ops.verify.chain_findings import (
    beyond_finding,
    disorder_finding,
    magic_finding,
    outside_finding,
    size_finding,
)
from kafkalog_cli.ops.verify.damaged_bytes import (
    BadBatch,
    crc_findings,
    end_finding,
    negative_magic_findings,
    range_finding,
)
from kafkalog_cli.ops.verify.gaps import Gaps, InnerGaps, cleaner_wrote, rows_behind_gaps
from kafkalog_cli.ops.verify.odd_times import TimesSeen, batch_times
from kafkalog_cli.ops.verify.records import RecordsCheck
from kafkalog_cli.ops.verify.task import Totals, VerifyTask

NO_PRODUCER_ID = -1


class LogCheck:
    """Checks the batches of a partition's segments and, at the level deep, their records; a `LogObserver`.

    After the walk, `findings` are in the order of the log.
    `has_tail_damage`: the last segment has a damaged tail and no other damage. `was_cleaned`: a batch has a mark that
    only the cleaner leaves. `gaps` are offsets that no batch covers. `inner_gaps` (if records are checked) are offsets
    that a batch or message set covers, but that no record has.
    """

    def __init__(self, fs: Filesystem, task: VerifyTask) -> None:
        self.wants_records = task.is_deep
        self.findings: list[Finding] = []
        self.totals = Totals()
        self.gaps = Gaps()
        self.inner_gaps = Gaps()
        self.was_cleaned = False
        self.has_tail_damage = False
        self._task = task
        self._aborted = AbortedCheck(fs, tells_markers=not task.is_deep) if task.wanted is None else None
        self._epoch = NO_LEADER_EPOCH
        self._seen_bytes = 0
        self._start("", 0, None)

    def begin(self, segment: Segment, next_offset: int | None) -> bool:
        """Return whether the segment is to be checked, and start it if so."""
        path = segment.log.path
        if not self._task.wants(path):
            return False
        self._start(path, segment.base_offset, next_offset)
        self.totals.segments += 1
        self.totals.bytes += segment.log.size_bytes
        self.findings += size_finding(segment)
        return True

    def see(self, batch_run: BatchRun) -> None:
        """Check several batches."""
        task, batches = self._task, batch_run.batches
        if task.advance is not None:
            task.advance(batch_run.end - self._seen_bytes, self._path)
            self._seen_bytes = batch_run.end
        self.totals.batches += len(batches)
        self._look_at_crcs(batches)
        self._times.see(batch_times(batches), batches.last_offset, batches.position)
        is_ordinary = _are_ordinary(batches)
        if not is_ordinary:
            self._look_at_counts(batches)
            self._look_at_producers(batches)
            self.was_cleaned = self.was_cleaned or cleaner_wrote(batches)
        self._look_at_epochs(batches)
        self._look_at_offsets(batch_run)
        if self._aborted is not None and not is_ordinary:
            self._aborted.see(batch_run)

    def records(self, block: RecordBlock) -> None:
        """Check the records of several batches."""
        self.totals.records += len(block.records)
        self._records.see(block)

    def end(self, walk: SegmentWalk, code: ExitCode) -> None:
        """Finish the segment: add the findings about its damage, timestamps, records and aborted transactions."""
        told = len(self.findings)
        self._tell_damage(walk)
        damage = self.findings[told:]
        worst = any(found.severity.exit_code is ExitCode.CORRUPTION for found in damage)
        if code is ExitCode.CORRUPTION and damage and not worst:
            self.findings[told] = as_kind(damage[0], _MID_LOG[damage[0].kind])
        self.has_tail_damage |= bool(damage) and self._is_last and code is ExitCode.WARNINGS
        for kind, count in self._told.items():
            if count > MAX_TOLD:
                self._find(kind, f"{count - MAX_TOLD} more batches of the same kind")
        self.findings += self._times.findings(self._path)
        self.findings += self._records.findings(self._path)
        if self._aborted is not None:
            self.findings += self._aborted.findings(walk.file)

    # ---- one segment

    def _start(self, path: str, base_offset: int, next_offset: int | None) -> None:
        self._path = path
        self._base_offset = base_offset
        self._next_offset = next_offset
        self._is_last = next_offset is None
        self._times = TimesSeen(self._task.now_ms, "batch")
        self._records = RecordsCheck(self._task.now_ms, InnerGaps(self.inner_gaps, path, base_offset))
        self._bad: list[BadBatch] = []
        self._bad_count = 0
        self._told: Counter[FindingKind] = Counter()
        self._disordered = 0
        self._last_good = -1
        self._seen_bytes = 0
        self._has_outside = False
        self._is_beyond = False

    def _find(self, kind: FindingKind, message: str, **details: Any) -> None:
        self.findings.append(finding(kind, self._path, message, **details))

    def _is_told(self, kind: FindingKind) -> bool:
        """Count a batch with this kind of finding, and return whether it is among the first, which get findings."""
        self._told[kind] += 1
        return self._told[kind] <= MAX_TOLD

    def _look_at_crcs(self, batches: BatchColumns) -> None:
        valid = batches.valid
        rows = len(valid)
        if batches.all_valid():
            self._last_good = int(batches.position[rows - 1])
            return
        for row in range(rows):
            if valid[row]:
                self._last_good = int(batches.position[row])
                continue
            self._bad_count += 1
            if len(self._bad) < MAX_TOLD:
                first, last = int(batches.base_offset[row]), int(batches.last_offset[row])
                first = last if first == NO_OFFSET else first
                position, size, magic = (
                    int(column[row]) for column in (batches.position, batches.size_bytes, batches.magic)
                )
                self._bad.append(BadBatch(position, size, magic, (min(first, last), max(first, last))))

    def _look_at_counts(self, batches: BatchColumns) -> None:
        """Find batches with more records than offsets, or 0 records and bytes after the header (Kafka skips them)."""
        odd = rows_where(
            lambda count, base, last, magic, valid, size: (
                ((count > last - base + 1) | ((count == 0) & (size > RECORD_BATCH.size))) & (magic >= 2) & (valid != 0)
            ),
            batches.records_count, batches.base_offset, batches.last_offset, batches.magic, batches.valid,
            batches.size_bytes,
        )  # fmt: skip
        for row in odd:
            if not self._is_told(FindingKind.RECORD_COUNT):
                continue
            batch = batches.row(row)
            span = batch.last_offset - batch.base_offset + 1
            message = f"a batch says that it has {batch.records_count} records in {span} offsets"
            offsets = (batch.base_offset, max(batch.last_offset, batch.base_offset))
            expected, got = f"at most {span}", str(batch.records_count)
            if not batch.records_count:
                rest = batch.size_bytes - RECORD_BATCH.size
                message = f"a batch says that it has no records, and {rest} bytes follow its header: they are lost"
                expected, got = f"{RECORD_BATCH.size} bytes", f"{batch.size_bytes} bytes"
            self._find(
                FindingKind.RECORD_COUNT, message, position=batch.position, expected=expected, got=got, offsets=offsets
            )

    def _look_at_producers(self, batches: BatchColumns) -> None:
        """Find batches that Kafka's clients refuse to write (MemoryRecordsBuilder).

        A producer id comes with an epoch, and in data batches with a sequence. A transaction has a producer id.
        """
        odd = rows_where(
            lambda producer, epoch, sequence, bits, magic, valid: (
                (
                    (producer < NO_PRODUCER_ID)
                    | ((producer >= 0) & ((epoch < 0) | ((sequence < 0) & (bits & CONTROL_MASK == 0))))
                    | ((producer < 0) & (bits & TRANSACTIONAL_MASK != 0))
                )
                & (magic == RECORD_BATCH_MAGIC)
                & (valid != 0)
            ),
            batches.producer_id, batches.producer_epoch, batches.base_sequence, batches.attributes, batches.magic,
            batches.valid,
        )  # fmt: skip
        for row in odd:
            if not self._is_told(FindingKind.PRODUCER_FIELDS):
                continue
            batch = batches.row(row)
            what = "a transactional batch" if batch.is_transactional else "a batch"
            got = f"producer id {batch.producer_id}, epoch {batch.producer_epoch}, sequence {batch.base_sequence}"
            offsets = (batch.base_offset, max(batch.last_offset, batch.base_offset))
            message = f"{what} has the {got}, which no client writes together"
            self._find(FindingKind.PRODUCER_FIELDS, message, position=batch.position, got=got, offsets=offsets)

    def _look_at_epochs(self, batches: BatchColumns) -> None:
        """Check that the leader epoch of a batch is not below that of the batch before it; -1 means no epoch."""
        low, high = least_and_largest(batches.leader_epoch)
        if low == high and low >= self._epoch:
            self._epoch = high
            return
        kind = FindingKind.EPOCH_GOES_BACK
        for row, epoch in enumerate(batches.leader_epoch):
            if epoch == NO_LEADER_EPOCH or not batches.valid[row]:
                continue
            if epoch < max(self._epoch, 0) and self._is_told(kind):
                message, position = f"leader epoch {epoch} comes after {self._epoch}", int(batches.position[row])
                offsets, expected = (int(batches.last_offset[row]),) * 2, f"{max(self._epoch, 0)} or more"
                self._find(kind, message, position=position, expected=expected, got=str(epoch), offsets=offsets)
            self._epoch = epoch if epoch >= 0 else self._epoch

    def _look_at_offsets(self, batch_run: BatchRun) -> None:
        """Check that offsets ascend without gaps, and are at most 2^31 - 1 above the segment's base offset."""
        beyond = None if self._is_beyond else batch_run.first_beyond(self._next_offset)
        if beyond is not None and self._next_offset is not None:
            self._is_beyond = True
            self.findings.append(beyond_finding(self._path, batch_run, beyond, self._next_offset))
        disordered = batch_run.first_disordered
        if disordered is not None:
            # Damage may have changed the offsets of a batch with a bad CRC.
            if batch_run.batches.valid[disordered] and self._disordered < MAX_TOLD:
                self._disordered += 1  # one for each run: how many batches are out of order is not known
                self.findings.append(disorder_finding(self._path, batch_run, disordered))
            return
        outside = None if self._has_outside else outside_finding(self._path, batch_run, self._base_offset)
        if outside is not None:
            self._has_outside = True
            self.findings.append(outside)
        before = batch_run.reached_before
        if before != NO_OFFSET and not batch_run.is_after_damage:
            self._look_at_gap(batch_run.batches, 0, before)
        for row in rows_behind_gaps(batch_run):
            self._look_at_gap(batch_run.batches, row, int(batch_run.batches.last_offset[row - 1]))

    def _look_at_gap(self, batches: BatchColumns, row: int, before: int) -> None:
        """Note the offsets between `before` and a batch."""
        first = int(batches.base_offset[row])
        if first > before + 1:
            self.gaps.add(self._path, int(batches.position[row]), (before + 1, first - 1))

    # ---- damage

    def _tell_damage(self, walk: SegmentWalk) -> None:
        for damaged in walk.damaged:
            self._tell_range(walk.file, damaged)
        if walk.damaged_count > len(walk.damaged):
            more = walk.damaged_count - len(walk.damaged)
            self._find(FindingKind.DAMAGED_RANGE, f"{more} more ranges are not batches; valid batches follow")
        self.findings += crc_findings(walk.file, self._bad, self._bad_count, self._crc_kind)
        if walk.fault is not None:
            self._tell_end(walk.file, walk.fault)
        if walk.unknown_magic_at is not None:
            header = header_at(walk.file, walk.unknown_magic_at)
            magic = header.magic if isinstance(header, Batch) else None
            self.findings.append(magic_finding(self._path, walk.unknown_magic_at, magic))

    def _crc_kind(self, bad: BadBatch) -> FindingKind:
        is_tail = self._is_last and bad.position > self._last_good
        return FindingKind.BAD_TAIL_BATCH if is_tail else FindingKind.CRC_MISMATCH

    def _tell_range(self, file: ReadableFile, damaged: DamagedBytes) -> None:
        start = self._tell_negative_magics(file, damaged.start, damaged.end)
        if start < damaged.end:
            self.findings.append(range_finding(file, start, damaged.end))

    def _tell_negative_magics(self, file: ReadableFile, start: int, end: int) -> int:
        """Add the findings of `negative_magic_findings`, and return the position after the last message."""
        for size_bytes, found in negative_magic_findings(file, self._path, start, end):
            self.findings.append(found)
            start += size_bytes
        return start

    def _tell_end(self, file: ReadableFile, fault: Fault) -> None:
        """Add a finding for the fault that ended the last chain of the segment."""
        if self._tell_negative_magics(file, fault.position, file.size_bytes) < file.size_bytes:
            self.findings.append(end_finding(file, fault, is_last=self._is_last))


_MID_LOG = {
    FindingKind.TORN_TAIL: FindingKind.DAMAGED_RANGE,
    FindingKind.ZERO_TAIL: FindingKind.ZEROED_RANGE,
    FindingKind.BAD_TAIL_BATCH: FindingKind.CRC_MISMATCH,
}
"""The kinds of damage at a tail, each with the kind of the same damage in the middle of a log."""


def _are_ordinary(batches: BatchColumns) -> bool:
    """Whether nothing in these headers is special, found without a step of Python for each batch.

    All are data v2 outside of transactions, with right CRCs and a record for each offset, and without a delete horizon.
    A producer id comes with an epoch and a sequence. False for many batches: NumPy is faster.
    """
    if is_many(len(batches)) or not batches.all_valid() or set(batches.magic) != {RECORD_BATCH_MAGIC}:
        return False
    if max(batches.attributes) >= TRANSACTIONAL_MASK:  # the bits from this one on: transactions, control, horizon
        return False
    counts = batches.records_count
    if min(counts) <= 0 or any(map(ne, map(sub, batches.last_offset, batches.base_offset), map(_BEFORE, counts))):
        return False
    least, largest = least_and_largest(batches.producer_id)
    if least > NO_PRODUCER_ID:
        return min(batches.producer_epoch) >= 0 <= min(batches.base_sequence)
    return least == largest == NO_PRODUCER_ID


_BEFORE = (-1).__add__
"""Returns a number less 1."""
