"""Make a new partition for an append: where it may be made, and its removal if the append fails."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from kafkalog_cli.change.new_partition import Made, is_unfinished, make_alone, remove_partition
from kafkalog_cli.change.new_partitions import has_no_record
from kafkalog_cli.disk.durable import is_half_changed, is_marker_kept, tells_nothing_changed, unfinished
from kafkalog_cli.disk.fs import WritableFilesystem
from kafkalog_cli.disk.lock import LockPolicy, lock_partition
from kafkalog_cli.disk.named_places import check_new_directory
from kafkalog_cli.disk.names import DirectoryKind, FileKind
from kafkalog_cli.errors import KafkalogError, PartitionLeft, SyncFailed, Unreadable, UsageError, of_the_system
from kafkalog_cli.format.java_text import ZERO_UUID, canonical_uuid
from kafkalog_cli.log.log_dir import LogDirs
from kafkalog_cli.log.partition import Partition, directory_name, open_partition, topic_id_on_disk
from kafkalog_cli.log.settings.cluster_metadata import ClusterMetadata
from kafkalog_cli.log.settings.source import SettingsSource
from kafkalog_cli.ops.change.append.append import AppendPlan
from kafkalog_cli.ops.change.plans import RECOVER_FIRST
from kafkalog_cli.ops.ownership import registered_topic
from kafkalog_cli.ops.steps import Step, path_word


def partition_to_make(fs: WritableFilesystem, path: str, log_dirs: LogDirs | None = None) -> Partition | None:
    """Return the partition that `path` is to become.

    None if its name is not a partition's, if it exists already, or if its parent directory is missing. A directory that
    has no log, such as a broker or an earlier run left unfinished, is completed. Raises Refused where a link is in the
    way, see `check_new_directory`.
    """
    full_path = os.path.abspath(path)  # noqa: PTH100
    name, above = directory_name(path), fs.status(full_path.rpartition("/")[0] or "/")
    if name.kind is not DirectoryKind.PARTITION or above is None or not above.is_directory:
        return None
    if fs.status(path) is not None and not is_unfinished(fs, path):
        return None
    check_new_directory(fs, full_path)
    return Partition(fs, full_path, log_dirs=log_dirs)


def is_topic_id(text: str) -> bool:
    """Whether the text can be a topic id."""
    return canonical_uuid(text) not in (None, ZERO_UUID)


def topic_id_for(
    fs: WritableFilesystem, partition: Partition, given: str | None, settings: SettingsSource, log_dir: str | None
) -> str | None:
    """Return the topic id for a new partition: its directory's own, `given` as Kafka writes it, or the metadata log's.

    None if none is known. Raises UsageError if the directory has another topic id than `given`, as `check_topic_id`
    does, and as `SettingsSource.metadata` does.
    """
    own = topic_id_on_disk(fs, partition.path)
    if given is not None and own not in (None, canonical_uuid(given)):
        raise UsageError(reason=f"--topic-id: {partition.path} has the topic id {own} already")
    metadata = settings.metadata(log_dir)
    if given is not None:
        check_topic_id(metadata, partition.topic, canonical_uuid(given))
    if own is not None or given is not None:
        return own or canonical_uuid(given or "")
    topic = None if metadata is None else metadata.topics.get(partition.topic)
    return None if topic is None else topic.topic_id


def check_topic_id(metadata: ClusterMetadata | None, topic: str, given: str | None) -> None:
    """Raise UsageError if the metadata log has the topic with another id than `given` of --topic-id (None: none)."""
    known = registered_topic(metadata, topic)
    if given is None or known is None or known.topic_id == given:
        return
    reason = f"--topic-id {given}: the metadata log has the id {known.topic_id} for topic {topic}"
    raise UsageError(reason=f"{reason}, and a broker sets a partition with another id aside: leave --topic-id out")


def is_left_empty(fs: WritableFilesystem, path: str, topic_id: str | None) -> bool:
    """Whether a partition never had a record and has this topic id (None: any): an append that failed may have left it.

    Raises PathNotFound, Unreadable.
    """
    if directory_name(path).kind is not DirectoryKind.PARTITION or fs.status(path) is None:
        return False
    if not has_no_record(fs, path):
        return False
    return topic_id is None or open_partition(fs, path).topic_id == canonical_uuid(topic_id)


@contextmanager
def made_partition(
    fs: WritableFilesystem, path: str, topic_id: str | None, now_ms: int, policy: LockPolicy
) -> Iterator[tuple[Partition, Made]]:
    """Make the partition, and remove it if the body fails, unless the body left it half changed.

    It stays too where `undo` of the run has to put the marker of the clean shutdown back.
    Both are done under the partition's lock, because two runs may make the same partition at a time; the body takes the
    lock too. Raises Locked, Refused if another run has made the partition, PartitionLeft if it cannot be removed, and
    as `make_alone` does.
    """
    check_new_directory(fs, path)  # again: the partition is made in its turn, and may have become a link since
    try:
        made = make_alone(fs, path, topic_id, now_ms, policy)
        try:
            yield open_partition(fs, path), made
        except BaseException as error:
            if not (is_half_changed(error) or is_marker_kept(error)):
                with suppress(OSError, KafkalogError), lock_partition(fs, path, LockPolicy()):
                    remove_partition(fs, path, error, made)
            raise
    except (OSError, KafkalogError) as error:
        is_io = isinstance(error, (OSError, SyncFailed, Unreadable)) or tells_nothing_changed(error)
        if is_io and may_be_there(fs, path):
            left = unfinished(PartitionLeft, path, error)
            left.has_no_partition = True  # it has no record to copy, and may be no partition yet
            raise left from error
        failure = of_the_system(path, error) if isinstance(error, OSError) else error
        failure.has_no_partition = not may_be_there(fs, path)
        raise failure from failure.__cause__


def may_be_there(fs: WritableFilesystem, path: str) -> bool:
    """Whether there is something at `path`; True if this cannot be determined."""
    try:
        return fs.status(path) is not None
    except (OSError, KafkalogError):
        return True


def refused_to_make(plan: AppendPlan) -> AppendPlan:
    """Return a refused plan with next steps that suit a partition that does not exist.

    Such a partition cannot be recovered, but its log directory can.
    """
    assert plan.view is not None
    log_dir, damaged = plan.log_dir or "", {path for path, _ in plan.view.checkpoint_faults}
    again = Step("then the same command again")
    rebuild = (Step("", ("kafkalog", "recover", path_word(log_dir)), "rebuilds the checkpoint", "; "), again)
    remove = Step(
        f'an earlier partition of this name left the line "{plan.topic} {plan.partition} {plan.view.log_start}" in'
        f" {log_dir}/{FileKind.LOG_START_CHECKPOINT.value}: while no broker runs, remove the line, and lower the number"
        " of lines in the second line of the file by one",
        end="; ",
    )
    remarks = (
        one._replace(steps=rebuild if one.path in damaged else (remove, again)) if one.steps == RECOVER_FIRST else one
        for one in plan.remarks
    )
    return replace(plan, remarks=tuple(remarks))
