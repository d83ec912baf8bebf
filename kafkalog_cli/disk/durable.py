"""Writing files that survive a power cut: the content is synced before the file gets its name, the directory after."""

import errno
import os
import re
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Protocol

from kafkalog_cli.disk.fs import FileAttributes, FileStatus, Filesystem, WritableFile, WritableFilesystem
from kafkalog_cli.disk.names import FileKind, WorkState, classify_file
from kafkalog_cli.disk.ownership import NotGiven
from kafkalog_cli.errors import (
    NO_ROOM,
    HalfChanged,
    HalfDiscarded,
    KafkalogError,
    MarkerKept,
    MarkerLeftAway,
    NoSpace,
    NotChanged,
    NotImported,
    PartlyRemoved,
    SyncFailed,
    SyncFoundNoSpace,
    Unreadable,
)

PIECE_BYTES = 1 << 20
_HOLE_BYTES = 4096
_ZEROS = bytes(_HOLE_BYTES)
NO_HARD_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS)
"""Error numbers of a refused hard link. EPERM is also the error where fs.protected_hardlinks refuses the link."""
TEMPORARY_SUFFIX = ".tmp"
_OWN_TEMPORARY = ".kafkalog.tmp"
_TEMPORARY_NAME = re.compile(rf".+\.[0-9a-f]{{16}}{re.escape(_OWN_TEMPORARY)}", re.DOTALL)


class Content(Protocol):
    """The bytes of a file that a change will write, available piece by piece."""

    @property
    def size_bytes(self) -> int:
        """The number of bytes in all pieces."""

    def pieces(self) -> Iterator[bytes]:
        """Yield all bytes in order. Each call starts from the first byte."""


def attributes_in(fs: WritableFilesystem, directory: str) -> FileAttributes:
    """Return the attributes for a new file: the directory's owner and group, and the rw bits of its mode."""
    found = fs.attributes(directory)
    return found._replace(mode=found.mode & 0o666, xattrs=())


def sync(file: WritableFile) -> None:
    """Sync a file to the disk. Raises SyncFailed: the data may then be lost even from the cache; do not retry."""
    try:
        file.sync()
    except OSError as error:
        raise _sync_failed(file.path, error) from error


def sync_directory(fs: WritableFilesystem, path: str) -> None:
    """Sync the names in a directory to the disk. Raises SyncFailed."""
    try:
        fs.sync_directory(path)
    except OSError as error:
        raise _sync_failed(path, error) from error


def rename_directory(fs: WritableFilesystem, path: str, new_path: str) -> None:
    """Rename a directory within its parent and sync the parent. Raises NotChanged, NoSpace, SyncFailed."""
    try:
        fs.rename(path, new_path)
    except OSError as error:
        raise not_changed(path, error) from error
    sync_directory(fs, new_path.rpartition("/")[0])


def _sync_failed(path: str, error: OSError) -> SyncFailed:
    """Return the error for a failed sync. Some file systems detect only in a sync that they are full."""
    kind = SyncFoundNoSpace if error.errno in NO_ROOM else SyncFailed
    return kind(path=path, reason=error_text(error))


class NameChanges:
    """The directories with changed names that are not synced yet, and the rules for when they must be synced.

    A power cut may undo any changes that were not synced, in any combination. The rules are therefore:

    - If a file was renamed, no other file gets its old name before the rename is on the disk.
    - No log gets its name before the removal of other logs is on the disk: a segment beside its replacement would
      have each record twice.
    - While a segment is swapped in, all its files have one work suffix on the disk before the first file gets the next.
    """

    def __init__(self, fs: WritableFilesystem) -> None:
        self._fs = fs
        self._directories: set[str] = set()
        self._given_away: set[str] = set()
        self._logs_left: set[str] = set()
        self._last_state = WorkState.IN_PLACE

    def announce(self, *, filled: str, left: str | None = None) -> None:
        """Prepare for a file to get the path `filled`. `left`: its present path in a rename, None for other files."""
        state = _state_of(filled)
        if (self._last_state, state) in _STEPS:
            self.sync()
        self._last_state = state
        if filled in self._given_away or (_is_log(filled) and self._logs_left - {filled}):
            self.sync()
        self.note(filled)
        if left is not None:
            self.leave(left, filled)
            self._given_away.add(left)

    def leave(self, path: str, filled: str | None = None) -> None:
        """Prepare for the file at `path` to be removed, replaced or renamed (to the path `filled`)."""
        if _is_log(path) and self._logs_left - {path, filled}:
            self.sync()
        self.note(path)
        if _is_log(path):
            self._logs_left.add(path)

    def note(self, path: str) -> None:
        """Record that the directory of `path` needs a sync: its attributes changed, or a name that no log needs."""
        self._directories.add(path.rpartition("/")[0])

    def sync(self) -> None:
        """Sync all recorded directories, the deepest first: a file that was moved into one of them must not be lost."""
        for directory in sorted(self._directories, key=len, reverse=True):
            sync_directory(self._fs, directory)
        self._directories.clear()
        self._given_away.clear()
        self._logs_left.clear()


_STEPS = (
    (WorkState.IN_PLACE, WorkState.CLEANED),
    (WorkState.CLEANED, WorkState.SWAP),
    (WorkState.SWAP, WorkState.DELETED),
)
"""Pairs of work states between which all names are synced."""


def _state_of(path: str) -> WorkState:
    return classify_file(path.rpartition("/")[2]).state


def _is_log(path: str) -> bool:
    return path.endswith(FileKind.LOG.value)


def temporary_of(path: str) -> str:
    """Return a new path beside `path`, in a form that only kafkalog uses for its temporary files.

    PATH.tmp would not do: a user may have such a file, and a broker writes its checkpoints under such names.
    """
    return f"{path}.{os.urandom(8).hex()}{_OWN_TEMPORARY}"


def sweep_temporaries(fs: WritableFilesystem, directory: str) -> None:
    """Remove the temporary files that killed runs left in a directory. Errors are ignored.

    The caller holds the lock under which such files are written in this directory.
    """
    with suppress(OSError, KafkalogError):
        for entry in fs.list_directory(directory):
            if entry.is_file and not entry.is_symlink and _TEMPORARY_NAME.fullmatch(entry.path.rpartition("/")[2]):
                try_to_remove(fs, entry.path)


def check_replaceable(fs: WritableFilesystem, path: str) -> None:
    """Raises OSError if `path` must not be replaced: a symbolic link (ELOOP), a directory or a device (EINVAL)."""
    found = fs.status(path)
    if is_link(fs, path, found):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
    if found is not None and not found.is_file:
        raise OSError(errno.EINVAL, "not a regular file", path)


def is_link(fs: WritableFilesystem, path: str, found: FileStatus | None) -> bool:
    """Whether `path` is a symbolic link. `found` is its status, which is None for a dangling link."""
    if found is not None:
        return found.is_symlink
    try:
        fs.attributes(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


_LEAST_BYTES = 128 << 10
"""Smaller pieces are gathered until they have as many bytes."""


class StagedFile:
    """A file that is written in large pieces; `finish` syncs its bytes, but not its name, and `drop` removes it."""

    def __init__(self, fs: WritableFilesystem, path: str, attributes: FileAttributes | None = None) -> None:
        self.path = path
        self.closed = False
        self._fs = fs
        self._file = fs.create(path, attributes)
        self._size_bytes = 0
        self._gathered = bytearray()

    def write(self, data: bytes | bytearray | memoryview) -> int:
        """Append `data` and return its number of bytes. Raises OSError."""
        if len(data) >= _LEAST_BYTES:
            self._write_gathered()
            self._file.write(self._size_bytes, memoryview(data))
        else:
            self._gathered += data
        self._size_bytes += len(data)
        if len(self._gathered) >= _LEAST_BYTES:
            self._write_gathered()
        return len(data)

    def _write_gathered(self) -> None:
        if self._gathered:
            with memoryview(self._gathered) as gathered:
                self._file.write(self._size_bytes - len(gathered), gathered)
            self._gathered.clear()

    def tell(self) -> int:
        """Return the number of bytes written so far."""
        return self._size_bytes

    def flush(self) -> None:
        """Do nothing: nobody reads the file before `finish`, so pending bytes wait for more."""

    def isatty(self) -> bool:
        """Return False."""
        return False

    def finish(self, attributes: FileAttributes | None = None, *, is_kept: bool = True) -> int:
        """Sync all written bytes to the disk, close the file, and return its size. Raises OSError, SyncFailed.

        `attributes`: set them at last, since writing changes the mtime. A file that is not kept after the run is not
        synced.
        """
        self._write_gathered()
        if attributes is not None:
            self._fs.set_attributes(self.path, attributes)
        if is_kept:
            sync(self._file)
        self.close()
        return self._size_bytes

    def drop(self) -> None:
        """Close and remove the file."""
        self.close()
        try_to_remove(self._fs, self.path)

    def close(self) -> None:
        """Close the file descriptor."""
        if not self.closed:
            self.closed = True
            self._file.close()


@contextmanager
def new_file(
    fs: WritableFilesystem,
    path: str,
    attributes: FileAttributes | None = None,
    *,
    temporary: str | None = None,
    keep_mtime: bool = False,
) -> Iterator[StagedFile]:
    """Open a stream for the content of the file at `path`. When the block ends, it is synced and gets its name.

    A file there is replaced. After an error nothing of the new file is left. `keep_mtime`: set the mtime of the
    attributes too. `temporary` is the path of the temporary file if the caller chooses it; a file that a crash left
    there is removed. Raises OSError (ELOOP for a link, EINVAL if `path` is not a regular file), SyncFailed.
    """
    check_replaceable(fs, path)
    if temporary is not None:
        remove_if_there(fs, temporary)
    file = StagedFile(fs, temporary or temporary_of(path), attributes)
    try:
        yield file
        file.finish(attributes if keep_mtime else None)
        fs.rename(file.path, path)
    except BaseException:
        file.drop()
        raise
    sync_directory(fs, path.rpartition("/")[0] or ".")


def replace_file(  # noqa: PLR0913
    fs: WritableFilesystem,
    path: str,
    content: bytes | Content,
    attributes: FileAttributes | None,
    *,
    temporary: str | None = None,
    keep_mtime: bool = False,
) -> None:
    """Give `path` this content atomically and durably. `attributes` None: those of the replaced file.

    The rest is as in `new_file`; if an OSError is raised, nothing was replaced.
    """
    if attributes is None and fs.status(path) is not None:
        attributes = fs.attributes(path)
    with new_file(fs, path, attributes, temporary=temporary, keep_mtime=keep_mtime) as file:
        for piece in (content,) if isinstance(content, bytes) else content.pieces():
            file.write(piece)


def write_with_holes(file: WritableFile, position: int, pieces: Iterable[bytes]) -> int:
    """Write `pieces` from byte `position` on, with blocks of zeros as holes. Return the new end of the file.

    The file must not extend beyond `position` yet.
    """
    for piece in pieces:
        position = _write_block(file, position, piece)
    file.truncate(position)
    return position


def _write_block(file: WritableFile, position: int, block: bytes) -> int:
    start = 0  # of the bytes that are not written yet
    for at in range(0, len(block), _HOLE_BYTES):
        if block[at : at + _HOLE_BYTES] == _ZEROS:
            if at > start:
                file.write(position + start, memoryview(block)[start:at])
            start = at + _HOLE_BYTES
    if start < len(block):
        file.write(position + start, memoryview(block)[start:])
    return position + len(block)


def read_pieces(fs: Filesystem, path: str, start: int, end: int) -> Generator[bytes, None, None]:
    """Yield the bytes of a file from `start` to `end` in pieces of at most PIECE_BYTES.

    The file stays open until the last piece was taken or the generator is closed. Raises EOFError if the file ends
    before `end`.
    """
    with fs.open_read(path) as file:
        while start < end:
            piece = bytearray(min(PIECE_BYTES, end - start))
            if file.read_into(start, memoryview(piece)) != len(piece):
                raise EOFError(f"{path} ends before byte {end}")
            yield bytes(piece)
            start += len(piece)


def remove_if_there(fs: WritableFilesystem, path: str) -> bool:
    """Unlink `path` if it exists. Return whether it existed. Raises OSError."""
    try:
        fs.unlink(path)
    except FileNotFoundError:
        return False
    return True


def try_to_link(fs: WritableFilesystem, path: str, name: str) -> bool:
    """Give a file a second name. Return False if hard links are not supported. Raises OSError for other failures."""
    try:
        fs.link(path, name)
    except OSError as error:
        if error.errno not in NO_HARD_LINKS:
            raise
        return False
    return True


def keep_file(fs: WritableFilesystem, path: str, kept: str) -> None:
    """Keep a file that will be replaced: under the second name `kept`, or there as a copy without hard links.

    Raises OSError, EOFError, SyncFailed.
    """
    if try_to_link(fs, path, kept):
        return
    attributes, status = fs.attributes(path), fs.status(path)
    size_bytes = 0 if status is None else status.size_bytes
    with closing(read_pieces(fs, path, 0, size_bytes)) as pieces, fs.create(kept, attributes) as file:
        write_with_holes(file, 0, pieces)
        fs.set_attributes(kept, attributes)
        sync(file)


def try_to_remove(fs: WritableFilesystem, path: str) -> None:
    """Unlink `path` while another error is being handled. An OSError is ignored: the other error matters more."""
    with suppress(OSError):
        fs.unlink(path)


def is_no_room(error: BaseException | None) -> bool:
    """Whether the error means that the disk or the quota is full."""
    return isinstance(error, (NoSpace, SyncFoundNoSpace)) or (isinstance(error, OSError) and error.errno in NO_ROOM)


NOTHING_CHANGED = "nothing was changed"


def tells_nothing_changed(error: KafkalogError) -> bool:
    """Whether `not_changed` made this error, so that nothing was changed."""
    return isinstance(error, NotChanged) or error.details.get("reason") == NOTHING_CHANGED


def is_of_a_sync(error: BaseException) -> bool:
    """Whether a failed sync caused the error. The state of the disk is then unknown, and nothing more is written."""
    return isinstance(error, SyncFailed) or isinstance(error.__cause__, SyncFailed)


def not_changed(path: str, error: Exception) -> KafkalogError:
    """Return the error to raise if everything is as it was: NoSpace, `error` itself, or NotChanged."""
    if is_no_room(error):
        return NoSpace(path=path, reason=NOTHING_CHANGED)
    if isinstance(error, KafkalogError) and not isinstance(error, SyncFailed):
        return error
    return NotChanged(path=path, reason=error_text(error))


def partly_removed(path: str, gone: int, error: OSError | SyncFailed | Unreadable) -> KafkalogError:
    """Return the error to raise after `gone` files were removed: PartlyRemoved, or NotChanged if nothing has changed.

    It is NoSpace in both cases if the disk is full.
    """
    return _error_of(PartlyRemoved, path, error) if gone or isinstance(error, SyncFailed) else not_changed(path, error)


def marker_left_away(
    path: str, command: str, error: OSError | KafkalogError, *, is_checked: bool = True
) -> KafkalogError:
    """Return the error to raise if all changes were made but the marker is away. `command` puts it back.

    Unless the log `is_checked`, the command checks it first.
    """
    effect = "puts it back" if is_checked else "checks the log, and puts it back if no bytes have to go"
    return _error_of(MarkerLeftAway, path, error, command=command, effect=effect)


def marker_kept(path: str, partition: str, run_id: str, error: OSError | KafkalogError) -> KafkalogError:
    """Return the error to raise if no log was changed, but the marker was removed and could not be put back."""
    kept = _error_of(MarkerKept, path, error, partition=partition, run=run_id)
    kept.details["partition"] = partition  # NoSpace has it too, for `is_marker_kept`
    return kept


def is_marker_kept(error: BaseException) -> bool:
    """Whether `marker_kept` made this error."""
    return isinstance(error, MarkerKept) or (isinstance(error, NoSpace) and "partition" in error.details)


def unfinished(kind: type[KafkalogError], path: str, error: OSError | KafkalogError) -> KafkalogError:
    """Return the error of this kind to raise if something was changed, and stays, before `error` ended the run."""
    return _error_of(kind, path, _cause(error))


def _cause(error: OSError | KafkalogError) -> OSError | KafkalogError:
    """Return what an error of `not_changed` was made from: something was changed before it."""
    cause = error.__cause__ if isinstance(error, KafkalogError) and tells_nothing_changed(error) else None
    if isinstance(cause, (OSError, KafkalogError)):
        return cause
    return OSError(str(error.details["reason"])) if isinstance(error, NotChanged) else error


def not_imported(path: str, error: OSError | KafkalogError) -> KafkalogError:
    """Return the error to raise if an import is not committed, but files that nobody sees are left of it."""
    cause = _cause(error)
    if isinstance(cause, KafkalogError) and tells_nothing_changed(cause):  # of another process, which has the cause
        return _error_of(NotImported, path, OSError(str(cause.details["reason"])))
    return _error_of(NotImported, path, cause)


def _error_of(
    kind: type[KafkalogError], path: str, error: BaseException, more: str = "", **details: str
) -> KafkalogError:
    """Return an error of this kind. For a full disk it is NoSpace with the same text, without path and cause twice."""
    if not is_no_room(error):
        return kind(path=path, reason=f"{error_text(error)}{more}", **details)
    full = f"{error.filename or 'a file'} cannot be written" if isinstance(error, OSError) else error_text(error)
    cause = error.details["reason"] if isinstance(error, NoSpace) else full
    text = str(kind(path=path, reason=f"{cause}{more}", **details))
    return NoSpace(path=path, reason=text.removeprefix(f"{path}: "))


def half_changed(
    path: str, run_id: str, error: BaseException, *, without_marker: bool = False, discard: bool = False
) -> KafkalogError:
    """Return the error to raise if a run or an undo stopped half way. An undo completes it.

    `without_marker`: the clean shutdown marker is away until then. `discard`: the run kept nothing for an undo.
    """
    more = ", and .kafka_cleanshutdown is missing" if without_marker else ""
    changed = _error_of(HalfDiscarded if discard else HalfChanged, path, error, more, run=run_id)
    changed.details["run"] = run_id  # NoSpace has it too, for `is_half_changed`
    return changed


def is_half_changed(error: BaseException) -> bool:
    """Whether `half_changed` made this error."""
    return isinstance(error, (HalfChanged, HalfDiscarded)) or (isinstance(error, NoSpace) and "run" in error.details)


def error_text(error: BaseException) -> str:
    """Return an error's message; of an OSError the system's, with the path of the file if the error has one."""
    reason = str(error)
    if isinstance(error, OSError):
        system_text = os.strerror(error.errno) if error.errno else reason
        reason = str(error.strerror) if isinstance(error, NotGiven) else system_text
        reason = f"{reason} ({error.filename})" if error.filename else reason
    return reason
