"""The output directory of runs: staging, the commit of a run by one rename, and the completion of one cut off.

Tasks write into `.kafkalog/<run>` of the output. A run is committed by the replacement of its record, which names all
of its files; only then do they get their places. Cut off before that, a run leaves nothing that is seen, and the next
one removes its files; cut off after it, the next one gives the files that are left their places. So a state that is in
the record, and the files, belong together at any time.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, suppress
from dataclasses import replace

from kafkalog_cli.errors import KafkalogError, NotKafkaLayout, PathNotFound, Refused, SyncFailed
from kafkalog_cli.storage.changing.durable import (
    NO_HARD_LINKS,
    attributes_in,
    half_published,
    not_changed,
    remove_if_there,
    replace_file,
    sync_directory,
    try_to_remove,
)
from kafkalog_cli.storage.changing.lock import LockPolicy, lock_own_directory
from kafkalog_cli.storage.fs import FileAttributes, WritableFilesystem
from kafkalog_cli.storage.named_places import check_named_directory, check_named_file
from kafkalog_cli.storage.names import OWN_DIRECTORY
from kafkalog_cli.storage.publishing.record import ComingFile, Record, read_record, record_bytes

_RECORD = "committed.json"
_ABSENT = (FileNotFoundError, PathNotFound)


class OutputDirectory:
    """One run at a time on `path`, which is made, from `with` to its end. The record is kept at `record_path`.

    Without a `record_path` it lies in the output while files of its run come to their places, and then goes.
    Raises Locked, NotKafkaLayout (no directory), NotChanged, NoSpace, Refused, Unreadable.
    """

    def __init__(
        self, fs: WritableFilesystem, path: str, record_path: str | None, now_ms: int, policy: LockPolicy | None = None
    ) -> None:
        self.path = _full(path)
        self._fs = fs
        self._is_kept = record_path is not None
        self._record_path = f"{self._own}/{_RECORD}" if record_path is None else _full(record_path)
        self._now_ns = now_ms * 1_000_000
        self._policy = policy or LockPolicy()
        self._locks = ExitStack()

    @property
    def _own(self) -> str:
        return f"{self.path}/{OWN_DIRECTORY}"

    def __enter__(self) -> OutputDirectory:
        check_named_directory(self._fs, self.path)
        if self._is_kept:
            check_named_file(self._fs, self._record_path)
        status = self._fs.status(self.path)
        if status is not None and not status.is_directory:
            raise NotKafkaLayout(path=self.path, reason="is not a directory")
        try:
            self._make(self.path)
        except (OSError, SyncFailed) as error:
            raise not_changed(self.path, error) from error
        lock = lock_own_directory(self._fs, self.path, self._policy)
        if lock is not None:
            self._locks.enter_context(lock)
        return self

    def __exit__(self, *_: object) -> None:
        self._locks.close()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is in it but what is ours."""
        return all(entry.path.rpartition("/")[2] == OWN_DIRECTORY for entry in self._fs.list_directory(self.path))

    def record(self) -> Record | None:
        """What the last run committed; its files may still be to come. Raises as `read_record`, and Refused."""
        found = read_record(self._fs, self._record_path)
        if found is not None and found.output != self.path:
            raise Refused(path=self._record_path, reason=f"it tells of {found.output}, not of {self.path}")
        return found

    def staging(self, run: str) -> str:
        """Where the files of a run are written before they are seen."""
        return f"{self._own}/{run}"

    def begin(self, run: str) -> str:
        """Remove what earlier runs left, and make the staging directory. Raises NotChanged, NoSpace."""
        try:
            self._sweep()
            self._make(self.staging(run))
        except (OSError, SyncFailed) as error:
            raise not_changed(self.path, error) from error
        return self.staging(run)

    def abandon(self, run: str) -> None:
        """The run failed: what it staged goes, as far as that can be done."""
        with suppress(OSError, KafkalogError):
            self._remove(self.staging(run))

    def new_file(self) -> FileAttributes:
        """What files in the output have: owner, group and mode as the directory."""
        return attributes_in(self._fs, self.path)._replace(mtime_ns=self._now_ns)

    def publish(self, record: Record) -> None:
        """Commit the run, of which all files are on the disk, and give them their places.

        Raises NotChanged and NoSpace where it is not committed, HalfPublished where it is, and files are to come.
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

    def complete(self, record: Record) -> Record:
        """Give the files that a committed run has still to come their places; the record then. Raises HalfPublished."""
        done = replace(record, coming=())
        try:
            directories = {self.path}
            for one in record.coming:
                directories |= self._place(record, one)
            for directory in sorted(directories, key=len, reverse=True):
                sync_directory(self._fs, directory)
            if self._is_kept:
                if record.coming:
                    self._write(done)
            elif remove_if_there(self._fs, self._record_path):
                sync_directory(self._fs, self._own)
        except (OSError, SyncFailed) as error:
            raise half_published(self.path, error) from error
        self.abandon(record.run)
        return done

    def _write(self, record: Record) -> None:
        path = self._record_path
        parent = path.rpartition("/")[0] or "/"
        attributes = None
        if self._fs.status(path) is None:
            attributes = attributes_in(self._fs, parent)._replace(mtime_ns=self._now_ns)
        replace_file(self._fs, path, record_bytes(record), attributes)

    def _must_be_free(self, one: ComingFile) -> None:
        path = f"{self.path}/{one.path}"
        if self._fs.status(path) is not None:
            raise Refused(path=path, reason="a file has this name already, and is not replaced")

    def _place(self, record: Record, one: ComingFile) -> set[str]:
        """The directories in which names changed. A second name first: the file is never without one."""
        staged, path = f"{self.staging(record.run)}/{one.staged}", f"{self.path}/{one.path}"
        source, target = self._fs.status(staged), self._fs.status(path)
        if source is None:  # it is in its place, or was there and somebody took it
            if target is None and self._fs.status(self.staging(record.run)) is None:
                reason = f"{self.staging(record.run)} is gone, where a committed run had it"
                raise Refused(path=path, reason=f"it is missing, and {reason}")
            return set()
        if target is not None and target.inode != source.inode:
            raise Refused(path=path, reason="a file has this name already, and is not replaced")
        parent = path.rpartition("/")[0]
        changed = self._make(parent) | {parent}
        if target is None:
            try:
                self._fs.link(staged, path)
            except OSError as error:
                if error.errno not in NO_HARD_LINKS:
                    raise
                self._fs.rename(staged, path)
        return changed

    def _make(self, directory: str) -> set[str]:
        """Make a directory and those above it, like what they lie in; where names came. They are on the disk."""
        if self._fs.status(directory) is not None:
            return set()
        parent = directory.rpartition("/")[0] or "/"
        changed = self._make(parent) | {parent}
        with suppress(FileExistsError):
            self._fs.make_directory(directory)
            self._fs.set_attributes(directory, self._fs.attributes(parent)._replace(xattrs=()))
        sync_directory(self._fs, parent)
        return changed

    def _sweep(self) -> None:
        with suppress(*_ABSENT):
            for entry in self._fs.list_directory(self._own):
                if entry.is_directory:
                    self._remove(entry.path)

    def _remove(self, directory: str) -> None:
        with suppress(*_ABSENT):
            for entry in self._fs.list_directory(directory):
                try_to_remove(self._fs, entry.path)
            self._fs.remove_directory(directory)


def _full(path: str) -> str:
    return os.path.abspath(path)  # noqa: PTH100
