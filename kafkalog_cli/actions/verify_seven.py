"""Segments of Kafka 0.7: their messages, the CRCs, what is compressed in them; offsets are positions in bytes."""

from __future__ import annotations

from collections.abc import Iterator

from kafkalog_cli.actions.damage import DamageSeen
from kafkalog_cli.actions.diagnose import Finding, finding, of_fault
from kafkalog_cli.actions.finding_kinds import FindingKind
from kafkalog_cli.actions.log_range import LogRange
from kafkalog_cli.actions.segment_reports import Means
from kafkalog_cli.actions.segment_walk import good_rows
from kafkalog_cli.actions.verify_log import MAX_TOLD, Totals, begins_with_zeros
from kafkalog_cli.actions.verify_records import RecordsCheck
from kafkalog_cli.errors import ExitCode, KafkalogError
from kafkalog_cli.format.batch import BatchColumns
from kafkalog_cli.storage.fs import ReadableFile
from kafkalog_cli.storage.partition import Partition, Segment
from kafkalog_cli.storage.read import RecordReader
from kafkalog_cli.storage.resync import next_good_batch
from kafkalog_cli.storage.scan import Scan
from kafkalog_cli.storage.unreadable import unreadable


class SevenCheck:
    """Looks at the 0.7 segments of a partition; afterwards `totals` and `log` (None: there is none)."""

    def __init__(
        self,
        means: Means,
        partition: Partition,
        now_ms: int,
        *,
        wants_records: bool,
        only: frozenset[str] | None = None,
    ) -> None:
        self.totals = Totals()
        self.log: LogRange | None = None
        self._means = means
        self._now_ms = now_ms
        self._wants_records = wants_records
        self._segments = [
            segment
            for segment in partition.segments
            if segment.is_seven and (only is None or segment.log.path.rpartition("/")[2] in only)
        ]

    def findings(self) -> Iterator[Finding]:
        """What was found, in the order of the log."""
        end: int | None = None
        for segment in self._segments:
            if end is not None and segment.base_offset > end:
                message = f"no segment holds positions {end} to {segment.base_offset - 1}"
                yield finding(FindingKind.MISSING_OFFSETS, segment.log.path, message)
            try:
                with self._means.fs.open_read(segment.log.path) as file:
                    yield from self._segment(file, segment)
            except KafkalogError as error:
                yield finding(FindingKind.NOT_READ, segment.log.path, unreadable(error).message)
            end = segment.base_offset + segment.log.size_bytes

    def _segment(self, file: ReadableFile, segment: Segment) -> Iterator[Finding]:
        limits, path, totals = self._means.limits, segment.log.path, self.totals
        totals.segments += 1
        totals.bytes += segment.log.size_bytes
        seen, records = DamageSeen(), RecordsCheck(self._now_ms, has_offsets=False)
        reader = RecordReader(limits)
        bad: list[tuple[int, int]] = []
        start: int | None = 0
        found: list[Finding] = []
        scanned = 0
        while start is not None:
            scan = Scan(file, start=start, limits=limits, seven_base_offset=segment.base_offset)
            for chunk in scan:
                seen.batches(chunk.batches)
                totals.batches += len(chunk.batches)
                bad += _bad_crcs(chunk.batches)
                for first, end in good_rows(chunk) if self._wants_records else ():
                    for block in reader.blocks(chunk, first, end):
                        totals.records += len(block.records)
                        records.see(block)
            scanned, start = scan.valid_bytes, None
            if scan.fault is not None:
                seen.fault(scan.fault)
                broken = max(seen.good_end, scanned)
                start = next_good_batch(file, broken + 1, limits, seven=True, broken_at=broken)
                zeros = begins_with_zeros(file, scan.fault.position, file.size_bytes if start is None else start)
                is_tail = start is None and segment is self._segments[-1]
                kinds = _TAIL if is_tail else _MID_LOG
                found.append(of_fault(path, scan.fault, kinds[zeros]))
        code = seen.exit_code(self._means.fs, file, scanned, limits)
        for position, size in bad[:MAX_TOLD]:
            kind = FindingKind.BAD_TAIL_BATCH if code is ExitCode.WARNINGS else FindingKind.CRC_MISMATCH
            found.append(finding(kind, path, f"the CRC of a message of {size} bytes does not match", position=position))
        if len(bad) > MAX_TOLD:
            message = f"{len(bad) - MAX_TOLD} more messages whose CRC does not match"
            found.append(finding(FindingKind.CRC_MISMATCH, path, message))
        self.log = LogRange(self._segments[0].base_offset, segment.base_offset + max(seen.good_end, 0))
        yield from found
        yield from records.findings(path)


_TAIL = (FindingKind.TORN_TAIL, FindingKind.ZERO_TAIL)
_MID_LOG = (FindingKind.DAMAGED_RANGE, FindingKind.ZEROED_RANGE)


def _bad_crcs(batches: BatchColumns) -> list[tuple[int, int]]:
    """Position and size of what does not match its CRC."""
    return [(batch.position, batch.size_bytes) for batch in batches.rows() if not batch.valid]
