"""The JSON output of ls: objects for log directories, topics, partitions, segments and other files."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from kafkalog_cli.log.open_transactions import OpenTransaction
from kafkalog_cli.ops.listing.listing import BytesByKind, PartitionListing
from kafkalog_cli.ops.listing.paths import Listing
from kafkalog_cli.ops.listing.root import LogDirRoot
from kafkalog_cli.ops.listing.usage import TopicUsage, Usage
from kafkalog_cli.output.listing_records import (
    FILE,
    LOGDIR,
    PARTITION,
    SEGMENT,
    TOPIC,
    DiskUseObject,
    FreeableObject,
    HeldMarkerObject,
    ImportsObject,
    LogDirFieldsObject,
    LogDirObject,
    OpenTransactionObject,
    PartitionFieldsObject,
    PartitionObject,
    UsageObject,
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
            self._lines.record(FILE, file)
        if not self._segments:
            for partition in listing.partitions:
                self._lines.object(PARTITION, partition_object(partition))
        for segment in listing.segments:
            self._lines.record(SEGMENT, segment, path=segment.segment.log.path)
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
            log_dirs = [{"path": PathText(path)} for path in row.log_dirs]
            self._lines.record(TOPIC, row.usage, topic=row.topic, log_dirs=log_dirs, **_added(row.usage))

    def end(self, roots: Mapping[str, tuple[LogDirRoot, list[PartitionListing]]], sums: Mapping[str, Usage]) -> None:
        """Write the objects of log directories."""
        for path, (root, partitions) in roots.items():
            self._lines.object(LOGDIR, log_dir_object(root, partitions, _added(sums.get(path, Usage()))))


def partition_object(listing: PartitionListing, usage: DiskUseObject | None = None) -> PartitionObject:
    """Return the fields of a partition, with the `usage` that some options add."""
    has_watermark = listing.checkpoints.high_watermark is not None
    transactions = listing.open_transactions
    fields = same_fields(
        PartitionFieldsObject,
        listing,
        high_watermark_from="replication-offset-checkpoint" if has_watermark else "log-end",
        open_transactions=None if transactions is None else _rendered(transactions),
    )
    return {**fields, **(usage or UsageObject())}


def log_dir_object(
    root: LogDirRoot, partitions: list[PartitionListing], usage: DiskUseObject | None = None
) -> LogDirObject:
    """Return the fields of a log directory, with the `usage` that some options add."""
    coming, is_at_work = [one.path for one in root.imports.coming], root.importer is not None
    fields = same_fields(
        LogDirFieldsObject,
        root,
        marker_held_for=[
            same_fields(HeldMarkerObject, None, run=run, partitions=names)
            for run, names in root.marker_held_for.items()
        ],
        imports=same_fields(ImportsObject, root, coming=coming, at_work=is_at_work),
        topics=len({listing.partition.directory.shown_topic for listing in partitions}),
        partitions=len(partitions),
        directories=dict(Counter(listing.partition.directory.kind.name.lower() for listing in partitions)),
        segments=sum(listing.partition.segments for listing in partitions),
        bytes=sum((listing.bytes_by_kind for listing in partitions), BytesByKind()),
        allocated_bytes=sum(listing.allocated_bytes for listing in partitions),
        leftovers=sum(len(listing.partition.leftovers) for listing in partitions),
        open_transactions=sum(len(listing.open_transactions or ()) for listing in partitions),
        root_files=[
            {"name": PathText(status.path.rpartition("/")[2]), "bytes": status.size_bytes} for status in root.files
        ],
    )
    return {**fields, **(usage or UsageObject())}


def _rendered(transactions: Iterable[OpenTransaction]) -> Rendered:
    """Return a list as JSON text, object after object: there may be millions of transactions."""

    def pieces() -> Iterator[str]:
        separator = "["
        for one in transactions:
            yield f"{separator}{json_text(same_fields(OpenTransactionObject, one))}"
            separator = ","
        yield "[]" if separator == "[" else "]"

    return Rendered(pieces())


def _added(usage: Usage) -> DiskUseObject:
    """Return what fills the disk; `bytes` of what could be freed is null if nothing of it is known."""
    freeable = usage.freeable
    if freeable is None:
        return same_fields(DiskUseObject, usage)
    known = freeable.known_bytes if freeable.known_bytes or not freeable.unknown_partitions else None
    return same_fields(DiskUseObject, usage, freeable=same_fields(FreeableObject, freeable, bytes=known))
