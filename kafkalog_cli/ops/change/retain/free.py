"""`retain --free-bytes`: removes the oldest segments of all partitions at once, until enough room is free."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from heapq import merge
from itertools import accumulate
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple

from kafkalog_cli.broker.load_error import LoadFailed
from kafkalog_cli.broker.open_log import changed_epochs
from kafkalog_cli.change import journal
from kafkalog_cli.change.draft import Draft
from kafkalog_cli.change.manifest import read_manifest
from kafkalog_cli.change.removal import partly, remove_files
from kafkalog_cli.disk.durable import unfinished
from kafkalog_cli.disk.fs import FileStatus, WritableFilesystem
from kafkalog_cli.disk.lock import hold, lock_partition
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
from kafkalog_cli.ops.call.call import Call, Run
from kafkalog_cli.ops.call.observer import Note
from kafkalog_cli.ops.call.options import Paths, VerbOptions
from kafkalog_cli.ops.call.target import Target
from kafkalog_cli.ops.change.plans import Remark, Unready, check_finished, end_of
from kafkalog_cli.ops.change.purge import NEVER_MS, plan_purge
from kafkalog_cli.ops.change.refusals import Action
from kafkalog_cli.ops.change.retain.retain import line_edits
from kafkalog_cli.ops.change.undo.last_run import cut_off_run
from kafkalog_cli.ops.option_values import Clock
from kafkalog_cli.ops.steps import with_next_steps
from kafkalog_cli.results import EMPTY_IS_NULL, Count, Hidden, Named, PathName, of, result

if TYPE_CHECKING:
    from typing_extensions import Unpack


class FreeSegment(NamedTuple):
    """A segment that may be removed: its files, the log first. `next_offset` is the log start after the removal."""

    segment: Segment
    next_offset: int
    files: tuple[FileStatus, ...]


@result("kafkalog.freed/1")
@dataclass(slots=True)
class Freed:
    """The result of retain --free-bytes for a partition, or of its dry run.

    `candidates` are the segments that may be removed, the oldest first. `leftovers` are files that no reader needs,
    which are removed before any segment. All are on the file system `device`. `error` ended the work on the partition.
    """

    source: Hidden[Partition]
    path: ClassVar[Annotated[PathName, "the partition directory"]] = of("source.path")
    topic: ClassVar[str] = of("source.topic")
    partition: ClassVar[int] = of("source.number")
    dry_run: Annotated[bool, "nothing was changed: the other fields show what would be done"] = False
    is_refused: Annotated[
        bool, Named("refused"), "nothing is changed, with or without --dry-run; a remark has the reason"
    ] = False
    protected_by: Annotated[str | None, EMPTY_IS_NULL, "why nothing may be removed; null if something may"] = ""
    run_id: Hidden[str] = ""
    run: ClassVar[Annotated[str | None, "the run that unlinked segments; it cannot be undone"]] = of(
        lambda freed: freed.run_id if freed.segments and not freed.dry_run else None
    )
    start_offset: Hidden[int | None] = None
    log_start_offset: ClassVar[Annotated[int | None, "after the run"]] = of(lambda freed: freed.new_start)
    log_end_offset: int | None = None
    segments: Hidden[list[FreeSegment]] = field(default_factory=list)
    removed: ClassVar[Annotated[list[int], "base offsets of the unlinked segments"]] = of(
        lambda freed: [one.segment.base_offset for one in freed.segments]
    )
    unlinked_files: Annotated[Count, "unlinked files of segments that were removed earlier"] = 0
    freed_bytes: Annotated[Count, "the space of all these files on the disk"] = 0
    remarks: tuple[Remark, ...] = ()
    device: Hidden[int] = 0
    candidates: Hidden[tuple[FreeSegment, ...]] = ()
    leftovers: Hidden[tuple[FileStatus, ...]] = ()
    error: Hidden[KafkalogError | None] = None

    def add(self, segment: FreeSegment | None, gone: Sequence[FileStatus]) -> int:
        """Count the files of a segment (None: leftovers) that are gone, and return their bytes.

        A segment without its log counts as removed, whatever else is left of it.
        """
        gone_bytes = sum(file.allocated_bytes or file.size_bytes for file in gone)
        if segment is None:
            self.unlinked_files += len(gone)
        elif segment.segment.log in gone:
            self.segments.append(segment)
        self.freed_bytes += gone_bytes
        return gone_bytes

    @property
    def exit_code(self) -> ExitCode:
        """That of the error; REFUSED if nothing may be changed."""
        if self.error is not None:
            return self.error.exit_code
        return ExitCode.REFUSED if self.is_refused else ExitCode.OK

    @property
    def has_work(self) -> bool:
        """Whether files were unlinked, or would be."""
        return bool(self.segments or self.unlinked_files)

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to report."""
        return not self.has_work

    @property
    def new_start(self) -> int | None:
        """The log start after the removal."""
        start = self.start_offset
        return start if not self.segments or start is None else max(start, self.segments[-1].next_offset)


def free(
    paths: Paths, wanted_bytes: int, *, keep_bytes: int = 0, keep_ms: int = 0, **options: Unpack[VerbOptions]
) -> Run[Freed]:
    """Unlink the oldest segments of all partitions, until `wanted_bytes` are free on each of their file systems.

    Each log keeps `keep_bytes`, and segments with records younger than `keep_ms`, if that is not 0. Compacted and
    internal topics, the active segment, and segments at or above the high watermark are never removed. All partitions
    are planned before the first segment is removed. Raises as `recover`.
    """
    call, found = Call("retain", paths, options), list[Freed]()
    kept_from_ms = call.clock.now_ms - keep_ms if keep_ms > 0 else None
    freeing = _Freeing(call, found, wanted_bytes, kept_from_ms)
    plan = partial(_plan, keep_bytes=keep_bytes)
    run = call.change_each(call.writable_partitions(), plan, show=found.append, free=freeing.free)
    codes = [*run.codes, *freeing.codes]
    is_short = ExitCode.NO_SPACE in codes and ExitCode.INTERRUPTED not in codes
    return replace(run, codes=tuple(codes), exit_code=ExitCode.NO_SPACE if is_short else combined_exit_code(codes))


# ---- what may be removed


def _plan(target: Target, *, keep_bytes: int) -> Freed:
    """Plan which parts of a partition may be removed. An interrupted run is not undone: there may be no room for it."""
    target.note_unread_run()
    _check_undone(target)
    target.check(Action.RETAIN, has_own_limit=True)
    fs, partition = target.fs, target.partition
    freed = Freed(partition, target.dry_run, run_id=target.call.run_id, device=fs.room(partition.path).device)
    freed.protected_by = _protected_by(partition, partition.config)
    if freed.protected_by:
        return freed
    try:
        check_finished(partition)
        # With a clock far in the future, all `.deleted` files are due, except those of interrupted runs.
        deleted = plan_purge(fs, partition, NEVER_MS, Clock(NEVER_MS, is_given=True), target.places)
        freed.leftovers = tuple(due.file for due in deleted.files)
        if partition.segments:
            _add_candidates(fs, freed, keep_bytes)
    except Unready as unready:
        freed.is_refused, freed.leftovers, metadata = True, (), target.settings.metadata_option
        freed.remarks = with_next_steps(freed.path, (unready.remark,), target.replication, metadata)
    return freed


def _check_undone(target: Target) -> None:
    """Raise Refused if an interrupted run must be undone first: its undo needs the files that the run left."""
    path, run_id = target.partition.path, cut_off_run(target.fs, target.partition) or ""
    manifest = None if not run_id else read_manifest(target.fs, path, run_id)
    if manifest is not None and not manifest.discard:
        command = f"kafkalog undo {shell_word(path)} {shell_word(run_id)}"
        raise Refused(path=path, reason=f"run {run_id} was cut off half way: `{command}` undoes it")


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


def _add_candidates(fs: WritableFilesystem, freed: Freed, keep_bytes: int) -> None:
    """Add indexes and snapshots without a log to the leftovers, and the segments that may be removed."""
    partition, segments = freed.source, freed.source.segments
    if segments[-1].is_v07:
        end_offset = high_watermark = segments[-1].base_offset + segments[-1].log.size_bytes
    else:
        end_offset = end_of(fs, partition, segments[-1]).next_offset
        high_watermark = partition.high_watermark(end_offset).offset
    first, left = segments[0].base_offset, (*partition.orphans, *partition.snapshots)
    orphans = (file.status for file in left if file.name.offset is not None and file.name.offset < first)
    freed.leftovers = (*freed.leftovers, *orphans)
    freed.start_offset, freed.log_end_offset = max(first, partition.log_start), end_offset
    total = sum(segment.log.size_bytes for segment in segments)
    left_behind = (total - gone for gone in accumulate(segment.log.size_bytes for segment in segments))
    found: list[FreeSegment] = []
    for segment, following, rest in zip(segments, segments[1:], left_behind, strict=False):
        has_other_name = segment.log.is_symlink or fs.attributes(segment.log.path).link_count > 1
        if following.base_offset > high_watermark or rest < keep_bytes or has_other_name:
            break
        found.append(FreeSegment(segment, following.base_offset, _files_of(partition, segment)))
    freed.candidates = tuple(found)


def _files_of(partition: Partition, segment: Segment) -> tuple[FileStatus, ...]:
    """Return a segment's files, the log first: a broker removes indexes without a log when it starts."""
    files = (segment.log, segment.offset_index, segment.time_index, segment.txn_index)
    snapshots = (file.status for file in partition.snapshots if file.name.offset == segment.base_offset)
    return (*(file for file in files if file is not None), *snapshots)


# ---- what is removed


class _Freeing:
    """Removes segments one by one, under the locks; in a dry run, nothing is removed.

    A full disk may have no room for a lock file. Then no other process can create the lock either.
    """

    def __init__(self, call: Call, found: list[Freed], wanted_bytes: int, kept_from_ms: int | None) -> None:
        self.codes: list[ExitCode] = []
        """Exit codes beside those of the partitions."""
        self._call, self._fs, self._found = call, call.context.fs, found
        self._wanted_bytes, self._kept_from_ms = wanted_bytes, kept_from_ms
        self._unsynced: set[str] = set()
        self._locks = ExitStack()
        self._has_lock: dict[str, bool] = {}

    def free(self) -> None:
        """Remove segments, record that, and show the results."""
        interruptions = self._call.interruptions
        with self._locks:
            with suppress(KeyboardInterrupt):  # raised while waiting for a lock
                for device in dict.fromkeys(freed.device for freed in self._found):
                    self._free_on(device, [freed for freed in self._found if freed.device == device])
            if interruptions.is_requested:
                self.codes.append(ExitCode.INTERRUPTED)
            for freed in () if self._call.dry_run else self._found:
                if freed.segments and freed.path not in self._unsynced:
                    self._record(freed)
        for freed in self._found:
            self._call.observer.show(freed)

    def _free_on(self, device: int, found: list[Freed]) -> None:
        room = self._fs.room(found[0].path).free_bytes
        for freed, segment in self._candidates(found):
            if room >= self._wanted_bytes or self._call.interruptions.is_requested:
                return
            try:
                gone_bytes = self._remove(freed, segment)
            except (KafkalogError, OSError) as error:
                cause = error.__cause__
                if isinstance(cause, SyncFailed):  # the disk's contents are unknown, so no change may follow
                    self._unsynced.add(freed.path)
                    error = unfinished(NotRecorded, freed.path, cause) if freed.segments else error
                self._fail(freed, error)
                continue
            room = room + gone_bytes if self._call.dry_run else self._fs.room(freed.path).free_bytes
        if room < self._wanted_bytes:
            message = f"{room} bytes are free, {self._wanted_bytes} were wanted: nothing else may go"
            self._note("no-room", message, found[0].source.log_dir or found[0].path, is_error=True)
            self.codes.append(ExitCode.NO_SPACE)

    def _candidates(self, found: list[Freed]) -> Iterator[tuple[Freed, FreeSegment | None]]:
        """Yield the leftovers of earlier removals (None), then the segments of all partitions by largest timestamp."""
        yield from ((freed, None) for freed in found if freed.leftovers)
        for _, freed, segment in merge(*map(self._segments_of, found), key=itemgetter(0)):
            yield freed, segment

    def _segments_of(self, freed: Freed) -> Iterator[tuple[int, Freed, FreeSegment]]:
        """Yield the segments of a partition that may go, with their largest timestamps, until something fails there.

        A timestamp is read when the segment before it was removed.
        """
        for segment in freed.candidates:
            if freed.error is not None:
                return
            try:
                timestamp = largest_timestamp(self._fs, segment.segment, enough_ms=0).timestamp_ms
            except (KafkalogError, OSError) as error:
                self._fail(freed, error)
                return
            if self._kept_from_ms is not None and timestamp >= self._kept_from_ms:
                return
            yield timestamp, freed, segment

    def _remove(self, freed: Freed, segment: FreeSegment | None) -> int:
        """Remove a segment, or the leftovers of earlier segments (None). Returns the freed bytes."""
        files = freed.leftovers if segment is None else segment.files
        if freed.dry_run:
            return freed.add(segment, files)
        self._lock(freed.path)
        removed: list[FileStatus] = []
        try:
            with partly(freed.path, is_begun=freed.has_work):
                remove_files(self._fs, freed.path, files, removed)
        finally:
            gone_bytes = freed.add(segment, removed)
        return gone_bytes

    def _lock(self, path: str) -> None:
        """Lock a partition, once."""
        if path in self._has_lock:
            return
        try:
            self._locks.enter_context(lock_partition(self._fs, path, self._call.lock_policy))
            self._has_lock[path] = True
        except NoSpace:  # then no other process can have the lock
            self._has_lock[path] = False
            self._locks.enter_context(hold(self._fs, path))

    def _record(self, freed: Freed) -> None:
        """Write leader epochs, checkpoint lines and the manifest, now that there is room."""
        path, start_offset = freed.path, freed.new_start
        if freed.source.segments[-1].is_v07 or start_offset is None:
            return
        try:
            if not self._has_lock[path]:  # removed segments have made room for it
                self._locks.enter_context(lock_partition(self._fs, path, self._call.lock_policy))
            draft = Draft(self._fs, path)
            try:
                with changed_epochs(draft) as epochs:
                    epochs.truncate_from_start(start_offset)
            except LoadFailed as failure:
                self._note("epochs", str(failure), f"{path}/{FileKind.LEADER_EPOCH_CHECKPOINT.value}")
                self.codes.append(ExitCode.WARNINGS)
            edits = line_edits(freed.source, start_offset, freed.segments[-1].next_offset)
            facts = {"unlinked": [one.segment.base_offset for one in freed.segments], "disk_bytes": freed.freed_bytes}
            journal.apply(
                self._fs, path, draft.changes(), run=self._call.run_info(()), discard=True,
                log_dir=freed.source.log_dir, edits=edits, facts=facts,
            )  # fmt: skip
        except (KafkalogError, OSError) as error:
            self._fail(freed, unfinished(NotRecorded, path, error))

    def _fail(self, freed: Freed, error: Exception) -> None:
        code = freed.exit_code
        freed.error = error if isinstance(error, KafkalogError) else KafkalogError(reason=f"{freed.path}: {error}")
        self._call.fail_after_result(freed.error, freed.path, code)

    def _note(self, kind: str, message: str, path: str, *, is_error: bool = False) -> None:
        self._call.observer.report(Note(kind, message, path, is_error=is_error))
