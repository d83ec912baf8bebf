"""Remove files, the directory of a run, or a directory with all of its contents. No undo follows."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from kafkalog_cli.change.runs import MANIFEST, run_directory, runs_directory
from kafkalog_cli.disk.durable import (
    partly_removed,
    remove_if_there,
    sync_directory,
    tells_nothing_changed,
)
from kafkalog_cli.disk.fs import FileStatus, Filesystem, WritableFilesystem
from kafkalog_cli.errors import KafkalogError, Refused, SyncFailed, Unreadable, shell_word


@contextmanager
def partly(path: str, *, is_begun: bool) -> Iterator[None]:
    """Re-raise an I/O error as PartlyRemoved if files were already removed (`is_begun`). A later run continues."""
    try:
        yield
    except (KafkalogError, OSError) as error:
        cause = error.__cause__ if isinstance(error, KafkalogError) and tells_nothing_changed(error) else error
        if not is_begun or not isinstance(cause, (OSError, SyncFailed, Unreadable)):
            raise
        raise partly_removed(path, 1, cause) from error


def remove_files(
    fs: WritableFilesystem, directory: str, files: Iterable[FileStatus], removed: list[FileStatus] | None = None
) -> None:
    """Unlink files of `directory` unless one of them has changed since its status was read.

    `removed` gets each file that is gone, also if an error follows. Raises Refused, NotChanged, PartlyRemoved, NoSpace.
    """
    found, removed = list(files), [] if removed is None else removed
    for file in found:
        now = fs.status(file.path)
        if now is not None and _identity(now) != _identity(file):
            raise Refused(path=file.path, reason="it has changed since the plan was made")
    gone = 0
    try:
        for file in found:
            gone += remove_if_there(fs, file.path)
            removed.append(file)
        if found:
            sync_directory(fs, directory)
    except (OSError, SyncFailed, Unreadable) as error:
        raise partly_removed(directory, gone, error) from error


def _identity(file: FileStatus) -> tuple[int, int, int]:
    return file.inode, file.size_bytes, file.mtime_ms


def remove_run_directory(fs: WritableFilesystem, directory: str, run_id: str) -> None:
    """Remove a run and all files that it kept. The manifest comes last: without a kept file the undo is refused.

    Raises NotChanged, PartlyRemoved, NoSpace.
    """
    path = run_directory(directory, run_id)
    gone = 0
    try:
        for entry in fs.list_directory(path):
            if not entry.path.endswith(f"/{MANIFEST}"):
                gone += remove_if_there(fs, entry.path)
        sync_directory(fs, path)
        gone += remove_if_there(fs, f"{path}/{MANIFEST}")
        fs.remove_directory(path)
        sync_directory(fs, runs_directory(directory))
    except (OSError, SyncFailed, Unreadable) as error:
        raise partly_removed(path, gone, error) from error


def entries_below(fs: Filesystem, path: str) -> list[tuple[str, bool]]:
    """Return all entries below a directory, contents before their directory, and whether each is a directory.

    A link is an entry, and not followed. Raises Refused for directories that are nested deeper than kafkalog and
    brokers nest them, and what `list_directory` raises.
    """
    found: list[tuple[str, bool]] = []
    waiting = [(path, 0)]
    while waiting:
        directory, depth = waiting.pop()
        if depth > _MOST_DEPTH:
            reason = f"its directories are nested more than {_MOST_DEPTH} deep, and Kafka makes none like that"
            raise Refused(path=path, reason=f"{reason}; `rm -r {shell_word(path)}` removes it")
        for entry in fs.list_directory(directory):
            is_directory = entry.is_directory and not entry.is_symlink
            found.append((entry.path, is_directory))
            if is_directory:
                waiting.append((entry.path, depth + 1))
    return found[::-1]


_MOST_DEPTH = 16


def remove_directory(fs: WritableFilesystem, path: str) -> None:
    """Remove a directory with everything in it. Links inside it are removed, but not followed.

    Raises NotChanged, PartlyRemoved, NoSpace. Raises Refused if `path` itself is a symbolic link, and as
    `entries_below`: nothing is removed then.
    """
    status = fs.status(path)
    if status is not None and status.is_symlink:
        raise Refused(path=path, reason="it is a symbolic link, and its target is not removed")
    gone = 0
    try:
        for entry, is_directory in entries_below(fs, path):
            if is_directory:
                fs.remove_directory(entry)
            else:
                gone += remove_if_there(fs, entry)
        fs.remove_directory(path)
        sync_directory(fs, path.rpartition("/")[0] or "/")
    except (OSError, SyncFailed, Unreadable) as error:
        raise partly_removed(path, gone, error) from error


def try_to_remove_directory(fs: WritableFilesystem, path: str) -> None:
    """Remove a directory with everything in it, as far as possible. A link is left alone, and so is its target."""
    with suppress(OSError, KafkalogError):
        status = fs.status(path)
        if status is None or status.is_symlink:
            return
        for entry, is_directory in entries_below(fs, path):
            with suppress(OSError):
                if is_directory:
                    fs.remove_directory(entry)
                else:
                    fs.unlink(entry)
        fs.remove_directory(path)
