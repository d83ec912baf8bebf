"""What compaction would do to a partition: values for plan, apply and output."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, unique
from typing import NamedTuple

from kafkalog_cli.actions.compact.erasure import Erasure
from kafkalog_cli.actions.log_plan import LogPlan
from kafkalog_cli.actions.log_request import LogRequest
from kafkalog_cli.actions.purge import PurgePlan
from kafkalog_cli.actions.retain.plan import RetainPlan
from kafkalog_cli.actions.runs import Clock
from kafkalog_cli.storage.cleaning.choosing import Dirt
from kafkalog_cli.storage.cleaning.cleaner import CleaningCounts, LastRecord
from kafkalog_cli.storage.cleaning.explaining import RecordFate
from kafkalog_cli.storage.cleaning.marking import MEMORY_BYTES
from kafkalog_cli.storage.cleaning.sought_keys import SoughtKeys


@dataclass(frozen=True, slots=True)
class CompactRequest(LogRequest):
    """How to compact. `is_forced`: also a log that is not dirty enough. `memory_bytes`: for keys and marks.

    `delay_ms`: how long `.deleted` files stay, None: as file.delete.delay.ms says. `now_is_given`: by `--now`.
    `most_keys`: end short of the end, as a broker does whose table is full with so many. `passes`: how often a log is
    gone through at most, None: until a further one would change nothing. `erased`: keys of which no record is to stay.
    """

    is_forced: bool = False
    memory_bytes: int = MEMORY_BYTES
    delay_ms: int | None = None
    now_is_given: bool = False
    most_keys: int | None = None
    passes: int | None = 1
    erased: SoughtKeys | None = None

    @property
    def clock(self) -> Clock:
        """For the table of refusals."""
        return Clock(self.now_ms, self.now_is_given)


@unique
class Choice(Enum):
    """Whether a log is cleaned, and why. The value is the word that machine output uses."""

    DIRTY = "dirty"  # its ratio is above min.cleanable.dirty.ratio
    OVERDUE = "max-compaction-lag"
    FORCED = "forced"
    ERASING = "erase-keys"
    NOT_DIRTY_ENOUGH = "not-dirty-enough"
    NOTHING_DIRTY = "nothing-dirty"
    NOTHING_TO_ERASE = "no-such-key"  # and not dirty enough
    NOT_COMPACTED = "cleanup-policy"  # cleanup.policy has no "compact"
    EMPTY = "no-segment"
    DAMAGED = "damaged"  # something in it is not as it should be, and it stays as it is

    @property
    def is_cleaned(self) -> bool:
        """Whether there is something to do."""
        return self in (Choice.DIRTY, Choice.OVERDUE, Choice.FORCED, Choice.ERASING)


class Estimate(NamedTuple):
    """What a cleaning would leave, in records; `keyless` of those that go have no key. Aborted ones are not counted."""

    records: int
    gone: int
    keyless: int


class SegmentChange(NamedTuple):
    """Segments, by base offsets, and those that were made of them."""

    sources: tuple[int, ...]
    made: tuple[int, ...]


class Compaction(NamedTuple):
    """What a cleaning came to. `end_offset`: so far the log is clean now. `passes`: how often it was gone through."""

    end_offset: int
    counts: CleaningCounts
    keyless: int
    segments: tuple[SegmentChange, ...]
    passes: int = 1


@dataclass(frozen=True, slots=True)
class CompactPlan(LogPlan):
    """A plan of a cleaning of offsets up to `dirt.first_uncleanable`, with keys known from `first_dirty` on.

    That is below `dirt.first_dirty` where a cleaned part is cleaned again. `groups` are the base offsets of the
    segments that are made into one each. `due` is what went in earlier runs, and is unlinked now; `delay_ms`: so
    long the files of this run stay. `outcome` and `estimate` are there when it was made, or tried. `retention` is what
    follows where cleanup.policy has delete too, `retention_run` the run that did it. `explained` are the records of
    a key that was asked for. `erasure` is there where keys are to be erased.
    """

    choice: Choice = Choice.NOT_COMPACTED
    dirt: Dirt | None = None
    first_dirty: int = 0
    groups: tuple[tuple[int, ...], ...] = ()
    producers: tuple[tuple[int, LastRecord], ...] = ()
    due: PurgePlan | None = None
    delay_ms: int = 0
    estimate: Estimate | None = None
    outcome: Compaction | None = None
    retention: RetainPlan | None = None
    retention_run: str | None = None
    explained: tuple[RecordFate, ...] | None = None
    erasure: Erasure | None = None

    def number_of(self, name: str) -> int:
        """The value of a setting."""
        value = next(setting.value for setting in self.settings if setting.name == name)
        assert isinstance(value, int)
        return value

    def followed_by(self, retention: RetainPlan) -> CompactPlan:
        """The plan with a retention of what is left then."""
        names = {setting.name for setting in self.settings}
        more = (setting for setting in retention.settings if setting.name not in names)
        remarks = (*self.remarks, *retention.remarks)
        return replace(self, retention=retention, settings=(*more, *self.settings), remarks=remarks)

    @property
    def drops_valid(self) -> bool:
        """See ChangePlan."""
        return self.choice.is_cleaned or (self.retention is not None and bool(self.retention.removed))

    @property
    def has_work(self) -> bool:
        """Whether anything is to be changed."""
        is_due = self.due is not None and bool(self.due.files)
        is_retained = self.retention is not None and self.retention.has_work
        return not self.is_refused and (self.choice.is_cleaned or bool(self.line_edits) or is_due or is_retained)
