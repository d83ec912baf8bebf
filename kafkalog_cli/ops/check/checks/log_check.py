"""Checks a partition's batches while its segments are walked: damage, order, gaps, epochs, timestamps, records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Protocol

from kafkalog_cli.disk.fs import FileStatus, Filesystem, ReadableFile
from kafkalog_cli.errors import ExitCode
from kafkalog_cli.format.batch import (
    CONTROL_MASK,
    NO_OFFSET,
    NO_TIMESTAMP,
    RECORD_BATCH,
    RECORD_BATCH_MAGIC,
    TRANSACTIONAL_MASK,
    Batch,
    BatchColumns,
)
from kafkalog_cli.format.columns import rows_where
from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits
from kafkalog_cli.log.reading.header import header_at
from kafkalog_cli.ops.check.checks.chain_findings import (
    beyond_finding,
    disorder_finding,
    magic_finding,
    outside_finding,
    size_finding,
)
from kafkalog_cli.ops.check.checks.damaged_bytes import crc_findings, end_finding, range_finding
from kafkalog_cli.ops.check.checks.diagnose import Finding, as_kind, finding
from kafkalog_cli.ops.check.checks.finding_kinds import MAX_FINDINGS, FindingKind
from kafkalog_cli.ops.check.checks.gaps import Gaps, InnerGaps, cleaner_wrote, rows_behind_gaps
from kafkalog_cli.ops.check.checks.producers import ProducerTrail
from kafkalog_cli.ops.check.checks.segment_walk import BatchRun, SegmentWalk
from kafkalog_cli.ops.check.checks.unusual_times import UnusualTimes, batch_times
from kafkalog_cli.results import Count

if TYPE_CHECKING:
    from kafkalog_cli.format.records import RecordBlock
    from kafkalog_cli.ops.check.checks.records import RecordsCheck

NO_LEADER_EPOCH = NO_PRODUCER_ID = -1
MAX_EPOCH_CHANGES = 10_000
END_OF_TIME_MS = 1 << 62
"""A time at which no timestamp is one of the future."""

Advance = Callable[[int, str], None]
"""A callback for progress: the number of bytes just checked, and the path of their file."""


class Walked(Protocol):
    """Collects something else in the walk through the segments."""

    def see(self, batch_run: BatchRun) -> None:
        """Take several batches of a segment."""

    def end(self, walk: SegmentWalk) -> None:
        """Take the end of a segment."""


@dataclass(slots=True)
class Totals:
    """Counts of what was checked in a partition."""

    segments: Annotated[Count, "checked segments"] = 0
    bytes: Annotated[Count, "of these segments"] = 0
    batches: Count = 0
    records: Annotated[Count, "read, at level deep"] = 0


class LogCheck:
    """Checks the batches of a partition's segments and, with `records`, their records.

    Give `count`, `begin`, `see` and `end` each segment in order. With `headers_only` only the chain of batches and
    their offsets are checked. Afterwards `findings` are in the order of the log; `damage` are those of the last segment
    that say that its chain is broken.
    `has_tail_damage`: the last segment has a damaged tail and no other damage. `was_cleaned`: a batch has a mark that
    only the cleaner leaves. `gaps` are offsets that no batch covers. `inner_gaps` (if records are checked) are offsets
    that a batch or message set covers, but that no record has. `epochs` are the changes of the leader epoch, as (leader
    epoch, base offset). `damaged_logs` have, by path, the position of the first damage (None: offsets out of order),
    and WARNINGS for a damaged tail or CORRUPTION. `with_markers` has the base offsets of segments with control batches
    of producers, `without_producers` has the base offsets of undamaged segments in
    which no batch has a producer id.
    """

    def __init__(  # noqa: PLR0913
        self,
        fs: Filesystem,
        limits: Limits = DEFAULT_LIMITS,
        *,
        now_ms: int = END_OF_TIME_MS,
        records: bool = False,
        headers_only: bool = False,
        transactions: bool = True,
        advance: Advance | None = None,
        beside: Walked | None = None,
    ) -> None:
        self.headers_only = headers_only
        self.findings: list[Finding] = []
        self.totals = Totals()
        self.gaps = Gaps()
        self.inner_gaps = Gaps()
        self.was_cleaned = False
        self.has_tail_damage = False
        self.epochs: list[tuple[int, int]] = []
        self.with_markers: set[int] = set()
        self.damaged_logs: dict[str, tuple[int | None, ExitCode]] = {}
        self.without_producers: set[int] = set()
        self._fs = fs
        self._now_ms = now_ms
        self._limits = limits
        self._reads_records = records
        self._advance = advance
        self._beside = beside
        self.checks_transactions = transactions
        self._epoch = self._last_epoch = NO_LEADER_EPOCH

    def count(self, log: FileStatus) -> None:
        """Count a segment, and check its size."""
        self.totals.segments += 1
        self.totals.bytes += log.size_bytes
        self.findings += size_finding(log)

    def begin(self, log: ReadableFile, base_offset: int, next_offset: int | None) -> SegmentWalk:
        """Return the walk through a segment; `next_offset` is where the next begins, None for the last."""
        self.damage: list[Finding] = []
        self._path = log.path
        self._base_offset = base_offset
        self._next_offset = next_offset
        self._is_last = next_offset is None
        self._times = UnusualTimes(self._now_ms, "batch")
        self._records = None
        if self._reads_records:
            from kafkalog_cli.ops.check.checks.records import RecordsCheck

            self._records = RecordsCheck(self._now_ms, InnerGaps(self.inner_gaps, log.path, base_offset))
        self._bad: list[Batch] = []
        self._counts: Counter[FindingKind] = Counter()
        self._disordered = 0
        self._seen_bytes = 0
        self._has_outside = False
        self._is_beyond = False
        self._has_producers = False
        records = None if self._records is None else partial(self._see_records, self._records)
        return SegmentWalk(log, self._limits, records=records, next_offset=next_offset, headers_only=self.headers_only)

    def see(self, batch_run: BatchRun) -> None:
        """Check several batches."""
        batches = batch_run.batches
        if self._beside is not None:
            self._beside.see(batch_run)
        if self._advance is not None:
            self._advance(batch_run.end - self._seen_bytes, self._path)
            self._seen_bytes = batch_run.end
        self.totals.batches += len(batches)
        is_ordinary = not self.headers_only and _are_ordinary(batches)
        if not is_ordinary:
            self.was_cleaned = self.was_cleaned or cleaner_wrote(batches)
        if not self.headers_only:
            self._look_at_crcs(batches)
            least, largest = batches.survey.least, batches.survey.largest
            if least.base_timestamp < NO_TIMESTAMP or self._times.may_have(least.max_timestamp, largest.max_timestamp):
                self._times.see(batch_times(batches), batches.last_offset, batches.position)
            self._has_producers = self._has_producers or largest.producer_id >= 0
            if not is_ordinary:
                self._look_at_counts(batches)
                self._look_at_producers(batches)
            self._look_at_epochs(batches)
        self._look_at_offsets(batch_run)

    def _see_records(self, records: RecordsCheck, block: RecordBlock) -> None:
        self.totals.records += len(block.records)
        records.see(block)

    def end(self, walk: SegmentWalk, trail: ProducerTrail | None = None) -> None:
        """Finish a segment: add the findings about damage, timestamps, records and aborted transactions (`trail`)."""
        if self._beside is not None:
            self._beside.end(walk)
        damage = [*self._damage_in(walk)]
        code = walk.exit_code(self._fs) if damage or self.damage else ExitCode.OK
        if self.headers_only and damage:
            code = ExitCode.CORRUPTION if walk.fault is None else damage[-1].severity.exit_code
        worst = any(found.severity.exit_code is ExitCode.CORRUPTION for found in damage)
        if code is ExitCode.CORRUPTION and damage and not worst:
            damage[0] = as_kind(damage[0], _MID_LOG[damage[0].kind])
        # Headers do not show whether a batch that ends the chain is the last one, so the end of the log is not known.
        is_end_lost = self.headers_only and walk.fault is not None
        self.has_tail_damage |= bool(damage) and self._is_last and (code is ExitCode.WARNINGS or is_end_lost)
        self.findings += damage
        self.damage += damage
        if code is not ExitCode.OK:
            self.damaged_logs[self._path] = walk.first_bad, code
        elif not self._has_producers:
            self.without_producers.add(self._base_offset)
        for kind, count in self._counts.items():
            if count > MAX_FINDINGS:
                self._find(kind, f"{count - MAX_FINDINGS} more batches of the same kind")
        self.findings += self._times.findings(self._path)
        if self._records is not None:
            self.findings += self._records.findings(self._path)
        if self.checks_transactions and trail is not None:
            self._end_transactions(walk, trail)

    def _end_transactions(self, walk: SegmentWalk, trail: ProducerTrail) -> None:
        if trail.has_marker:
            self.with_markers.add(self._base_offset)
        self.findings += trail.findings(self._fs, walk.file, with_markers=not self._reads_records)

    def _find(self, kind: FindingKind, message: str, **details: Any) -> None:
        self.findings.append(finding(kind, self._path, message, **details))

    def _find_damage(self, found: Finding) -> None:
        self.findings.append(found)
        self.damage.append(found)

    def _gets_finding(self, kind: FindingKind) -> bool:
        """Count a batch with this kind of finding, and return whether it is among the first, which get findings."""
        self._counts[kind] += 1
        return self._counts[kind] <= MAX_FINDINGS

    def _look_at_crcs(self, batches: BatchColumns) -> None:
        bad = [] if batches.all_valid() else rows_where(lambda valid: valid == 0, batches.valid)
        self._bad += map(batches.row, bad[: MAX_FINDINGS - len(self._bad)])

    def _look_at_counts(self, batches: BatchColumns) -> None:
        """Find batches with more records than offsets, or 0 records and bytes after the header (Kafka skips them)."""
        suspects = rows_where(
            lambda count, base, last, magic, valid, size: (
                ((count > last - base + 1) | ((count == 0) & (size > RECORD_BATCH.size))) & (magic >= 2) & (valid != 0)
            ),
            batches.records_count, batches.base_offset, batches.last_offset, batches.magic, batches.valid,
            batches.size_bytes,
        )  # fmt: skip
        for row in suspects:
            if not self._gets_finding(FindingKind.RECORD_COUNT):
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
        suspects = rows_where(
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
        for row in suspects:
            if not self._gets_finding(FindingKind.PRODUCER_FIELDS):
                continue
            batch = batches.row(row)
            what = "a transactional batch" if batch.is_transactional else "a batch"
            got = f"producer id {batch.producer_id}, epoch {batch.producer_epoch}, sequence {batch.base_sequence}"
            offsets = (batch.base_offset, max(batch.last_offset, batch.base_offset))
            message = f"{what} has the {got}, which no client writes together"
            self._find(FindingKind.PRODUCER_FIELDS, message, position=batch.position, got=got, offsets=offsets)

    def _look_at_epochs(self, batches: BatchColumns) -> None:
        """Check that the leader epoch of a batch is not below that of the batch before it; -1 means no epoch."""
        low, high = batches.survey.least.leader_epoch, batches.survey.largest.leader_epoch
        if low == high == self._epoch == self._last_epoch:
            return
        kind = FindingKind.EPOCH_GOES_BACK
        for row, epoch in enumerate((low,) if low == high >= 0 and batches.all_valid() else batches.leader_epoch):
            if epoch != self._last_epoch:
                self._last_epoch = epoch
                if epoch != NO_LEADER_EPOCH and len(self.epochs) < MAX_EPOCH_CHANGES:
                    self.epochs.append((epoch, int(batches.base_offset[row])))
            if epoch in {NO_LEADER_EPOCH, self._epoch} or not batches.valid[row]:
                continue
            if epoch < max(self._epoch, 0) and self._gets_finding(kind):
                message, position = f"leader epoch {epoch} comes after {self._epoch}", int(batches.position[row])
                offsets, expected = (int(batches.last_offset[row]),) * 2, f"{max(self._epoch, 0)} or more"
                self._find(kind, message, position=position, expected=expected, got=str(epoch), offsets=offsets)
            self._epoch = epoch if epoch >= 0 else self._epoch

    def _look_at_offsets(self, batch_run: BatchRun) -> None:
        """Check that offsets ascend without gaps, and are at most 2^31 - 1 above the segment's base offset."""
        beyond = None if self._is_beyond else batch_run.first_beyond(self._next_offset)
        if beyond is not None and self._next_offset is not None:
            self._is_beyond = True
            self._find_damage(beyond_finding(self._path, batch_run, beyond, self._next_offset))
        disordered = batch_run.first_disordered
        if disordered is not None:
            # Damage may have changed the offsets of a batch with a bad CRC.
            if batch_run.batches.valid[disordered] and self._disordered < MAX_FINDINGS:
                self._disordered += 1  # one for each run: how many batches are out of order is not known
                self._find_damage(disorder_finding(self._path, batch_run, disordered))
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

    def _damage_in(self, walk: SegmentWalk) -> Iterator[Finding]:
        for damaged in walk.damaged:
            yield range_finding(walk.file, damaged.start, damaged.end)
        if walk.damaged_count > len(walk.damaged):
            more = walk.damaged_count - len(walk.damaged)
            yield finding(
                FindingKind.DAMAGED_RANGE, self._path, f"{more} more ranges are not batches; valid batches follow"
            )

        def crc_kind(bad: Batch) -> FindingKind:
            is_tail = self._is_last and bad.position > walk.last_good
            return FindingKind.BAD_TAIL_BATCH if is_tail else FindingKind.CRC_MISMATCH

        yield from crc_findings(walk.file, self._bad, walk.bad_crcs, crc_kind)
        if walk.fault is not None:
            yield end_finding(walk.file, walk.fault, is_last=self._is_last)
        if walk.unknown_magic_at is not None:
            header = header_at(walk.file, walk.unknown_magic_at)
            yield magic_finding(self._path, walk.unknown_magic_at, header.magic if isinstance(header, Batch) else None)


_MID_LOG = {
    FindingKind.TORN_TAIL: FindingKind.DAMAGED_RANGE,
    FindingKind.ZERO_TAIL: FindingKind.ZEROED_RANGE,
    FindingKind.BAD_TAIL_BATCH: FindingKind.CRC_MISMATCH,
}
"""The kinds of damage at a tail, each with the kind of the same damage in the middle of a log."""


def _are_ordinary(batches: BatchColumns) -> bool:
    """Whether nothing in these headers is special, so that no other question about them has to be asked.

    All are data v2 outside of transactions, with right CRCs and a record for each offset, and without a delete horizon.
    A producer id comes with an epoch and a sequence.
    """
    least, largest, *_, uneven = batches.survey
    # the attributes from this bit on: transactions, control, horizon
    if least.valid <= 0 or largest.attributes >= TRANSACTIONAL_MASK or uneven or least.records_count <= 0:
        return False
    if least.magic != RECORD_BATCH_MAGIC or largest.magic != RECORD_BATCH_MAGIC:
        return False
    if least.producer_id > NO_PRODUCER_ID:
        return least.producer_epoch >= 0 <= least.base_sequence
    return least.producer_id == largest.producer_id == NO_PRODUCER_ID
