"""Recovers a partition by rules of its own or as a broker does at start-up: makes the plan and applies it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from kafkalog_cli.broker.load_error import LoadFailed
from kafkalog_cli.broker.loaded_segment import LoadSettings
from kafkalog_cli.broker.log_loader import LoadedLog, LogLoader
from kafkalog_cli.change.changes import Put
from kafkalog_cli.change.draft import Draft
from kafkalog_cli.disk.durable import Content
from kafkalog_cli.disk.fs import FileStatus, Filesystem
from kafkalog_cli.disk.names import SEGMENT_KINDS, DirectoryKind, FileKind
from kafkalog_cli.errors import ExitCode, KafkalogError, Unreadable
from kafkalog_cli.format import partition_metadata
from kafkalog_cli.format.checkpoint import BrokerReading
from kafkalog_cli.format.limits import Limits
from kafkalog_cli.format.partition_metadata import PartitionMetadata
from kafkalog_cli.log.log_dir import LineEdit, StartState
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.log.reading.resync import next_good_batch
from kafkalog_cli.log.settings.metadata_image import TopicState
from kafkalog_cli.log.settings.source import SettingsSource
from kafkalog_cli.ops.checks.finding_kinds import StartAction
from kafkalog_cli.ops.ownership import find_owner, topic_of_directory
from kafkalog_cli.ops.plans import Remark, fingerprints_of, load_settings_of, used_settings
from kafkalog_cli.ops.recover.plan import UNREADABLE_STEPS, RecoverMode, RecoverPlan
from kafkalog_cli.ops.recover.repair import Scope, plan_repair
from kafkalog_cli.ops.steps import RECOVER, Step, path_word


def plan_recovery(
    fs: Filesystem, partition: Partition, now_ms: int, mode: RecoverMode, *, since_recovery_point: bool = False
) -> RecoverPlan:
    """Plan the recovery of a partition, with the settings that are used. Raises Unreadable as `plan_repair` does.

    `since_recovery_point`: only segments from the recovery point on are checked.
    """
    assert partition.settings is not None
    partition.check_start()
    start, log_dir = partition.start(), partition.log_dir
    used = used_settings(partition.settings, log_dir, partition.topic)
    settings = load_settings_of(now_ms, used)
    if mode is RecoverMode.LIKE_BROKER:
        plan = refused_by_checkpoint(partition) or plan_like_broker(fs, partition, settings)
    else:
        since = start.recovery_point if since_recovery_point else None
        scope = Scope(mode is RecoverMode.INDEXES_ONLY, since, partition.lines)
        draft = Draft(fs, partition.path)
        plan = plan_repair(draft, partition, start, settings, scope)
        if mode is RecoverMode.REPAIR:
            plan = with_topic_id(draft, partition, plan, partition.settings)
    is_like_broker = mode is RecoverMode.LIKE_BROKER
    line = partition.broker_line if is_like_broker else partition.line
    edits = tuple(edit for edit in plan.line_edits if log_dir is not None and line(edit.kind) != edit.offset)
    return replace(plan, settings=used, line_edits=edits)


_MAPPED_OR_WRAPPED = tuple(kind.value for kind in SEGMENT_KINDS)
"""Suffixes of the files whose read errors stop a broker.

A failed read of a mapped index is an InternalError. An IOException of a log or transaction index becomes a
KafkaException.
"""


def plan_like_broker(fs: Filesystem, partition: Partition, settings: LoadSettings) -> RecoverPlan:
    """Plan the changes of a broker that starts and then stops cleanly."""
    draft, start = Draft(fs, partition.path), partition.start(like_broker=True)
    prints = fingerprints_of(draft, partition.path)
    try:
        loaded = LogLoader(draft, start, settings).load()
    except (LoadFailed, Unreadable, OSError) as failure:
        return replace(_refusal(partition, failure), fingerprints=prints)
    return RecoverPlan.of(
        partition,
        mode=RecoverMode.LIKE_BROKER,
        changes=tuple(draft.changes()),
        line_edits=tuple(_line_edits(partition, start, loaded, settings)) if partition.log_dir else (),
        log_start_offset=loaded.log_start_offset,
        log_end_offset=loaded.log_end_offset,
        recovered=loaded.recovered,
        cut=loaded.cut,
        removed=loaded.removed,
        remarks=tuple(_remarks(fs, partition, loaded, settings.limits)),
        fingerprints=prints,
    )


def refused_by_checkpoint(partition: Partition) -> RecoverPlan | None:
    """Return the refusal if a checkpoint of the log directory stops a broker before it loads partitions; else None."""
    failing = partition.failing_checkpoint
    if failing is None:
        return None
    path, fault, reading = failing
    at_start, effect = StartAction.TAKES_OFFLINE, f"{_OFFLINE}, and does not start if it has no other"
    if reading is BrokerReading.OUT_OF_MEMORY:
        at_start = StartAction.DOES_NOT_START
        effect = "a broker runs out of memory when it reads this file, and does not start"
    command = ("kafkalog", "recover", path_word(partition.log_dir or ""))
    rebuilds = ", without --like-broker, rebuilds the file from the lines that can be read"
    steps = (Step("", command, rebuilds),)
    remark = Remark(path, f"{effect}: {fault.message}", ExitCode.REFUSED, fault.position, steps)
    return _refused(partition, remark, at_start)


_OFFLINE = "a broker takes the whole log directory offline"


def _refused(partition: Partition, remark: Remark, at_start: StartAction) -> RecoverPlan:
    like_broker = RecoverMode.LIKE_BROKER
    return RecoverPlan.of(partition, mode=like_broker, remarks=(remark,), is_refused=True, at_start=at_start)


def _refusal(partition: Partition, failure: LoadFailed | Unreadable | OSError) -> RecoverPlan:
    """Return the refused plan that says what a broker does if it cannot load the partition.

    An IOException in a small file takes only the log directory offline.
    """
    if isinstance(failure, LoadFailed):
        repairs = ", without --like-broker, repairs it, or prints the command that copies what can be read"
        steps = (Step("", RECOVER, repairs),)
        message = f"a broker does not start with it: {failure}"
        remark = Remark(partition.path, message, ExitCode.REFUSED, steps=steps)
        return _refused(partition, remark, StartAction.DOES_NOT_START)
    path = failure.details["path"] if isinstance(failure, Unreadable) else failure.filename
    reason = failure.details["reason"] if isinstance(failure, Unreadable) else failure.strerror
    name = str(path or partition.path).rpartition("/")[2]
    at_start = StartAction.TAKES_OFFLINE
    if name.endswith(_MAPPED_OR_WRAPPED):
        at_start = StartAction.DOES_NOT_START
        message = f"a broker does not start with it: {name} cannot be read: {reason}"
    else:
        message = f"{_OFFLINE}, and does not start if it has no other: {name} cannot be read: {reason}"
    remark = Remark(str(path or partition.path), message, ExitCode.REFUSED, steps=UNREADABLE_STEPS)
    return _refused(partition, remark, at_start)


def _line_edits(partition: Partition, start: StartState, loaded: LoadedLog, settings: LoadSettings) -> list[LineEdit]:
    """Return the edits of lines by a clean stop.

    A log start is written only if it is above the first segment's base offset, or if the topic is tiered; any other
    line for it is removed.
    """
    topic, number = partition.topic, partition.number
    edits = [LineEdit(FileKind.RECOVERY_POINT_CHECKPOINT, topic, number, loaded.log_end_offset)]
    is_written = settings.is_tiered or loaded.log_start_offset > loaded.first_base_offset
    if is_written or start.log_start_offset:
        log_start = loaded.log_start_offset if is_written else None
        edits.append(LineEdit(FileKind.LOG_START_CHECKPOINT, topic, number, log_start))
    return edits


def _remarks(fs: Filesystem, partition: Partition, loaded: LoadedLog, limits: Limits) -> list[Remark]:
    found = []
    logs = {segment.base_offset: segment.log for segment in partition.segments}
    paths = {base_offset: log.path for base_offset, log in logs.items()}
    for base_offset, position, size_bytes in loaded.cut:
        good = _valid_behind(fs, logs.get(base_offset), position, limits)
        what = "are not valid batches" if good is None else f"include a valid batch at byte {good}"
        message = f"{size_bytes} bytes {what}: cut off, as a broker does"
        code = ExitCode.CORRUPTION if loaded.removed or good is not None else ExitCode.WARNINGS
        found.append(Remark(paths.get(base_offset, partition.path), message, code, position))
    for base_offset in loaded.removed:
        message = "removed with all records, as a broker does"
        found.append(Remark(paths.get(base_offset, partition.path), message, ExitCode.CORRUPTION))
    return found


def _valid_behind(fs: Filesystem, log: FileStatus | None, position: int, limits: Limits) -> int | None:
    """Return the position of the first batch with a valid CRC from a byte on; None if there is none, or no such log."""
    if log is None or log.size_bytes <= position:
        return None
    with fs.open_read(log.path) as file:
        return next_good_batch(file, position, limits, broken_at=position)


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
    if metadata is None or not metadata.is_complete:
        return None
    topic = topic_of_directory(partition, None, metadata)
    if topic is None:
        return None
    own = find_owner(metadata, topic.name, partition.number, None, settings.broker_id(log_dir))
    return own.topic if own.is_held else None
