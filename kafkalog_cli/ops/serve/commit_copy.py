"""Commits that are appended to a copy of `__consumer_offsets`, as its broker would append them."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from queue import SimpleQueue
from threading import Event, Thread

from kafkalog_cli.disk.lock import LockPolicy, lock_log_dir
from kafkalog_cli.errors import KafkalogError, Refused, UsageError, shell_word
from kafkalog_cli.format.internal_topics.decode import encode_message
from kafkalog_cli.format.internal_topics.records import CONSUMER_OFFSETS
from kafkalog_cli.log.partition import open_partition
from kafkalog_cli.ops.append.append import AppendPlan
from kafkalog_cli.ops.append.batching import Writing
from kafkalog_cli.ops.append.reading import NewRecord
from kafkalog_cli.ops.append.verb import APPEND, Appending, AppendOptions, ProgramRecords
from kafkalog_cli.ops.coordinators import CoordinatorTopic, LogDirs, coordinator_partition
from kafkalog_cli.ops.serve.committed import Commit, OffsetKey
from kafkalog_cli.ops.session.observer import SilentObserver
from kafkalog_cli.ops.session.options import Context, SessionOptions
from kafkalog_cli.ops.session.session import Session
from kafkalog_cli.ops.session.work import Changed

_SECONDS = 5.0
"""How long a commit may take (offsets.commit.timeout.ms)."""
_AGAIN_SECONDS = 1.0
"""The time between two tries to begin an append after an error."""
_SETTINGS = ("flush.ms=0", f"message.timestamp.after.max.ms={(1 << 63) - 1}")
"""Each commit is synced before its reply, however long the server runs."""
_KEY, _VALUE = b"\0\1", b"\0\3"
"""The versions of OffsetCommitKey and OffsetCommitValue, before their fields."""


class CommitCopy:
    """A log directory with a copy of `__consumer_offsets`, outside the log directories that are served.

    A commit is on the disk before `append` returns. `log_dirs` reads the committed offsets in the copy.
    """

    def __init__(self, context: Context, path: str, broker_config: str | None) -> None:
        """Lock the copy. Raises UsageError if it has no partition of the topic, and as `lock_log_dir`, `LogDirs`."""
        self.path = path
        self.known: dict[OffsetKey, Commit] = {}
        self.log_dirs = LogDirs(context.fs, [path], None, context.kernels)
        self._context, self._broker_config = context, broker_config
        topic = CoordinatorTopic(self.log_dirs, CONSUMER_OFFSETS)
        if not topic.numbers:
            raise UsageError(
                reason=f"--commit-to {path}: there is no partition of {CONSUMER_OFFSETS} in this directory"
            )
        self._numbers = set(topic.numbers)
        self._count = topic.partitions or max(topic.numbers) + 1
        self._appenders: dict[int, _Appender] = {}
        self._opened = ExitStack()
        self._opened.callback(lock_log_dir(context.fs, path, LockPolicy()).release)

    def append(self, commits: dict[OffsetKey, Commit]) -> None:
        """Append commits of one group. Raises TimeoutError, OSError and KafkalogError."""
        number = coordinator_partition(next(iter(commits)).group, self._count)
        if number not in self._numbers:
            raise Refused(
                path=self.path, reason=f"there is no copy of {CONSUMER_OFFSETS}-{number}, which has this group"
            )
        if number not in self._appenders:
            self._appenders[number] = _Appender(self._session, f"{self.path}/{CONSUMER_OFFSETS}-{number}")
        self._appenders[number].append(commits)

    def close(self) -> None:
        """End the appends, and unlock the copy."""
        with self._opened:
            for appender in self._appenders.values():
                appender.end()

    def _session(self, observer: SilentObserver) -> Session:
        options = SessionOptions(config=_SETTINGS, broker_config=self._broker_config, single_replica=True)
        return Session(APPEND, self._context, options, observer, argv=("kafkalog", "serve", "--commit-to", self.path))


class _Request:
    """Commits that wait for their append. `error` is the reason why they are not on the disk, if `done` is set."""

    def __init__(self, commits: dict[OffsetKey, Commit]) -> None:
        self.commits = commits
        self.done = Event()
        self.error: OSError | KafkalogError | None = None


class _Failures(SilentObserver):
    """Keeps the error of an append, or the reason why a broker would not append."""

    def __init__(self) -> None:
        self.error: KafkalogError | None = None

    def fail(self, error: KafkalogError, **_: object) -> None:
        """See Observer."""
        self.error = error

    def show(self, result: Changed[AppendPlan]) -> None:
        """See Observer."""
        if result.plan.is_refused:
            remark = result.plan.remarks[0]
            advice = f"kafkalog recover {shell_word(remark.path)}"
            self.error = Refused(path=remark.path, reason=f"{remark.message}; {advice} repairs it")


class _Appender:
    """Appends to a partition, in a thread, which ends with the server.

    There is one append. Commits that cannot be written are cut off from it, and it goes on. Another error ends it: the
    commits that were answered stay, and the next append begins as soon as the log takes one.
    """

    def __init__(self, session: Callable[[SilentObserver], Session], path: str) -> None:
        self._path = path
        self._make_session = session
        self._waiting: SimpleQueue[_Request | None] = SimpleQueue()
        self._current: _Request | None = None
        self._ending = Event()
        self._thread = Thread(target=self._run, name="kafkalog-commit", daemon=True)
        self._thread.start()

    def append(self, commits: dict[OffsetKey, Commit]) -> None:
        """Append commits, and wait until they are on the disk. Raises TimeoutError, OSError and KafkalogError."""
        request = _Request(commits)
        self._waiting.put(request)
        if not request.done.wait(_SECONDS):
            raise TimeoutError(f"{self._path}: a commit is not on the disk after {_SECONDS:.0f} s")
        if request.error is not None:
            raise request.error

    def end(self) -> None:
        """End the append, and wait for it."""
        self._ending.set()
        self._waiting.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (error := self._append()) is not None:
            waiting = [self._current]  # the request that failed, and requests that have come since
            self._current = None
            while not self._waiting.empty():
                waiting.append(self._waiting.get())
            for request in waiting:
                if request is not None:
                    request.error = error
                    request.done.set()
            if self._ending.wait(_AGAIN_SECONDS):
                return

    def _append(self) -> KafkalogError | None:
        """Append until the server ends, or until an error; return the error."""
        failures = _Failures()
        try:
            session = self._make_session(failures)
            partition = open_partition(session.fs, self._path)
            appending = Appending(session, AppendOptions(Writing()), ProgramRecords(self._records(), self._refuse))
            appending.take(partition, is_new=False)
            session.settings([partition])
            session.run(appending, [partition])
        except KafkalogError as error:
            failures.error = error
        return failures.error

    def _records(self) -> Iterator[NewRecord | None]:
        """Yield the records of requests. After None, the append writes and syncs them before it asks for the next."""
        while (request := self._waiting.get()) is not None:
            self._current = request
            yield from map(_record, request.commits.items())
            yield None
            self._current = None
            request.done.set()

    def _refuse(self, error: OSError | KafkalogError) -> None:
        assert self._current is not None
        self._current.error = error


def _record(committed: tuple[OffsetKey, Commit]) -> NewRecord:
    key, commit = committed
    value = {
        "offset": commit.offset, "leaderEpoch": commit.leader_epoch, "metadata": commit.metadata,
        "commitTimestamp": commit.time_ms,
    }  # fmt: skip
    return NewRecord(
        _KEY + encode_message("OffsetCommitKey", 0, key._asdict()),
        _VALUE + encode_message("OffsetCommitValue", 3, value),
        timestamp=commit.time_ms,
    )


def check_outside_of(log_dirs: LogDirs, path: str) -> None:
    """Raise Refused if a directory for commits is, contains or lies in a log directory that is served."""
    copy = os.path.realpath(path)
    for log_dir in map(os.path.realpath, log_dirs.replicas.log_dirs):
        if os.path.commonpath([copy, log_dir]) in {copy, log_dir}:
            reason = f"commits would go into {log_dir}, which is served and stays as it is; name a copy of it"
            raise Refused(path=path, reason=reason)
