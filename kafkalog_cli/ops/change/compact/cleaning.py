"""Cleans a log into new files, which replace the old segments; or only counts or explains what that would do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from kafkalog_cli.broker.cleaning.cleaner import CleanedGroup, Cleaner, CleaningCounts, CleaningRequest
from kafkalog_cli.broker.cleaning.explaining import RecordFate, explain_key
from kafkalog_cli.broker.cleaning.key_table import SoughtKeys
from kafkalog_cli.broker.cleaning.log import CleanableLog
from kafkalog_cli.broker.cleaning.marking import MEMORY_BYTES, MarkingRequest, mark, mark_erased
from kafkalog_cli.broker.cleaning.marks import Marks
from kafkalog_cli.broker.cleaning.output import FileMaker, IndexLimits
from kafkalog_cli.change import journal
from kafkalog_cli.change.changes import Change, Drop, Move, Put, Staged
from kafkalog_cli.change.journal import StagingArea
from kafkalog_cli.change.manifest import Manifest, RunInfo
from kafkalog_cli.disk.fs import WritableFilesystem
from kafkalog_cli.disk.names import FileKind, WorkState, segment_file_name
from kafkalog_cli.format.kafka_version import NEWEST, KafkaVersion
from kafkalog_cli.log.log_dir import LineEdit
from kafkalog_cli.log.partition import open_partition
from kafkalog_cli.ops.change.compact.plan import Choice, Compaction, CompactPlan, Estimate, SegmentChange

_SEGMENT_FILES = (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX)


class Cleaning:
    """The cleaning of a planned log, as in a broker's round.

    `memory_bytes`: the memory for keys and marks. `erased`: keys whose records are all removed. `version`: the Kafka
    whose cleaner is mirrored. Methods raise Damaged, and the exceptions of opening the files.
    """

    def __init__(  # noqa: PLR0913
        self,
        fs: WritableFilesystem,
        plan: CompactPlan,
        now_ms: int,
        *,
        memory_bytes: int = MEMORY_BYTES,
        erased: SoughtKeys | None = None,
        version: KafkaVersion = NEWEST,
    ) -> None:
        assert plan.dirt is not None
        self._fs, self._plan, self._now_ms, self._version = fs, plan, now_ms, version
        self._partition = open_partition(fs, plan.path)
        self._only_erases = plan.choice is Choice.ERASING_ONLY
        segments = self._partition.segments
        if self._only_erases:  # only the segments with these keys are read and written
            changed = {base_offset for group in plan.groups for base_offset in group}
            segments = tuple(segment for segment in segments if segment.base_offset in changed)
        self._log = CleanableLog(fs, segments)
        clean = [segment for segment in segments if segment.base_offset < plan.first_dirty]
        self._marking = MarkingRequest(
            plan.first_dirty,
            plan.dirt.first_uncleanable,
            now_ms,
            clean[-1].log.mtime_ms - plan.number_of("delete.retention.ms") if clean else 0,
            memory_bytes,
            erased,
        )

    # -- without a change

    def explain(self, keys: Sequence[bytes]) -> tuple[RecordFate, ...]:
        """Return the fate of each record of `keys`."""
        return tuple(fate for key in keys for fate in explain_key(self._log, self._marking, key))

    def estimate(self) -> Estimate:
        """Return the counts of a cleaning that writes nothing."""
        counts, _ = self._clean(self._mark(), _MeasuredFiles())
        return Estimate(counts.records_read, counts.records_read - counts.records_kept, counts.causes)

    def measure(self) -> list[tuple[CleanedGroup, list[int]]]:
        """Return the groups of segments that would be replaced, with the sizes of the files that would be written."""
        files = _MeasuredFiles()
        _, groups = self._clean(self._mark(), files)
        return [(group, [files.sizes[name] for made in group.segments for name in made.names]) for group in groups]

    def _mark(self) -> Marks:
        """Find the records to remove."""
        return (mark_erased if self._only_erases else mark)(self._log, self._marking)

    def _clean(self, marks: Marks, files: FileMaker) -> tuple[CleaningCounts, list[CleanedGroup]]:
        plan = self._plan
        cleaning = CleaningRequest(
            self._now_ms,
            plan.number_of("delete.retention.ms"),
            self._marking.first_uncleanable,
            plan.number_of(plan.settings[-1].name),
            IndexLimits(plan.number_of("index.interval.bytes"), plan.number_of("segment.index.bytes")),
            plan.producers,
            plan.retained_end(self._version),
            self._only_erases,
        )
        cleaner = Cleaner(self._log, marks, cleaning, files)
        groups = list(cleaner.groups())
        return cleaner.counts, groups

    # -- the change

    def apply(self, run: RunInfo) -> tuple[Manifest, Compaction]:
        """Write new segments, swap them in, and update the checkpoint. Raises as `journal.apply`, too."""
        plan, marks = self._plan, self._mark()
        done: list[Compaction] = []

        def changes(area: StagingArea) -> Sequence[Change]:
            counts, groups = self._clean(marks, area)
            segments = (
                SegmentChange(group.sources, tuple(made.base_offset for made in group.segments)) for group in groups
            )
            done.append(Compaction(marks.end_offset, tuple(segments), counts))
            return self._swaps(groups, area)

        edits = plan.line_edits
        if not self._only_erases and plan.dirt is not None:
            end_offset = max(plan.dirt.first_dirty, marks.end_offset)
            edits = (LineEdit(FileKind.CLEANER_CHECKPOINT, plan.topic, plan.partition, end_offset),)
        manifest = journal.apply(self._fs, plan.path, changes, run=run, log_dir=plan.log_dir, edits=edits)
        assert manifest is not None
        return manifest, done[0]

    def _swaps(self, groups: Sequence[CleanedGroup], area: StagingArea) -> Sequence[Change]:
        """Return the changes that swap the segments in the run's directory in."""
        changes = [change for group in groups for change in self._swap(group, area)]
        names = {change.new_name for change in changes if isinstance(change, Move)}
        there = {file.status.path.rpartition("/")[2] for file in self._partition.leftovers}
        return [*(Drop(name) for name in sorted(names & there)), *changes]

    def _swap(self, group: CleanedGroup, area: StagingArea) -> Iterator[Change]:
        """Yield the changes in a broker's order: its start completes or undoes them (LocalLog.replaceSegments)."""
        new = sorted(group.segments, reverse=True)
        for segment in new:
            for name in segment.names:
                yield Put(name, Staged(name, area.sizes[name]), replaces=False)
        swaps = [name.removesuffix(WorkState.CLEANED.value) for segment in new for name in segment.names]
        for name in swaps:
            yield Move(name + WorkState.CLEANED.value, name + WorkState.SWAP.value)
        for base_offset in group.sources:
            for kind in _SEGMENT_FILES:
                yield from self._delete(segment_file_name(base_offset, kind))
        for name in swaps:
            yield Move(name + WorkState.SWAP.value, name)
        bases = {segment.base_offset for segment in new}
        for base_offset in group.sources:
            if base_offset not in bases:
                yield from self._delete(segment_file_name(base_offset, FileKind.PRODUCER_SNAPSHOT))

    def _delete(self, name: str) -> Iterator[Change]:
        if self._fs.status(f"{self._partition.path}/{name}") is not None:
            yield Move(name, name + WorkState.DELETED.value)


MakeCleaning: TypeAlias = Callable[[WritableFilesystem, CompactPlan], Cleaning]
"""Begins the cleaning of a plan, with the time and the options of the command."""


class _MeasuredFiles:
    """A FileMaker that keeps the size of each file and none of its bytes."""

    def __init__(self) -> None:
        self.sizes: dict[str, int] = {}

    def create(self, name: str) -> None:
        self.sizes[name] = 0

    def write(self, name: str, data: bytes | memoryview) -> None:
        self.sizes[name] += len(data)

    def finish(self, name: str, mtime_ms: int | None) -> None:
        """Do nothing: the size is complete."""
