"""One run of `kafkalog retain`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from kafkalog_cli.actions.apply_changes import Applied
from kafkalog_cli.actions.change_plan import Remark
from kafkalog_cli.actions.refusals import Action
from kafkalog_cli.actions.retain.plan import RetainPlan, RetainRequest
from kafkalog_cli.actions.retain.retain import apply_retain, plan_retain
from kafkalog_cli.actions.root_state import RootState
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.log_run import LogRunOptions
from kafkalog_cli.cli.log_writer import Changed, LogWriter, delay_of
from kafkalog_cli.cli.partition_run import Work
from kafkalog_cli.errors import ExitCode, Refused
from kafkalog_cli.output.log_change_json import RETENTION, retention_fields
from kafkalog_cli.output.log_change_text import Said, retention_words, undo_words
from kafkalog_cli.output.retain_explain_text import explain_lines
from kafkalog_cli.storage.changing.manifest import RunInfo


@dataclass(frozen=True, slots=True)
class RetainOptions(LogRunOptions):
    """The command line of retain, as it is."""

    explain: bool = field(default=False, kw_only=True)
    delay: str | None = field(default=None, kw_only=True)
    keep: bool = field(default=False, kw_only=True)


class RetainRun(LogWriter[RetainPlan]):
    """Retains partitions."""

    verb = "retain"
    action = Action.RETAIN
    schema = RETENTION

    def __init__(self, environment: Environment, options: RetainOptions) -> None:
        super().__init__(environment, options)
        self.explains = options.explain
        self._keeps = options.keep
        self._delay_ms = delay_of(options.delay, keeps=options.keep)
        self.counts.update(removed_segments=0, removed_bytes=0, unlinked_files=0, unlinked_bytes=0)

    def plan(self, work: Work, root: RootState) -> RetainPlan:
        """See LogWriter. What is refused is explained all the same."""
        try:
            self.check(work)
        except Refused as refused:
            if not self.explains:
                raise
            plan = plan_retain(work.fs, work.partition, root, self._request(), self._places)
            remark = Remark(plan.path, str(refused.details["reason"]), ExitCode.REFUSED)
            return replace(plan, remarks=(remark, *plan.remarks), is_refused=True, changes=(), line_edits=(), due=None)
        return plan_retain(work.fs, work.partition, root, self._request(), self._places)

    def apply(self, work: Work, plan: RetainPlan, run: RunInfo) -> Changed[RetainPlan]:
        """See LogWriter."""
        return Changed(plan, apply_retain(work.fs, plan, run, self._request(), held=work.lock))

    def said(self, plan: RetainPlan, done: Applied | None) -> Said:
        """See LogWriter."""
        delay_ms = plan.delay_ms if plan.removed and not self._keeps else None
        return Said(retention_words(plan), undo_words(plan, done, delay_ms=delay_ms))

    def drops(self, plan: RetainPlan) -> bool:
        """See LogWriter."""
        return bool(plan.removed)

    def fields(self, plan: RetainPlan) -> dict[str, Any]:
        """See LogWriter."""
        return retention_fields(plan, explains=self.explains)

    def more_lines(self, plan: RetainPlan) -> Iterator[str]:
        """See LogWriter."""
        return explain_lines(plan) if self.explains else iter(())

    def count(self, plan: RetainPlan, done: Applied | None) -> None:
        """See LogWriter."""
        del done
        self.counts["removed_segments"] += len(plan.removed)
        self.counts["removed_bytes"] += plan.removed_bytes
        if plan.due is not None:
            self.counts["unlinked_files"] += len(plan.due.files)
            self.counts["unlinked_bytes"] += plan.due.size_bytes

    def _request(self) -> RetainRequest:
        return RetainRequest(
            self._clock.now_ms,
            self._settings,
            kernels=self._environment.kernels,
            delay_ms=self._delay_ms,
            keeps=self._keeps,
            explains=self.explains,
            now_is_given=self._clock.is_given,
        )
