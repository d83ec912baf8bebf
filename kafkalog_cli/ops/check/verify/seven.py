"""Check the messages of Kafka 0.7, which have no batches."""

from kafkalog_cli.disk.fs import ReadableFile
from kafkalog_cli.errors import ExitCode, KafkalogError
from kafkalog_cli.format.batch import Batch
from kafkalog_cli.format.fault import unreadable
from kafkalog_cli.log.log_end import LogBounds
from kafkalog_cli.log.partition import Segment
from kafkalog_cli.log.reading.records import RecordReader
from kafkalog_cli.log.reading.scan import DamagePolicy, Scan, good_rows
from kafkalog_cli.ops.check.checks.damaged_bytes import crc_findings, range_finding, range_kind
from kafkalog_cli.ops.check.checks.diagnose import finding, of_fault
from kafkalog_cli.ops.check.checks.finding_kinds import MAX_FINDINGS, FindingKind
from kafkalog_cli.ops.check.checks.log_check import LogCheck
from kafkalog_cli.ops.check.checks.partition_check import ReadContext
from kafkalog_cli.ops.check.checks.records import RecordsCheck
from kafkalog_cli.ops.check.verify.task import VerifyTask
from kafkalog_cli.ops.choices import Level
from kafkalog_cli.ops.damage import DamageSeen


def check_seven(read_context: ReadContext, task: VerifyTask, check: LogCheck) -> LogBounds | None:
    """Check the segments of a partition of 0.7, which has no files beside the log; return the offsets of the log.

    Adds the findings, in the order of the log, and the totals to `check`. None: no segment is wanted.
    """
    segments = task.partition.segments
    end: int | None = None
    log: LogBounds | None = None
    for segment in segments:
        before, end = end, segment.base_offset + segment.log.size_bytes
        if not task.wants(segment.log.path):
            continue
        if before is not None and segment.base_offset > before:
            message = f"no segment holds positions {before} to {segment.base_offset - 1}"
            check.findings.append(finding(FindingKind.MISSING_OFFSETS, segment.log.path, message))
        try:
            with read_context.fs.open_read(segment.log.path) as file:
                log_end = _check_segment(read_context, task, check, file, segment)
        except KafkalogError as error:
            check.findings.append(finding(FindingKind.NOT_READ, segment.log.path, unreadable(error).message))
        else:
            log = LogBounds(segments[0].base_offset, log_end)
    if task.advance is not None:
        task.advance(check.totals.bytes, task.partition.path)
    return log


def _check_segment(
    read_context: ReadContext, task: VerifyTask, check: LogCheck, file: ReadableFile, segment: Segment
) -> int:
    """Check the messages of one segment and, at the level deep, their records; return its end in bytes of the log."""
    limits, path, totals = read_context.limits, segment.log.path, check.totals
    totals.segments += 1
    totals.bytes += segment.log.size_bytes
    damage, records = DamageSeen(), RecordsCheck(task.now_ms)
    decoder = RecordReader(limits, strict=True)
    bad: list[Batch] = []
    reader = Scan(file, DamagePolicy.RESYNC, limits=limits, v07_base_offset=segment.base_offset)
    for chunk in reader:
        if chunk.damage is not None:
            damage.fault(chunk.damage.fault)
            start, end = chunk.damage.fault.position, chunk.damage.end
            check.findings.append(range_finding(file, start, end, "message", "messages"))
        damage.batches(chunk.batches)
        totals.batches += len(chunk.batches)
        bad += (batch for batch in chunk.batches.rows() if not batch.valid)
        for first, end in good_rows(chunk.batches) if task.level is Level.DEEP else ():
            for block in decoder.blocks(chunk, first, end):
                totals.records += len(block.records)
                records.see(block)
    broken = reader.fault
    if broken is not None:
        damage.fault(broken)
        is_last = segment is task.partition.segments[-1]
        kind = range_kind(file, broken.position, file.size_bytes, is_tail=is_last)
        check.findings.append(of_fault(path, broken, kind))
    code = damage.exit_code(read_context.fs, file, reader.end_position, limits)
    kind = FindingKind.BAD_TAIL_BATCH if code is ExitCode.WARNINGS else FindingKind.CRC_MISMATCH
    check.findings += crc_findings(file, bad[:MAX_FINDINGS], len(bad), lambda _: kind, is_v07=True)
    check.findings += records.findings(path)
    return segment.base_offset + reader.good_bytes
