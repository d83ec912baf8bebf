"""Many small tasks in forked processes, which share no lock of Python; results are in the order of the tasks.

A small log costs more Python than reading, so threads only take turns. A fork begins with all that this process knows:
nothing is sent to it, and it sends results back. Each group of tasks has a fork of its own.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Any, Generic, NoReturn, TypeVar, cast

from kafkalog_cli.ops.engine import InOrder, Sized

T = TypeVar("T")

GROUP_TASKS = 128
"""Tasks of one process: to fork takes as long as a few of them."""
LEAST_TASKS = 64
"""The fewest tasks for which a process is forked."""
SMALL_BYTES = 4 << 20
"""The size of a log from which threads do better: the library holds no lock of Python."""


class InForks(InOrder[T]):
    """Iterates over the results of tasks, as `InOrder`. From the first group with a large task on, threads run tasks.

    `begin` is called first in a fork, and `count` in this process for each task that a fork has done. Only tasks that
    change nothing may run so: the tasks of a fork that dies are run again in this process.
    """

    def __init__(
        self,
        tasks: Iterable[Sized[T]],
        jobs: int,
        name: str,
        begin: Callable[[], object],
        count: Callable[[Sized[T]], object],
    ) -> None:
        super().__init__(self._in_threads(), jobs, name)
        self._sized = iter(tasks)
        self._begin_fork = begin
        self._count = count
        self._groups: deque[_Group[T]] = deque()
        self._forked = self._in_forks()
        self._is_forking = True

    def stop(self) -> None:
        """See InOrder."""
        self._sized = iter(())
        super().stop()

    def __exit__(self, *raised: object) -> None:
        for group in self._groups:
            group.kill()
        super().__exit__(*raised)

    def __next__(self) -> T:
        for result in self._forked:
            return result
        return super().__next__()

    def _in_forks(self) -> Iterator[T]:
        self._fork()
        while self._groups:
            results = self._groups[0].results()
            self._groups.popleft()
            self._fork()
            yield from results

    def _fork(self) -> None:
        """Have as many forks at work as there are jobs."""
        while self._is_forking and len(self._groups) < self._jobs:
            tasks = [*islice(self._sized, GROUP_TASKS)]
            self._is_forking = len(tasks) >= LEAST_TASKS and all(map(_is_small, tasks))
            # An interrupt must not raise in the fork, and not here before the fork is known: it would not be ended.
            blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                if self._is_forking:
                    self._groups.append(_Group(tasks, self._begin_fork, self._count, blocked))
            except OSError:  # too many processes
                self._is_forking = False
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            if not self._is_forking:
                self._sized = chain(tasks, self._sized)

    def _in_threads(self) -> Iterator[Callable[[], T]]:
        for task in self._sized:
            yield task.run


def _is_small(task: Sized[Any]) -> bool:
    return task.size_bytes is None or task.size_bytes <= SMALL_BYTES


def may_fork(jobs: int) -> bool:
    """Whether forks are used for so many jobs: not beside another thread, which may hold a lock that they wait for."""
    return jobs > 1 and sys.platform == "linux" and threading.active_count() == 1


class _Group(Generic[T]):
    """Tasks that a fork runs from now on. Tasks whose results are known already are left to this process.

    SIGINT is blocked meanwhile; `blocked` has the signals that are to be blocked in the fork. Raises OSError.
    """

    def __init__(
        self,
        tasks: list[Sized[T]],
        begin: Callable[[], object],
        count: Callable[[Sized[T]], object],
        blocked: Iterable[int],
    ) -> None:
        self._tasks = tasks
        self._begin = begin
        self._count = count
        self._from, to = os.pipe()
        parent = os.getpid()
        try:
            self._pid = os.fork()
            if not self._pid:
                self._run(to, blocked, parent)
        except OSError:
            os.close(self._from)
            raise
        finally:
            os.close(to)

    def _run(self, to: int, blocked: Iterable[int], parent: int) -> NoReturn:
        """Run the tasks in the fork. It ends without a word: the process that forked it finds out.

        If that process ends, so does the fork after its present task. It must not wait for a reader that is itself.
        """
        code = 1
        try:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            os.close(self._from)
            gc.disable()  # a collection writes to all objects, whose pages are shared
            self._begin()
            sent = []
            for task in self._tasks:
                if os.getppid() != parent:
                    os._exit(code)
                sent.append(None if task.size_bytes is None else task.run())
            with os.fdopen(to, "wb") as pipe:
                pickle.dump(sent, pipe, pickle.HIGHEST_PROTOCOL)
            code = 0
        finally:
            os._exit(code)

    def results(self) -> Iterator[T]:
        """Wait for the end of the fork, and return the results."""
        with os.fdopen(self._from, "rb", closefd=False) as pipe:
            data = pipe.read()
        if self._exit_code():
            return (task.run() for task in self._tasks)
        return map(self._result, self._tasks, pickle.loads(data))

    def _result(self, task: Sized[T], sent: Any) -> T:
        if task.size_bytes is None:
            return task.run()
        self._count(task)
        return cast(T, sent)

    def kill(self) -> None:
        """End the fork now, unless it has ended."""
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            self._exit_code()

    def _exit_code(self) -> int:
        pid, self._pid = self._pid, 0
        os.close(self._from)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
