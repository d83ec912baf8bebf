"""Audit one partition: its verification and its statistics, from one reading of the log."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kafkalog_cli.broker.cleaning.choosing import Dirt
from kafkalog_cli.disk.fs import WritableFilesystem
from kafkalog_cli.disk.names import DirectoryKind
from kafkalog_cli.errors import ExitCode, KafkalogError
from kafkalog_cli.log.partition import PartitionPath, open_partition
from kafkalog_cli.log.settings.topic_config import CLEANUP_POLICY, COMPACT, Origin
from kafkalog_cli.ops.audit.counting import CodecCounts, KeyCounts, KeyStatistics, LogStatistics
from kafkalog_cli.ops.checks.segment_reports import ReadContext
from kafkalog_cli.ops.compact.plan import USED_SETTINGS, CompactRequest, plan_compact
from kafkalog_cli.ops.listing.listing import list_partition
from kafkalog_cli.ops.listing.root import LogDirRoot
from kafkalog_cli.ops.partition_state import state_in
from kafkalog_cli.ops.same_place import PartitionIdentity
from kafkalog_cli.ops.settings import SettingsSource
from kafkalog_cli.ops.verify.settled import removed, settled_verification
from kafkalog_cli.ops.verify.task import Verification, VerifyTask

CleanerSettings = Mapping[str, str]
"""Settings of a compacted topic, name to text; only settings that some source sets."""


class Failed(NamedTuple):
    """A path that could not be audited."""

    path: str
    error: KafkalogError


class AuditedLogDir(NamedTuple):
    """A log directory, and what its `meta.properties` says; a field is None if it says nothing."""

    path: str
    cluster_id: str | None = None
    node_id: int | None = None
    directory_id: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionStatistics:
    """Statistics of a partition.

    Sizes are in bytes and times in epoch ms; None if there is none, or if it is not known. `bytes` are those of log
    files, `total_bytes` those of all files. `first_timestamp` is that of the first batch, and `max_timestamp` the
    largest of all batches. `records` excludes control records. `dirty_ratio` is the cleaner's, None if the cleaner does
    not or cannot clean the log. `keys` is None if keys were not counted.
    """

    kind: DirectoryKind
    topic_id: str | None
    segments: int
    bytes: int
    total_bytes: int
    allocated_bytes: int
    high_watermark: int | None
    batches: int
    records: int | None
    control_records: int
    first_timestamp: int | None
    max_timestamp: int | None
    codecs: tuple[CodecCounts, ...]
    dirty_bytes: int | None
    dirty_ratio: float | None
    keys: KeyCounts | None = None


@dataclass(frozen=True, slots=True)
class Audited:
    """The audit of a partition, or of a log directory itself, which has no statistics.

    `log_dir` is None for a partition outside of log directories.
    """

    result: Verification | Failed
    log_dir: AuditedLogDir | None = None
    statistics: PartitionStatistics | None = None

    @property
    def path(self) -> str:
        """The path that was audited."""
        return self.result.path

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of the verification, or of the error that prevented it."""
        return self.result.error.exit_code if isinstance(self.result, Failed) else self.result.exit_code


@dataclass(frozen=True, slots=True)
class AuditTask:
    """A partition to audit; a worker gets all of it.

    `cleaner` is None if the cleaner does not clean the partition. `top` is the number of keys to report, None if keys
    are not counted. `seen` is what the planner saw of the partition, None if it is not to be compared.
    """

    task: VerifyTask
    log_dir: AuditedLogDir | None = None
    cleaner: CleanerSettings | None = None
    top: int | None = None
    seen: PartitionIdentity | None = None

    @property
    def size_bytes(self) -> int:
        """The size of the log in bytes."""
        return sum(segment.log.size_bytes for segment in self.task.partition.segments)


def log_dir_of(path: str | None, settings: SettingsSource) -> AuditedLogDir | None:
    """Return a log directory with its identity, None for no path."""
    if path is None:
        return None
    meta = settings.meta(path)
    return (
        AuditedLogDir(path) if meta is None else AuditedLogDir(path, meta.cluster_id, meta.node_id, meta.directory_id)
    )


def audit_task(task: VerifyTask, root: LogDirRoot | None, settings: SettingsSource) -> AuditTask:
    """Return the audit task for a verification task. Raises as `SettingsSource.metadata` does."""
    partition = task.partition
    if root is None:
        return AuditTask(task)
    identity = log_dir_of(root.path, settings)
    lean = task._replace(root=root.about(partition.topic, partition.number))
    if partition.directory.is_metadata_log:  # snapshots, not the cleaner, shorten it
        return AuditTask(lean, identity)
    has_line = root.offsets_of(partition.topic, partition.number).cleaner is not None
    cleaner = _cleaner_settings(settings, root.path, partition.topic, has_line=has_line)
    return AuditTask(lean, identity, cleaner)


def _cleaner_settings(settings: SettingsSource, log_dir: str, topic: str, *, has_line: bool) -> CleanerSettings | None:
    """Return the settings for the cleaner.

    None if nothing shows that the topic is compacted: neither a setting nor a line of the cleaner's checkpoint.
    """
    config = settings.topic_config(log_dir, topic)
    is_set = config[CLEANUP_POLICY].origin is not Origin.DEFAULT
    if not (config.is_compacted if is_set else has_line):
        return None
    texts = {name: config[name].text for name in USED_SETTINGS if config[name].origin is not Origin.DEFAULT}
    return {**texts, CLEANUP_POLICY: COMPACT}


def audit_partition(read_context: ReadContext, fs: WritableFilesystem, task: AuditTask) -> Audited:
    """Verify a partition and collect its statistics. Nothing is changed."""
    keys = None if task.top is None else KeyStatistics(task.top)
    log = LogStatistics(keys)
    partition = task.task.partition
    try:
        result = settled_verification(read_context, task.task._replace(listener=log))
        now = open_partition(fs, partition.path)  # it may have been removed meanwhile
        listing = list_partition(fs, now, task.task.root, with_transactions=False)
    except KafkalogError as error:
        gone = removed(fs, PartitionPath(partition.path, partition.directory), task.task.level)
        return Audited(gone or Failed(partition.path, error), task.log_dir)
    dirt = None if task.cleaner is None else _dirt(fs, task, task.cleaner)
    statistics = PartitionStatistics(
        partition.directory.kind,
        listing.topic_id,
        len(partition.segments),
        listing.bytes_by_kind.log,
        listing.bytes_by_kind.total,
        listing.allocated_bytes,
        listing.high_watermark,
        log.batch_count,
        log.record_count,
        log.control_record_count,
        listing.first_timestamp,
        log.max_timestamp,
        log.codecs,
        None if dirt is None else dirt.cleanable_bytes,
        None if dirt is None else dirt.ratio,
        None if keys is None else keys.counts(),
    )
    return Audited(result, task.log_dir, statistics)


def _dirt(fs: WritableFilesystem, task: AuditTask, cleaner: CleanerSettings) -> Dirt | None:
    """Return what `compact --dry-run` reports about a log; None if it would be refused."""
    partition, root = task.task.partition, task.task.root
    request = CompactRequest(task.task.now_ms, SettingsSource(fs, cleaner, None))
    try:
        return plan_compact(fs, partition, state_in(root, partition), request).dirt
    except (KafkalogError, OSError):
        return None
