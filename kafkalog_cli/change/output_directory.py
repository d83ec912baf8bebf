"""The output directory of runs: staging, commit of a run by one rename, and completion of an interrupted run.

Tasks write into `.kafkalog/<run>` of the output. A run is committed when its record is replaced, which names all of
its files; only then are they moved to their places. A run that was interrupted before its commit leaves nothing
visible, and the next run removes its files. After the commit, the next run moves the remaining files. So the state in
the record always agrees with the files.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from typing import Annotated, Any, NamedTuple

from kafkalog_cli.change.removal import try_to_remove_directory
from kafkalog_cli.disk.durable import (
    not_changed,
    remove_if_there,
    sync_directory,
    try_to_link,
    unfinished,
)
from kafkalog_cli.disk.fs import FileAttributes, Filesystem, WritableFilesystem, read_all
from kafkalog_cli.disk.lock import PARTITION_LOCK, LockPolicy, lock_own_directory
from kafkalog_cli.disk.named_places import (
    check_named_file,
    check_no_stream,
    check_output_directory,
    replace_output,
)
from kafkalog_cli.disk.names import OWN_DIRECTORY
from kafkalog_cli.errors import (
    HalfPublished,
    KafkalogError,
    NotKafkaLayout,
    RecordNotGone,
    Refused,
    SyncFailed,
    UnsupportedFormat,
)
from kafkalog_cli.format.strict_json import LIMIT_BYTES, anything, form_of, integer, parse, plain, table, text

VERSION = 1
_MOST_NAMES = 64
_MOST_NAME_BYTES = 255
_MOST_PATH_BYTES = 4095


def _name_below(value: Any) -> str:
    """A relative path that stays in its directory: files are moved and removed by it."""
    path = text(value)
    names = path.split("/")
    is_long = _size(path) > _MOST_PATH_BYTES or max(map(_size, names)) > _MOST_NAME_BYTES or len(names) > _MOST_NAMES
    if is_long or "\0" in path or not {"", ".", ".."}.isdisjoint(names):
        raise ValueError(f"{path[:_MOST_NAME_BYTES]!r} is not the name of a file below it")
    return path


def _size(name: str) -> int:
    return len(name.encode("utf-8", "surrogateescape"))


def _plain_name(value: Any) -> str:
    """The name of a file in a directory."""
    if "/" in text(value):
        raise ValueError(f"{value[:_MOST_NAME_BYTES]!r} is not the name of a file below it")
    return _name_below(value)


class ComingFile(NamedTuple):
    """A complete file in the staging directory, under the name `staged`; `path` is its place in the output.

    `facts` is the caller's data about the file, for use when the file is in its place.
    """

    staged: Annotated[str, _plain_name]
    path: Annotated[str, _name_below]
    facts: Mapping[str, Any] | None = None


class RunRecord(NamedTuple):
    """The record of a committed run.

    `output` is the directory. `what` says how its files are made, and `state` what they contain; both are data of the
    caller. `coming` lists the files of `run` that may not be in their places yet.
    """

    output: str
    run: Annotated[str, _plain_name]
    what: Mapping[str, Any]
    state: Mapping[str, Any]
    coming: tuple[ComingFile, ...]


def _check_nothing(_: RunRecord) -> None:
    pass


def read_record(fs: Filesystem, path: str, check: Callable[[RunRecord], None] = _check_nothing) -> RunRecord | None:
    """Read the record in a file, None if the file does not exist. Raises UnsupportedFormat, Unreadable, OSError.

    `check` raises ValueError for data that the caller has not written.
    """
    status = fs.status(path)
    if status is None:
        return None
    try:
        if status.size_bytes > LIMIT_BYTES:
            raise ValueError(f"it has {status.size_bytes} bytes, and a record at most {LIMIT_BYTES}")
        document = table(text, anything)(parse(read_all(fs, path, LIMIT_BYTES)))
        integer(VERSION, VERSION)(document.pop("version", None))
        record: RunRecord = form_of(RunRecord)(document)
        for names in ({one.staged for one in record.coming}, {one.path for one in record.coming}):
            if len(names) < len(record.coming):
                raise ValueError("two files have one name")
        check(record)
    except ValueError as error:
        reason = f"no earlier run wrote this content, so the end of that run is not known: {error}"
        raise UnsupportedFormat(path=path, reason=reason) from error
    return record


def record_bytes(record: RunRecord) -> bytes:
    """Return the bytes of the record's file, which `read_record` reads. Raises Refused if they would be too many."""
    content = (json.dumps({"version": VERSION, **plain(record)}, indent=1) + "\n").encode()
    if len(content) > LIMIT_BYTES:
        reason = f"the record of the run would have {len(content)} bytes, and is read up to {LIMIT_BYTES}"
        raise Refused(path=record.output, reason=f"{reason}: export fewer partitions, or larger files")
    return content


def forget_record(fs: WritableFilesystem, path: str, output: str) -> None:
    """Remove the record of a run of which all files are in their places on the disk. Raises OSError, RecordNotGone."""
    if remove_if_there(fs, path):
        try:
            sync_directory(fs, path.rpartition("/")[0])
        except SyncFailed as error:
            raise unfinished(RecordNotGone, output, error) from error


_RECORD = "committed.json"


class OutputDirectory:
    """The output directory `path`, which is created and locked inside `with`, so that only one run uses it.

    If the run fails before its commit, it removes the directories and the lock that it made. The record is kept at
    `record_path`. If that is None, the record is in the output until the files of the run are in their places, and is
    then removed. Raises Locked, NotKafkaLayout (`path` is not a directory), NotChanged,
    NoSpace, Refused, Unreadable, UsageError.
    """

    def __init__(
        self, fs: WritableFilesystem, path: str, record_path: str | None, policy: LockPolicy | None = None
    ) -> None:
        check_no_stream(path)
        self.path = _full(path)
        self._fs = fs
        self._is_kept = record_path is not None
        self._record_path = f"{self._own}/{_RECORD}" if record_path is None else _full(record_path)
        self._policy = policy or LockPolicy()
        self._locks = ExitStack()
        self._made: list[str] = []

    @property
    def _own(self) -> str:
        return f"{self.path}/{OWN_DIRECTORY}"

    def __enter__(self) -> OutputDirectory:
        check_output_directory(self._fs, self.path)
        if self._is_kept:
            check_named_file(self._fs, self._record_path)
        status = self._fs.status(self.path)
        if status is not None and not status.is_directory:
            raise NotKafkaLayout(path=self.path, reason="is not a directory")
        self._made = self._missing(self._own)
        try:
            self._make(self._own)
            self._locks.enter_context(lock_own_directory(self._fs, self.path, self._policy))
        except BaseException as error:
            self._take_back()  # a lock that is there may be another run's
            if isinstance(error, (OSError, SyncFailed)):
                raise not_changed(self.path, error) from error
            raise
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        with self._locks:
            if kind is not None:
                self._take_back(f"{self._own}/{PARTITION_LOCK}")

    @property
    def is_empty(self) -> bool:
        """Whether the directory has nothing but kafkalog's own subdirectory."""
        return all(entry.path.rpartition("/")[2] == OWN_DIRECTORY for entry in self._fs.list_directory(self.path))

    def record(self) -> RunRecord | None:
        """Return the record of the last committed run, which may not be complete; None if there is none.

        Raises the errors of `read_record`, and Refused if the record is of another directory.
        """
        found = read_record(self._fs, self._record_path)
        if found is not None and found.output != self.path:
            raise Refused(path=self._record_path, reason=f"it is the record of {found.output}, not of {self.path}")
        return found

    def staging(self, run: str) -> str:
        """Return the staging directory of a run, where its files are written."""
        return f"{self._own}/{run}"

    def begin(self, run: str) -> str:
        """Remove the files of earlier runs, and create the staging directory. Raises NotChanged, NoSpace."""
        try:
            for entry in self._fs.list_directory(self._own):
                if entry.is_directory:
                    try_to_remove_directory(self._fs, entry.path)
            self._make(self.staging(run))
        except (OSError, SyncFailed) as error:
            raise not_changed(self.path, error) from error
        return self.staging(run)

    def abandon(self, run: str) -> None:
        """Remove the staged files of a failed or completed run, as far as possible."""
        try_to_remove_directory(self._fs, self.staging(run))

    def publish(self, record: RunRecord) -> None:
        """Commit the run, whose files must all be on the disk, and move them to their places.

        Raises NotChanged, NoSpace and Refused if the run is not committed. Raises HalfPublished, or Refused if a place
        was taken since, if the run is committed but not complete.
        """
        try:
            if record.coming:
                for directory in (self.staging(record.run), self._own, self.path):
                    sync_directory(self._fs, directory)
            for one in record.coming:
                self._must_be_free(one)
            self._write(record)
        except (OSError, SyncFailed) as error:
            raise not_changed(self.path, error) from error
        self.complete(record)

    def complete(self, record: RunRecord) -> RunRecord:
        """Move the remaining files of a committed run to their places; return the record without them.

        Raises HalfPublished, RecordNotGone, and Refused if another file is in such a place.
        """
        done = record._replace(coming=())
        try:
            directories = {self.path}
            for one in record.coming:
                directories |= self._place(record, one)
            for directory in sorted(directories, key=len, reverse=True):
                sync_directory(self._fs, directory)
            if self._is_kept:
                if record.coming:
                    self._write(done)
            else:
                forget_record(self._fs, self._record_path, self.path)
        except (OSError, SyncFailed) as error:
            raise unfinished(HalfPublished, self.path, error) from error
        self.abandon(record.run)
        return done

    def _write(self, record: RunRecord) -> None:
        replace_output(self._fs, self._record_path, record_bytes(record))

    def _must_be_free(self, one: ComingFile) -> None:
        path = f"{self.path}/{one.path}"
        if self._fs.status(path) is not None:
            raise Refused(path=path, reason="a file has this name already, and is not replaced")

    def _place(self, record: RunRecord, one: ComingFile) -> set[str]:
        """Move a file to its place and return the directories in which names changed. Raises Refused.

        The file gets its new name by a hard link, so it always has a name; without hard links it is renamed.
        """
        staged, path = f"{self.staging(record.run)}/{one.staged}", f"{self.path}/{one.path}"
        source, target = self._fs.status(staged), self._fs.status(path)
        if source is None:  # the file is in its place, or was there and has been removed since
            if target is None and self._fs.status(self.staging(record.run)) is None:
                reason = f"{self.staging(record.run)} is missing too, where a committed run had it"
                raise Refused(path=path, reason=f"it is missing, and {reason}")
            return set()
        if target is not None and target.inode != source.inode:
            raise Refused(path=path, reason="a file has this name already, and is not replaced")
        parent = path.rpartition("/")[0]
        changed = self._make(parent) | {parent}
        if target is None and not try_to_link(self._fs, staged, path):
            self._fs.rename(staged, path)
        return changed

    def _make(self, directory: str) -> set[str]:
        """Create a directory and its missing parents, and sync them; return the directories in which names changed."""
        missing = self._missing(directory)
        directory = missing[-1].rpartition("/")[0] or "/" if missing else directory
        for made in reversed(missing):
            with suppress(FileExistsError):
                self._fs.make_directory(made, self._own_attributes() if made == self._own else None)
            sync_directory(self._fs, directory)
            directory = made
        return {made.rpartition("/")[0] or "/" for made in missing}

    def _own_attributes(self) -> FileAttributes:
        """Return the attributes of `.kafkalog`: whoever may write into the output may lock it there too."""
        return self._fs.attributes(self.path)._replace(owner_id=os.geteuid())

    def _missing(self, directory: str) -> list[str]:
        """Return the directories of a path that do not exist yet, the deepest first."""
        missing = []
        while self._fs.status(directory) is None:
            missing.append(directory)
            directory = directory.rpartition("/")[0] or "/"
        return missing

    def _take_back(self, lock: str | None = None) -> None:
        """Remove the directories that this run made and that are empty, or have nothing but its `lock`."""
        for made in self._made:
            with suppress(OSError, KafkalogError):
                if lock is not None and [one.path for one in self._fs.list_directory(made)] == [lock]:
                    self._fs.unlink(lock)
                self._fs.remove_directory(made)


def _full(path: str) -> str:
    return os.path.abspath(path)  # noqa: PTH100
