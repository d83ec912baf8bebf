"""The commits of groups over time, with a verdict on each: what moved an offset back, and what removed it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum, unique
from typing import Annotated, ClassVar, NamedTuple

from kafkalog_cli.ops.cluster.coordinators import Copies
from kafkalog_cli.ops.cluster.groups import (
    GroupsFound,
    GroupsRequest,
    OffsetsRetention,
    consumer_offsets,
    expires_at_ms,
    numbers_to_read,
)
from kafkalog_cli.ops.cluster.tables.coordinator_log import (
    OFFSET_RECORDS,
    CommittedOffset,
    CoordinatorEntry,
    OffsetKey,
    committed_offset,
    known_time,
    offset_key,
)
from kafkalog_cli.ops.cluster.tables.groups import Group, GroupReplay, GroupState
from kafkalog_cli.results import of, result

_NO_PRODUCER = -1


@unique
class OffsetVerdict(Enum):
    """The kind of a change of an offset. The value is its word in JSON output."""

    COMMIT = "commit"
    RESET = "reset"
    EXPIRY = "expiry"
    TOMBSTONE = "tombstone"
    ABORTED = "aborted"
    OPEN = "open"


@result("kafkalog.group-offset-change/1")
@dataclass(frozen=True, slots=True)
class OffsetChange:
    """A change of a committed offset, with a verdict (groups --history)."""

    group_id: str
    topic: str
    partition: int
    offset: Annotated[
        int | None,
        "the offset afterwards, null if it was removed; with the verdicts aborted and open the offset that was not"
        " committed",
    ]
    previous_offset: Annotated[int | None, "the last offset that was committed before, removed or not"]
    is_back: ClassVar[Annotated[bool, "whether offset is below previous_offset"]] = of(
        lambda change: None not in (change.offset, change.previous_offset) and change.offset < change.previous_offset
    )
    verdict: Annotated[
        OffsetVerdict,
        "reset: an earlier offset while the group had no members; of a commit after a removal: that of the removal",
    ]
    producer_id: Annotated[int | None, "of the transaction"]
    timestamp_ms: Annotated[int | None, "of the record"]
    log_partition: Annotated[int, "of __consumer_offsets"]
    log_offset: int
    assumed_retention_ms: Annotated[
        int | None, "of a removal: the retention that its verdict assumes; null with --broker-config"
    ] = None


def group_history(log_dirs: Copies, request: GroupsRequest) -> Iterator[OffsetChange]:
    """Yield the changes of the chosen groups' offsets, one partition of `__consumer_offsets` after another.

    Only the last state of each offset of a partition is in memory. Changes in transactions come where the transaction
    ends. Raises as `describe_groups`.
    """
    topic = consumer_offsets(log_dirs)
    groups = GroupsFound(topic, request.groups)
    for number in numbers_to_read(topic, request.groups):
        ids: set[str] = set()
        for change in _History(number, request.retention).changes(topic.stream(number)):
            ids.add(change.group_id)
            if request.takes(change.group_id) and request.takes_topic(change.topic):
                yield change
        groups.see(ids)
        topic.forget()
    groups.check()


class _Last(NamedTuple):
    """The last commit of an offset, and what has removed it since."""

    committed: CommittedOffset
    removed_by: OffsetVerdict | None = None


class _History:
    """Follows the offsets and the groups of a partition."""

    def __init__(self, log_partition: int, retention: OffsetsRetention) -> None:
        self._log_partition = log_partition
        self._retention = retention
        self._groups = GroupReplay(log_partition)
        self._last: dict[OffsetKey, _Last] = {}
        self._pending: dict[int, list[tuple[CoordinatorEntry, OffsetKey]]] = {}

    def changes(self, entries: Iterable[CoordinatorEntry]) -> Iterator[OffsetChange]:
        for entry in entries:
            if entry.record is None:
                for written, key in self._pending.pop(entry.producer_id, ()):
                    yield self._ended(written, key, is_commit=entry.is_commit)
            elif entry.record.name not in OFFSET_RECORDS:
                self._groups.take(entry)
            else:
                key = offset_key(entry.record.key)
                if entry.producer_id == _NO_PRODUCER or entry.record.value is None:
                    yield self._changed(entry, key)
                else:
                    self._pending.setdefault(entry.producer_id, []).append((entry, key))
        for waiting in self._pending.values():
            for written, key in waiting:
                yield self._change(written, key, self._committed(written, key).offset, OffsetVerdict.OPEN)

    def _ended(self, entry: CoordinatorEntry, key: OffsetKey, *, is_commit: bool) -> OffsetChange:
        if is_commit:
            return self._changed(entry, key)
        return self._change(entry, key, self._committed(entry, key).offset, OffsetVerdict.ABORTED)

    def _changed(self, entry: CoordinatorEntry, key: OffsetKey) -> OffsetChange:
        last = self._last.get(key)
        if entry.record is None or entry.record.value is None:
            verdict = self._removal(entry, key, last)
            assumed = None if self._retention.is_known else self._retention.retention_ms
            change = replace(self._change(entry, key, None, verdict), assumed_retention_ms=assumed)
            if last is not None:
                self._last[key] = last._replace(removed_by=verdict)
            return change
        committed = self._committed(entry, key)
        verdict = OffsetVerdict.COMMIT
        if last is not None and committed.offset < last.committed.offset:
            verdict = last.removed_by or (OffsetVerdict.COMMIT if self._has_members(key[0]) else OffsetVerdict.RESET)
        change = self._change(entry, key, committed.offset, verdict)
        self._last[key] = _Last(committed)
        return change

    def _removal(self, entry: CoordinatorEntry, key: OffsetKey, last: _Last | None) -> OffsetVerdict:
        """Return EXPIRY if the offset's time was over when it was removed, else TOMBSTONE."""
        if last is None or entry.timestamp < 0:
            return OffsetVerdict.TOMBSTONE
        state = GroupState.STABLE if self._has_members(key[0]) else GroupState.EMPTY
        due = expires_at_ms(last.committed, self._group(key[0]), state, (), self._retention)
        return OffsetVerdict.EXPIRY if due is not None and due <= entry.timestamp else OffsetVerdict.TOMBSTONE

    def _group(self, group_id: str) -> Group | None:
        return next((group for (_, name), group in self._groups.groups.items() if name == group_id), None)

    def _has_members(self, group_id: str) -> bool:
        return any(name == group_id for _, name, _ in self._groups.members)

    def _committed(self, entry: CoordinatorEntry, key: OffsetKey) -> CommittedOffset:
        assert entry.record is not None
        assert entry.record.value is not None
        return committed_offset(key, entry.record.value, self._log_partition, entry.offset)

    def _change(
        self, entry: CoordinatorEntry, key: OffsetKey, offset: int | None, verdict: OffsetVerdict
    ) -> OffsetChange:
        last = self._last.get(key)
        producer_id = None if entry.producer_id == _NO_PRODUCER else entry.producer_id
        return OffsetChange(
            *key, offset, None if last is None else last.committed.offset, verdict, producer_id,
            known_time(entry.timestamp), self._log_partition, entry.offset,
        )  # fmt: skip
