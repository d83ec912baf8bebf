"""Follows the batch headers of a log: the time span of each segment, bytes over time, and holes in the offsets."""

from __future__ import annotations

from heapq import nlargest
from typing import TYPE_CHECKING, NamedTuple

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.disk.kernels import KernelChoice
from kafkalog_cli.errors import ExitCode
from kafkalog_cli.format.batch import DELETE_HORIZON_MASK, NO_OFFSET, RECORD_BATCH_MAGIC, TIMESTAMP_TYPE_MASK
from kafkalog_cli.format.fault import Fault
from kafkalog_cli.format.limits import DEFAULT_LIMITS
from kafkalog_cli.log.partition import Segment
from kafkalog_cli.log.reading.segment_reader import SegmentReader
from kafkalog_cli.ops.damage import DamageSeen
from kafkalog_cli.ops.stats.contents import TimeCounter, TimeCounts

if TYPE_CHECKING:
    from kafkalog_cli.format.batch import BatchArrays

MOST_PERIODS = 128
"""Periods of a partition: thousands of partitions are kept in memory until all are printed on one axis."""
MOST_HOLES = 20
"""Holes of a partition that are kept one by one, the largest."""
_KEPT_HOLES = 1000


class Hole(NamedTuple):
    """Offsets that no batch covers, both inclusive.

    `before_ms` and `after_ms` are the timestamps of the batches around them, None if they are not known.
    """

    first_offset: int
    last_offset: int
    before_ms: int | None
    after_ms: int | None

    @property
    def offsets(self) -> int:
        """The number of missing offsets."""
        return self.last_offset - self.first_offset + 1


class WalkedSegment(NamedTuple):
    """The batches of a segment. Timestamps in ms are those of batch headers, None without one."""

    batches: int = 0
    first_timestamp_ms: int | None = None
    last_timestamp_ms: int | None = None


class LogWalk:
    """Follows the segments of one log in order. Offsets below `log_start` (None: unknown) are in no hole.

    A segment is followed up to its first damage. Segments of Kafka 0.7 have no headers and are left out.
    """

    def __init__(self, fs: Filesystem, log_start: int | None, kernels: KernelChoice | None) -> None:
        self._fs = fs
        self._log_start = log_start or 0
        self._kernels = kernels
        self._times = TimeCounter(MOST_PERIODS)
        self._holes: list[Hole] = []
        self._next_offset: int | None = None
        self._last_ms: int | None = None
        self.hole_count = 0
        self.hole_offsets = 0
        self.faults: list[tuple[str, Fault]] = []
        self.codes: list[ExitCode] = []

    def follow(self, segment: Segment) -> WalkedSegment:
        """Follow one segment. Raises the exceptions of `open_read`."""
        if segment.is_seven:
            return WalkedSegment()
        path, found = segment.log.path, WalkedSegment()
        if self._next_offset is None:
            self._next_offset = segment.base_offset
        with self._fs.open_read(path) as file:
            reader = SegmentReader(file, kernels=self._kernels)
            for columns in reader.header_columns():
                found = self._take(columns.arrays(), found)
            if reader.fault is not None:
                damage = DamageSeen()
                damage.fault(reader.fault)
                self.codes.append(damage.exit_code(self._fs, file, reader.end_position, DEFAULT_LIMITS))
                self.faults.append((path, reader.fault))
                self._next_offset = None  # damage hides offsets, which are not missing
        return found

    @property
    def largest_holes(self) -> tuple[Hole, ...]:
        """The largest holes, in the order of their offsets."""
        return tuple(sorted(nlargest(MOST_HOLES, self._holes, key=lambda hole: hole.offsets)))

    @property
    def bytes_over_time(self) -> TimeCounts:
        """The bytes of batches by their largest timestamps."""
        return self._times.result()

    def _take(self, batches: BatchArrays, found: WalkedSegment) -> WalkedSegment:
        import numpy as np

        last_ms = batches.max_timestamp
        # A delete horizon replaces the base timestamp, and the producer's does not count with LogAppendTime.
        has_first = (batches.magic >= RECORD_BATCH_MAGIC) & (
            batches.attributes & (DELETE_HORIZON_MASK | TIMESTAMP_TYPE_MASK) == 0
        )
        first_ms = np.where(has_first, batches.base_timestamp, last_ms)
        self._find_holes(batches)
        timed = np.flatnonzero(last_ms >= 0)
        if len(timed):
            self._times.add(last_ms[timed], batches.size_bytes[timed])
            self._last_ms = int(last_ms[timed[-1]])
        first, last = _least(first_ms[first_ms >= 0].tolist(), found.first_timestamp_ms), found.last_timestamp_ms
        if len(timed):
            last = max(int(last_ms.max()), -1 if last is None else last)
        return WalkedSegment(found.batches + len(batches), first, last)

    def _find_holes(self, batches: BatchArrays) -> None:
        """Note the offsets between batches. Compressed message sets do not say where they begin."""
        import numpy as np

        bases, lasts, times = batches.base_offset, batches.last_offset, batches.max_timestamp
        expected = int(bases[0]) if self._next_offset is None else self._next_offset
        ends = np.concatenate(([expected], lasts[:-1] + 1))
        for row in np.flatnonzero((bases != NO_OFFSET) & (bases > ends)).tolist():
            first, last = max(int(ends[row]), self._log_start), int(bases[row]) - 1
            if first <= last:
                before = int(times[row - 1]) if row else self._last_ms
                self._add(Hole(first, last, _known(before), _known(int(times[row]))))
        self._next_offset = int(lasts[-1]) + 1

    def _add(self, hole: Hole) -> None:
        self.hole_count += 1
        self.hole_offsets += hole.offsets
        self._holes.append(hole)
        if len(self._holes) > _KEPT_HOLES:
            self._holes = nlargest(MOST_HOLES, self._holes, key=lambda one: one.offsets)


def _least(values: list[int], known: int | None) -> int | None:
    return min((*values, *([] if known is None else [known])), default=None)


def _known(timestamp_ms: int | None) -> int | None:
    return None if timestamp_ms is None or timestamp_ms < 0 else timestamp_ms
