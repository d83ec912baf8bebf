"""The committed offsets of groups: those of `__consumer_offsets` on the disk, and those committed while serving."""

import json
from collections.abc import Callable
from contextlib import ExitStack
from threading import Lock, Thread
from typing import NamedTuple, Protocol

from kafkalog_cli.disk.durable import error_text, is_no_room
from kafkalog_cli.disk.fs import WritableFile, WritableFilesystem, read_all
from kafkalog_cli.disk.named_places import lock_named_file
from kafkalog_cli.errors import BadInput, ExitCode, KafkalogError, Refused, UsageError
from kafkalog_cli.format.fault import unreadable
from kafkalog_cli.format.internal_topics.records import CONSUMER_OFFSETS
from kafkalog_cli.format.strict_json import fields, integer, parse, text
from kafkalog_cli.ops.coordinators import CoordinatorTopic, LogDirs
from kafkalog_cli.ops.serve.epochs import NO_EPOCH
from kafkalog_cli.ops.session.observer import Note
from kafkalog_cli.ops.tables.coordinator_log import CommittedOffset, committed_offsets

MOST_METADATA_BYTES = 4096
"""The largest metadata of a commit (offset.metadata.max.bytes)."""
_MOST_OFFSETS = 1_000_000
_MOST_FILE_BYTES = 1 << 30


class OffsetKey(NamedTuple):
    """A group id, a topic and a partition."""

    group: str
    topic: str
    partition: int


class Commit(NamedTuple):
    """A committed offset. `time_ms` is when it was committed, in epoch ms."""

    offset: int
    leader_epoch: int
    metadata: str
    time_ms: int


class CommitFile:
    """A file with a JSON object per commit. A commit is in the file, on the disk, before it is answered."""

    def __init__(self, fs: WritableFilesystem, path: str) -> None:
        """Create the file, or continue an existing one. Raises UsageError, BadInput, OSError, as `lock_named_file`."""
        self.path = path
        self.known: dict[OffsetKey, Commit] = {}
        parent = path.rpartition("/")[0] or ("/" if path.startswith("/") else ".")
        if fs.status(parent) is None:
            raise UsageError(reason=f"--commit-to {path}: there is no directory {parent}")
        with ExitStack() as opened:
            opened.enter_context(lock_named_file(fs, path, "kafkalog serve"))
            self._open(fs, path, parent)
            self._opened = opened.pop_all()

    def _open(self, fs: WritableFilesystem, path: str, parent: str) -> None:
        if fs.status(path) is None:
            self._file: WritableFile = fs.create(path)
            self._file.sync()
            fs.sync_directory(parent)
            self._size = 0
        else:
            data = read_all(fs, path, _MOST_FILE_BYTES)
            self._size = data.rfind(b"\n") + 1  # an incomplete last line was never answered
            for number, line in enumerate(data[: self._size].splitlines(), 1):
                key, commit = _parsed(path, number, line)
                self.known[key] = commit
            if fs.attributes(path).link_count > 1:
                raise Refused(path=path, reason="it has several names (hard links), and is written in place; copy it")
            self._file = fs.open_write(path)

    def append(self, commits: dict[OffsetKey, Commit]) -> None:
        """Write commits and sync them. Raises OSError; the file then ends where it ended before."""
        data = b"".join(_line(key, commit) for key, commit in commits.items())
        try:
            self._file.write(self._size, data)
            self._file.truncate(self._size + len(data))
            self._file.sync()
        except OSError:
            self._file.truncate(self._size)
            raise
        self._size += len(data)

    def close(self) -> None:
        """Close the file, and unlock it."""
        with self._opened:
            self._file.close()


class CommitPlace(Protocol):
    """Where commits are written. `known` are commits that hide those of the log directories."""

    path: str
    known: dict[OffsetKey, Commit]

    def append(self, commits: dict[OffsetKey, Commit]) -> None:
        """Write commits and sync them. Raises OSError and KafkalogError."""

    def close(self) -> None:
        """End the writing."""


class CommittedStore:
    """Offsets by group, topic and partition. The offsets on the disk are loaded in another thread.

    A commit while serving hides the offset on the disk. `file` None: commits are in memory only. `decoding` is held
    while records are decoded.
    """

    def __init__(
        self, log_dirs: LogDirs, file: CommitPlace | None, report: Callable[[Note], None], decoding: Lock
    ) -> None:
        self._log_dirs = log_dirs
        self._file = file
        self._report = report
        self._decoding = decoding
        self._held: dict[OffsetKey, Commit] = {}
        self._new: dict[OffsetKey, Commit] = {} if file is None else dict(file.known)
        self._is_failing = False
        self._changing = Lock()
        self._loading = Thread(target=self._load, name="kafkalog-load-offsets", daemon=True)

    def start(self) -> None:
        """Begin to load the offsets on the disk."""
        self._loading.start()

    @property
    def is_loading(self) -> bool:
        """Whether the offsets on the disk are not all known yet."""
        return self._loading.is_alive()

    def wait(self, seconds: float) -> bool:
        """Wait until the offsets are loaded; return whether they are."""
        self._loading.join(seconds)
        return not self.is_loading

    def of_group(self, group_id: str) -> dict[tuple[str, int], Commit]:
        """Return the offsets of a group by topic and partition."""
        with self._changing:
            both = {**self._held, **self._new} if self._new else self._held
            return {(topic, number): one for (group, topic, number), one in both.items() if group == group_id}

    def groups(self) -> set[str]:
        """Return the ids of the groups that have offsets."""
        with self._changing:
            return {key[0] for key in self._held} | {key[0] for key in self._new}

    def commit(self, commits: dict[OffsetKey, Commit]) -> None:
        """Commit offsets. Raises OSError and KafkalogError if they cannot be written: none of them is committed then.

        Raises Refused for too many offsets, TimeoutError if the write takes too long.
        """
        with self._changing:
            if len(self._new) + len(commits) > _MOST_OFFSETS:
                raise Refused(path=CONSUMER_OFFSETS, reason=f"more than {_MOST_OFFSETS} offsets were committed")
            if self._file is not None:
                self._append(self._file, commits)
            self._new |= commits

    def _append(self, file: CommitPlace, commits: dict[OffsetKey, Commit]) -> None:
        try:
            file.append(commits)
        except (OSError, KafkalogError) as error:
            if not self._is_failing:  # consumers try again and again
                code = ExitCode.NO_SPACE if is_no_room(error) else ExitCode.FAILURE
                reason = error_text(error) if isinstance(error, OSError) else str(error)
                message = f"commits are refused, as they cannot be written: {reason}"
                self._report(Note("commits-refused", message, file.path, is_error=True, exit_code=code))
            self._is_failing = True
            raise
        self._is_failing = False

    def close(self) -> None:
        """Close the file."""
        with self._changing:
            if self._file is not None:
                self._file.close()

    def _load(self) -> None:
        try:
            topic = CoordinatorTopic(self._log_dirs, CONSUMER_OFFSETS)
            for number in topic.numbers:
                with self._decoding:
                    _, offsets = topic.load(number, committed_offsets)
                with self._changing:
                    self._held |= dict(map(_commit_on_disk, offsets))
        except (KafkalogError, OSError) as error:
            message = f"committed offsets are incomplete: {unreadable(error).message}"
            self._report(Note("unreadable", message, CONSUMER_OFFSETS, is_error=True, exit_code=ExitCode.PARTIAL))
        for note in self._log_dirs.take_notes():
            self._report(note)


def _commit_on_disk(found: CommittedOffset) -> tuple[OffsetKey, Commit]:
    epoch = NO_EPOCH if found.leader_epoch is None else found.leader_epoch
    time_ms = -1 if found.commit_timestamp is None else found.commit_timestamp
    key = OffsetKey(found.group_id, found.topic, found.partition)
    return key, Commit(found.offset, epoch, found.metadata, time_ms)


def _line(key: OffsetKey, commit: Commit) -> bytes:
    return json.dumps({**key._asdict(), **commit._asdict()}).encode() + b"\n"


def _parsed(path: str, number: int, line: bytes) -> tuple[OffsetKey, Commit]:
    try:
        found = parse(line)
        _FORM(found)
    except ValueError as error:
        raise BadInput(path=path, reason=f"line {number} is not a commit that kafkalog serve wrote: {error}") from error
    names = OffsetKey._fields, Commit._fields
    return OffsetKey(*map(found.get, names[0])), Commit(*map(found.get, names[1]))


_INT, _LONG = integer(-(1 << 31), (1 << 31) - 1), integer(-(1 << 63))
_FORM = fields(
    {
        **dict.fromkeys(("group", "topic", "metadata"), text),
        **dict.fromkeys(("partition", "leader_epoch"), _INT),
        **dict.fromkeys(("offset", "time_ms"), _LONG),
    }
)
