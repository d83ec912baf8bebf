"""Make the demo: append its records, then leave the directory as a broker does that was killed on a bad disk."""

from __future__ import annotations

import io
from datetime import datetime, timezone
from typing import Any, NamedTuple

from kafkalog_cli.disk.fs import WritableFilesystem
from kafkalog_cli.disk.names import OWN_DIRECTORY, FileKind
from kafkalog_cli.errors import KafkalogError, UsageError
from kafkalog_cli.format import checkpoint, meta_properties
from kafkalog_cli.format.checkpoint import PartitionOffset
from kafkalog_cli.format.meta_properties import MetaProperties
from kafkalog_cli.log.partition import Partition, open_partition
from kafkalog_cli.ops.append.inputs import STDIN, AppendInputs
from kafkalog_cli.ops.append.verb import APPEND, Appending, AppendOptions
from kafkalog_cli.ops.append.writing import Writing
from kafkalog_cli.ops.demo.contents import NODE_ID, SEGMENT_BYTES, TOPICS, PartOfDemo, metadata_lines, parts
from kafkalog_cli.ops.purge import PURGE, PurgeRequest
from kafkalog_cli.ops.session.observer import SilentObserver
from kafkalog_cli.ops.session.options import Context, SessionOptions
from kafkalog_cli.ops.session.session import Session

_CLUSTER_ID, _DIRECTORY_ID = "ZGVtby1jbHVzdGVyLWlkLQ", "ZGVtby1kaXJlY3RvcnktaQ"
_METADATA_LOG, _METADATA_ID = "__cluster_metadata-0", "AAAAAAAAAAAAAAAAAAAAAQ"
TORN, FLIPPED = "orders-1", "orders-2"


class Demo(NamedTuple):
    """The demo that was made: its log directory, and the number of its partitions."""

    path: str
    partitions: int


class _Strict(SilentObserver):
    """Raises the first error of a session, as none is expected, and keeps the result."""

    result: Any = None

    def fail(self, error: KafkalogError, *, path: str | None = None, is_told: bool) -> None:
        """See Observer."""
        del path, is_told
        raise error

    def show(self, result: Any) -> None:
        """See Observer."""
        self.result = result


def make_demo(context: Context, path: str, now_ms: int) -> Demo:
    """Make the log directory `path`, which must not exist or be empty. Raises UsageError, and as an append does."""
    fs = context.fs
    status = fs.status(path)
    if status is None:
        fs.make_directory(path)
    elif not status.is_directory or fs.list_directory(path):
        raise UsageError(reason=f"demo makes a new directory; {path} is there and is not empty")
    written_at = datetime.fromtimestamp(now_ms / 1000, timezone.utc).strftime("%a %b %d %H:%M:%S UTC %Y")
    meta = MetaProperties(1, _CLUSTER_ID, NODE_ID, _DIRECTORY_ID)
    _write(fs, f"{path}/{FileKind.META_PROPERTIES.value}", meta_properties.encode(meta, written_at))
    # Writers leave the metadata log alone: its records are appended under another name.
    begin = PartOfDemo("metadata-0", metadata_lines(now_ms - 73 * 3_600_000, _DIRECTORY_ID), Writing())
    _append(context, path, begin, _METADATA_ID, now_ms)
    ids = {topic.name: topic.topic_id for topic in TOPICS}
    ends: dict[str, int] = {}
    for part in parts(now_ms):
        topic_id = None if part.directory in ends else ids[part.directory.rpartition("-")[0]]
        ends[part.directory] = _append(context, path, part, topic_id, now_ms)
    _forget_runs(context, path, now_ms)
    fs.rename(f"{path}/{begin.directory}", f"{path}/{_METADATA_LOG}")
    partitions = [open_partition(fs, f"{path}/{name}") for name in ends]
    lines = [PartitionOffset(each.topic, each.number, ends[each.directory.name]) for each in partitions]
    _write(fs, f"{path}/{FileKind.REPLICATION_CHECKPOINT.value}", checkpoint.encode_offsets(lines))
    _tear(fs, open_partition(fs, f"{path}/{TORN}"))
    _flip(fs, open_partition(fs, f"{path}/{FLIPPED}"))
    return Demo(path, len(partitions) + 1)


def _append(context: Context, path: str, part: PartOfDemo, topic_id: str | None, now_ms: int) -> int:
    """Append to a partition, or to a new partition with `topic_id`. Returns the end of its log."""
    observer = _Strict()
    options = SessionOptions(now_ms=now_ms, single_replica=True, config=[f"segment.bytes={SEGMENT_BYTES}"])
    session = Session(APPEND, context, options, observer)
    inputs = AppendInputs(context.fs, (STDIN,), io.BytesIO(part.lines), session.interruptions, observer)
    appending = Appending(session, AppendOptions(part.writing, topic_id=topic_id), inputs)
    targets = appending.targets(f"{path}/{part.directory}", ())
    session.settings(targets)
    session.run(appending, targets)
    return int(observer.result.plan.log_end_offset)


def _forget_runs(context: Context, path: str, now_ms: int) -> None:
    """Remove what the appends kept for undo."""
    session = Session(PURGE, context, SessionOptions(now_ms=now_ms + 1), _Strict())
    partitions = session.partitions([path])
    session.run(PurgeRequest(older_than_ms=0), partitions)
    for partition in partitions:
        context.fs.unlink(f"{partition.path}/{OWN_DIRECTORY}/lock")
        context.fs.remove_directory(f"{partition.path}/{OWN_DIRECTORY}")


def _write(fs: WritableFilesystem, path: str, data: bytes) -> None:
    with fs.create(path) as file:
        file.write(0, data)
        file.sync()


def _tear(fs: WritableFilesystem, partition: Partition) -> None:
    """Cut off the end of the last batch, as a power cut does."""
    log = partition.segments[-1].log
    with fs.open_write(log.path) as file:
        file.truncate(log.size_bytes - 120)


def _flip(fs: WritableFilesystem, partition: Partition) -> None:
    """Change a byte in the middle of the first segment, as a bad disk does."""
    log = partition.segments[0].log
    middle = log.size_bytes // 2
    with fs.open_read(log.path) as source:
        byte = bytearray(1)
        source.read_into(middle, memoryview(byte))
    with fs.open_write(log.path) as file:
        file.write(middle, bytes([byte[0] ^ 0x20]))
