"""The text output of ls: a log directory in words, a table with a row per partition or segment, then details.

`ls --topics`, `--sort` and `--freeable` print what fills the disk, in units such as MiB.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from kafkalog_cli.disk.fs import FileStatus
from kafkalog_cli.disk.names import DirectoryKind
from kafkalog_cli.errors import counted
from kafkalog_cli.log.log_dir import Shutdown
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops.listing.listing import BytesByKind, ListedPartition, PartitionListing, SegmentListing
from kafkalog_cli.ops.listing.paths import FileListing, Listing
from kafkalog_cli.ops.listing.root import LogDirRoot
from kafkalog_cli.ops.listing.usage import Freeable, TopicUsage, Usage
from kafkalog_cli.output.human import NOTHING, TextColumn, TextTable, cell, iso_time, write_table
from kafkalog_cli.output.progress import sized
from kafkalog_cli.output.stream import ResultStream, paint_of, printable

PARTITION_COLUMNS = (
    TextColumn("PARTITION"),
    TextColumn("STATE", rank=1),
    TextColumn("SEGMENTS", is_number=True, rank=7),
    TextColumn("LOG", is_number=True),
    TextColumn("INDEXES", is_number=True, rank=12),
    TextColumn("OTHER", is_number=True, rank=13),
    TextColumn("LEFTOVER", is_number=True, rank=4, is_count=True),
    TextColumn("START", is_number=True, rank=1),
    TextColumn("END", is_number=True),
    TextColumn("WATERMARK", is_number=True, rank=5),
    TextColumn("RECOVERY", is_number=True, rank=8),
    TextColumn("CLEANER", is_number=True, rank=6),
    TextColumn("EPOCH", is_number=True, rank=9),
    TextColumn("TXNS", is_number=True, rank=3, is_count=True),
    TextColumn("FROM", rank=11),
    TextColumn("TO", rank=10),
    TextColumn("FAULTS", is_number=True, rank=2, is_count=True),
)

SEGMENT_COLUMNS = (
    TextColumn("PARTITION"),
    TextColumn("BASE", is_number=True),
    TextColumn("FORMAT", rank=3),
    TextColumn("LOG", is_number=True),
    TextColumn("INDEX", is_number=True, rank=5),
    TextColumn("TIMEINDEX", is_number=True, rank=6),
    TextColumn("TXNINDEX", is_number=True, rank=7),
    TextColumn("FIRST", is_number=True, rank=4),
    TextColumn("NEXT", is_number=True),
    TextColumn("FROM", rank=9),
    TextColumn("TO", rank=8),
    TextColumn("FAULTS", is_number=True, rank=1, is_count=True),
)

_UNCLEAN = f"{Shutdown.UNCLEAN.value} shutdown"

AT_END = "end"
"""A high watermark that is in no checkpoint: the log's end is used."""

_FILE_COLUMNS = (TextColumn("FILE"), TextColumn("KIND"), TextColumn("STATE"), TextColumn("SIZE", is_number=True))
_LEFTOVER_COLUMNS = (TextColumn("LEFTOVER"), TextColumn("STATE"), TextColumn("SIZE", is_number=True))
_TRANSACTION_COLUMNS = (
    TextColumn("OPEN TRANSACTION IN"),
    TextColumn("PRODUCER", is_number=True),
    TextColumn("EPOCH", is_number=True, rank=2),
    TextColumn("FIRST OFFSET", is_number=True, rank=1),
    TextColumn("LAST WRITE", rank=3),
)
_METADATA_COLUMNS = (
    TextColumn("METADATA SNAPSHOT"),
    TextColumn("END", is_number=True),
    TextColumn("EPOCH", is_number=True),
    TextColumn("SIZE", is_number=True),
)


class ListingText:
    """Writes listings one after another; partitions and files whose own paths were given share a table."""

    def __init__(self, out: ResultStream, *, segments: bool) -> None:
        self._out = out
        self._segments = segments
        self._loose = Listing("")
        self._is_first = True

    def listing(self, listing: Listing) -> None:
        """Write everything found under one path."""
        if listing.log_dir is None:
            self._loose.partitions += listing.partitions
            self._loose.segments += listing.segments
            self._loose.files += listing.files
            return
        self.end()
        self._section()
        paint = paint_of(self._out)
        for line in _log_dir_lines(listing.log_dir, listing.partitions):
            text = paint.wrapped(line, indent="  ")
            self._out.write(f"{paint.coloured(text, _UNCLEAN, paint.warning)}\n")
        self._tables(listing)

    def end(self) -> None:
        """Write the tables of partitions and files that were given by themselves, after all paths."""
        loose, self._loose = self._loose, Listing("")
        if not loose.is_empty:
            self._tables(loose)

    def _tables(self, listing: Listing) -> None:
        in_log_dir, partitions, segments = listing.log_dir is not None, listing.partitions, listing.segments
        self._table(_FILE_COLUMNS, [_file_row(file) for file in listing.files])
        if not self._segments:
            rows = _Rows(len(partitions), lambda: (_partition_row(one, in_log_dir) for one in partitions))
            self._table(PARTITION_COLUMNS, rows)
        rows = _Rows(len(segments), lambda: (_segment_row(one, in_log_dir) for one in segments))
        self._table(SEGMENT_COLUMNS, rows)
        count = sum(len(one.open_transactions or ()) for one in partitions)
        self._table(_TRANSACTION_COLUMNS, _Rows(count, lambda: _transaction_rows(partitions, in_log_dir)))
        self._table(_METADATA_COLUMNS, _metadata_rows(listing.partitions, in_log_dir))
        self._table(_LEFTOVER_COLUMNS, _leftover_rows(listing.partitions, in_log_dir))
        lines = [line for found in listing.partitions for line in _remarks(found, in_log_dir)]
        if lines:
            self._section()
            self._out.write("".join(f"{line}\n" for line in lines))

    def _table(self, columns: Sequence[TextColumn], rows: Collection[Sequence[str]]) -> None:
        if rows:
            self._section()
            write_table(self._out, TextTable(columns, rows))

    def _section(self) -> None:
        if not self._is_first:
            self._out.write("\n")
        self._is_first = False


def _log_dir_lines(root: LogDirRoot, partitions: list[PartitionListing]) -> Iterable[str]:
    yield f"{printable(root.path)}: {_shutdown(root)}"
    meta = root.meta
    if meta is not None:
        named = {"cluster": meta.cluster_id, "node": meta.node_id, "directory": meta.directory_id}
        yield ", ".join(f"{name} {cell(value)}" for name, value in named.items() if value is not None) or NOTHING
    topics = len({listing.partition.directory.shown_topic for listing in partitions})
    segments = sum(listing.partition.segments for listing in partitions)
    sizes = sum((listing.bytes_by_kind for listing in partitions), BytesByKind())
    by_kind = ", ".join(f"{name} {sized(size)}" for name, size in sizes.by_name().items() if size)
    counts = (
        counted(topics, "topic"),
        counted(len(partitions), "partition"),
        counted(segments, "segment"),
    )
    yield f"{', '.join(counts)}: {sized(sizes.total)}{by_kind and f' ({by_kind})'}"
    if root.marker_held_for:
        yield f"the marker of a clean shutdown is kept away {printable(root.marker_held_until)}"
    yield from _import_lines(root)
    if root.foreign:
        yield f"directories that are not partitions: {', '.join(map(printable, root.foreign))}"
    if root.others:
        yield f"other entries: {', '.join(map(printable, root.others))}"


def _import_lines(root: LogDirRoot) -> Iterable[str]:
    left = root.imports
    if root.importer is not None:
        yield f"an import is running: {counted(len(left.stale) + len(left.coming), 'directory', 'directories')}"
        return
    if left.run is not None:
        coming, lost = (", ".join(map(printable, names)) for names in ((one.path for one in left.coming), left.lost))
        yield f"an import was cut off after its commit; still to come: {coming or NOTHING}; lost: {lost or NOTHING}"
    if left.stale:
        yield f"left by imports that did not end: {counted(len(left.stale), 'directory', 'directories')}"


def _shutdown(root: LogDirRoot) -> str:
    if root.shutdown is Shutdown.RUNNING:
        pid = None if root.lock_owner is None else root.lock_owner.pid
        return "a broker is running" if pid is None else f"a broker is running, pid {pid}"
    if root.shutdown is Shutdown.UNKNOWN:
        return "no root files: how the broker stopped is unknown"
    words = f"{root.shutdown.value} shutdown"
    return words if root.broker_epoch is None else f"{words}, broker epoch {root.broker_epoch}"


def _partition_row(listing: PartitionListing, in_log_dir: bool) -> list[str]:
    partition, sizes, offsets = listing.partition, listing.bytes_by_kind, listing.checkpoints
    transactions = listing.open_transactions
    values: tuple[object, ...] = (
        partition.segments,
        sized(sizes.log),
        sized(sizes.index + sizes.timeindex + sizes.txnindex),
        sized(sizes.snapshot + sizes.other),
        sized(sizes.leftover) if sizes.leftover else 0,
        listing.log_start_offset,
        listing.log_end_offset,
        AT_END if offsets.high_watermark is None else listing.high_watermark,
        offsets.recovery_point,
        offsets.cleaner,
        listing.leader_epochs[-1].epoch if listing.leader_epochs else None,
        "?" if transactions is None else len(transactions),
    )
    times = (iso_time(listing.first_timestamp), iso_time(listing.max_timestamp))
    return [_named(partition, in_log_dir), _state(listing), *map(cell, values), *times, str(len(listing.faults))]


def _state(listing: PartitionListing) -> str:
    directory = listing.partition.directory
    words = []
    if directory.kind is not DirectoryKind.PARTITION:
        words.append(directory.kind.name.lower())
    if listing.is_tiered:
        words.append("tiered")
    if listing.partition.is_seven:
        words.append("0.7")
    return ",".join(words) or NOTHING


def _segment_row(listing: SegmentListing, in_log_dir: bool) -> list[str]:
    segment = listing.segment
    return [
        _named(listing.partition, in_log_dir),
        str(segment.base_offset),
        cell(listing.format),
        sized(segment.log.size_bytes),
        _size(segment.offset_index),
        _size(segment.time_index),
        _size(segment.txn_index),
        cell(listing.first_offset),
        str(listing.next_offset),
        iso_time(listing.first_timestamp),
        iso_time(listing.max_timestamp),
        str(len(listing.faults)),
    ]


def _file_row(listing: FileListing) -> list[str]:
    name = listing.name
    state = name.state.name.lower().replace("_", " ")
    return [
        printable(listing.status.path),
        name.kind.name.lower().replace("_", " "),
        state,
        sized(listing.status.size_bytes),
    ]


class _Rows(Collection[list[str]]):
    """`count` rows, which `made` makes each time that they are asked for: there may be millions."""

    def __init__(self, count: int, made: Callable[[], Iterator[list[str]]]) -> None:
        self._count = count
        self._made = made

    def __contains__(self, row: object) -> bool:
        return any(row == one for one in self)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[list[str]]:
        return self._made()


def _transaction_rows(partitions: list[PartitionListing], in_log_dir: bool) -> Iterator[list[str]]:
    for listing in partitions:
        name = _named(listing.partition, in_log_dir)
        for transaction in listing.open_transactions or ():
            yield [
                name,
                str(transaction.producer_id),
                str(transaction.producer_epoch),
                str(transaction.first_offset),
                iso_time(None if transaction.last_timestamp < 0 else transaction.last_timestamp),
            ]


def _metadata_rows(partitions: list[PartitionListing], in_log_dir: bool) -> list[list[str]]:
    return [
        [
            f"{_named(listing.partition, in_log_dir)}/{printable(file.name.name)}",
            cell(file.name.offset),
            cell(file.name.epoch),
            sized(file.status.size_bytes),
        ]
        for listing in partitions
        for file in listing.partition.metadata_snapshots
    ]


def _leftover_rows(partitions: list[PartitionListing], in_log_dir: bool) -> list[list[str]]:
    rows = []
    for listing in partitions:
        partition = listing.partition
        found = [(file, file.name.state.name.lower()) for file in partition.leftovers]
        found += [(file, "orphan") for file in partition.orphans]
        where = _named(partition, in_log_dir)
        rows += [
            [f"{where}/{printable(file.name.name)}", state, sized(file.status.size_bytes)] for file, state in found
        ]
    return rows


def _remarks(listing: PartitionListing, in_log_dir: bool) -> Iterable[str]:
    """Return lines for facts that few partitions have."""
    where = _named(listing.partition, in_log_dir)
    if listing.quorum_state is not None:
        state = listing.quorum_state
        yield f"{where}: quorum state: leader {state.leader_id}, epoch {state.leader_epoch}, voted {state.voted_id}"
    if listing.partition.runs:
        yield f"{where}: kafkalog runs: {', '.join(map(printable, listing.partition.runs))}"


def _named(partition: Partition | ListedPartition, in_log_dir: bool) -> str:
    return printable(partition.directory.name if in_log_dir else partition.path)


def _size(status: FileStatus | None) -> str:
    return NOTHING if status is None else sized(status.size_bytes)


UNKNOWN = "unknown"

_SIZES = (
    TextColumn("SEGMENTS", is_number=True, rank=4),
    TextColumn("LOG", is_number=True, rank=5),
    TextColumn("INDEXES", is_number=True, rank=6),
    TextColumn("OTHER", is_number=True, rank=8),
    TextColumn("LEFTOVER", is_number=True, rank=7, is_count=True),
    TextColumn("RUNS", is_number=True, rank=7, is_count=True),
    TextColumn("SIZE", is_number=True),
    TextColumn("ALLOCATED", is_number=True),
)
_FREEABLE = (
    TextColumn("RETENTION", is_number=True, rank=2),
    TextColumn("COMPACTION", is_number=True, rank=2),
    TextColumn("FREEABLE", is_number=True),
)


class UsageText:
    """Writes the tables of partitions or topics and of log directories, the reasons, and the closing line."""

    def __init__(self, out: ResultStream, *, shows_freeable: bool) -> None:
        self._out = out
        self._shows_freeable = shows_freeable
        self._reasons: dict[str, int] = {}

    def partitions(self, rows: Sequence[tuple[PartitionListing, Usage]], *, one_log_dir: bool) -> None:
        """Write a row per partition, with its path where there are several log directories."""
        cells = [
            [printable(found.partition.directory.name if one_log_dir else found.partition.path), *self._cells(usage)]
            for found, usage in rows
        ]
        self._table([TextColumn("PARTITION"), *_SIZES], cells)

    def topics(self, rows: Sequence[TopicUsage]) -> None:
        """Write a row per topic."""
        cells = [[printable(row.topic), str(row.usage.partitions), *self._cells(row.usage)] for row in rows]
        self._table([TextColumn("TOPIC"), TextColumn("PARTITIONS", is_number=True, rank=1), *_SIZES], cells)

    def end(self, log_dirs: Mapping[str, Usage], topics: int) -> None:
        """Write a row per log directory, why something is unknown, and the sum of all."""
        cells = [[printable(path), str(usage.partitions), *self._cells(usage)] for path, usage in log_dirs.items()]
        self._out.write("\n")
        self._table([TextColumn("LOG DIRECTORY"), TextColumn("PARTITIONS", is_number=True, rank=1), *_SIZES], cells)
        self._out.write("\n")
        reasons = [f"[{number}] {printable(reason)}" for reason, number in self._reasons.items()]
        for line in (*reasons, _closing(sum(log_dirs.values(), Usage()), topics)):
            self._out.write(f"{paint_of(self._out).wrapped(line, indent='  ')}\n")

    def _table(self, columns: Sequence[TextColumn], rows: Sequence[Sequence[str]]) -> None:
        write_table(self._out, TextTable([*columns, *(_FREEABLE if self._shows_freeable else ())], rows))

    def _cells(self, usage: Usage) -> list[str]:
        sizes = usage.sizes
        indexes = sizes.index + sizes.timeindex + sizes.txnindex
        shown = (sizes.log, indexes, sizes.snapshot + sizes.other, sizes.leftover, usage.run_bytes)
        cells = [
            str(usage.segments),
            *map(_usage_size, shown),
            _usage_size(usage.size_bytes),
            _usage_size(usage.disk_bytes),
        ]
        if not self._shows_freeable:
            return cells
        found = usage.freeable or Freeable()
        parts = (found.retention_bytes, found.compaction_bytes)
        return [*cells, *(UNKNOWN if part is None else _usage_size(part) for part in parts), self._freeable(found)]

    def _freeable(self, found: Freeable) -> str:
        """Return the sum, and the numbers of the reasons for which it is not known."""
        if not found.unknown_partitions:
            return _usage_size(found.known_bytes)
        numbers = [self._reasons.setdefault(why, len(self._reasons) + 1) for why in found.unknown_because]
        shown = ",".join(map(str, numbers[:_MOST_NUMBERS])) + (",..." if len(numbers) > _MOST_NUMBERS else "")
        known = f"at least {sized(found.known_bytes)}" if found.known_bytes else UNKNOWN
        return f"{known} [{shown}]"


_MOST_NUMBERS = 3


def _usage_size(size_bytes: int) -> str:
    return sized(size_bytes) if size_bytes else "0"


def _closing(total: Usage, topics: int) -> str:
    counts = ", ".join(
        (
            counted(topics, "topic"),
            counted(total.partitions, "partition"),
            counted(total.segments, "segment"),
        )
    )
    line = f"{counts}: {sized(total.size_bytes)}, {sized(total.disk_bytes)} allocated"
    freeable = total.freeable
    if freeable is None:
        return line
    if not freeable.unknown_partitions:
        return f"{line}, {sized(freeable.known_bytes)} freeable"
    how_many = counted(freeable.unknown_partitions, "partition")
    known = f", at least {sized(freeable.known_bytes)} freeable" if freeable.known_bytes else ""
    return f"{line}{known}, freeable bytes unknown for {how_many}"
