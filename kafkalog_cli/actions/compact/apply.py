"""Makes a planned compaction: new segments are written beside, then take the places of the old, group by group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from kafkalog_cli.actions.change_plan import Remark, fingerprints_of
from kafkalog_cli.actions.compact.plan import Choice, Compaction, CompactPlan, CompactRequest, Estimate, SegmentChange
from kafkalog_cli.actions.purge import DELAY, apply_purge, plan_purge
from kafkalog_cli.actions.retain import NEVER_MS, partly
from kafkalog_cli.actions.runs import Clock
from kafkalog_cli.errors import ExitCode, Refused
from kafkalog_cli.storage import journal
from kafkalog_cli.storage.changes import Change, Drop, Move, Put, Staged
from kafkalog_cli.storage.checkpoints import LineEdit
from kafkalog_cli.storage.cleaning.cleaner import CleanedGroup, Cleaner, CleaningRequest
from kafkalog_cli.storage.cleaning.log import CleanableLog, Damaged
from kafkalog_cli.storage.cleaning.marking import MarkingRequest, mark
from kafkalog_cli.storage.cleaning.marks import Marks
from kafkalog_cli.storage.cleaning.output import IndexLimits
from kafkalog_cli.storage.fs import LockHandle, WritableFilesystem
from kafkalog_cli.storage.journal import CheckpointEdits, StagingArea
from kafkalog_cli.storage.manifest import Manifest, RunInfo
from kafkalog_cli.storage.names import FileKind, WorkState, segment_file_name
from kafkalog_cli.storage.partition import Partition, Segment, open_partition

_SEGMENT_FILES = (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX)
_PIECE = 1 << 20


class Compacted(NamedTuple):
    """A compaction that was made: `compaction` is None where only files of earlier runs were unlinked."""

    manifest: Manifest | None
    compaction: Compaction | None = None


def apply_compact(
    fs: WritableFilesystem,
    plan: CompactPlan,
    run: RunInfo,
    request: CompactRequest,
    *,
    held: LockHandle | None,
) -> Compacted | None:
    """Unlink what is due, clean, swap in; None if there is nothing to do. `held` is the lock of the partition.

    Files of this run wait for `plan.delay_ms`; with 0 they are unlinked at once, and there is no undo. Raises Refused
    if the partition is not what the plan was made for, Damaged where the log cannot be cleaned, and what
    `journal.apply` and `apply_purge` raise.
    """
    if not plan.has_work:
        return None
    if fingerprints_of(fs, plan.path) != plan.fingerprints:
        raise Refused(path=plan.path, reason="a file has changed since the plan was made")
    if plan.due is not None:
        apply_purge(fs, plan.due)
    run = replace(run, settings={**run.settings, DELAY: plan.delay_ms})
    work = _Compaction(fs, open_partition(fs, plan.path), plan, request)
    with partly(plan.path, is_begun=plan.due is not None and bool(plan.due.files)):
        work.mark()
        edits = CheckpointEdits(plan.log_dir, work.line_edits) if plan.log_dir and work.line_edits else None
        changes = work.changes if plan.choice.is_cleaned else ()
        manifest = journal.apply(fs, plan.path, changes, run=run, checkpoints=edits, held=held)
    if plan.choice.is_cleaned and not plan.delay_ms:
        with partly(plan.path, is_begun=True):
            apply_purge(fs, plan_purge(fs, open_partition(fs, plan.path), NEVER_MS, Clock(run.now_ms, is_given=True)))
    return work.done(manifest)


def estimate(fs: WritableFilesystem, plan: CompactPlan, request: CompactRequest) -> CompactPlan:
    """The plan with what would go, found by reading the log as the cleaning would. Raises Damaged."""
    if not plan.choice.is_cleaned:
        return plan
    partition = open_partition(fs, plan.path)
    marks = mark(_log_of(fs, partition, request), _marking_request(partition.segments, plan, request))
    pieces = (marks.kept(at, min(at + _PIECE, marks.count)) for at in range(0, marks.count, _PIECE))
    kept = sum(stays for stays, _ in pieces)
    return replace(plan, estimate=Estimate(marks.count, marks.count - kept, marks.keyless))


def damaged(plan: CompactPlan, damage: Damaged) -> CompactPlan:
    """The plan of a log that stays as it is."""
    remark = Remark(
        damage.path,
        f"damaged, nothing is cleaned: {damage.fault.message}",
        ExitCode.CORRUPTION,
        damage.fault.position,
        "kafkalog verify --level deep",
    )
    return replace(plan, choice=Choice.DAMAGED, groups=(), line_edits=(), remarks=(*plan.remarks, remark))


def _log_of(fs: WritableFilesystem, partition: Partition, request: CompactRequest) -> CleanableLog:
    return CleanableLog(fs, partition.segments, request.limits, request.kernels)


def _marking_request(segments: Sequence[Segment], plan: CompactPlan, request: CompactRequest) -> MarkingRequest:
    assert plan.dirt is not None
    clean = [segment for segment in segments if segment.base_offset < plan.first_dirty]
    retention_ms = _setting(plan, "delete.retention.ms")
    return MarkingRequest(
        plan.first_dirty,
        plan.dirt.first_uncleanable,
        request.now_ms,
        clean[-1].log.mtime_ms - retention_ms if clean else 0,
        request.memory_bytes,
        request.most_keys,
    )


def _setting(plan: CompactPlan, name: str) -> int:
    value = next(setting.value for setting in plan.settings if setting.name == name)
    assert isinstance(value, int)
    return value


class _Compaction:
    """One call of `apply_compact`."""

    def __init__(
        self, fs: WritableFilesystem, partition: Partition, plan: CompactPlan, request: CompactRequest
    ) -> None:
        self._log = _log_of(fs, partition, request)
        self._partition = partition
        self._plan = plan
        self._request = request
        self._marks: Marks | None = None
        self._cleaner: Cleaner | None = None
        self._groups: list[CleanedGroup] = []

    def done(self, manifest: Manifest | None) -> Compacted:
        """What it came to."""
        if self._cleaner is None or self._marks is None:
            return Compacted(manifest)
        segments = tuple(
            SegmentChange(self._sources(group), tuple(each.base_offset for each in group.segments))
            for group in self._groups
        )
        marks, counts = self._marks, self._cleaner.counts
        return Compacted(manifest, Compaction(marks.end_offset, counts, marks.keyless, segments))

    def mark(self) -> None:
        """Find out which records go, if anything is to be cleaned. Raises Damaged."""
        if self._plan.choice.is_cleaned:
            request = _marking_request(self._partition.segments, self._plan, self._request)
            self._marks = mark(self._log, request)

    @property
    def line_edits(self) -> tuple[LineEdit, ...]:
        """The line in the cleaner's checkpoint: up to where keys are known now."""
        plan = self._plan
        if self._marks is None or plan.dirt is None:
            return plan.line_edits
        end_offset = max(plan.dirt.first_dirty, self._marks.end_offset)
        return (LineEdit(FileKind.CLEANER_CHECKPOINT, plan.topic, plan.partition, end_offset),)

    def changes(self, area: StagingArea) -> Sequence[Change]:
        """Write the new segments into the run's directory; how they take the places of the old."""
        plan, request = self._plan, self._request
        assert plan.dirt is not None
        assert self._marks is not None
        cleaning = CleaningRequest(
            request.now_ms,
            _setting(plan, "delete.retention.ms"),
            plan.dirt.first_uncleanable,
            _setting(plan, plan.settings[-1].name),
            IndexLimits(_setting(plan, "index.interval.bytes"), _setting(plan, "segment.index.bytes")),
            dict(plan.producers),
        )
        self._cleaner = Cleaner(self._log, self._marks, cleaning, area)
        changes: list[Change] = []
        for group in self._cleaner.groups():
            self._groups.append(group)
            changes += self._swap(group, area)
        names = {change.new_name for change in changes if isinstance(change, Move)}
        there = {file.status.path.rpartition("/")[2] for file in self._partition.leftovers}
        return [*(Drop(name) for name in sorted(names & there)), *changes]

    def _sources(self, group: CleanedGroup) -> tuple[int, ...]:
        return tuple(self._log.segments[at].base_offset for at in group.sources)

    def _swap(self, group: CleanedGroup, area: StagingArea) -> Iterator[Change]:
        """In the broker's order, which its start completes or takes back (LocalLog.replaceSegments)."""
        new = sorted(group.segments, reverse=True)
        for segment in new:
            for name in segment.names:
                yield Put(name, Staged(name, area.size_bytes(name)), replaces=False)
        swaps = [name.removesuffix(WorkState.CLEANED.value) for segment in new for name in segment.names]
        for name in swaps:
            yield Move(name + WorkState.CLEANED.value, name + WorkState.SWAP.value)
        sources = self._sources(group)
        for base_offset in sources:
            for kind in _SEGMENT_FILES:
                yield from self._delete(segment_file_name(base_offset, kind))
        for name in swaps:
            yield Move(name + WorkState.SWAP.value, name)
        bases = {segment.base_offset for segment in new}
        for base_offset in sources:
            if base_offset not in bases:
                yield from self._delete(segment_file_name(base_offset, FileKind.PRODUCER_SNAPSHOT))

    def _delete(self, name: str) -> Iterator[Change]:
        if self._log.fs.status(f"{self._partition.path}/{name}") is not None:
            yield Move(name, name + WorkState.DELETED.value)
