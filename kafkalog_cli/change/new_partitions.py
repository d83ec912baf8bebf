"""Publishes new partitions in a log directory, several at once: staging, commit by one record, later completion.

A partition is built in a directory with the name of a deleted topic's partition (`TOPIC-PARTITION.<id>-delete`). A
broker removes such a directory by itself; a directory with any other name keeps it from starting. The id distinguishes
kafkalog's directories from a broker's. The record of a run commits it: a plain file in the log directory, which a
broker ignores, with all renames that follow. A run that was interrupted before its commit leaves nothing visible, and
the next run removes its directories. After the commit, the next run does the remaining renames.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from kafkalog_cli.change.output_directory import ComingFile, RunRecord, forget_record, read_record, record_bytes
from kafkalog_cli.change.removal import try_to_remove_directory
from kafkalog_cli.disk.durable import (
    attributes_in,
    is_link,
    not_imported,
    replace_file,
    sync_directory,
    tells_nothing_changed,
    unfinished,
)
from kafkalog_cli.disk.fs import Filesystem, WritableFilesystem
from kafkalog_cli.disk.lock import LockPolicy, lock_imports, lock_log_dir
from kafkalog_cli.disk.named_places import check_named_directory
from kafkalog_cli.disk.names import (
    DirectoryKind,
    FileKind,
    classify_directory,
    classify_file,
    marked_directory_name,
    moved_out,
    partition_directory_name,
)
from kafkalog_cli.errors import HalfPublished, KafkalogError, Refused, SyncFailed, Unreadable, shell_word
from kafkalog_cli.format.strict_json import fields, integer, list_of, table, text
from kafkalog_cli.log.log_dir import OFFSET_CHECKPOINTS

_RECORD = FileKind.IMPORT_RECORD.value
_RUN_DIGITS, _ATTEMPT_DIGITS, _CHECK_DIGITS = 12, 10, 10


class StagedPartition(NamedTuple):
    """A complete partition in the log directory, under the name `staged`."""

    topic: str
    partition: int
    staged: str
    inode: int | None = None
    """The directory that was built, None if that is not known."""

    @property
    def name(self) -> str:
        """The final name of the partition's directory."""
        return partition_directory_name(self.topic, self.partition)


_INODES = table(text, integer(0, (1 << 64) - 1))
_STATE = fields({"inodes": _INODES, "aside": _INODES})


class Completed(NamedTuple):
    """The partitions of a committed run by name: `placed` are in their places now, `lost` no longer exist.

    A broker that was started before the completion removes the partitions that are still staged. `what` is the
    caller's data in the record of the run.
    """

    placed: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    what: Mapping[str, Any] = MappingProxyType({})


def staged_name(topic: str, partition: int, run: str, attempt: str) -> str:
    """Return the directory name under which one attempt of a run builds a partition."""
    own = _digits(run, _RUN_DIGITS) + _digits(f"{run} {attempt} {topic}-{partition}", _ATTEMPT_DIGITS)
    return marked_directory_name(topic, partition, DirectoryKind.DELETE, own + _check(own))


def is_staged(name: str, run: str | None = None) -> bool:
    """Whether `name` is a staged directory of `run` (None: of any run).

    The id of a staged directory ends with a check of its other digits; the ids of a broker are random.
    """
    found = classify_directory(name)
    unique = found.unique_id or ""
    own = unique[:-_CHECK_DIGITS]
    if found.kind is not DirectoryKind.DELETE or unique != own + _check(own):
        return False
    return run is None or own.startswith(_digits(run, _RUN_DIGITS))


def _digits(text: str, count: int) -> str:
    import hashlib

    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:count]


def _check(own: str) -> str:
    return _digits(f"kafkalog import {own}", _CHECK_DIGITS)


def has_no_record(fs: Filesystem, path: str) -> bool:
    """Whether a partition never had a record: its only segment has the base offset 0 and an empty log.

    Raises PathNotFound, Unreadable.
    """
    logs = []
    for entry in fs.list_directory(path):
        name = classify_file(entry.path.rpartition("/")[2])
        if name.kind is FileKind.LOG:
            logs.append((name.offset, entry.size_bytes))
    return logs == [(0, 0)]


def record_of(fs: Filesystem, log_dir: str) -> RunRecord | None:
    """Return the record of a committed run that may not be complete, None if there is none.

    Raises the errors of `read_record`. A record that names anything but partitions that its run has built is
    refused as a whole: it is a file that kafkalog has not written.
    """
    return read_record(fs, f"{log_dir}/{_RECORD}", _check_import)


def _check_import(record: RunRecord) -> None:
    """Raises ValueError unless a record is of an import."""
    list_of(text)(record.what.get("command", []))
    text(record.what.get("repeat", ""))
    state, names = _STATE(record.state), {one.path for one in record.coming}
    if state["inodes"].keys() != names or not state["aside"].keys() <= names:
        raise ValueError("its inodes are not those of its partitions")
    for one in record.coming:
        place, staged = classify_directory(one.path), classify_directory(one.staged)
        if place.kind is not DirectoryKind.PARTITION or place.is_metadata_log or place.separator != "-":
            raise ValueError(f"{one.path!r} is not the name of a partition")
        told = marked_directory_name(
            place.topic or "", place.partition or 0, DirectoryKind.DELETE, staged.unique_id or ""
        )
        if not is_staged(one.staged, record.run) or one.staged != told:
            raise ValueError(f"{one.staged!r} was not built by this run for {one.path}")


class NewPartitions:
    """A run that creates partitions in a log directory; inside `with` it locks out brokers and other such runs.

    Raises Locked, Refused, NoSpace, Unreadable.
    """

    def __init__(self, fs: WritableFilesystem, log_dir: str, policy: LockPolicy | None = None) -> None:
        self.log_dir = os.path.abspath(log_dir)  # noqa: PTH100 - links are not followed
        self._fs = fs
        self._policy = policy or LockPolicy()
        self._locks = ExitStack()

    def __enter__(self) -> NewPartitions:
        check_named_directory(self._fs, self.log_dir)
        try:
            for take in (lock_log_dir, lock_imports):
                self._locks.enter_context(take(self._fs, self.log_dir, self._policy))
        except BaseException:
            self._locks.close()
            raise
        return self

    def __exit__(self, *error: Any) -> None:
        self._locks.__exit__(*error)

    @property
    def record_path(self) -> str:
        """The path of the record of a committed run, which exists until all its partitions are in their places."""
        return f"{self.log_dir}/{_RECORD}"

    def sweep(self, run: str | None = None) -> int:
        """Remove the staged directories of `run` (None: of any run), except those of a committed run.

        Directories are removed as far as possible. Returns their number, 0 if they could not be listed.
        """
        with suppress(OSError, KafkalogError):
            record = record_of(self._fs, self.log_dir)
            kept = set() if record is None else {one.staged for one in record.coming}
            names = [entry.path.rpartition("/")[2] for entry in self._fs.list_directory(self.log_dir)]
            stale = [name for name in names if is_staged(name, run) and name not in kept]
            for name in stale:
                try_to_remove_directory(self._fs, f"{self.log_dir}/{name}")
            return len(stale)
        return 0

    def publish(
        self, run: str, partitions: list[StagedPartition], what: dict[str, Any], *, replaces_empty: bool = False
    ) -> Completed:
        """Commit the run, whose partitions must all be on the disk, and move them to their places.

        `replaces_empty`: an existing partition that never had a record is replaced. Raises Refused, NotImported and
        NoSpace if the run is not committed. Raises HalfPublished, or Refused if a place was taken since, if the run
        is committed but not complete.
        """
        try:
            aside = {one.name: self._inode(one.name) for one in partitions if self._must_go(one, replaces_empty)}
            inodes = {one.name: self._inode(one.staged) for one in partitions}
            self._drop_lines(partitions)
            sync_directory(self._fs, self.log_dir)
            coming = tuple(ComingFile(one.staged, one.name) for one in partitions)
            record = RunRecord(self.log_dir, run, what, {"inodes": inodes, "aside": aside}, coming)
            replace_file(self._fs, self.record_path, record_bytes(record), attributes_in(self._fs, self.log_dir))
        except (OSError, SyncFailed) as error:
            raise not_imported(self.log_dir, error) from error  # lines of a checkpoint may have gone
        return self.complete()

    @contextmanager
    def swept(self, run: str) -> Iterator[None]:
        """Remove what the body has built and not committed.

        Raises NotImported or NoSpace if the body fails with the message that nothing was changed, but something stays.
        """
        try:
            try:
                yield
            finally:
                self.sweep(run)
        except KafkalogError as error:
            if tells_nothing_changed(error) and self._is_left(run):
                raise not_imported(self.log_dir, error) from error
            raise

    def _is_left(self, run: str) -> bool:
        """Whether something that the run has built is there, or may be."""
        try:
            entries = self._fs.list_directory(self.log_dir)
        except (OSError, KafkalogError):
            return True
        return any(is_staged(entry.path.rpartition("/")[2], run) for entry in entries)

    def complete(self) -> Completed:
        """Move the remaining partitions of a committed run to their places.

        Raises HalfPublished, RecordNotGone, Refused if another partition is in such a place, UnsupportedFormat for an
        invalid record.
        """
        record = record_of(self._fs, self.log_dir)
        if record is None:
            return Completed()
        try:
            found = [(one.path, self._place(record, one)) for one in record.coming]
            sync_directory(self._fs, self.log_dir)
            forget_record(self._fs, self.record_path, self.log_dir)
        except (OSError, SyncFailed, Unreadable) as error:
            raise unfinished(HalfPublished, self.log_dir, error) from error
        self.sweep(record.run)
        placed = tuple(name for name, is_there in found if is_there)
        return Completed(placed, tuple(name for name, is_there in found if not is_there), record.what)

    def _must_go(self, one: StagedPartition, replaces_empty: bool) -> bool:
        """Whether an empty partition must make room for the new partition. Raises Refused if any other is in its place.

        Raises Refused too if the staged directory no longer exists, or is another one than was built.
        """
        path = f"{self.log_dir}/{one.name}"
        staged = self._inode(one.staged)
        if staged is None:
            reason = (
                "it is missing: a broker was started in the meantime, or the import ran on a machine"
                " with another disk here"
            )
            raise Refused(path=f"{self.log_dir}/{one.staged}", reason=reason)
        if one.inode not in (None, staged):
            raise Refused(path=f"{self.log_dir}/{one.staged}", reason=_SWAPPED)
        if not self._is_there(one.name):
            return False
        if replaces_empty and self._inode(one.name) is not None and has_no_record(self._fs, path):
            return True
        raise Refused(path=path, reason="it already exists")

    def _drop_lines(self, partitions: list[StagedPartition]) -> None:
        """Remove checkpoint lines of earlier partitions with these names: a broker would use their offsets."""
        from kafkalog_cli.change.checkpoint_lines import change_lines
        from kafkalog_cli.log.log_dir import LineEdit

        edits = [LineEdit(kind, one.topic, one.partition, None) for one in partitions for kind in OFFSET_CHECKPOINTS]
        change_lines(self._fs, self.log_dir, edits)

    def _place(self, record: RunRecord, one: ComingFile) -> bool:
        """Move a partition to its place; return False if it no longer exists. Raises Refused if the place is taken.

        Raises Refused too if another directory, or a link, has come in place of one that is moved. Names are checked
        before and after: whoever owns the log directory may change what they mean in between.
        """
        inodes, aside = record.state["inodes"], record.state["aside"]
        path = f"{self.log_dir}/{one.path}"
        found, wanted = self._inode(one.path), inodes[one.path]
        if not self._is_there(one.staged):
            return bool(found == wanted)
        if self._inode(one.staged) != wanted:
            raise Refused(path=f"{self.log_dir}/{one.staged}", reason=f"{_SWAPPED}; {self._way_out()}")
        if found is not None and found == aside.get(one.path):
            parsed = classify_directory(one.path)
            assert parsed.topic is not None
            assert parsed.partition is not None
            self._move(one.path, staged_name(parsed.topic, parsed.partition, record.run, "aside"), found)
        elif self._is_there(one.path):
            reason = f"it already exists, and a committed import has {one.staged} for its place"
            reason = f"{reason}: {moved_out(path)} makes room for it; then the same import again"
            raise Refused(path=path, reason=reason)
        self._move(one.staged, one.path, wanted)
        if not any(
            entry.is_file and entry.path.endswith(FileKind.LOG.value) for entry in self._fs.list_directory(path)
        ):
            raise Refused(path=path, reason=f"its log is missing; {self._way_out()}")
        return True

    def _move(self, name: str, new_name: str, inode: int) -> None:
        """Rename a directory in the log directory. Raises Refused if the directory has another inode."""
        path, new_path = f"{self.log_dir}/{name}", f"{self.log_dir}/{new_name}"
        self._fs.rename(path, new_path)
        if self._inode(new_name) == inode:
            return
        if not self._is_there(name):
            with suppress(OSError):  # whatever it is, it gets its name back
                self._fs.rename(new_path, path)
        raise Refused(path=path, reason=f"{_SWAPPED}; {self._way_out()}")

    def _way_out(self) -> str:
        aside = shell_word(f"{self.record_path}.aside")
        return (
            f"nothing else is done by the record of the import. `mv -nT {shell_word(self.record_path)} {aside}` moves"
            " the record away; then import again"
        )

    def _is_there(self, name: str) -> bool:
        """Whether anything has this name, even a link to nothing."""
        path = f"{self.log_dir}/{name}"
        status = self._fs.status(path)
        return status is not None or is_link(self._fs, path, status)

    def _inode(self, name: str) -> int | None:
        """Return the inode of a directory; None if there is none of this name, but a link, a file or nothing."""
        status = self._fs.status(f"{self.log_dir}/{name}")
        return None if status is None or status.is_symlink or not status.is_directory else status.inode


_SWAPPED = "it is not the directory that the import has built"


@dataclass(frozen=True, slots=True)
class ImportLeftovers:
    """Staged partitions in a log directory; `run` is the interrupted committed run, None if there is none.

    `coming` lists the partitions of this run that are not in their places yet, `lost` the names of partitions that a
    broker has removed since. `what` is the caller's data in the record of the run. `stale` lists the directories of
    runs that are not committed, or that are at work; without a `run` only `stale` may have entries.
    """

    run: str | None = None
    coming: tuple[ComingFile, ...] = ()
    lost: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()
    what: dict[str, Any] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self.run is not None or bool(self.stale)

    def place_of(self, staged: str) -> str | None:
        """Return the final name of a staged directory of the committed run, None for other directories."""
        return next((one.path for one in self.coming if one.staged == staged), None)


def import_leftovers(fs: Filesystem, log_dir: str, directories: Iterable[str]) -> ImportLeftovers:
    """Find leftovers among `directories` (names).

    Raises UnsupportedFormat if the record is invalid, Unreadable, OSError.
    """
    root = log_dir.rstrip("/")
    record = record_of(fs, root)
    staged = [name for name in directories if is_staged(name)]
    if record is None:
        return ImportLeftovers(stale=tuple(staged))
    coming = tuple(one for one in record.coming if one.staged in staged)
    gone = [one.path for one in record.coming if one not in coming]
    lost = tuple(name for name in gone if not _is_placed(fs, f"{root}/{name}", record, name))
    waiting = {one.staged for one in coming}
    return ImportLeftovers(
        record.run, coming, lost, tuple(name for name in staged if name not in waiting), dict(record.what)
    )


def _is_placed(fs: Filesystem, path: str, record: RunRecord, name: str) -> bool:
    status = fs.status(path)
    return status is not None and status.inode == record.state.get("inodes", {}).get(name)
