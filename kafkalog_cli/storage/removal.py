"""Removing for good what nothing refers to any more: files that are due, and runs that are old."""

from __future__ import annotations

from collections.abc import Iterable

from kafkalog_cli.errors import Refused
from kafkalog_cli.storage.durable import not_changed, remove_if_there, sync_directory
from kafkalog_cli.storage.fs import FileStatus, WritableFilesystem
from kafkalog_cli.storage.manifest import MANIFEST, run_directory, runs_directory


def remove_files(fs: WritableFilesystem, directory: str, files: Iterable[FileStatus]) -> None:
    """Unlink files of `directory` if they are still what they were. Raises Refused, NotChanged, SyncFailed."""
    found = list(files)
    for file in found:
        now = fs.status(file.path)
        if now is not None and (now.size_bytes, now.mtime_ms, now.inode) != (
            file.size_bytes,
            file.mtime_ms,
            file.inode,
        ):
            raise Refused(path=file.path, reason="it was changed since it was looked at")
    try:
        for file in found:
            remove_if_there(fs, file.path)
        if found:
            sync_directory(fs, directory)
    except OSError as error:
        raise not_changed(directory, error) from error


def _identity(file: FileStatus) -> tuple[int, int, int]:
    return file.inode, file.size_bytes, file.mtime_ms


def remove_run_directory(fs: WritableFilesystem, directory: str, run_id: str) -> None:
    """Remove a run with all that it kept, the manifest last: a run of which something is gone refuses its undo."""
    path = run_directory(directory, run_id)
    try:
        for entry in fs.list_directory(path):
            if not entry.path.endswith(f"/{MANIFEST}"):
                remove_if_there(fs, entry.path)
        sync_directory(fs, path)
        remove_if_there(fs, f"{path}/{MANIFEST}")
        fs.remove_directory(path)
        sync_directory(fs, runs_directory(directory))
    except OSError as error:
        raise not_changed(path, error) from error
