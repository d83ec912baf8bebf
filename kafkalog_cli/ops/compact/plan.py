"""The plan of a compaction of a partition, and the values of an erasure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, unique
from typing import NamedTuple

from kafkalog_cli.broker.cleaning.choosing import Dirt
from kafkalog_cli.broker.cleaning.cleaner import CleaningCounts, LastRecord
from kafkalog_cli.broker.cleaning.explaining import RecordFate
from kafkalog_cli.broker.cleaning.key_table import SoughtKeys
from kafkalog_cli.broker.cleaning.marking import MEMORY_BYTES
from kafkalog_cli.disk.clocks import Clock
from kafkalog_cli.format.kafka_version import NEWEST, KafkaVersion
from kafkalog_cli.ops.log_plan import LogPlan, LogRequest
from kafkalog_cli.ops.purge import PurgePlan
from kafkalog_cli.ops.retain.plan import RetainPlan


@dataclass(frozen=True, slots=True)
class CompactRequest(LogRequest):
    """A request to compact. `is_forced`: clean even a log that is not dirty enough.

    `memory_bytes`: the memory for keys and marks. `delay_ms`: how long `.deleted` files stay; None: as
    file.delete.delay.ms says. `now_is_given`: the time is from `--now`. `most_keys`: stop early, like a broker whose
    offset map is full with this number of keys. `passes`: the largest number of cleaning passes; None: until another
    pass would change nothing. `erased`: keys whose records are all removed. `version`: the Kafka whose cleaner is
    mirrored.
    """

    is_forced: bool = False
    memory_bytes: int = MEMORY_BYTES
    delay_ms: int | None = None
    now_is_given: bool = False
    most_keys: int | None = None
    passes: int | None = 1
    erased: SoughtKeys | None = None
    version: KafkaVersion = NEWEST

    @property
    def clock(self) -> Clock:
        """The clock for the table of refusals."""
        return Clock(self.now_ms, self.now_is_given)


@unique
class Choice(Enum):
    """Whether a log is cleaned, and why. The value is the word in machine output."""

    DIRTY = "dirty"  # the dirty ratio is above min.cleanable.dirty.ratio
    OVERDUE = "max-compaction-lag"
    FORCED = "forced"
    ERASING = "erase-keys"
    NOT_DIRTY_ENOUGH = "not-dirty-enough"
    NOTHING_DIRTY = "nothing-dirty"
    NOTHING_TO_ERASE = "no-such-key"  # no record of the keys, and not dirty enough
    NOT_COMPACTED = "cleanup-policy"  # cleanup.policy has no "compact"
    EMPTY = "no-segment"
    DAMAGED = "damaged"  # the log has damage and is left unchanged

    @property
    def is_cleaned(self) -> bool:
        """Whether the log is cleaned."""
        return self in (Choice.DIRTY, Choice.OVERDUE, Choice.FORCED, Choice.ERASING)


class Estimate(NamedTuple):
    """An estimate of a cleaning in records, without aborted records. `keyless` of the `gone` records have no key."""

    records: int
    gone: int
    keyless: int


class SegmentChange(NamedTuple):
    """Source segments, and the segments that were made from them, by base offsets."""

    sources: tuple[int, ...]
    made: tuple[int, ...]


class Compaction(NamedTuple):
    """The result of a cleaning. The log is clean below `end_offset`. `passes` is the number of cleaning passes."""

    end_offset: int
    counts: CleaningCounts
    keyless: int
    segments: tuple[SegmentChange, ...]
    passes: int = 1


@dataclass(frozen=True, slots=True)
class CompactPlan(LogPlan):
    """A plan to clean the offsets below `dirt.first_uncleanable`, with keys collected from `first_dirty` on.

    `first_dirty` is below `dirt.first_dirty` if the clean part is cleaned again. `groups` contains the base offsets of
    the segments of each group, which become one segment. `due` contains files of earlier runs that are removed now.
    `delay_ms` is how long this run's `.deleted` files stay. `outcome` and `estimate` are set after a cleaning or an
    estimate. `retention` is the retention plan that follows if cleanup.policy has delete too, `retention_run` the id of
    its run. `explained` contains the records of the explained key. `erasure` is set if keys are erased.
    """

    choice: Choice = Choice.NOT_COMPACTED
    dirt: Dirt | None = None
    first_dirty: int = 0
    groups: tuple[tuple[int, ...], ...] = ()
    producers: Mapping[int, LastRecord] = field(default_factory=dict)
    due: PurgePlan | None = None
    delay_ms: int = 0
    estimate: Estimate | None = None
    outcome: Compaction | None = None
    retention: RetainPlan | None = None
    retention_run: str | None = None
    explained: tuple[RecordFate, ...] | None = None
    erasure: Erasure | None = None

    def number_of(self, name: str) -> int:
        """Return the value of a number setting."""
        value = next(setting.value for setting in self.settings if setting.name == name)
        assert isinstance(value, int)
        return value

    def retained_end(self, version: KafkaVersion) -> int:
        """Return the offset before which the cleaner of a version keeps a batch that has no record left."""
        assert self.dirt is not None
        if version.is_before_4_4 or self.high_watermark is None:
            return self.dirt.first_uncleanable
        return self.high_watermark.offset

    def followed_by(self, retention: RetainPlan) -> CompactPlan:
        """Return the plan followed by the retention of the cleaned log."""
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
        """Whether the plan changes anything."""
        is_due = self.due is not None and bool(self.due.files)
        is_retained = self.retention is not None and self.retention.has_work
        return not self.is_refused and (self.choice.is_cleaned or bool(self.line_edits) or is_due or is_retained)


MOST_OFFSETS = 1000
"""Number of offsets reported per key: the first. The number of records is always complete."""


@unique
class RecordPlace(Enum):
    """Where records are. The value is the word in machine output."""

    CLEANED = "cleaned-part"
    UNCLEANABLE = "uncleanable-part"  # at or past the last stable offset or the high watermark, or too young
    ACTIVE = "active-segment"
    WAITING = "waiting-file"  # `.deleted` files of a run or a broker
    RUN = "run"  # files that an earlier run keeps for undo
    DIRECTORY = "directory"  # another directory of the partition: -delete, -future, -stray


class ErasedKey(NamedTuple):
    """Records of a key in the cleaned part of the log. `line` is the key's line in the file of keys, from 1 on."""

    line: int
    records: int
    offsets: tuple[int, ...]
    last_offset: int | None


class LogDigest(NamedTuple):
    """A log of the partition, and the number of its records that have one of the keys."""

    name: str
    size_bytes: int
    sha256: str
    records: int


class Holder(NamedTuple):
    """A file that contains records of the keys, or may contain them because it cannot be read to its end (`unread`)."""

    path: str
    place: RecordPlace
    records: int
    unread: str | None = None


class Erasure(NamedTuple):
    """The proof of an erasure. `after` is None if nothing was erased.

    `wanted` is the number of requested keys. `replication` describes what is known of other replicas. `holders` are the
    files that contain records of the keys afterwards.
    """

    replication: str
    wanted: int
    keys: tuple[ErasedKey, ...] = ()
    before: tuple[LogDigest, ...] = ()
    after: tuple[LogDigest, ...] | None = None
    holders: tuple[Holder, ...] = ()
