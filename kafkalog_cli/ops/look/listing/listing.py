"""Describe a partition and its segments for `ls`: names, sizes, checkpoints, the first and last headers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Annotated, ClassVar, Literal, NamedTuple

from kafkalog_cli.change.runs import odd_entries
from kafkalog_cli.disk.fs import FileStatus, Filesystem, ReadableFile
from kafkalog_cli.disk.names import (
    SEGMENT_KINDS,
    DirectoryKind,
    DirectoryName,
    FileKind,
    FileName,
    WorkState,
    classify_file,
    moved_aside,
)
from kafkalog_cli.errors import ExitCode, KafkalogError, Unreadable, shell_word
from kafkalog_cli.format import checkpoint, partition_metadata
from kafkalog_cli.format.batch import NO_TIMESTAMP, Batch
from kafkalog_cli.format.checkpoint import EpochEntry
from kafkalog_cli.format.fault import Fault, FaultKind, unreadable
from kafkalog_cli.format.index import OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY, TimeIndex
from kafkalog_cli.format.json_files import QuorumState, decode_quorum_state
from kafkalog_cli.format.txnindex import ABORTED_TXN
from kafkalog_cli.log.log_dir import OFFSET_CHECKPOINTS, Shutdown
from kafkalog_cli.log.log_end import SegmentEnd, is_index_missing, last_entries, segment_end, v07_end
from kafkalog_cli.log.open_transactions import (
    OpenTransaction,
    headers_of,
    newest_snapshot,
    open_transactions,
    parts_to_replay,
)
from kafkalog_cli.log.partition import MAX_SEGMENT_BYTES, Partition, PartitionFile, Segment
from kafkalog_cli.log.reading.header import header_at
from kafkalog_cli.log.reading.scan import Scan
from kafkalog_cli.ops.look.listing.root import CheckpointedOffsets, FaultNotes, LocatedFault, LogDirRoot
from kafkalog_cli.ops.words import DirectoryWord
from kafkalog_cli.results import (
    ABSENT,
    FLAT,
    AtName,
    Before,
    Hidden,
    Named,
    PathName,
    keywords,
    of,
    result,
)

REPLAY_BYTES = 4 << 30
"""If more bytes than this must be skipped to find the open transactions, they are not searched for."""

_DATA_KINDS = SEGMENT_KINDS | {FileKind.SEVEN_LOG, FileKind.PRODUCER_SNAPSHOT}
_BYTES_FIELD = {
    FileKind.LOG: "log",
    FileKind.SEVEN_LOG: "log",
    FileKind.OFFSET_INDEX: "index",
    FileKind.TIME_INDEX: "timeindex",
    FileKind.TXN_INDEX: "txnindex",
    FileKind.PRODUCER_SNAPSHOT: "snapshot",
    FileKind.METADATA_SNAPSHOT: "snapshot",
}


@dataclass(frozen=True, slots=True)
class BytesByKind:
    """Sizes of files by kind, in bytes."""

    log: Annotated[int, ".log and .kafka"] = 0
    index: Annotated[int, "offset indexes"] = 0
    timeindex: Annotated[int, "time indexes"] = 0
    txnindex: Annotated[int, "transaction indexes"] = 0
    snapshot: Annotated[int, "producer and metadata snapshots"] = 0
    other: Annotated[int, "all other files"] = 0
    leftover: Annotated[int, "files with a work suffix"] = 0

    @property
    def total(self) -> Annotated[int, "of all files"]:
        """The sum of all sizes."""
        return sum(self.by_name().values())

    @property
    def indexes(self) -> int:
        """The size of all indexes of segments."""
        return self.index + self.timeindex + self.txnindex

    def by_name(self) -> dict[str, int]:
        """Return the sizes by field name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __add__(self, other: BytesByKind) -> BytesByKind:
        added = other.by_name()
        return BytesByKind(**{name: size + added[name] for name, size in self.by_name().items()})


class MetadataSnapshot(NamedTuple):
    """A snapshot of the metadata log."""

    file: Annotated[PartitionFile, FLAT]
    epoch: int | None


@dataclass(frozen=True, slots=True)
class Freeable:
    """The space that retain and compact would free now, in allocated bytes.

    A partition counts as unknown if one of its two plans is refused; `unknown_because` has the reasons.
    """

    bytes: ClassVar[Annotated[int | None, "the sum of the known numbers; null if none is known"]] = of(
        lambda found: found.known_bytes if found.known_bytes or not found.unknown_partitions else None
    )
    due_bytes: Annotated[int, ".deleted files that are due"] = 0
    retention_bytes: Annotated[int | None, "null if it is known for no partition"] = None
    compaction_bytes: Annotated[int | None, "null if it is known for no partition"] = None
    unknown_because: tuple[str, ...] = ()
    partitions: Hidden[int] = 0
    unknown_partitions: Annotated[int, Before("unknown_because"), "partitions with an unknown number"] = 0

    @property
    def exit_code(self) -> ExitCode:
        """Always OK: a listing does not fail because a setting is not known."""
        return ExitCode.OK

    @property
    def known_bytes(self) -> int:
        """The sum of what is known."""
        return self.due_bytes + (self.retention_bytes or 0) + (self.compaction_bytes or 0)

    def __add__(self, other: Freeable) -> Freeable:
        return Freeable(
            self.due_bytes + other.due_bytes,
            _sum(self.retention_bytes, other.retention_bytes),
            _sum(self.compaction_bytes, other.compaction_bytes),
            tuple(dict.fromkeys((*self.unknown_because, *other.unknown_because))),
            self.partitions + other.partitions,
            self.unknown_partitions + other.unknown_partitions,
        )


def _sum(first: int | None, second: int | None) -> int | None:
    return second if first is None else first if second is None else first + second


@dataclass(frozen=True, slots=True)
class DiskUse:
    """What fills the disk beside the files of logs."""

    run_bytes: Annotated[int, "sizes of the files that runs keep in .kafkalog, which `bytes` leaves out"] = 0
    run_allocated_bytes: Annotated[int, "their space, which `allocated_bytes` leaves out"] = 0
    freeable: Annotated[Freeable | None, "null without --freeable"] = None


@result("kafkalog.partition/1")
@dataclass(frozen=True, slots=True)
class PartitionListing:
    """A partition directory, listed by ls. Offsets are found without checks of CRCs.

    The listings of 100,000 partitions are in memory until the last is known: the status of each file is not kept.
    """

    directory: Hidden[DirectoryName]
    is_v07: Hidden[bool]
    root: Hidden[LogDirRoot | None]
    path: PathName
    topic: ClassVar[Annotated[PathName, "by the directory's name"]] = of("directory.shown_topic")
    number: ClassVar[Annotated[int | None, Named("partition"), "by the directory's name"]] = of("directory.partition")
    directory_kind: ClassVar[DirectoryWord] = of("directory.kind")
    unique_id: ClassVar[Annotated[str | None, "the part of the name before -delete, -future or -stray"]] = of(
        "directory.unique_id"
    )
    topic_id: Annotated[str | None, "of partition.metadata"]
    log_dir: ClassVar[Annotated[PathName | None, "the log directory that contains it"]] = of("root.path")
    shutdown: ClassVar[Annotated[Shutdown | None, "how the broker stopped; null outside of a log directory"]] = of(
        "root.shutdown"
    )
    segments: int
    bytes_by_kind: Annotated[BytesByKind, Named("bytes")]
    allocated_bytes: Annotated[int, "the space of the files on the disk; preallocated indexes are sparse"]
    log_start_offset: Annotated[int | None, "the line in log-start-offset-checkpoint, else of the first segment"]
    log_end_offset: Annotated[int | None, "the next offset, by batch headers"]
    high_watermark: ClassVar[int | None] = of(lambda listing: listing.watermark())
    high_watermark_from: ClassVar[Literal["replication-offset-checkpoint", "log-end"]] = of(
        lambda listing: "log-end" if listing.checkpoints.high_watermark is None else "replication-offset-checkpoint"
    )
    is_tiered: Annotated[bool, Named("tiered"), "the log starts before the first segment here"]
    first_timestamp: Annotated[int | None, Named("first_timestamp_ms"), "of the first record"]
    max_timestamp: Annotated[
        int | None, Named("max_timestamp_ms"), "the largest in time indexes and in the last headers"
    ]
    checkpoints: CheckpointedOffsets
    leader_epochs: tuple[EpochEntry, ...]
    open_transactions: Annotated[Sequence[OpenTransaction] | None, "null: they were not searched for"]
    producer_snapshots: Annotated[tuple[int, ...], "their offsets"]
    leftovers: tuple[PartitionFile, ...]
    orphans: Annotated[tuple[PartitionFile, ...], "indexes without a log"]
    metadata_snapshots: tuple[MetadataSnapshot, ...]
    quorum_state: QuorumState | None
    runs: Annotated[tuple[AtName, ...], "runs of kafkalog, kept in .kafkalog"]
    faults: tuple[LocatedFault, ...]
    usage: Annotated[DiskUse | None, FLAT, ABSENT] = None

    def watermark(self) -> int | None:
        """Return the line in replication-offset-checkpoint, but at most the log's end, which it is without a line."""
        line, end = self.checkpoints.high_watermark, self.log_end_offset
        return end if line is None or end is None else min(line, end)


class _LogRange(NamedTuple):
    """The range of a log as `ls` shows it: unlike LogBounds, it may have no end, and it has positions and times."""

    start: int | None = None
    end: int | None = None
    end_position: int = 0
    is_tiered: bool = False
    first_timestamp: int | None = None
    max_timestamp: int | None = None


def list_partition(
    fs: Filesystem, partition: Partition, root: LogDirRoot | None, *, with_transactions: bool = True
) -> PartitionListing:
    """Describe one partition; `root` is its log directory, None if it is in none.

    Raises Unreadable. Anything wrong in the files becomes a fault.
    """
    notes, entries = FaultNotes(fs), partition.entries
    _strange_names(entries, notes)
    with suppress(Unreadable):  # this user may not list `.kafkalog`: the log can be read all the same
        for path, what in odd_entries(fs, partition.path, entries):
            notes.add(path, [Fault(FaultKind.UNREADABLE, 0, f"{what}, which kafkalog did not make: skipped")])
    offsets = CheckpointedOffsets(*map(partition.line, OFFSET_CHECKPOINTS))
    clean = broker_believes_indexes(partition)
    log = _log_range(partition, offsets, notes, clean=clean)
    epochs = notes.decoded(partition.leader_epochs, checkpoint.decode_leader_epochs)
    metadata = notes.decoded(partition.metadata, partition_metadata.decode)
    quorum = next((f.status for f in partition.others if f.name.kind is FileKind.QUORUM_STATE), None)
    return PartitionListing(
        partition.directory,
        any(segment.is_v07 for segment in partition.segments),
        root,
        partition.path,
        None if metadata is None else metadata.topic_id,
        len(partition.segments),
        bytes_by_kind(entries),
        sum(entry.allocated_bytes for entry in entries if entry.is_file),
        log.start,
        log.end,
        log.is_tiered,
        log.first_timestamp,
        log.max_timestamp,
        offsets,
        tuple(epochs or ()),
        _open_transactions(partition, log, notes, clean=clean) if with_transactions else None,
        tuple(file.name.offset for file in partition.snapshots if file.name.offset is not None),
        partition.leftovers,
        partition.orphans,
        tuple(MetadataSnapshot(file, file.name.epoch) for file in partition.metadata_snapshots),
        notes.decoded(quorum, decode_quorum_state),
        tuple(map(AtName, partition.runs)),
        notes.found,
    )


def broker_believes_indexes(partition: Partition) -> bool:
    """Whether a broker that starts uses this partition's indexes unchecked: no recovery, and no deletion."""
    kept = partition.directory.kind in (DirectoryKind.PARTITION, DirectoryKind.FUTURE)
    return partition.is_clean and kept and not partition.directory.is_metadata_log


def bytes_by_kind(entries: Iterable[FileStatus]) -> BytesByKind:
    """Return the total sizes of the files among `entries`, by kind."""
    sizes: dict[str, int] = {}
    for entry in entries:
        if entry.is_file:
            field = _bytes_field(classify_file(entry.name))
            sizes[field] = sizes.get(field, 0) + entry.size_bytes
    return BytesByKind(**sizes)


def _bytes_field(name: FileName) -> str:
    if name.state is not WorkState.IN_PLACE:
        return "leftover"
    return "other" if name.offset is None else _BYTES_FIELD.get(name.kind, "other")


def _strange_names(entries: Iterable[FileStatus], notes: FaultNotes) -> None:
    """Note entries with a data file's name that are not files, and data files whose name has no offset."""
    for entry in entries:
        name = classify_file(entry.name)
        if name.kind not in _DATA_KINDS or name.state is not WorkState.IN_PLACE:
            continue
        if entry.is_file:
            problem = "the name does not begin with an offset: a broker fails on it" if name.offset is None else ""
        elif entry.is_directory:
            problem = f"is a directory, not a file; {moved_aside(entry.path)} moves it away"
        else:
            what = "is a link to nothing" if entry.is_symlink else "is not a regular file"
            problem = f"{what}; {moved_aside(entry.path)} moves it away"
        if problem:
            notes.add(entry.path, [Fault(FaultKind.UNREADABLE, 0, problem)])


def _log_range(partition: Partition, offsets: CheckpointedOffsets, notes: FaultNotes, *, clean: bool) -> _LogRange:
    if not partition.segments:
        return _LogRange(offsets.log_start)
    first_base, last = partition.segments[0].base_offset, partition.segments[-1]
    largest = -1
    for segment in partition.segments:
        sidecar_lengths(segment, notes)
        largest = max(largest, largest_indexed_timestamp(segment, notes))
    first = next((segment for segment in partition.segments if segment.log.size_bytes), None)
    first_timestamp = None if first is None else start_of(first, notes).timestamp
    end = end_of(last, notes, clean=clean, is_active=True)
    largest = max(largest, end.max_timestamp)
    start = first_base if offsets.log_start is None else offsets.log_start
    if start > end.next_offset:
        message = f"log start {start} is above the log's end {end.next_offset}: a broker deletes every segment"
        notes.add(partition.path, [Fault(FaultKind.INVALID_ENTRY, 0, message)])
    return _LogRange(
        start, end.next_offset, end.end_position, start < first_base, first_timestamp, None if largest < 0 else largest
    )


def _open_transactions(
    partition: Partition, log: _LogRange, notes: FaultNotes, *, clean: bool
) -> Sequence[OpenTransaction] | None:
    if log.end is None or log.start is None:
        return ()
    offset, snapshot = newest_snapshot(notes.fs, partition, log.end, notes.add)
    if offset is None:
        if clean and not partition.snapshots:  # a broker has written empty snapshots then, and reads no batch
            return ()
        offset = max(log.start, partition.segments[0].base_offset)
    try:
        parts = parts_to_replay(notes.fs, partition.segments, offset) if offset < log.end else []
        if sum(part.size_bytes for part in parts) > REPLAY_BYTES:
            return None
        damage: list[tuple[Segment, Fault]] = []
        transactions = open_transactions(partition.path, snapshot, headers_of(notes.fs, parts, damage), offset, log.end)
    except (KafkalogError, OSError) as error:
        notes.add(partition.path, [unreadable(error)])
        return None
    if damage:
        from kafkalog_cli.log.reading.resync import is_overtaken
    for segment, fault in damage:  # damage at the log's end is already noted
        is_before_the_end = segment is not partition.segments[-1] or fault.position < log.end_position
        if is_before_the_end and not is_overtaken(notes.fs, segment.log.path, segment.log.size_bytes, fault.position):
            notes.add(segment.log.path, [fault], is_corruption=True)
    return transactions


SEVEN_SCAN_BYTES = 64 << 20
"""The end of a larger 0.7 file is taken from its size: without an index, all messages would have to be read."""


@dataclass(frozen=True, slots=True)
class SegmentSizes:
    """Sizes of the files of a segment, in bytes; null: there is no such file."""

    log: int
    index: int | None
    timeindex: int | None
    txnindex: int | None

    @classmethod
    def of(cls, segment: Segment) -> SegmentSizes:
        """Return the sizes of a segment's files."""
        files = segment.log, segment.offset_index, segment.time_index, segment.txn_index
        return cls(*(None if file is None else file.size_bytes for file in files))  # type: ignore[arg-type]


@result("kafkalog.segment/1")
@dataclass(frozen=True, slots=True)
class SegmentListing:
    """A segment, listed by ls --segments."""

    partition: Hidden[Partition]
    segment: Hidden[Segment]
    path: ClassVar[PathName] = of("segment.log.path")
    topic: ClassVar[Annotated[PathName, "by the directory's name"]] = of("partition.directory.shown_topic")
    number: ClassVar[Annotated[int | None, Named("partition"), "by the directory's name"]] = of(
        "partition.directory.partition"
    )
    directory_kind: ClassVar[DirectoryWord] = of("partition.directory.kind")
    base_offset: ClassVar[Annotated[int, "by the name"]] = of("segment.base_offset")
    is_active: Annotated[bool, Named("active"), "whether it is the last of its partition"]
    format: Annotated[Annotated[str, keywords(enum=("0.7", "v0", "v1", "v2"))] | None, "of the first batch"]
    sizes: ClassVar[Annotated[SegmentSizes, Named("bytes")]] = of(lambda listing: SegmentSizes.of(listing.segment))
    first_offset: Annotated[int | None, "of the first batch"]
    next_offset: Annotated[int, "after the last batch, by headers"]
    first_timestamp: Annotated[int | None, Named("first_timestamp_ms")]
    max_timestamp: Annotated[int | None, Named("max_timestamp_ms")]
    modified_ms: ClassVar[Annotated[int, "mtime of the log"]] = of("segment.log.mtime_ms")
    faults: tuple[LocatedFault, ...]


class SegmentStart(NamedTuple):
    """The first batch of a segment: its format, and the offset and timestamp of its first record."""

    format: str | None = None
    offset: int | None = None
    timestamp: int | None = None


def list_segment(fs: Filesystem, partition: Partition, segment: Segment, *, clean: bool) -> SegmentListing:
    """Describe one segment of `partition`; `clean`: the broker stopped cleanly.

    Damage in the files becomes faults, never an exception.
    """
    notes = FaultNotes(fs)
    is_active = segment is partition.segments[-1]
    sidecar_lengths(segment, notes)
    start = start_of(segment, notes)
    end = end_of(segment, notes, clean=clean and is_active, is_active=is_active)
    largest = max(largest_indexed_timestamp(segment, notes), end.max_timestamp)
    return SegmentListing(
        partition,
        segment,
        is_active,
        start.format,
        start.offset,
        end.next_offset,
        start.timestamp,
        None if largest < 0 else largest,
        notes.found,
    )


def start_of(segment: Segment, notes: FaultNotes) -> SegmentStart:
    """Return the first batch of a segment; empty if the segment is empty or does not begin with a batch."""
    if segment.is_v07:
        return SegmentStart("0.7", segment.base_offset if segment.log.size_bytes else None)
    if not segment.log.size_bytes:
        return SegmentStart()
    try:
        with notes.fs.open_read(segment.log.path) as log:
            header = header_at(log, 0)
            return _start(log, header) if isinstance(header, Batch) else SegmentStart()
    except (KafkalogError, OSError) as error:
        notes.add(segment.log.path, [unreadable(error)])
        return SegmentStart()


def end_of(segment: Segment, notes: FaultNotes, *, clean: bool, is_active: bool) -> SegmentEnd:
    """Return the end of a segment, by headers (see `log.segments.log_end`).

    Damage before the last segment is corruption.
    """
    try:
        found = _seven_end(segment, notes, clean=clean) if segment.is_v07 else None
        end = found or segment_end(notes.fs, segment, like_clean_start=clean)
    except (KafkalogError, OSError) as error:
        notes.add(segment.log.path, [unreadable(error)])
        return SegmentEnd(segment.base_offset)
    notes.add(segment.log.path, end.faults, is_corruption=not is_active)
    if segment.offset_index is not None:
        notes.add(segment.offset_index.path, end.index_faults)
    return end


def largest_indexed_timestamp(segment: Segment, notes: FaultNotes) -> int:
    """Return the timestamp of the last used entry of the time index, -1 if there is none."""
    if segment.time_index is None or segment.time_index.size_bytes < TIME_INDEX_ENTRY.size:
        return NO_TIMESTAMP
    path = segment.time_index.path
    entries, faults = last_entries(notes.fs, path, TimeIndex, segment.base_offset, in_use=True)
    notes.add(path, faults)
    last = entries.last_entry
    # An index that was preallocated and never written has a single entry of zeros.
    return NO_TIMESTAMP if tuple(last) == (0, segment.base_offset) and len(entries) == 1 else last.timestamp


def sidecar_lengths(segment: Segment, notes: FaultNotes) -> None:
    """Note files with lengths that no broker leaves, and missing indexes."""
    for status, layout in (
        (segment.offset_index, OFFSET_INDEX_ENTRY),
        (segment.time_index, TIME_INDEX_ENTRY),
        (segment.txn_index, ABORTED_TXN),
    ):
        rest = 0 if status is None else status.size_bytes % layout.size
        if status is not None and rest:
            at, expected, got = status.size_bytes - rest, f"a multiple of {layout.size}", str(status.size_bytes)
            message = f"{status.size_bytes} bytes are not {expected}"
            notes.add(status.path, [Fault(FaultKind.INVALID_LENGTH, at, message, rest, expected, got)])
    for kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX):
        path = segment.log.path.removesuffix(FileKind.LOG.value) + kind.value
        # An entry of the name that is not a file is noted before; it must be moved away before `recover`.
        if is_index_missing(notes.fs, segment, kind) and all(fault.path != path for fault in notes.found):
            command = f"kafkalog recover {shell_word(path.rpartition('/')[0] or '.')} --indexes-only"
            notes.add(path, [Fault(FaultKind.MISSING, 0, f"missing: `{command}` rebuilds it")])
    if segment.log.size_bytes > MAX_SEGMENT_BYTES:
        size, most = str(segment.log.size_bytes), str(MAX_SEGMENT_BYTES)
        message = f"{size} bytes: a broker opens no segment over {most} bytes"
        notes.add(segment.log.path, [Fault(FaultKind.INVALID_LENGTH, 0, message, expected=most, got=size)])


def _start(log: ReadableFile, header: Batch) -> SegmentStart:
    form = f"v{min(header.magic, 2)}"
    # The first offset of a compressed set is only inside it, and a delete horizon replaces the base timestamp.
    if (header.magic < 2 and header.codec) or header.delete_horizon_ms is not None:
        offset, timestamp = _first_record(log, header)
    else:
        offset, timestamp = header.base_offset, header.base_timestamp
    if header.is_log_append_time:
        timestamp = header.max_timestamp
    return SegmentStart(form, offset, None if timestamp is None or timestamp < 0 else timestamp)


def _first_record(log: ReadableFile, header: Batch) -> tuple[int | None, int | None]:
    for block in Scan.of_batch(log, header).blocks():
        if len(block.records):
            return int(block.records.offset[0]), int(block.records.timestamp[0])
    return (header.base_offset if header.magic >= 2 else None), None


def _seven_end(segment: Segment, notes: FaultNotes, *, clean: bool) -> SegmentEnd:
    """Return the end of a 0.7 segment: offsets are byte positions, so it is the end of the last whole message."""
    size = segment.log.size_bytes
    is_by_size = clean or not size or size > SEVEN_SCAN_BYTES
    return SegmentEnd(segment.base_offset + size, size) if is_by_size else v07_end(notes.fs, segment)
