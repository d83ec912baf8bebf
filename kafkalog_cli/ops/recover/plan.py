"""The plan of a recovery: what would be changed in a partition, and what was found."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, unique

from kafkalog_cli.broker.log_loader import CutSegment
from kafkalog_cli.errors import ExitCode
from kafkalog_cli.ops.change_plan import ChangePlan


@unique
class RecoverMode(Enum):
    """The rules by which a partition is recovered. The value is the word in machine output."""

    REPAIR = "repair"
    LIKE_BROKER = "like-broker"
    INDEXES_ONLY = "indexes-only"


@dataclass(frozen=True, slots=True)
class RecoverPlan(ChangePlan):
    """The recovery plan of one partition. Without changes and line edits there is nothing to do.

    `recovered` contains base offsets of segments whose indexes are rebuilt. `cut` contains the removed ends of logs,
    `removed` the base offsets of removed segments.
    """

    mode: RecoverMode = field(kw_only=True)
    recovered: tuple[int, ...] = ()
    cut: tuple[CutSegment, ...] = ()
    removed: tuple[int, ...] = ()

    @property
    def drops_valid(self) -> bool:
        """Whether valid batches are removed, as a broker would do."""
        return self.drops_records and any(remark.code is ExitCode.CORRUPTION for remark in self.remarks)

    @property
    def drops_records(self) -> bool:
        """Whether data below the log end is removed: then the clean shutdown marker must not be restored."""
        return bool(self.cut or self.removed)
