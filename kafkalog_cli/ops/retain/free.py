"""Plans how to free room on a full disk: which segments may be removed at once, and in which order."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from itertools import accumulate
from typing import Annotated, ClassVar, NamedTuple

from kafkalog_cli.broker.load_error import LoadFailed
from kafkalog_cli.broker.open_log import changed_epochs
from kafkalog_cli.change import journal
from kafkalog_cli.change.draft import Draft
from kafkalog_cli.change.manifest import RunInfo
from kafkalog_cli.change.removal import remove_files
from kafkalog_cli.change.run import CheckpointEdits
from kafkalog_cli.disk.fs import FileStatus, LockHandle, WritableFilesystem
from kafkalog_cli.disk.names import FileKind
from kafkalog_cli.errors import ExitCode, KafkalogError
from kafkalog_cli.log.log_end import largest_timestamp
from kafkalog_cli.log.partition import Partition, Segment
from kafkalog_cli.log.settings.topic_config import CLEANUP_POLICY, Settings
from kafkalog_cli.ops.option_values import Clock
from kafkalog_cli.ops.ownership import Places
from kafkalog_cli.ops.plans import LogPlan, Remark, Unready, check_finished, end_of
from kafkalog_cli.ops.purge import NEVER_MS, PurgePlan, plan_purge
from kafkalog_cli.ops.retain.retain import line_edits
from kafkalog_cli.results import EMPTY_IS_NULL, Count, Hidden, Named, PathName, of, result


class FreeSegment(NamedTuple):
    """A segment that may be removed: its files, the log first. `next_offset` is the log start after the removal."""

    segment: Segment
    next_offset: int
    files: tuple[FileStatus, ...]


@dataclass(frozen=True, slots=True)
class FreePlan(LogPlan):
    """The parts of a partition that may be removed, oldest first, on the file system `device`.

    `deleted` contains `.deleted` files of earlier removals. `orphans` are indexes and snapshots without a log.
    `protected_by` says why nothing may be removed, "" if something may.
    """

    view: Partition | None = None
    segments: tuple[FreeSegment, ...] = ()
    deleted: PurgePlan | None = None
    orphans: tuple[FileStatus, ...] = ()
    device: int = 0
    protected_by: str = ""

    @property
    def has_work(self) -> bool:
        """Whether anything may be removed."""
        return not self.is_refused and bool(self.segments or self.leftovers)

    @property
    def leftovers(self) -> tuple[FileStatus, ...]:
        """Files that no reader needs. They are removed before any segment."""
        return (*(due.file for due in self.deleted.files), *self.orphans) if self.deleted is not None else self.orphans


@result("kafkalog.freed/1")
@dataclass(slots=True)
class Freed:
    """The result of retain --free-bytes for a partition, or of its dry run."""

    plan: Hidden[FreePlan]
    path: ClassVar[Annotated[PathName, "the partition directory"]] = of("plan.path")
    topic: ClassVar[str] = of("plan.topic")
    partition: ClassVar[int] = of("plan.partition")
    is_dry_run: Annotated[bool, Named("dry_run"), "nothing was changed: the other fields show what would be done"] = (
        False
    )
    refused: ClassVar[Annotated[bool, "nothing is changed, with or without --dry-run; a remark has the reason"]] = of(
        "plan.is_refused"
    )
    protected_by: ClassVar[
        Annotated[str | None, EMPTY_IS_NULL, "why nothing may be removed; null if something may"]
    ] = of("plan.protected_by")
    run_id: Hidden[str] = ""
    run: ClassVar[Annotated[str | None, "the run that unlinked segments; it cannot be undone"]] = of(
        lambda freed: freed.run_id if freed.segments and not freed.is_dry_run else None
    )
    log_start_offset: ClassVar[Annotated[int | None, "after the run"]] = of(lambda freed: freed.new_start)
    log_end_offset: ClassVar[int | None] = of("plan.log_end_offset")
    segments: Hidden[list[FreeSegment]] = field(default_factory=list)
    removed: ClassVar[Annotated[list[int], "base offsets of the unlinked segments"]] = of(
        lambda freed: [one.segment.base_offset for one in freed.segments]
    )
    old_files: Annotated[Count, Named("unlinked_files"), "unlinked files of segments that were removed earlier"] = 0
    disk_bytes: Annotated[Count, Named("freed_bytes"), "the space of all these files on the disk"] = 0
    remarks: ClassVar[tuple[Remark, ...]] = of("plan.remarks")

    def add(self, segment: FreeSegment | None, gone: Sequence[FileStatus]) -> int:
        """Count the files of a segment (None: leftovers) that are gone, and return their bytes.

        A segment without its log counts as removed, whatever else is left of it.
        """
        gone_bytes = sum(file.allocated_bytes or file.size_bytes for file in gone)
        if segment is None:
            self.old_files += len(gone)
        elif segment.segment.log in gone:
            self.segments.append(segment)
        self.disk_bytes += gone_bytes
        return gone_bytes

    @property
    def new_start(self) -> int | None:
        """The log start after the removal."""
        start = self.plan.log_start_offset
        return start if not self.segments or start is None else max(start, self.segments[-1].next_offset)


def plan_free(
    fs: WritableFilesystem,
    partition: Partition,
    keep_bytes: int,
    places: Places | None = None,
) -> FreePlan:
    """Plan which parts of a partition may be removed, down to `keep_bytes` of logs.

    Compacted and internal topics, the active segment, and segments at or above the high watermark are never removed.
    Raises as `SettingsSource.metadata` does, and the exceptions of listing and opening the files.
    """
    config = partition.config
    device = fs.room(partition.path).device
    plan = FreePlan.of(partition, settings=(config[CLEANUP_POLICY],), view=partition, device=device)
    why = _protected_by(partition, config)
    if why:
        return replace(plan, protected_by=why)
    try:
        return _with_leftovers(fs, partition, keep_bytes, plan, places)
    except Unready as unready:
        return replace(plan, remarks=(unready.remark,), is_refused=True)


def _protected_by(partition: Partition, config: Settings) -> str:
    """Return why no part of a log may be removed, even if the command line sets its policy; "" if parts may be."""
    own = partition.own_config
    if partition.topic.startswith("__"):
        return "the topic is internal"
    for settings in (own, config):
        if settings.is_compacted or not settings.is_deleted:
            return settings[CLEANUP_POLICY].explanation
    if partition.topic_was_cleaned:
        return f"{FileKind.CLEANER_CHECKPOINT.value} lists it, so that it was compacted"
    is_known = own.is_known(CLEANUP_POLICY)
    if not is_known and any(
        path.endswith(FileKind.CLEANER_CHECKPOINT.value) for path, _ in partition.checkpoint_faults
    ):
        return f"{FileKind.CLEANER_CHECKPOINT.value} is damaged, and may have listed it as compacted"
    metadata = partition.cluster
    if metadata is not None and not metadata.is_complete:
        return "the metadata log is damaged, and may have said that the topic is compacted"
    return ""


def _with_leftovers(
    fs: WritableFilesystem,
    partition: Partition,
    keep_bytes: int,
    plan: FreePlan,
    places: Places | None,
) -> FreePlan:
    check_finished(partition)
    # With a clock far in the future, all `.deleted` files are due, except those of interrupted runs.
    deleted = plan_purge(fs, partition, NEVER_MS, Clock(NEVER_MS, is_given=True), places)
    if not partition.segments:
        return replace(plan, deleted=deleted)
    first = partition.segments[0].base_offset
    left = (*partition.orphans, *partition.snapshots)
    orphans = tuple(file.status for file in left if file.name.offset is not None and file.name.offset < first)
    return _with_segments(fs, partition, keep_bytes, replace(plan, deleted=deleted, orphans=orphans))


def _with_segments(fs: WritableFilesystem, partition: Partition, keep_bytes: int, plan: FreePlan) -> FreePlan:
    segments = partition.segments
    if segments[-1].is_seven:
        end_offset = high_watermark = segments[-1].base_offset + segments[-1].log.size_bytes
    else:
        end_offset = end_of(fs, partition, segments[-1]).next_offset
        high_watermark = partition.high_watermark(end_offset).offset
    total = sum(segment.log.size_bytes for segment in segments)
    left_behind = (total - gone for gone in accumulate(segment.log.size_bytes for segment in segments))
    found: list[FreeSegment] = []
    for segment, following, left in zip(segments, segments[1:], left_behind, strict=False):
        has_other_name = segment.log.is_symlink or fs.attributes(segment.log.path).link_count > 1
        if following.base_offset > high_watermark or left < keep_bytes or has_other_name:
            break
        found.append(FreeSegment(segment, following.base_offset, _files_of(partition, segment)))
    return replace(
        plan,
        segments=tuple(found),
        log_start_offset=max(segments[0].base_offset, partition.log_start),
        log_end_offset=end_offset,
        high_watermark=None if segments[-1].is_seven else partition.high_watermark(end_offset),
    )


def _files_of(partition: Partition, segment: Segment) -> tuple[FileStatus, ...]:
    """Return a segment's files, the log first: a broker removes indexes without a log when it starts."""
    files = (segment.log, segment.offset_index, segment.time_index, segment.txn_index)
    snapshots = (file.status for file in partition.snapshots if file.name.offset == segment.base_offset)
    return (*(file for file in files if file is not None), *snapshots)


def oldest_first(
    fs: WritableFilesystem,
    plans: Sequence[FreePlan],
    kept_from_ms: int | None,
    fail: Callable[[FreePlan, Exception], None],
) -> Iterator[tuple[FreePlan, FreeSegment]]:
    """Yield the removable segments of all partitions by largest timestamp, each partition's in log order.

    Segments with a timestamp at or above `kept_from_ms` are kept; None: none are.

    A timestamp is read when the segment before it was yielded. If that fails, `fail` is called, and no further segment
    of the partition follows.
    """

    def entry(at: int, number: int) -> tuple[int, int, int] | None:
        if number == len(plans[at].segments):
            return None
        try:
            timestamp = largest_timestamp(fs, plans[at].segments[number].segment, enough_ms=0).timestamp_ms
        except (KafkalogError, OSError) as error:
            fail(plans[at], error)
            return None
        is_kept = kept_from_ms is not None and timestamp >= kept_from_ms
        return None if is_kept else (timestamp, at, number)

    heap = [first for first in (entry(at, 0) for at in range(len(plans))) if first is not None]
    heapify(heap)
    while heap:
        _, at, number = heappop(heap)
        yield plans[at], plans[at].segments[number]
        following = entry(at, number + 1)
        if following is not None:
            heappush(heap, following)


def unlink_segment(
    fs: WritableFilesystem, plan: FreePlan, segment: FreeSegment | None, removed: list[FileStatus]
) -> None:
    """Remove the files of a segment (None: the leftovers) at once. `removed` gets each file that is gone.

    Raises Refused if a file has changed, NotChanged, SyncFailed.
    """
    remove_files(fs, plan.path, plan.leftovers if segment is None else segment.files, removed)


def record_freed(fs: WritableFilesystem, freed: Freed, run: RunInfo, *, held: LockHandle | None) -> Remark | None:
    """Write leader epochs, checkpoint lines and the manifest, now that there is room.

    Returns a remark if the leader epochs are unreadable. Raises the exceptions of `journal.apply`.
    """
    plan = freed.plan
    if not freed.segments or plan.view is None or freed.log_start_offset is None or plan.high_watermark is None:
        return None
    draft, remark = Draft(fs, plan.path), None
    try:
        with changed_epochs(draft) as epochs:
            epochs.truncate_from_start(freed.log_start_offset)
    except LoadFailed as failure:
        name = FileKind.LEADER_EPOCH_CHECKPOINT.value
        remark = Remark(f"{plan.path}/{name}", str(failure), ExitCode.WARNINGS)
    edits = line_edits(plan.view, freed.log_start_offset, freed.segments[-1].next_offset)
    checkpoints = CheckpointEdits(plan.log_dir, edits) if plan.log_dir and edits else None
    facts = {"unlinked": [segment.segment.base_offset for segment in freed.segments], "disk_bytes": freed.disk_bytes}
    journal.apply(
        fs, plan.path, draft.changes(), run=run, discard=True, checkpoints=checkpoints, facts=facts, held=held
    )
    return remark
