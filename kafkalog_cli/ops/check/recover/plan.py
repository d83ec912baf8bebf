"""The plan of a recovery, which is its result."""

from dataclasses import dataclass, field
from enum import Enum, unique
from typing import Annotated, ClassVar

from kafkalog_cli.broker.log_loader import CutSegment
from kafkalog_cli.errors import ExitCode
from kafkalog_cli.ops.change.plans import ChangePlan
from kafkalog_cli.ops.check.checks.finding_kinds import StartAction
from kafkalog_cli.results import GIVEN, Before, Hidden, result


@unique
class RecoverMode(Enum):
    """The rules by which a partition is recovered. The value is the word in machine output."""

    REPAIR = "repair"
    LIKE_BROKER = "like-broker"
    INDEXES_ONLY = "indexes-only"


@result("kafkalog.recovery/1")
@dataclass(frozen=True, slots=True)
class RecoverPlan(ChangePlan):
    """The result of recover for a partition, or of its dry run.

    `at_start`: what a broker does at its start if the plan is refused.
    """

    dry_run: ClassVar[Hidden[bool]] = GIVEN
    mode: Annotated[RecoverMode, Before("refused")] = field(kw_only=True)
    cut: Annotated[tuple[CutSegment, ...], Before("remarks"), "the removed ends of logs"] = ()
    removed: Annotated[tuple[int, ...], Before("remarks"), "base offsets of the removed segments"] = ()
    recovered: Annotated[tuple[int, ...], Before("remarks"), "base offsets of segments whose indexes are rebuilt"] = ()
    at_start: Hidden[StartAction] = StartAction.DOES_NOT_START

    @property
    def drops_valid(self) -> bool:
        """Whether valid batches are removed, as a broker would do."""
        return self.drops_records and any(remark.code is ExitCode.CORRUPTION for remark in self.remarks)

    @property
    def drops_records(self) -> bool:
        """Whether data below the log end is removed: then the clean shutdown marker must not be restored."""
        return bool(self.cut or self.removed)
