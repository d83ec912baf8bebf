"""What commands that change partitions share: each log directory under its lock, one exit code a partition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import groupby

from kafkalog_cli.actions.partition_facts import Places, places_of_partitions
from kafkalog_cli.actions.refusals import Verdict
from kafkalog_cli.actions.runs import Clock
from kafkalog_cli.actions.selection import Selection, select_partitions
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.options import time_of
from kafkalog_cli.errors import ExitCode, KafkalogError, combined_exit_code
from kafkalog_cli.output.messages import Messages
from kafkalog_cli.output.ndjson import JsonLines
from kafkalog_cli.output.stream import ResultStream
from kafkalog_cli.storage.fs import LockHandle
from kafkalog_cli.storage.lock import LockPolicy, lock_log_dir, lock_partition, log_dir_of
from kafkalog_cli.storage.partition import Partition


@dataclass(frozen=True, slots=True)
class WriterOptions:
    """The options that such commands share."""

    selection: Selection | None
    now: str | None
    dry_run: bool
    wait_seconds: float
    assume_offline: bool
    quiet: bool
    json: bool


class PartitionWriter:
    """Goes through partitions in order; what fails ends only its partition or its log directory.

    `_lock` is that of the partition in work; None in a dry run, and where locks do not work. `locks_first`: it is
    taken before the partition is looked at, else by whoever has found something to do.
    """

    locks_first = True

    def __init__(self, environment: Environment, options: WriterOptions) -> None:
        self._fs = environment.fs
        self._options = options
        self._out = ResultStream(environment.stdout)
        self._messages = Messages(environment.stderr, as_json=options.json)
        self._json = JsonLines(self._out) if options.json else None
        self._codes: list[ExitCode] = []
        self._policy = LockPolicy(int(options.wait_seconds * 1000), options.assume_offline)
        clock_ms = environment.now_ms() if options.now is None else time_of(environment, options.now, None)
        self._clock = Clock(clock_ms, options.now is not None)
        self._places: Places = {}
        self._lock: LockHandle | None = None

    def partitions(self, paths: list[str]) -> list[Partition]:
        """What the paths and the selection name. Raises PathNotFound, NotKafkaLayout, NothingSelected."""
        return select_partitions(self._fs, paths, self._options.selection or Selection())

    def work(self, partitions: Sequence[Partition]) -> ExitCode:
        """Change them; the exit code."""
        roots = [log_dir_of(self._fs, partition.path) for partition in partitions]
        log_dirs = list(dict.fromkeys(root for root in roots if root is not None))
        self._places = places_of_partitions(self._fs, log_dirs)
        for log_dir, group in groupby(zip(roots, partitions, strict=True), lambda pair: pair[0]):
            self._log_dir(log_dir, [partition for _, partition in group])
        return combined_exit_code(self._codes)

    def partition(self, partition: Partition) -> ExitCode:
        """Look at one partition, change and show it; its exit code."""
        raise NotImplementedError

    def _log_dir(self, path: str | None, partitions: list[Partition]) -> None:
        try:
            with ExitStack() as stack:
                if path is not None and not self._options.dry_run:
                    lock = lock_log_dir(self._fs, path, self._policy)
                    if lock is not None:
                        stack.enter_context(lock)
                for partition in partitions:
                    self._locked(partition)
        except KafkalogError as error:
            self._codes += [error.exit_code] * len(partitions)
            self._messages.exception(error)

    def _locked(self, partition: Partition) -> None:
        try:
            with self._lock_of(partition) if self.locks_first else nullcontext():
                self._codes.append(self.partition(partition))
        except KafkalogError as error:
            self._codes.append(error.exit_code)
            self._messages.exception(error)

    @contextmanager
    def _lock_of(self, partition: Partition) -> Iterator[None]:
        """The lock of a partition; none is taken in a dry run."""
        if self._options.dry_run:
            yield
            return
        with lock_partition(self._fs, partition.path, self._policy) or nullcontext() as self._lock:
            yield

    def _warn(self, verdicts: Sequence[Verdict]) -> None:
        for verdict in verdicts:
            self._messages.tell(verdict.rule.name, verdict.message, path=verdict.path)
