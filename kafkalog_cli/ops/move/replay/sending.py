"""Sends the records of partitions, follows their acknowledgements, and keeps the state of the replay.

Committed offsets of groups are translated: a committed offset is the offset of the next record that the group reads.
The first sent record that has this offset or a larger one gives its place in the cluster. If there is none, the place
is after the last sent record.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Set
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from itertools import chain
from typing import Annotated, ClassVar, NamedTuple

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.disk.metered_fs import IoRate, Meter, MeteredFilesystem
from kafkalog_cli.errors import ClusterError, ExitCode, KafkalogError, NotSent, Refused, Unreadable, combined_exit_code
from kafkalog_cli.format.compression import codec_name
from kafkalog_cli.format.fault import Fault, unreadable
from kafkalog_cli.format.internal_topics import CONSUMER_OFFSETS
from kafkalog_cli.ops.call.observer import Note
from kafkalog_cli.ops.call.options import Context
from kafkalog_cli.ops.change.append.partitioning import partition_of_key
from kafkalog_cli.ops.cluster.coordinators import CoordinatorTopic, Copies
from kafkalog_cli.ops.cluster.tables.coordinator_log import CommittedOffset, committed_offsets
from kafkalog_cli.ops.look.read.log_read import LogRead
from kafkalog_cli.ops.move.replay.kafka_cluster import KafkaCluster, SentRecord
from kafkalog_cli.ops.move.replay.plan import PlannedPartition, ReplayPlan, ReplayRequest, plan_replay
from kafkalog_cli.ops.move.replay.state import ReplayState, SentProgress, TargetProgress
from kafkalog_cli.ops.move.same_place import check_outside
from kafkalog_cli.results import Count, Hidden, Named, PathName, exit_codes, of, result


@result("kafkalog.replayed-offset/1")
@dataclass(frozen=True, slots=True)
class ReplayedOffset:
    """A committed offset of a group."""

    committed: Hidden[CommittedOffset]
    group_id: ClassVar[str] = of("committed.group_id")
    topic: ClassVar[PathName] = of("committed.topic")
    partition: ClassVar[Count] = of("committed.partition")
    offset: ClassVar[Annotated[Count, "as it was committed"]] = of("committed.offset")
    target_topic: Annotated[PathName, "the topic in the cluster"]
    target_offset: Annotated[Count, "the same place in the cluster"]
    kept_offset: Annotated[Count | None, "an offset of the group in the cluster, which stays; else null"] = None

    @property
    def is_kept(self) -> bool:
        """Whether the cluster's own offset stays."""
        return self.kept_offset is not None


class GroupOffsetsToMove:
    """The committed offsets of groups in the partitions of a plan."""

    def __init__(self, log_dirs: Copies, plan: ReplayPlan) -> None:
        """Read `__consumer_offsets`. Raises NothingSelected if there is none, and as `CoordinatorTopic.load`."""
        topic = CoordinatorTopic(log_dirs, CONSUMER_OFFSETS)
        topic.require("other log directories have the groups, or the command works without --groups")
        planned = {(planned.progress.topic, planned.progress.partition) for planned in plan.partitions}
        self._found: list[CommittedOffset] = []
        for number in topic.numbers:
            _, offsets = topic.load(number, committed_offsets)
            self._found += [offset for offset in offsets if (offset.topic, offset.partition) in planned]
        self._found.sort(key=lambda offset: (offset.group_id, offset.topic, offset.partition))

    @property
    def count(self) -> int:
        """The number of offsets."""
        return len(self._found)

    def offsets_of(self, topic: str, partition: int) -> set[int]:
        """Return the offsets that are committed in a partition."""
        return {
            committed.offset
            for committed in self._found
            if (committed.topic, committed.partition) == (topic, partition)
        }

    def commit(self, cluster: KafkaCluster, done: Iterable[SentProgress]) -> Iterator[ReplayedOffset | ClusterError]:
        """Commit the offsets of the partitions that are done, and yield them by group, or an error for a group.

        An offset that a group has in the cluster stays: its consumers may have gone on there.
        """
        progress = {(sent.topic, sent.partition): sent for sent in done}
        groups: dict[str, list[ReplayedOffset]] = {}
        for committed in self._found:
            of_partition = progress.get((committed.topic, committed.partition))
            if of_partition is not None:
                target_offset = of_partition.translated[committed.offset]
                groups.setdefault(committed.group_id, []).append(
                    ReplayedOffset(committed, of_partition.target_topic, target_offset)
                )
        for group_id, offsets in groups.items():
            try:
                yield from _committed(cluster, group_id, offsets)
            except ClusterError as error:
                yield error


def _committed(cluster: KafkaCluster, group_id: str, offsets: list[ReplayedOffset]) -> list[ReplayedOffset]:
    known = cluster.group_offsets(group_id)
    found = []
    for replayed in offsets:
        kept = known.get((replayed.target_topic, replayed.committed.partition))
        found.append(replayed if kept is None else replace(replayed, kept_offset=kept[0]))
    new = {
        (replayed.target_topic, replayed.committed.partition): (replayed.target_offset, replayed.committed.metadata)
        for replayed in found
        if not replayed.is_kept
    }
    if new:
        cluster.commit(group_id, new)
    return found


SAVE_SECONDS = 1.0
"""The state is saved so often."""
SETTLE_SECONDS = 2.0
"""After an earlier run, wait so long for its last requests to become visible in the cluster."""
LEAST_TIMESTAMP_MS = 1
"""librdkafka takes 0 for the current time: a record of 1970-01-01T00:00:00.000Z gets the next millisecond."""


@result("kafkalog.replayed/1")
@dataclass(frozen=True, slots=True)
class ReplayedPartition:
    """A partition that was sent.

    `error` is the reason why not all records are acknowledged.
    """

    planned: Hidden[PlannedPartition]
    path: ClassVar[Annotated[PathName, "the copy"]] = of("planned.path")
    topic: ClassVar[PathName] = of("progress.topic")
    partition: ClassVar[Count] = of("progress.partition")
    target_topic: ClassVar[Annotated[PathName, "the topic in the cluster"]] = of("progress.target_topic")
    sent: Annotated[Count, "records that this run has sent, all acknowledged"]
    recognised: Annotated[Count, "records of an interrupted run that were in the cluster, though not in the state"]
    records: ClassVar[Annotated[Count, "acknowledged records of all runs with the state"]] = of("progress.records")
    next_offset: ClassVar[Annotated[Count, "all records below this offset are acknowledged"]] = of(
        "progress.next_offset"
    )
    target_offset: ClassVar[
        Annotated[
            Count | None,
            "the offset after the last of them in the cluster; null if they are in several partitions (--partitioner)",
        ]
    ] = of("progress.target_offset")
    is_done: ClassVar[Annotated[bool, "whether there are no more records to send"]] = of("progress.is_done")
    code: Annotated[
        ExitCode,
        Named("exit_code"),
        exit_codes(
            ExitCode.OK, ExitCode.FAILURE, ExitCode.WARNINGS, ExitCode.CORRUPTION, ExitCode.NO_SPACE, ExitCode.REFUSED
        ),
    ]
    error: Hidden[KafkalogError | None] = None

    @property
    def progress(self) -> SentProgress:
        """The progress, which is also that of all earlier runs."""
        return self.planned.progress


class SourceRecord(NamedTuple):
    """A record to send, with its offset in the log and its partition in the cluster."""

    offset: int
    codec: int
    target: int
    sent: SentRecord


class Replay:
    """A replay that is planned: `plan` has the work of `run`. `report` hears of facts beside the results.

    Raises as `Copies`, `ReplayState`, `plan_replay` and `GroupOffsetsToMove`.
    """

    def __init__(
        self,
        context: Context,
        request: ReplayRequest,
        cluster: KafkaCluster,
        report: Callable[[Note], None],
        on_read: Meter | None = None,
    ) -> None:
        self._context = context
        self._request = request
        self._cluster = cluster
        self._report = report
        self._fs = context.fs if on_read is None else MeteredFilesystem(context.fs, on_read)
        self._log_dirs = Copies(context.fs, request.paths, request.metadata)
        self.state = ReplayState(context.fs, request.state_path, request.identity(cluster.cluster_id))
        self.state.load()
        self.plan: ReplayPlan = plan_replay(self._log_dirs, request, cluster, self.state, context.now_ms())
        self.groups = GroupOffsetsToMove(self._log_dirs, self.plan) if request.with_groups else None
        partitions = [planned.copy for planned in self.plan.partitions]
        check_outside(context.fs, request.state_path, "the state", partitions)
        self._rate: IoRate | None = None
        if request.bytes_per_second is not None:
            self._rate = IoRate(request.bytes_per_second, clock=context.clock, sleep=context.sleep)
        self._due = 0.0

    @property
    def notes(self) -> list[Note]:
        """Facts that the user should know before `run`."""
        return [*self._log_dirs.notes, *self.plan.notes]

    @property
    def codes(self) -> list[ExitCode]:
        """The exit codes of what was found in planning."""
        return self._log_dirs.codes

    def run(self) -> Iterator[ReplayedPartition | ReplayedOffset | ClusterError]:
        """Send partition by partition, then commit the offsets of groups; yield the outcomes.

        Raises Locked, and ClusterError if a topic cannot be created. An error of the state is that of a partition.
        """
        with self.state:
            self._take_up()
            for topic in self.plan.topics:
                if topic.is_new:
                    self._cluster.create_topic(topic.name, topic.partitions, topic.settings)
            if any(planned.progress.is_under_way for planned in self.plan.partitions):
                self._context.sleep(SETTLE_SECONDS)
            for planned in self.plan.partitions:
                yield self._partition(planned)
            if self.groups is not None:
                done = [planned.progress for planned in self.plan.partitions if planned.progress.is_done]
                yield from self.groups.commit(self._cluster, done)

    def _take_up(self) -> None:
        """Use the progress of the state, which is locked now. Another run may have changed it after the plan."""
        for place, planned in enumerate(self.plan.partitions):
            key = (planned.progress.topic, planned.progress.partition)
            is_resumed = key in self.state.partitions
            known = self.state.partitions.setdefault(key, planned.progress)
            self.plan.partitions[place] = replace(planned, progress=known, is_resumed=is_resumed)

    def _partition(self, planned: PlannedPartition) -> ReplayedPartition:
        progress = planned.progress
        committed = self.groups.offsets_of(progress.topic, progress.partition) if self.groups is not None else set()
        sending = _Sending(progress, committed - progress.translated.keys())
        code = ExitCode.OK
        error: KafkalogError | None = None
        try:
            log = self._log(planned, self._fs)
            self._send(planned, log, sending)
            code = combined_exit_code(log.codes)
        except ClusterError as failure:
            error = NotSent(
                path=planned.copy.path, offset=sending.first_not_acknowledged,
                cluster=failure.details["cluster"], reason=failure.details["reason"],
            )  # fmt: skip
        except KafkalogError as failure:
            error = failure
        except OSError as failure:
            path = failure.filename or planned.copy.path
            error = Unreadable(path=path, reason=unreadable(failure).message)
        return ReplayedPartition(
            planned, sending.sent, sending.recognised, code if error is None else error.exit_code, error
        )  # fmt: skip

    def _log(self, planned: PlannedPartition, fs: Filesystem) -> LogRead:
        read = self._request.read._replace(start=planned.progress.next_offset, from_time_ms=None)
        return LogRead(fs, planned.copy, read)

    def _target(self, progress: SentProgress, key: bytes | None) -> int:
        """Return the partition of a record in the cluster; the same in each run, so that the record is recognised."""
        hashing, number = self._request.partitioner, progress.partition
        if hashing is None:
            return number
        if hashing.is_spread(key):
            return number % len(progress.targets)
        return partition_of_key(key or b"", len(progress.targets), hashing)

    def _records(
        self, progress: SentProgress, log: LogRead, report: Callable[[Note], None]
    ) -> Generator[SourceRecord, None, None]:
        """Yield the records to send, and report damage, whose records are left out."""
        has_zero = False
        for segment in log.segments():
            for block in segment.blocks():
                while log.notes:
                    report(log.notes.popleft())
                path = segment.segment.log.path
                if isinstance(block, Fault):
                    message = f"at byte {block.position}: {block.message}"
                    report(Note(block.kind.value, message, path, is_error=True))
                    continue
                for record in block.rows():
                    if record.timestamp == 0 and not has_zero:
                        has_zero = True
                        message = f"the record of offset {record.offset} has the timestamp 0, and is sent with 1 ms"
                        report(Note("timestamp", f"{message}: the client cannot send 0", path))
                    contents = (record.key, record.value, record.headers, record.timestamp or LEAST_TIMESTAMP_MS)
                    target = self._target(progress, record.key)
                    yield SourceRecord(record.offset, record.batch.codec, target, SentRecord(*contents))

    def _send(self, planned: PlannedPartition, log: LogRead, sending: "_Sending") -> None:
        progress = planned.progress
        with ExitStack() as opened:
            records = opened.enter_context(closing(self._records(progress, log, self._report)))
            ahead = next(records, None)
            if ahead is not None:
                if progress.is_under_way:
                    self._recognise(planned, sending)
                else:
                    self._begin(planned)
                opened.callback(self._save, sending)
                codec = codec_name(ahead.codec) or "none"
                sender = opened.enter_context(self._cluster.sender(progress.target_topic, codec, sending.acknowledged))
                for record in chain((ahead,), records):
                    if sending.is_new(record):
                        sender.send(record.target, record.sent)
                        self._wait_and_save(record.sent, sending)
                sender.flush()
            progress.is_under_way = False
            if not log.is_stuck:
                sending.end(log.next_offset)
                self._save(sending)

    def _begin(self, planned: PlannedPartition) -> None:
        """Save where the cluster's partitions end, before the first record is sent.

        Of several partitions whose records go to the same partitions of the cluster, one is under way at a time: the
        records of another one, with equal contents, would be recognised.
        """
        progress = planned.progress
        for other in self.state.partitions.values() if self._request.partitioner is not None else ():
            if other.is_under_way and other.target_topic == progress.target_topic:
                name = f"{other.topic}-{other.partition}"
                reason = (
                    f"it is sent after {name}, which is not complete in the cluster: repeat the command when the cause"
                    " is removed"
                )
                raise Refused(path=planned.copy.path, reason=reason)
        for number in progress.targets:
            end = self._cluster.end_offset(progress.target_topic, number)
            progress.targets[number] = TargetProgress(progress.next_offset, end)
        progress.is_under_way, progress.is_done = True, False
        self.state.save()

    def _recognise(self, planned: PlannedPartition, sending: "_Sending") -> None:
        """Find the records that the cluster has, though the state does not.

        A run that was killed may have sent more records than its state has. In each partition of the cluster, they are
        the first of the remaining records that go there, in order. The records in the cluster after those of the state
        are compared with them. Records of other producers between them do not matter.
        """
        progress = planned.progress
        for number, reached in progress.targets.items():
            end = self._cluster.end_offset(progress.target_topic, number)
            if end <= reached.target_offset:
                continue
            log = self._log(planned, self._context.fs)
            with (
                closing(self._records(progress, log, lambda _: None)) as records,
                closing(self._cluster.records(progress.target_topic, number, reached.target_offset, end)) as there,
            ):
                own = (record for record in records if record.target == number and record.offset >= reached.next_offset)
                wanted: SourceRecord | None = None
                for target_offset, found in there:
                    wanted = wanted or next(own, None)
                    if wanted is None:
                        break
                    if found.is_same(wanted.sent):
                        sending.recognise(wanted, target_offset)
                        wanted = None

    def _wait_and_save(self, record: SentRecord, sending: "_Sending") -> None:
        if self._rate is not None:
            self._rate.take(len(record.key or b"") + len(record.value or b""))
        now = self._context.clock()
        if now >= self._due:
            self._save(sending)
            self._due = now + SAVE_SECONDS

    def _save(self, sending: "_Sending") -> None:
        sending.settle()
        self.state.save()


class _UnderWay(NamedTuple):
    """The offset of a record that is under way, and the offset after the record before it."""

    behind: int
    offset: int


class _Sending:
    """The records of one partition that are under way. `waiting` are committed offsets that have no place yet."""

    def __init__(self, progress: SentProgress, waiting: Set[int]) -> None:
        self.sent = 0
        self.recognised = 0
        self._progress = progress
        self._waiting = deque(sorted(waiting))
        self._under_way: dict[int, deque[_UnderWay]] = {number: deque() for number in progress.targets}
        self._position = progress.next_offset

    @property
    def first_not_acknowledged(self) -> int:
        """The offset of the first record that is not acknowledged."""
        return self._first.offset

    def is_new(self, record: SourceRecord) -> bool:
        """Note a record that is sent next; return False if the cluster has it."""
        behind, self._position = self._position, record.offset + 1
        if record.offset < self._progress.targets[record.target].next_offset:
            return False
        self._under_way[record.target].append(_UnderWay(behind, record.offset))
        return True

    def acknowledged(self, number: int, target_offset: int) -> None:
        """Note that the cluster has acknowledged the oldest record that is under way to its partition `number`."""
        self._take(self._under_way[number].popleft().offset, number, target_offset)
        self.sent += 1

    def recognise(self, record: SourceRecord, target_offset: int) -> None:
        """Note that the cluster has a record of an earlier run."""
        self._take(record.offset, record.target, target_offset)
        self.recognised += 1

    def settle(self) -> None:
        """Bring `next_offset` of the progress up to date."""
        self._progress.next_offset = max(self._progress.next_offset, self._first.behind)

    def end(self, next_offset: int) -> None:
        """Note that all records below an offset are acknowledged, and that there are no more."""
        progress = self._progress
        self._position = max(self._position, next_offset)
        progress.is_done = True
        while self._waiting:
            assert progress.target_offset is not None
            progress.translated[self._waiting.popleft()] = progress.target_offset

    @property
    def _first(self) -> _UnderWay:
        firsts = (records[0] for records in self._under_way.values() if records)
        return min(firsts, default=_UnderWay(self._position, self._position))

    def _take(self, offset: int, number: int, target_offset: int) -> None:
        progress, waiting = self._progress, self._waiting
        while waiting and waiting[0] <= offset:
            progress.translated[waiting.popleft()] = target_offset
        progress.targets[number] = TargetProgress(offset + 1, target_offset + 1)
        progress.records += 1
