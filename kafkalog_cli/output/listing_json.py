"""The JSON output of ls: objects for log directories, partitions, segments and other files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from kafkalog_cli.disk.fs import FileStatus
from kafkalog_cli.disk.names import FileName
from kafkalog_cli.disk.transactions_by_producer import OpenTransaction
from kafkalog_cli.format.quorum_state import QuorumState
from kafkalog_cli.log.partition import Partition, PartitionFile
from kafkalog_cli.ops.listing.listing import BytesByKind, PartitionListing
from kafkalog_cli.ops.listing.paths import FileListing, Listing
from kafkalog_cli.ops.listing.reads import LocatedFault
from kafkalog_cli.ops.listing.root import LogDirRoot
from kafkalog_cli.ops.listing.segments import SegmentListing
from kafkalog_cli.output.ndjson import JsonLines, Rendered, json_path, json_text

PARTITION = "kafkalog.partition/1"
SEGMENT = "kafkalog.segment/1"
LOGDIR = "kafkalog.logdir/1"
FILE = "kafkalog.file/1"

Object = dict[str, object]


class ListingJson:
    """Writes one object per row; a log directory's object comes after its partitions."""

    def __init__(self, lines: JsonLines, *, segments: bool) -> None:
        self._lines = lines
        self._segments = segments

    def listing(self, listing: Listing) -> None:
        """Write everything found under one path."""
        for file in listing.files:
            self._lines.object(FILE, "file", file_object(file))
        if not self._segments:
            for partition in listing.partitions:
                self._lines.object(PARTITION, "partition", partition_object(partition))
        for segment in listing.segments:
            self._lines.object(SEGMENT, "segment", segment_object(segment))
        if listing.log_dir is not None:
            self._lines.object(LOGDIR, "logdir", log_dir_object(listing.log_dir, listing.partitions))

    def end(self) -> None:
        """Do nothing: every object is already written."""


def partition_object(listing: PartitionListing) -> Object:
    """Return the fields of `kafkalog.partition/1`."""
    partition = listing.partition
    root = listing.root
    has_watermark = listing.checkpoints.high_watermark is not None
    transactions = listing.open_transactions
    return {
        **_where(partition),
        "unique_id": partition.directory.unique_id,
        "topic_id": listing.topic_id,
        **({"log_dir": None} if root is None else json_path(root.path, "log_dir")),
        "shutdown": None if root is None else root.shutdown.value,
        "segments": len(partition.segments),
        "bytes": _bytes(listing.bytes_by_kind),
        "allocated_bytes": listing.allocated_bytes,
        "log_start_offset": listing.log_start_offset,
        "log_end_offset": listing.log_end_offset,
        "high_watermark": listing.high_watermark,
        "high_watermark_from": "replication-offset-checkpoint" if has_watermark else "log-end",
        "tiered": listing.is_tiered,
        "first_timestamp_ms": listing.first_timestamp,
        "max_timestamp_ms": listing.max_timestamp,
        "checkpoints": listing.checkpoints._asdict(),
        "leader_epochs": [epoch._asdict() for epoch in listing.leader_epochs],
        "open_transactions": None if transactions is None else Rendered(_rendered(map(_transaction, transactions))),
        "producer_snapshots": [file.name.offset for file in partition.snapshots if file.name.offset is not None],
        "leftovers": [*map(_partition_file, partition.leftovers)],
        "orphans": [*map(_partition_file, partition.orphans)],
        "metadata_snapshots": [
            {**_partition_file(file), "epoch": file.name.epoch} for file in partition.metadata_snapshots
        ],
        "quorum_state": None if listing.quorum_state is None else _quorum(listing.quorum_state),
        "runs": [{**json_path(run, "name")} for run in partition.runs],
        "faults": _faults(listing.faults),
    }


def segment_object(listing: SegmentListing) -> Object:
    """Return the fields of `kafkalog.segment/1`."""
    segment = listing.segment
    return {
        **_where(listing.partition),
        **json_path(segment.log.path),
        "base_offset": segment.base_offset,
        "active": listing.is_active,
        "format": listing.format,
        "bytes": {
            "log": segment.log.size_bytes,
            "index": _size(segment.offset_index),
            "timeindex": _size(segment.time_index),
            "txnindex": _size(segment.txn_index),
        },
        "first_offset": listing.first_offset,
        "next_offset": listing.next_offset,
        "first_timestamp_ms": listing.first_timestamp,
        "max_timestamp_ms": listing.max_timestamp,
        "modified_ms": segment.log.mtime_ms,
        "faults": _faults(listing.faults),
    }


def log_dir_object(root: LogDirRoot, partitions: list[PartitionListing]) -> Object:
    """Return the fields of `kafkalog.logdir/1`: the root files, and sums over the partitions listed."""
    meta, owner = root.meta, root.lock_owner
    kinds = Counter(listing.partition.directory.kind.name.lower() for listing in partitions)
    return {
        **json_path(root.path),
        "shutdown": root.shutdown.value,
        "broker_epoch": root.broker_epoch,
        "marker_held_for": [
            {"run": run, "partitions": [json_path(name, "name") for name in names]}
            for run, names in root.marker_held_for.items()
        ],
        "imports": {
            "run": root.imports.run,
            "coming": [json_path(one.path, "name") for one in root.imports.coming],
            "lost": [json_path(name, "name") for name in root.imports.lost],
            "staged": [json_path(name, "name") for name in root.imports.stale],
            "at_work": root.importer is not None,
        },
        "lock": None if owner is None else {"pid": owner.pid, "exclusive": owner.is_exclusive},
        "meta_properties": None
        if meta is None
        else {
            "version": meta.version,
            "cluster_id": meta.cluster_id,
            "node_id": meta.node_id,
            "directory_id": meta.directory_id,
        },
        "topics": len({listing.partition.topic for listing in partitions}),
        "partitions": len(partitions),
        "directories": dict(kinds),
        "segments": sum(len(listing.partition.segments) for listing in partitions),
        "bytes": _bytes(sum((listing.bytes_by_kind for listing in partitions), BytesByKind())),
        "allocated_bytes": sum(listing.allocated_bytes for listing in partitions),
        "leftovers": sum(len(listing.partition.leftovers) for listing in partitions),
        "open_transactions": sum(len(listing.open_transactions or ()) for listing in partitions),
        "root_files": [
            {**json_path(status.path.rpartition("/")[2], "name"), "bytes": status.size_bytes} for status in root.files
        ],
        "foreign_directories": [json_path(name, "name") for name in root.foreign],
        "other_entries": [json_path(name, "name") for name in root.others],
        "faults": _faults(root.faults),
    }


def file_object(listing: FileListing) -> Object:
    """Return the fields of `kafkalog.file/1`."""
    return {
        **json_path(listing.status.path),
        **_named(listing.name),
        "bytes": listing.status.size_bytes,
        "modified_ms": listing.status.mtime_ms,
    }


def _where(partition: Partition) -> Object:
    directory = partition.directory
    return {
        **json_path(partition.path),
        **json_path(partition.topic, "topic"),
        "partition": directory.partition,
        "directory_kind": directory.kind.name.lower(),
    }


def _named(name: FileName) -> Object:
    return {
        "kind": name.kind.name.lower(),
        "state": name.state.name.lower(),
        "offset": name.offset,
    }


def _partition_file(file: PartitionFile) -> Object:
    return {**json_path(file.name.name, "name"), **_named(file.name), "bytes": file.status.size_bytes}


def _bytes(sizes: BytesByKind) -> Object:
    return {**sizes.by_name(), "total": sizes.total}


def _size(status: FileStatus | None) -> int | None:
    return None if status is None else status.size_bytes


def _rendered(objects: Iterable[Object]) -> Iterator[str]:
    """Yield a list as JSON text, object after object: there may be millions of transactions."""
    separator = "["
    for one in objects:
        yield f"{separator}{json_text(one)}"
        separator = ","
    yield "[]" if separator == "[" else "]"


def _transaction(transaction: OpenTransaction) -> Object:
    return {
        "producer_id": transaction.producer_id,
        "producer_epoch": transaction.producer_epoch,
        "first_offset": transaction.first_offset,
        "last_timestamp_ms": None if transaction.last_timestamp < 0 else transaction.last_timestamp,
    }


def _quorum(state: QuorumState) -> Object:
    return {
        "data_version": state.data_version,
        "leader_id": state.leader_id,
        "leader_epoch": state.leader_epoch,
        "voted_id": state.voted_id,
    }


def _faults(faults: Iterable[LocatedFault]) -> list[Object]:
    return [
        {
            **json_path(found.path),
            "kind": found.fault.kind.value,
            "position": found.fault.position,
            "message": found.fault.message,
            "severity": "corruption" if found.is_corruption else "warning",
        }
        for found in faults
    ]
