"""What a broker does at its start with a `-future` directory, the copy of a partition for another log directory."""

from collections.abc import Iterator

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.disk.names import DirectoryKind, classify_directory, partition_directory_name
from kafkalog_cli.log.partition import Partition, topic_id_on_disk
from kafkalog_cli.log.settings.source import SettingsSource
from kafkalog_cli.ops.check.checks.diagnose import Finding, finding
from kafkalog_cli.ops.check.checks.finding_kinds import FindingKind
from kafkalog_cli.ops.ownership import is_set_aside
from kafkalog_cli.ops.steps import MOVE_OUT, MOVE_OUT_NEXT, Step, compare_command


def future_findings(
    fs: Filesystem, partition: Partition, log_dir: str | None, settings: SettingsSource
) -> Iterator[Finding]:
    """Yield what happens to the directory (LogManager.loadLog, recoverAbandonedFutureLogs).

    Raises as `SettingsSource.metadata` does.
    """
    metadata, broker = settings.metadata(log_dir), settings.broker_id(log_dir)
    path, own_id = partition.path, topic_id_on_disk(fs, partition.path)
    live = f"{log_dir}/{partition_directory_name(partition.topic, partition.number)}"
    if metadata is None or not metadata.is_complete or broker is None:
        return
    if is_set_aside(partition.number, own_id, metadata, broker):
        message = "a copy for another log directory, of a partition that the metadata log does not have on this broker"
        yield finding(FindingKind.NOT_IN_METADATA, path, message, steps=MOVE_OUT)
        return
    other = _second_copy(fs, partition, log_dir)
    if other is not None:
        message = f"a copy for another log directory, and so is {other}"
        effect = "a broker does not start with two copies of a partition"
        yield finding(FindingKind.TWIN_DIRECTORIES, path, message, broker_effect=effect, steps=MOVE_OUT)
        return
    topic, meta = metadata.topic_of_id(own_id or ""), settings.meta(log_dir)
    state = None if topic is None else topic.partitions.get(partition.number)
    assigned = {} if state is None else dict(zip(state.replicas, state.directories, strict=False))
    if meta is None or assigned.get(broker) != meta.directory_id:
        return  # the copy goes on
    live_id = topic_id_on_disk(fs, live)
    is_in_the_way = fs.status(live) is not None and bool(fs.list_directory(live))
    if is_in_the_way and not is_set_aside(partition.number, live_id, metadata, broker):
        shows = "shows which is more complete: keep that directory, and move the other away"
        steps = (Step("", compare_command(live, path), shows), MOVE_OUT_NEXT)
        message = f"a copy that the broker renames to {live}, which exists"
        effect = "a broker does not start (DirectoryNotEmptyException)"
        yield finding(FindingKind.TWIN_DIRECTORIES, path, message, broker_effect=effect, steps=steps)
        return
    message = f"the partition is assigned to this log directory: a broker that starts renames the copy to {live}"
    effect = "a broker that starts puts it in the place of the partition"
    yield finding(FindingKind.MARKED_DIRECTORY, path, message, broker_effect=effect)


def _second_copy(fs: Filesystem, partition: Partition, log_dir: str | None) -> str | None:
    """Return the path of an earlier `-future` directory of the partition in the log directory."""
    for entry in () if log_dir is None else fs.list_directory(log_dir):
        found = classify_directory(entry.name)
        is_same = (found.kind, found.topic, found.partition) == (
            DirectoryKind.FUTURE,
            partition.topic,
            partition.number,
        )
        if is_same and entry.is_directory and entry.name < partition.directory.name:
            return entry.path
    return None
