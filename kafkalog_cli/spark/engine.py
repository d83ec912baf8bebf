"""Reads partitions in jobs of Spark with one task each, the largest first; results are in partition order."""

from __future__ import annotations

import os
import pickle
import re
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from threading import Condition
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.errors import KafkalogError, PathNotFound
from kafkalog_cli.ops.engine import InOrder, Sized
from kafkalog_cli.ops.move.same_place import PartitionIdentities
from kafkalog_cli.spark.jobs import run_tasks
from kafkalog_cli.spark.sessions import Sessions, command_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

MOST_THREADS = 256
"""A thread per job: each waits for one task."""
POLL_SECONDS = 0.5
_LOCAL = re.compile(r"local(?:\[(?P<threads>\*|\d+)(?:,\s*\d+)?\])?")


class SparkEngine:
    """An `Engine` on Spark. The session starts with the first run that has work for it, and ends with that run.

    Each partition has a job of its own, so if a worker dies in every attempt, only its partition fails. `jobs` is the
    number of partitions at a time; 0: as many as Spark has cores, which may grow on a cluster. `sessions` starts Spark
    with this master and these settings; without it, nothing is shown meanwhile.
    """

    def __init__(
        self, master: str, settings: Mapping[str, str], jobs: int = 0, sessions: Sessions | None = None
    ) -> None:
        self._master = master
        self._settings = settings
        self._jobs = jobs
        self._sessions = sessions or partial(command_session, master, settings=settings)
        self._spark: SparkSession | None = None

    @property
    def known_slots(self) -> int | None:
        """The most partitions at a time; None if unknown before the start (on a cluster, without `jobs`)."""
        local = _LOCAL.fullmatch(self._master)
        if local is None:
            return self._jobs or None
        threads = local["threads"]
        cores = (os.cpu_count() or 1) if threads == "*" else int(threads or 1)
        return min(self._jobs or cores, cores)

    def at_a_time(self, jobs: int) -> int:
        """See Engine; `jobs` is used only if `known_slots` is None."""
        return self.known_slots or jobs

    def in_order(self, tasks: Iterable[Sized[ResultT]], jobs: int, name: str) -> InOrder[ResultT]:
        """See Engine; `jobs` counts threads in other engines and is ignored here."""
        del jobs
        return _LargestFirst(tasks, name, self)

    def elsewhere(self, work: Callable[[ItemT], ResultT], item: ItemT, fs: Filesystem, path: str) -> ResultT:
        """See Engine. Raises Refused if the task sees another directory than this process."""
        from pyspark import cloudpickle

        assert self._spark is not None
        cwd = None if os.path.isabs(path) else os.getcwd()  # noqa: PTH109, PTH117
        seen = PartitionIdentities(fs, socket.gethostname()).of(path)
        task = _Task(cwd, cloudpickle.dumps((work, item, fs, seen)))
        answer: _Answer[ResultT] = run_tasks(self._spark, [task], _in_a_task)[0]
        if answer.error is not None:
            raise answer.error
        assert answer.result is not None
        return answer.result

    @contextmanager
    def session(self) -> Iterator[None]:
        """Hold the session that `elsewhere` needs. Raises KafkalogError if Spark does not start."""
        with self._sessions() as spark:
            self._spark = spark
            try:
                yield
            finally:
                self._spark = None

    def slots(self) -> int:
        """Return the number of partitions at a time, from Spark's current cores."""
        assert self._spark is not None
        cores = max(1, int(self._spark.sparkContext.defaultParallelism))
        return min(self._jobs or cores, cores)


class _Task(NamedTuple):
    """The work of one task, pickled. `cwd`: the directory that relative paths start from; None for absolute paths."""

    cwd: str | None
    work: bytes


@dataclass(frozen=True, slots=True)
class _Answer(Generic[ResultT]):
    """The outcome of a task. A KafkalogError is returned, not raised: a retry would not help."""

    result: ResultT | None = None
    error: KafkalogError | None = None


def _in_a_task(task: _Task) -> _Answer[Any]:
    try:
        if task.cwd is not None:
            _go_to(task.cwd)
        work, item, fs, seen = pickle.loads(task.work)
        PartitionIdentities(fs, socket.gethostname()).check(seen)
        return _Answer(work(item))
    except KafkalogError as error:
        return _Answer(error=error)


def _go_to(cwd: str) -> None:
    try:
        os.chdir(cwd)
    except OSError as error:
        raise PathNotFound(path=cwd) from error


class _LargestFirst(InOrder[ResultT]):
    """Creates all tasks before starting any, to start the largest first."""

    def __init__(self, tasks: Iterable[Sized[ResultT]], name: str, engine: SparkEngine) -> None:
        super().__init__((), MOST_THREADS, name)
        self._sized: Iterable[Sized[ResultT]] | None = tasks
        self._engine = engine
        self._room = _Room(engine.slots)
        self._session = ExitStack()

    def __exit__(self, *raised: object) -> None:
        with self._session:
            super().__exit__(*raised)

    def _begin(self) -> None:
        if self._sized is None:
            return
        tasks, self._sized = list(self._sized), None
        if not tasks:
            return
        if any(task.size_bytes is not None for task in tasks):
            self._session.enter_context(self._engine.session())
        from concurrent.futures import ThreadPoolExecutor

        self._pool = ThreadPoolExecutor(min(len(tasks), self._jobs), self._name)
        by_size = sorted(range(len(tasks)), key=lambda at: -_size(tasks[at]))
        begun = {at: self._pool.submit(self._run, tasks[at]) for at in by_size}
        self._running.extend(begun[at] for at in range(len(tasks)))

    def _run(self, task: Sized[ResultT]) -> ResultT:
        if task.size_bytes is None:
            return task.run()
        with self._room.for_one():
            return task.run()


def _size(task: Sized[Any]) -> float:
    """Return the size for sorting; tasks of unknown size (None) need no Spark and run first."""
    return float("inf") if task.size_bytes is None else task.size_bytes


class _Room:
    """Limits the running tasks to `slots`; waiting tasks can still be cancelled."""

    def __init__(self, slots: Callable[[], int]) -> None:
        self._slots = slots
        self._changed = Condition()
        self._taken = 0

    @contextmanager
    def for_one(self) -> Iterator[None]:
        with self._changed:
            while self._taken >= self._slots():
                self._changed.wait(POLL_SECONDS)
            self._taken += 1
        try:
            yield
        finally:
            with self._changed:
                self._taken -= 1
                self._changed.notify()
