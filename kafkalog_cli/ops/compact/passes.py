"""Repeats the cleaning of a log as often as requested, before its output replaces the old segments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from kafkalog_cli.broker.cleaning.cleaner import CleanedGroup, Cleaner, CleaningCounts, CleaningRequest
from kafkalog_cli.broker.cleaning.log import CleanableLog
from kafkalog_cli.broker.cleaning.marking import MarkingRequest, mark, mark_erased
from kafkalog_cli.broker.cleaning.marks import Marks
from kafkalog_cli.broker.cleaning.output import CleanedSegment, FileMaker, IndexLimits
from kafkalog_cli.change.journal import StagingArea
from kafkalog_cli.disk.fs import FileStatus, Filesystem, WritableFile
from kafkalog_cli.disk.names import FileKind, classify_file
from kafkalog_cli.log.partition import Partition, Segment
from kafkalog_cli.ops.compact.plan import Choice, Compaction, CompactPlan, CompactRequest, SegmentChange


class Unit(NamedTuple):
    """Segments of the log, by base offsets, and the segments made from them. `prefix` is the prefix of staged names."""

    sources: tuple[int, ...]
    made: tuple[CleanedSegment, ...]
    prefix: str

    def staged(self) -> list[str]:
        """Return the names of the unit's staged files."""
        return [self.prefix + name for segment in self.made for name in segment.names]


class Unchanged(Exception):
    """Nothing is removed, and every new segment would equal the old."""


def log_of(fs: Filesystem, partition: Partition, plan: CompactPlan, request: CompactRequest) -> CleanableLog:
    """Return the log of a partition for cleaning; if keys are erased and nothing else, the segments with these keys."""
    segments = partition.segments
    if plan.choice is Choice.ERASING_ONLY:
        changed = {base_offset for group in plan.groups for base_offset in group}
        segments = tuple(segment for segment in segments if segment.base_offset in changed)
    return CleanableLog(fs, segments, request.limits, request.kernels)


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


class Passes:
    """The cleaning passes of one run. The first is like a broker's round, each later pass cleans the output again."""

    def __init__(self, log: CleanableLog, plan: CompactPlan, request: CompactRequest) -> None:
        self._log = log
        self._plan = plan
        self._request = request
        self._marks: Marks | None = None
        self._counts: CleaningCounts | None = None
        self._units: list[Unit] = []
        self._done = 0
        self.end_offset = 0

    def mark(self) -> None:
        """Find the records to remove. Raises Damaged."""
        find = mark_erased if self._only_erases else mark
        self._marks = find(self._log, marking_request(self._log.segments, self._plan, self._request))
        self.end_offset = self._marks.end_offset

    @property
    def compaction(self) -> Compaction | None:
        """The result of all passes, None if nothing was cleaned."""
        if self._counts is None:
            return None
        segments = tuple(
            SegmentChange(unit.sources, tuple(segment.base_offset for segment in unit.made)) for unit in self._units
        )
        return Compaction(self.end_offset, self._counts, segments, self._done)

    def measure(self) -> tuple[CleaningCounts, list[MeasuredGroup]]:
        """Clean the log once without writing. Raises Damaged, and the exceptions of opening the files."""
        self.mark()
        assert self._marks is not None
        files = _MeasuredFiles()
        counts, groups = self._clean(self._log, self._marks, files)
        bases = [segment.base_offset for segment in self._log.segments]
        return counts, [
            MeasuredGroup(
                tuple(bases[at] for at in group.sources),
                tuple(segment.base_offset for segment in group.segments),
                tuple(files.sizes[name] for segment in group.segments for name in segment.names),
            )
            for group in groups
        ]

    def write(self, area: StagingArea) -> list[Unit]:
        """Write the cleaned segments, and return the units to swap in.

        Raises Damaged, and Unchanged if a log without dirty part is cleaned again and stays equal.
        """
        assert self._marks is not None
        most = 1 if self._only_erases else self._request.passes
        cleaned = self._clean(self._log, self._marks, _PassFiles(area, self._prefix))
        assert self._plan.dirt is not None
        if most != 1 and not self._plan.dirt.cleanable_bytes and _is_unchanged(*cleaned):
            self._counts = cleaned[0]
            raise Unchanged
        sources = [(segment.base_offset,) for segment in self._log.segments]
        self._take(cleaned, [Unit(each, (), "") for each in sources])
        plan = replace(self._plan, first_dirty=self._plan.log_start_offset or 0)
        while most is None or self._done < most:
            before, log = self._units, self._log_of(area)
            marks = mark(log, marking_request(log.segments, plan, self._request))
            if marks.end_offset < self.end_offset:  # a broker's offset map would be full sooner
                break
            again = self._clean(log, marks, _PassFiles(area, self._prefix))
            if _is_unchanged(*again):
                _remove(area, [Unit((), group.segments, self._prefix) for group in again[1]])
                break
            self._take(again, [unit for unit in before for _ in unit.made])
            _remove(area, before)
        return self._units

    # -- one pass

    @property
    def _only_erases(self) -> bool:
        return self._plan.choice is Choice.ERASING_ONLY

    @property
    def _prefix(self) -> str:
        """The prefix of the file names of the current pass."""
        return f"{self._done}." if self._done else ""

    def _clean(self, log: CleanableLog, marks: Marks, files: FileMaker) -> tuple[CleaningCounts, list[CleanedGroup]]:
        plan, request = self._plan, self._request
        assert plan.dirt is not None
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
        cleaner = Cleaner(log, marks, cleaning, files)
        groups = list(cleaner.groups())
        self._marks = None
        return cleaner.counts, groups

    def _take(self, cleaned: tuple[CleaningCounts, list[CleanedGroup]], read: Sequence[Unit]) -> None:
        """Replace the units with those of a pass. `read` contains the unit of each segment that the pass read.

        The output of one group is swapped in together: units that it read are merged into one.
        """
        counts, groups = cleaned
        found: list[Unit] = []
        before: Unit | None = None
        for group in groups:
            units = [read[at] for at in group.sources]
            last = found.pop() if before is units[0] else Unit((), (), self._prefix)
            sources, made = list(last.sources), (*last.made, *group.segments)
            for unit in units:
                if unit is not before:
                    sources += unit.sources
                before = unit
            found.append(Unit(tuple(sources), made, self._prefix))
        self._units = found
        self._counts = counts if self._counts is None else self._counts.followed_by(counts)
        self._done += 1

    def _log_of(self, area: StagingArea) -> CleanableLog:
        """Return the log as the last pass leaves it."""
        made = [_segment(area, unit.prefix, segment) for unit in self._units for segment in unit.made]
        rest = [segment for segment in self._log.segments if segment.base_offset >= self.end_offset]
        return self._log._replace(segments=(*made, *rest))


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


class _PassFiles:
    """A FileMaker for the files of one pass."""

    def __init__(self, area: StagingArea, prefix: str) -> None:
        self._area = area
        self._prefix = prefix

    def create(self, name: str, mtime_ms: int | None) -> WritableFile:
        return self._area.create(self._prefix + name, mtime_ms)

    def finish(self, file: WritableFile) -> None:
        self._area.finish(file)


def _segment(area: StagingArea, prefix: str, made: CleanedSegment) -> Segment:
    files: dict[FileKind, FileStatus] = {}
    for name in made.names:
        files[classify_file(name).kind] = area.status(prefix + name)
    return Segment(
        made.base_offset,
        files[FileKind.LOG],
        files[FileKind.OFFSET_INDEX],
        files[FileKind.TIME_INDEX],
        files.get(FileKind.TXN_INDEX),
    )


def _is_unchanged(counts: CleaningCounts, groups: Sequence[CleanedGroup]) -> bool:
    """Whether a pass wrote exactly what it read, segment by segment."""
    is_same = counts.bytes_read == counts.bytes_written and not counts.batches_rewritten and not counts.batches_gone
    return is_same and all(len(group.sources) == len(group.segments) == 1 for group in groups)


def _remove(area: StagingArea, units: Sequence[Unit]) -> None:
    for unit in units:
        for name in unit.staged():
            area.remove(name)
