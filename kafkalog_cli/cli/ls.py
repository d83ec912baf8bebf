"""`kafkalog ls`: list log directories, partition directories and files."""

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import starmap
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from typer import Context, Option

from kafkalog_cli.cli.exit_codes import READ
from kafkalog_cli.cli.options import Format, Now, PathsArgument, Safety, SettingSources, Topics
from kafkalog_cli.cli.reports import Reports
from kafkalog_cli.cli.run import Run
from kafkalog_cli.disk.names import DirectoryKind
from kafkalog_cli.errors import ExitCode, KafkalogError, UsageError, counted
from kafkalog_cli.log.log_dir import Shutdown
from kafkalog_cli.log.partition import PartitionFile
from kafkalog_cli.ops.choices import SortKey
from kafkalog_cli.ops.look.listing.listing import BytesByKind, Freeable, PartitionListing, SegmentListing
from kafkalog_cli.ops.look.listing.paths import Lister, Listing, LogDirListing
from kafkalog_cli.ops.look.listing.root import LocatedFault, LogDirRoot
from kafkalog_cli.ops.look.listing.usage import Usage, by_log_dir, by_topic, in_order, usage_of
from kafkalog_cli.ops.selection import expand, nothing_selected
from kafkalog_cli.output.human import NOTHING, Column, CountColumn, NumberColumn, cell, iso_time, write_table
from kafkalog_cli.output.progress import size_or_0, sized
from kafkalog_cli.output.stream import ResultStream, paint_of, printable

if TYPE_CHECKING:
    from kafkalog_cli.ops.call.options import VerbOptions

EXAMPLES = {
    "List the partitions of a log directory": "kafkalog ls /var/lib/kafka",
    "Show the topics that fill the disk, the largest first": ("kafkalog ls /var/lib/kafka --topics --sort size"),
    "List the segments of one topic": "kafkalog ls /var/lib/kafka --topic orders --segments",
}
EXIT_CODES = READ

_space_option = partial(Option, rich_help_panel="Space on the disk")


# fmt: off
class Space(NamedTuple):
    """The options of which any shows the space on the disk instead, and the time for its plans."""

    by_topic: Annotated[bool, _space_option("--topics",
        help="Show what fills the disk: a row per topic, over all log directories.")] = False
    sort: Annotated[SortKey | None, _space_option(envvar="KAFKALOG_SORT",
        help="Show what fills the disk in this order: by name, or the largest first. allocated is the space on the"
        " disk, which differs from the size of sparse files, such as preallocated indexes.")] = None
    freeable: Annotated[bool, _space_option("--freeable",
        help="Show also what retain and compact would free now. Logs that are due for compaction are"
        " read.")] = False
    now: Now = None

    @property
    def is_wanted(self) -> bool:
        """Whether the question is what fills the disk."""
        return self.by_topic or self.freeable or self.sort is not None


class LsOptions(NamedTuple):
    """The options of ls."""

    paths: PathsArgument
    topics: Topics = Topics()
    segments: Annotated[bool, Option("--segments", help="Print a row per segment, not per partition.")] = False
    transactions: Annotated[bool, Option(
        help="Look for open transactions. After an unclean stop this reads the batch headers after the newest producer"
        " snapshot.")] = True
    space: Space = Space()
    settings: SettingSources = SettingSources()
    output: Format = "text"
# fmt: on


def ls(context: Context, options: LsOptions) -> int:
    """List topics, partitions and segments, and what fills the disk.

    Only names, small files and the first and last batch headers are read. No CRC is checked.

    --topics, --sort and --freeable show what fills the disk instead, with sums per log directory and a total.
    The settings for --freeable have the same sources as those of retain and compact. Nothing is locked or changed.
    """
    run = Run(context, options.output)
    sources = {name: context.get_parameter_source(name) for name in context.params}
    typed = {name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"}
    if options.segments and "sort" not in typed:
        options = options._replace(space=options.space._replace(sort=None))  # a configured order asks for no space
    planning = _planning(run, options, typed)
    if options.space.sort is SortKey.FREEABLE and planning is None:
        raise UsageError(reason="--sort freeable needs --freeable")
    if options.space.is_wanted and options.segments:
        raise UsageError(reason="--segments cannot be combined with --topics, --sort and --freeable")
    if planning is None:  # the call of a verb has its own progress
        run.show_reads()
    return LsRun(run, options, planning).list()


def _planning(run: Run, options: LsOptions, typed: Collection[str]) -> "VerbOptions | None":
    """Return the options of the plans, None without --freeable. Raises UsageError."""
    space, settings = options.space, options.settings
    if space.freeable:
        return Reports(run).options(options.topics, Safety(space.now, dry_run=True), settings=settings)
    run.environment.clock_ms(space.now)  # a time in a wrong unit is reported first
    for name, value in {"now": space.now, **settings._asdict()}.items():
        if value and name in typed:
            raise UsageError(reason=f"--{name.replace('_', '-')} needs --freeable")
    return None


_COUNTS = ("partitions", "segments", "files", "bytes", "leftovers", "open_transactions", "faults", "failures")


class LsRun:
    """Lists paths in order; a failure ends only its path or partition.

    `planning` are the options under which retention and compaction are planned, None if nothing is planned. What fills
    the disk is printed after the last path: `_partitions` (by their real paths) and `_log_dirs` keep all listings.
    """

    def __init__(self, run: Run, options: LsOptions, planning: "VerbOptions | None") -> None:
        self._run, self._options, self._planning = run, options, planning
        self._selection, self._is_about_space = options.topics.selection, options.space.is_wanted
        self._text = ListingText(run.out, segments=options.segments)
        self._lister = Lister(run.fs, self._selection, segments=options.segments, transactions=options.transactions)
        self._counts = Counter(dict.fromkeys(_COUNTS, 0))
        self._warned: set[str] = set()
        self._partitions: dict[str, PartitionListing] = {}
        self._log_dirs: dict[str, LogDirListing] = {}

    def list(self) -> int:
        """List the paths; return the exit code. Raises as `Call.settings`."""
        run, paths = self._run, self._options.paths
        for path in paths:
            try:
                for expanded in expand(run.fs, [path]):
                    self._list(expanded)
            except KafkalogError as error:
                self._fail(error)
        self._text.end()
        if self._is_about_space:
            self._print_usage()
        if not run.codes:
            self._fail(nothing_selected(run.fs, [*paths], self._selection))
        return run.end(**self._counts)

    def _list(self, path: str) -> None:
        run = self._run
        try:
            listing = self._lister.list(path)
            self._show(listing)
        except KafkalogError as error:
            self._fail(error)
            return
        for root in listing.roots:
            self._warn_of_lock(root)
        for located in listing.faults:
            # Byte 0 stands also for a file that is missing, or for a directory: only JSON has it.
            position = located.fault.position if located.fault.position or run.as_json else None
            run.messages.damage(located.fault, located.path, position, is_warning=not located.is_corruption)
        for _, failure in listing.failures:
            self._fail(failure)
        for removed in listing.removed:
            run.messages.warn("removed", "it was removed or renamed while the log directory was listed", path=removed)
        run.codes += [_exit_code(faults) for faults in listing.faults_of_targets()]
        run.codes += [ExitCode.OK] * len(listing.files)
        self._count(listing)

    def _show(self, listing: Listing) -> None:
        log_dirs = () if listing.log_dir is None else (LogDirListing(listing.log_dir, listing.partitions),)
        if self._is_about_space:
            if listing.files or listing.segments:
                reason = f"{listing.path} is a file: --topics, --sort and --freeable are about partitions"
                raise UsageError(reason=reason)
            for log_dir in log_dirs:
                self._log_dirs.setdefault(log_dir.root.path, log_dir)
            for partition in listing.partitions:
                self._partitions.setdefault(os.path.realpath(partition.path), partition)
        elif self._run.lines is None:
            self._text.write(listing)
        else:
            partitions = () if self._options.segments else listing.partitions
            self._run.lines.results((*listing.files, *partitions, *listing.segments, *log_dirs))

    def _count(self, listing: Listing) -> None:
        counts, partitions = self._counts, listing.partitions
        counts["partitions"] += len(partitions)
        counts["segments"] += sum(partition.segments for partition in partitions)
        counts["files"] += len(listing.files)
        counts["bytes"] += sum(partition.bytes_by_kind.total for partition in partitions)
        counts["bytes"] += sum(file.status.size_bytes for file in listing.files)
        if not partitions:  # segments given as files
            counts["segments"] += len(listing.segments)
            counts["bytes"] += sum(row.segment.log.size_bytes for row in listing.segments)
        counts["leftovers"] += sum(len(partition.leftovers) for partition in partitions)
        counts["open_transactions"] += sum(len(partition.open_transactions or ()) for partition in partitions)
        counts["faults"] += len(listing.faults)

    def _warn_of_lock(self, root: LogDirRoot) -> None:
        """Warn about the lock's owner: readers take no lock. The plans of --freeable warn themselves."""
        if root.lock_owner is not None:
            if self._planning is None:
                self._run.lock_warnings.about(root.path)
        elif root.lock_problem is not None and root.path not in self._warned:
            self._warned.add(root.path)
            message = f"it is unknown whether a broker is running on it: {root.lock_problem}"
            self._run.messages.warn("locked", message, path=root.path)

    def _fail(self, error: KafkalogError) -> None:
        self._counts["failures"] += 1
        self._run.codes.append(error.exit_code)
        self._run.messages.exception(error)

    def _print_usage(self) -> None:
        """Print what fills the disk, and add its sums to the summary."""
        run, rows, freeable = self._run, [], self._plan_removals()
        for partition in self._partitions.values():
            try:
                rows.append((partition, usage_of(run.fs, partition, freeable.get(partition.path))))
            except KafkalogError as error:
                self._fail(error)
        sort = self._options.space.sort or SortKey.BY_NAME
        log_dirs, topics, partitions = by_log_dir(rows), by_topic(rows, sort), in_order(rows, sort)
        total = sum(log_dirs.values(), Usage())
        shows_topics = self._options.space.by_topic
        if run.lines is not None:
            run.lines.results(topics if shows_topics else (replace(row, usage=usage) for row, usage in partitions))
            run.lines.results(
                replace(log_dir, usage=log_dirs.get(path, Usage())) for path, log_dir in self._log_dirs.items()
            )
        elif rows or self._log_dirs:
            named = [NamedUsage(topic.topic, topic.usage) for topic in topics]
            if not shows_topics:  # by their paths if there are several log directories
                has_one = len(log_dirs) == 1
                named = [NamedUsage(row.directory.name if has_one else row.path, usage) for row, usage in partitions]
            first = (Column("TOPIC", _name), _PARTITIONS) if shows_topics else (Column("PARTITION", _name),)
            write_usage(run.out, first, named, log_dirs, shows_freeable=self._planning is not None)
            run.out.write(f"{paint_of(run.out).wrapped(_closing(total, len(topics)), indent='  ')}\n")
        self._counts["allocated_bytes"] = total.allocated_bytes
        self._counts["run_bytes"] = total.run_bytes
        self._counts["run_allocated_bytes"] = total.run_allocated_bytes
        if total.freeable is not None:
            self._counts["freeable_bytes"] = total.freeable.known_bytes
            self._counts["freeable_unknown_partitions"] = total.freeable.unknown_partitions

    def _plan_removals(self) -> dict[str, Freeable]:
        """Return what each partition would free, by path; note INTERRUPTED if not all partitions were planned."""
        if self._planning is None or not self._partitions:
            return {}
        from kafkalog_cli.ops.look.listing.freeable import freeable_of

        freeable, code = freeable_of(self._run.fs, self._options.paths, [*self._partitions.values()], self._planning)
        self._run.codes += [code] if code is ExitCode.INTERRUPTED else []
        return freeable


def _exit_code(faults: Iterable[LocatedFault]) -> ExitCode:
    severities = [fault.is_corruption for fault in faults]
    if not severities:
        return ExitCode.OK
    return ExitCode.CORRUPTION if any(severities) else ExitCode.WARNINGS


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
    Column("METADATA SNAPSHOT", lambda row: f"{row[0]}/{row[1].file.name.name}"),
    NumberColumn("END", lambda row: row[1].file.name.offset),
    NumberColumn("EPOCH", lambda row: row[1].epoch),
    NumberColumn("SIZE", lambda row: sized(row[1].file.status.size_bytes)),
)


class ListingText:
    """Writes listings one after another; partitions and files whose own paths were given share a table."""

    def __init__(self, out: ResultStream, *, segments: bool) -> None:
        self._out = out
        self._segments = segments
        self._loose = Listing("")
        self._is_first = True

    def write(self, listing: Listing) -> None:
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
        self._tables(loose)

    def _tables(self, listing: Listing) -> None:
        in_log_dir, partitions = listing.log_dir is not None, listing.partitions

        def name(row: PartitionListing | SegmentListing) -> str:
            partition = row.partition if isinstance(row, SegmentListing) else row
            return partition.directory.name if in_log_dir else partition.path

        first = Column("PARTITION", name)
        for columns, rows in (
            (_FILE_COLUMNS, listing.files),
            ((first, *_PARTITION_COLUMNS), [] if self._segments else partitions),
            ((first, *_SEGMENT_COLUMNS), listing.segments),
            (_TRANSACTION_COLUMNS, [(name(one), found) for one in partitions for found in one.open_transactions or ()]),
            (_METADATA_COLUMNS, [(name(one), found) for one in partitions for found in one.metadata_snapshots]),
            (_LEFTOVER_COLUMNS, [(name(one), *found) for one in partitions for found in _leftovers(one)]),
        ):
            if rows:
                self._section()
                write_table(self._out, columns, rows)
        lines = [f"{line}\n" for partition in partitions for line in _other_lines(partition, name(partition))]
        if lines:
            self._section()
            self._out.write("".join(lines))

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
    topics = len({listing.directory.shown_topic for listing in partitions})
    segments = sum(listing.segments for listing in partitions)
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
    directory = listing.directory
    words = []
    if directory.kind is not DirectoryKind.PARTITION:
        words.append(directory.kind.name.lower())
    if listing.is_tiered:
        words.append("tiered")
    if listing.is_v07:
        words.append("0.7")
    return ",".join(words)


def _leftovers(listing: PartitionListing) -> Iterator[tuple[PartitionFile, str]]:
    yield from ((file, file.name.state.name.lower()) for file in listing.leftovers)
    yield from ((file, "orphan") for file in listing.orphans)


def _other_lines(listing: PartitionListing, name: str) -> Iterable[str]:
    """Yield lines about what few partitions have: a quorum state, runs of kafkalog."""
    where = printable(name)
    if listing.quorum_state is not None:
        state = listing.quorum_state
        yield f"{where}: quorum state: leader {state.leader_id}, epoch {state.leader_epoch}, voted {state.voted_id}"
    if listing.runs:
        yield f"{where}: kafkalog runs: {', '.join(printable(run.name) for run in listing.runs)}"


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
_FREEABLE = (
    NumberColumn("RETENTION", lambda row: _known(_freeable_of(row).retention_bytes), 2),
    NumberColumn("COMPACTION", lambda row: _known(_freeable_of(row).compaction_bytes), 2),
)


class NamedUsage(NamedTuple):
    """A partition, a topic or a log directory, and what fills it."""

    name: str
    usage: Usage


def _name(row: NamedUsage) -> str:
    return row.name


def write_usage(
    out: ResultStream, first: Sequence[Column], rows: Sequence[NamedUsage], log_dirs: Mapping[str, Usage],
    *, shows_freeable: bool,
) -> None:  # fmt: skip
    """Write the tables of partitions or topics and of log directories, and why something is unknown."""
    columns, reasons = [*_SIZES], dict[str, int]()
    if shows_freeable:
        because = dict.fromkeys(reason for row in rows for reason in _freeable_of(row).unknown_because)
        reasons = {reason: number for number, reason in enumerate(because, 1)}
        columns += *_FREEABLE, NumberColumn("FREEABLE", lambda row: _freeable_words(_freeable_of(row), reasons))
    write_table(out, [*first, *columns], rows)
    out.write("\n")
    named = [*starmap(NamedUsage, log_dirs.items())]
    write_table(out, [Column("LOG DIRECTORY", _name), _PARTITIONS, *columns], named)
    out.write("\n")
    for reason, number in reasons.items():
        out.write(f"{paint_of(out).wrapped(f'[{number}] {printable(reason)}', indent='  ')}\n")


def _freeable_words(freeable: Freeable, reasons: Mapping[str, int]) -> str:
    """Return the sum, and the numbers of the reasons for which it is not known."""
    if not freeable.unknown_partitions:
        return size_or_0(freeable.known_bytes)
    numbers = [str(reasons[reason]) for reason in freeable.unknown_because]
    shown = ",".join(numbers[:_MOST_NUMBERS]) + (",..." if len(numbers) > _MOST_NUMBERS else "")
    known = f"at least {sized(freeable.known_bytes)}" if freeable.known_bytes else UNKNOWN
    return f"{known} [{shown}]"


def _freeable_of(row: Any) -> Freeable:
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
