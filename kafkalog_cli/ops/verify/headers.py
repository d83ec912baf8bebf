"""Check chains of batch headers, without the CRCs of batches."""

from collections.abc import Iterator
from itertools import zip_longest

from kafkalog_cli.disk.fs import ReadableFile
from kafkalog_cli.errors import KafkalogError
from kafkalog_cli.format.batch import NO_TIMESTAMP
from kafkalog_cli.format.columns import least_and_largest
from kafkalog_cli.format.fault import unreadable
from kafkalog_cli.log.log_end import LogBounds
from kafkalog_cli.log.partition import Segment
from kafkalog_cli.log.reading.header import Headers
from kafkalog_cli.log.reading.resync import next_good_batch
from kafkalog_cli.ops.checks.diagnose import Finding, finding
from kafkalog_cli.ops.checks.finding_kinds import FindingKind
from kafkalog_cli.ops.checks.segment_reports import ReadContext
from kafkalog_cli.ops.checks.segment_walk import MAX_MAGIC, BatchRun
from kafkalog_cli.ops.verify.chain_findings import (
    beyond_finding,
    disorder_finding,
    magic_finding,
    outside_finding,
    size_finding,
)
from kafkalog_cli.ops.verify.damaged_bytes import end_finding, negative_magic_findings, range_finding
from kafkalog_cli.ops.verify.gaps import cleaner_wrote, has_gap
from kafkalog_cli.ops.verify.task import Totals, VerifyTask


class HeaderCheck:
    """Check the batch headers of a partition's segments.

    After `findings` has been consumed, `totals` and `end_offset` are set; `end_offset` is None if no segment could be
    opened. `has_tail_damage` means the same as in LogCheck, which also checks CRCs. `was_cleaned`: a batch or a gap
    between batches shows that the cleaner has run.
    """

    def __init__(self, read_context: ReadContext, task: VerifyTask) -> None:
        self.totals = Totals()
        self.end_offset: int | None = None
        self.has_tail_damage = False
        self.was_cleaned = False
        self._context = read_context
        self._task = task

    @property
    def log(self) -> LogBounds | None:
        """The offsets of the log, None if no segment could be opened."""
        segments = self._task.partition.segments
        return None if self.end_offset is None or not segments else LogBounds(segments[0].base_offset, self.end_offset)

    def findings(self) -> Iterator[Finding]:
        """Yield the findings, in the order of the log."""
        segments = self._task.partition.segments
        end: int | None = None
        for segment, following in zip_longest(segments, segments[1:]):
            before, end = end, None
            if not self._task.wants(segment.log.path):
                continue
            next_offset = None if following is None else following.base_offset
            try:
                with self._context.fs.open_read(segment.log.path) as file:
                    yield from self._segment(file, segment, before, next_offset)
                    end = self.end_offset
            except KafkalogError as error:
                yield finding(FindingKind.NOT_READ, segment.log.path, unreadable(error).message)

    def _segment(
        self, file: ReadableFile, segment: Segment, before: int | None, next_offset: int | None
    ) -> Iterator[Finding]:
        """Yield the findings in a segment. `before` is the end of the segment before it, None if that is not known."""
        path, context = segment.log.path, self._context
        self.totals.segments += 1
        self.totals.bytes += segment.log.size_bytes
        yield from size_finding(segment)
        if before is not None and segment.base_offset > before:
            last = segment.base_offset - 1
            message = f"no segment covers offsets {before} to {last}"
            yield finding(FindingKind.OFFSET_GAP, path, message, offsets=(before, last))
        reached, told = segment.base_offset - 1, False
        start: int | None = 0
        while start is not None:
            reader = Headers(file, start=start)
            for batches in reader.columns():
                self.totals.batches += len(batches)
                batch_run = BatchRun(batches, reached, NO_TIMESTAMP, is_after_damage=False)
                begins_behind = batches.position[0] > start and batches.base_offset[0] > reached + 1
                self.was_cleaned = self.was_cleaned or begins_behind or cleaner_wrote(batches) or has_gap(batch_run)
                problem = None if told else _problem(path, batch_run, segment.base_offset, next_offset)
                if problem is not None:
                    told = True
                    yield problem
                reached = max(reached, batch_run.reached[-1])
            start = None
            if reader.fault is not None:
                broken = end = reader.fault.position
                for size_bytes, found in negative_magic_findings(file, path, broken, file.size_bytes):
                    end += size_bytes
                    reached = max(reached, found.last_offset or 0)
                    yield found
                if end > broken:  # a broker keeps these messages, so the chain continues after them
                    start = end if end < file.size_bytes else None
                    continue
                start = next_good_batch(file, broken + 1, context.limits, broken_at=broken)
                if start is None:
                    self.has_tail_damage = next_offset is None
                    yield end_finding(file, reader.fault, is_last=next_offset is None)
                else:
                    yield range_finding(file, broken, start)
        self.end_offset = reached + 1


def _problem(path: str, batch_run: BatchRun, base_offset: int, next_offset: int | None) -> Finding | None:
    """Return a finding for the first problem in the headers: disordered offsets, else an unknown magic.

    Offsets are disordered, too, if they reach `next_offset`, where the next segment begins, or do not belong to the
    segment with this base offset.

    None if there is no problem.
    """
    row = batch_run.first_disordered
    if row is not None:
        return disorder_finding(path, batch_run, row)
    row = batch_run.first_beyond(next_offset)
    if row is not None and next_offset is not None:
        return beyond_finding(path, batch_run, row, next_offset)
    outside = outside_finding(path, batch_run, base_offset)
    if outside is not None:
        return outside
    magic = batch_run.batches.magic
    if least_and_largest(magic)[1] <= MAX_MAGIC:
        return None
    row = next(row for row, value in enumerate(magic) if value > MAX_MAGIC)
    return magic_finding(path, batch_run.position[row], int(magic[row]))
