"""What retention would do to a partition, segment by segment: values for plan, apply and output."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, unique

from kafkalog_cli.actions.log_plan import LogPlan
from kafkalog_cli.actions.log_request import LogRequest
from kafkalog_cli.actions.purge import PurgePlan
from kafkalog_cli.actions.runs import Clock
from kafkalog_cli.actions.verify.times import Unit
from kafkalog_cli.storage.log.retention import RetentionPass
from kafkalog_cli.storage.segments.segment_times import LargestTimestamp
from kafkalog_cli.storage.settings.topic_config import Setting


@dataclass(frozen=True, slots=True)
class RetainRequest(LogRequest):
    """How to retain. `delay_ms`: how long `.deleted` files stay, None: as file.delete.delay.ms says.

    `keeps`: what goes is not `.deleted` but kept by the run. `explains`: every segment is looked at, also those that
    stay in any case. `now_is_given`: by `--now`.
    """

    delay_ms: int | None = None
    keeps: bool = False
    explains: bool = False
    now_is_given: bool = False

    @property
    def clock(self) -> Clock:
        """For the table of refusals."""
        return Clock(self.now_ms, self.now_is_given)


@unique
class Stay(Enum):
    """Why a segment stays. The value is the word that machine output uses."""

    EMPTY = "empty-active"  # the last segment, without a record
    POLICY = "cleanup-policy"  # cleanup.policy has no "delete"
    NO_LIMIT = "no-limit"  # no limit is set by anybody
    LIMITS = "within-limits"
    FUTURE = "future-timestamp"  # the time limit counts from a time to come
    UNIT = "timestamp-unit"  # the same, and the timestamp is no number of milliseconds
    NOT_REPLICATED = "high-watermark"
    BEHIND = "behind"  # it is old enough, but one before it stays


@dataclass(frozen=True, slots=True)
class SegmentFate:
    """What becomes of a segment, and why.

    `goes` or `stays` tells, the other is None; `setting` is the one that decides it, None for the log start, the high
    watermark and the like. `largest` is None where nobody asked for it. `due_ms` is the first time at which the time
    limit takes it, with all before it; `due_after_bytes` so much must be appended until the size limit does; None:
    never. `odd` is what is odd about the timestamp.
    """

    base_offset: int
    next_offset: int
    size_bytes: int
    goes: RetentionPass | None = None
    stays: Stay | None = None
    setting: Setting | None = None
    largest: LargestTimestamp | None = None
    due_ms: int | None = None
    due_after_bytes: int | None = None
    odd: Unit | None = None


@dataclass(frozen=True, slots=True)
class RetainPlan(LogPlan):
    """A plan of retention. `rolls`: all segments go, and an empty one begins at the log's end.

    `due` is what went in earlier runs, and is unlinked now. `delay_ms`: so long the files of this run stay.
    """

    fates: tuple[SegmentFate, ...] = ()
    rolls: bool = False
    delay_ms: int = 0
    due: PurgePlan | None = None

    @property
    def removed(self) -> tuple[SegmentFate, ...]:
        """The segments that go."""
        return tuple(fate for fate in self.fates if fate.goes is not None)

    @property
    def removed_bytes(self) -> int:
        """The sizes of their logs."""
        return sum(fate.size_bytes for fate in self.removed)

    @property
    def drops_valid(self) -> bool:
        """See ChangePlan."""
        return bool(self.removed)

    @property
    def has_work(self) -> bool:
        """Whether anything is to be changed."""
        is_due = self.due is not None and bool(self.due.files)
        return not self.is_refused and (bool(self.changes or self.line_edits) or is_due)
