"""Describes groups from the replayed `__consumer_offsets`, as kafka-consumer-groups does, and when offsets expire."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, ClassVar, Literal, NamedTuple

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.errors import NothingSelected, UsageError, shell_word
from kafkalog_cli.format.internal_topics import CONSUMER_OFFSETS
from kafkalog_cli.format.internal_topics.records import SHARE_GROUP_STATE
from kafkalog_cli.format.internal_topics.schema import Message
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.log.settings.topic_config import read_broker_properties
from kafkalog_cli.ops.cluster.coordinators import CoordinatorTopic, Copies, Loaded, in_sorted_runs
from kafkalog_cli.ops.cluster.tables.coordinator_log import CommittedOffset, CoordinatorEntry, OffsetReplay
from kafkalog_cli.ops.cluster.tables.groups import (
    CLASSIC,
    CONSUMER,
    SHARE,
    STREAMS,
    Assigned,
    Group,
    GroupMember,
    GroupReplay,
    GroupState,
)
from kafkalog_cli.results import AtPath, Hidden, PathName, of, result

_MINUTE_MS = 60_000
_NAME = "offsets.retention.minutes"
_DEFAULT_MINUTES = 7 * 24 * 60


class OffsetsRetention(NamedTuple):
    """The time for which a broker keeps committed offsets. `is_known`: the broker's own configuration was read."""

    retention_ms: int = _DEFAULT_MINUTES * _MINUTE_MS
    is_known: bool = False

    @property
    def text(self) -> str:
        """The setting and its source."""
        source = "--broker-config" if self.is_known else "Kafka's default; --broker-config FILE names the broker's"
        return f"{_NAME}={self.retention_ms // _MINUTE_MS} ({source})"


DEFAULT_RETENTION = OffsetsRetention()


def offsets_retention(fs: Filesystem, broker_config: str | None) -> OffsetsRetention:
    """Return the retention of a server.properties (None: Kafka's default). Raises as `read_broker_properties`."""
    if broker_config is None:
        return DEFAULT_RETENTION
    text = read_broker_properties(fs, broker_config).get(_NAME)
    if text is None:
        return OffsetsRetention(is_known=True)
    if not text.strip().isdecimal() or int(text) < 1:
        raise UsageError(reason=f"--broker-config {broker_config}: {_NAME}={text} is not a number above 0")
    return OffsetsRetention(int(text) * _MINUTE_MS, is_known=True)


def expires_at_ms(
    offset: CommittedOffset,
    group: Group | None,
    state: GroupState,
    subscribed: Collection[str] | None,
    retention: OffsetsRetention,
) -> int | None:
    """Return the time in epoch ms from which a broker removes an offset; None while it does not expire.

    `group` None: only offsets of the group are known, as of a consumer that assigns partitions itself. `subscribed`
    are the topics that the group's members read, None if they are not known.
    """
    if group is not None and (subscribed is None or offset.topic in subscribed):
        return None
    base = offset.commit_timestamp
    if group is not None and group.group_type == CLASSIC and group.protocol_type:
        if state is GroupState.EMPTY:
            base = offset.commit_timestamp if group.state_timestamp is None else group.state_timestamp
        elif group.protocol_type != CONSUMER:
            return None
    if offset.expire_timestamp is not None:
        return offset.expire_timestamp
    return None if base is None else base + retention.retention_ms


_MOST_NAMES = 10


@dataclass(frozen=True, slots=True)
class GroupsRequest:
    """The groups to describe, and the topics whose rows are shown; empty: all."""

    groups: frozenset[str] = frozenset()
    topics: frozenset[str] = frozenset()
    retention: OffsetsRetention = DEFAULT_RETENTION

    def takes(self, group_id: str) -> bool:
        """Whether the group is chosen."""
        return not self.groups or group_id in self.groups

    def takes_topic(self, topic: str) -> bool:
        """Whether rows of the topic are shown."""
        return not self.topics or topic in self.topics


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """A partition for which the group has an offset, or which a member owns."""

    topic: str
    partition: int
    current_offset: Annotated[int | None, "the committed offset; the start offset of a share partition"] = None
    log_end_offset: Annotated[
        int | None, "the latest offset that a broker gives; null if the partition is not in these directories"
    ] = None
    lag: int | None = None
    member: Hidden[GroupMember | None] = None
    member_id: ClassVar[str | None] = of("member.member_id")
    leader_epoch: int | None = None
    metadata: str | None = None
    commit_timestamp_ms: int | None = None
    expires_at_ms: Annotated[
        int | None, "the time from which a broker removes the offset; null while it does not expire"
    ] = None
    pending_offset: Annotated[int | None, "committed in a transaction that is still open"] = None
    log: Annotated[AtPath | None, "the copy of the partition that log_end_offset is from"] = None


@dataclass(frozen=True, slots=True)
class OwnedPartitions:
    """Partitions of a topic that a member owns."""

    topic: Annotated[str, "the topic's id where no file has its name"]
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member of a group."""

    member: Hidden[GroupMember]
    member_id: ClassVar[str] = of("member.member_id")
    group_instance_id: ClassVar[str | None] = of("member.group_instance_id")
    rack_id: ClassVar[str | None] = of("member.rack_id")
    client_id: ClassVar[str] = of("member.client_id")
    host: ClassVar[str] = of("member.client_host")
    session_timeout_ms: ClassVar[int | None] = of("member.session_timeout_ms")
    rebalance_timeout_ms: ClassVar[int | None] = of("member.rebalance_timeout_ms")
    epoch: ClassVar[Annotated[int | None, "the generation in a classic group"]] = of("member.member_epoch")
    state: ClassVar[Annotated[str | None, "null in a classic group"]] = of("member.member_state")
    subscribed_topics: ClassVar[tuple[str, ...] | None] = of("member.subscribed_topics")
    subscribed_topic_regex: ClassVar[str | None] = of("member.subscribed_topic_regex")
    assignment: Annotated[tuple[OwnedPartitions, ...], "the partitions that the member owns, or still has to revoke"]

    @property
    def partitions(self) -> int:
        """The number of partitions."""
        return sum(len(owned.partitions) for owned in self.assignment)


@dataclass(frozen=True, slots=True)
class GroupCoordinator:
    """The partition of `__consumer_offsets` that has the group."""

    loaded: Hidden[Loaded]
    path: ClassVar[Annotated[PathName, "the copy of the partition of __consumer_offsets that was read"]] = of(
        "loaded.copy.path"
    )
    partition: ClassVar[int] = of("loaded.number")
    belongs_in: Annotated[
        int | None, "the partition in which a coordinator looks for the group; null if their number is not known"
    ]
    end_offset: ClassVar[Annotated[int, "the end of the log that was read"]] = of("loaded.copy.bounds.next_offset")
    other_copies: ClassVar[
        Annotated[list[AtPath], "copies that are not as good, by leader epoch and end of the log"]
    ] = of(lambda found: [AtPath(copy.path) for copy in found.loaded.others])


@result("kafkalog.group/1")
@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group of consumers, as a coordinator that loads `__consumer_offsets` has it.

    `group` is None if only committed offsets of it are known: it has no record of its own.
    """

    group_id: str
    group: Hidden[Group | None]
    group_type: ClassVar[Literal["classic", "consumer", "share", "streams"]] = of(
        lambda found: CLASSIC if found.group is None else found.group.group_type
    )
    state: GroupState
    epoch: ClassVar[
        Annotated[int | None, "the generation of a classic group; null if only offsets of the group are known"]
    ] = of("group.epoch")
    assignment_epoch: Annotated[int | None, "of the target assignment; null for classic groups"]
    protocol_type: ClassVar[Annotated[str | None, "of a classic group: consumer, connect, …"]] = of(
        "group.protocol_type"
    )
    protocol: ClassVar[Annotated[str | None, "of a classic group: the assignor"]] = of("group.protocol")
    leader: ClassVar[Annotated[str | None, "of a classic group: a member id"]] = of("group.leader")
    state_timestamp_ms: ClassVar[Annotated[int | None, "of a classic group: the last change of its state"]] = of(
        "group.state_timestamp"
    )
    coordinator: GroupCoordinator
    members: tuple[MemberDescription, ...]
    offsets: tuple[GroupOffset, ...]


class _State:
    """The groups and offsets of a partition of `__consumer_offsets`, by group id."""

    def __init__(self, entries: Iterator[CoordinatorEntry], number: int) -> None:
        self.groups = GroupReplay(number)
        offsets = OffsetReplay(number)
        for entry in entries:
            self.groups.take(entry)
            offsets.take(entry)
        self.by_id = {group_id: group for (_, group_id), group in self.groups.groups.items()}
        self.members = self.groups.members_by_group()
        self.committed: dict[str, dict[tuple[str, int], CommittedOffset]] = {}
        while offsets.committed:  # not in memory twice
            (group_id, topic, partition), offset = offsets.committed.popitem()
            self.committed.setdefault(group_id, {})[topic, partition] = offset
        self.pending = {
            key: committed.offset for of_producer in offsets.pending.values() for key, committed in of_producer.items()
        }

    @property
    def group_ids(self) -> list[str]:
        """The ids of all groups that a coordinator has; an open transaction alone makes no group."""
        return sorted({*self.by_id, *self.committed})


def describe_groups(log_dirs: Copies, request: GroupsRequest) -> Iterator[GroupDescription]:
    """Yield the chosen groups as `in_sorted_runs` does; the state of one partition at a time is in memory.

    Raises NothingSelected if there is no `__consumer_offsets`, or if a group that was named is not there.
    """
    topic = consumer_offsets(log_dirs)
    paths = " ".join(map(shell_word, log_dirs.paths))
    groups = GroupsFound(topic, request.groups, f"`kafkalog groups {paths} --history --group")
    describer = _Describer(log_dirs, topic, request)

    def described() -> Iterator[GroupDescription]:
        for number in numbers_to_read(topic, request.groups):
            loaded, state = topic.load(number, _State)
            topic.forget()
            groups.see(state.group_ids)
            for group_id in filter(request.takes, state.group_ids):
                group = describer.group(group_id, state, loaded)
                if group.offsets or not request.topics:
                    yield group
        groups.check()

    def rows(group: GroupDescription) -> int:
        return 1 + len(group.members) + len(group.offsets)

    yield from in_sorted_runs(described(), lambda group: group.group_id, rows)


def consumer_offsets(log_dirs: Copies) -> CoordinatorTopic:
    """Return the topic of the groups' coordinator. Raises NothingSelected if no log directory has a partition of it."""
    topic = CoordinatorTopic(log_dirs, CONSUMER_OFFSETS)
    topic.require("this broker coordinates no group, or other log directories have its partitions")
    return topic


def numbers_to_read(topic: CoordinatorTopic, groups: Collection[str]) -> list[int]:
    """Return the partitions that have these groups; all for no group, or where it is not known which have them."""
    numbers = {topic.partition_of(group) for group in groups}
    if not numbers or not numbers <= set(topic.numbers):
        return topic.numbers
    return [number for number in topic.numbers if number in numbers]


class GroupsFound:
    """Compares the groups of one partition after another with the named groups.

    `history`: the beginning of the command that prints offsets of a group that were removed.
    """

    def __init__(self, topic: CoordinatorTopic, named: Collection[str], history: str = "") -> None:
        self._topic = topic
        self._history = history
        self._missing = set(named)
        self._count = 0
        self._first: list[str] = []

    def see(self, ids: Collection[str]) -> None:
        """Take the ids of all groups of a partition."""
        self._missing.difference_update(ids)
        self._count += len(ids)
        self._first = sorted([*self._first, *ids])[:_MOST_NAMES] if self._missing else []

    def check(self) -> None:
        """Raise NothingSelected for a group that is not there; the error names its partition and the groups there."""
        if not self._missing:
            return
        missing, topic = min(self._missing), self._topic
        partition = topic.partition_of(missing)
        parts = [f"there is no group {missing}"]
        if partition is not None:
            where = "is here" if partition in topic.numbers else "is not in these directories"
            parts.append(f"its partition is {CONSUMER_OFFSETS}-{partition}, which {where}")
        text = "; ".join(parts)
        if self._first:
            more = f" and {self._count - _MOST_NAMES} more" if self._count > _MOST_NAMES else ""
            text += f". Groups there: {', '.join(self._first)}{more}"
        if self._history:
            text += f". {self._history} {shell_word(missing)}` prints its offsets if they expired or were removed"
        raise NothingSelected(reason=text)


class _Describer:
    """Describes the groups of partitions of `__consumer_offsets`."""

    def __init__(self, log_dirs: Copies, topic: CoordinatorTopic, request: GroupsRequest) -> None:
        self._log_dirs = log_dirs
        self._topic = topic
        self._request = request

    def group(self, group_id: str, state: _State, loaded: Loaded) -> GroupDescription:
        """Return the description of a group of a loaded partition."""
        group = state.by_id.get(group_id)
        key = (CLASSIC if group is None else group.group_type, group_id)
        members = sorted(state.members.get(key, ()), key=lambda member: member.member_id)
        group_state = GroupState.EMPTY if group is None else state.groups.state(key, members)
        described = tuple(MemberDescription(member, self._owned(member, state.groups)) for member in members)
        if key[0] == SHARE:
            rows = self._share_rows(group_id, state.groups)
        else:
            subscribed = state.groups.subscribed_topics(key, members)

            def expires(offset: CommittedOffset) -> int | None:
                return expires_at_ms(offset, group, group_state, subscribed, self._request.retention)

            rows = self._rows(group_id, key[0], described, state, expires)
        return GroupDescription(
            group_id, group, group_state, state.groups.assignment_epochs.get(key),
            GroupCoordinator(loaded, self._topic.partition_of(group_id)), described,
            tuple(row for row in rows if self._request.takes_topic(row.topic)),
        )  # fmt: skip

    def _owned(self, member: GroupMember, groups: GroupReplay) -> tuple[OwnedPartitions, ...]:
        numbers: dict[str, set[int]] = {}
        for assigned in groups.owned(member):
            topic = self._topic_name(assigned)
            if topic is not None:
                numbers.setdefault(topic, set()).update(assigned.partitions)
        return tuple(OwnedPartitions(topic, tuple(sorted(of_topic))) for topic, of_topic in sorted(numbers.items()))

    def _topic_name(self, assigned: Assigned) -> str | None:
        """Return the topic's name, or its id where no source has the name; None for a topic that was deleted."""
        if assigned.topic_id is None:
            return assigned.topic
        name = self._log_dirs.topic_name(assigned.topic_id)
        if name is None and self._log_dirs.knows_all_topics:
            return None
        return name or assigned.topic or assigned.topic_id

    def _rows(
        self, group_id: str, kind: str, members: Sequence[MemberDescription], state: _State,
        expires: Callable[[CommittedOffset], int | None],
    ) -> Iterator[GroupOffset]:  # fmt: skip
        commits = state.committed.pop(group_id, {})  # a group with many offsets would be in memory twice
        owners = {
            (owned.topic, number): member.member
            for member in members
            for owned in member.assignment
            for number in owned.partitions
        }
        for topic, number in sorted({*commits, *owners}):
            commit = commits.get((topic, number))
            best = self._log_dirs.best(topic, number)
            row = GroupOffset(
                topic,
                number,
                member=owners.get((topic, number)),
                pending_offset=state.pending.get((group_id, topic, number)),
            )
            if commit is not None:
                row = replace(
                    row, current_offset=commit.offset, leader_epoch=commit.leader_epoch, metadata=commit.metadata,
                    commit_timestamp_ms=commit.commit_timestamp, expires_at_ms=expires(commit),
                )  # fmt: skip
            # kafka-streams-groups counts from the start of the log where nothing is committed yet.
            from_start = best.bounds.start if best is not None and kind == STREAMS else None
            yield _with_end(row, best, from_start if row.current_offset is None else row.current_offset)

    def _share_rows(self, group_id: str, groups: GroupReplay) -> Iterator[GroupOffset]:
        partitions = []
        for assigned in groups.share_partitions.get(group_id, ()):
            topic = self._topic_name(assigned)
            if topic is not None and assigned.topic_id is not None:
                partitions += [(topic, number, assigned.topic_id) for number in assigned.partitions]
        for topic, number, topic_id in sorted(partitions):
            share = self._shares.get((group_id, topic_id, number), SharePartition(None, None, None))
            row = GroupOffset(topic, number, share.start_offset, leader_epoch=share.leader_epoch)
            is_counted = share.start_offset is not None and share.complete_count is not None
            done = (share.start_offset or 0) + (share.complete_count or 0) if is_counted else None
            yield _with_end(row, self._log_dirs.best(topic, number), done)

    @cached_property
    def _shares(self) -> Mapping[ShareKey, SharePartition]:
        """The state of all share partitions in the log directories."""
        topic = CoordinatorTopic(self._log_dirs, SHARE_GROUP_STATE)
        shares: dict[ShareKey, SharePartition] = {}
        for number in topic.numbers:
            shares |= topic.load(number, lambda entries, _: share_partitions(entries))[1]
        return shares


def _with_end(row: GroupOffset, best: Partition | None, done: int | None) -> GroupOffset:
    """Return the row with the end of its log; the lag is the distance from `done`, None if that is not known."""
    if best is None:
        return row
    end = best.latest_offset
    lag = None if done is None else end - done
    return replace(row, log_end_offset=end, lag=lag, log=AtPath(best.path))


_UNSET = -1
ShareKey = tuple[str, str, int]
"""A group id, a topic id and a partition."""


class SharePartition(NamedTuple):
    """A share partition: records below `start_offset` are done, and `complete_count` records at or above it too.

    A value is None if the group has not initialized it.
    """

    start_offset: int | None
    leader_epoch: int | None
    complete_count: int | None


def share_partitions(entries: Iterable[CoordinatorEntry]) -> dict[ShareKey, SharePartition]:
    """Return the share partitions after a replay (ShareCoordinatorShard.replay): snapshots, and updates of them."""
    shares: dict[ShareKey, SharePartition] = {}
    for entry in entries:
        if entry.record is None:
            continue
        key, value = entry.record.key, entry.record.value
        name = (key["groupId"], key["topicId"], key["partition"])
        if value is None:
            shares.pop(name, None)
        elif entry.record.name == "ShareSnapshot":
            shares[name] = _partition(value)
        elif name in shares:
            old, new = shares[name], _partition(value)
            shares[name] = SharePartition(
                *(before if after is None else after for before, after in zip(old, new, strict=True))
            )
    return shares


def _partition(value: Message) -> SharePartition:
    numbers = (value["startOffset"], value["leaderEpoch"], value.get("deliveryCompleteCount", _UNSET))
    return SharePartition(*(None if number == _UNSET else number for number in numbers))
