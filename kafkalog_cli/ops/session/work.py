"""One partition while a verb works on it: its disk, its lock, the refusals that apply, and its changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from kafkalog_cli.disk.fs import LockHandle, WritableFilesystem
from kafkalog_cli.disk.lock import lock_partition
from kafkalog_cli.errors import NO_ROOM, ExitCode, KafkalogError, NoSpace, Refused, Unreadable
from kafkalog_cli.log.partition import Partition, open_partition
from kafkalog_cli.log.settings.source import SettingsSource
from kafkalog_cli.ops.engine import log_bytes
from kafkalog_cli.ops.session.observer import Note

if TYPE_CHECKING:
    from kafkalog_cli.change.manifest import RunInfo
    from kafkalog_cli.ops.apply_changes import Applied
    from kafkalog_cli.ops.ownership import Replication
    from kafkalog_cli.ops.plans import ChangePlan
    from kafkalog_cli.ops.refusals import Action, AppliedRule
    from kafkalog_cli.ops.session.session import Session


ResultT = TypeVar("ResultT")
PlanT = TypeVar("PlanT", bound="ChangePlan")


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


class Work:
    """One partition that a verb works on, in its own thread.

    `task` is the plan of a verb that plans its own work. `size_bytes` is the size of the logs to read (None: of all).
    `log_dir` is None if the partition is in no log directory. `fs` is the filesystem through which the verb must read
    and change the partition. `lock` is the partition's lock while it is held. `must_finish` is true once changes may
    have begun: a request to stop is ignored then.
    """

    def __init__(
        self, partition: Partition, log_dir: str | None, task: Any = None, size_bytes: int | None = None
    ) -> None:
        self.partition = partition
        self.log_dir = log_dir
        self.task = task
        self.size_bytes = log_bytes(partition) if size_bytes is None else size_bytes
        self.fs: WritableFilesystem
        self.lock: LockHandle | None = None
        self.must_finish = False
        self.session: Session
        self._notes: list[Note] = []
        self.replication: Replication | None = None
        self.replication_unknown_because = ""

    def bind(self, session: Session, fs: WritableFilesystem) -> None:
        """Set the session that does this work, and its metered filesystem."""
        self.session, self.fs = session, fs
        self.partition.join(session.roots)
        self.clock, self.places, self.dry_run = session.clock, session.places, session.options.dry_run

    @property
    def settings(self) -> SettingsSource:
        """The source of topic and broker settings."""
        assert self.session.roots.settings is not None
        return self.session.roots.settings

    @property
    def is_named(self) -> bool:
        """Whether the command line names the partition's directory or its topic."""
        session = self.session
        return self.partition.path in session.named_paths or self.partition.topic in session.named_topics

    # -- what there is to say

    def note(self, kind: str, message: str, path: str | None) -> None:
        """Add a note to report with the partition's result; the session reports equal notes once."""
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
        from kafkalog_cli.ops.undo.last_run import unread_run

        found = unread_run(self.fs, self.partition)
        if found is not None:
            path, reason = found
            self.note("manifest", reason, path)

    def report_now(self) -> None:
        """Report the notes now, before the partition is changed and while the user can still stop the change."""
        self.session.observer.report_now(self.session.unreported(self.take_notes()))

    def confirm(self, plan: Any) -> None:
        """Ask the user before valid records are removed, except in a dry run. Raises NotChanged, KeyboardInterrupt."""
        if not self.dry_run:
            self.session.observer.consent(self.partition.path, plan)

    # -- before the change

    def begin(self) -> None:
        """Undo a run that was interrupted on this partition.

        A dry run only notes that the run would be undone. A run that cannot be undone is noted too. Raises
        KafkalogError.
        """
        from kafkalog_cli.ops.undo.last_run import cut_off_run
        from kafkalog_cli.ops.undo.plan import take_back

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
        self.partition = open_partition(self.fs, self.partition.path, self.session.roots.again())
        return self.partition

    def check(self, action: Action, **intent: Any) -> None:
        """Check `action` against the table of refusals, and add its warnings as notes.

        Raises Refused, UnsupportedFormat, and as `SettingsSource.metadata` does.
        """
        from kafkalog_cli.ops.ownership import replication_of
        from kafkalog_cli.ops.refusals import Intent, judge, raise_refusals

        session, partition = self.session, self.partition
        if partition.entries:  # the check is on the files of now
            partition = open_partition(self.fs, partition.path, session.roots)
        self.replication, self.replication_unknown_because = replication_of(partition)
        verdicts = judge(
            partition,
            Intent(
                action,
                self.clock.now_ms,
                self.places,
                self.clock.is_given,
                single_replica=session.options.single_replica,
                is_named_alone=session.named_topics == {partition.topic},
                argv=session.argv,
                **intent,
            ),
        )
        raise_refusals(verdicts)
        self.warn(verdicts)

    def with_next_steps(self, result: ResultT) -> ResultT:
        """Return the result of the verb, with the next steps of its plan's remarks ready to paste."""
        if not self.session.verb.changes:
            return result
        from kafkalog_cli.ops.plans import ChangePlan

        plan = getattr(result, "plan", result)
        if not isinstance(plan, ChangePlan) or not plan.remarks:
            return result
        from kafkalog_cli.ops.steps import with_next_steps

        settings = self.session.roots.settings
        metadata = None if settings is None else settings.metadata_option
        plan = replace(plan, remarks=with_next_steps(plan, self.replication, metadata))
        is_plan = isinstance(result, ChangePlan)
        return cast(ResultT, plan if is_plan else replace(cast(Any, result), plan=plan))

    # -- the change

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the partition's lock, once, except in a dry run; requests to stop are ignored from here on.

        Raises Locked, Refused, NoSpace, and KeyboardInterrupt if a stop was requested before.
        """
        if self.dry_run or self.lock is not None:
            yield
            return
        try:
            with lock_partition(self.fs, self.partition.path, self.session.lock_policy) as self.lock:
                self.session.interruptions.safe_point()
                self.must_finish = True
                yield
        finally:
            self.lock = None

    def change(
        self, plan: PlanT, apply: Callable[[RunInfo], Applied | None], *, warns_first: bool = False
    ) -> Changed[PlanT]:
        """Apply a plan with `apply` under the partition's lock, unless this is a dry run or there is nothing to do.

        `warns_first`: the notes are reported before the change. Raises KafkalogError, OSError.
        """
        if self.dry_run or not plan.has_work:
            return Changed(plan, None, self.dry_run)
        with self.ready_to_change(plan, warns_first=warns_first):
            return self.changed(plan, apply(self.session.run_info(plan.settings)))

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
        from kafkalog_cli.ops.apply_changes import MARKER_STAYS_AWAY, MarkerState

        if done is not None and done.marker is MarkerState.AWAY:
            self.note("marker", MARKER_STAYS_AWAY, plan.log_dir)
        return Changed(plan, done)


@dataclass(frozen=True, slots=True)
class Outcome(Generic[ResultT]):
    """The outcome for one partition: a result, an error, or neither if the work was not started or was interrupted.

    `is_told`: the error was already reported with another partition.
    """

    work: Work
    result: ResultT | None = None
    error: KafkalogError | None = None
    is_told: bool = False


class Meter:
    """Counts the bytes read from one partition's logs, and stops the work at a read if a stop was requested.

    A log that is read a second time (to check the result of a change) adds its size to the expected total.
    """

    def __init__(self, work: Work, session: Session) -> None:
        self._work = work
        self._observer = session.observer
        self._interruptions = session.interruptions
        segments = work.partition.segments if session.verb.counts_logs else ()
        self._sizes = {segment.log.path: segment.log.size_bytes for segment in segments}
        self._left = dict(self._sizes)

    def __call__(self, path: str, size_bytes: int) -> None:
        """Count `size_bytes` that are about to be read or written at `path`.

        Raises KeyboardInterrupt if a stop was requested and the work may still be abandoned.
        """
        if not self._work.must_finish:
            self._interruptions.safe_point()
        left = self._left.get(path)
        if left is None or not size_bytes:
            return
        if not left:
            left = self._sizes[path]
            self._observer.progress.expect_more(left)
        self._left[path] = left - min(left, size_bytes)
        self._observer.progress.advance(min(left, size_bytes), path)

    def finish(self) -> None:
        """End the count for the partition: log bytes that were not read are taken off the expected total."""
        self._observer.progress.expect_more(-sum(self._left.values()))
        self._left.clear()


def of_the_system(path: str, error: OSError) -> KafkalogError:
    """Translate an OSError about `path`, or about the file that the error names, into NoSpace or Unreadable."""
    named = error.filename if isinstance(error.filename, str) else path
    if error.errno in NO_ROOM:
        told: KafkalogError = NoSpace(path=named, reason="it could not be written")
    else:
        told = Unreadable(path=named, reason=error.strerror or str(error))
    told.__cause__ = error
    return told
