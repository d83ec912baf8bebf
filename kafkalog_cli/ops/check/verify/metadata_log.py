"""What a KRaft node does with its metadata log when it starts: where it cuts the log, what it loses, why it ends."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kafkalog_cli.disk.fs import Filesystem, read_all
from kafkalog_cli.disk.names import (
    DirectoryKind,
    FileKind,
    classify_directory,
)
from kafkalog_cli.errors import KafkalogError, counted
from kafkalog_cli.format.batch import RECORD_BATCH_MAGIC, Batch
from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.format.internal_topics.records import CLUSTER_METADATA, ApiMessage, decode_api_message
from kafkalog_cli.format.json_files import decode_quorum_state
from kafkalog_cli.format.partition_metadata import METADATA_TOPIC_ID
from kafkalog_cli.format.records import field_bytes
from kafkalog_cli.log.partition import Partition, PartitionFile, open_partition, topic_id_on_disk
from kafkalog_cli.log.reading.records import RecordReader
from kafkalog_cli.log.reading.scan import Chunk, DamagePolicy, Scan
from kafkalog_cli.log.settings.cluster_metadata import (
    ClusterMetadata,
    SnapshotId,
    newest_snapshot,
    read_as_node,
    read_cluster_metadata,
    read_snapshot,
)
from kafkalog_cli.log.settings.metadata_image import BROKER_RESOURCE, TOPIC_RESOURCE
from kafkalog_cli.ops.check.checks.diagnose import Finding, finding
from kafkalog_cli.ops.check.checks.finding_kinds import FindingKind, Severity, StartAction
from kafkalog_cli.ops.check.checks.partition_check import ReadContext
from kafkalog_cli.ops.look.listing.root import LogDirRoot
from kafkalog_cli.ops.steps import (
    KEEP_A_COPY,
    MOVE_ASIDE,
    Argv,
    Step,
    Steps,
    Word,
    flat,
    nothing,
    on_condition,
    path_word,
    together,
)

_ENDS, _CUTS = "the node does not start", "the node cuts the metadata log"
_DOES_NOT_START = (StartAction.DOES_NOT_START,)

_SMALL = {FindingKind.EPOCHS_WRONG, FindingKind.METADATA_FILE}
_ASIDE = (Step("", MOVE_ASIDE, end=": "), Step("the node writes the file again"))
_REBUILDS = "a node checks the whole metadata log each time it starts, after a clean stop too, and makes new indexes"
"""KafkaRaftLog opens its UnifiedLog with lastShutdownClean=false and recoveryPoint=0."""

_KEPT = (
    Step("the step for the metadata log decides: without it a -stray directory keeps all records of the partition"),
)
_MOST_NAMES = 5


def metadata_findings(
    context: ReadContext, path: str, found: Sequence[Finding], root: LogDirRoot | None
) -> Iterator[Finding]:
    """Yield the findings about a metadata log: `found`, with what a node does and the steps that are safe for it."""
    meta = None if root is None else root.meta
    start = _NodeStart(context, open_partition(context.fs, path), None if meta is None else meta.node_id)
    is_told = is_cut = False
    for one in found:
        if one.kind in (FindingKind.METADATA_SNAPSHOT, FindingKind.MISSING_OFFSETS):
            continue  # reported below
        commands = [argv for step in flat(one.steps) for argv in step.commands]
        if one.path.endswith(FileKind.LOG.value) and any(Word.PATH in argv for argv in commands):
            # The node cuts its log in one place, whichever segments are damaged after it.
            at_start = () if is_cut and start.actions == (StartAction.CUTS,) else start.actions
            is_told = is_cut = True
            yield one._replace(broker_effect=start.effect, steps=start.steps, at_start=at_start)
        elif one.kind in _SMALL:
            fails = bool(start.failure) and not start.waits
            is_told |= one.severity is Severity.CORRUPTION and not start.waits
            effect, at_start = (start.effect, start.actions) if fails else (one.broker_effect, one.at_start)
            yield one._replace(broker_effect=effect, at_start=at_start, steps=_ASIDE)
        elif any(step.recovers for step in flat(one.steps)):
            yield one._replace(broker_effect=_REBUILDS, steps=(nothing(),))
        elif one.kind is FindingKind.BAD_NAME:
            yield one._replace(at_start=_DOES_NOT_START)
        else:
            yield one
    yield from start.findings(is_told=is_told)
    yield from _wrong_topic_id(context.fs, path)
    yield from start.lost_partitions()


def _wrong_topic_id(fs: Filesystem, path: str) -> Iterator[Finding]:
    """Yield a finding if partition.metadata has another topic id than that of `__cluster_metadata`."""
    topic_id = topic_id_on_disk(fs, path)
    if topic_id not in (None, METADATA_TOPIC_ID):
        file = f"{path}/{FileKind.PARTITION_METADATA.value}"
        message = f"topic id {topic_id}, that of __cluster_metadata is {METADATA_TOPIC_ID}"
        kind, effect = FindingKind.METADATA_LOG, f"{_ENDS}: InconsistentTopicIdException"
        yield finding(kind, file, message, expected=METADATA_TOPIC_ID, got=topic_id, broker_effect=effect, steps=_ASIDE)


def bootstrap_findings(fs: Filesystem, path: str, log_dir: str) -> Iterator[Finding]:
    """Yield the finding about a bootstrap.checkpoint (BootstrapDirectory, BatchFileReader); none if it is sound."""
    fault = read_snapshot(fs, path).fault
    as_node = read_snapshot(fs, path, as_bootstrap=True)
    message, effect = "" if fault is None else fault.message, "none: a node reads it without a look at checksums"
    if as_node.fault is not None:
        effect, message = f"{_ENDS}: it cannot read the file", message or as_node.fault.message
    elif "metadata.version" not in as_node.features:
        effect, message = f"{_ENDS}: the file has no metadata.version", message or "it has no metadata.version"
    if not message:
        return
    try:
        has_records = read_cluster_metadata(fs, log_dir).end_offset > 0
    except KafkalogError:
        has_records = False
    at_start = () if as_node.fault is None and "metadata.version" in as_node.features else _DOES_NOT_START
    steps: Steps = (Step("restore it from a backup, or format the directory anew: the metadata log has no record yet"),)
    if has_records:
        why = Step("a node needs the file only while the metadata log has no record")
        steps = (Step("", MOVE_ASIDE, end=": "), why)
    position = None if fault is None else fault.position
    kind = FindingKind.METADATA_SNAPSHOT
    yield finding(kind, path, message, position=position, broker_effect=effect, steps=steps, at_start=at_start)


class _Quorum(NamedTuple):
    """The voters of the quorum as far as this directory shows; `others` are without this node."""

    voters: tuple[int, ...]
    others: tuple[int, ...]

    def fetching(self) -> tuple[Step, ...]:
        """Return the steps that let the node fetch the log again; for a quorum of one node, what must not be done."""
        names = ", ".join(map(str, self.others))
        keep = (
            Step(
                "this node is the only voter, and only this directory has the metadata of the cluster: do not move,"
                " replace or empty it"
            ),
            Step("A node without it starts an empty cluster, and renames all partitions to -stray"),
        )
        empty = ("find", Word.PATH, "-type", "f", "!", "-name", "quorum-state", "-delete")
        fetch = (
            Step(
                "the node can fetch the log again",
                KEEP_A_COPY,
                "keeps a copy",
                ", ",
                f"while the other voters ({names or 'see quorum-state'}) run and have a leader",
            ),
            Step("", empty, "removes all but the node's vote"),
            Step("Do this on one voter at a time"),
        )
        if not self.voters:
            return (*on_condition("if there are other voters", fetch), *on_condition("Else", keep))
        return fetch if self.others else keep


@dataclass(slots=True)
class _Walk:
    """The facts of one pass over the batches with right CRCs, also after damage.

    `end` is the offset after the last batch. For the end offsets of snapshots, `times` has the timestamp of the batch
    that ends there, and `split` those in the middle of a batch.
    """

    end: int = 0
    times: dict[int, int] = field(default_factory=dict)
    split: set[int] = field(default_factory=set)


class _NodeStart:
    """A node's start on its metadata log (KafkaRaftLog.createLog, recoverSnapshots, truncateToLatestSnapshot)."""

    def __init__(self, context: ReadContext, partition: Partition, node_id: int | None) -> None:
        # The loader takes a fifth of the start of verify; most log directories that are verified have no metadata log.
        from kafkalog_cli.broker.load_error import LoadFailed
        from kafkalog_cli.broker.loaded_segment import LoadSettings
        from kafkalog_cli.broker.log_loader import LogLoader
        from kafkalog_cli.change.draft import Draft
        from kafkalog_cli.log.log_dir import StartState

        self._fs, self._partition = context.fs, partition
        self.failure, self.first, self.cut, self._epoch, self.cuts_bytes = "", 0, 0, 0, False
        try:
            settings = LoadSettings(0, limits=context.limits)
            loader = LogLoader(Draft(context.fs, partition.path), StartState(is_clean=False), settings)
            loaded = loader.load()
            self.first, self.cut = loaded.log_start_offset, loaded.log_end_offset
            self.cuts_bytes = bool(loaded.cut or loaded.removed)
            self._epoch = loader.last_epoch or 0
        except (LoadFailed, KafkalogError, OSError) as error:
            self.failure = str(error)
            self.first = partition.segments[0].base_offset if partition.segments else 0
        self._walk = _walked(context.fs, partition)
        if self._walk.end > self.cut and not self.cuts_bytes and not self.failure:
            # the base offset is not in the CRC: the controller's snapshots in memory cannot go back
            self.failure = f"a batch has offsets up to {self._walk.end - 1}, and the log ends at {self.cut}"
        self._newest = self._newest_id()
        self.restarts_at = self._restart()
        self.end = self.cut if self.restarts_at is None else self.restarts_at
        self._begun = self._walk.end if self._newest is None else max(self._walk.end, self._newest.end_offset)
        self.waits = not self.failure and self.restarts_at is None and self._begun < self.cut
        if self.waits:  # KRaftControlRecordStateMachine.maybeLoadLog reads until the log's end
            missing = f"offsets {self._begun} to {self.cut - 1}"
            self.failure = f"the node waits for {missing} for ever, since no segment has a record of them"
        self.state = read_as_node(context.fs, partition, self.end)
        self._lost = [*_records_from(context.fs, partition, self.end)] if self.end < self._walk.end else []
        named = [one for one in partition.metadata_snapshots if one.name.offset is not None]  # else: bad-name
        self._bad = {file: found for one in named for file, found in self._problem(one)}
        self.fallback = read_cluster_metadata(context.fs, partition.path, without=self._bad)
        self.quorum = self._quorum(node_id)

    def _newest_id(self) -> SnapshotId | None:
        newest = newest_snapshot(self._partition)
        return None if newest is None else SnapshotId(newest.name.offset or 0, newest.name.epoch or 0)

    def _restart(self) -> int | None:
        """Return the offset at which a log begins that is behind the newest snapshot (truncateToLatestSnapshot)."""
        newest, epoch = self._newest, self._epoch
        if newest is None or newest.epoch < epoch or (newest.epoch == epoch and newest.end_offset <= self.cut):
            return None
        return newest.end_offset

    def _quorum(self, node_id: int | None) -> _Quorum:
        voters = self.state.voters or self.fallback.voters
        path = f"{self._partition.path}/{FileKind.QUORUM_STATE.value}"
        try:
            state, _ = decode_quorum_state(read_all(self._fs, path))
            voters = voters if state is None else state.current_voters or voters
        except (KafkalogError, OSError):
            pass
        if node_id is None:
            return _Quorum(voters, voters if len(voters) > 1 else ())
        return _Quorum(voters, tuple(voter for voter in voters if voter != node_id))

    @property
    def actions(self) -> tuple[StartAction, ...]:
        """What the node does at its start with damage in the log, as `effect` says in words."""
        if self.failure:
            return _DOES_NOT_START
        is_cut = self.is_behind or self.end < self._walk.end or self.cuts_bytes
        return (StartAction.CUTS,) if is_cut else ()

    @property
    def effect(self) -> str:
        """What the node does with damage in the log."""
        if self.failure:
            return f"{_ENDS}: {self.failure}"
        at = f"at offset {self.cut} when it starts, after a clean stop too"
        if self.is_behind:
            name = _name(self._newest)
            at += f", and begins it anew at {self.restarts_at}, the end of its newest snapshot"
            return f"{_CUTS} {at}: the state is that of the snapshot {name}, and all records after it are lost"
        if self.end >= self._walk.end and not self.cuts_bytes:
            return _REBUILDS
        if self.end >= self._walk.end:
            return f"{_CUTS} {at}: no record that can be read is lost"
        if self.restarts_at is not None:
            at += f", and begins it anew at {self.restarts_at}, the end of its newest snapshot"
        state = f"the snapshot {_name(self._newest)} and the log up to there" if self._newest else "the log up to there"
        return f"{_CUTS} {at}: the state is that of {state}; {self.lost}"

    @property
    def is_behind(self) -> bool:
        """Whether the log of the only voter ends before its newest snapshot: records that followed it are gone.

        Another node has such a log if it ended after it had fetched a snapshot.
        """
        newest = self._newest
        is_cut = newest is not None and self.restarts_at is not None and self._walk.end < newest.end_offset
        return is_cut and not self.quorum.others

    @property
    def lost(self) -> str:
        """What the records tell that the node loses."""
        names = _lost_words(self._lost, self.state)
        count = max(self._walk.end - self.end, 0)
        records = f"{counted(count, 'offset is', 'offsets are')} lost"
        return f"{records}: {names}" if names else f"{records}, and no topic or setting with them"

    @property
    def steps(self) -> Steps:
        """The steps for damage in the log."""
        if self.failure:
            return self._without_empty_segments() or self.quorum.fetching()
        if self.end >= self._walk.end and not self.is_behind:
            return (nothing(),)
        if self.quorum.others:
            others = ", ".join(map(str, self.quorum.others))
            return (nothing(f" while the other voters ({others}) run: the node fetches the rest from them"),)
        return (
            Step("only restoring it from a backup brings them back", end="; "),
            *self.quorum.fetching(),
            Step("", KEEP_A_COPY, "keeps a copy of what the node cuts off"),
            Step("Partitions of lost topics become -stray directories with their records"),
        )

    @property
    def _newest_is_bad(self) -> bool:
        newest = newest_snapshot(self._partition)
        return newest is not None and newest.status.path in self._bad

    def findings(self, *, is_told: bool) -> Iterator[Finding]:
        """Yield the findings that no check of an ordinary partition makes; `is_told`: a finding has `effect`."""
        path, newest = self._partition.path, self._newest
        is_newest_bad = self._newest_is_bad
        messages = []
        if not is_told and (self.failure or (self.end < self._walk.end and not is_newest_bad)):
            messages.append(self.failure or f"the log does not go on from its newest snapshot, {_name(newest)}")
        if self.is_behind:
            messages.append(f"the log ends at offset {self._walk.end}, before its newest snapshot, {_name(newest)}")
        for message in messages:
            kind, effect, steps = FindingKind.METADATA_LOG, self.effect, self.steps
            yield finding(kind, path, message, broker_effect=effect, steps=steps, at_start=self.actions)
        is_covered = self.first == 0 or (newest is not None and newest.end_offset >= self.first)
        if not is_covered:
            message = f"the log begins at offset {self.first}, and no snapshot has the records before it"
            steps = self._restore("restore the snapshot")
            yield finding(FindingKind.METADATA_SNAPSHOT_MISSING, path, message, steps=steps)
        yield from self._bad_snapshots()
        records = (FaultKind.INVALID_RECORD, FaultKind.INVALID_VERSION)
        replayed = (self.fallback if is_newest_bad else self.state).faults
        bad = [one for one in replayed if one[0].endswith(FileKind.LOG.value) and one[1].kind in records]
        if not bad or self.failure or not is_covered:
            return
        where, fault = bad[0]
        is_newer = fault.kind is FaultKind.INVALID_VERSION
        kind = FindingKind.METADATA_NEWER if is_newer else FindingKind.METADATA_RECORD
        offsets = (fault.base_offset, fault.last_offset)
        steps = self._without_record(where, fault.position, is_newer=is_newer)
        yield finding(kind, where, fault.message, position=fault.position, offsets=offsets, steps=steps)

    def lost_partitions(self) -> Iterator[Finding]:
        """Yield a finding for each partition beside the log that the state at the start no longer has."""
        loses_records = self.end < self._walk.end or self.is_behind
        if self.failure or self.quorum.others or not loses_records or not self.state.is_complete:
            return
        for entry in self._fs.list_directory(os.path.dirname(os.path.abspath(self._partition.path))):  # noqa: PTH100, PTH120
            name = classify_directory(entry.name)
            if not entry.is_directory or name.kind is not DirectoryKind.PARTITION or name.is_metadata_log:
                continue
            topic_id = topic_id_on_disk(self._fs, entry.path)
            if topic_id is None or self._has(self.state, topic_id, name.shown_partition):
                continue
            if not self.fallback.is_complete or self._has(self.fallback, topic_id, name.shown_partition):
                message = f"the metadata log has no topic {topic_id} before its cut at offset {self.end}"
                yield finding(FindingKind.NOT_IN_METADATA, entry.path, message, steps=_KEPT)

    @staticmethod
    def _has(state: ClusterMetadata, topic_id: str, number: int) -> bool:
        topic = state.topic_of_id(topic_id)
        return topic is not None and number in topic.partitions

    def _problem(self, one: PartitionFile) -> Iterator[tuple[str, Fault]]:
        """Yield the path of a snapshot and what is wrong with it; nothing if it is sound."""
        contents = read_snapshot(self._fs, one.status.path)
        offset, fault = one.name.offset or 0, contents.fault
        time_ms = self._walk.times.get(offset)
        message = ""
        if contents.epoch != one.name.epoch:
            message = f"its batches have the epoch {contents.epoch}, its name {one.name.epoch}"
        elif time_ms not in (None, contents.last_timestamp_ms):
            message = f"its header has the time {contents.last_timestamp_ms}, the batch before {offset} {time_ms}"
        elif offset in self._walk.split:
            message = f"its end offset {offset} is in the middle of a batch of the log"
        elif offset > self.cut and self.restarts_at is None:
            message = f"its end offset {offset} is past the end of the log, {self.cut}"
        if fault is not None or message:
            yield one.status.path, fault or Fault(FaultKind.INVALID_ENTRY, -1, message)

    def _bad_snapshots(self) -> Iterator[Finding]:
        newest = newest_snapshot(self._partition)
        for file, fault in self._bad.items():
            kind = FindingKind.METADATA_SNAPSHOT
            if fault.kind is FaultKind.INVALID_VERSION:
                kind = FindingKind.METADATA_NEWER
            at_start: tuple[StartAction, ...] = ()
            effect = "none: a node that starts reads only the newest snapshot"
            if newest is not None and file == newest.status.path:
                effect, at_start = self._effect_of_newest(newest.name.offset or 0)
            yield finding(
                kind,
                file,
                fault.message,
                position=fault.position,
                broker_effect=effect,
                steps=self._aside(),
                at_start=at_start,
            )

    def _effect_of_newest(self, offset: int) -> tuple[str, tuple[StartAction, ...]]:
        if not self.state.is_complete:
            return f"{_ENDS}: it reads this snapshot", _DOES_NOT_START
        if self.end < self._walk.end:
            return self.effect, self.actions
        if offset > self.end:
            return f"{_ENDS} to work: its controller cannot write below that offset", _DOES_NOT_START
        return "a node takes what it can read for the whole state up to that offset: what is missing is lost", ()

    def _aside(self) -> Steps:
        """Return the steps for a damaged snapshot: away with it, if the node has its state without it."""
        sound = self.fallback.snapshot
        start = 0 if sound is None else sound.end_offset
        has_state = self.fallback.is_complete and start >= self.first
        if has_state and (self.fallback.voters or self.quorum.voters) and not self.failure:
            source = "the log" if sound is None else f"the snapshot {_name(sound)} and the log"
            return (Step("", MOVE_ASIDE, end=": "), Step(f"the node then has its state from {source}"))
        return self._restore("restore the file")

    def _without_empty_segments(self) -> Steps:
        """Return the steps for a log whose last segments are empty, if it has others; else none."""
        empty = [one.log for one in self._partition.segments if one.base_offset > self._begun]
        if not empty or any(log.size_bytes for log in empty):
            return ()
        if self.quorum.others or not self._begun or self._newest_is_bad:
            return ()
        moves: list[Argv] = [("mv", "-nT", path_word(log.path), path_word(f"{log.path}.aside")) for log in empty]
        return (
            Step(f"only a backup of this directory brings the records from {self._begun} on back", end="; "),
            *self.quorum.fetching(),
            together(moves, "moves what is empty aside: the node starts with the state before", "Without a backup"),
        )

    def _restore(self, what: str) -> Steps:
        if self.quorum.others:
            return self.quorum.fetching()
        return (Step(f"{what} from a backup of this directory", end="; "), *self.quorum.fetching())

    def _without_record(self, path: str, position: int, *, is_newer: bool) -> Steps:
        """Return the steps for a record that no controller can apply."""
        if is_newer:
            newest = Step("start the newest Kafka that the cluster had")
            return (newest, Step("It decides: kafkalog knows the formats up to Kafka 4.4"))
        last = self._partition.segments[-1].log.path if self._partition.segments else ""
        if self.quorum.others or path != last or not self.quorum.voters:
            return self._restore("restore the directory")
        cuts = "removes this batch and all after it: the node starts with the state before"
        return (
            Step("a backup of this directory is best", end="; "),
            *self.quorum.fetching(),
            Step("", KEEP_A_COPY, "keeps a copy", ", and ", "Without a backup"),
            Step("", ("truncate", "-s", str(position), Word.FILE), cuts),
        )


def _walked(fs: Filesystem, partition: Partition) -> _Walk:
    walk = _Walk()
    snapshots = [one.name.offset or 0 for one in partition.metadata_snapshots]
    for chunk in _chunks(fs, partition):
        for batch in filter(_is_sound, chunk.batches.rows()):
            walk.end = max(walk.end, batch.last_offset + 1)
            for offset in snapshots:
                if offset == batch.last_offset + 1:
                    walk.times[offset] = batch.max_timestamp
                elif batch.base_offset < offset <= batch.last_offset:
                    walk.split.add(offset)
    return walk


def _records_from(fs: Filesystem, partition: Partition, start: int) -> Iterator[ApiMessage]:
    """Yield the records from an offset on that can be read."""
    decoder = RecordReader()
    for chunk in _chunks(fs, partition):
        for row, batch in enumerate(chunk.batches.rows()):
            if not _is_sound(batch) or batch.is_control or batch.last_offset < start:
                continue
            for block in decoder.blocks(chunk, row, row + 1):
                for _, rows in block.batch_rows():
                    for record in rows:
                        value = field_bytes(block.buffer, record[5], record[6])
                        found = decode_api_message(CLUSTER_METADATA, value)
                        if isinstance(found, ApiMessage):
                            yield found


def _chunks(fs: Filesystem, partition: Partition) -> Iterator[Chunk]:
    for segment in partition.segments:
        try:
            with fs.open_read(segment.log.path) as file:
                yield from Scan(file, DamagePolicy.RESYNC)
        except (KafkalogError, OSError):
            continue  # another finding says so


def _is_sound(batch: Batch) -> bool:
    return batch.valid == 1 and batch.magic == RECORD_BATCH_MAGIC


def _lost_words(lost: Sequence[ApiMessage], state: ClusterMetadata) -> str:
    """Describe what records that are cut off would have changed, by name."""
    names = {topic.topic_id: topic.name for topic in state.topics.values()}
    created: list[str] = []
    deleted: list[str] = []
    configs: dict[str, None] = {}
    other = Counter[str]()
    for one in lost:
        message = one.message
        if one.name == "TopicRecord":
            names[message["topicId"]] = message["name"]
            created.append(message["name"])
        elif one.name == "RemoveTopicRecord":
            deleted.append(names.get(message["topicId"]) or str(message["topicId"]))
        elif one.name == "ConfigRecord":
            kind = {TOPIC_RESOURCE: "topic", BROKER_RESOURCE: "broker"}.get(message["resourceType"], "resource")
            configs[f"{message['name']} of {kind} {message['resourceName'] or '(all)'}"] = None
        elif one.name not in ("NoOpRecord", "BeginTransactionRecord", "EndTransactionRecord"):
            other[one.name] += 1
    parts = [
        f"{what} {_some(found)}"
        for what, found in (
            ("the topics", created), ("the deletion of the topics", deleted), ("the settings", [*configs])
        )
        if found
    ]  # fmt: skip
    parts += [f"{count} {name}" for name, count in sorted(other.items())]
    return ", ".join(parts)


def _some(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _name(snapshot: SnapshotId | None) -> str:
    return "" if snapshot is None else f"{snapshot.end_offset}-{snapshot.epoch}"
