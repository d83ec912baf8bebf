"""Symbolic links that a reader meets in a log directory, and the rule for following them.

A log directory may belong to another user than that of this process, or come from somebody's archive. A reader that
follows every link would print any file that the user of this process may read, and open any device. So a link must
belong to root, the user of this process, or the owner of its target. The kernel has this rule for sticky directories
(fs.protected_symlinks). A link with the name of a log directory's file must also lead to a regular file of that kind.
The reason is that links in an unpacked archive belong to the user who unpacked it.
"""

import errno
import os
import stat
from typing import NamedTuple

from kafkalog_cli.disk.names import FileKind, classify_file, moved_aside

MOST_LINKS = 40
"""The most links on the way to a file, as in Linux."""

_PATH = getattr(os, "O_PATH", 0)
_FLAGS = os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY  # O_NONBLOCK: opening a FIFO must not hang


class LinkNotFollowed(OSError):
    """A link that a reader does not follow. `strerror` says why."""


class NotRegular(OSError):
    """A directory, device, pipe or socket where a file is to be read."""


class _Target(NamedTuple):
    """The target of a link: a descriptor that permits no reading (O_PATH), its name, and the owners of all links."""

    descriptor: int
    name: str
    owner_ids: frozenset[int]


def open_file(name: str, directory: int | None, path: str, *, may_follow: bool = True) -> int:
    """Open a regular file for reading; a device is never opened. `path` is for messages.

    Raises OSError: LinkNotFollowed for a link against the rule, NotRegular for what is not a regular file.
    """
    status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    if stat.S_ISLNK(status.st_mode):
        if not may_follow:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        return _open_link(name, directory, path)
    check_regular(status, path)
    return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | _FLAGS, dir_fd=directory)


def open_directory(name: str, directory: int | None, path: str, flags: int) -> int:
    """Open a directory, which may be a link that the rule permits. Raises OSError (LinkNotFollowed)."""
    try:
        return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | flags, dir_fd=directory)
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP) or not is_link_in(name, directory):
            raise
    target = _target(name, directory, path)
    try:
        status = os.fstat(target.descriptor)
        _check_owners(target, status, path, "directory")
        if flags & _PATH:
            return os.dup(target.descriptor)
        return os.open(".", os.O_RDONLY | os.O_DIRECTORY | flags, dir_fd=target.descriptor)
    finally:
        os.close(target.descriptor)


def check_regular(status: os.stat_result, path: str) -> None:
    """Raises NotRegular for what is not a regular file."""
    if stat.S_ISDIR(status.st_mode):
        raise NotRegular(errno.EISDIR, "is a directory", path)
    if not stat.S_ISREG(status.st_mode):
        raise NotRegular(errno.EINVAL, "is not a regular file", path)


def _open_link(name: str, directory: int | None, path: str) -> int:
    target = _target(name, directory, path)
    try:
        status = os.fstat(target.descriptor)
        check_regular(status, path)
        _check_owners(target, status, path, "file")
        kind = classify_file(name.rpartition("/")[2]).kind
        if kind is not FileKind.OTHER and classify_file(target.name).kind is not kind:
            reason = f"it is a symbolic link to a file with another kind of name ({target.name}), and is not followed"
            reason += f"; find out who made it; {moved_aside(path)} moves it away"
            raise LinkNotFollowed(errno.ELOOP, reason, path)
        return _opened_again(target, path)
    finally:
        os.close(target.descriptor)


def _check_owners(target: _Target, status: os.stat_result, path: str, what: str) -> None:
    others = target.owner_ids - {0, os.geteuid(), status.st_uid}
    if others:
        reason = f"it is a symbolic link, made by another user ({min(others)}) than the owner of the {what} that it "
        raise LinkNotFollowed(errno.ELOOP, f"{reason}leads to, and is not followed", path)


def _target(name: str, directory: int | None, path: str) -> _Target:
    """Follow the link `name`, each component by the descriptor of its directory. Raises OSError."""
    folder, _, last = name.rpartition("/")
    at = os.open(folder or ("/" if name.startswith("/") else "."), _directory_flags(), dir_fd=directory)
    left, owner_ids, links = [last], set[int](), 0
    try:
        while True:
            name = left.pop()
            status = os.stat(name, dir_fd=at, follow_symlinks=False)
            if stat.S_ISLNK(status.st_mode):
                links += 1
                if links > MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
                text, owner_id = _read_link(name, at)
                owner_ids.add(owner_id)
                parts = [part for part in text.split("/") if part not in ("", ".")] or ["."]
                left += reversed(parts)
                if text.startswith("/"):
                    at = _instead(at, os.open("/", _directory_flags()))
                continue
            if not left:
                return _Target(_opened_target(name, at, status, path), name, frozenset(owner_ids))
            at = _instead(at, os.open(name, _directory_flags() | os.O_NOFOLLOW, dir_fd=at))
    finally:
        os.close(at)


def _directory_flags() -> int:
    return os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | _PATH


def _instead(old: int, new: int) -> int:
    os.close(old)
    return new


def _read_link(name: str, directory: int) -> tuple[str, int]:
    """Return text and owner of one and the same link, also if another link gets its name meanwhile."""
    if not _PATH:
        return os.readlink(name, dir_fd=directory), os.stat(name, dir_fd=directory, follow_symlinks=False).st_uid
    link = os.open(name, _PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    try:
        return os.readlink("", dir_fd=link), os.fstat(link).st_uid
    finally:
        os.close(link)


def _opened_target(name: str, directory: int, status: os.stat_result, path: str) -> int:
    if not _PATH and not stat.S_ISDIR(status.st_mode):
        check_regular(status, path)  # without O_PATH this opens a device
    flags = _PATH or _FLAGS
    return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | flags, dir_fd=directory)


def _opened_again(target: _Target, path: str) -> int:
    """Return a descriptor that permits reading. Raises OSError."""
    if not _PATH:
        return os.dup(target.descriptor)
    try:
        return os.open(f"/proc/self/fd/{target.descriptor}", os.O_RDONLY | _FLAGS)
    except FileNotFoundError as error:
        raise OSError(
            errno.EACCES, "it is a symbolic link, which is not followed where /proc is missing", path
        ) from error


def is_link_in(name: str, directory: int | None) -> bool:
    """Whether a name, in the directory of a descriptor if one is given, is a symbolic link."""
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)
    except OSError:
        return False
