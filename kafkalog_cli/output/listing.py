"""The text output of ls: a log directory in words, a table with a row per partition or segment, then details.

`ls --topics`, `--sort` and `--freeable` print what fills the disk, in units such as MiB.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import starmap
from typing import Any, NamedTuple

from kafkalog_cli.disk.names import DirectoryKind
from kafkalog_cli.errors import counted
from kafkalog_cli.log.log_dir import Shutdown
from kafkalog_cli.log.partition import PartitionFile
from kafkalog_cli.ops.listing.listing import BytesByKind, Freeable, PartitionListing, SegmentListing
from kafkalog_cli.ops.listing.paths import Listing
from kafkalog_cli.ops.listing.root import LogDirRoot
from kafkalog_cli.ops.listing.usage import TopicUsage, Usage
from kafkalog_cli.output.human import NOTHING, Column, CountColumn, NumberColumn, cell, iso_time, write_table
from kafkalog_cli.output.progress import size_or_0, sized
from kafkalog_cli.output.stream import ResultStream, paint_of, printable

_PARTITION_COLUMNS = (
    Column("STATE", lambda row: _state(row) or None, 1),
    NumberColumn("SEGMENTS", lambda row: row.segments, 7),
    NumberColumn("LOG", lambda row: sized(row.bytes_by_kind.log)),
    NumberColumn("INDEXES", lambda row: sized(row.bytes_by_kind.indexes), 12),
    NumberColumn("OTHER", lambda row: sized(row.bytes_by_kind.snapshot + row.bytes_by_kind.other), 13),
    CountColumn("LEFTOVER", lambda row: size_or_0(row.bytes_by_kind.leftover), 4),
    NumberColumn("START", lambda row: row.log_start_offset, 1),
    NumberColumn("END", lambda row: row.log_end_offset),
    NumberColumn("WATERMARK", lambda row: "end" if row.checkpoints.high_watermark is None else row.high_watermark, 5),
    NumberColumn("RECOVERY", lambda row: row.checkpoints.recovery_point, 8),
    NumberColumn("CLEANER", lambda row: row.checkpoints.cleaner, 6),
    NumberColumn("EPOCH", lambda row: row.leader_epochs[-1].epoch if row.leader_epochs else None, 9),
    CountColumn("TXNS", lambda row: "?" if row.open_transactions is None else len(row.open_transactions), 3),
    Column("FROM", lambda row: iso_time(row.first_timestamp), 11),
    Column("TO", lambda row: iso_time(row.max_timestamp), 10),
    CountColumn("FAULTS", lambda row: len(row.faults), 2),
)

_SEGMENT_COLUMNS = (
    NumberColumn("BASE", lambda row: row.base_offset),
    Column("FORMAT", lambda row: row.format, 3),
    NumberColumn("LOG", lambda row: sized(row.sizes.log)),
    NumberColumn("INDEX", lambda row: _size(row.sizes.index), 5),
    NumberColumn("TIMEINDEX", lambda row: _size(row.sizes.timeindex), 6),
    NumberColumn("TXNINDEX", lambda row: _size(row.sizes.txnindex), 7),
    NumberColumn("FIRST", lambda row: row.first_offset, 4),
    NumberColumn("NEXT", lambda row: row.next_offset),
    Column("FROM", lambda row: iso_time(row.first_timestamp), 9),
    Column("TO", lambda row: iso_time(row.max_timestamp), 8),
    CountColumn("FAULTS", lambda row: len(row.faults), 1),
)

_UNCLEAN = f"{Shutdown.UNCLEAN.value} shutdown"

_FILE_COLUMNS = (
    Column("FILE", lambda row: row.path),
    Column("KIND", lambda row: row.kind.name.lower().replace("_", " ")),
    Column("STATE", lambda row: row.state.name.lower().replace("_", " ")),
    NumberColumn("SIZE", lambda row: sized(row.size_bytes)),
)
# The rows of these tables are pairs of the partition's name and a file or a transaction.
_LEFTOVER_COLUMNS = (
    Column("LEFTOVER", lambda row: f"{row[0]}/{row[1].name.name}"),
    Column("STATE", lambda row: row[2]),
    NumberColumn("SIZE", lambda row: sized(row[1].status.size_bytes)),
)
_TRANSACTION_COLUMNS = (
    Column("OPEN TRANSACTION IN", lambda row: row[0]),
    NumberColumn("PRODUCER", lambda row: row[1].producer_id),
    NumberColumn("EPOCH", lambda row: row[1].producer_epoch, 2),
    NumberColumn("FIRST OFFSET", lambda row: row[1].first_offset, 1),
    Column("LAST WRITE", lambda row: iso_time(row[1].last_timestamp) if row[1].last_timestamp >= 0 else None, 3),
)
_METADATA_COLUMNS = (
    Column("METADATA SNAPSHOT", lambda row: f"{row[0]}/{row[1].name.name}"),
    NumberColumn("END", lambda row: row[1].name.offset),
    NumberColumn("EPOCH", lambda row: row[1].name.epoch),
    NumberColumn("SIZE", lambda row: sized(row[1].status.size_bytes)),
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
        in_log_dir, partitions = listing.log_dir is not None, listing.partitions

        def name(one: PartitionListing | SegmentListing) -> str:
            return one.partition.directory.name if in_log_dir else one.partition.path

        first = Column("PARTITION", name)
        self._table(_FILE_COLUMNS, listing.files)
        self._table((first, *_PARTITION_COLUMNS), [] if self._segments else partitions)
        self._table((first, *_SEGMENT_COLUMNS), listing.segments)
        transactions = [(name(one), found) for one in partitions for found in one.open_transactions or ()]
        self._table(_TRANSACTION_COLUMNS, transactions)
        snapshots = [(name(one), file) for one in partitions for file in one.partition.metadata_snapshots]
        self._table(_METADATA_COLUMNS, snapshots)
        leftovers = [(name(one), *found) for one in partitions for found in _leftovers(one)]
        self._table(_LEFTOVER_COLUMNS, leftovers)
        lines = [line for found in listing.partitions for line in _remarks(found, name(found))]
        if lines:
            self._section()
            self._out.write("".join(f"{line}\n" for line in lines))

    def _table(self, columns: Sequence[Column], rows: Sequence[Any]) -> None:
        if rows:
            self._section()
            write_table(self._out, columns, rows)

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


def _state(listing: PartitionListing) -> str:
    directory = listing.partition.directory
    words = []
    if directory.kind is not DirectoryKind.PARTITION:
        words.append(directory.kind.name.lower())
    if listing.is_tiered:
        words.append("tiered")
    if listing.partition.is_seven:
        words.append("0.7")
    return ",".join(words)


def _leftovers(listing: PartitionListing) -> Iterator[tuple[PartitionFile, str]]:
    yield from ((file, file.name.state.name.lower()) for file in listing.leftovers)
    yield from ((file, "orphan") for file in listing.orphans)


def _remarks(listing: PartitionListing, name: str) -> Iterable[str]:
    """Return lines for facts that few partitions have."""
    where = printable(name)
    if listing.quorum_state is not None:
        state = listing.quorum_state
        yield f"{where}: quorum state: leader {state.leader_id}, epoch {state.leader_epoch}, voted {state.voted_id}"
    if listing.partition.runs:
        yield f"{where}: kafkalog runs: {', '.join(map(printable, listing.partition.runs))}"


def _size(size_bytes: int | None) -> str | None:
    return None if size_bytes is None else sized(size_bytes)


UNKNOWN = "unknown"

_SIZES = (
    NumberColumn("SEGMENTS", lambda row: row.usage.segments, 4),
    NumberColumn("LOG", lambda row: size_or_0(row.usage.sizes.log), 5),
    NumberColumn("INDEXES", lambda row: size_or_0(row.usage.sizes.indexes), 6),
    NumberColumn("OTHER", lambda row: size_or_0(row.usage.sizes.snapshot + row.usage.sizes.other), 8),
    CountColumn("LEFTOVER", lambda row: size_or_0(row.usage.sizes.leftover), 7),
    CountColumn("RUNS", lambda row: size_or_0(row.usage.run_bytes), 7),
    NumberColumn("SIZE", lambda row: size_or_0(row.usage.size_bytes)),
    NumberColumn("ALLOCATED", lambda row: size_or_0(row.usage.disk_bytes)),
)
_PARTITIONS = NumberColumn("PARTITIONS", lambda row: row.usage.partitions, 1)


class _Row(NamedTuple):
    """A partition or a log directory, and what fills it."""

    name: str
    usage: Usage


class UsageText:
    """Writes the tables of partitions or topics and of log directories, the reasons, and the closing line."""

    def __init__(self, out: ResultStream, *, shows_freeable: bool) -> None:
        self._out = out
        self._shows_freeable = shows_freeable
        self._reasons: dict[str, int] = {}

    def partitions(self, rows: Sequence[tuple[PartitionListing, Usage]], *, one_log_dir: bool) -> None:
        """Write a row per partition, with its path where there are several log directories."""
        named = [_Row(one.partition.directory.name if one_log_dir else one.path, usage) for one, usage in rows]
        self._table([Column("PARTITION", lambda row: row.name), *_SIZES], named)

    def topics(self, rows: Sequence[TopicUsage]) -> None:
        """Write a row per topic."""
        self._table([Column("TOPIC", lambda row: row.topic), _PARTITIONS, *_SIZES], rows)

    def end(self, log_dirs: Mapping[str, Usage], topics: int) -> None:
        """Write a row per log directory, why something is unknown, and the sum of all."""
        self._out.write("\n")
        columns = [Column("LOG DIRECTORY", lambda row: row.name), _PARTITIONS, *_SIZES]
        self._table(columns, [*starmap(_Row, log_dirs.items())])
        self._out.write("\n")
        reasons = [f"[{number}] {printable(reason)}" for reason, number in self._reasons.items()]
        for line in (*reasons, _closing(sum(log_dirs.values(), Usage()), topics)):
            self._out.write(f"{paint_of(self._out).wrapped(line, indent='  ')}\n")

    def _table(self, columns: Sequence[Column], rows: Sequence[Any]) -> None:
        freeable = (
            NumberColumn("RETENTION", lambda row: _known(_freeable(row).retention_bytes), 2),
            NumberColumn("COMPACTION", lambda row: _known(_freeable(row).compaction_bytes), 2),
            NumberColumn("FREEABLE", lambda row: self._sum(_freeable(row))),
        )
        write_table(self._out, [*columns, *(freeable if self._shows_freeable else ())], rows)

    def _sum(self, found: Freeable) -> str:
        """Return the sum, and the numbers of the reasons for which it is not known."""
        if not found.unknown_partitions:
            return size_or_0(found.known_bytes)
        numbers = [self._reasons.setdefault(why, len(self._reasons) + 1) for why in found.unknown_because]
        shown = ",".join(map(str, numbers[:_MOST_NUMBERS])) + (",..." if len(numbers) > _MOST_NUMBERS else "")
        known = f"at least {sized(found.known_bytes)}" if found.known_bytes else UNKNOWN
        return f"{known} [{shown}]"


def _freeable(row: Any) -> Freeable:
    return row.usage.freeable or Freeable()


def _known(size_bytes: int | None) -> str:
    return UNKNOWN if size_bytes is None else size_or_0(size_bytes)


_MOST_NUMBERS = 3


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
