"""Runs the verb of a session on one partition, in any thread.

The modules that change a partition are imported where a verb changes it, so that verbs that read start sooner.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from types import FrameType
from typing import Any

from kafkalog_cli.change.runs import odd_entries
from kafkalog_cli.disk.fs import WritableFilesystem
from kafkalog_cli.disk.lock import LockPolicy, lock_partition
from kafkalog_cli.disk.metered_fs import IoRate, MeteredFilesystem
from kafkalog_cli.errors import KafkalogError
from kafkalog_cli.ops.session.observer import Note, Observer
from kafkalog_cli.ops.session.verb import SharedState
from kafkalog_cli.ops.session.work import Meter, Outcome, Work, of_the_system

POLL_SECONDS = 0.1
AGAIN_SECONDS = 1.0
"""A signal repeated within this time counts once: timeout(1) sends it to its child and to the process group."""


class Interruptions:
    """Records Ctrl-C, SIGTERM and SIGHUP as a request to stop (`are_asked_for`).

    Code at a safe point checks for the request; all other code continues. Nothing is raised in the middle of a change,
    in any thread. A second signal ends the process at once, as a crash would. The files survive that too, but the
    changes that were made are not reported. Threads share this object.
    """

    def __init__(self) -> None:
        self._asked = threading.Event()

    @property
    def are_asked_for(self) -> bool:
        """Whether the run should end at the next safe point."""
        return self._asked.is_set()

    def ask(self) -> None:
        """Request that the run ends at the next safe point."""
        self._asked.set()

    def safe_point(self) -> None:
        """Raise KeyboardInterrupt if a stop was requested; call this only where no change is half done."""
        if self._asked.is_set():
            raise KeyboardInterrupt

    def sleep(self, seconds: float, sleep: Callable[[float], None] = time.sleep) -> None:
        """Sleep, and check for a request to stop every `POLL_SECONDS`. Raises KeyboardInterrupt."""
        while seconds > 0:
            self.safe_point()
            sleep(min(seconds, POLL_SECONDS))
            seconds -= POLL_SECONDS
        self.safe_point()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Record signals as requests to stop inside this context.

        Works only in the main thread, and only for signals whose default handler would end the process.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        defaults: dict[int, object] = dict.fromkeys((signal.SIGTERM, signal.SIGHUP), signal.SIG_DFL)
        defaults[signal.SIGINT] = signal.default_int_handler
        taken = {number: default for number, default in defaults.items() if signal.getsignal(number) is default}

        begun: list[float] = []

        def ask(number: int, _frame: FrameType | None) -> None:
            begun.append(time.monotonic())
            self.ask()
            if begun[-1] - begun[0] >= AGAIN_SECONDS:
                signal.signal(number, signal.SIG_DFL)
                os.kill(os.getpid(), number)

        for number in taken:
            signal.signal(number, ask)
        try:
            yield
        finally:
            for number, default in taken.items():
                signal.signal(number, default)


class Runner:
    """Runs the verb on one partition per call of `run`, in any thread. Its time starts when it is created."""

    def __init__(self, shared: SharedState, observer: Observer, interruptions: Interruptions) -> None:
        context, options = shared.context, shared.options
        self.shared = shared
        self.observer = observer
        self.interruptions = interruptions
        self.lock_policy = LockPolicy(options.wait_seconds * 1000, options.assume_offline, self._wait)
        limit = options.pace.io_bytes_per_second
        self._rate = None if limit is None else IoRate(limit, clock=context.clock, sleep=context.sleep)
        self._begun = context.clock()
        self._reported: set[Note] = set()

    @property
    def seconds(self) -> float:
        """The seconds since the runner was created."""
        return self.shared.context.clock() - self._begun

    @property
    def is_over(self) -> bool:
        """Whether no further partition may be started."""
        budget = self.shared.options.pace.time_budget_seconds
        is_late = budget is not None and self.seconds >= budget
        return is_late or self.interruptions.are_asked_for

    def unreported(self, notes: Sequence[Note]) -> list[Note]:
        """Return the notes that no earlier call had, each once: every partition brings its log directory's notes."""
        new = [note for note in dict.fromkeys(notes) if note not in self._reported]
        self._reported.update(new)
        return new

    def metered(self, meter: Callable[[str, int], None]) -> WritableFilesystem:
        """Return the filesystem with `meter` called for each read and write, at the session's rate."""
        rate, fs = self._rate, self.shared.context.fs
        if rate is None:
            return MeteredFilesystem(fs, meter)

        def keep_pace(path: str, size_bytes: int) -> None:
            rate.take(size_bytes)
            meter(path, size_bytes)

        return MeteredFilesystem(fs, keep_pace, rate.piece_bytes)

    def run(self, work: Work) -> Outcome[Any]:
        """Run the verb on one partition, and return its outcome, which is empty if no partition may be started."""
        if self.is_over:
            return Outcome(work)
        meter = Meter(work, self)
        work.bind(self, self.metered(meter) if self.shared.verb.stops_safely else self.shared.context.fs)
        try:
            return Outcome(work, work.with_next_steps(self._run(work)))
        except KafkalogError as error:
            return Outcome(work, error=error)
        except OSError as error:
            return Outcome(work, error=of_the_system(work.partition.path, error))
        except KeyboardInterrupt:
            if not self.shared.verb.stops_safely:
                raise
            self.interruptions.ask()
            return Outcome(work)
        finally:
            meter.finish()

    def _run(self, work: Work) -> Any:
        verb, request = self.shared.verb, self.shared.request
        if not verb.changes:
            return verb.run(work, request)
        for path, what in odd_entries(work.fs, work.partition.path):
            work.note("odd-entry", f"skipped: kafkalog did not make it ({what})", path)
        if not verb.is_about_runs:
            work.note_unread_run()
        self._settle_marker(work)
        with work.locked() if verb.locks_first(work.partition) else nullcontext():
            return verb.run(work, request)

    def _settle_marker(self, work: Work) -> None:
        """Restore the clean shutdown marker that an earlier run on the partition could not restore."""
        fs, partition, log_dir = work.fs, work.partition, work.log_dir
        if self.shared.only_reads or log_dir is None:
            return
        from kafkalog_cli.change.clean_marker import settled_runs
        from kafkalog_cli.ops.apply_changes import settle_marker

        if not settled_runs(fs, partition.path, partition.name, log_dir):
            return
        with lock_partition(fs, partition.path, self.lock_policy):
            told = settle_marker(fs, partition, log_dir, self.shared.clock.now_ms)
        if told is not None:
            work.note("marker", told, log_dir)

    def _wait(self, seconds: float) -> None:
        self.interruptions.sleep(seconds, self.shared.context.sleep)
