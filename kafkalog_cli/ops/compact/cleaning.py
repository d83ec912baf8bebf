"""Cleans a log into new files, before these replace the old segments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kafkalog_cli.broker.cleaning.cleaner import CleanedGroup, Cleaner, CleaningCounts, CleaningRequest
from kafkalog_cli.broker.cleaning.log import CleanableLog
from kafkalog_cli.broker.cleaning.marking import MarkingRequest, mark, mark_erased
from kafkalog_cli.broker.cleaning.marks import Marks
from kafkalog_cli.broker.cleaning.output import FileMaker, IndexLimits
from kafkalog_cli.change.journal import StagingArea
from kafkalog_cli.disk.fs import Filesystem, WritableFile
from kafkalog_cli.log.partition import Partition, Segment
from kafkalog_cli.ops.compact.plan import Choice, Compaction, CompactPlan, CompactRequest, SegmentChange


def log_of(fs: Filesystem, partition: Partition, plan: CompactPlan, request: CompactRequest) -> CleanableLog:
    """Return the log of a partition for cleaning; if keys are erased and nothing else, the segments with these keys."""
    segments = partition.segments
    if plan.choice is Choice.ERASING_ONLY:
        changed = {base_offset for group in plan.groups for base_offset in group}
        segments = tuple(segment for segment in segments if segment.base_offset in changed)
    return CleanableLog(fs, segments, request.limits)


def marking_request(segments: Sequence[Segment], plan: CompactPlan, request: CompactRequest) -> MarkingRequest:
    """Return the request that finds the removable records, with keys collected from `plan.first_dirty` on."""
    assert plan.dirt is not None
    clean = [segment for segment in segments if segment.base_offset < plan.first_dirty]
    return MarkingRequest(
        plan.first_dirty,
        plan.dirt.first_uncleanable,
        request.now_ms,
        clean[-1].log.mtime_ms - plan.number_of("delete.retention.ms") if clean else 0,
        request.memory_bytes,
        request.most_keys,
        request.erased,
    )


class LogCleaning:
    """The cleaning of one log, as in a broker's round."""

    def __init__(self, log: CleanableLog, plan: CompactPlan, request: CompactRequest) -> None:
        self._log = log
        self._plan = plan
        self._request = request
        self._marks: Marks | None = None
        self._counts: CleaningCounts | None = None
        self._groups: list[CleanedGroup] = []
        self.end_offset = 0

    def mark(self) -> None:
        """Find the records to remove. Raises Damaged."""
        find = mark_erased if self._only_erases else mark
        self._marks = find(self._log, marking_request(self._log.segments, self._plan, self._request))
        self.end_offset = self._marks.end_offset

    @property
    def compaction(self) -> Compaction | None:
        """The result, None if nothing was cleaned."""
        if self._counts is None:
            return None
        segments = tuple(
            SegmentChange(group.sources, tuple(segment.base_offset for segment in group.segments))
            for group in self._groups
        )
        return Compaction(self.end_offset, segments, self._counts)

    def measure(self) -> tuple[CleaningCounts, list[MeasuredGroup]]:
        """Clean the log without writing. Raises Damaged, and the exceptions of opening the files."""
        self.mark()
        files = _MeasuredFiles()
        counts, groups = self._clean(files)
        return counts, [
            MeasuredGroup(
                group.sources,
                tuple(segment.base_offset for segment in group.segments),
                tuple(files.sizes[name] for segment in group.segments for name in segment.names),
            )
            for group in groups
        ]

    def write(self, area: StagingArea) -> list[CleanedGroup]:
        """Write the cleaned segments, and return the groups. Raises Damaged."""
        self._counts, self._groups = self._clean(area)
        return self._groups

    @property
    def _only_erases(self) -> bool:
        return self._plan.choice is Choice.ERASING_ONLY

    def _clean(self, files: FileMaker) -> tuple[CleaningCounts, list[CleanedGroup]]:
        plan, request, marks = self._plan, self._request, self._marks
        assert plan.dirt is not None
        assert marks is not None
        cleaning = CleaningRequest(
            request.now_ms,
            plan.number_of("delete.retention.ms"),
            plan.dirt.first_uncleanable,
            plan.number_of(plan.settings[-1].name),
            IndexLimits(plan.number_of("index.interval.bytes"), plan.number_of("segment.index.bytes")),
            plan.producers,
            plan.retained_end(request.version),
            self._only_erases,
        )
        cleaner = Cleaner(self._log, marks, cleaning, files)
        groups = list(cleaner.groups())
        return cleaner.counts, groups


class MeasuredGroup(NamedTuple):
    """Segments that a cleaning replaces, by base offsets, and the sizes of the files that replace them."""

    sources: tuple[int, ...]
    base_offsets: tuple[int, ...]
    file_bytes: tuple[int, ...]


class _MeasuredFiles:
    """A FileMaker that keeps the size of each file and none of its bytes."""

    def __init__(self) -> None:
        self.sizes: dict[str, int] = {}

    def create(self, name: str, mtime_ms: int | None) -> WritableFile:
        return _MeasuredFile(name)

    def finish(self, file: WritableFile) -> None:
        assert isinstance(file, _MeasuredFile)
        self.sizes[file.path] = file.size_bytes


class _MeasuredFile:
    """A WritableFile without bytes."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.size_bytes = 0

    def write(self, position: int, data: bytes | memoryview) -> None:
        self.size_bytes = max(self.size_bytes, position + len(data))

    def truncate(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes

    def sync(self) -> None: ...

    def close(self) -> None: ...

    def __enter__(self) -> WritableFile:
        return self

    def __exit__(self, *_: object) -> None: ...
