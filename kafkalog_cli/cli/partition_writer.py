"""What commands that change partitions share: each log directory and partition under its lock, one exit code each."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, cast

from kafkalog_cli import __version__
from kafkalog_cli.actions.in_order import Sized
from kafkalog_cli.actions.partition_facts import Places, places_of_partitions
from kafkalog_cli.actions.reports.index_verdict import counted
from kafkalog_cli.actions.root_state import Roots
from kafkalog_cli.actions.settings import SettingsSource
from kafkalog_cli.actions.waiting_marker import settle_marker, settled_runs
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.interruptions import Undisturbed
from kafkalog_cli.cli.partition_run import Outcome, PartitionRun, ResultT, RunOptions, Work
from kafkalog_cli.cli.terminal import Consent
from kafkalog_cli.errors import ExitCode, KafkalogError, NothingSelected
from kafkalog_cli.output.stream import printable
from kafkalog_cli.storage.changing.lock import LockPolicy, Unlocked, lock_log_dir, lock_partition, log_dir_of
from kafkalog_cli.storage.changing.manifest import RunInfo, new_run_id, odd_entries, run_directory
from kafkalog_cli.storage.fs import Filesystem
from kafkalog_cli.storage.names import DirectoryKind
from kafkalog_cli.storage.partition import Partition, open_partition
from kafkalog_cli.storage.settings.topic_config import Setting

_NOT_OF_A_TOPIC = {
    DirectoryKind.DELETE: "a deleted topic's directory (-delete)",
    DirectoryKind.FUTURE: "a copy that a broker was making for another log directory (-future)",
}


@dataclass(frozen=True, slots=True)
class WriterOptions(RunOptions):
    """The options that such commands share."""

    dry_run: bool
    wait_seconds: float
    assume_offline: bool


class PartitionWriter(PartitionRun[ResultT]):
    """A PartitionRun that changes what it goes through; nothing is locked or changed in a dry run.

    A log directory's lock is taken before its first partition and held to the end; what lies in one that cannot be
    locked is left alone.
    """

    def __init__(self, environment: Environment, options: WriterOptions) -> None:
        self._writing = options
        self._run_id = new_run_id(self.verb, environment.now_ms())
        self._named: frozenset[str] = frozenset()
        self._places: Places = {}
        self._log_dirs: dict[str, KafkalogError | None] = {}
        self._is_elsewhere = False
        super().__init__(environment, options)

    def _settle(self, environment: Environment) -> None:
        """See PartitionRun."""
        self._stdout = Undisturbed(environment.stdout)
        stdout, stderr = cast(BinaryIO, self._stdout), cast(BinaryIO, Undisturbed(environment.stderr))
        super()._settle(replace(environment, stdout=stdout, stderr=stderr))
        waits = int(self._writing.wait_seconds * 1000)
        self._policy = LockPolicy(waits, self._writing.assume_offline, self._wait)
        self._locks = ExitStack()
        terminal = environment.terminal
        self._consent = None if terminal is None else Consent(terminal, self._interruptions.safe_point)

    _SETTLED = PartitionRun._SETTLED | {"_stdout", "_policy", "_locks", "_consent"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """See PartitionRun."""
        super().__setstate__({**state, "_is_elsewhere": True})

    def work(self, partitions: Sequence[Partition]) -> ExitCode:
        """Change them; the exit code."""
        roots = (log_dir_of(self._fs, partition.path) for partition in partitions)
        self._places = places_of_partitions(self._fs, list(dict.fromkeys(root for root in roots if root is not None)))
        if not self._engine.is_here:
            self._confirm_all(partitions)
        with self._locks:
            return super().work(partitions)

    def summary(self, code: ExitCode, **counts: int) -> None:
        """See PartitionRun. Raises BrokenPipeError, now that all is done, if nobody reads what is told."""
        super().summary(code, **counts)
        self._stdout.end()

    def ours(self, paths: list[str]) -> list[Partition]:
        """Leave out what nobody but its owner changes, where it was not asked for by its own path."""
        self._named = frozenset(path.rstrip("/") for path in paths)
        kept = []
        for partition in self.partitions(paths):
            kind = partition.directory.kind
            why = "the metadata log" if partition.directory.is_metadata_log else _NOT_OF_A_TOPIC.get(kind)
            if why is not None and partition.path not in self._named:
                if not self._options.quiet:
                    self._messages.warn("skipped", f"skipped: {why}", path=partition.path)
            else:
                kept.append(partition)
        if not kept:
            raise NothingSelected(reason="no partition that may be changed")
        return kept

    def run_info(self, settings: Sequence[Setting]) -> RunInfo:
        """The run as its manifests name it, with the settings that it followed in a partition."""
        explained = {setting.name: setting.explanation for setting in settings}
        return RunInfo(self._run_id, self.verb, tuple(sys.argv[1:]), self._clock.now_ms, explained, __version__)

    @property
    def only_reads(self) -> bool:
        """See PartitionRun."""
        return self._writing.dry_run

    def locks_first(self, partition: Partition) -> bool:
        """Whether the partition is locked before it is looked at; else `partition` calls `locked` when it must."""
        del partition
        return True

    @contextmanager
    def locked(self, work: Work) -> Iterator[None]:
        """The lock of a partition, and from here on it is finished, whatever comes. Raises Locked, Refused, NoSpace."""
        if self._writing.dry_run:
            yield
            return
        with lock_partition(work.fs, work.partition.path, self._policy) or Unlocked() as work.lock:
            self._interruptions.safe_point()
            work.must_finish = True
            yield

    def confirm(self, work: Work, what: str) -> None:
        """Ask on a terminal before valid data go. Raises NotChanged, KeyboardInterrupt."""
        if self._consent is not None and not self._writing.dry_run:
            with self._progress.paused():
                self._consent.need(printable(work.partition.path), what)

    def _confirm_all(self, partitions: Sequence[Partition]) -> None:
        """Ask before tasks begin, which cannot ask. Raises NotChanged."""
        if self._consent is not None and not self._writing.dry_run:
            how_many = counted(len(partitions), "partition", "partitions")
            self._consent.need(how_many, f"{self.verb} in tasks of Spark, which do not ask before valid records go")

    def _in_work(self, work: Work) -> ResultT:
        with self._log_dir_locked(work):
            for path, what in odd_entries(work.fs, work.partition.path):
                work.tell("odd-entry", f"kafkalog did not make it ({what}), and leaves it alone", path)
            self._settle_marker(work)
            with self._locked_first(work):
                return self.partition(work)

    def _settle_marker(self, work: Work) -> None:
        """Give the marker of a clean shutdown back that an earlier run on the partition could not give back."""
        fs, partition, log_dir = work.fs, work.partition, work.log_dir
        if self._writing.dry_run or log_dir is None or not settled_runs(fs, partition, log_dir):
            return
        with lock_partition(fs, partition.path, self._policy) or Unlocked():
            told = settle_marker(fs, partition, log_dir, self._clock.now_ms)
        if told is not None:
            work.tell("marker", told, log_dir)

    def _locked_first(self, work: Work) -> AbstractContextManager[None]:
        return self.locked(work) if self.locks_first(work.partition) else nullcontext()

    @contextmanager
    def _log_dir_locked(self, work: Work) -> Iterator[None]:
        """In a task elsewhere: a lock of its own, for as long, as this process may outlive the one that planned.

        A task that is tried again looks anew at what the try before has left, and has a run of its own.
        """
        if not self._is_elsewhere or self._writing.dry_run:
            yield
            return
        if work.fs.status(run_directory(work.partition.path, self._run_id)) is not None:
            self._run_id = new_run_id(self.verb, self._environment.now_ms())
        lock = None if work.log_dir is None else lock_log_dir(work.fs, work.log_dir, self._policy)
        with lock or Unlocked():
            work.partition = open_partition(work.fs, work.partition.path)
            yield

    def _task(self, work: Work) -> Sized[Outcome[ResultT]]:
        """Called in the order of the partitions, in the main thread."""
        path = work.log_dir
        is_new = path is not None and path not in self._log_dirs
        if path is not None and is_new and not self._writing.dry_run and not self._is_over():
            try:
                self._log_dirs[path] = self._lock(path)
            except KeyboardInterrupt:  # while it waited
                return Sized(lambda: Outcome(work), None)
        error = None if path is None else self._log_dirs.get(path)
        if error is None:
            return super()._task(work)
        return Sized(lambda: Outcome(work, error=error, is_told=not is_new), None)

    def _wait(self, seconds: float) -> None:
        self._interruptions.sleep(seconds, self._environment.sleep)

    def _lock(self, log_dir: str) -> KafkalogError | None:
        """Why the log directory cannot be had, None once it is locked."""
        try:
            lock = lock_log_dir(self._fs, log_dir, self._policy)
        except KafkalogError as error:
            return error
        if lock is not None:
            self._locks.enter_context(lock)
        return None


def learn_roots(fs: Filesystem, partitions: Sequence[Partition], roots: Roots, settings: SettingsSource) -> None:
    """What the log directories of partitions say of them, and the metadata logs, each read once for all tasks."""
    found = (log_dir_of(fs, partition.path) for partition in partitions)
    for log_dir in dict.fromkeys(found):
        roots.checkpoints(log_dir)
        with suppress(KafkalogError, OSError):  # said of each partition, when its turn comes
            settings.metadata(log_dir)
