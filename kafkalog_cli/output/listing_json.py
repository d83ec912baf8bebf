"""The JSON output of ls: objects for log directories, topics, partitions, segments and other files."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import cast

from kafkalog_cli.disk.names import FileName
from kafkalog_cli.log.open_transactions import OpenTransaction
from kafkalog_cli.log.partition import Partition, PartitionFile
from kafkalog_cli.ops.listing.listing import BytesByKind, ListedPartition, PartitionListing, SegmentListing
from kafkalog_cli.ops.listing.paths import FileListing, Listing
from kafkalog_cli.ops.listing.root import LocatedFault, LogDirRoot
from kafkalog_cli.ops.listing.usage import Freeable, TopicUsage, Usage
from kafkalog_cli.output.listing_records import (
    FILE,
    LOGDIR,
    PARTITION,
    SEGMENT,
    TOPIC,
    DiskUseObject,
    FileObject,
    FreeableObject,
    ListedFaultObject,
    LogDirObject,
    MetaPropertiesObject,
    NameFactsObject,
    NameObject,
    OpenTransactionObject,
    PartitionFieldsObject,
    PartitionFileObject,
    PartitionObject,
    SegmentObject,
    SizesObject,
    TopicObject,
    UsageObject,
    WhereObject,
)
from kafkalog_cli.output.ndjson import JsonLines, PathText, Rendered, json_text, same_fields


class ListingJson:
    """Writes one object per row; a log directory's object comes after its partitions."""

    def __init__(self, lines: JsonLines, *, segments: bool) -> None:
        self._lines = lines
        self._segments = segments

    def listing(self, listing: Listing) -> None:
        """Write everything found under one path."""
        for file in listing.files:
            self._lines.object(FILE, file_object(file))
        if not self._segments:
            for partition in listing.partitions:
                self._lines.object(PARTITION, partition_object(partition))
        for segment in listing.segments:
            self._lines.object(SEGMENT, segment_object(segment))
        if listing.log_dir is not None:
            self._lines.object(LOGDIR, log_dir_object(listing.log_dir, listing.partitions))

    def end(self) -> None:
        """Do nothing: every object is already written."""


class UsageJson:
    """Writes an object per partition or topic, then one per log directory."""

    def __init__(self, lines: JsonLines) -> None:
        self._lines = lines

    def partitions(self, rows: Sequence[tuple[PartitionListing, Usage]]) -> None:
        """Write the objects of partitions, with what fills the disk."""
        for found, usage in rows:
            self._lines.object(PARTITION, partition_object(found, _added(usage)))

    def topics(self, rows: Sequence[TopicUsage]) -> None:
        """Write the objects of topics."""
        for row in rows:
            self._lines.object(TOPIC, topic_object(row))

    def end(self, roots: Mapping[str, tuple[LogDirRoot, list[PartitionListing]]], sums: Mapping[str, Usage]) -> None:
        """Write the objects of log directories."""
        for path, (root, partitions) in roots.items():
            self._lines.object(LOGDIR, log_dir_object(root, partitions, _added(sums.get(path, Usage()))))


def partition_object(listing: PartitionListing, usage: DiskUseObject | None = None) -> PartitionObject:
    """Return the fields of a partition, with the `usage` that some options add."""
    partition = listing.partition
    has_watermark = listing.checkpoints.high_watermark is not None
    transactions = listing.open_transactions
    fields = same_fields(
        PartitionFieldsObject,
        listing,
        **_where(partition),
        high_watermark_from="replication-offset-checkpoint" if has_watermark else "log-end",
        open_transactions=None if transactions is None else _rendered(map(_transaction, transactions)),
        leftovers=map(_partition_file, partition.leftovers),
        orphans=map(_partition_file, partition.orphans),
        metadata_snapshots=[
            {**_partition_file(file), "epoch": file.name.epoch} for file in partition.metadata_snapshots
        ],
        runs=_names(partition.runs),
        faults=_faults(listing.faults),
    )
    return {**fields, **(usage or UsageObject())}


def segment_object(listing: SegmentListing) -> SegmentObject:
    """Return the fields of a segment."""
    where: dict[str, object] = {**_where(listing.partition), "path": listing.segment.log.path}
    return same_fields(SegmentObject, listing, **where, faults=_faults(listing.faults))


def log_dir_object(
    root: LogDirRoot, partitions: list[PartitionListing], usage: DiskUseObject | None = None
) -> LogDirObject:
    """Return the fields of a log directory, with the `usage` that some options add."""
    meta, owner = root.meta, root.lock_owner
    kinds = Counter(listing.partition.directory.kind.name.lower() for listing in partitions)
    return {
        "path": PathText(root.path),
        "shutdown": root.shutdown,
        "broker_epoch": root.broker_epoch,
        "marker_held_for": [{"run": run, "partitions": _names(names)} for run, names in root.marker_held_for.items()],
        "imports": {
            "run": root.imports.run,
            "coming": _names(one.path for one in root.imports.coming),
            "lost": _names(root.imports.lost),
            "staged": _names(root.imports.stale),
            "at_work": root.importer is not None,
        },
        "lock": None if owner is None else {"pid": owner.pid, "exclusive": owner.is_exclusive},
        "meta_properties": None if meta is None else same_fields(MetaPropertiesObject, meta),
        "topics": len({listing.partition.directory.shown_topic for listing in partitions}),
        "partitions": len(partitions),
        "directories": dict(kinds),
        "segments": sum(listing.partition.segments for listing in partitions),
        "bytes": same_fields(SizesObject, sum((listing.bytes_by_kind for listing in partitions), BytesByKind())),
        "allocated_bytes": sum(listing.allocated_bytes for listing in partitions),
        "leftovers": sum(len(listing.partition.leftovers) for listing in partitions),
        "open_transactions": sum(len(listing.open_transactions or ()) for listing in partitions),
        "root_files": [
            {"name": PathText(status.path.rpartition("/")[2]), "bytes": status.size_bytes} for status in root.files
        ],
        "foreign_directories": _names(root.foreign),
        "other_entries": _names(root.others),
        "faults": _faults(root.faults),
        **(usage or UsageObject()),
    }


def file_object(listing: FileListing) -> FileObject:
    """Return the fields of a file."""
    return same_fields(FileObject, listing.status, **_named(listing.name))


def _where(partition: Partition | ListedPartition) -> WhereObject:
    directory = partition.directory
    return {
        "path": PathText(partition.path),
        "topic": PathText(directory.shown_topic),
        "partition": directory.partition,
        "directory_kind": directory.kind.name.lower(),
    }


def _named(name: FileName) -> NameFactsObject:
    return {"kind": name.kind.name.lower(), "state": name.state.name.lower(), "offset": name.offset}


def _partition_file(file: PartitionFile) -> PartitionFileObject:
    return {"name": PathText(file.name.name), **_named(file.name), "bytes": file.status.size_bytes}


def _names(names: Iterable[str]) -> list[NameObject]:
    return [{"name": PathText(name)} for name in names]


def _rendered(objects: Iterable[OpenTransactionObject]) -> list[OpenTransactionObject]:
    """Return a list as JSON text, object after object: there may be millions of transactions."""

    def pieces() -> Iterator[str]:
        separator = "["
        for one in objects:
            yield f"{separator}{json_text(one)}"
            separator = ","
        yield "[]" if separator == "[" else "]"

    return cast("list[OpenTransactionObject]", Rendered(pieces()))


def _transaction(transaction: OpenTransaction) -> OpenTransactionObject:
    last = None if transaction.last_timestamp < 0 else transaction.last_timestamp
    return same_fields(OpenTransactionObject, transaction, last_timestamp_ms=last)


def _faults(faults: Iterable[LocatedFault]) -> list[ListedFaultObject]:
    return [
        {
            "path": PathText(found.path),
            "kind": found.fault.kind,
            "position": found.fault.position,
            "message": found.fault.message,
            "severity": "corruption" if found.is_corruption else "warning",
        }
        for found in faults
    ]


def topic_object(row: TopicUsage) -> TopicObject:
    """Return the fields of a topic."""
    log_dirs = [{"path": PathText(path)} for path in row.log_dirs]
    return same_fields(TopicObject, row.usage, topic=row.topic, log_dirs=log_dirs, **_added(row.usage))


def _added(usage: Usage) -> DiskUseObject:
    freeable = None if usage.freeable is None else freeable_object(usage.freeable)
    return same_fields(DiskUseObject, usage, freeable=freeable)


def freeable_object(freeable: Freeable) -> FreeableObject:
    """Return what could be freed; `bytes` is null if nothing of it is known."""
    known = freeable.known_bytes or not freeable.unknown_partitions
    return same_fields(FreeableObject, freeable, bytes=freeable.known_bytes if known else None)
