"""Writing what must survive a power cut: content is synced before it gets its name, the directory after."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Generator, Iterable
from contextlib import suppress
from secrets import token_hex

from kafkalog_cli.errors import (
    HalfChanged,
    HalfPublished,
    KafkalogError,
    MarkerKept,
    MarkerLeftAway,
    NoSpace,
    NotChanged,
    PartlyRemoved,
    SyncFailed,
    SyncFoundNoSpace,
)
from kafkalog_cli.storage.fs import FileAttributes, FileStatus, Filesystem, WritableFile, WritableFilesystem
from kafkalog_cli.storage.names import FileKind, WorkState, classify_file

PIECE_BYTES = 1 << 20
_HOLE_BYTES = 4096
_ZEROS = bytes(_HOLE_BYTES)
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
NO_HARD_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS)
"""EPERM also where fs.protected_hardlinks keeps a user from linking another's file."""
TEMPORARY_SUFFIX = ".tmp"
_OWN_TEMPORARY = ".kafkalog.tmp"
_TEMPORARY_NAME = re.compile(rf".+\.[0-9a-f]{{16}}{re.escape(_OWN_TEMPORARY)}", re.DOTALL)


def attributes_in(fs: WritableFilesystem, directory: str) -> FileAttributes:
    """What a new file in a directory has: its owner, group and mode."""
    found = fs.attributes(directory)
    return found._replace(mode=found.mode & 0o666, xattrs=())


def sync(file: WritableFile) -> None:
    """What was written is on the disk, or SyncFailed: it may be gone even from the cache, so nothing may follow."""
    try:
        file.sync()
    except OSError as error:
        raise _sync_failed(file.path, error) from error


def sync_directory(fs: WritableFilesystem, path: str) -> None:
    """The names in the directory are on the disk, or SyncFailed."""
    try:
        fs.sync_directory(path)
    except OSError as error:
        raise _sync_failed(path, error) from error


def rename_directory(fs: WritableFilesystem, path: str, new_path: str) -> None:
    """Give a directory another name below the same parent, on the disk. Raises NotChanged, NoSpace, SyncFailed."""
    try:
        fs.rename(path, new_path)
    except OSError as error:
        raise not_changed(path, error) from error
    sync_directory(fs, new_path.rpartition("/")[0])


def _sync_failed(path: str, error: OSError) -> SyncFailed:
    """Some file systems find out that they are full when they are told to sync."""
    kind = SyncFoundNoSpace if error.errno in NO_ROOM else SyncFailed
    return kind(path=path, reason=error_text(error))


class NameChanges:
    """The directories whose names were changed and not synced yet.

    Of changes that were not synced a power cut may leave any: a file that gave its name away may not have the
    other one yet. So nothing takes that name before both are on the disk. And no log takes its place before those
    that left theirs are gone on the disk: a segment beside what was made of it has records twice. Of a segment that is
    swapped in, all files are there under one work suffix before the first gets the next.
    """

    def __init__(self, fs: WritableFilesystem) -> None:
        self._fs = fs
        self._directories: set[str] = set()
        self._given_away: set[str] = set()
        self._logs_left: set[str] = set()
        self._last_state = WorkState.IN_PLACE

    def announce(self, *, filled: str, left: str | None = None) -> None:
        """A file is about to come to the name `filled`, by a rename from the name `left`."""
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
        """What has this name is about to lose it (to take the name `filled`), or to be replaced."""
        if _is_log(path) and self._logs_left - {path, filled}:
            self.sync()
        self.note(path)
        if _is_log(path):
            self._logs_left.add(path)

    def note(self, path: str) -> None:
        """Something of a directory's own is about to be changed, or a name that no log depends on."""
        self._directories.add(path.rpartition("/")[0])

    def sync(self) -> None:
        """All of them are on the disk; in deeper directories first: a file that comes there must not be lost."""
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
"""Between these all names are on the disk."""


def _state_of(path: str) -> WorkState:
    return classify_file(path.rpartition("/")[2]).state


def _is_log(path: str) -> bool:
    return path.endswith(FileKind.LOG.value)


def temporary_of(path: str) -> str:
    """A new name beside `path`, of a form that no other program uses: a file that has it is one of ours.

    A user may have a file called PATH.tmp, and a broker writes its checkpoints under such names.
    """
    return f"{path}.{token_hex(8)}{_OWN_TEMPORARY}"


def sweep_temporaries(fs: WritableFilesystem, directory: str) -> None:
    """Remove what runs that were killed left of files that they were about to replace, as far as that can be done.

    The caller holds the lock under which such files are written there.
    """
    with suppress(OSError, KafkalogError):
        for entry in fs.list_directory(directory):
            if entry.is_file and not entry.is_symlink and _TEMPORARY_NAME.fullmatch(entry.path.rpartition("/")[2]):
                try_to_remove(fs, entry.path)


def check_replaceable(fs: WritableFilesystem, path: str) -> None:
    """Raises OSError for what a file must not take the name of: a link (ELOOP), a directory, a device (EINVAL)."""
    found = fs.status(path)
    if is_link(fs, path, found):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
    if found is not None and not found.is_file:
        raise OSError(errno.EINVAL, "not a regular file", path)


def is_link(fs: WritableFilesystem, path: str, found: FileStatus | None) -> bool:
    """Whether `path` is a symbolic link. `found` is its status, which a link to nothing has not."""
    if found is not None:
        return found.is_symlink
    try:
        fs.attributes(path)
    except OSError:
        return False
    return True


def replace_file(  # noqa: PLR0913
    fs: WritableFilesystem,
    path: str,
    content: bytes,
    attributes: FileAttributes | None,
    *,
    temporary: str | None = None,
    keep_mtime: bool = False,
) -> None:
    """Give `path` this content at once and durably: another file, synced, renamed over it, the directory synced.

    `attributes` None: those of the file that is replaced; `keep_mtime`: with their mtime. A `temporary` that is given
    is the caller's own, and a file that a crash left there is replaced. Raises OSError (nothing was replaced then;
    ELOOP for a link), SyncFailed.
    """
    check_replaceable(fs, path)
    beside = temporary or temporary_of(path)
    given = attributes if attributes is not None or fs.status(path) is None else fs.attributes(path)
    if temporary is not None:
        remove_if_there(fs, temporary)
    try:
        with fs.create(beside, given) as file:
            file.write(0, content)
            if keep_mtime and given is not None:
                fs.set_attributes(beside, given)
            sync(file)
        fs.rename(beside, path)
    except BaseException:
        try_to_remove(fs, beside)
        raise
    sync_directory(fs, path.rpartition("/")[0])


def write_with_holes(file: WritableFile, position: int, pieces: Iterable[bytes]) -> int:
    """Write `pieces` from `position` on, runs of zeros as holes; the position after them, where the file now ends.

    There must be nothing behind `position` yet.
    """
    for piece in pieces:
        position = _write_block(file, position, piece)
    file.truncate(position)
    return position


def _write_block(file: WritableFile, position: int, block: bytes) -> int:
    start = 0  # of what is to be written
    for at in range(0, len(block), _HOLE_BYTES):
        if block[at : at + _HOLE_BYTES] == _ZEROS:
            if at > start:
                file.write(position + start, memoryview(block)[start:at])
            start = at + _HOLE_BYTES
    if start < len(block):
        file.write(position + start, memoryview(block)[start:])
    return position + len(block)


def read_pieces(fs: Filesystem, path: str, start: int, end: int) -> Generator[bytes, None, None]:
    """The bytes of a file from `start` to `end`; EOFError if it ends before. It is open until the last, or `close`."""
    with fs.open_read(path) as file:
        while start < end:
            piece = bytearray(min(PIECE_BYTES, end - start))
            if file.read_into(start, memoryview(piece)) != len(piece):
                raise EOFError(f"{path} ends before byte {end}")
            yield bytes(piece)
            start += len(piece)


def remove_if_there(fs: WritableFilesystem, path: str) -> bool:
    """Unlink `path` if something has the name; whether something had. Raises OSError."""
    try:
        fs.unlink(path)
    except FileNotFoundError:
        return False
    return True


def try_to_remove(fs: WritableFilesystem, path: str) -> None:
    """Unlink `path` while another error is on its way, which counts more than one of this."""
    try:
        fs.unlink(path)
    except OSError:
        return


def is_no_room(error: BaseException | None) -> bool:
    """Whether the disk is full."""
    return isinstance(error, (NoSpace, SyncFoundNoSpace)) or (isinstance(error, OSError) and error.errno in NO_ROOM)


NOTHING_CHANGED = "nothing was changed"


def tells_nothing_changed(error: KafkalogError) -> bool:
    """Whether this is one that `not_changed` made."""
    return isinstance(error, NotChanged) or error.details.get("reason") == NOTHING_CHANGED


def is_of_a_sync(error: BaseException) -> bool:
    """Whether a failed sync is behind an error: what the disk has is not known then, and nothing more is told it."""
    return isinstance(error, SyncFailed) or isinstance(error.__cause__, SyncFailed)


def not_changed(path: str, error: Exception) -> KafkalogError:
    """What to raise for an error after which everything is as it was."""
    reason = error_text(error) if isinstance(error, OSError) else str(error)
    if is_no_room(error):
        return NoSpace(path=path, reason=NOTHING_CHANGED)
    if isinstance(error, KafkalogError) and not isinstance(error, SyncFailed):
        return error
    return NotChanged(path=path, reason=reason)


def partly_removed(path: str, gone: int, error: OSError | SyncFailed) -> KafkalogError:
    """What to raise for an error after `gone` of the files that were to go have gone."""
    return _told(PartlyRemoved, path, error) if gone or isinstance(error, SyncFailed) else not_changed(path, error)


def marker_left_away(path: str, command: str, error: OSError | KafkalogError) -> KafkalogError:
    """What to raise for an error after all changes were made; `command` puts the marker back."""
    return _told(MarkerLeftAway, path, error, command=command)


def marker_kept(path: str, partition: str, run_id: str, error: OSError | KafkalogError) -> KafkalogError:
    """What to raise where no log was changed, but the marker was taken away for a run and could not be put back."""
    return _told(MarkerKept, path, error, partition=partition, run=run_id)


def half_published(path: str, error: OSError | SyncFailed) -> KafkalogError:
    """What to raise for an error between the commit of a run and the last of its names: the next run completes it."""
    return _told(HalfPublished, path, error)


def _told(kind: type[KafkalogError], path: str, error: OSError | KafkalogError, **details: str) -> KafkalogError:
    told = kind(path=path, reason=error_text(error) if isinstance(error, OSError) else str(error), **details)
    return NoSpace(path=path, reason=str(told)) if is_no_room(error) else told


def half_changed(path: str, run_id: str, error: BaseException, *, without_marker: bool = False) -> KafkalogError:
    """What to raise for an error half way: an undo, or another one, completes it.

    `without_marker`: that of the clean shutdown is away until then.
    """
    reason = error_text(error) if isinstance(error, OSError) else str(error)
    if without_marker:
        reason += ", and the marker of the clean shutdown is away"
    half = HalfChanged(path=path, run=run_id, reason=reason)
    return NoSpace(path=path, reason=str(half), run=run_id) if is_no_room(error) else half


def is_half_changed(error: BaseException) -> bool:
    """Whether this is one that `half_changed` made."""
    return isinstance(error, HalfChanged) or (isinstance(error, NoSpace) and "run" in error.details)


def error_text(error: OSError) -> str:
    """What the system says, with the file it says it of."""
    text = os.strerror(error.errno) if error.errno else str(error)
    return f"{text} ({error.filename})" if error.filename else text
