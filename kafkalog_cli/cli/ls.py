"""`kafkalog ls`: list log directories, partition directories and files."""

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, NamedTuple

from typer import Context, Option

from kafkalog_cli.cli.environment import now_of
from kafkalog_cli.cli.exit_codes import READ
from kafkalog_cli.cli.option_groups import Topics
from kafkalog_cli.cli.options import Format, Now, OutputFormat, PathsArgument
from kafkalog_cli.cli.run import Run
from kafkalog_cli.cli.session_groups import Printing, Safety, SettingSources, session_options
from kafkalog_cli.errors import ExitCode, KafkalogError, UsageError
from kafkalog_cli.log.partition import open_partition
from kafkalog_cli.ops.choices import SortKey
from kafkalog_cli.ops.listing.listing import Freeable
from kafkalog_cli.ops.listing.paths import Lister, Listing, LogDirListing
from kafkalog_cli.ops.listing.root import LocatedFault, LogDirRoot
from kafkalog_cli.ops.listing.usage import Usage, by_log_dir, by_topic, in_order, usage_of
from kafkalog_cli.ops.selection import expand, nothing_selected
from kafkalog_cli.ops.session.observer import lock_sentence
from kafkalog_cli.output.listing import ListingText, UsageText

if TYPE_CHECKING:
    from kafkalog_cli.ops.listing.listing import PartitionListing
    from kafkalog_cli.ops.session.options import SessionOptions

EXAMPLES = (
    ("List the partitions of a log directory", "kafkalog ls /var/lib/kafka"),
    (
        "Show the topics that fill the disk, the largest first",
        "kafkalog ls /var/lib/kafka --topics --sort size",
    ),
    ("List the segments of one topic", "kafkalog ls /var/lib/kafka --topic orders --segments"),
)
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

    paths: PathsArgument = None
    topics: Topics = Topics()
    segments: Annotated[bool, Option("--segments", help="Print a row per segment, not per partition.")] = False
    transactions: Annotated[bool, Option(
        help="Look for open transactions. After an unclean stop this reads the batch headers after the newest producer"
        " snapshot.")] = True
    space: Space = Space()
    settings: SettingSources = SettingSources()
    output: Format = OutputFormat.TEXT
# fmt: on


def ls(context: Context, options: LsOptions) -> int:
    """List topics, partitions and segments, and what fills the disk.

    Only names, small files and the first and last batch headers are read. No CRC is checked.

    --topics, --sort and --freeable show what fills the disk instead, with sums per log directory and a total.
    The settings for --freeable have the same sources as those of retain and compact. Nothing is locked or changed.
    """
    run, paths = Run(context, options.output), options.paths or []
    sources = {name: context.get_parameter_source(name) for name in context.params}
    typed = {name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"}
    if options.segments and "sort" not in typed:
        options = options._replace(space=options.space._replace(sort=None))  # a configured order asks for no space
    planning = _planning(run, options, typed)
    if options.space.sort is SortKey.FREEABLE and planning is None:
        raise UsageError(reason="--sort freeable needs --freeable")
    if options.space.is_wanted and options.segments:
        raise UsageError(reason="--segments cannot be combined with --topics, --sort and --freeable")
    if not paths:
        raise UsageError(reason="ls needs a PATH; see kafkalog ls --help")
    if planning is None:  # a session has its own progress
        run.show_reads()
    return Listed(run, options, planning).print_all(paths)


_COUNTS = ("partitions", "segments", "files", "bytes", "leftovers", "open_transactions", "faults", "failures")


class Listed:
    """Lists paths in order; a failure ends only its path or partition."""

    def __init__(self, run: Run, options: LsOptions, planning: "SessionOptions | None") -> None:
        """`planning` are the options under which retention and compaction are planned, None if nothing is planned."""
        self._run, self._planning, self._selection = run, planning, options.topics.selection
        segments = self._segments = options.segments
        self._usage = UsageOfListed(run, options, planning) if options.space.is_wanted else None
        self._text = ListingText(run.out, segments=segments)
        # The tables of space have no transactions, the objects of partitions have.
        transactions = options.transactions and (self._usage is None or run.as_json)
        self._lister = Lister(run.fs, self._selection, segments=segments, transactions=transactions)
        self._counts = Counter(dict.fromkeys(_COUNTS, 0))
        self._warned: set[str] = set()

    def print_all(self, paths: Sequence[str]) -> int:
        """List the paths; return the exit code."""
        run = self._run
        for path in paths:
            try:
                for found in expand(run.fs, [path]):
                    self._path(found)
            except KafkalogError as error:
                self._fail(error)
        self._text.end()
        usage = {} if self._usage is None else self._usage.print_all(self._fail)
        if not run.codes:
            self._fail(nothing_selected(run.fs, list(paths), self._selection))
        return run.end(**self._counts, **usage)

    def _path(self, path: str) -> None:
        run = self._run
        try:
            listing = self._lister.list(path)
            self._show(listing)
        except KafkalogError as error:
            self._fail(error)
            return
        for root in listing.roots:
            self._warn_of_lock(root)
        for fault in listing.faults:
            found = fault.fault
            # Byte 0 stands also for a file that is missing, or for a directory: only JSON has it.
            position = found.position if found.position or run.as_json else None
            run.messages.damage(found, fault.path, position, is_warning=not fault.is_corruption)
        for _, failure in listing.failures:
            self._fail(failure)
        for removed in listing.removed:
            run.messages.warn("removed", "it was removed or renamed while the log directory was listed", path=removed)
        run.codes += [_code(faults) for faults in listing.faults_of_targets()]
        run.codes += [ExitCode.OK] * len(listing.files)
        self._count(listing)

    def _show(self, listing: Listing) -> None:
        if self._usage is not None:
            self._usage.listing(listing)
        elif self._run.lines is None:
            self._text.listing(listing)
        else:
            log_dir = () if listing.log_dir is None else (LogDirListing(listing.log_dir, listing.partitions),)
            rows = (*listing.files, *(() if self._segments else listing.partitions), *listing.segments, *log_dir)
            self._run.lines.results(rows)

    def _count(self, listing: Listing) -> None:
        counts, partitions = self._counts, listing.partitions
        counts["partitions"] += len(partitions)
        counts["segments"] += sum(found.partition.segments for found in partitions)
        counts["files"] += len(listing.files)
        counts["bytes"] += sum(found.bytes_by_kind.total for found in partitions)
        counts["bytes"] += sum(found.status.size_bytes for found in listing.files)
        if not partitions:  # segments given as files
            counts["segments"] += len(listing.segments)
            counts["bytes"] += sum(found.segment.log.size_bytes for found in listing.segments)
        counts["leftovers"] += sum(len(found.partition.leftovers) for found in partitions)
        counts["open_transactions"] += sum(len(found.open_transactions or ()) for found in partitions)
        counts["faults"] += len(listing.faults)

    def _warn_of_lock(self, root: LogDirRoot) -> None:
        """Warn about the lock's owner: readers take no lock."""
        owner = root.lock_owner
        if self._planning is not None and owner is not None:  # the session that plans warns of it
            return
        if root.path in self._warned or (owner is None and root.lock_problem is None):
            return
        self._warned.add(root.path)
        if owner is None:
            message = f"it is unknown whether a broker is running on it: {root.lock_problem}"
        else:
            message = lock_sentence(owner)
        self._run.messages.warn("locked", message, path=root.path)

    def _fail(self, error: KafkalogError) -> None:
        self._counts["failures"] += 1
        self._run.codes.append(error.exit_code)
        self._run.messages.exception(error)


def _code(faults: Iterable[LocatedFault]) -> ExitCode:
    severities = [fault.is_corruption for fault in faults]
    if not severities:
        return ExitCode.OK
    return ExitCode.CORRUPTION if any(severities) else ExitCode.WARNINGS


def _planning(run: Run, options: LsOptions, typed: Collection[str]) -> "SessionOptions | None":
    """Return the options of the session that plans, None without --freeable. Raises UsageError."""
    space, settings = options.space, options.settings
    if space.freeable:
        return session_options(run.environment, options.topics, Safety(space.now, dry_run=True), settings=settings)
    if space.now is not None:
        now_of(run.environment, space.now)  # a time in a wrong unit is reported first
    for name, value in {"now": space.now, **settings._asdict()}.items():
        if value and name in typed:
            raise UsageError(reason=f"--{name.replace('_', '-')} needs --freeable")
    return None


class UsageOfListed:
    """Keeps all listings, and prints what fills the disk when the last path was listed."""

    def __init__(self, run: Run, options: LsOptions, planning: "SessionOptions | None") -> None:
        self._run, self._planning, self._paths = run, planning, options.paths or []
        self._has_topics, self._sort = options.space.by_topic, options.space.sort or SortKey.BY_NAME
        self._found: dict[str, PartitionListing] = {}
        self._roots: dict[str, tuple[LogDirRoot, list[PartitionListing]]] = {}

    def listing(self, listing: Listing) -> None:
        """Add everything found under one path. A partition that was found before counts once."""
        if listing.files or listing.segments:
            raise UsageError(reason=f"{listing.path} is a file: --topics, --sort and --freeable are about partitions")
        if listing.log_dir is not None:
            self._roots.setdefault(listing.log_dir.path, (listing.log_dir, listing.partitions))
        for found in listing.partitions:
            self._found.setdefault(os.path.realpath(found.partition.path), found)

    def print_all(self, fail: Callable[[KafkalogError], None]) -> dict[str, int]:
        """Print everything; return the sums for the summary. Raises as `Session.settings`."""
        freeable = self._freeable()
        rows = []
        for found in self._found.values():
            try:
                rows.append((found, usage_of(self._run.fs, found, freeable.get(found.partition.path))))
            except KafkalogError as error:
                fail(error)
        total = self._print(rows) if rows or self._roots else Usage()
        counts = {
            "allocated_bytes": total.allocated_bytes,
            "run_bytes": total.run_bytes,
            "run_allocated_bytes": total.run_allocated_bytes,
        }
        if total.freeable is None:
            return counts
        return counts | {
            "freeable_bytes": total.freeable.known_bytes,
            "freeable_unknown_partitions": total.freeable.unknown_partitions,
        }

    def _freeable(self) -> dict[str, Freeable]:
        """Return what each partition would free, by path; note INTERRUPTED if not all partitions were planned."""
        if self._planning is None or not self._found:
            return {}
        from kafkalog_cli.cli.verbs import VerbRun
        from kafkalog_cli.ops.listing.freeable import FREEABLE, freeable_of
        from kafkalog_cli.output.views import View

        run = self._run
        output = OutputFormat.JSON if run.as_json else OutputFormat.TEXT
        # The session only reports progress and notes: its results come back as values.
        view: View[object] = View(lambda _: ())
        session = VerbRun(run.context, FREEABLE, view, self._planning, Printing(output=output)).session
        session.named_paths = frozenset(path.rstrip("/") for path in self._paths)
        partitions, removed = [], {}
        for path in (found.partition.path for found in self._found.values()):
            try:
                partitions.append(open_partition(run.fs, path))
            except KafkalogError as error:  # a broker removed it after it was listed
                removed[path] = Freeable(unknown_because=(str(error),), partitions=1, unknown_partitions=1)
        freeable, code = freeable_of(session, partitions)
        run.codes += [code] if code is ExitCode.INTERRUPTED else []
        return {**freeable, **removed}

    def _print(self, rows: "list[tuple[PartitionListing, Usage]]") -> Usage:
        run = self._run
        log_dirs = by_log_dir(rows)
        topics = by_topic(rows, self._sort)
        if run.lines is not None:
            partitions = (replace(found, usage=usage) for found, usage in in_order(rows, self._sort))
            run.lines.results(topics if self._has_topics else partitions)
            run.lines.results(LogDirListing(*one, log_dirs.get(path, Usage())) for path, one in self._roots.items())
        else:
            text = UsageText(run.out, shows_freeable=self._planning is not None)
            if self._has_topics:
                text.topics(topics)
            else:
                text.partitions(in_order(rows, self._sort), one_log_dir=len(log_dirs) == 1)
            text.end(log_dirs, len(topics))
        return sum(log_dirs.values(), Usage())
