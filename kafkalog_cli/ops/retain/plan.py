"""The plan of retention for a partition, segment by segment."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, unique

from kafkalog_cli.broker.retention import RetentionPass
from kafkalog_cli.disk.clocks import Clock
from kafkalog_cli.log.segments.segment_times import LargestTimestamp
from kafkalog_cli.log.settings.topic_config import Setting
from kafkalog_cli.ops.log_plan import LogPlan
from kafkalog_cli.ops.log_request import LogRequest
from kafkalog_cli.ops.purge import PurgePlan
from kafkalog_cli.ops.verify.times import TimestampOddity


@dataclass(frozen=True, slots=True)
class RetainRequest(LogRequest):
    """A request for retention. `delay_ms`: how long `.deleted` files stay; None: as file.delete.delay.ms says.

    `keeps`: removed files are kept by the run instead of renamed to `.deleted`. `explains`: the timestamps of all
    segments are read, including segments that are kept in any case. `now_is_given`: the time is from `--now`.
    """

    delay_ms: int | None = None
    keeps: bool = False
    explains: bool = False
    now_is_given: bool = False

    @property
    def clock(self) -> Clock:
        """The clock for the table of refusals."""
        return Clock(self.now_ms, self.now_is_given)


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


@dataclass(frozen=True, slots=True)
class SegmentFate:
    """Whether a segment is removed or kept, and why.

    Either `goes` or `stays` has the reason, the other is None. `setting` is the setting that decides; it is None if the
    log start, the high watermark or similar decides. `largest` is None if the timestamp was not read. `due_ms` is the
    first time at which the time limit removes the segment and all before it. `due_after_bytes` is the size of appends
    after which the size limit removes it. None means never. `odd` is the problem with the timestamp's unit, None
    without one.
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
    odd: TimestampOddity | None = None


@dataclass(frozen=True, slots=True)
class RetainPlan(LogPlan):
    """A plan of retention. `rolls`: all segments are removed, and an empty segment starts at the log end.

    `due` contains files that earlier runs renamed to `.deleted` and that are removed now. `delay_ms` is how long this
    run's `.deleted` files stay.
    """

    fates: tuple[SegmentFate, ...] = ()
    rolls: bool = False
    delay_ms: int = 0
    due: PurgePlan | None = None

    @property
    def removed(self) -> tuple[SegmentFate, ...]:
        """The segments to remove."""
        return tuple(fate for fate in self.fates if fate.goes is not None)

    @property
    def removed_bytes(self) -> int:
        """The size of the logs of the removed segments."""
        return sum(fate.size_bytes for fate in self.removed)

    @property
    def drops_valid(self) -> bool:
        """See ChangePlan."""
        return bool(self.removed)

    @property
    def has_work(self) -> bool:
        """Whether the plan changes anything."""
        is_due = self.due is not None and bool(self.due.files)
        return not self.is_refused and (bool(self.changes or self.line_edits) or is_due)
