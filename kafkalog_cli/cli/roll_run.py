"""One run of `kafkalog roll`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kafkalog_cli.actions.apply_changes import Applied
from kafkalog_cli.actions.refusals import Action
from kafkalog_cli.actions.roll import RollPlan, RollRequest, apply_roll, plan_roll
from kafkalog_cli.actions.root_state import RootState
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.log_run import LogRunOptions
from kafkalog_cli.cli.log_writer import Changed, LogWriter, in_place
from kafkalog_cli.cli.partition_run import Work
from kafkalog_cli.output.log_change_json import ROLL, roll_fields
from kafkalog_cli.output.log_change_text import Said, roll_words, undo_words
from kafkalog_cli.storage.changing.manifest import RunInfo


@dataclass(frozen=True, slots=True)
class RollOptions(LogRunOptions):
    """The command line of roll, as it is."""

    force: bool = field(default=False, kw_only=True)


class RollRun(LogWriter[RollPlan]):
    """Rolls the active segments of partitions."""

    verb = "roll"
    action = Action.ROLL
    schema = ROLL

    def __init__(self, environment: Environment, options: RollOptions) -> None:
        super().__init__(environment, options)
        self._rolling = options
        self.counts["rolled"] = 0

    def plan(self, work: Work, root: RootState) -> RollPlan:
        """See LogWriter."""
        plan = plan_roll(work.fs, work.partition, root, self._request())
        self.check(work, in_place=in_place(plan))
        return plan

    def apply(self, work: Work, plan: RollPlan, run: RunInfo) -> Changed[RollPlan]:
        """See LogWriter."""
        return Changed(plan, apply_roll(work.fs, plan, run, self._request(), held=work.lock))

    def said(self, plan: RollPlan, done: Applied | None) -> Said:
        """See LogWriter."""
        return Said(roll_words(plan), undo_words(plan, done))

    def drops(self, plan: RollPlan) -> bool:
        """See LogWriter."""
        del plan
        return False

    def fields(self, plan: RollPlan) -> dict[str, Any]:
        """See LogWriter."""
        return roll_fields(plan)

    def count(self, plan: RollPlan, done: Applied | None) -> None:
        """See LogWriter."""
        del done
        self.counts["rolled"] += plan.has_work

    def _request(self) -> RollRequest:
        return RollRequest(
            self._clock.now_ms, self._settings, kernels=self._environment.kernels, force=self._rolling.force
        )
