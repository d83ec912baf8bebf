"""Audit a partition: collect statistics of its log while it is verified, on whole columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from kafkalog_cli.broker.cleaning.choosing import Dirt
from kafkalog_cli.disk.fs import WritableFilesystem
from kafkalog_cli.disk.names import DirectoryKind
from kafkalog_cli.errors import ExitCode, KafkalogError
from kafkalog_cli.format.batch import CODEC_MASK, CONTROL_MASK, NO_TIMESTAMP, BatchColumns
from kafkalog_cli.format.columns import Flags, Integers
from kafkalog_cli.format.compression import codec_name
from kafkalog_cli.format.records import OUTSIDE, RecordBlock
from kafkalog_cli.log.settings.topic_config import CLEANUP_POLICY, COMPACT, Origin
from kafkalog_cli.ops.audit.keys import KeyCounts, KeyStatistics, StoredKeys
from kafkalog_cli.ops.checks.segment_reports import ReadContext
from kafkalog_cli.ops.compact.choose import USED_SETTINGS, plan_compact
from kafkalog_cli.ops.compact.plan import CompactRequest
from kafkalog_cli.ops.listing.listing import list_partition
from kafkalog_cli.ops.listing.root import LogDirRoot
from kafkalog_cli.ops.partition_state import state_in
from kafkalog_cli.ops.same_place import PartitionIdentity
from kafkalog_cli.ops.settings import SettingsSource
from kafkalog_cli.ops.verify.partition import Verification, VerifyTask
from kafkalog_cli.ops.verify.settled import settled_verification


class CodecCounts(NamedTuple):
    """The batches with one codec; `bytes` is their total size in the log."""

    codec: str
    batches: int
    bytes: int


class LogStatistics:
    """A BatchListener of one partition; it counts batches whose CRCs are right or were not checked.

    `keys` receives the records that were read. `record_count` is the number of readable records, without control
    records. If no records are read, it is the number in the headers, or None if a header has no number (a compressed v0
    or v1 message set). `max_timestamp` is the largest in a header, in ms, None if there is none.
    """

    def __init__(self, keys: KeyStatistics | None = None) -> None:
        self.wants_records = keys is not None
        self._keys = keys
        self.batch_count = 0
        self.max_timestamp: int | None = None
        self._codecs: dict[int, list[int]] = {}
        self._told, self._told_control, self._is_told = 0, 0, True
        self._read, self._read_control, self._has_read = 0, 0, False

    @property
    def record_count(self) -> int | None:
        """The number of records without control records, None if unknown."""
        if self._has_read:
            return self._read
        return self._told if self._is_told else None

    @property
    def control_record_count(self) -> int:
        """The number of control records."""
        return self._read_control if self._has_read else self._told_control

    @property
    def codecs(self) -> tuple[CodecCounts, ...]:
        """The counts per codec, by the codec's number."""
        found = sorted(self._codecs.items())
        return tuple(CodecCounts(codec_name(codec) or str(codec), *counts) for codec, counts in found)

    def batches(self, batches: BatchColumns) -> None:
        """See BatchListener."""
        import numpy as np

        names = ("valid", "attributes", "size_bytes", "max_timestamp", "records_count")
        valid, attributes, sizes, times, counts = (_column(batches, name) for name in names)
        rows = np.flatnonzero(valid)
        attributes, sizes, times, counts = attributes[rows], sizes[rows], times[rows], counts[rows]
        if not len(rows):
            return
        self.batch_count += len(rows)
        codecs = attributes & CODEC_MASK
        for codec in np.unique(codecs).tolist():
            of_codec = codecs == codec
            known = self._codecs.setdefault(codec, [0, 0])
            known[0] += int(of_codec.sum())
            known[1] += int(sizes[of_codec].sum())
        largest = int(times.max())
        if largest != NO_TIMESTAMP:
            self.max_timestamp = largest if self.max_timestamp is None else max(largest, self.max_timestamp)
        control = _is_control(batches)[rows]
        self._is_told &= bool((counts >= 0).all())
        self._told += int(counts[~control].sum())
        self._told_control += int(counts[control].sum())

    def records(self, block: RecordBlock) -> None:
        """See BatchListener."""
        import numpy as np

        self._has_read = True
        ends = np.asarray(block.record_ends, dtype=np.int64)
        counts = ends - np.concatenate((np.zeros(1, dtype=np.int64), ends[:-1]))
        control = _is_control(block.batches)[block.first_row : block.end_row]
        self._read += int(counts[~control].sum())
        self._read_control += int(counts[control].sum())
        if self._keys is not None and len(block.records):
            self._look_at_keys(self._keys, block, None if not control.any() else np.repeat(~control, counts))

    @staticmethod
    def _look_at_keys(keys: KeyStatistics, block: RecordBlock, wanted: Flags | None) -> None:
        import numpy as np

        records = block.records
        columns = (records.key_position, records.key_size, records.value_size)
        positions, key_sizes, value_sizes = (np.asarray(column, dtype=np.int64) for column in columns)
        if wanted is not None:
            positions, key_sizes, value_sizes = positions[wanted], key_sizes[wanted], value_sizes[wanted]
        known = key_sizes >= 0
        null_keys = len(known) - int(known.sum())
        positions, key_sizes, value_sizes = positions[known], key_sizes[known], value_sizes[known]
        if not len(key_sizes):
            keys.add_stored(None, value_sizes, null_keys)
            return
        key_sizes = np.where(positions == OUTSIDE, 0, key_sizes)
        keys.add_stored(stored_keys(block.buffer, positions, key_sizes), value_sizes, null_keys)


def _column(batches: BatchColumns, name: str) -> Integers:
    import numpy as np

    return np.asarray(getattr(batches, name), dtype=np.int64)


def _is_control(batches: BatchColumns) -> Flags:
    is_control: Flags = (_column(batches, "attributes") & CONTROL_MASK != 0) & (_column(batches, "magic") >= 2)
    return is_control


def stored_keys(buffer: memoryview, positions: Integers, sizes: Integers) -> StoredKeys:
    """Return a copy of the keys at these positions of a buffer."""
    import numpy as np

    begins = np.cumsum(sizes) - sizes
    places = zip(positions.tolist(), sizes.tolist(), strict=True)
    data = b"".join([buffer[at : at + size] for at, size in places])
    return StoredKeys(np.frombuffer(data, dtype=np.uint8), begins, sizes)


def control_rows(block: RecordBlock) -> Flags | None:
    """Return for each record of a block whether it is a control record; None if none is."""
    import numpy as np

    control = _is_control(block.batches)[block.first_row : block.end_row]
    if not control.any():
        return None
    ends = np.asarray(block.record_ends, dtype=np.int64)
    return np.repeat(control, np.diff(ends, prepend=0))


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
    lean = replace(task, root=root.about(partition.topic, partition.number))
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
        result = settled_verification(read_context, replace(task.task, listener=log))
        listing = list_partition(fs, partition, task.task.root, with_transactions=False)
    except KafkalogError as error:
        return Audited(Failed(partition.path, error), task.log_dir)
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
    request = CompactRequest(task.task.now_ms, SettingsSource(fs, cleaner, {}))
    try:
        return plan_compact(fs, partition, state_in(root, partition), request).dirt
    except (KafkalogError, OSError):
        return None
