"""Where a partition belongs: its topic id in the metadata log, its replicas, and other directories with it."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kafkalog_cli.disk.directory_contents import holds_partition
from kafkalog_cli.disk.fs import Filesystem, read_all
from kafkalog_cli.disk.names import DirectoryKind, FileKind, partition_directory_name
from kafkalog_cli.errors import KafkalogError, Refused
from kafkalog_cli.format import partition_metadata
from kafkalog_cli.format.fault import unreadable
from kafkalog_cli.format.internal_topics import INTERNAL_COMPACTED
from kafkalog_cli.format.meta_properties import MetaProperties
from kafkalog_cli.log.partition import Partition, PartitionPath, topic_id_on_disk
from kafkalog_cli.log.settings.source import SettingsSource
from kafkalog_cli.log.settings.topic_config import CLEANUP_POLICY
from kafkalog_cli.ops.check.checks.diagnose import Finding, finding, of_fault
from kafkalog_cli.ops.check.checks.finding_kinds import FindingKind, StartAction
from kafkalog_cli.ops.check.verify.copies import future_findings
from kafkalog_cli.ops.ownership import Replication, is_set_aside, path_of_stray
from kafkalog_cli.ops.steps import (
    MOVE_ASIDE,
    MOVE_OUT,
    MOVE_OUT_NEXT,
    Argv,
    Step,
    Steps,
    Word,
    compare_command,
    nothing,
    path_word,
    recover_command,
    text_of,
)

if TYPE_CHECKING:
    from kafkalog_cli.log.settings.cluster_metadata import ClusterMetadata

_GIVE_THE_ID = (FindingKind.TOPIC_ID_DIFFERS, FindingKind.METADATA_FILE_MISSING)
"""Findings whose next step gives the directory the topic id of the metadata log."""


def topic_id_problems(fs: Filesystem, partition_path: str) -> tuple[Finding, ...]:
    """Return the findings about a `partition.metadata` from which no topic id can be read; none if there is no file."""
    path = f"{partition_path.rstrip('/')}/{FileKind.PARTITION_METADATA.value}"
    if fs.status(path) is None:
        return ()
    try:
        _, faults = partition_metadata.decode(read_all(fs, path))
    except (KafkalogError, OSError) as error:
        return (finding(FindingKind.NOT_READ, path, unreadable(error).message),)
    return tuple(of_fault(path, fault, FindingKind.METADATA_FILE) for fault in faults)


_Paths = defaultdict[tuple[object, str, int], dict[str, None]]
"""Paths, each once, by the broker, a topic's name or id, and the partition number."""


class PartitionDirectories:
    """The directories of partitions, by topic name and by topic id, each with the broker and the partition number.

    `topic_ids` has those that were read, by the path of the partition.
    """

    def __init__(self) -> None:
        self.topic_ids: dict[str, str | None] = {}
        self._by_name: _Paths = defaultdict(dict)
        self._by_id: _Paths = defaultdict(dict)
        self._set_aside: set[str] = set()
        self._real_parents: dict[str, str] = {}
        self._real_paths: dict[str, str] = {}

    def add(
        self,
        fs: Filesystem,
        partition: PartitionPath,
        meta: MetaProperties | None,
        metadata: ClusterMetadata | None = None,
    ) -> None:
        """Add the directory of a partition, unless its name marks it as something else (-delete, -stray, …)."""
        directory = partition.directory
        if directory.kind is not DirectoryKind.PARTITION or directory.topic is None or directory.partition is None:
            return
        broker = _broker(meta)
        path = self._real_path(partition.path)
        topic_id = self.topic_ids[partition.path] = topic_id_on_disk(fs, partition.path)
        node = None if meta is None else meta.node_id
        if is_set_aside(directory.partition, topic_id, metadata, node):
            is_unknown = topic_id is None and topic_id_problems(fs, partition.path)
            if not is_unknown:
                self._set_aside.add(path)
                return
        self._by_name[broker, directory.topic, directory.partition][path] = None
        if topic_id is not None:
            self._by_id[broker, topic_id, directory.partition][path] = None

    def findings(self, partition: Partition, topic_id: str | None, meta: MetaProperties | None) -> Iterator[Finding]:
        """Yield findings about other directories of the same partition."""
        broker, path = _broker(meta), self._real_path(partition.path)
        if partition.directory.kind is not DirectoryKind.PARTITION or path in self._set_aside:
            return
        twins = [p for p in self._by_name.get((broker, partition.topic, partition.number), ()) if p != path]
        for twin in twins:
            shows = "shows which is more complete: keep that directory, and move the other away"
            steps = (Step("", compare_command(partition.path, twin), shows),)
            message = f"the partition also lies in {twin}"
            yield finding(FindingKind.TWIN_DIRECTORIES, partition.path, message, steps=steps)
        for other in self._by_id.get((broker, topic_id or "", partition.number), ()):
            if other != path and other not in twins:
                message = f"{other} has the same topic id, {topic_id}, and partition number"
                listed = ("kafkalog", "ls", path_word(partition.path), path_word(other))
                shows = "shows the offsets of both: find out which directory holds the data, and move the other away"
                yield finding(FindingKind.SAME_TOPIC_ID, partition.path, message, steps=(Step("", listed, shows),))

    def beside_the_partition(
        self, found: Iterable[Finding], partition: Partition, meta: MetaProperties | None
    ) -> Iterator[Finding]:
        """Yield findings; in a directory that a broker sets aside, none advises to make it a second one beside another.

        With the topic id of the metadata log, it would be a second directory of the partition, and no broker starts.
        """
        path = self._real_path(partition.path)
        others = [*self._by_name.get((_broker(meta), partition.topic, partition.number), ())]
        for one in found:
            if path in self._set_aside and others and one.kind in _GIVE_THE_ID:
                stray = FindingKind.NOT_IN_METADATA
                live = Step(f"the partition of {partition.topic} is {others[0]}", end="; ")
                yield one._replace(broker_effect=stray.broker_effect, steps=(live, *stray.steps))
            else:
                yield one

    def _real_path(self, path: str) -> str:
        """Return the path without links; each path and each parent is looked up once."""
        if path not in self._real_paths:
            self._real_paths[path] = self._without_links(path)
        return self._real_paths[path]

    def _without_links(self, path: str) -> str:
        parent, slash, name = path.rstrip("/").rpartition("/")
        if not slash or name in (".", "..") or os.path.islink(path):  # noqa: PTH114 - pathlib takes time to import
            return os.path.realpath(path)
        if parent not in self._real_parents:
            self._real_parents[parent] = os.path.realpath(parent or "/")
        return f"{self._real_parents[parent].rstrip('/')}/{name}"


def _broker(meta: MetaProperties | None) -> object:
    """Return the identity of the broker that a log directory belongs to, None if unknown.

    Directories of several brokers may be given together; their partitions are not twins.
    """
    return None if meta is None else (meta.cluster_id, meta.node_id)


class TopicFacts(NamedTuple):
    """The facts of the metadata log and the settings about a partition.

    `is_compacted` and `is_tiered` are None if no source knows. `findings` are also about other directories of the same
    partition. `unknown_because` says why replicas and topic id are not
    known; "" if they are. `metadata_option` is the `--metadata` of the command line, which printed commands repeat.
    """

    replication: Replication | None = None
    is_compacted: bool | None = None
    findings: tuple[Finding, ...] = ()
    unknown_because: str = ""
    is_in_cleaner_checkpoint: bool = False
    is_tiered: bool | None = None
    metadata_option: str | None = None


def facts_of(
    fs: Filesystem, partition: Partition, topic_id: str | None, log_dir: str | None, settings: SettingsSource
) -> TopicFacts:
    """Return what the metadata log has of a partition, with the findings about it.

    Raises as `SettingsSource.metadata` does.
    """
    compacted = True if partition.topic in INTERNAL_COMPACTED else None
    directory = partition.directory
    if directory.kind is not DirectoryKind.PARTITION or directory.is_metadata_log:
        future = directory.kind is DirectoryKind.FUTURE
        found = future_findings(fs, partition, log_dir, settings) if future else ()
        return TopicFacts(None, compacted, (*found, *_stray_step(fs, partition, log_dir, settings)))
    metadata = settings.metadata(log_dir)
    findings: tuple[Finding, ...] = ()
    if topic_id is None:
        name = FileKind.PARTITION_METADATA.value
        if any(entry.name == name for entry in partition.entries):
            steps, problems = _id_steps(partition, log_dir, settings), topic_id_problems(fs, partition.path)
            findings = tuple(p._replace(steps=steps) if p.kind is FindingKind.METADATA_FILE else p for p in problems)
        findings = findings or tuple(_missing_id(fs, partition, log_dir, settings))
    if metadata is None or not metadata.is_complete:
        compacted = _is_compacted(partition.topic, log_dir, settings)
        because = "no metadata log" if metadata is None else "the metadata log is damaged"
        return TopicFacts(None, compacted, findings, because)
    recover = recover_command(partition.path, log_dir, settings)
    problem = _id_problem(partition, topic_id, metadata, recover)
    if problem is not None and topic_id is not None:
        problem = _if_kept(fs, partition, topic_id, problem, metadata, settings.broker_id(log_dir), recover)
    if problem is not None:
        return TopicFacts(None, compacted, (*findings, problem))
    state = metadata.partition(partition.topic, partition.number)
    if state is None:
        return TopicFacts(None, compacted, findings)
    replication = Replication(state.replicas, state.isr, state.leader, settings.broker_id(log_dir))
    compacted = _is_compacted(partition.topic, log_dir, settings)
    broker = replication.broker_id
    if broker is not None and broker not in replication.replicas:
        path = partition.path
        findings = (*findings, finding(FindingKind.NOT_A_REPLICA, path, replication.words, got=str(broker)))
    return TopicFacts(replication, compacted, findings)


def _is_compacted(topic: str, log_dir: str | None, settings: SettingsSource) -> bool | None:
    """Whether the topic is compacted; None if a source that might know was not read."""
    if topic in INTERNAL_COMPACTED:
        return True
    config = settings.topic_config(log_dir, topic)
    return config.is_compacted if config.is_known(CLEANUP_POLICY) else None


def _missing_id(
    fs: Filesystem, partition: Partition, log_dir: str | None, settings: SettingsSource
) -> Sequence[Finding]:
    """Return a finding for a missing partition.metadata if the broker is known to be in KRaft mode.

    ZooKeeper's brokers worked without the file, and a copy of a directory may have been made without it. A directory
    whose name is only like that of a partition (backup-2024) gets no topic id.
    """
    if not settings.is_kraft(log_dir):
        return ()
    metadata = settings.metadata(log_dir)
    is_known = metadata is not None and metadata.is_complete
    if metadata is not None and is_known and metadata.partition(partition.topic, partition.number) is None:
        why = f"the metadata log has no partition {partition.number} of a topic {partition.topic}"
        own = () if holds_partition(fs, partition.entries) else MOVE_OUT
        return (finding(FindingKind.NOT_IN_METADATA, partition.path, why, steps=own),)
    if not is_known and not holds_partition(fs, partition.entries):
        why = "no partition, only a directory with such a name: it has no file of a log"
        return (finding(FindingKind.NOT_IN_METADATA, partition.path, why, steps=MOVE_OUT),)
    path = f"{partition.path.rstrip('/')}/{FileKind.PARTITION_METADATA.value}"
    steps = _id_steps(partition, log_dir, settings)
    return (finding(FindingKind.METADATA_FILE_MISSING, path, "missing", steps=steps),)


def _id_steps(partition: Partition, log_dir: str | None, settings: SettingsSource) -> Steps:
    """Return the steps that write partition.metadata."""
    command = recover_command(partition.path, log_dir, settings)
    step = Step("", command, "writes it with the topic id of the metadata log, before the broker starts")
    if Word.METADATA_DIRECTORY not in command:
        return (step,)
    return (step, Step("DIR is the metadata.log.dir of a controller, or a copy of it"))


def _stray_step(
    fs: Filesystem, partition: Partition, log_dir: str | None, settings: SettingsSource
) -> tuple[Finding, ...]:
    """Return a finding about a `-stray` directory, with the command that restores it.

    If the partition is in its place again, the finding says so: recover refuses to work on the other directory.
    """
    if partition.directory.kind is not DirectoryKind.STRAY:
        return ()
    parent, number = partition.path.rstrip("/").rpartition("/")[0] or ".", partition.number
    live = f"{parent}/{partition_directory_name(partition.topic, number)}"
    if fs.status(live) is not None:
        why = f"the partition is in its place again: {live}"
        listed = ("kafkalog", "ls", path_word(live), path_word(partition.path))
        steps: Steps = (nothing(": a broker leaves it alone"), Step("", listed, "shows what both hold"))
    else:
        why = "the partition is not assigned to this broker"
        recover = recover_command(partition.path, log_dir, settings)
        steps = (Step("", recover, "restores it if the metadata log has its topic"),)
        metadata = settings.metadata(log_dir)
        if metadata is not None and metadata.is_complete:
            try:
                path_of_stray(fs, partition, log_dir, settings)
            except Refused as refused:  # so recover would not restore it
                why, steps = str(refused.details["reason"]), (nothing(": a broker leaves it alone"),)
    message = f"a broker set it aside: {why}; {text_of(steps)}"  # text output has only the message
    effect = "a broker leaves it alone"
    return (finding(FindingKind.MARKED_DIRECTORY, partition.path, message, broker_effect=effect, steps=steps),)


def _if_kept(  # noqa: PLR0913, PLR0917
    fs: Filesystem,
    partition: Partition,
    topic_id: str,
    problem: Finding,
    metadata: ClusterMetadata,
    broker_id: int | None,
    recover: Argv,
) -> Finding:
    """Return the finding about a wrong topic id, for a directory that a broker does not set aside.

    It looks for the topic id only (LogManager.isStrayKraftReplica), and takes the topic's name from the directory.
    """
    other = metadata.topic_of_id(topic_id)
    if other is None or is_set_aside(partition.number, topic_id, metadata, broker_id):
        return problem
    place = f"{partition.path.rstrip('/').rpartition('/')[0] or '.'}/{other.name}-{partition.number}"
    steps: Steps = (Step("", _rename(place), "gives the records the name of their topic"),)
    if fs.status(place) is not None:
        steps = (Step(f"{place} is the partition of {other.name}"), MOVE_OUT_NEXT)
    if metadata.partition(partition.topic, partition.number) is not None:
        steps = (*_give_the_id(partition, recover), Step("Else the directory has to be moved out of the log directory"))
        effect = (
            f"a broker keeps it and does not serve {partition.topic}-{partition.number}, since the topic id is that of"
            f" {other.name} (InconsistentTopicIdException)"
        )
    else:
        effect = (
            f"a broker keeps it under a name that no topic has: nobody reads or deletes it. {other.name} is elsewhere"
        )
        effect = f"{effect}, or begins empty"
    return problem._replace(broker_effect=effect, steps=steps, at_start=(StartAction.KEEPS,))


def _rename(path: str) -> Argv:
    return ("mv", "-nT", Word.PATH, path_word(path))


def _give_the_id(partition: Partition, recover: Argv, end: str = ". ") -> tuple[Step, ...]:
    """Return the steps that give the directory the topic id of the metadata log."""
    return (
        Step(
            "", MOVE_ASIDE, "give them its id", end, f"if these are the records of {partition.topic}", also=(recover,)
        ),
    )


def _id_problem(partition: Partition, topic_id: str | None, metadata: ClusterMetadata, recover: Argv) -> Finding | None:
    """Return a finding if the metadata log has another topic id for the topic, or does not have the partition.

    `recover` is the command that writes the topic id of the metadata log. None if there is no problem.
    """
    path = f"{partition.path.rstrip('/')}/{FileKind.PARTITION_METADATA.value}"
    named = metadata.topics.get(partition.topic)
    if topic_id is None:
        return None
    if named is not None and named.topic_id != topic_id:
        message = f"topic id {topic_id}, the metadata log has {named.topic_id} for {partition.topic}"
        kind, expected = FindingKind.TOPIC_ID_DIFFERS, named.topic_id
        steps = (*_give_the_id(partition, recover, end="; "), *kind.steps)
        return finding(kind, path, message, expected=expected, got=topic_id, steps=steps)
    if named is None:
        other = metadata.topic_of_id(topic_id)
        if other is not None:
            message = f"topic id {topic_id} is that of {other.name} in the metadata log"
            expected, kind = f"a topic id of {partition.topic}", FindingKind.TOPIC_ID_DIFFERS
            place = f"{partition.path.rstrip('/').rpartition('/')[0] or '.'}/{other.name}-{partition.number}"
            gives = "gives the records the name of their topic, if the broker has no such partition yet"
            steps = (Step("", _rename(place), gives, "; "), *kind.steps)
            return finding(kind, path, message, expected=expected, got=topic_id, steps=steps)
        return finding(FindingKind.NOT_IN_METADATA, partition.path, "the metadata log does not have this topic")
    if partition.number not in named.partitions:
        message = f"the metadata log has no partition {partition.number} of {partition.topic}"
        return finding(FindingKind.NOT_IN_METADATA, partition.path, message)
    return None
