"""Runs a verb on several partitions at a time, each under its lock, and reports results in the partitions' order."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from typing import Any, TypeVar

from kafkalog_cli import __version__
from kafkalog_cli.actions.engine import Place, log_bytes
from kafkalog_cli.actions.in_order import Sized
from kafkalog_cli.actions.log_request import LogRequest
from kafkalog_cli.actions.partition_facts import places_of_partitions
from kafkalog_cli.actions.refusals import Action
from kafkalog_cli.actions.reports.index_verdict import counted
from kafkalog_cli.actions.root_state import Roots
from kafkalog_cli.actions.runs import Clock
from kafkalog_cli.actions.selection import select_partitions
from kafkalog_cli.actions.session.interruptions import Interruptions
from kafkalog_cli.actions.session.lock_warnings import LockWarnings
from kafkalog_cli.actions.session.meter import Meter, of_the_system
from kafkalog_cli.actions.session.observer import Note, Observer, SilentObserver
from kafkalog_cli.actions.session.options import Context, SessionOptions
from kafkalog_cli.actions.session.verb import SharedState, Summary, Verb
from kafkalog_cli.actions.session.work import Outcome, Work
from kafkalog_cli.actions.settings import SettingsSource
from kafkalog_cli.actions.waiting_marker import settle_marker
from kafkalog_cli.errors import (
    ExitCode,
    KafkalogError,
    NothingSelected,
    UsageError,
    combined_exit_code,
)
from kafkalog_cli.storage.changing.lock import (
    LockPolicy,
    Unlocked,
    lock_log_dir,
    lock_partition,
    log_dir_of,
)
from kafkalog_cli.storage.changing.manifest import RunInfo, new_run_id, odd_entries, run_directory
from kafkalog_cli.storage.changing.waiting_runs import settled_runs
from kafkalog_cli.storage.fs import WritableFilesystem
from kafkalog_cli.storage.io_rate import IoRate
from kafkalog_cli.storage.metered_fs import MeteredFilesystem
from kafkalog_cli.storage.names import DirectoryKind
from kafkalog_cli.storage.partition import Partition, open_partition
from kafkalog_cli.storage.settings.topic_config import Setting, parse_topic_settings, read_broker_properties

LogRequestT = TypeVar("LogRequestT", bound=LogRequest)

_OF_RUNS = (Action.UNDO.value, Action.PURGE.value)
"""Verbs that are about runs, and report by themselves which of them cannot be read."""

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
        verb: Verb[Any],
        context: Context,
        options: SessionOptions,
        observer: Observer,
        *,
        interruptions: Interruptions | None = None,
        argv: tuple[str, ...] = (),
    ) -> None:
        now_ms = context.now_ms()
        clock = Clock(now_ms if options.now_ms is None else options.now_ms, options.now_ms is not None)
        run_id = new_run_id(verb.name, now_ms)
        self._settle(
            SharedState(verb, context, options, clock, run_id, argv, Roots(context.fs)), observer, interruptions
        )
        self._is_elsewhere = False

    def _settle(self, shared: SharedState, observer: Observer, interruptions: Interruptions | None) -> None:
        context, options = shared.context, shared.options
        self.shared = shared
        self.observer = observer
        self.interruptions = interruptions or Interruptions()
        self.lock_policy = LockPolicy(int(options.wait_seconds * 1000), options.assume_offline, self._wait)
        limit = options.pace.io_bytes_per_second
        self._rate = None if limit is None else IoRate(limit / shared.sharers, clock=context.clock, sleep=context.sleep)
        self.fs = self._metered(lambda _, size_bytes: None)
        self._begun = context.clock()
        self._codes: list[ExitCode] = []
        self._failed = 0
        self._done: set[str] = set()
        self._reported: set[Note] = set()
        self._locks = ExitStack()
        self._log_dirs: dict[str, KafkalogError | None] = {}

    @classmethod
    def elsewhere(cls, shared: SharedState) -> Session:
        """Return a session for a task in another process: it reports nothing."""
        session = cls.__new__(cls)
        session._settle(shared, SilentObserver(), None)
        session._is_elsewhere = True
        return session

    # -- what it is about

    @property
    def context(self) -> Context:
        """The disk, the clocks and the kernels."""
        return self.shared.context

    @property
    def options(self) -> SessionOptions:
        """The options that the caller chose."""
        return self.shared.options

    @property
    def seconds(self) -> float:
        """The seconds since the session was created."""
        return self.context.clock() - self._begun

    @property
    def only_reads(self) -> bool:
        """Whether the session changes nothing, and so locks nothing."""
        return self.options.dry_run or not self.shared.verb.changes

    def partitions(self, paths: list[str]) -> list[Partition]:
        """Return the partitions that the paths and the selection name, each once.

        Raises PathNotFound, NotKafkaLayout, NothingSelected.
        """
        self.shared.named_paths = frozenset(path.rstrip("/") for path in paths)
        found = select_partitions(self.fs, paths, self.options.selection)
        return list({os.path.realpath(partition.path): partition for partition in reversed(found)}.values())[::-1]

    def writable_partitions(self, paths: list[str]) -> list[Partition]:
        """Return the partitions that may be changed.

        The metadata log, -delete and -future directories are skipped with a note, unless their own paths are given.
        Raises UsageError without paths, NothingSelected if no partition is left, and the exceptions of `partitions`.
        """
        verb = self.shared.verb.name
        if not paths:
            raise UsageError(reason=f"{verb} needs a PATH; see kafkalog {verb} --help")
        kept = []
        for partition in self.partitions(paths):
            kind = partition.directory.kind
            why = "the metadata log" if partition.directory.is_metadata_log else _NOT_OF_A_TOPIC.get(kind)
            if why is not None and partition.path not in self.shared.named_paths:
                self.observer.report(Note("skipped", f"skipped: {why}", partition.path))
            else:
                kept.append(partition)
        if not kept:
            raise NothingSelected(reason="no partition that may be changed")
        return kept

    def one_partition(self, path: str) -> list[Partition]:
        """Return the one partition that a path and the selection name. Raises UsageError if there are several."""
        found = self.writable_partitions([path])
        if len(found) > 1:
            names = ", ".join(partition.path.rpartition("/")[2] for partition in found[:3])
            reason = f"{self.shared.verb.name} takes one partition, {path} has {len(found)} ({names}, ...)"
            raise UsageError(reason=f"{reason}: name one, or choose it with --topic and --partition")
        return found

    def settings(self, partitions: Sequence[Partition]) -> SettingsSource:
        """Return the settings from the options and from the metadata logs beside the partitions. Raises UsageError."""
        if self.shared.settings is None:
            fs, options = self.context.fs, self.options
            self.shared.settings = SettingsSource(
                fs,
                parse_topic_settings(options.config),
                {} if options.broker_config is None else read_broker_properties(fs, options.broker_config),
                metadata_path=options.metadata,
                log_dirs=list(self._log_dirs_of(partitions)),
                kernels=self.context.kernels,
            )
        return self.shared.settings

    def request(self, kind: Callable[..., LogRequestT], partitions: Sequence[Partition], **what: Any) -> LogRequestT:
        """Create a verb's request on logs, with the session's time, and the settings of these partitions."""
        now_ms = self.shared.clock.now_ms
        return kind(now_ms, self.settings(partitions), kernels=self.context.kernels, **what)

    def run_info(self, settings: Sequence[Setting]) -> RunInfo:
        """Return the run's description for its manifests, with the settings that applied to a partition."""
        shared = self.shared
        explained = {setting.name: setting.explanation for setting in settings}
        return RunInfo(shared.run_id, shared.verb.name, shared.argv, shared.clock.now_ms, explained, __version__)

    # -- the run

    def run(self, request: Any, partitions: Sequence[Partition], show: Callable[[Any], None] | None = None) -> Summary:
        """Run the verb on each partition. Results go to `show` (None: the observer), in partition order."""
        self._show = show or self.observer.show
        self._prepare(request, partitions)
        verb, engine = self.shared.verb, self.options.engine
        total_bytes = sum(map(log_bytes, partitions))
        if verb.counts_logs:
            self.observer.begin(verb.name, total_bytes)
        self.context.kernels.expect(total_bytes)
        jobs = min(engine.at_a_time(self.options.pace.jobs), len(partitions))
        if not engine.is_here:
            self.shared.sharers = jobs
            if not self.only_reads:
                self.observer.consent_to_all(verb.name, len(partitions))
        with self._locks:
            tasks = engine.in_order(self._tasks(partitions), jobs, f"kafkalog-{verb.name}")
            with self.interruptions.watched(), self.observer.working(), tasks as outcomes:
                for outcome in outcomes:
                    if self._is_over():
                        outcomes.stop()
                    self._take(outcome)
        not_done = self._not_done(partitions)
        return Summary(combined_exit_code(self._codes), tuple(self._codes), self._failed, not_done)

    def _prepare(self, request: Any, partitions: Sequence[Partition]) -> None:
        shared, chosen = self.shared, self.options.selection.topics
        shared.request = request
        shared.named_topics = frozenset(chosen or (p.topic for p in partitions if p.path in shared.named_paths))
        if shared.verb.changes:
            shared.places = places_of_partitions(self.fs, list(self._log_dirs_of(partitions)))

    def _log_dirs_of(self, partitions: Sequence[Partition]) -> dict[str, None]:
        found = (log_dir_of(self.context.fs, partition.path) for partition in partitions)
        return dict.fromkeys(log_dir for log_dir in found if log_dir is not None)

    def _tasks(self, partitions: Sequence[Partition]) -> Iterator[Sized[Outcome[Any]]]:
        """Yield a task per partition.

        Threads take them in order as they get free; an engine in other processes takes all before it starts any.
        """
        warnings = LockWarnings(self.fs, self.observer.report)
        for partition in partitions:
            log_dir = log_dir_of(self.fs, partition.path)
            if log_dir is not None and self.only_reads:
                warnings.about(log_dir)
            yield self._task(Work(partition, log_dir))
        if not self.options.engine.is_here:
            self._learn(partitions)

    def _learn(self, partitions: Sequence[Partition]) -> None:
        """Read the checkpoints and metadata of the log directories before tasks start in other processes.

        A task must not read them while another task changes them: a marker that a task has removed for a while must not
        count as an unclean shutdown.
        """
        for log_dir in self._log_dirs_of(partitions):
            self.shared.roots.checkpoints(log_dir)
            with suppress(KafkalogError, OSError):  # each partition raises the error when it is processed
                if self.shared.settings is not None:
                    self.shared.settings.metadata(log_dir)

    def _task(self, work: Work) -> Sized[Outcome[Any]]:
        """Lock the partition's log directory and return its task. Called in partition order, in the main thread."""
        path = work.log_dir
        is_new = path is not None and path not in self._log_dirs
        if path is not None and is_new and not self.only_reads and not self._is_over():
            try:
                self._log_dirs[path] = self._lock(path)
            except KeyboardInterrupt:  # while waiting for the lock
                return Sized(lambda: Outcome(work), None)
        error = None if path is None else self._log_dirs.get(path)
        if error is not None:
            return Sized(lambda: Outcome(work, error=error, is_told=not is_new), None)
        return Sized(lambda: self._outcome(work), log_bytes(work.partition))

    def _lock(self, log_dir: str) -> KafkalogError | None:
        """Lock the log directory. Return the error if that fails, None once it is locked."""
        try:
            self._locks.enter_context(lock_log_dir(self.fs, log_dir, self.lock_policy))
            if self.shared.verb.when_locked is not None:
                self.shared.verb.when_locked(self, log_dir, self.shared.request)
        except KafkalogError as error:
            return error
        except OSError as error:
            return of_the_system(log_dir, error)
        return None

    def _outcome(self, work: Work) -> Outcome[Any]:
        if self._is_over():
            return Outcome(work)
        engine, partition = self.options.engine, work.partition
        if engine.is_here:
            return self.run_one(work)
        place = Place(self.context.fs, partition.path, work.log_dir, not self.only_reads)
        try:
            return engine.do(RunElsewhere(self.shared), work, place)
        except KafkalogError as error:
            return Outcome(work, error=error)
        finally:
            self.observer.advance(log_bytes(partition), partition.path)

    # -- one partition, in a thread or in another process

    def run_one(self, work: Work) -> Outcome[Any]:
        """Run the verb on one partition, and return its outcome."""
        meter = Meter(work, self)
        work.bind(self, self._metered(meter))
        try:
            return Outcome(work, self._run_one(work))
        except KafkalogError as error:
            return Outcome(work, error=error)
        except OSError as error:
            return Outcome(work, error=of_the_system(work.partition.path, error))
        except KeyboardInterrupt:
            self.interruptions.ask()
            return Outcome(work)
        finally:
            meter.finish()

    def _run_one(self, work: Work) -> Any:
        verb, request = self.shared.verb, self.shared.request
        if not verb.changes:
            return verb.run(work, request)
        with self._log_dir_locked(work):
            for path, what in odd_entries(work.fs, work.partition.path):
                work.note("odd-entry", f"kafkalog did not make it ({what}), and leaves it alone", path)
            if verb.name not in _OF_RUNS:
                work.note_unread_run()
            self._settle_marker(work)
            with work.locked() if verb.locks_first(work.partition) else nullcontext():
                return verb.run(work, request)

    def _settle_marker(self, work: Work) -> None:
        """Restore the clean shutdown marker that an earlier run on the partition could not restore."""
        fs, partition, log_dir = work.fs, work.partition, work.log_dir
        if self.only_reads or log_dir is None or not settled_runs(fs, partition.path, partition.name, log_dir):
            return
        with lock_partition(fs, partition.path, self.lock_policy):
            told = settle_marker(fs, partition, log_dir, self.shared.clock.now_ms)
        if told is not None:
            work.note("marker", told, log_dir)

    @contextmanager
    def _log_dir_locked(self, work: Work) -> Iterator[None]:
        """In a task of another process, hold a lock of its own on the log directory.

        The task may outlive the planning process, whose lock then ends. A task that is retried opens the partition
        again, as the first attempt may have changed it, and gets a run id of its own.
        """
        if not self._is_elsewhere or self.only_reads:
            yield
            return
        shared = self.shared
        if work.fs.status(run_directory(work.partition.path, shared.run_id)) is not None:
            shared.run_id = new_run_id(shared.verb.name, self.context.now_ms())
        lock = None if work.log_dir is None else lock_log_dir(work.fs, work.log_dir, self.lock_policy)
        with lock or Unlocked():
            work.partition = open_partition(work.fs, work.partition.path)
            yield

    def _metered(self, meter: Callable[[str, int], None]) -> WritableFilesystem:
        rate = self._rate
        if rate is None:
            return MeteredFilesystem(self.context.fs, meter)

        def keep_pace(path: str, size_bytes: int) -> None:
            rate.take(size_bytes)
            meter(path, size_bytes)

        return MeteredFilesystem(self.context.fs, keep_pace, rate.piece_bytes)

    # -- results, in order

    def unreported(self, notes: Sequence[Note]) -> list[Note]:
        """Return the notes that no earlier call had, each once: every partition brings its log directory's notes."""
        new = [note for note in dict.fromkeys(notes) if note not in self._reported]
        self._reported.update(new)
        return new

    def _take(self, outcome: Outcome[Any]) -> None:
        for note in self.unreported(outcome.work.take_notes()):
            self.observer.report(note)
        if outcome.error is not None:
            self._codes.append(outcome.error.exit_code)
            self._failed += 1
            self.observer.fail(outcome.error, is_told=outcome.is_told)
        elif outcome.result is not None:
            self._codes.append(outcome.result.exit_code)
            self._show(outcome.result)
        else:
            return
        self._done.add(outcome.work.partition.path)

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

    def _is_over(self) -> bool:
        """Whether no further partition may be started."""
        budget = self.options.pace.time_budget_seconds
        is_late = budget is not None and self.seconds >= budget
        return is_late or self.interruptions.are_asked_for

    def _wait(self, seconds: float) -> None:
        self.interruptions.sleep(seconds, self.context.sleep)


class RunElsewhere:
    """`Session.run_one` for another process, to which the session's shared state is sent once."""

    def __init__(self, shared: SharedState) -> None:
        self._shared = shared

    def __eq__(self, other: object) -> bool:
        """Whether both belong to the same session."""
        return isinstance(other, RunElsewhere) and other._shared is self._shared

    def __hash__(self) -> int:
        """The identity of the shared state."""
        return id(self._shared)

    def __call__(self, work: Work) -> Outcome[Any]:
        """Run the verb in the task."""
        return Session.elsewhere(self._shared).run_one(work)
