"""Facts about a partition that a writer is about to change: replicas, places, links, settings, the newest file."""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kafkalog_cli.disk.directory_contents import foreign_layout, holds_partition
from kafkalog_cli.disk.fs import FileStatus, Filesystem, WritableFilesystem
from kafkalog_cli.disk.lock import real_directory
from kafkalog_cli.disk.names import DirectoryKind, FileKind, moved_out, partition_directory_name
from kafkalog_cli.errors import KafkalogError, Refused, shell_word
from kafkalog_cli.log.partition import Partition, entries_of_log, odd_files, partitions_in, topic_id_on_disk
from kafkalog_cli.log.settings.cluster_metadata import ClusterMetadata
from kafkalog_cli.log.settings.metadata_image import TopicState
from kafkalog_cli.log.settings.topic_config import TopicConfig
from kafkalog_cli.ops.settings import SettingsSource

_TIERED = "remote.storage.enable"
_NOTHING_DENIES_IT = f"no source has {_TIERED}=false"
Places = Mapping[tuple[str, int], tuple[str, ...]]


class Replication(NamedTuple):
    """A partition's replicas in the metadata log. `broker_id` is this broker, None if it is not known."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    broker_id: int | None

    @property
    def words(self) -> str:
        """Describe the replicas in words: leader, in-sync replicas, and this broker's place among them."""
        leader = f"leader {self.leader}" if self.leader >= 0 else "no leader"
        in_sync = f"in sync: {_numbers(self.isr)}" if self.isr else "none in sync"
        return f"replicas {_numbers(self.replicas)}; {leader}; {in_sync}; {self._place()}"

    def _place(self) -> str:
        if self.broker_id is None:
            return "which of them this is, is not known"
        if self.broker_id == self.leader:
            return f"this is the leader, {self.broker_id}"
        if self.broker_id not in self.replicas:
            return f"this is {self.broker_id}, none of them"
        return f"this is {self.broker_id}, {'in sync' if self.broker_id in self.isr else 'not in sync'}"


class NewestFile(NamedTuple):
    """The file that was written last. `mtime_ms` is in epoch milliseconds."""

    name: str
    mtime_ms: int


class PartitionFacts(NamedTuple):
    """The facts on which refusals and warnings depend.

    `replication` is None if it is not known; `unknown_because` says why. `tiered_because` says why the partition counts
    as tiered. `own` contains the settings without those of the command line. `twins` are other directories of the same
    partition; `has_no_place`: a broker sets this one aside (-stray), or has done so, and starts with both. `linked` are
    segment files that are symbolic links or have several hard links. `odd_files` have the names of segment files but
    are not regular files. `foreign` is the program that wrote the files, if not Kafka. `is_in_cleaner_checkpoint`: a
    partition of the topic is listed there. `other_topic_because` says why the metadata log's topic of that name is a
    different topic; "" if it is not. `resolved_path` is the target of a path with symbolic links, None without links.
    `is_foreign_link`: the directory is a link to a directory that has no file of a partition. `not_assigned_because`
    says why the metadata log gives this broker no such partition; "" if it does, or if the topic is not known.
    """

    path: str
    kind: DirectoryKind
    topic: str
    config: TopicConfig
    own: TopicConfig
    is_metadata_log: bool = False
    replication: Replication | None = None
    unknown_because: str = ""
    metadata_is_damaged: bool = False
    tiered_because: str = ""
    twins: tuple[str, ...] = ()
    has_no_place: bool = False
    linked: tuple[str, ...] = ()
    odd_files: tuple[str, ...] = ()
    newest: NewestFile | None = None
    foreign: str | None = None
    is_in_cleaner_checkpoint: bool = False
    other_topic_because: str = ""
    resolved_path: str | None = None
    is_foreign_link: bool = False
    not_assigned_because: str = ""

    @property
    def tiered_is_supposed(self) -> bool:
        """Whether the partition counts as tiered only because nothing says that it is not."""
        return self.tiered_because.endswith(_NOTHING_DENIES_IT)


def places_of_partitions(fs: WritableFilesystem, log_dirs: Sequence[str]) -> Places:
    """Return the real directories of each (topic, partition) in the given log directories; several are a fault.

    A log directory that cannot be listed is skipped.
    """
    found: dict[tuple[str, int], list[str]] = {}
    for log_dir in log_dirs:
        try:
            partitions = partitions_in(fs, log_dir)
        except KafkalogError:
            continue
        for partition in partitions:
            directory = partition.directory
            if directory.kind is DirectoryKind.PARTITION and directory.topic and directory.partition is not None:
                places = found.setdefault((directory.topic, directory.partition), [])
                path = os.path.realpath(partition.path)
                if path not in places:
                    places.append(path)
    return {key: tuple(places) for key, places in found.items()}


def gather_facts(
    fs: WritableFilesystem,
    partition: Partition,
    log_dir: str | None,
    source: SettingsSource,
    places: Places,
) -> PartitionFacts:
    """Gather the facts of a partition from file names, small files and the metadata log.

    Raises as `SettingsSource.metadata` does.
    """
    metadata = source.metadata(log_dir)
    entries = entries_of_log(fs, partition.path)
    facts = _facts_of_any(fs, partition, log_dir, source, places)
    return facts._replace(
        tiered_because=_tiered(partition, facts.config, metadata),
        linked=_linked(fs, partition),
        odd_files=tuple(odd.path.rpartition("/")[2] for odd in odd_files(fs, entries)),
        newest=_newest(entries),
        foreign=foreign_layout(fs, entries),
        is_in_cleaner_checkpoint=partition.topic_was_cleaned,
        other_topic_because=_other_topic(fs, partition, metadata),
        is_foreign_link=real_directory(fs, partition.path) != partition.path and not holds_partition(fs, entries),
    )


def facts_of_new(
    fs: WritableFilesystem, partition: Partition, log_dir: str | None, source: SettingsSource, places: Places
) -> PartitionFacts:
    """Return the facts of a partition that is to be created in `log_dir` (None: in no log directory).

    Raises as `SettingsSource.metadata` does.
    """
    beside = fs.list_directory(log_dir or partition.path.rpartition("/")[0] or "/")
    return _facts_of_any(fs, partition, log_dir, source, places)._replace(foreign=foreign_layout(fs, beside))


def _facts_of_any(
    fs: WritableFilesystem, partition: Partition, log_dir: str | None, source: SettingsSource, places: Places
) -> PartitionFacts:
    """Return the facts that do not depend on the partition's files."""
    metadata = source.metadata(log_dir)
    replication, because = _replication(fs, partition, metadata, source.broker_id(log_dir))
    path, resolved = os.path.abspath(partition.path), os.path.realpath(partition.path)  # noqa: PTH100
    twins, has_no_place = _twins(fs, partition, resolved, places, metadata, source.broker_id(log_dir))
    return PartitionFacts(
        partition.path,
        partition.directory.kind,
        partition.topic,
        source.topic_config(log_dir, partition.topic),
        source.config_without_command_line(log_dir, partition.topic),
        is_metadata_log=partition.directory.is_metadata_log,
        replication=replication,
        unknown_because=because,
        metadata_is_damaged=metadata is not None and not metadata.is_complete,
        twins=twins,
        has_no_place=has_no_place,
        not_assigned_because=_not_assigned(fs, partition, metadata, source.broker_id(log_dir)),
        resolved_path=None if path == resolved else resolved,
    )


def _replication(
    fs: WritableFilesystem, partition: Partition, metadata: ClusterMetadata | None, broker_id: int | None
) -> tuple[Replication | None, str]:
    """Return the replicas, or None and the reason why they are not known."""
    if metadata is None:
        return None, "there is no metadata log to ask"
    if not metadata.is_complete:
        return None, f"the metadata log is damaged ({metadata.path})"
    topic = metadata.topics.get(partition.topic)
    state = metadata.partition(partition.topic, partition.number)
    if topic is None or state is None:
        return None, "the metadata log does not have this partition"
    other = _other_topic(fs, partition, metadata)
    if other:
        return None, other
    return Replication(state.replicas, state.isr, state.leader, broker_id), ""


def _other_topic(fs: Filesystem, partition: Partition, metadata: ClusterMetadata | None) -> str:
    """Return why the metadata log's topic of that name is not this directory's topic; "" if no topic id differs."""
    topic = None if metadata is None else metadata.topics.get(partition.topic)
    own = None if topic is None else partition.topic_id
    if topic is None or own is None or own == topic.topic_id:
        return ""
    return f"the metadata log has another topic of that name (id {topic.topic_id}, here {own})"


def path_of_stray(fs: Filesystem, partition: Partition, log_dir: str | None, settings: SettingsSource) -> str:
    """Return the path where a broker looks for the partition of a `-stray` directory.

    Raises Refused if the directory must not or cannot be renamed. That is without a complete metadata log, and if that
    log lacks the topic or the partition, has another topic id, or has no replica on this broker. It is also if the path
    exists.
    """
    path = partition.path
    metadata = settings.metadata(log_dir)
    if metadata is None:
        step = f"`kafkalog recover {shell_word(path)} --metadata DIR`"
        reason = "no metadata log says which topic the -stray directory belongs to; give the metadata.log.dir of a"
        raise Refused(path=path, reason=f"{reason} controller, or a copy of it: {step}")
    if not metadata.is_complete:
        raise Refused(path=path, reason="the metadata log is damaged: whether the topic still exists is not known")
    own_id = topic_id_on_disk(fs, path)
    topic = topic_of_directory(partition, own_id, metadata)
    if topic is None:
        raise Refused(path=path, reason=f"the metadata log has no topic {partition.topic}: it was deleted")
    if own_id is not None and own_id != topic.topic_id:
        reason = f"it is of topic id {own_id}, but the metadata log has {topic.topic_id} for {topic.name}"
        raise Refused(path=path, reason=f"{reason}: the topic was deleted and created again")
    reason = why_not_assigned(topic, partition.number, settings.broker_id(log_dir))
    if reason:
        raise Refused(path=path, reason=f"{reason}: a broker would set it aside again")
    live = os.path.join(os.path.dirname(path), partition_directory_name(topic.name, partition.number))  # noqa: PTH118, PTH120
    if fs.status(live) is not None:
        option = "" if settings.metadata_option is None else f" --metadata {shell_word(settings.metadata_option)}"
        raise Refused(
            path=path,
            reason=f"{live} exists. `kafkalog ls {shell_word(live)} {shell_word(path)}` shows what both hold. To bring"
            f" this one back, with the broker stopped: {moved_out(live)} and"
            f" `kafkalog recover {shell_word(path)}{option}`",
        )
    return live


def why_not_assigned(topic: TopicState, number: int | None, broker_id: int | None) -> str:
    """Return why a broker (None: not known which) does not hold a partition of a topic; "" if it does."""
    found = None if number is None else topic.partitions.get(number)
    if found is None:
        count = len(topic.partitions)
        has = f"{count} partitions, 0 to {count - 1}" if count > 1 else "only partition 0"
        return f"the metadata log has no partition {number} of {topic.name}: it has {has}"
    if broker_id is not None and broker_id not in found.replicas:
        return f"broker {broker_id} is none of the replicas ({_numbers(found.replicas)}) of {topic.name}-{number}"
    return ""


def registered_topic(metadata: ClusterMetadata | None, topic: str) -> TopicState | None:
    """Return the topic of that name in a metadata log that is known completely."""
    return metadata.topics.get(topic) if metadata is not None and metadata.is_complete else None


def _not_assigned(fs: Filesystem, partition: Partition, metadata: ClusterMetadata | None, broker_id: int | None) -> str:
    topic = registered_topic(metadata, partition.topic)
    if topic is None or partition.topic_id not in (None, topic.topic_id):
        return ""
    return why_not_assigned(topic, partition.number, broker_id)


def topic_of_directory(partition: Partition, own_id: str | None, metadata: ClusterMetadata) -> TopicState | None:
    """Return the topic that a directory is named after; None if the metadata log does not have it.

    The name may be cut to 255 characters; the topic id decides then. Raises Refused if there is no topic id, and
    several topics begin with the characters that are left.
    """
    if not partition.directory.topic_may_be_cut:
        return metadata.topics.get(partition.topic)
    if own_id is not None:
        return metadata.topic_of_id(own_id)
    found = [topic for name, topic in metadata.topics.items() if name.startswith(partition.topic)]
    if len(found) > 1:
        names = " and ".join(sorted(topic.name for topic in found))
        reason = f"the directory's name is cut, and it has no topic id: it may be of {names}"
        raise Refused(path=partition.path, reason=reason)
    return found[0] if found else None


def is_set_aside(
    topic: str, number: int | None, topic_id: str | None, metadata: ClusterMetadata | None, broker_id: int | None
) -> bool:
    """Whether a broker in KRaft mode would rename the directory to -stray (LogManager.isStrayKraftReplica).

    It does so before it looks for a second directory of the partition. False if the metadata log is not known.
    """
    if metadata is None or not metadata.is_complete:
        return False
    named = metadata.topics.get(topic)
    if topic_id is not None and (named is None or named.topic_id != topic_id):
        named = metadata.topic_of_id(topic_id)
    return named is None or topic_id is None or bool(why_not_assigned(named, number, broker_id))


def _twins(  # noqa: PLR0913, PLR0917
    fs: Filesystem,
    partition: Partition,
    resolved: str,
    places: Places,
    metadata: ClusterMetadata | None,
    broker_id: int | None,
) -> tuple[tuple[str, ...], bool]:
    """Return the other directories of the partition, and whether a broker sets this one aside, or has done so.

    If a broker keeps this directory, only kept directories count.
    """

    def is_kept(topic_id: str | None) -> bool:
        return not is_set_aside(partition.topic, partition.number, topic_id, metadata, broker_id)

    others = [path for path in places.get((partition.topic, partition.number), ()) if path != resolved]
    if not others:
        return (), False
    if not is_kept(partition.topic_id):
        return tuple(others), True
    is_stray = partition.directory.kind is DirectoryKind.STRAY
    return tuple(path for path in others if is_kept(topic_id_on_disk(fs, path))), is_stray


def _tiered(partition: Partition, config: TopicConfig, metadata: ClusterMetadata | None) -> str:
    if config.remote_storage_enable:
        return config[_TIERED].explanation
    if metadata is not None and metadata.is_complete and partition.topic in metadata.topics:
        return ""  # the metadata log would have the setting
    if config.is_configured(_TIERED):
        return ""
    log_start = partition.line(FileKind.LOG_START_CHECKPOINT)
    if log_start is None or not partition.segments or log_start >= partition.segments[0].base_offset:
        return ""
    # The log start is also lower if a broker was killed, or freeing was interrupted, before the checkpoint was written.
    first = partition.segments[0].base_offset
    return f"the log starts at {log_start}, below the first segment here ({first}), and {_NOTHING_DENIES_IT}"


def _linked(fs: WritableFilesystem, partition: Partition) -> tuple[str, ...]:
    files = (f for s in partition.segments for f in (s.log, s.offset_index, s.time_index, s.txn_index) if f is not None)
    return tuple(_name(file) for file in files if file.is_symlink or fs.attributes(file.path).link_count > 1)


def _newest(entries: Iterable[FileStatus]) -> NewestFile | None:
    files = [entry for entry in entries if entry.is_file]
    newest = max(files, key=lambda entry: entry.mtime_ms, default=None)
    return None if newest is None else NewestFile(_name(newest), newest.mtime_ms)


def _name(file: FileStatus) -> str:
    return file.path.rpartition("/")[2]


def _numbers(values: Sequence[int]) -> str:
    return ", ".join(map(str, values))
