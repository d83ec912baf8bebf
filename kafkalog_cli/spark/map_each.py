"""`map_each` with tasks of Spark: the largest items first, results in order, failures as errors without Java traces."""

from __future__ import annotations

import os
import pickle
import socket
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import cache, partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from kafkalog_cli.disk.fs import Filesystem, RealFilesystem
from kafkalog_cli.errors import KafkalogError, PathNotFound
from kafkalog_cli.ops.map_each import (
    POLL_SECONDS,
    Advance,
    Failed,
    Forks,
    Item,
    Items,
    Known,
    MapEach,
    Work,
    do_not_report,
    planned,
)
from kafkalog_cli.ops.move.same_place import PartitionIdentities, PartitionIdentity
from kafkalog_cli.spark.jobs import Jobs
from kafkalog_cli.spark.sessions import Sessions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

MOST_JOBS = 256
"""The most jobs at a time; Spark starts as many tasks as it has cores, which may grow on a cluster."""


@contextmanager
def on_spark(sessions: Sessions, jobs: int = 0) -> Iterator[MapEach]:
    """Yield a `map_each` that works in tasks of Spark, `jobs` at a time (0: as many as Spark has cores).

    The session starts with the first item, and ends with the context. Spark may try a task again, and what a lost
    task has written stays: work must cope with both. Raises KafkalogError if Spark does not start.
    """
    with ExitStack() as resources:
        yield partial(_map_each, cache(lambda: resources.enter_context(sessions())), jobs or MOST_JOBS)


def _map_each(  # noqa: PLR0913
    session: Callable[[], SparkSession],
    most: int,
    items: Items[ItemT, ResultT],
    work: Work[ItemT, ResultT],
    *,
    jobs: int = 1,
    name: str = "",
    advance: Advance = do_not_report,
    failed: Failed[ItemT, ResultT] | None = None,
    forks: Forks = Forks.NONE,
    fs: Filesystem | None = None,
) -> Generator[ResultT, None, None]:
    """See `map_each`; `jobs` and `forks` are for this machine. The first item that fails ends the others.

    An item has a job of its own: if a worker dies in every attempt, only that item has failed.
    """
    del jobs, forks
    listed = [*planned(items)]
    largest_first = sorted(
        ((at, item) for at, item in enumerate(listed) if isinstance(item, Item)), key=lambda one: -one[1].size_bytes
    )
    if not largest_first:
        yield from (known.result for known in listed if isinstance(known, Known))
        return
    tasks, spark_jobs = _Tasks(fs or RealFilesystem(), work), Jobs(session(), name)
    running: dict[int, Future[ResultT]] = {}
    ended: SimpleQueue[Future[ResultT]] = SimpleQueue()

    def result(item: Item[ItemT]) -> ResultT:
        try:
            found: ResultT = _result_of(spark_jobs.run(_work_on, tasks.of(item)))
        except KafkalogError as error:
            if failed is None:
                raise
            found = failed(item, error)
        advance(item.size_bytes, next(iter(item.paths), ""))
        return found

    with ThreadPoolExecutor(min(len(largest_first), most), name) as pool:
        try:
            for at, item in largest_first:
                running[at] = pool.submit(result, item)
                running[at].add_done_callback(ended.put)
            for at, one in enumerate(listed):
                while at in running and not running[at].done():
                    with suppress(Empty):
                        ended.get(timeout=POLL_SECONDS).result()
                    advance(0)
                yield one.result if isinstance(one, Known) else running.pop(at).result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            spark_jobs.cancel()


class _Task(NamedTuple):
    """What a task gets. `cwd` is the directory that relative paths start from, None for absolute paths."""

    cwd: str | None
    work: bytes
    value: bytes
    seen: tuple[PartitionIdentity, ...]


class _Tasks:
    """Makes the tasks of items, whose partitions a worker must see as this process does."""

    def __init__(self, fs: Filesystem, work: Any) -> None:
        from pyspark import cloudpickle

        self._fs, self._pickled, self._work = fs, cloudpickle.dumps, cloudpickle.dumps((work, fs))

    def of(self, item: Item[Any]) -> _Task:
        """Return the task of an item."""
        cwd = None if all(map(os.path.isabs, item.paths)) else os.getcwd()  # noqa: PTH109
        identities = PartitionIdentities(self._fs, socket.gethostname())
        seen = tuple(map(identities.of, item.paths))
        return _Task(cwd, self._work, self._pickled(item.value), seen)


def _result_of(answer: tuple[Any, KafkalogError | None]) -> Any:
    """Return the result of a task. Raises its error, Refused if the task sees another partition."""
    result, error = answer
    if error is not None:
        raise error
    return result


def _work_on(task: _Task) -> tuple[Any, KafkalogError | None]:
    """Work on an item in a task. A KafkalogError is returned, not raised: another attempt would not help."""
    try:
        if task.cwd is not None:
            _go_to(task.cwd)
        work, fs = pickle.loads(task.work)
        identities = PartitionIdentities(fs, socket.gethostname())
        for seen in task.seen:
            identities.check(seen)
        return work(pickle.loads(task.value), do_not_report), None
    except KafkalogError as error:
        return None, error


def _go_to(cwd: str) -> None:
    try:
        os.chdir(cwd)
    except OSError as error:
        raise PathNotFound(path=cwd) from error
