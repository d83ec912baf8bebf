"""One call of a verb: chooses partitions, and works on several at a time, with results in the partitions' order."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from kafkalog_cli import __version__
from kafkalog_cli.change.runs import new_run_id
from kafkalog_cli.disk.fs import WritableFilesystem
from kafkalog_cli.disk.lock import Held, LockPolicy, hold, lock_log_dir
from kafkalog_cli.disk.metered_fs import IoRate, MeteredFilesystem
from kafkalog_cli.disk.names import DirectoryKind
from kafkalog_cli.disk.posix_lock import lock_owner
from kafkalog_cli.errors import (
    ExitCode,
    KafkalogError,
    NoSpace,
    NothingSelected,
    UsageError,
    combined_exit_code,
    counted,
    of_the_system,
)
from kafkalog_cli.log.log_dir import LogDirs
from kafkalog_cli.log.partition import Partition, log_bytes
from kafkalog_cli.log.settings.source import SettingsSource
from kafkalog_cli.log.settings.topic_config import Setting, parse_topic_settings, read_broker_properties
from kafkalog_cli.ops.call.observer import LockWarnings, Note, Observer
from kafkalog_cli.ops.call.options import Path, Paths, VerbOptions
from kafkalog_cli.ops.call.target import Target
from kafkalog_cli.ops.map_each import Advance, AnyItem, Forks, Item, Items, Known, MapEach, Work, map_each
from kafkalog_cli.ops.option_values import Clock
from kafkalog_cli.ops.ownership import Places, places_of_partitions
from kafkalog_cli.ops.selection import in_its_log_dir, select_partitions, selection_of
from kafkalog_cli.ops.times import epoch_ms

if TYPE_CHECKING:
    from kafkalog_cli.change.manifest import RunInfo

ResultT = TypeVar("ResultT")

_NOT_OF_A_TOPIC = {
    DirectoryKind.DELETE: "marked for deletion (-delete)",
    DirectoryKind.FUTURE: "a copy that a broker was making for another log directory (-future)",
}


@dataclass(frozen=True, slots=True)
class Run(Generic[ResultT]):
    """The outcome of a verb.

    `results` are in the order of the partitions; `errors` are those of partitions that failed.

    `exit_code` is the command's. `notes` are the facts beside the results; each was a LogWarning too. `not_done` are
    the partitions that the time budget left unchanged: not started, or stopped before any change. `codes` are the exit
    codes of the partitions, `partitions` is how many were given, and `seconds` how long the call took.
    """

    exit_code: ExitCode
    results: tuple[ResultT, ...]
    errors: tuple[KafkalogError, ...] = ()
    notes: tuple[Note, ...] = ()
    not_done: tuple[str, ...] = ()
    codes: tuple[ExitCode, ...] = ()
    partitions: int = 0
    seconds: float = 0


class Outcome(NamedTuple):
    """The outcome for one path: a result, an error, or neither if the work was not started or was interrupted."""

    path: str
    result: Any = None
    error: KafkalogError | None = None
    notes: Sequence[Note] = ()


def path_texts(paths: Paths) -> list[str]:
    """Return one or several paths as a list of texts."""
    return [fspath(paths)] if isinstance(paths, str | PathLike) else [fspath(path) for path in paths]


def text_of(path: Path | None) -> str | None:
    """Return a path as text; None stays None."""
    return None if path is None else fspath(path)


class Call:
    """One call of a verb. An error ends only the work on its own partition.

    The lock of a log directory is taken before its first partition and held to the end. Partitions in a log directory
    that cannot be locked fail unchanged. A dry run, and a verb that only `reads`, lock and change nothing.
    """

    def __init__(
        self, verb: str, paths: Paths, options: VerbOptions, *, reads: bool = False, engine: MapEach = map_each
    ) -> None:
        if unknown := options.keys() - VerbOptions.__annotations__.keys():  # a misspelt dry_run would change logs
            raise TypeError(f"{verb}() got an unexpected keyword argument {min(unknown)!r}")
        observer = options.get("observer") or Observer()
        context, self.observer, self.interruptions = observer.context, observer, observer.interruptions
        self.verb, self.paths, self.context = verb, path_texts(paths), context
        self.argv = observer.argv or ("kafkalog_cli", verb, *self.paths)
        now_ms, given = context.now_ms(), options.get("now")
        if not isinstance(given, Clock):
            given_ms = epoch_ms(given, is_clock=True)
            given = Clock(now_ms if given_ms is None else given_ms, given_ms is not None)
        self.clock = given
        self.selection = selection_of(options.get("topics"), options.get("partitions"), options.get("topic_pattern"))
        self.dry_run, self.single_replica = options.get("dry_run", False), options.get("single_replica", False)
        self.only_reads = reads or self.dry_run
        self.engine = engine
        self.run_id = "" if reads else new_run_id(verb, now_ms)
        self._config = options.get("config", ())
        self._broker_config, self.metadata = text_of(options.get("broker_config")), text_of(options.get("metadata"))
        self.lock_policy = LockPolicy(
            options.get("wait_seconds", 0) * 1000, options.get("assume_offline", False), self._wait
        )
        self.jobs, self._if_offline = options.get("jobs", 1), options.get("if_offline", False)
        self._budget_seconds, limit = options.get("time_budget_seconds"), options.get("io_bytes_per_second")
        self._rate = None if limit is None else IoRate(limit, clock=context.clock, sleep=context.sleep)
        self._begun = context.clock()
        self.roots = LogDirs(context.fs)
        self.fs = self.metered(lambda _, size_bytes: None)
        self.places: Places = {}
        self.named_paths: frozenset[str] = frozenset()
        self.named_topics: frozenset[str] = frozenset()
        self._reported: set[Note] = set()
        self._codes: list[ExitCode] = []
        self._failures: list[KafkalogError] = []
        self._done: set[str] = set()
        self._locks = ExitStack()
        self._held: list[Held] = []
        self._partitions = 0
        self._has_changed = self._may_lack_room = False
        self._locked: dict[str, KafkalogError | None] = {}
        self._left_alone: dict[str, bool] = {}

    # -- what it is about

    @property
    def seconds(self) -> float:
        """The seconds since the call began."""
        return self.context.clock() - self._begun

    @property
    def is_over(self) -> bool:
        """Whether no further partition may be started."""
        budget = self._budget_seconds
        return (budget is not None and self.seconds >= budget) or self.interruptions.is_requested

    @cached_property
    def config(self) -> dict[str, str]:
        """The topic settings of the options. Raises UsageError."""
        given = self._config
        return parse_topic_settings(
            [f"{name}={value}" for name, value in given.items()] if isinstance(given, Mapping) else given
        )

    def run_info(self, settings: Sequence[Setting]) -> RunInfo:
        """Return the run's description for its manifests, with the settings that applied to a partition."""
        from kafkalog_cli.change.manifest import RunInfo

        explained = {setting.name: setting.explanation for setting in settings}
        return RunInfo(self.run_id, self.verb, self.argv, self.clock.now_ms, explained, __version__)

    def log_dir(self, path: str) -> str | None:
        """Return the log directory of a partition at `path`, None if it is in none."""
        return self.roots.path_above(path)

    def log_dirs(self, partitions: Sequence[Partition]) -> list[str]:
        """Return the log directories of the partitions, each once."""
        found = dict.fromkeys(self.log_dir(partition.path) for partition in partitions)
        return [log_dir for log_dir in found if log_dir is not None]

    def partitions(self) -> list[Partition]:
        """Return the partitions that the paths and the selection name, each once, but those that are left alone.

        Raises UsageError without paths, PathNotFound, NotKafkaLayout, NothingSelected.
        """
        if not self.paths:
            raise UsageError(reason=f"{self.verb} needs a PATH; see kafkalog {self.verb} --help")
        named = ((path, in_its_log_dir(self.fs, path)) for path in self.paths)
        self.named_paths = frozenset(path.rstrip("/") for pair in named for path in pair)
        found = select_partitions(self.fs, self.paths, self.selection, self.roots)
        return [partition for partition in found if not self.is_left_alone(self.log_dir(partition.path))]

    def is_left_alone(self, log_dir: str | None) -> bool:
        """Whether a broker is running on the log directory, and the options say that it is left alone then."""
        if not self._if_offline or log_dir is None:
            return False
        if log_dir not in self._left_alone:
            self._left_alone[log_dir] = False
            with suppress(OSError):  # the error is raised when the lock is taken
                owner = lock_owner(log_dir)
                self._left_alone[log_dir] = owner is not None and owner.is_exclusive
        return self._left_alone[log_dir]

    def writable_partitions(self) -> list[Partition]:
        """Return the partitions that may be changed.

        The metadata log, -delete and -future directories are skipped with a note, unless their own paths are given.
        Raises NothingSelected if no partition is left, and the exceptions of `partitions`.
        """
        kept = []
        for partition in self.partitions():
            kind = partition.directory.kind
            why = "the metadata log" if partition.directory.is_metadata_log else _NOT_OF_A_TOPIC.get(kind)
            if why is not None and partition.path not in self.named_paths:
                self.observer.report(Note("skipped", f"skipped: {why}", partition.path))
            else:
                kept.append(partition)
        if not kept and not any(self._left_alone.values()):
            raise NothingSelected(reason="no partition here can be changed")
        return kept

    def one_partition(self) -> list[Partition]:
        """Return the one partition that the path and the selection name. Raises UsageError if there are several."""
        found = self.writable_partitions()
        if len(found) > 1:
            names = ", ".join(partition.path.rpartition("/")[2] for partition in found[:3])
            reason = f"{self.verb} takes one partition, {self.paths[0]} has {len(found)} ({names}, ...)"
            raise UsageError(reason=f"{reason}: name one, or choose it with --topic and --partition")
        return found

    def settings(self, partitions: Sequence[Partition]) -> SettingsSource:
        """Return the settings from the options and from the metadata logs beside the partitions. Raises UsageError."""
        roots = self.roots
        if roots.settings is None:
            roots.settings = self.settings_with(self.config, self.log_dirs(partitions))
        return roots.settings

    def settings_with(self, config: Mapping[str, str], log_dirs: Sequence[str]) -> SettingsSource:
        """Return the settings from `config`, the options and the metadata logs of log directories. Raises as above."""
        fs, path = self.context.fs, self._broker_config
        broker = None if path is None else read_broker_properties(fs, path)
        return SettingsSource(fs, config, broker, metadata_path=self.metadata, log_dirs=log_dirs)

    # -- the work

    def change_each(  # noqa: PLR0913
        self,
        partitions: Sequence[Partition],
        change: Callable[[Target], ResultT],
        *,
        counts_logs: bool = True,
        stops_safely: bool = True,
        lock_too: Sequence[str] = (),
        when_locked: Callable[[str], None] = lambda _: None,
        show: Callable[[ResultT], object] | None = None,
        free: Callable[[], None] | None = None,
    ) -> Run[ResultT]:
        """Change each partition, several at a time. Results go to `show` (None: the observer), in partition order.

        `change` plans the change of one partition and applies it, in any thread, and prints nothing. It raises
        KafkalogError, and OSError from the disk. `counts_logs`: progress counts the bytes read from the logs.
        `stops_safely`: an interruption waits for a safe point; if not, Ctrl-C ends the call at once.

        `lock_too`: absolute paths of log directories that are locked without a partition. `when_locked` is called for
        each log directory while its lock is held. `free` makes room on a full disk, under the same locks, once every
        partition has a result; where there is no room for a lock file, nobody else has the lock. Raises as `settings`.
        """
        self._may_lack_room = free is not None
        self._partitions = len(partitions)
        self.settings(partitions)
        named = self.selection.topics or (p.topic for p in partitions if p.path in self.named_paths)
        self.named_topics = frozenset(named)
        if self.run_id:
            self.places = places_of_partitions(self.fs, self.log_dirs(partitions))
        if counts_logs:
            self.observer.progress.begin(self.verb, sum(map(log_bytes, partitions)))

        def attempt(partition: Partition, _: Advance) -> Outcome:
            target = Target(self, partition, counts_logs=counts_logs, stops_safely=stops_safely)
            outcome = self._attempt(partition.path, partial(target.run, change), stops_safely=stops_safely)
            return outcome._replace(notes=target.take_notes())

        with self._locks:
            self._lock_too(lock_too, when_locked)
            items = self._warned_of_locks(self._under_lock(partition, when_locked) for partition in partitions)
            jobs = min(self.jobs, len(partitions))
            with self.interruptions.watched() if stops_safely else nullcontext():
                self._take_each(map_each(items, attempt, jobs=jobs, name=f"kafkalog-{self.verb}"), show)
                if free is not None and len(self._done) == len(partitions):
                    free()
            if any(self._codes) and not self._has_changed:  # a run that failed or was refused
                for lock in self._held:
                    lock.withdraw()
        return self._end(self._not_done(partitions))

    def read_each(
        self,
        items: Items[Any, Outcome],
        work: Work[Any, Any],
        *,
        forks: Forks = Forks.NONE,
        show: Callable[[Any], object] | None = None,
    ) -> Run[Any]:
        """Read each of the `items`, which are iterated in this thread while earlier ones are worked on.

        The exit code is that of all calls. Raises the exceptions of `items`.
        """
        outcomes = self.engine(
            self._warned_of_locks(items), partial(_read, work), jobs=self.jobs, name=f"kafkalog-{self.verb}",
            advance=self.observer.progress.advance, failed=_not_read, forks=forks, fs=self.context.fs,
        )  # fmt: skip
        return self.report_each(outcomes, show)

    def report_each(
        self, outcomes: Generator[Outcome, None, None], show: Callable[[Any], object] | None = None
    ) -> Run[Any]:
        """Report each of the outcomes, which come in order. The exit code is that of all calls."""
        self._take_each(outcomes, show)
        return self._end()

    def _take_each(self, outcomes: Generator[Outcome, None, None], show: Callable[[Any], object] | None = None) -> None:
        with self.observer.progress, closing(outcomes):
            for outcome in outcomes:
                self._take(outcome, show or self.observer.show)

    def _warned_of_locks(self, items: Items[Any, Outcome]) -> Iterator[AnyItem[Any, Outcome]]:
        """Yield items until no further one may be started, and warn of locked log directories before."""
        warnings = LockWarnings(self.fs, self.observer.report)
        for item in items:
            if self.is_over:
                return
            if self.only_reads and not isinstance(item, Known) and item.paths:
                log_dir = self.log_dir(item.paths[0])
                if log_dir is not None:
                    warnings.about(log_dir)
            yield item

    def _lock_too(self, log_dirs: Sequence[str], when_locked: Callable[[str], None]) -> None:
        """Lock log directories for what the verb does then, and report errors."""
        for log_dir in () if self.only_reads else log_dirs:
            error = self._locked[log_dir] = self._lock(log_dir, when_locked)
            if error is not None:
                self._fail(error, log_dir)

    def _under_lock(
        self, partition: Partition, when_locked: Callable[[str], None]
    ) -> Item[Partition] | Known[Outcome]:  # fmt: skip
        """Lock the partition's log directory. Called in partition order, in the main thread."""
        log_dir = self.log_dir(partition.path)
        if log_dir is not None and log_dir not in self._locked and not self.only_reads and not self.is_over:
            try:
                self._locked[log_dir] = self._lock(log_dir, when_locked)
            except KeyboardInterrupt:  # while waiting for the lock
                return Known(Outcome(partition.path))
        error = None if log_dir is None else self._locked.get(log_dir)
        if error is not None:
            return Known(Outcome(partition.path, error=error))
        return Item(partition, paths=(partition.path,))

    def _lock(self, log_dir: str, when_locked: Callable[[str], None]) -> KafkalogError | None:
        """Lock the log directory. Return the error if that fails, None once it is locked."""
        try:
            self._held.append(lock_log_dir(self.fs, log_dir, self.lock_policy))
            self._locks.callback(self._held[-1].release)
            when_locked(log_dir)
        except NoSpace as error:
            if not self._may_lack_room:
                return error
            self._locks.enter_context(hold(self.fs, log_dir))
            message = "there is no room for the lock, so nobody else has it"
            self.observer.report(Note("no-lock", message, log_dir))
        except KafkalogError as error:
            return error
        except OSError as error:
            return of_the_system(log_dir, error)
        return None

    # -- one partition, in any thread

    def unreported(self, notes: Sequence[Note]) -> list[Note]:
        """Return the notes that no earlier call had, each once: every partition brings its log directory's notes."""
        new = [note for note in dict.fromkeys(notes) if note not in self._reported]
        self._reported.update(new)
        return new

    def metered(self, meter: Callable[[str, int], None]) -> WritableFilesystem:
        """Return the filesystem with `meter` called for each read and write, at the rate of the options."""
        rate, fs = self._rate, self.context.fs
        if rate is None:
            return MeteredFilesystem(fs, meter)

        def keep_pace(path: str, size_bytes: int) -> None:
            rate.take(size_bytes)
            meter(path, size_bytes)

        return MeteredFilesystem(fs, keep_pace, rate.piece_bytes)

    def _attempt(self, path: str, work: Callable[[], Any], *, stops_safely: bool) -> Outcome:
        """Do the work on one partition, and return its outcome, which is empty if no partition may be started."""
        if self.is_over:
            return Outcome(path)
        try:
            return Outcome(path, work())
        except KafkalogError as error:
            return Outcome(path, error=error)
        except OSError as error:
            return Outcome(path, error=of_the_system(path, error))
        except KeyboardInterrupt:
            if not stops_safely:
                raise
            self.interruptions.request()
            return Outcome(path)

    def _wait(self, seconds: float) -> None:
        self.interruptions.sleep(seconds, self.context.sleep)

    # -- results, in order

    def _take(self, outcome: Outcome, show: Callable[[Any], object]) -> None:
        for note in self.unreported(outcome.notes):
            self.observer.report(note)
        if outcome.error is not None:
            self._fail(outcome.error, outcome.path)
        elif outcome.result is not None:
            self._codes.append(outcome.result.exit_code)
            self._has_changed |= getattr(outcome.result, "done", outcome.result) is not None
            show(outcome.result)
        else:
            return
        self._done.add(outcome.path)

    def fail_after_result(self, error: KafkalogError, path: str, code: ExitCode) -> None:
        """Report an error of a partition that has a result with the exit code `code`, which no longer counts."""
        self._codes.remove(code)
        self._fail(error, path)

    def _fail(self, error: KafkalogError, path: str) -> None:
        """Report an error; all partitions of a log directory that cannot be locked have the same."""
        was_reported = any(failure is error for failure in self._failures)
        self._codes.append(error.exit_code)
        self._failures.append(error)
        self.observer.fail(error, path=path, was_reported=was_reported)

    def _end(self, not_done: tuple[str, ...] = ()) -> Run[Any]:
        return self.end(combined_exit_code(self._codes, is_read=not self._failures), self._codes, not_done)

    def end(self, code: ExitCode, codes: Sequence[ExitCode], not_done: tuple[str, ...] = ()) -> Run[Any]:
        """Return the outcome, with what the observer has. Raises KeyboardInterrupt after Ctrl-C, if the observer does.

        Partitions that were being changed are done then.
        """
        observer = self.observer
        if observer.raises_interrupts and self.interruptions.is_requested:
            raise KeyboardInterrupt
        found = (tuple(observer.results), tuple(observer.errors), tuple(observer.notes))
        return Run(code, *found, not_done, tuple(codes), self._partitions, self.seconds)

    def _not_done(self, partitions: Sequence[Partition]) -> tuple[str, ...]:
        left = tuple(partition.path for partition in partitions if partition.path not in self._done)
        if not left:
            return left
        self._codes += [ExitCode.INTERRUPTED] * len(left)
        is_interrupted = self.interruptions.is_requested
        kind, why = ("interrupted", "interrupted") if is_interrupted else ("time-budget", "the time budget is over")
        how_many = counted(len(left), "partition", "partitions")
        message = f"{why}: {how_many} not {'done' if is_interrupted else 'begun'}: {', '.join(left)}"
        self.observer.report(Note(kind, message, is_error=True))
        return left


def _read(work: Work[Any, Any], value: Any, advance: Advance) -> Outcome:
    return Outcome("", work(value, advance))


def _not_read(item: Item[Any], error: KafkalogError) -> Outcome:
    return Outcome(item.paths[0], error=error)
