"""What a recovery of a partition would do, and what it finds on the way: values for plan, apply and output."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, unique

from kafkalog_cli.actions.change_plan import ChangePlan
from kafkalog_cli.errors import ExitCode
from kafkalog_cli.storage.log.log_loader import CutSegment


@unique
class RecoverMode(Enum):
    """By which rules a partition is recovered. The value is the word that machine output uses."""

    REPAIR = "repair"
    LIKE_BROKER = "like-broker"
    INDEXES_ONLY = "indexes-only"


@dataclass(frozen=True, slots=True)
class RecoverPlan(ChangePlan):
    """The plan for one partition. Nothing is to be done if there are no changes and no line edits.

    `recovered` are base offsets of segments whose indexes are rebuilt, `cut` what goes at the ends of logs, `removed`
    base offsets of segments that go.
    """

    mode: RecoverMode = field(kw_only=True)
    recovered: tuple[int, ...] = ()
    cut: tuple[CutSegment, ...] = ()
    removed: tuple[int, ...] = ()

    @property
    def drops_valid(self) -> bool:
        """Whether valid batches go, as a broker would have it."""
        return self.drops_records and any(remark.code is ExitCode.CORRUPTION for remark in self.remarks)

    @property
    def drops_records(self) -> bool:
        """Whether something goes that lay below the log's end: then the clean-shutdown marker may not come back."""
        return bool(self.cut or self.removed)
