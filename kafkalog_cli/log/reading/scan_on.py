"""Scan one segment to its end, even if it is damaged: the scan continues with the next good batch after the damage."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kafkalog_cli.disk.fs import ReadableFile
from kafkalog_cli.disk.kernels import KernelChoice
from kafkalog_cli.format.batch import BatchColumns
from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits
from kafkalog_cli.log.reading.scan import Generation, Scan

ScanFrom = Callable[[int], Scan]
"""A function that returns the scan of a file from a byte position on."""


class ScanOn:
    """Iterate over the scans of a file. Each scan must be iterated to its end before the next is requested.

    After a scan that ended at damage, the next scan starts at the next good batch that starts before byte `end`. The
    search starts after the last good batch of the ended scan.

    `passed_over` is the damage before the current scan, with the number of skipped bytes; None for the first scan.
    After the iteration, `fault` is the damage after which no good batch follows (None: there is none), and
    `valid_bytes` is the end position of the last scan.
    """

    def __init__(self, file: ReadableFile, start: int, end: int, limits: Limits, scan: ScanFrom) -> None:
        self.valid_bytes = start
        self.passed_over: Fault | None = None
        self.fault: Fault | None = None
        self._file = file
        self._end = end
        self._limits = limits
        self._scan = scan

    def __iter__(self) -> Iterator[Scan]:
        start: int | None = self.valid_bytes
        while start is not None:
            scan = self._scan(start)
            yield scan
            self.valid_bytes = scan.valid_bytes
            if scan.fault is None or not self.is_damage(scan.fault):
                return
            start = self._next_good(scan)
            if start is None:
                self.fault = scan.fault
                return
            begin = scan.valid_bytes if scan.valid_bytes < start else scan.good_bytes
            self.passed_over = _skipped(begin, start, scan.fault)

    def is_damage(self, fault: Fault) -> bool:
        """Whether a scan ended at damage, and not just at `end` in the middle of a batch."""
        return fault.kind is not FaultKind.TRAILING_BYTES or self._end >= self._file.size_bytes

    def _next_good(self, scan: Scan) -> int | None:
        from kafkalog_cli.log.reading.resync import next_good_batch

        broken_at, seven = scan.good_bytes, scan.generation is Generation.SEVEN
        found = next_good_batch(self._file, broken_at + 1, self._limits, seven=seven, broken_at=broken_at)
        return found if found is not None and found < self._end else None


def batches_across_damage(
    file: ReadableFile, start: int, limits: Limits = DEFAULT_LIMITS, choice: KernelChoice | None = None
) -> Iterator[BatchColumns]:
    """Yield the batches from byte `start` to the end of a file since 0.8. Damage between them is skipped."""
    scans = ScanOn(file, start, file.size_bytes, limits, lambda at: Scan(file, start=at, limits=limits, choice=choice))
    for scan in scans:
        for chunk in scan:
            yield chunk.batches


def _skipped(begin: int, end: int, fault: Fault) -> Fault:
    return Fault(fault.kind, begin, f"skipped {end - begin} bytes: {fault.message}", end - begin)
