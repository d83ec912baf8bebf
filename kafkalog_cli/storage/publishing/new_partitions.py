"""New partitions of a log directory, several at once: staging, the commit by one record, the completion of one cut off.

A partition is built under the name of one whose topic was deleted (`TOPIC-PARTITION.<id>-delete`): a directory of any
other name keeps a broker from starting, and this one it removes by itself. The id tells ours from a broker's. A run is
committed by its record, a plain file in the log directory, which a broker ignores: it names all renames that are to
come. Cut off before that, a run leaves nothing that is seen, and the next one removes its directories; cut off after
it, the next one does the renames that are left.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from types import MappingProxyType
from typing import Any, NamedTuple

from kafkalog_cli.errors import KafkalogError, Refused, SyncFailed
from kafkalog_cli.storage.appending.new_partition import remove_all
from kafkalog_cli.storage.changing.durable import (
    attributes_in,
    half_published,
    not_changed,
    remove_if_there,
    replace_file,
    sync_directory,
)
from kafkalog_cli.storage.changing.lock import LockPolicy, lock_imports, lock_log_dir
from kafkalog_cli.storage.checkpoints import LineEdit, change_lines
from kafkalog_cli.storage.fs import Filesystem, WritableFilesystem
from kafkalog_cli.storage.logdir import OFFSET_CHECKPOINTS
from kafkalog_cli.storage.names import (
    DirectoryKind,
    FileKind,
    classify_directory,
    classify_file,
    marked_directory_name,
    partition_directory_name,
)
from kafkalog_cli.storage.publishing.record import ComingFile, Record, read_record, record_bytes

_RECORD = FileKind.IMPORT_RECORD.value
_RUN_DIGITS, _ATTEMPT_DIGITS, _CHECK_DIGITS = 12, 10, 10


class NewPartition(NamedTuple):
    """A partition that is complete in the log directory under the name `staged`."""

    topic: str
    partition: int
    staged: str

    @property
    def name(self) -> str:
        """What it is to be called."""
        return partition_directory_name(self.topic, self.partition)


class Completed(NamedTuple):
    """Names of the partitions of a committed run: those that have their places now, and those that are gone.

    A broker that was started in between has removed what was still to come. `what` is the caller's, of that run.
    """

    placed: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    what: Mapping[str, Any] = MappingProxyType({})


def staged_name(topic: str, partition: int, run: str, attempt: str) -> str:
    """The name under which a partition is built by one attempt of a run."""
    own = _digits(run, _RUN_DIGITS) + _digits(f"{run} {attempt} {topic}-{partition}", _ATTEMPT_DIGITS)
    return marked_directory_name(topic, partition, DirectoryKind.DELETE, own + _check(own))


def is_staged(name: str, run: str | None = None) -> bool:
    """Whether a directory of this name is one that we build, of this run or any: a broker's ids are random."""
    found = classify_directory(name)
    unique = found.unique_id or ""
    own = unique[:-_CHECK_DIGITS]
    if found.kind is not DirectoryKind.DELETE or unique != own + _check(own):
        return False
    return run is None or own.startswith(_digits(run, _RUN_DIGITS))


def _digits(text: str, count: int) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:count]


def _check(own: str) -> str:
    return _digits(f"kafkalog import {own}", _CHECK_DIGITS)


def make_staged(fs: WritableFilesystem, path: str) -> None:
    """Make an empty directory of such a name, for what a partition is to be built of. Raises NotChanged, NoSpace."""
    try:
        fs.make_directory(path)
    except OSError as error:
        raise not_changed(path, error) from error


def has_no_record(fs: Filesystem, path: str) -> bool:
    """Whether a partition's directory never held a record: one segment, from offset 0 on, without a byte.

    Raises PathNotFound, Unreadable.
    """
    logs = []
    for entry in fs.list_directory(path):
        name = classify_file(entry.path.rpartition("/")[2])
        if name.kind is FileKind.LOG:
            logs.append((name.offset, entry.size_bytes))
    return logs == [(0, 0)]


def record_of(fs: Filesystem, log_dir: str) -> Record | None:
    """The record of a committed run of which partitions may still be to come. Raises as `read_record` does."""
    return read_record(fs, f"{log_dir}/{_RECORD}")


class NewPartitions:
    """One run at a time on a log directory, from `with` to its end: brokers and other such runs are kept out.

    Raises Locked, Refused, NoSpace, Unreadable.
    """

    def __init__(self, fs: WritableFilesystem, log_dir: str, policy: LockPolicy | None = None) -> None:
        self.log_dir = os.path.abspath(log_dir)  # noqa: PTH100 - links are not followed
        self._fs = fs
        self._policy = policy or LockPolicy()
        self._locks = ExitStack()

    def __enter__(self) -> NewPartitions:
        try:
            for take in (lock_log_dir, lock_imports):
                lock = take(self._fs, self.log_dir, self._policy)
                if lock is not None:
                    self._locks.enter_context(lock)
        except BaseException:
            self._locks.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._locks.close()

    @property
    def record_path(self) -> str:
        """Where the record of a committed run lies while its partitions come to their places."""
        return f"{self.log_dir}/{_RECORD}"

    def sweep(self, run: str | None = None) -> int:
        """Remove what this run, or any, staged and what is not to come, as far as that can be done; how many."""
        with suppress(OSError, KafkalogError):
            record = record_of(self._fs, self.log_dir)
            kept = set() if record is None else {one.staged for one in record.coming}
            names = [entry.path.rpartition("/")[2] for entry in self._fs.list_directory(self.log_dir)]
            stale = [name for name in names if is_staged(name, run) and name not in kept]
            for name in stale:
                remove_all(self._fs, f"{self.log_dir}/{name}")
            return len(stale)
        return 0

    def publish(
        self, run: str, partitions: list[NewPartition], what: dict[str, Any], *, replaces_empty: bool = False
    ) -> Completed:
        """Commit the run, all of whose partitions are on the disk, and give them their places.

        `replaces_empty`: where there is a partition that never held a record, it goes. Raises Refused, NotChanged and
        NoSpace where the run is not committed, HalfPublished where it is, and partitions are to come.
        """
        try:
            aside = {one.name: self._inode(one.name) for one in partitions if self._must_go(one, replaces_empty)}
            inodes = {one.name: self._inode(one.staged) for one in partitions}
            self._drop_lines(partitions)
            sync_directory(self._fs, self.log_dir)
            coming = tuple(ComingFile(one.staged, one.name) for one in partitions)
            record = Record(self.log_dir, run, what, {"inodes": inodes, "aside": aside}, coming)
            replace_file(self._fs, self.record_path, record_bytes(record), attributes_in(self._fs, self.log_dir))
        except (OSError, SyncFailed) as error:
            raise not_changed(self.log_dir, error) from error
        return self.complete()

    def complete(self) -> Completed:
        """Give the partitions of a committed run that have still to come their places.

        Raises HalfPublished, Refused where another partition took a place, UnsupportedFormat for an odd record.
        """
        record = record_of(self._fs, self.log_dir)
        if record is None:
            return Completed()
        try:
            found = [(one.path, self._place(record, one)) for one in record.coming]
            sync_directory(self._fs, self.log_dir)
            remove_if_there(self._fs, self.record_path)
            sync_directory(self._fs, self.log_dir)
        except (OSError, SyncFailed) as error:
            raise half_published(self.log_dir, error) from error
        self.sweep(record.run)
        placed = tuple(name for name, is_there in found if is_there)
        return Completed(placed, tuple(name for name, is_there in found if not is_there), record.what)

    def _must_go(self, one: NewPartition, replaces_empty: bool) -> bool:
        """Whether an empty partition stands where this one comes. Raises Refused for any other thing there."""
        path = f"{self.log_dir}/{one.name}"
        if self._inode(one.staged) is None:
            reason = "it is gone: a broker was started meanwhile, or it was made on a machine with other files here"
            raise Refused(path=f"{self.log_dir}/{one.staged}", reason=reason)
        if self._fs.status(path) is None:
            return False
        if replaces_empty and has_no_record(self._fs, path):
            return True
        raise Refused(path=path, reason="it is there already")

    def _drop_lines(self, partitions: list[NewPartition]) -> None:
        """Lines in checkpoints about what was there before: a broker would start the log where they say."""
        edits = [LineEdit(kind, one.topic, one.partition, None) for one in partitions for kind in OFFSET_CHECKPOINTS]
        change_lines(self._fs, self.log_dir, edits)

    def _place(self, record: Record, one: ComingFile) -> bool:
        """Give it its place; False if it is gone."""
        inodes, aside = record.state["inodes"], record.state["aside"]
        staged, path = f"{self.log_dir}/{one.staged}", f"{self.log_dir}/{one.path}"
        found, wanted = self._inode(one.path), inodes[one.path]
        if self._inode(one.staged) is None:
            return bool(found == wanted)
        if found is not None and found == aside.get(one.path):
            parsed = classify_directory(one.path)
            assert parsed.topic is not None
            assert parsed.partition is not None
            away = staged_name(parsed.topic, parsed.partition, record.run, "aside")
            self._fs.rename(path, f"{self.log_dir}/{away}")
        elif found is not None:
            reason = (
                f"it is there already, and a committed import has {one.staged} for its place: move one of them away"
            )
            raise Refused(path=path, reason=reason)
        self._fs.rename(staged, path)
        return True

    def _inode(self, name: str) -> int | None:
        status = self._fs.status(f"{self.log_dir}/{name}")
        return None if status is None else status.inode
