"""One partition while a verb changes it: its disk, its lock, the refusals that apply, and its changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

from kafkalog_cli.change.runs import odd_entries
from kafkalog_cli.disk.fs import WritableFilesystem
from kafkalog_cli.disk.lock import lock_partition
from kafkalog_cli.errors import ExitCode, NoSpace, Refused
from kafkalog_cli.log.partition import Partition, open_partition
from kafkalog_cli.log.settings.source import SettingsSource
from kafkalog_cli.ops.call.observer import Note

if TYPE_CHECKING:
    from kafkalog_cli.change.manifest import RunInfo
    from kafkalog_cli.ops.call.call import Call
    from kafkalog_cli.ops.change.apply_changes import Applied
    from kafkalog_cli.ops.change.plans import ChangePlan
    from kafkalog_cli.ops.change.refusals import Action, AppliedRule
    from kafkalog_cli.ops.ownership import Replication


ResultT = TypeVar("ResultT")
PlanT = TypeVar("PlanT", bound="ChangePlan")


class Applier(Protocol):
    """Applies a plan under the partition's lock."""

    def __call__(self, fs: WritableFilesystem, plan: Any, run: RunInfo) -> Applied | None:
        """Return what was changed, None if nothing was. Raises KafkalogError, OSError."""


@dataclass(frozen=True, slots=True)
class Changed(Generic[PlanT]):
    """The result of a changing verb for one partition. `done` is None if nothing was changed, as in a dry run.

    `is_named`: whether the command line names the partition or its topic, for verbs that depend on that.
    """

    plan: PlanT
    done: Applied | None
    is_dry_run: bool = False
    is_named: bool = True

    @property
    def exit_code(self) -> ExitCode:
        """The plan's exit code."""
        return self.plan.exit_code

    @property
    def has_work(self) -> bool:
        """Whether the partition is changed, or would be."""
        return self.plan.has_work and not self.plan.is_refused

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to report."""
        return not self.plan.has_work and not self.plan.remarks

    @property
    def is_changed(self) -> bool:
        """Whether the partition was changed."""
        return self.plan.has_work and not self.is_dry_run

    @property
    def given(self) -> dict[str, object]:
        """The fields of the plan's object that do not come from the plan."""
        return {"dry_run": self.is_dry_run, "run": None if self.done is None else self.done.manifest.run.run_id}


class Target:
    """One partition that a verb changes, in its own thread.

    `log_dir` is None if the partition is in no log directory. `fs` is the filesystem through which the verb must read
    and change the partition: progress counts what is read, and a request to stop ends the work at a read.
    """

    def __init__(self, call: Call, partition: Partition, *, counts_logs: bool, stops_safely: bool) -> None:
        self.call, self.partition = call, partition
        self.log_dir = call.log_dir(partition.path)
        self.clock, self.places, self.dry_run = call.clock, call.places, call.dry_run
        self.fs: WritableFilesystem = call.metered(self._count) if stops_safely else call.context.fs
        self._is_locked = False
        self.replication: Replication | None = None
        self.replication_unknown_because = ""
        self._must_finish = False
        self._notes: list[Note] = []
        segments = partition.segments if counts_logs else ()
        self._sizes = {segment.log.path: segment.log.size_bytes for segment in segments}
        self._left = dict(self._sizes)
        partition.join(call.roots)

    @property
    def settings(self) -> SettingsSource:
        """The source of topic and broker settings."""
        assert self.call.roots.settings is not None
        return self.call.roots.settings

    @property
    def is_named(self) -> bool:
        """Whether the command line names the partition's directory or its topic."""
        call = self.call
        return self.partition.path in call.named_paths or self.partition.topic in call.named_topics

    def run(self, change: Callable[[Target], ResultT]) -> ResultT:
        """Change the partition, and return the result, with the next steps of its plan's remarks ready to paste."""
        try:
            if self.call.run_id:
                for path, what in odd_entries(self.fs, self.partition.path):
                    self.note("odd-entry", f"skipped: kafkalog did not make it ({what})", path)
                self._settle_marker()
            return self._with_next_steps(change(self))
        finally:  # log bytes that were not read are taken off the expected total
            self.call.observer.progress.expect_more(-sum(self._left.values()))
            self._left.clear()

    def _count(self, path: str, size_bytes: int) -> None:
        """Count `size_bytes` that are about to be read or written at `path`.

        A log that is read a second time (to check the result of a change) adds its size to the expected total.
        Raises KeyboardInterrupt if a stop was requested and the work may still be abandoned.
        """
        if not self._must_finish:
            self.call.interruptions.safe_point()
        left = self._left.get(path)
        if left is None or not size_bytes:
            return
        progress = self.call.observer.progress
        if not left:
            left = self._sizes[path]
            progress.expect_more(left)
        self._left[path] = left - min(left, size_bytes)
        progress.advance(min(left, size_bytes), path)

    # -- what there is to say

    def note(self, kind: str, message: str, path: str | None) -> None:
        """Add a note to report with the partition's result; equal notes are reported once."""
        self._notes.append(Note(kind, message, path))

    def take_notes(self) -> list[Note]:
        """Return the notes added since the last call."""
        notes, self._notes = self._notes, []
        return notes

    def warn(self, verdicts: Sequence[AppliedRule]) -> None:
        """Add a note for each verdict, which is a warning from the table of refusals."""
        for verdict in verdicts:
            self.note(verdict.rule.name, verdict.message, verdict.path)

    def note_unread_run(self) -> None:
        """Note a manifest of the partition's last run that is not one of kafkalog's: nothing is done by it."""
        from kafkalog_cli.ops.change.undo.last_run import unread_run

        found = unread_run(self.fs, self.partition)
        if found is not None:
            path, reason = found
            self.note("manifest", reason, path)

    def report_now(self) -> None:
        """Report the notes now, before the partition is changed and while the user can still stop the change."""
        self.call.observer.report_now(self.call.unreported(self.take_notes()))

    def confirm(self, plan: Any) -> None:
        """Ask the user before valid records are removed, except in a dry run. Raises NotChanged, KeyboardInterrupt."""
        if not self.dry_run:
            self.call.observer.consent(self.partition.path, plan)

    # -- before the change

    def _settle_marker(self) -> None:
        """Restore the clean shutdown marker that an earlier run on the partition could not restore."""
        fs, partition, log_dir = self.fs, self.partition, self.log_dir
        if self.dry_run or log_dir is None:
            return
        from kafkalog_cli.change.clean_marker import settled_runs
        from kafkalog_cli.ops.change.apply_changes import settle_marker

        if not settled_runs(fs, partition.path, partition.name, log_dir):
            return
        try:
            with lock_partition(fs, partition.path, self.call.lock_policy):
                message = settle_marker(fs, partition, log_dir, self.clock.now_ms)
        except NoSpace as error:
            message = f".kafka_cleanshutdown is still missing: {error}"
        if message is not None:
            self.note("marker", message, log_dir)

    def begin(self) -> None:
        """Undo a run that was interrupted on this partition.

        A dry run only notes that the run would be undone. A run that cannot be undone, or read, is noted too. Raises
        KafkalogError.
        """
        from kafkalog_cli.ops.change.undo.last_run import cut_off_run
        from kafkalog_cli.ops.change.undo.plan import take_back

        self.note_unread_run()
        run_id = cut_off_run(self.fs, self.partition)
        if run_id is None:
            return
        path = self.partition.path
        if self.dry_run:
            self.note("cut-off", f"run {run_id} was cut off half way, and would be undone first", path)
            return
        with self.locked():
            try:
                take_back(self.fs, self.partition, run_id, self.clock, self.places)
                self.note("cut-off", f"run {run_id} was cut off half way, and is undone now", path)
            except Refused as refused:
                self.note("cut-off", f"run {run_id} was cut off half way, and cannot be undone: {refused}", path)
        self.reopen()

    def reopen(self) -> Partition:
        """Read the partition again, and what its log directory says of it; return it."""
        self.partition = open_partition(self.fs, self.partition.path, self.call.roots.again())
        return self.partition

    def check(self, action: Action, **intent: Any) -> None:
        """Check `action` against the table of refusals, and add its warnings as notes.

        Raises Refused, UnsupportedFormat, and as `SettingsSource.metadata` does.
        """
        from kafkalog_cli.ops.change.refusals import Intent, judge, raise_refusals
        from kafkalog_cli.ops.ownership import replication_of

        call, partition = self.call, self.partition
        if partition.entries:  # the check is on the files of now
            partition = open_partition(self.fs, partition.path, call.roots)
        self.replication, self.replication_unknown_because = replication_of(partition)
        verdicts = judge(
            partition,
            Intent(
                action,
                self.clock.now_ms,
                self.places,
                self.clock.is_given,
                single_replica=call.single_replica,
                is_named_alone=call.named_topics == {partition.topic},
                argv=call.argv,
                **intent,
            ),
        )
        raise_refusals(verdicts)
        self.warn(verdicts)

    def _with_next_steps(self, result: ResultT) -> ResultT:
        from kafkalog_cli.ops.change.plans import ChangePlan

        plan = getattr(result, "plan", None)
        if not isinstance(plan, ChangePlan) or not plan.remarks:
            return result
        from kafkalog_cli.ops.steps import with_next_steps

        remarks = with_next_steps(plan.path, plan.remarks, self.replication, self.settings.metadata_option)
        plan = replace(plan, remarks=remarks)
        return cast(ResultT, replace(cast(Any, result), plan=plan))

    # -- the change

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the partition's lock, once, except in a dry run; requests to stop are ignored from here on.

        Raises Locked, Refused, NoSpace, and KeyboardInterrupt if a stop was requested before.
        """
        if self.dry_run or self._is_locked:
            yield
            return
        try:
            with lock_partition(self.fs, self.partition.path, self.call.lock_policy):
                self.call.interruptions.safe_point()
                self._is_locked = self._must_finish = True
                yield
        finally:
            self._is_locked = False

    def change(self, plan: PlanT, apply: Applier, *, warns_first: bool = False) -> Changed[PlanT]:
        """Apply a plan with `apply` under the partition's lock, unless this is a dry run or there is nothing to do.

        `warns_first`: the notes are reported before the change. Raises KafkalogError, OSError.
        """
        if self.dry_run or not plan.has_work:
            return Changed(plan, None, self.dry_run)
        with self.ready_to_change(plan, warns_first=warns_first):
            return self.changed(plan, apply(self.fs, plan, self.call.run_info(plan.settings)))

    @contextmanager
    def ready_to_change(self, plan: ChangePlan, *, warns_first: bool = False) -> Iterator[None]:
        """Report notes if `warns_first`, ask the user if valid records are removed, and hold the partition's lock.

        Raises the exceptions of `locked` and `confirm`.
        """
        if warns_first:
            self.report_now()
        if plan.drops_valid:
            self.confirm(plan)
        with self.locked():
            yield

    def changed(self, plan: PlanT, done: Applied | None) -> Changed[PlanT]:
        """Return the result, and note if the clean shutdown marker was not restored."""
        from kafkalog_cli.ops.change.apply_changes import MARKER_STAYS_AWAY

        if done is not None and done.is_marker_away:
            self.note("marker", MARKER_STAYS_AWAY, plan.log_dir)
        return Changed(plan, done)
