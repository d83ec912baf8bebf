"""One run of `kafkalog truncate`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kafkalog_cli.actions.apply_changes import Applied
from kafkalog_cli.actions.log_request import LogRequest
from kafkalog_cli.actions.refusals import Action
from kafkalog_cli.actions.root_state import RootState
from kafkalog_cli.actions.truncate import TruncatePlan, apply_truncate, plan_truncate
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.log_run import LogRunOptions
from kafkalog_cli.cli.log_writer import Changed, LogWriter, in_place
from kafkalog_cli.cli.partition_run import Work
from kafkalog_cli.output.log_change_json import TRUNCATION, truncation_fields
from kafkalog_cli.output.log_change_text import Said, truncation_words, undo_words
from kafkalog_cli.storage.changing.manifest import RunInfo


@dataclass(frozen=True, slots=True)
class TruncateOptions(LogRunOptions):
    """The command line of truncate, as it is."""

    target_offset: int = field(kw_only=True)
    discard: bool = field(default=False, kw_only=True)


class TruncateRun(LogWriter[TruncatePlan]):
    """Truncates a partition."""

    verb = "truncate"
    warns_first = True
    action = Action.TRUNCATE
    schema = TRUNCATION

    def __init__(self, environment: Environment, options: TruncateOptions) -> None:
        super().__init__(environment, options)
        self._truncating = options
        self.counts.update(removed_segments=0, cut_bytes=0)

    def plan(self, work: Work, root: RootState) -> TruncatePlan:
        """See LogWriter."""
        plan = plan_truncate(work.fs, work.partition, root, self._truncating.target_offset, self._request())
        self.check(work, in_place=in_place(plan), drops_records=plan.drops_records and root.is_clean)
        return plan

    def apply(self, work: Work, plan: TruncatePlan, run: RunInfo) -> Changed[TruncatePlan]:
        """See LogWriter."""
        discard = self._truncating.discard
        return Changed(plan, apply_truncate(work.fs, plan, run, self._request(), discard=discard, held=work.lock))

    def said(self, plan: TruncatePlan, done: Applied | None) -> Said:
        """See LogWriter."""
        return Said(truncation_words(plan), undo_words(plan, done))

    def drops(self, plan: TruncatePlan) -> bool:
        """See LogWriter."""
        return plan.drops_records

    def fields(self, plan: TruncatePlan) -> dict[str, Any]:
        """See LogWriter."""
        return truncation_fields(plan)

    def count(self, plan: TruncatePlan, done: Applied | None) -> None:
        """See LogWriter."""
        del done
        self.counts["removed_segments"] += len(plan.removed)
        self.counts["cut_bytes"] += plan.cut_bytes

    def _request(self) -> LogRequest:
        return LogRequest(self._clock.now_ms, self._settings, kernels=self._environment.kernels)
