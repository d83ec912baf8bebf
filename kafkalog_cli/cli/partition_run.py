"""What commands that go through partitions share: several at a time, shown in order, within limits of time and load."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from kafkalog_cli.actions.engine import THREADS, Engine, Place, log_bytes
from kafkalog_cli.actions.in_order import Sized
from kafkalog_cli.actions.refusals import Verdict
from kafkalog_cli.actions.reports.index_verdict import counted
from kafkalog_cli.actions.runs import Clock
from kafkalog_cli.actions.selection import Selection, select_partitions
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.interruptions import Interruptions
from kafkalog_cli.cli.lock_warnings import LockWarnings
from kafkalog_cli.cli.options import Pace, now_of
from kafkalog_cli.errors import ExitCode, KafkalogError, NoSpace, Unreadable, combined_exit_code
from kafkalog_cli.output.messages import Messages
from kafkalog_cli.output.ndjson import JsonLines, json_path
from kafkalog_cli.output.progress import Progress
from kafkalog_cli.output.stream import ResultStream
from kafkalog_cli.storage.changing.lock import log_dir_of
from kafkalog_cli.storage.fs import LockHandle, WritableFilesystem
from kafkalog_cli.storage.io_rate import IoRate
from kafkalog_cli.storage.metered_fs import MeteredFilesystem
from kafkalog_cli.storage.partition import Partition

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options that such commands share."""

    selection: Selection | None
    now: str | None
    quiet: bool
    json: bool
    pace: Pace = field(default=Pace(), kw_only=True)
    engine: Engine = field(default=THREADS, kw_only=True)


class Work:
    """One partition while it is in work, in a thread or task of its own. `log_dir` None: it lies in no log directory.

    `fs` is the disk through which it is to be read and changed. `lock` is the partition's, if it is held.
    """

    def __init__(self, partition: Partition, log_dir: str | None) -> None:
        self.partition = partition
        self.log_dir = log_dir
        self.fs: WritableFilesystem
        self.lock: LockHandle | None = None
        self.must_finish = False
        self.told: list[tuple[str, str, str | None]] = []
        self._printed: set[tuple[str, str, str | None]] = set()

    def __getstate__(self) -> dict[str, Any]:
        """For another process, or from it: neither locks nor a disk that is counted go along."""
        return {name: value for name, value in self.__dict__.items() if name != "fs"} | {"lock": None}

    def tell(self, kind: str, message: str, path: str | None) -> None:
        """Something for stderr, which appears once, with the partition's result."""
        if (kind, message, path) not in {*self.told, *self._printed}:
            self.told.append((kind, message, path))

    def take_told(self) -> list[tuple[str, str, str | None]]:
        """All that was told until now, to print it before the result."""
        told, self.told = self.told, []
        self._printed.update(told)
        return told

    def warn(self, verdicts: Sequence[Verdict]) -> None:
        """Tell of what the table of refusals warns of."""
        for verdict in verdicts:
            self.tell(verdict.rule.name, verdict.message, verdict.path)


@dataclass(frozen=True, slots=True)
class Outcome(Generic[ResultT]):
    """What became of one partition: a result or an error; neither if it was not begun or was broken off.

    `is_told`: what is wrong was said with another partition.
    """

    work: Work
    result: ResultT | None = None
    error: KafkalogError | None = None
    is_told: bool = False


class PartitionRun(Generic[ResultT]):
    """Goes through partitions; what fails ends only its partition.

    A command says in `partition` what is done to one, which runs in any thread and prints nothing, and in `show` what
    is said of it, which is called in the order of the partitions. After `work`, `not_done` are those that were not
    begun, or broken off before anything was changed, as the time was over or the run interrupted.
    """

    verb = "work"

    watches_logs = True
    """Whether the progress counts the bytes of the partitions' logs that are read."""

    def __init__(self, environment: Environment, options: RunOptions) -> None:
        self._options = options
        clock_ms = environment.now_ms() if options.now is None else now_of(environment, options.now)
        self._clock = Clock(clock_ms, options.now is not None)
        self._begun = environment.clock()
        self._sharers = 1
        self._codes: list[ExitCode] = []
        self._done: set[str] = set()
        self.not_done: list[Partition] = []
        self._settle(environment)

    def _settle(self, environment: Environment) -> None:
        """What belongs to one process."""
        options = self._options
        self._environment = environment
        self._out = ResultStream(environment.stdout)
        self._messages = Messages(environment.stderr, as_json=options.json)
        self._json = JsonLines(self._out) if options.json else None
        self._progress = Progress(environment.stderr, self.verb, as_json=options.json, clock=environment.clock)
        self._interruptions = Interruptions()
        limit = options.pace.io_bytes_per_second
        self._rate = (
            None if limit is None else IoRate(limit / self._sharers, clock=environment.clock, sleep=environment.sleep)
        )
        self._fs = self._metered(lambda _, size_bytes: None)

    _SETTLED = frozenset({"_out", "_messages", "_json", "_progress", "_interruptions", "_rate", "_fs"})
    """What `_settle` makes anew."""

    def __getstate__(self) -> dict[str, Any]:
        """For a task elsewhere: what is to be done, and all that is known; nobody there reads what is printed."""
        kept = {name: value for name, value in self.__dict__.items() if name not in self._SETTLED}
        return {**kept, "_environment": self._environment.elsewhere()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """See `__getstate__`."""
        self.__dict__.update(state)
        self._settle(self._environment)

    def partitions(self, paths: list[str]) -> list[Partition]:
        """What the paths and the selection name, each once. Raises PathNotFound, NotKafkaLayout, NothingSelected."""
        found = select_partitions(self._fs, paths, self._options.selection or Selection())
        return list({os.path.realpath(partition.path): partition for partition in reversed(found)}.values())[::-1]

    def work(self, partitions: Sequence[Partition]) -> ExitCode:
        """Do what is to be done to each, and show it; the exit code."""
        total_bytes = sum(map(log_bytes, partitions))
        if self.watches_logs:
            self._progress.expect(total_bytes)
        self._environment.kernels.expect(total_bytes)
        jobs = min(self._engine.at_a_time(self._options.pace.jobs), len(partitions))
        if not self._engine.is_here:
            self._sharers = jobs
        tasks = self._engine.in_order(self._tasks(partitions), jobs, f"kafkalog-{self.verb}")
        with self._interruptions.watched(), self._progress, tasks as outcomes:
            for outcome in outcomes:
                if self._is_over():
                    outcomes.stop()
                self._take(outcome)
        self._tell_not_done(partitions)
        return combined_exit_code(self._codes)

    @property
    def only_reads(self) -> bool:
        """Whether nothing is changed in what is gone through, and so nothing locked."""
        return True

    def partition(self, work: Work) -> ResultT:
        """Look at one partition and change it. Raises KafkalogError, and OSError as the disk has it."""
        raise NotImplementedError

    def show(self, result: ResultT) -> ExitCode:
        """Print what was done to one partition; its exit code."""
        raise NotImplementedError

    def summary(self, code: ExitCode, **counts: int) -> None:
        """The last line of machine output, and everything out."""
        if self._json is not None:
            not_done = [json_path(partition.path) for partition in self.not_done]
            self._json.summary(code, **counts, **({"not_done": not_done} if not_done else {}))
        self._out.flush()

    # -- one partition, in a thread

    def _task(self, work: Work) -> Sized[Outcome[ResultT]]:
        return Sized(lambda: self._outcome(work), log_bytes(work.partition))

    def _outcome(self, work: Work) -> Outcome[ResultT]:
        if self._is_over():
            return Outcome(work)
        engine, partition = self._engine, work.partition
        place = Place(self._environment.fs, partition.path, work.log_dir, not self.only_reads)
        try:
            return engine.do(self.one_done, work, place)
        except KafkalogError as error:
            return Outcome(work, error=error)
        finally:
            if not engine.is_here:
                self._progress.advance(log_bytes(partition), partition.path)

    # -- one partition, in that thread, or in another process

    def _in_work(self, work: Work) -> ResultT:
        """What is around `partition`."""
        return self.partition(work)

    def one_done(self, work: Work) -> Outcome[ResultT]:
        """What became of one partition."""
        meter = _Meter(work, self._progress, self._interruptions, watches_logs=self.watches_logs)
        work.fs = self._metered(meter)
        try:
            return Outcome(work, self._in_work(work))
        except KafkalogError as error:
            return Outcome(work, error=error)
        except OSError as error:
            return Outcome(work, error=of_the_system(work.partition.path, error))
        except KeyboardInterrupt:
            self._interruptions.ask()
            return Outcome(work)
        finally:
            meter.finish()

    def _metered(self, meter: Callable[[str, int], None]) -> WritableFilesystem:
        rate = self._rate
        if rate is None:
            return MeteredFilesystem(self._environment.fs, meter)

        def keep_pace(path: str, size_bytes: int) -> None:
            rate.take(size_bytes)
            meter(path, size_bytes)

        return MeteredFilesystem(self._environment.fs, keep_pace, rate.piece_bytes)

    # -- all partitions, in order

    @property
    def _engine(self) -> Engine:
        return self._options.engine

    def _tasks(self, partitions: Sequence[Partition]) -> Iterator[Sized[Outcome[ResultT]]]:
        """What is to be done; called for in order, as threads get free, or all before any is begun elsewhere."""
        warnings = LockWarnings(self._fs, self._messages)
        for partition in partitions:
            log_dir = log_dir_of(self._fs, partition.path)
            if log_dir is not None and self.only_reads:
                warnings.about(log_dir)
            yield self._task(Work(partition, log_dir))
        if not self._engine.is_here:
            self.learn(partitions)

    def learn(self, partitions: Sequence[Partition]) -> None:
        """Look up, before tasks elsewhere begin, what they must not find changed by each other."""

    def _take(self, outcome: Outcome[ResultT]) -> None:
        self._progress.erase()
        for kind, message, path in outcome.work.told:
            self._messages.warn(kind, message, path=path)
        if outcome.error is not None:
            self._codes.append(outcome.error.exit_code)
            if not outcome.is_told:
                self._messages.exception(outcome.error)
        elif outcome.result is not None:
            self._codes.append(self.show(outcome.result))
        else:
            return
        self._done.add(outcome.work.partition.path)

    def _tell_not_done(self, partitions: Sequence[Partition]) -> None:
        self.not_done = [partition for partition in partitions if partition.path not in self._done]
        if not self.not_done:
            return
        self._codes += [ExitCode.INTERRUPTED] * len(self.not_done)
        is_interrupted = self._interruptions.are_asked_for
        kind, why = ("interrupted", "interrupted") if is_interrupted else ("time-budget", "the time budget is over")
        how_many = counted(len(self.not_done), "partition", "partitions")
        names = ", ".join(partition.path for partition in self.not_done)
        self._messages.tell(kind, f"{why}: {how_many} not {'done' if is_interrupted else 'begun'}: {names}")

    def _is_over(self) -> bool:
        """Whether no partition may be begun any more."""
        budget = self._options.pace.time_budget_seconds
        is_late = budget is not None and self._environment.clock() - self._begun >= budget
        return is_late or self._interruptions.are_asked_for


class _Meter:
    """Counts the bytes of one partition's logs that are looked at, and stops it at a read when that is asked for.

    A log that is read once more, to be seen as it will be, is as much work again.
    """

    def __init__(self, work: Work, progress: Progress, interruptions: Interruptions, *, watches_logs: bool) -> None:
        self._work = work
        self._progress = progress
        self._interruptions = interruptions
        segments = work.partition.segments if watches_logs else ()
        self._sizes = {segment.log.path: segment.log.size_bytes for segment in segments}
        self._left = dict(self._sizes)

    def __call__(self, path: str, size_bytes: int) -> None:
        if not self._work.must_finish:
            self._interruptions.safe_point()
        left = self._left.get(path)
        if left is None or not size_bytes:
            return
        if not left:
            left = self._sizes[path]
            self._progress.expect_more(left)
        self._left[path] = left - min(left, size_bytes)
        self._progress.advance(min(left, size_bytes), path)

    def finish(self) -> None:
        """The partition is done with: what was not looked at will not be."""
        self._progress.expect_more(-sum(self._left.values()))
        self._left.clear()


def of_the_system(path: str, error: OSError) -> KafkalogError:
    """What the operating system said of `path`, or of a file that it names."""
    named = error.filename if isinstance(error.filename, str) else path
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        told: KafkalogError = NoSpace(path=named, reason="it could not be written")
    else:
        told = Unreadable(path=named, reason=error.strerror or str(error))
    told.__cause__ = error
    return told
