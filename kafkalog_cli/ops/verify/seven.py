"""Check the messages of Kafka 0.7, which have no batches."""

from collections.abc import Iterator

from kafkalog_cli.disk.fs import ReadableFile
from kafkalog_cli.errors import ExitCode, KafkalogError
from kafkalog_cli.format.batch import BatchColumns
from kafkalog_cli.format.fault import unreadable
from kafkalog_cli.log.log_end import LogBounds
from kafkalog_cli.log.partition import Segment
from kafkalog_cli.log.reading.records import RecordReader
from kafkalog_cli.log.reading.scan import Chunk, DamagePolicy, Scan, good_rows
from kafkalog_cli.ops.checks.damaged_bytes import BadBatch, crc_findings, range_finding, range_kind
from kafkalog_cli.ops.checks.diagnose import Finding, finding, of_fault
from kafkalog_cli.ops.checks.finding_kinds import MAX_TOLD, FindingKind
from kafkalog_cli.ops.checks.log_check import Totals
from kafkalog_cli.ops.checks.partition_check import ReadContext
from kafkalog_cli.ops.checks.records import RecordsCheck
from kafkalog_cli.ops.damage import DamageSeen
from kafkalog_cli.ops.verify.task import Level, VerifyTask


class SevenCheck:
    """Checks the segments of a partition of 0.7; `findings` also sets `totals` and `log` (None: no segment is wanted).

    Records are checked at the level deep, and then count in `totals`.
    """

    def __init__(self, read_context: ReadContext, task: VerifyTask) -> None:
        self.totals = Totals()
        self.log: LogBounds | None = None
        self._read_context = read_context
        self._task = task

    def findings(self) -> Iterator[Finding]:
        """Yield the findings, in the order of the log."""
        segments = self._task.partition.segments
        end: int | None = None
        for segment in segments:
            before, end = end, segment.base_offset + segment.log.size_bytes
            if not self._task.wants(segment.log.path):
                continue
            if before is not None and segment.base_offset > before:
                message = f"no segment holds positions {before} to {segment.base_offset - 1}"
                yield finding(FindingKind.MISSING_OFFSETS, segment.log.path, message)
            try:
                with self._read_context.fs.open_read(segment.log.path) as file:
                    yield from self._segment(file, segment, is_last=segment is segments[-1])
            except KafkalogError as error:
                yield finding(FindingKind.NOT_READ, segment.log.path, unreadable(error).message)

    def _segment(self, file: ReadableFile, segment: Segment, *, is_last: bool) -> Iterator[Finding]:
        limits, path, totals = self._read_context.limits, segment.log.path, self.totals
        totals.segments += 1
        totals.bytes += segment.log.size_bytes
        seen, records = DamageSeen(), RecordsCheck(self._task.now_ms)
        decoder = RecordReader(limits, strict=True)
        bad: list[BadBatch] = []
        found: list[Finding] = []
        reader = Scan(file, DamagePolicy.RESYNC, limits=limits, seven_base_offset=segment.base_offset)
        for chunk in reader:
            if chunk.damage is not None:
                seen.fault(chunk.damage.fault)
                found.append(range_finding(file, chunk.damage.fault.position, chunk.damage.end, "message", "messages"))
            seen.batches(chunk.batches)
            totals.batches += len(chunk.batches)
            bad += _bad_crcs(chunk.batches)
            self._look_into(chunk, decoder, records)
        broken = reader.fault
        if broken is not None:
            seen.fault(broken)
            kind = range_kind(file, broken.position, file.size_bytes, is_tail=is_last)
            found.append(of_fault(path, broken, kind))
        code = seen.exit_code(self._read_context.fs, file, reader.end_position, limits)
        kind = FindingKind.BAD_TAIL_BATCH if code is ExitCode.WARNINGS else FindingKind.CRC_MISMATCH
        found += crc_findings(file, bad[:MAX_TOLD], len(bad), lambda _: kind)
        self.log = LogBounds(self._task.partition.segments[0].base_offset, segment.base_offset + reader.good_bytes)
        yield from found
        yield from records.findings(path)

    def _look_into(self, chunk: Chunk, decoder: RecordReader, records: RecordsCheck) -> None:
        for first, end in good_rows(chunk.batches) if self._task.level is Level.DEEP else ():
            for block in decoder.blocks(chunk, first, end):
                self.totals.records += len(block.records)
                records.see(block)


def _bad_crcs(batches: BatchColumns) -> list[BadBatch]:
    """Return the messages whose CRC does not match."""
    return [
        BadBatch(batch.position, batch.size_bytes, batch.magic, is_seven=True)
        for batch in batches.rows()
        if not batch.valid
    ]
