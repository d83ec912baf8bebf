"""What roll, retain, truncate and delete-records share: a plan and its changes, one line a partition."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from kafkalog_cli.actions.apply_changes import MARKER_STAYS_AWAY, Applied, Marker
from kafkalog_cli.actions.log_plan import LogPlan
from kafkalog_cli.actions.root_state import RootState
from kafkalog_cli.actions.time_spec import parse_duration_ms
from kafkalog_cli.cli.log_run import LogRun
from kafkalog_cli.cli.partition_run import Work
from kafkalog_cli.errors import ExitCode, UsageError
from kafkalog_cli.output.log_change_json import plan_object
from kafkalog_cli.output.log_change_text import Said, plan_lines
from kafkalog_cli.storage.changing.changes import Cut
from kafkalog_cli.storage.changing.manifest import RunInfo

PlanT = TypeVar("PlanT", bound=LogPlan)


@dataclass(frozen=True, slots=True)
class Changed(Generic[PlanT]):
    """What there is to say of one partition; `done` None: nothing was changed."""

    plan: PlanT
    done: Applied | None


class LogWriter(LogRun[Changed[PlanT]], Generic[PlanT]):
    """Plans and changes logs. A command says in `plan`, `apply`, `said` and `fields` what is its own."""

    explains = False
    """Whether `more_lines` tells all that there is, so that the changes need not be listed."""

    warns_first = False
    """Whether warnings come before the change, and not with its result: of commands that take one partition."""

    # -- what a command says

    @abstractmethod
    def plan(self, work: Work, root: RootState) -> PlanT:
        """What is to be done to one partition. Raises KafkalogError, OSError."""

    @abstractmethod
    def apply(self, work: Work, plan: PlanT, run: RunInfo) -> Changed[PlanT]:
        """Do it; what is known only then is in the plan that comes back. Raises KafkalogError, OSError."""

    @abstractmethod
    def said(self, plan: PlanT, done: Applied | None) -> Said:
        """What was done, or would be, in words."""

    @abstractmethod
    def drops(self, plan: PlanT) -> bool:
        """Whether records go that are valid."""

    @abstractmethod
    def fields(self, plan: PlanT) -> dict[str, Any]:
        """The fields of its objects that other commands do not have."""

    def more_lines(self, plan: PlanT) -> Iterator[str]:
        """Lines for people, after all others."""
        del plan
        return iter(())

    def count(self, plan: PlanT, done: Applied | None) -> None:
        """Add a partition to `counts`."""

    def tell(self, plan: PlanT, done: Applied | None) -> None:
        """Say for people what was done to one partition, or would be."""
        is_dry = self._writing.dry_run
        for line in plan_lines(plan, self.said(plan, done), dry_run=is_dry, with_changes=is_dry and not self.explains):
            self._out.write(line + "\n")
        for line in self.more_lines(plan):
            self._out.write(line + "\n")

    # -- the run

    def partition(self, work: Work) -> Changed[PlanT]:
        """See PartitionRun."""
        return self.carry_out(work, self.plan(work, self.begin(work)))

    def carry_out(self, work: Work, plan: PlanT) -> Changed[PlanT]:
        """Do what is planned, unless this is a dry run. Raises KafkalogError, OSError."""
        if self._writing.dry_run or not plan.has_work:
            return Changed(plan, None)
        if self.warns_first:
            self.warn_now(work)
        if self.drops(plan):
            self.confirm(work, self.said(plan, None).what)
        with self.locked(work):
            return self.apply(work, plan, self.run_info(plan.settings))

    def warn_now(self, work: Work) -> None:
        """Print what there is to know of a partition before it is changed, while it can still be stopped."""
        with self._progress.paused():
            for kind, message, path in work.take_told():
                self._messages.warn(kind, message, path=path)

    def show(self, result: Changed[PlanT]) -> ExitCode:
        """See PartitionRun."""
        plan, done = result.plan, result.done
        is_dry = self._writing.dry_run
        if self._json is not None:
            run_id = None if done is None else done.manifest.run.run_id
            shown = {**plan_object(plan, run_id=run_id, dry_run=is_dry), **self.fields(plan)}
            self._json.object(self.schema, self.schema.removeprefix("kafkalog.").partition("/")[0], shown)
        elif plan.has_work or plan.remarks or not self._options.quiet:
            self.tell(plan, done)
        self.counts["changed"] += plan.has_work and not is_dry
        self._failed += plan.is_refused
        if not plan.is_refused:
            self.count(plan, done)
        if done is not None and done.marker is Marker.AWAY:
            self._messages.warn("marker", MARKER_STAYS_AWAY, path=plan.log_dir)
        return plan.exit_code


def in_place(plan: LogPlan) -> frozenset[str]:
    """The files whose bytes change where they lie."""
    return frozenset(change.name for change in plan.changes if isinstance(change, Cut))


def delay_of(delay: str | None, *, keeps: bool) -> int | None:
    """What `--delay` says, in ms; None without it. Raises UsageError, also where `--keep` leaves nothing to wait."""
    if delay is not None and keeps:
        raise UsageError(reason="--delay does not go with --keep: nothing is named .deleted")
    return None if delay is None else parse_duration_ms(delay)
