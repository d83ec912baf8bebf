"""`retain --free-bytes`: removes the oldest segments of all partitions at once, until enough room is free."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import accumulate
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple

from kafkalog_cli.broker.load_error import LoadFailed
from kafkalog_cli.broker.open_log import changed_epochs
from kafkalog_cli.change import journal
from kafkalog_cli.change.draft import Draft
from kafkalog_cli.change.manifest import RunInfo, read_manifest
from kafkalog_cli.change.removal import partly, remove_files
from kafkalog_cli.change.run import CheckpointEdits
from kafkalog_cli.disk.durable import unfinished
from kafkalog_cli.disk.fs import FileStatus, LockHandle, WritableFilesystem
from kafkalog_cli.disk.lock import hold, lock_log_dir, lock_partition
from kafkalog_cli.disk.names import FileKind
from kafkalog_cli.errors import (
    ExitCode,
    KafkalogError,
    NoSpace,
    NotRecorded,
    Refused,
    SyncFailed,
    combined_exit_code,
    shell_word,
)
from kafkalog_cli.log.log_end import largest_timestamp
from kafkalog_cli.log.partition import Partition, Segment
from kafkalog_cli.log.settings.topic_config import CLEANUP_POLICY, Settings
from kafkalog_cli.ops.option_values import Clock
from kafkalog_cli.ops.ownership import Places
from kafkalog_cli.ops.plans import LogPlan, Remark, Unready, check_finished, end_of
from kafkalog_cli.ops.purge import NEVER_MS, PurgePlan, plan_purge
from kafkalog_cli.ops.refusals import Action
from kafkalog_cli.ops.retain.retain import line_edits
from kafkalog_cli.ops.session.call import Call, Run
from kafkalog_cli.ops.session.observer import Note
from kafkalog_cli.ops.session.options import Paths, VerbOptions
from kafkalog_cli.ops.session.target import Target
from kafkalog_cli.ops.undo.last_run import cut_off_run
from kafkalog_cli.results import EMPTY_IS_NULL, Count, Hidden, Named, PathName, of, result

if TYPE_CHECKING:
    from typing_extensions import Unpack


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
    def has_work(self) -> bool:
        """Whether files were unlinked, or would be."""
        return bool(self.segments or self.old_files)

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to report."""
        return not self.has_work

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


def free(
    paths: Paths, wanted_bytes: int, *, keep_bytes: int = 0, keep_ms: int = 0, **options: Unpack[VerbOptions]
) -> Run[Freed]:
    """Unlink the oldest segments of all partitions, until `wanted_bytes` are free on each of their file systems.

    Each log keeps `keep_bytes`, and segments with records younger than `keep_ms`, if that is not 0. All partitions are
    planned before the first segment is removed. Raises as `recover`.
    """
    plans: list[FreePlan] = []

    def plan(target: Target) -> FreePlan:
        target.note_unread_run()
        _check_undone(target)  # an interrupted run is not undone here, because there may be no room for that
        target.check(Action.RETAIN, has_own_limit=True)
        return plan_free(target.fs, target.partition, keep_bytes, target.places)

    planning: VerbOptions = {**options, "dry_run": True}
    call = Call("retain", paths, planning)
    planned = call.change_each(call.writable_partitions(), plan, show=plans.append)
    if planned.exit_code is ExitCode.INTERRUPTED:
        return call.end(planned.exit_code, planned.codes, planned.not_done)
    freeing = _Freeing(call, plans, wanted_bytes, keep_ms, is_dry_run=options.get("dry_run", False))
    codes = [*planned.codes]
    for one in plans:
        codes.remove(one.exit_code)
    codes += freeing.free()
    is_short = ExitCode.NO_SPACE in codes and ExitCode.INTERRUPTED not in codes
    return call.end(ExitCode.NO_SPACE if is_short else combined_exit_code(codes), codes, planned.not_done)


def _check_undone(target: Target) -> None:
    """Raise Refused if an interrupted run must be undone first: its undo needs the files that the run left."""
    path, run_id = target.partition.path, cut_off_run(target.fs, target.partition) or ""
    manifest = None if not run_id else read_manifest(target.fs, path, run_id)
    if manifest is not None and not manifest.discard:
        command = f"kafkalog undo {shell_word(path)} {shell_word(run_id)}"
        raise Refused(path=path, reason=f"run {run_id} was cut off half way: `{command}` undoes it")


class _Freeing:
    """Removes segments one by one, under the locks; in a dry run, nothing is removed.

    A full disk may have no room for a lock file. Then no other process can create the lock either.
    """

    def __init__(self, call: Call, plans: list[FreePlan], wanted_bytes: int, keep_ms: int, *, is_dry_run: bool) -> None:
        self._call, self._fs, self._is_dry_run = call, call.context.fs, is_dry_run
        self._wanted_bytes = wanted_bytes
        self._kept_from_ms = call.clock.now_ms - keep_ms if keep_ms > 0 else None
        self._freed = {plan.path: Freed(plan, is_dry_run, call.run_id) for plan in plans}
        self._codes = {plan.path: plan.exit_code for plan in plans}
        self._more_codes: list[ExitCode] = []
        self._failed: set[str] = set()
        self._unsynced: set[str] = set()
        self._locks = ExitStack()
        self._held: dict[str, LockHandle | None] = {}

    def free(self) -> list[ExitCode]:
        """Remove segments, record that, and show the results. Return the exit code of each plan, and of failures."""
        interruptions = self._call.interruptions
        with interruptions.watched(), self._locks:
            with suppress(KeyboardInterrupt):  # raised while waiting for a lock
                self._lock_log_dirs()
                for device in dict.fromkeys(freed.plan.device for freed in self._freed.values()):
                    self._free_on(device)
            if interruptions.are_asked_for:
                self._more_codes.append(ExitCode.INTERRUPTED)
            for freed in () if self._is_dry_run else self._freed.values():
                if freed.segments and freed.plan.path not in self._unsynced:
                    self._record(freed)
        for freed in self._freed.values():
            self._call.observer.show(freed)
        return [*self._codes.values(), *self._more_codes]

    def _free_on(self, device: int) -> None:
        plans = [freed.plan for freed in self._freed.values() if freed.plan.device == device]
        room = self._fs.room(plans[0].path).free_bytes
        for plan, segment in self._candidates([plan for plan in plans if plan.has_work]):
            if room >= self._wanted_bytes or self._call.interruptions.are_asked_for:
                return
            try:
                gone_bytes = self._remove(plan, segment)
            except (KafkalogError, OSError) as error:
                cause = error.__cause__
                if isinstance(cause, SyncFailed):  # the disk's contents are unknown, so no change may follow
                    self._unsynced.add(plan.path)
                    error = unfinished(NotRecorded, plan.path, cause) if self._freed[plan.path].segments else error
                self._fail(plan, error)
                continue
            room = room + gone_bytes if self._is_dry_run else self._fs.room(plan.path).free_bytes
        if room < self._wanted_bytes:
            message = f"{room} bytes are free, {self._wanted_bytes} were wanted: nothing else may go"
            self._note("no-room", message, plans[0].log_dir or plans[0].path, is_error=True)
            self._more_codes.append(ExitCode.NO_SPACE)

    def _candidates(self, plans: Sequence[FreePlan]) -> Iterator[tuple[FreePlan, FreeSegment | None]]:
        """Yield the leftovers of earlier removals (None), then the segments of all partitions by largest timestamp.

        A timestamp is read when the segment before it was yielded. A partition that failed is skipped.
        """
        yield from ((plan, None) for plan in plans if plan.leftovers)
        heap: list[tuple[int, int, int]] = []

        def push(at: int, number: int) -> None:
            plan = plans[at]
            if number == len(plan.segments) or plan.path in self._failed:
                return
            try:
                timestamp = largest_timestamp(self._fs, plan.segments[number].segment, enough_ms=0).timestamp_ms
            except (KafkalogError, OSError) as error:
                self._fail(plan, error)
                return
            if self._kept_from_ms is None or timestamp < self._kept_from_ms:
                heappush(heap, (timestamp, at, number))

        for at in range(len(plans)):
            push(at, 0)
        while heap:
            _, at, number = heappop(heap)
            yield plans[at], plans[at].segments[number]
            push(at, number + 1)

    def _remove(self, plan: FreePlan, segment: FreeSegment | None) -> int:
        """Remove a segment, or the leftovers of earlier segments (None). Returns the freed bytes."""
        freed, files = self._freed[plan.path], plan.leftovers if segment is None else segment.files
        if self._is_dry_run:
            return freed.add(segment, files)
        self._lock(plan.path)
        removed: list[FileStatus] = []
        try:
            with partly(plan.path, is_begun=bool(freed.segments or freed.old_files)):
                remove_files(self._fs, plan.path, files, removed)
        finally:
            gone_bytes = freed.add(segment, removed)
        return gone_bytes

    def _record(self, freed: Freed) -> None:
        plan = freed.plan
        try:
            if self._held.get(plan.path) is None:
                self._held.pop(plan.path, None)
                self._lock(plan.path)  # removed segments may have made room for the lock
            remark = record_freed(self._fs, freed, self._call.run_info(()), held=self._held[plan.path])
        except (KafkalogError, OSError) as error:
            self._fail(plan, unfinished(NotRecorded, plan.path, error))
            return
        if remark is not None:
            self._note("epochs", remark.message, remark.path)
            self._more_codes.append(remark.code)

    def _lock_log_dirs(self) -> None:
        """Lock the log directories in which something may be removed. Partitions in one that is locked are left out."""
        plans = [freed.plan for freed in self._freed.values()]
        for log_dir in dict.fromkeys(plan.log_dir for plan in plans if plan.has_work and not self._is_dry_run):
            if log_dir is None:
                continue
            try:
                self._locks.enter_context(lock_log_dir(self._fs, log_dir, self._call.lock_policy))
            except NoSpace:
                self._locks.enter_context(hold(self._fs, log_dir))
                self._note("no-lock", "there is no room for the lock, so nobody else has it", log_dir)
            except KafkalogError as error:
                for number, plan in enumerate(plan for plan in plans if plan.log_dir == log_dir):
                    self._fail(plan, error, is_told=number > 0)
                    del self._freed[plan.path]

    def _lock(self, path: str) -> None:
        """Lock a partition, once."""
        if path in self._held:
            return
        try:
            self._held[path] = self._locks.enter_context(lock_partition(self._fs, path, self._call.lock_policy))
        except NoSpace:  # then no other process can have the lock
            self._held[path] = None
            self._locks.enter_context(hold(self._fs, path))

    def _fail(self, plan: FreePlan, error: Exception, *, is_told: bool = False) -> None:
        known = error if isinstance(error, KafkalogError) else KafkalogError(reason=f"{plan.path}: {error}")
        self._call.observer.fail(known, path=plan.path, is_told=is_told)
        self._codes[plan.path] = known.exit_code
        self._failed.add(plan.path)

    def _note(self, kind: str, message: str, path: str, *, is_error: bool = False) -> None:
        self._call.observer.report(Note(kind, message, path, is_error=is_error))


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
