"""Writes the metadata log's topic id to a partition directory, and gives a `-stray` directory its name back.

A broker in KRaft mode renames a directory without the right `partition.metadata` to `-stray` and starts an empty
partition (LogManager.loadLog with LogManager.isStrayKraftReplica).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from kafkalog_cli.change.changes import Put
from kafkalog_cli.change.draft import Draft
from kafkalog_cli.disk.durable import Content
from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.disk.names import DirectoryKind, FileKind, moved_out, partition_directory_name
from kafkalog_cli.errors import ExitCode, KafkalogError, Refused, shell_word
from kafkalog_cli.format import partition_metadata
from kafkalog_cli.format.partition_metadata import PartitionMetadata
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.log.settings.metadata_image import TopicState
from kafkalog_cli.ops.change_plan import Remark
from kafkalog_cli.ops.partition_facts import topic_id_on_disk
from kafkalog_cli.ops.recover.plan import RecoverPlan
from kafkalog_cli.ops.settings import SettingsSource

_FILE = FileKind.PARTITION_METADATA.value


@dataclass(frozen=True, slots=True)
class _Bytes(Content):
    """The contents of a small file, from memory."""

    data: bytes

    @property
    def size_bytes(self) -> int:
        return len(self.data)

    def pieces(self) -> Iterator[bytes]:
        yield self.data


def with_topic_id(draft: Draft, partition: Partition, plan: RecoverPlan, settings: SettingsSource) -> RecoverPlan:
    """Add a `partition.metadata` to the plan if it is missing or damaged and the metadata log has the topic's id.

    Raises as `SettingsSource.metadata` does.
    """
    kinds = (DirectoryKind.PARTITION, DirectoryKind.STRAY)
    if plan.is_refused or partition.directory.kind not in kinds or partition.directory.is_metadata_log:
        return plan
    path = f"{partition.path}/{_FILE}"
    is_there = draft.fs.status(path) is not None
    try:
        if is_there and partition_metadata.decode(draft.read(_FILE))[0] is not None:
            return plan
    except (KafkalogError, OSError):
        return plan  # an unreadable sector may contain the right id
    topic = _topic_here(partition, plan.log_dir, settings)
    if topic is None:
        return plan
    data = partition_metadata.encode(PartitionMetadata(partition_metadata.VERSION, topic.topic_id))
    message = f"{'damaged' if is_there else 'missing'}: written with the topic id of {topic.name}, {topic.topic_id}"
    remark = Remark(path, message, ExitCode.WARNINGS)
    change = Put(_FILE, _Bytes(data), is_there)
    return replace(plan, changes=(*plan.changes, change), remarks=(*plan.remarks, remark))


def _topic_here(partition: Partition, log_dir: str | None, settings: SettingsSource) -> TopicState | None:
    """Return the topic that has this partition in the metadata log, with a replica on this broker if that is known."""
    metadata = settings.metadata(log_dir)
    state = None if metadata is None else metadata.partition(partition.topic, partition.number)
    if metadata is None or not metadata.is_complete or state is None:
        return None
    broker = settings.broker_id(log_dir)
    return metadata.topics[partition.topic] if broker is None or broker in state.replicas else None


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
    own_id = topic_id_on_disk(fs, f"{path}/{_FILE}")
    topic = metadata.topics.get(partition.topic)
    if partition.directory.topic_may_be_cut and own_id is not None:
        topic = metadata.topic_of_id(own_id)
    if topic is None:
        raise Refused(path=path, reason=f"the metadata log has no topic {partition.topic}: it was deleted")
    if own_id is not None and own_id != topic.topic_id:
        reason = f"it is of topic id {own_id}, but the metadata log has {topic.topic_id} for {topic.name}"
        raise Refused(path=path, reason=f"{reason}: the topic was deleted and created again")
    if partition.number not in topic.partitions:
        raise Refused(path=path, reason=f"the metadata log has no partition {partition.number} of {topic.name}")
    replicas, broker = topic.partitions[partition.number].replicas, settings.broker_id(log_dir)
    if broker is not None and broker not in replicas:
        names = ", ".join(map(str, replicas))
        reason = f"broker {broker} is none of the replicas ({names}) of {topic.name}-{partition.number}"
        raise Refused(path=path, reason=f"{reason}: a broker would set it aside again")
    live = f"{path.rpartition('/')[0]}/{partition_directory_name(topic.name, partition.number)}"
    if fs.status(live) is not None:
        option = "" if settings.metadata_option is None else f" --metadata {shell_word(settings.metadata_option)}"
        raise Refused(
            path=path,
            reason=f"{live} exists. `kafkalog ls {shell_word(live)} {shell_word(path)}` shows what both hold. To bring"
            f" this one back, with the broker stopped: {moved_out(live)} and"
            f" `kafkalog recover {shell_word(path)}{option}`",
        )
    return live
