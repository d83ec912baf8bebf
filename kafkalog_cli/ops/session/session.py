"""Runs a verb on several partitions at a time, each under its lock, and reports results in the partitions' order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from kafkalog_cli import __version__
from kafkalog_cli.change.runs import new_run_id, odd_entries
from kafkalog_cli.disk.fs import WritableFilesystem
from kafkalog_cli.disk.lock import Held, LockPolicy, lock_log_dir, lock_partition
from kafkalog_cli.disk.metered_fs import IoRate, MeteredFilesystem
from kafkalog_cli.disk.names import DirectoryKind
from kafkalog_cli.disk.posix_lock import lock_owner
from kafkalog_cli.errors import ExitCode, KafkalogError, NothingSelected, UsageError, combined_exit_code, counted
from kafkalog_cli.log.log_dir import LogDirs
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.log.settings.source import SettingsSource
from kafkalog_cli.log.settings.topic_config import Setting, parse_topic_settings, read_broker_properties
from kafkalog_cli.ops.engine import InOrder, Sized, log_bytes
from kafkalog_cli.ops.forks import Apart, InForks, may_fork
from kafkalog_cli.ops.option_values import Clock
from kafkalog_cli.ops.ownership import Places, places_of_partitions
from kafkalog_cli.ops.selection import in_its_log_dir, select_partitions
from kafkalog_cli.ops.session.interruptions import Interruptions
from kafkalog_cli.ops.session.observer import LockWarnings, Note, Observer
from kafkalog_cli.ops.session.options import Context, SessionOptions
from kafkalog_cli.ops.session.verb import Summary, Verb
from kafkalog_cli.ops.session.work import Meter, Outcome, Work, of_the_system

if TYPE_CHECKING:
    from kafkalog_cli.change.manifest import RunInfo


_NOT_OF_A_TOPIC = {
    DirectoryKind.DELETE: "marked for deletion (-delete)",
    DirectoryKind.FUTURE: "a copy that a broker was making for another log directory (-future)",
}


class Session:
    """One run of a verb on the partitions of some paths. An error ends only the work on its own partition.

    The lock of a log directory is taken before its first partition and held to the end. Partitions in a log directory
    that cannot be locked fail unchanged. A dry run locks and changes nothing.
    """

    def __init__(  # noqa: PLR0913
        self,
        verb: Verb,
        context: Context,
        options: SessionOptions,
        observer: Observer,
        *,
        interruptions: Interruptions | None = None,
        argv: tuple[str, ...] = (),
    ) -> None:
        now_ms = context.now_ms()
        self.verb, self.context, self.options, self.argv = verb, context, options, argv
        self.clock = Clock(now_ms if options.now_ms is None else options.now_ms, options.now_ms is not None)
        self.run_id = new_run_id(verb.name, now_ms) if verb.changes else ""  # its import takes 3 ms
        self.roots = LogDirs(context.fs)
        self.places: Places = {}
        self.named_paths: frozenset[str] = frozenset()
        self.named_topics: frozenset[str] = frozenset()
        self.observer = observer
        self.interruptions = interruptions or Interruptions()
        self.lock_policy = LockPolicy(options.wait_seconds * 1000, options.assume_offline, self._wait)
        limit = options.pace.io_bytes_per_second
        self._rate = None if limit is None else IoRate(limit, clock=context.clock, sleep=context.sleep)
        self._begun = context.clock()
        self._reported: set[Note] = set()
        self.when_locked: Callable[[str], None] = lambda _: None
        """Called for each log directory while its lock is held."""
        self.log_dirs_alone: tuple[str, ...] = ()
        """Absolute paths of log directories that are locked even if no partition of them is given to `run`."""
        self.fs = self._metered(lambda _, size_bytes: None)
        self._codes: list[ExitCode] = []
        self._failed = 0
        self._done: set[str] = set()
        self._locks = ExitStack()
        self._held: list[Held] = []
        self._has_changed = False
        self._locked: dict[str, KafkalogError | None] = {}
        self._left_alone: dict[str, bool] = {}

    # -- what it is about

    @property
    def only_reads(self) -> bool:
        """Whether the session changes nothing, and so locks nothing."""
        return self.options.dry_run or not self.verb.changes

    @property
    def seconds(self) -> float:
        """The seconds since the session was created."""
        return self.context.clock() - self._begun

    @property
    def is_over(self) -> bool:
        """Whether no further partition may be started."""
        budget = self.options.pace.time_budget_seconds
        return (budget is not None and self.seconds >= budget) or self.interruptions.are_asked_for

    def run_info(self, settings: Sequence[Setting]) -> RunInfo:
        """Return the run's description for its manifests, with the settings that applied to a partition."""
        from kafkalog_cli.change.manifest import RunInfo

        explained = {setting.name: setting.explanation for setting in settings}
        return RunInfo(self.run_id, self.verb.name, self.argv, self.clock.now_ms, explained, __version__)

    def log_dir(self, path: str) -> str | None:
        """Return the log directory of a partition at `path`, None if it is in none."""
        return self.roots.path_above(path)

    def log_dirs(self, partitions: Sequence[Partition]) -> list[str]:
        """Return the log directories of the partitions, each once."""
        found = dict.fromkeys(self.log_dir(partition.path) for partition in partitions)
        return [log_dir for log_dir in found if log_dir is not None]

    def partitions(self, paths: list[str]) -> list[Partition]:
        """Return the partitions that the paths and the selection name, each once, but those that are left alone.

        Raises PathNotFound, NotKafkaLayout, NothingSelected.
        """
        named = ((path, in_its_log_dir(self.fs, path)) for path in paths)
        self.named_paths = frozenset(path.rstrip("/") for pair in named for path in pair)
        found = select_partitions(self.fs, paths, self.options.selection, self.roots)
        return [one for one in found if not self.is_left_alone(self.log_dir(one.path))]

    def is_left_alone(self, log_dir: str | None) -> bool:
        """Whether a broker is running on the log directory, and the options say that it is left alone then."""
        if not self.options.if_offline or log_dir is None:
            return False
        if log_dir not in self._left_alone:
            self._left_alone[log_dir] = False
            with suppress(OSError):  # the error is raised when the lock is taken
                owner = lock_owner(log_dir)
                self._left_alone[log_dir] = owner is not None and owner.is_exclusive
        return self._left_alone[log_dir]

    def writable_partitions(self, paths: list[str]) -> list[Partition]:
        """Return the partitions that may be changed.

        The metadata log, -delete and -future directories are skipped with a note, unless their own paths are given.
        Raises UsageError without paths, NothingSelected if no partition is left, and the exceptions of `partitions`.
        """
        verb = self.verb.name
        if not paths:
            raise UsageError(reason=f"{verb} needs a PATH; see kafkalog {verb} --help")
        kept = []
        for partition in self.partitions(paths):
            kind = partition.directory.kind
            why = "the metadata log" if partition.directory.is_metadata_log else _NOT_OF_A_TOPIC.get(kind)
            if why is not None and partition.path not in self.named_paths:
                self.observer.report(Note("skipped", f"skipped: {why}", partition.path))
            else:
                kept.append(partition)
        if not kept and not any(self._left_alone.values()):
            raise NothingSelected(reason="no partition here can be changed")
        return kept

    def one_partition(self, path: str) -> list[Partition]:
        """Return the one partition that a path and the selection name. Raises UsageError if there are several."""
        found = self.writable_partitions([path])
        if len(found) > 1:
            names = ", ".join(partition.path.rpartition("/")[2] for partition in found[:3])
            reason = f"{self.verb.name} takes one partition, {path} has {len(found)} ({names}, ...)"
            raise UsageError(reason=f"{reason}: name one, or choose it with --topic and --partition")
        return found

    def settings(self, partitions: Sequence[Partition]) -> SettingsSource:
        """Return the settings from the options and from the metadata logs beside the partitions. Raises UsageError."""
        roots = self.roots
        if roots.settings is None:
            config = parse_topic_settings(self.options.config)
            roots.settings = self.settings_with(config, self.log_dirs(partitions))
        return roots.settings

    def settings_with(self, config: Mapping[str, str], log_dirs: Sequence[str]) -> SettingsSource:
        """Return the settings from `config`, the options and the metadata logs of log directories. Raises as above."""
        fs, options = self.context.fs, self.options
        broker = None if options.broker_config is None else read_broker_properties(fs, options.broker_config)
        return SettingsSource(fs, config, broker, metadata_path=options.metadata, log_dirs=log_dirs)

    # -- the run

    def run(
        self, do: Callable[[Work], Any], partitions: Sequence[Partition], show: Callable[[Any], None] | None = None
    ) -> Summary:
        """Do a verb's work on each partition. Results go to `show` (None: the observer), in partition order.

        `do` plans the change of one partition and applies it, in any thread, and prints nothing. It raises
        KafkalogError, and OSError from the disk. Raises as `settings`.
        """
        verb = self.verb
        self.settings(partitions)
        named = self.options.selection.topics or (p.topic for p in partitions if p.path in self.named_paths)
        self.named_topics = frozenset(named)
        if verb.changes:
            self.places = places_of_partitions(self.fs, self.log_dirs(partitions))
        total_bytes = sum(map(log_bytes, partitions))
        if verb.counts_logs:
            self.observer.progress.begin(verb.name, total_bytes)
        works = (Work(partition, self.log_dir(partition.path)) for partition in partitions)
        self._run(do, works, min(self.options.pace.jobs, len(partitions)), show)
        return self._summary(self._not_done(partitions))

    def run_work(
        self,
        do: Callable[[Work], Any],
        works: Iterable[Work | Outcome[Any]],
        show: Callable[[Any], None] | None = None,
        *,
        forks: bool = False,
    ) -> Summary:
        """Run a verb that planned its own work, and only reads; an Outcome is a result that is known already.

        `works` is iterated in this thread while earlier work is done. All else is as in `run`. The summary is that of
        all calls. `forks`: forks of this process may do the work on many small logs.
        """
        jobs = self.options.engine.at_a_time(self.options.pace.jobs)
        self._run(do, works, jobs, show, forks=forks and self.options.engine.elsewhere is None)
        return self._summary()

    def _run(
        self,
        do: Callable[[Work], Any],
        works: Iterable[Work | Outcome[Any]],
        jobs: int,
        show: Callable[[Any], None] | None,
        *,
        forks: bool = False,
    ) -> None:
        self._do_verb = do
        verb = self.verb
        watched = self.interruptions.watched() if verb.stops_safely else nullcontext()
        with self._locks:
            self._lock_alone()
            named = f"kafkalog-{verb.name}"
            tasks: InOrder[Outcome[Any]]
            if forks and may_fork(jobs):
                apart = Apart(self._begin_fork, _packed, self._taken)
                tasks = InForks(self._tasks(works), jobs, named, apart)
            else:
                tasks = self.options.engine.in_order(self._tasks(works), jobs, named)
            with watched, self.observer.progress, tasks as outcomes:
                for outcome in outcomes:
                    if self.is_over:
                        outcomes.stop()
                    self._take(outcome, show or self.observer.show)
            if any(self._codes) and not self._has_changed:  # a run that failed or was refused
                for lock in self._held:
                    lock.withdraw()

    def _tasks(self, works: Iterable[Work | Outcome[Any]]) -> Iterator[Sized[Outcome[Any]]]:
        """Yield a task per work. Threads take them in order as they get free; Spark takes all before it starts any."""
        warnings = LockWarnings(self.fs, self.observer.report)
        for work in works:
            if isinstance(work, Outcome):
                yield _known(work)
                continue
            log_dir = self.log_dir(work.partition.path)
            if log_dir is not None and self.only_reads:
                warnings.about(log_dir)
            yield self._task(work)

    def _lock_alone(self) -> None:
        """Lock the directories of `log_dirs_alone`, for what the verb does then, and report errors."""
        for log_dir in () if self.only_reads else self.log_dirs_alone:
            error = self._locked[log_dir] = self._lock(log_dir)
            if error is not None:
                self._codes.append(error.exit_code)
                self._failed += 1
                self.observer.fail(error, path=log_dir, is_told=False)

    def _task(self, work: Work) -> Sized[Outcome[Any]]:
        """Lock the partition's log directory and return its task. Called in partition order, in the main thread."""
        path = work.log_dir
        is_new = path is not None and path not in self._locked
        if path is not None and is_new and not self.only_reads and not self.is_over:
            try:
                self._locked[path] = self._lock(path)
            except KeyboardInterrupt:  # while waiting for the lock
                return _known(Outcome(work))
        error = None if path is None else self._locked.get(path)
        if error is not None:
            return _known(Outcome(work, error=error, is_told=not is_new))
        return Sized(partial(self._do, work), work.size_bytes, work)

    def _lock(self, log_dir: str) -> KafkalogError | None:
        """Lock the log directory. Return the error if that fails, None once it is locked."""
        try:
            self._held.append(lock_log_dir(self.fs, log_dir, self.lock_policy))
            self._locks.callback(self._held[-1].release)
            self.when_locked(log_dir)
        except KafkalogError as error:
            return error
        except OSError as error:
            return of_the_system(log_dir, error)
        return None

    def _begin_fork(self) -> None:
        """Report nothing from this fork: the process that it was forked from does."""
        self.observer = Observer()

    def _taken(self, task: Sized[Outcome[Any]], packed: tuple[Any, KafkalogError | None]) -> Outcome[Any]:
        """Return the outcome of work that a fork has done."""
        work: Work = task.about
        self.observer.progress.advance(work.size_bytes, work.partition.path)
        return Outcome(work, *packed)

    # -- one partition, in any thread

    def unreported(self, notes: Sequence[Note]) -> list[Note]:
        """Return the notes that no earlier call had, each once: every partition brings its log directory's notes."""
        new = [note for note in dict.fromkeys(notes) if note not in self._reported]
        self._reported.update(new)
        return new

    def _metered(self, meter: Callable[[str, int], None]) -> WritableFilesystem:
        """Return the filesystem with `meter` called for each read and write, at the session's rate."""
        rate, fs = self._rate, self.context.fs
        if rate is None:
            return MeteredFilesystem(fs, meter)

        def keep_pace(path: str, size_bytes: int) -> None:
            rate.take(size_bytes)
            meter(path, size_bytes)

        return MeteredFilesystem(fs, keep_pace, rate.piece_bytes)

    def _do(self, work: Work) -> Outcome[Any]:
        """Run the verb on one partition, and return its outcome, which is empty if no partition may be started."""
        if self.is_over:
            return Outcome(work)
        meter = Meter(work, self)
        work.bind(self, self._metered(meter) if self.verb.stops_safely else self.context.fs)
        try:
            return Outcome(work, work.with_next_steps(self._run_verb(work)))
        except KafkalogError as error:
            return Outcome(work, error=error)
        except OSError as error:
            return Outcome(work, error=of_the_system(work.partition.path, error))
        except KeyboardInterrupt:
            if not self.verb.stops_safely:
                raise
            self.interruptions.ask()
            return Outcome(work)
        finally:
            meter.finish()

    def _run_verb(self, work: Work) -> Any:
        verb, do = self.verb, self._do_verb
        if not verb.changes:
            return do(work)
        for path, what in odd_entries(work.fs, work.partition.path):
            work.note("odd-entry", f"skipped: kafkalog did not make it ({what})", path)
        if not verb.is_about_runs:
            work.note_unread_run()
        self._settle_marker(work)
        with work.locked() if verb.locks_first(work.partition) else nullcontext():
            return do(work)

    def _settle_marker(self, work: Work) -> None:
        """Restore the clean shutdown marker that an earlier run on the partition could not restore."""
        fs, partition, log_dir = work.fs, work.partition, work.log_dir
        if self.only_reads or log_dir is None:
            return
        from kafkalog_cli.change.clean_marker import settled_runs
        from kafkalog_cli.ops.apply_changes import settle_marker

        if not settled_runs(fs, partition.path, partition.name, log_dir):
            return
        with lock_partition(fs, partition.path, self.lock_policy):
            told = settle_marker(fs, partition, log_dir, self.clock.now_ms)
        if told is not None:
            work.note("marker", told, log_dir)

    def _wait(self, seconds: float) -> None:
        self.interruptions.sleep(seconds, self.context.sleep)

    # -- results, in order

    def _take(self, outcome: Outcome[Any], show: Callable[[Any], None]) -> None:
        for note in self.unreported(outcome.work.take_notes()):
            self.observer.report(note)
        if outcome.error is not None:
            self._codes.append(outcome.error.exit_code)
            self._failed += 1
            self.observer.fail(outcome.error, path=outcome.work.partition.path, is_told=outcome.is_told)
        elif outcome.result is not None:
            self._codes.append(outcome.result.exit_code)
            self._has_changed |= getattr(outcome.result, "done", outcome.result) is not None
            show(outcome.result)
        else:
            return
        self._done.add(outcome.work.partition.path)

    def _summary(self, not_done: tuple[Partition, ...] = ()) -> Summary:
        code = combined_exit_code(self._codes, is_read=not self._failed)
        return Summary(code, tuple(self._codes), self._failed, not_done)

    def _not_done(self, partitions: Sequence[Partition]) -> tuple[Partition, ...]:
        left = tuple(partition for partition in partitions if partition.path not in self._done)
        if not left:
            return left
        self._codes += [ExitCode.INTERRUPTED] * len(left)
        is_interrupted = self.interruptions.are_asked_for
        kind, why = ("interrupted", "interrupted") if is_interrupted else ("time-budget", "the time budget is over")
        how_many = counted(len(left), "partition", "partitions")
        names = ", ".join(partition.path for partition in left)
        message = f"{why}: {how_many} not {'done' if is_interrupted else 'begun'}: {names}"
        self.observer.report(Note(kind, message, is_error=True))
        return left


def _packed(outcome: Outcome[Any]) -> tuple[Any, KafkalogError | None]:
    """Return an outcome without its work, which the planning process has. A verb that only reads has no notes."""
    return outcome.result, outcome.error


def _known(outcome: Outcome[Any]) -> Sized[Outcome[Any]]:
    return Sized(lambda: outcome, None)
