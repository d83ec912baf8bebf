"""`df.write.format("kafkalog")`: tasks sort rows by partition, the commit builds and publishes the partitions."""

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from kafkalog_cli.change.runs import new_run_id
from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.disk.lock import LockPolicy, lock_imports
from kafkalog_cli.errors import UsageError
from kafkalog_cli.log.settings.source import SettingsSource
from kafkalog_cli.log.settings.topic_config import parse_topic_settings
from kafkalog_cli.ops.change.append.arrow import ArrowReader, record_columns
from kafkalog_cli.ops.move.importing.job import Import
from kafkalog_cli.ops.move.importing.scattering import Scatter, SortedFile, Staging
from kafkalog_cli.ops.move.importing.sources import KNOWN_COLUMNS, ImportRequest, topic_ids
from kafkalog_cli.ops.scans.options import flag, local_path, positive
from kafkalog_cli.spark.jobs import without_traceback

_CONFIG = "config."
_OPTIONS = (
    "path", "topic", "topicId", "partitions", "newOffsets", "codec", "batchBytes", "prove", "replaceEmpty",
    "singleReplica", "metadata", "waitSeconds",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of a write. `config`: topic settings by name."""

    log_dir: str
    request: ImportRequest
    config: Mapping[str, str]
    metadata: str | None
    wait_seconds: int


@dataclass
class Sorted(WriterCommitMessage):
    """The files that a task has sorted out."""

    files: list[SortedFile]


def write_options(given: Mapping[str, Any]) -> WriteOptions:
    """Return the options of a write. Raises UsageError with a complete message."""
    options = {str(name).lower(): str(value) for name, value in given.items()}
    known = {name.lower() for name in _OPTIONS}
    for name in sorted(options):
        if name not in known and not name.startswith(_CONFIG):
            raise UsageError(reason=f"unknown option '{name}'; there are {', '.join(sorted(_OPTIONS))}, config.NAME")
    if not options.get("path"):
        raise UsageError(reason="option 'path' must be given: save(LOG_DIR)")
    request = ImportRequest(
        options.get("topic"),
        topic_ids([text.strip() for text in options["topicid"].split(",")]) if "topicid" in options else {},
        positive(options, "partitions"),
        flag(options, "newOffsets", default=False),
        options.get("codec"),
        batch_bytes=positive(options, "batchBytes") or 16_384,
        prove=flag(options, "prove", default=False),
        replace_empty=flag(options, "replaceEmpty", default=False),
        single_replica=flag(options, "singleReplica", default=False),
    )
    request.check()
    config = [f"{name.removeprefix(_CONFIG)}={value}" for name, value in options.items() if name.startswith(_CONFIG)]
    path = local_path(options["path"])
    wait = positive(options, "waitSeconds") or 0
    return WriteOptions(path, request, parse_topic_settings(config), options.get("metadata"), wait)


class Writer(DataSourceArrowWriter):
    """Makes partitions from rows with these columns. Spark pickles it to every worker, and uses it for the commit."""

    def __init__(self, options: WriteOptions, columns: Sequence[str], *, overwrite: bool) -> None:
        _check_columns(options.request, columns, overwrite=overwrite)
        self._options = options
        request = options.request
        self._keeps = "offset" in columns and not request.new_offsets and request.partitions is None
        self._now_ms = time.time_ns() // 1_000_000
        self._run = new_run_id("import", self._now_ms)
        self._import().check()

    @without_traceback()
    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Sort the rows of a task by partition. Raises BadInput, UsageError, Locked, OSError, SyncFailed."""
        from pyspark import TaskContext

        task = TaskContext.get()
        number = 0 if task is None else task.partitionId()
        request, log_dir = self._options.request, self._options.log_dir
        staging = Staging(log_dir, self._run, self._policy)
        name = f"task {number}"
        with lock_imports(RealFilesystem(), log_dir, self._policy, exclusive=False):
            topics: list[str] = []
            reader = ArrowReader(self._now_ms, with_origin=True, topics=topics)
            records = reader.records(record_columns(part, name) for part in iterator)
            scatter = Scatter(request, number, name, keeps_offsets=self._keeps, is_column_first=True)
            return Sorted(scatter.write(staging, records, topics))

    @without_traceback()
    def commit(self, messages: Sequence[Any]) -> None:
        """Build and publish the partitions; warn about a broker's later changes to them. Raises as `Import.commit`."""
        files = [file for message in messages if message is not None for file in message.files]
        if files:
            result = self._import().commit(files, keep_offsets=self._keeps)
            for note in result.notes:
                warnings.warn(f"{note.path}: {note.message}", stacklevel=2)

    def abort(self, messages: Sequence[Any]) -> None:
        """Remove the files that the tasks left."""
        del messages
        self._import().abandon()

    @property
    def _policy(self) -> LockPolicy:
        return LockPolicy(self._options.wait_seconds * 1000)

    def _import(self) -> Import:
        options, fs = self._options, RealFilesystem()
        source = SettingsSource(fs, options.config, None, metadata_path=options.metadata, log_dirs=[options.log_dir])
        return Import(fs, options.log_dir, options.request, source, self._now_ms, self._policy, run=self._run)


def _check_columns(request: ImportRequest, columns: Sequence[str], *, overwrite: bool) -> None:
    """Raise UsageError for columns that can never be written."""
    if overwrite:
        raise UsageError(
            reason="an import overwrites nothing: use mode('append'), and a log directory without these partitions"
        )
    unknown = [name for name in columns if name not in KNOWN_COLUMNS]
    if unknown:
        raise UsageError(
            reason=f"records have no columns {', '.join(unknown)}; they have {', '.join(sorted(KNOWN_COLUMNS))}"
        )
    if "key" not in columns and "value" not in columns:
        raise UsageError(reason="a column key or value is needed")
    if "topic" not in columns and request.topic is None:
        raise UsageError(reason="the topic is not known: add a column topic, or option('topic', NAME)")
    if "partition" not in columns and request.partitions is None:
        raise UsageError(
            reason="the partition is not known: add a column partition, or option('partitions', N) for a choice by keys"
        )
