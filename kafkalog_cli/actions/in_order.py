"""Runs tasks in threads, some at a time, and gives their results in the order of the tasks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Generic, TypeVar

from kafkalog_cli.storage.reading.heap import keep_large_buffers_apart

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

T = TypeVar("T")

AHEAD = 2
"""Tasks that are begun or waiting for each thread: one that takes long holds up no more results than that."""


@dataclass(frozen=True, slots=True)
class Sized(Generic[T]):
    """A task, and how much it is; None: its result is known already."""

    run: Callable[[], T]
    size_bytes: int | None


class InOrder(Generic[T]):
    """Iterate in its context for the results; with one job the tasks run when their results are asked for.

    What a task raises is raised when its turn comes. An interrupt (Ctrl-C) loses no result: iteration may go on.
    """

    def __init__(self, tasks: Iterable[Callable[[], T]], jobs: int, name: str) -> None:
        self._tasks = iter(tasks)
        self._jobs = jobs
        self._name = name
        self._pool: ThreadPoolExecutor | None = None
        self._running: deque[Future[T]] = deque()

    def stop(self) -> None:
        """Begin no more tasks; the results of those that were begun still come."""
        self._tasks = iter(())
        self._running = deque(future for future in self._running if not future.cancel())

    def __enter__(self) -> InOrder[T]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        if self._jobs <= 1:
            return next(self._tasks)()
        self._begin()
        if not self._running:
            raise StopIteration
        result = self._wait(self._running[0])
        self._running.popleft()
        return result

    def _begin(self) -> None:
        if self._pool is None:
            from concurrent.futures import ThreadPoolExecutor

            keep_large_buffers_apart()
            self._pool = ThreadPoolExecutor(self._jobs, self._name)
        while len(self._running) < AHEAD * self._jobs:
            task = next(self._tasks, None)
            if task is None:
                return
            self._running.append(self._pool.submit(task))

    def _wait(self, future: Future[T]) -> T:
        """The result; a failed task is done with, an interrupt of the waiting is not its end."""
        try:
            return future.result()
        except BaseException as error:
            if future.done() and (future.cancelled() or future.exception() is error):
                self._running.popleft()
            raise
