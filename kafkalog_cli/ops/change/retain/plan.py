"""The plan of retention for a partition, segment by segment."""

from dataclasses import dataclass
from enum import Enum, unique
from typing import Annotated, ClassVar, NamedTuple

from kafkalog_cli.broker.retention import RetentionPass
from kafkalog_cli.log.log_end import LargestTimestamp
from kafkalog_cli.log.settings.topic_config import Setting
from kafkalog_cli.ops.change.plans import LogPlan
from kafkalog_cli.ops.change.purge import PurgePlan
from kafkalog_cli.ops.timestamp_units import TimestampOddity
from kafkalog_cli.results import ABSENT, FLAT, NULL_IS_ZERO, NUMBER_OF, Count, Hidden, Named, of, result


@unique
class Stay(Enum):
    """Why a segment is kept. The value is the word in machine output."""

    EMPTY = "empty-active"  # the last segment, without a record
    POLICY = "cleanup-policy"  # cleanup.policy has no "delete"
    NO_LIMIT = "no-limit"  # no source sets a limit
    LIMITS = "within-limits"
    FUTURE = "future-timestamp"  # the largest timestamp is in the future
    UNIT = "timestamp-unit"  # the largest timestamp is in micro- or nanoseconds
    NOT_REPLICATED = "high-watermark"
    BEHIND = "behind"  # the segment is old enough, but an earlier segment is kept


class SegmentFate(NamedTuple):
    """Whether a segment is removed, and why. Exactly one of `goes` and `stays` has the reason."""

    base_offset: int
    next_offset: int
    size_bytes: Annotated[Count, "of its log"]
    goes: Annotated[RetentionPass | None, "the limit that removes it"] = None
    stays: Annotated[Stay | None, "why it is kept"] = None
    setting: Annotated[Setting | None, "the setting that decides; null: another reason decides"] = None
    largest: Annotated[LargestTimestamp | None, FLAT] = None
    odd: Annotated[TimestampOddity | None, Named("timestamp_is"), "the oddity of the timestamp"] = None
    due_ms: Annotated[int | None, "when the time limit removes it and all before it; null: never"] = None
    due_after_bytes: Annotated[
        Count | None, "the size of appends after which the size limit removes it; null: never"
    ] = None


class RemovedSegment(NamedTuple):
    """A segment that retention removes."""

    base_offset: int
    next_offset: Annotated[int, "the base offset of the next segment, or the log's end"]
    size_bytes: Annotated[Count, "of its log"]
    limit: Annotated[RetentionPass, "the limit that removes it"]


@result("kafkalog.retention/1")
@dataclass(frozen=True, slots=True)
class RetainPlan(LogPlan):
    """The result of retain for a partition, or of its dry run.

    `due` contains files that earlier runs renamed to `.deleted` and that are removed now.
    """

    removed: ClassVar[Annotated[list[RemovedSegment], "the removed segments"]] = of(
        lambda plan: [RemovedSegment(*fate[:4]) for fate in plan.fates if fate.goes is not None]
    )
    removed_bytes: ClassVar[Annotated[Count, "sizes of their logs"]] = of(
        lambda plan: sum(one.size_bytes for one in plan.removed)
    )
    rolls: Annotated[
        bool, Named("rolled"), "all segments are removed, and an empty segment starts at the log's end"
    ] = False
    delay_ms: Annotated[Count, "how long the removed files stay as .deleted"] = 0
    due: Hidden[PurgePlan | None] = None
    unlinked_files: ClassVar[Annotated[Count, NUMBER_OF, "files of earlier runs that were due"]] = of("due.files")
    unlinked_bytes: ClassVar[Annotated[Count, NULL_IS_ZERO, "their sizes"]] = of("due.size_bytes")
    fates: Hidden[tuple[SegmentFate, ...]] = ()
    explains: Hidden[bool] = False
    segments: ClassVar[
        Annotated[tuple[SegmentFate, ...] | None, ABSENT, "the fate of every segment; only with --explain"]
    ] = of(lambda plan: plan.fates if plan.explains else None)

    @property
    def drops_valid(self) -> bool:
        """See ChangePlan."""
        return bool(self.removed)

    @property
    def has_work(self) -> bool:
        """Whether the plan changes anything."""
        is_due = self.due is not None and bool(self.due.files)
        return not self.is_refused and (bool(self.changes or self.line_edits) or is_due)


TIME_LIMIT, SIZE_LIMIT = "retention.ms", "retention.bytes"
