"""Findings about the offsets, the format and the size of a chain of batches, whether bodies or headers are read."""

from collections.abc import Iterator

from kafkalog_cli.disk.fs import FileStatus
from kafkalog_cli.log.partition import MAX_SEGMENT_BYTES
from kafkalog_cli.ops.check.checks.diagnose import Finding, finding
from kafkalog_cli.ops.check.checks.finding_kinds import FindingKind
from kafkalog_cli.ops.check.checks.segment_walk import BatchRun

MAX_INT32 = (1 << 31) - 1


def size_finding(log: FileStatus) -> Iterator[Finding]:
    """Yield the finding about a segment that is too large."""
    if log.size_bytes > MAX_SEGMENT_BYTES:
        message = f"{log.size_bytes} bytes"
        yield finding(FindingKind.SEGMENT_TOO_LARGE, log.path, message, expected="under 2 GiB", got=message)


def outside_finding(path: str, batch_run: BatchRun, base_offset: int) -> Finding | None:
    """Return the finding about the first batch with offsets that do not belong to a segment; None if all do.

    They are negative, below the segment's base offset, or more than 2^31 - 1 above it. Only the first batch may begin
    below the base offset: a segment may be named after an offset inside it.
    """
    limit = base_offset + MAX_INT32
    if _lowest(batch_run, 0) >= base_offset and batch_run.last_reached <= limit:
        return None
    rows = range(len(batch_run.batches))
    found = (row for row in rows if _lowest(batch_run, row) < base_offset or batch_run.last_offset[row] > limit)
    row = next(found, None)
    if row is None:
        return None
    message, expected = "offsets {} do not belong to the segment", f"{base_offset} to {limit}"
    return _offsets_finding(FindingKind.OFFSET_OUTSIDE_SEGMENT, path, batch_run, row, (message, expected))


def _lowest(batch_run: BatchRun, row: int) -> int:
    """Return the first offset of a batch; for the first batch of a segment, the last one.

    A negative offset belongs to no segment.
    """
    first, last = batch_run.offsets_of(row)
    return first if first < 0 or batch_run.batches.position[row] else last


def disorder_finding(path: str, batch_run: BatchRun, row: int) -> Finding:
    """Return the finding about a batch whose offsets are not above those of the batches before it."""
    before = batch_run.offset_before(row)
    texts = f"offsets do not ascend: {{}} after {before}", f"above {before}"
    return _offsets_finding(FindingKind.OFFSETS_NOT_ASCENDING, path, batch_run, row, texts)


def beyond_finding(path: str, batch_run: BatchRun, row: int, next_offset: int) -> Finding:
    """Return the finding about a batch with offsets that the next segment, from `next_offset` on, should have."""
    message = f"offsets {{}} are not below the next segment's, which begins at {next_offset}"
    return _offsets_finding(FindingKind.OFFSETS_NOT_ASCENDING, path, batch_run, row, (message, f"below {next_offset}"))


def _offsets_finding(kind: FindingKind, path: str, batch_run: BatchRun, row: int, texts: tuple[str, str]) -> Finding:
    """Return a finding about the offsets of a batch, which replace {} in the message; `texts`: message, expected."""
    first, last = batch_run.offsets_of(row)
    got = f"{first} to {last}"
    return finding(
        kind, path, texts[0].format(got), position=int(batch_run.batches.position[row]), expected=texts[1], got=got,
        offsets=(min(first, last), max(first, last)),
    )  # fmt: skip


def magic_finding(path: str, position: int, magic: int | None) -> Finding:
    """Return the finding about a batch of an unknown format; `magic` is None if it could not be read again."""
    message, got = "a batch with a magic that no Kafka version writes", "" if magic is None else str(magic)
    return finding(FindingKind.UNKNOWN_MAGIC, path, message, position=position, expected="0 to 2", got=got)
