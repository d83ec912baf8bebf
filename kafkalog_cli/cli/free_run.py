"""One run of `kafkalog retain --free-bytes`: the oldest segments of all partitions go until there is room."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace

from kafkalog_cli.actions.cut_off import cut_off_run
from kafkalog_cli.actions.refusals import Action
from kafkalog_cli.actions.retain.free import (
    Freed,
    FreePlan,
    FreeRequest,
    FreeSegment,
    oldest_first,
    plan_free,
    record_freed,
    unlink_segment,
)
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.log_run import LogRun, LogRunOptions
from kafkalog_cli.cli.partition_run import Work
from kafkalog_cli.errors import ExitCode, KafkalogError, NoSpace, Refused, SyncFailed, combined_exit_code
from kafkalog_cli.output.freed import FREED, freed_line, freed_object
from kafkalog_cli.storage.changing.lock import lock_log_dir, lock_partition
from kafkalog_cli.storage.changing.manifest import read_manifest
from kafkalog_cli.storage.fs import LockHandle


@dataclass(frozen=True, slots=True)
class FreeOptions(LogRunOptions):
    """The command line of retain with --free-bytes."""

    free_bytes: int = field(kw_only=True)
    keep_bytes: int = field(default=0, kw_only=True)
    keep_ms: int = field(default=0, kw_only=True)


class FreeRun(LogRun[FreePlan]):
    """Looks at all partitions first, without a lock; then unlinks segment by segment, with them.

    On a disk that is full not even the file of a lock may be made: where it cannot, nobody else can have it either.
    """

    verb = "retain"
    action = Action.RETAIN
    schema = FREED

    def __init__(self, environment: Environment, options: FreeOptions) -> None:
        super().__init__(environment, replace(options, dry_run=True))
        self._freeing = options
        self._plans: list[FreePlan] = []
        self._freed: dict[str, Freed] = {}
        self._partition_locks: dict[str, LockHandle | None] = {}
        self._failures: list[ExitCode] = []
        self._failed_paths: set[str] = set()
        self._failed_with: dict[str, ExitCode] = {}
        self._unsynced: set[str] = set()
        self.counts.update(removed_segments=0, removed_bytes=0, unlinked_files=0, freed_bytes=0)

    def partition(self, work: Work) -> FreePlan:
        """See PartitionRun. What was cut off half way is not taken back: there may be no room for it."""
        self._check_finished(work)
        self.check(work, has_own_limit=True)
        root = self._roots.state(work.log_dir, work.partition)
        return plan_free(work.fs, work.partition, root, self._request(), self._places)

    def show(self, result: FreePlan) -> ExitCode:
        """Keep the plan: what goes is known when all have been looked at."""
        self._plans.append(result)
        self._failed += result.is_refused
        return result.exit_code

    def after_all(self, code: ExitCode) -> ExitCode:
        """See LogRun."""
        if code is not ExitCode.INTERRUPTED:
            planned = self._plans
            failures = self._free() if planned else []
            codes = [*self._codes_of_targets(planned), *failures]
            is_short = ExitCode.NO_SPACE in codes and ExitCode.INTERRUPTED not in codes
            code = ExitCode.NO_SPACE if is_short else combined_exit_code(codes)
        self._tell()
        return code

    def _codes_of_targets(self, planned: Sequence[FreePlan]) -> list[ExitCode]:
        """A code for each partition: that of its failure since it was planned, if there was one."""
        codes = list(self._codes)
        for plan in planned:
            if plan.path in self._failed_with:
                codes.remove(plan.exit_code)
                codes.append(self._failed_with[plan.path])
        return codes

    def _check_finished(self, work: Work) -> None:
        """Raises Refused where an earlier run waits to be taken back, which must find what it left."""
        run_id = cut_off_run(work.fs, work.partition)
        manifest = None if run_id is None else read_manifest(work.fs, work.partition.path, run_id)
        if manifest is not None and not manifest.discard:
            path = work.partition.path
            raise Refused(path=path, reason=f"run {run_id} was cut off half way: kafkalog undo {path} {run_id}")

    # -- freeing

    def _free(self) -> list[ExitCode]:
        """Unlink, then write down what went; what is wrong besides."""
        with self._interruptions.watched(), ExitStack() as self._locks:
            with suppress(KeyboardInterrupt):  # of a wait for a lock
                for device in dict.fromkeys(plan.device for plan in self._lockable()):
                    self._free_on(device)
            if self._interruptions.are_asked_for:
                self._failures.append(ExitCode.INTERRUPTED)
            if not self._freeing.dry_run:
                for freed in self._freed.values():
                    if freed.plan.path not in self._unsynced:
                        self._record(freed)
        return self._failures

    def _free_on(self, device: int) -> None:
        plans = [plan for plan in self._plans if plan.device == device]
        wanted, room = self._freeing.free_bytes, self._environment.fs.room(plans[0].path).free_bytes
        for plan, segment in self._candidates(plans):
            if room >= wanted or self._interruptions.are_asked_for:
                return
            try:
                gone_bytes = self._unlink(plan, segment)
            except (KafkalogError, OSError) as error:
                self._fail(plan, error)
                if isinstance(error.__cause__, SyncFailed):  # what the disk has is not known: nothing may follow
                    self._unsynced.add(plan.path)
                continue
            room = room + gone_bytes if self._freeing.dry_run else self._environment.fs.room(plan.path).free_bytes
        if room < wanted:
            message = f"{room} bytes are free, {wanted} were wanted: nothing else may go"
            self._messages.tell("no-room", message, path=plans[0].log_dir or plans[0].path)
            self._failures.append(ExitCode.NO_SPACE)

    def _candidates(self, plans: Sequence[FreePlan]) -> Iterator[tuple[FreePlan, FreeSegment | None]]:
        """None for what is left of what has gone before; then segments. Of a partition that failed no more."""
        failed = self._failed_paths
        for plan in plans:
            if plan.has_work and plan.leftovers and plan.path not in failed:
                yield plan, None
        open_plans = [plan for plan in plans if plan.has_work]
        for plan, segment in oldest_first(self._environment.fs, open_plans, self._request(), self._fail):
            if plan.path not in failed:
                yield plan, segment

    def _unlink(self, plan: FreePlan, segment: FreeSegment | None) -> int:
        """Unlink a segment, or (None) what is left of earlier ones; the bytes that took."""
        fs, is_dry = self._environment.fs, self._freeing.dry_run
        if not is_dry and plan.path not in self._partition_locks:
            self._lock_one(plan)
        freed = self._freed.setdefault(plan.path, Freed(plan))
        if not is_dry:
            unlink_segment(fs, plan, segment)
        if segment is None:
            freed.old_files += len(plan.leftovers)
            gone_bytes = sum(file.allocated_bytes or file.size_bytes for file in plan.leftovers)
        else:
            freed.segments.append(segment)
            gone_bytes = segment.disk_bytes
        freed.disk_bytes += gone_bytes
        return gone_bytes

    def _record(self, freed: Freed) -> None:
        plan = freed.plan
        try:
            if self._partition_locks.get(plan.path) is None:
                self._lock_one(plan)  # there may be room for it now
            remark = record_freed(self._environment.fs, freed, self.run_info(()), held=self._partition_locks[plan.path])
            if remark is not None:
                self._messages.warn("epochs", remark.message, path=remark.path)
                self._failures.append(remark.code)
        except (KafkalogError, OSError) as error:
            self._fail(plan, error)

    # -- locks

    def _lockable(self) -> list[FreePlan]:
        """The plans of log directories that could be locked."""
        for log_dir in dict.fromkeys(plan.log_dir for plan in self._plans if plan.has_work):
            if log_dir is None or self._freeing.dry_run:
                continue
            try:
                lock = lock_log_dir(self._environment.fs, log_dir, self._policy)
                if lock is not None:
                    self._locks.enter_context(lock)
            except NoSpace:
                self._messages.warn("no-lock", "there is no room for the lock, so nobody else has it", path=log_dir)
            except KafkalogError as error:
                self._messages.exception(error)
                self._failed_with |= {p.path: error.exit_code for p in self._plans if p.log_dir == log_dir}
                self._plans = [plan for plan in self._plans if plan.log_dir != log_dir]
        return self._plans

    def _lock_one(self, plan: FreePlan) -> None:
        with suppress(NoSpace):  # nor has anybody else
            lock = lock_partition(self._environment.fs, plan.path, self._policy)
            self._partition_locks[plan.path] = lock
            if lock is not None:
                self._locks.enter_context(lock)
            return
        self._partition_locks[plan.path] = None

    def _fail(self, plan: FreePlan, error: Exception) -> None:
        known = error if isinstance(error, KafkalogError) else KafkalogError(reason=f"{plan.path}: {error}")
        self._messages.exception(known)
        self._failed_with[plan.path] = known.exit_code
        self._failed += plan.path not in self._failed_paths
        self._failed_paths.add(plan.path)

    # -- telling

    def _tell(self) -> None:
        for plan in self._plans:
            freed = self._freed.get(plan.path)
            if self._json is not None:
                shown = freed_object(freed or Freed(plan), run_id=self._run_id, dry_run=self._freeing.dry_run)
                self._json.object(FREED, "freed", shown)
            elif freed is not None or not self._options.quiet:
                self._out.write(freed_line(freed or Freed(plan), dry_run=self._freeing.dry_run) + "\n")
            if freed is not None:
                self._count(freed)

    def _count(self, freed: Freed) -> None:
        self.counts["changed"] += not self._freeing.dry_run
        self.counts["removed_segments"] += len(freed.segments)
        self.counts["removed_bytes"] += sum(segment.segment.log.size_bytes for segment in freed.segments)
        self.counts["unlinked_files"] += freed.old_files
        self.counts["freed_bytes"] += freed.disk_bytes

    def _request(self) -> FreeRequest:
        return FreeRequest(
            self._clock.now_ms,
            self._settings,
            kernels=self._environment.kernels,
            keep_bytes=self._freeing.keep_bytes,
            keep_ms=self._freeing.keep_ms,
        )
