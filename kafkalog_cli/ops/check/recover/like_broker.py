"""Plans the changes of a broker that starts and then stops cleanly, by its loader on a draft of the partition."""

from collections.abc import Iterator
from dataclasses import replace

from kafkalog_cli.broker.load_error import LoadFailed
from kafkalog_cli.broker.loaded_segment import LoadSettings
from kafkalog_cli.broker.log_loader import LoadedLog, LogLoader
from kafkalog_cli.change.draft import Draft
from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.disk.names import SEGMENT_KINDS, FileKind
from kafkalog_cli.errors import ExitCode, Unreadable
from kafkalog_cli.format.checkpoint import BrokerReading
from kafkalog_cli.format.fault import Fault
from kafkalog_cli.log.log_dir import LineEdit, StartState
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.log.reading.resync import next_good_batch
from kafkalog_cli.ops.change.plans import Remark, fingerprints_of
from kafkalog_cli.ops.check.checks.finding_kinds import StartAction
from kafkalog_cli.ops.check.recover.plan import RecoverMode, RecoverPlan
from kafkalog_cli.ops.check.recover.repair import UNREADABLE_STEPS
from kafkalog_cli.ops.steps import RECOVER, Step, path_word

_OFFLINE = "a broker takes the whole log directory offline, and does not start if it has no other"
_MAPPED_OR_WRAPPED = tuple(kind.value for kind in SEGMENT_KINDS)
"""Suffixes of the files whose read errors stop a broker.

A failed read of a mapped index is an InternalError. An IOException of a log or transaction index becomes a
KafkaException.
"""


def plan_like_broker(fs: Filesystem, partition: Partition, settings: LoadSettings) -> RecoverPlan:
    """Plan the changes; the plan is refused if the broker cannot load the partition, or a checkpoint before that."""
    if partition.failing_checkpoint is not None:
        return _refused_by_checkpoint(partition, *partition.failing_checkpoint)
    draft, start = Draft(fs, partition.path), partition.start(like_broker=True)
    prints = fingerprints_of(draft, partition.path)
    try:
        loaded = LogLoader(draft, start, settings).load()
    except (LoadFailed, Unreadable, OSError) as failure:
        return replace(_refused_by_loader(partition, failure), fingerprints=prints)
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
        remarks=tuple(_remarks(fs, partition, loaded, settings)),
        fingerprints=prints,
    )


def _refused_by_checkpoint(partition: Partition, path: str, fault: Fault, reading: BrokerReading) -> RecoverPlan:
    """Return the refusal if a checkpoint of the log directory stops a broker before it loads partitions."""
    at_start, effect = StartAction.TAKES_OFFLINE, _OFFLINE
    if reading is BrokerReading.OUT_OF_MEMORY:
        at_start = StartAction.DOES_NOT_START
        effect = "a broker runs out of memory when it reads this file, and does not start"
    command = ("kafkalog", "recover", path_word(partition.log_dir or ""))
    rebuilds = Step("without --like-broker, rebuilds the file from the lines that can be read")
    steps = (Step("", command, end=", "), rebuilds)
    remark = Remark(path, f"{effect}: {fault.message}", ExitCode.REFUSED, fault.position, steps)
    return _refused(partition, remark, at_start)


def _refused_by_loader(partition: Partition, failure: LoadFailed | Unreadable | OSError) -> RecoverPlan:
    """Return the refused plan that says what the broker does. An IOException in a small file is not the end of it."""
    if isinstance(failure, LoadFailed):
        repairs = Step("without --like-broker, repairs it, or prints the command that copies what can be read")
        steps = (Step("", RECOVER, end=", "), repairs)
        message = f"a broker does not start with it: {failure}"
        remark = Remark(partition.path, message, ExitCode.REFUSED, steps=steps)
        return _refused(partition, remark, StartAction.DOES_NOT_START)
    if isinstance(failure, Unreadable):
        path, reason = failure.details["path"], failure.details["reason"]
    else:
        path, reason = failure.filename, failure.strerror
    path = str(path or partition.path)
    name = path.rpartition("/")[2]
    at_start, effect = StartAction.TAKES_OFFLINE, _OFFLINE
    if name.endswith(_MAPPED_OR_WRAPPED):
        at_start, effect = StartAction.DOES_NOT_START, "a broker does not start with it"
    message = f"{effect}: {name} cannot be read: {reason}"
    return _refused(partition, Remark(path, message, ExitCode.REFUSED, steps=UNREADABLE_STEPS), at_start)


def _refused(partition: Partition, remark: Remark, at_start: StartAction) -> RecoverPlan:
    like_broker = RecoverMode.LIKE_BROKER
    return RecoverPlan.of(partition, mode=like_broker, remarks=(remark,), is_refused=True, at_start=at_start)


def _line_edits(
    partition: Partition, start: StartState, loaded: LoadedLog, settings: LoadSettings
) -> Iterator[LineEdit]:
    """Yield the edits of lines by a clean stop.

    A log start is written only if it is above the first segment's base offset, or if the topic is tiered; any other
    line for it is removed.
    """
    topic, number = partition.topic, partition.number
    yield LineEdit(FileKind.RECOVERY_POINT_CHECKPOINT, topic, number, loaded.log_end_offset)
    is_written = settings.is_tiered or loaded.log_start_offset > loaded.first_base_offset
    if is_written or start.log_start_offset:
        log_start = loaded.log_start_offset if is_written else None
        yield LineEdit(FileKind.LOG_START_CHECKPOINT, topic, number, log_start)


def _remarks(fs: Filesystem, partition: Partition, loaded: LoadedLog, settings: LoadSettings) -> Iterator[Remark]:
    logs = {segment.base_offset: segment.log for segment in partition.segments}
    paths = {base_offset: log.path for base_offset, log in logs.items()}
    for base_offset, position, size_bytes in loaded.cut:
        log, good = logs.get(base_offset), None
        if log is not None and log.size_bytes > position:
            with fs.open_read(log.path) as file:
                good = next_good_batch(file, position, settings.limits, broken_at=position)
        what = "are not valid batches" if good is None else f"include a valid batch at byte {good}"
        message = f"{size_bytes} bytes {what}: cut off, as a broker does"
        code = ExitCode.CORRUPTION if loaded.removed or good is not None else ExitCode.WARNINGS
        yield Remark(paths.get(base_offset, partition.path), message, code, position)
    for base_offset in loaded.removed:
        message = "removed with all records, as a broker does"
        yield Remark(paths.get(base_offset, partition.path), message, ExitCode.CORRUPTION)
