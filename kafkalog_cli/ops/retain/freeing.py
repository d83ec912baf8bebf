"""The verb `retain --free-bytes`: removes the oldest segments of all partitions until enough room is free."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace

from kafkalog_cli.change.manifest import read_manifest
from kafkalog_cli.change.removal import partly
from kafkalog_cli.disk.durable import unfinished
from kafkalog_cli.disk.fs import FileStatus, LockHandle
from kafkalog_cli.disk.lock import hold, lock_log_dir, lock_partition
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
from kafkalog_cli.ops.refusals import Action
from kafkalog_cli.ops.retain.free import (
    Freed,
    FreePlan,
    FreeSegment,
    oldest_first,
    plan_free,
    record_freed,
    unlink_segment,
)
from kafkalog_cli.ops.session.observer import Note
from kafkalog_cli.ops.session.session import Session
from kafkalog_cli.ops.session.verb import Summary, Verb
from kafkalog_cli.ops.session.work import Work
from kafkalog_cli.ops.undo.last_run import cut_off_run


def plan_freeing(work: Work, *, keep_bytes: int) -> FreePlan:
    """Plan which segments of one partition may be removed.

    An interrupted run is not undone here, because there may be no room for that.
    """
    _check_finished(work)
    work.check(Action.RETAIN, has_own_limit=True)
    return plan_free(work.fs, work.partition, keep_bytes, work.places)


def _check_finished(work: Work) -> None:
    """Raise Refused if an interrupted run must be undone first: its undo needs the files that the run left."""
    run_id = cut_off_run(work.fs, work.partition) or ""
    manifest = None if not run_id else read_manifest(work.fs, work.partition.path, run_id)
    if manifest is not None and not manifest.discard:
        path = work.partition.path
        command = f"kafkalog undo {shell_word(path)} {shell_word(run_id)}"
        raise Refused(path=path, reason=f"run {run_id} was cut off half way: `{command}` undoes it")


def _files(plan: FreePlan, segment: FreeSegment | None) -> tuple[FileStatus, ...]:
    return plan.leftovers if segment is None else segment.files


FREE = Verb(Action.RETAIN.value)
"""Plans all partitions, in a session that is a dry run and takes no lock. `Freeing` then removes the segments."""


@dataclass(slots=True)
class Freeing:
    """Removes segments one by one, under the locks; with `dry_run`, nothing is removed.

    Segments that are at most `keep_ms` old stay, if it is not 0.

    A full disk may have no room for a lock file. Then no other process can create the lock either.
    """

    session: Session
    keep_ms: int
    wanted_bytes: int
    dry_run: bool
    plans: list[FreePlan] = field(default_factory=list)
    freed: dict[str, Freed] = field(default_factory=dict)
    failed_paths: set[str] = field(default_factory=set)
    _partition_locks: dict[str, LockHandle | None] = field(default_factory=dict)
    _failures: list[ExitCode] = field(default_factory=list)
    _failed_with: dict[str, ExitCode] = field(default_factory=dict)
    _unsynced: set[str] = field(default_factory=set)
    _locks: ExitStack = field(default_factory=ExitStack)

    def free(self, summary: Summary) -> Summary:
        """Remove segments, after all `plans` were made with this summary; an interrupted run removes none."""
        if summary.code is ExitCode.INTERRUPTED:
            return summary
        planned = list(self.plans)
        failures = self._free() if planned else []
        found = [*self._codes_of_targets(summary.codes, planned), *failures]
        is_short = ExitCode.NO_SPACE in found and ExitCode.INTERRUPTED not in found
        code = ExitCode.NO_SPACE if is_short else combined_exit_code(found)
        return summary._replace(code=code, failed=summary.failed + len(self.failed_paths))

    def results(self) -> Iterator[Freed]:
        """Yield the result for each partition, also if none of its segments was removed."""
        run_id = self.session.run_id
        for plan in self.plans:
            yield replace(self.freed.get(plan.path) or Freed(plan), run_id=run_id, is_dry_run=self.dry_run)

    def _codes_of_targets(self, codes: Sequence[ExitCode], planned: Sequence[FreePlan]) -> list[ExitCode]:
        """Return an exit code per partition: the code of a failure after planning, else the code of the plan."""
        found = list(codes)
        for plan in planned:
            if plan.path in self._failed_with:
                found.remove(plan.exit_code)
                found.append(self._failed_with[plan.path])
        return found

    def _free(self) -> list[ExitCode]:
        """Remove segments, then record them. Returns the codes of further failures."""
        interruptions = self.session.interruptions
        with interruptions.watched(), self._locks:
            with suppress(KeyboardInterrupt):  # raised while waiting for a lock
                for device in dict.fromkeys(plan.device for plan in self._lockable()):
                    self._free_on(device)
            if interruptions.are_asked_for:
                self._failures.append(ExitCode.INTERRUPTED)
            if not self.dry_run:
                for freed in self.freed.values():
                    if freed.plan.path not in self._unsynced:
                        self._record(freed)
        return self._failures

    def _free_on(self, device: int) -> None:
        fs = self.session.context.fs
        plans = [plan for plan in self.plans if plan.device == device]
        room = fs.room(plans[0].path).free_bytes
        for plan, segment in self._candidates(plans):
            if room >= self.wanted_bytes or self.session.interruptions.are_asked_for:
                return
            try:
                gone_bytes = self._unlink(plan, segment)
            except (KafkalogError, OSError) as error:
                cause = error.__cause__
                if isinstance(cause, SyncFailed):  # the disk's contents are unknown, so no change may follow
                    self._unsynced.add(plan.path)
                    error = unfinished(NotRecorded, plan.path, cause) if self.freed[plan.path].segments else error
                self._fail(plan, error)
                continue
            room = room + gone_bytes if self.dry_run else fs.room(plan.path).free_bytes
        if room < self.wanted_bytes:
            message = f"{room} bytes are free, {self.wanted_bytes} were wanted: nothing else may go"
            self._report("no-room", message, plans[0].log_dir or plans[0].path, is_error=True)
            self._failures.append(ExitCode.NO_SPACE)

    def _candidates(self, plans: Sequence[FreePlan]) -> Iterator[tuple[FreePlan, FreeSegment | None]]:
        """Yield leftovers of earlier removals (None), then segments. A partition that failed is skipped."""
        failed = self.failed_paths
        for plan in plans:
            if plan.has_work and plan.leftovers and plan.path not in failed:
                yield plan, None
        open_plans = [plan for plan in plans if plan.has_work]
        kept_from_ms = self.session.clock.now_ms - self.keep_ms if self.keep_ms > 0 else None
        for plan, segment in oldest_first(self.session.context.fs, open_plans, kept_from_ms, self._fail):
            if plan.path not in failed:
                yield plan, segment

    def _unlink(self, plan: FreePlan, segment: FreeSegment | None) -> int:
        """Remove a segment, or the leftovers of earlier segments (None). Returns the freed bytes."""
        if not self.dry_run and plan.path not in self._partition_locks:
            self._lock_one(plan)
        freed = self.freed.setdefault(plan.path, Freed(plan))
        if not self.dry_run:
            removed: list[FileStatus] = []
            try:
                with partly(plan.path, is_begun=bool(freed.segments or freed.old_files)):
                    unlink_segment(self.session.context.fs, plan, segment, removed)
            except (KafkalogError, OSError):
                freed.add(segment, removed)
                raise
        return freed.add(segment, _files(plan, segment))

    def _record(self, freed: Freed) -> None:
        plan, session = freed.plan, self.session
        try:
            if self._partition_locks.get(plan.path) is None:
                self._lock_one(plan)  # removed segments may have made room for the lock
            run, held = session.run_info(()), self._partition_locks[plan.path]
            remark = record_freed(session.context.fs, freed, run, held=held)
            if remark is not None:
                self._report("epochs", remark.message, remark.path)
                self._failures.append(remark.code)
        except (KafkalogError, OSError) as error:
            self._fail(plan, unfinished(NotRecorded, plan.path, error) if freed.segments else error)

    def _lockable(self) -> list[FreePlan]:
        """Lock the log directories, and return the plans of the directories that could be locked."""
        for log_dir in dict.fromkeys(plan.log_dir for plan in self.plans if plan.has_work):
            if log_dir is None or self.dry_run:
                continue
            try:
                policy = self.session.lock_policy
                self._locks.enter_context(lock_log_dir(self.session.context.fs, log_dir, policy))
            except NoSpace:
                self._locks.enter_context(hold(self.session.context.fs, log_dir))
                self._report("no-lock", "there is no room for the lock, so nobody else has it", log_dir)
            except KafkalogError as error:
                self.session.observer.fail(error, is_told=False)
                failed = {plan.path: error.exit_code for plan in self.plans if plan.log_dir == log_dir}
                self._failed_with |= failed
                self.failed_paths.update(failed)
                self.plans = [plan for plan in self.plans if plan.log_dir != log_dir]
        return self.plans

    def _lock_one(self, plan: FreePlan) -> None:
        with suppress(NoSpace):  # then no other process can have the lock
            lock = lock_partition(self.session.context.fs, plan.path, self.session.lock_policy)
            self._partition_locks[plan.path] = self._locks.enter_context(lock)
            return
        self._partition_locks[plan.path] = None
        self._locks.enter_context(hold(self.session.context.fs, plan.path))

    def _fail(self, plan: FreePlan, error: Exception) -> None:
        known = error if isinstance(error, KafkalogError) else KafkalogError(reason=f"{plan.path}: {error}")
        self.session.observer.fail(known, is_told=False)
        self._failed_with[plan.path] = known.exit_code
        self.failed_paths.add(plan.path)

    def _report(self, kind: str, message: str, path: str, *, is_error: bool = False) -> None:
        self.session.observer.report(Note(kind, message, path, is_error=is_error))
