"""Directories by their descriptors, and the one rule about symbolic links.

A log directory may belong to another user than that of this process, may come from an archive, and may change at any
time: a path that is looked up twice may lead to two places. Therefore a writer resolves a directory once and holds it
open. From there each component is opened with O_NOFOLLOW relative to the one before (openat), and the last name is
used relative to its directory (unlinkat, renameat).

The rule about links: a change follows none below a held directory, and nothing follows one in or below a `.kafkalog`.
A reader follows a link that belongs to root, to the user of this process or to the owner of its target, as the kernel
does in sticky directories (fs.protected_symlinks); otherwise whoever may write to a log directory could have a reader
print any file or open any device. Links in an unpacked archive belong to the user who unpacked it, so a link with
the name of a file of a log directory must also lead to a regular file of that kind.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Protocol

from kafkalog_cli.disk.names import OWN_DIRECTORY, FileKind, classify_file, moved_aside

_MOST_LINKS = 40
"""The most links on the way to a file, as in Linux."""
_PATH = getattr(os, "O_PATH", 0)
"""Opens without the right to read. Systems without it need that right."""
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
QUIET = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
"""Opening a FIFO that somebody named x.log must not hang."""


class LinkNotFollowed(OSError):
    """A link that a reader does not follow. `strerror` says why."""


class NotRegular(OSError):
    """A directory, device, pipe or socket where a file is to be read."""


def link_in_the_way(path: str) -> OSError:
    """Return the error to raise for a symbolic link that is not followed (ELOOP)."""
    return OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)


def is_own(path: str) -> bool:
    """Whether a path leads to a `.kafkalog` or below it."""
    return OWN_DIRECTORY in path and OWN_DIRECTORY in path.split("/")


def check_regular(status: os.stat_result, path: str) -> None:
    """Raises NotRegular for what is not a regular file."""
    if stat.S_ISDIR(status.st_mode):
        raise NotRegular(errno.EISDIR, "is a directory", path)
    if not stat.S_ISREG(status.st_mode):
        raise NotRegular(errno.EINVAL, "is not a regular file", path)


class Directory:
    """An open directory, until `close` or the end of a `with` block. Every failure is the system's OSError."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    @classmethod
    def at(cls, path: str, *, follow: bool = True, flags: int = _PATH) -> Directory:
        """Open the directory at `path`; links before the last name are followed."""
        return cls(_open_directory(path, None, path, flags, follow=follow))

    @classmethod
    def containing(cls, path: str) -> tuple[Directory, str]:
        """Open the directory of the last name of `path`, by its path; return it with that name."""
        above, slash, name = path.rpartition("/")
        return cls(os.open(above or slash or ".", _DIRECTORY | _PATH)), name

    def directory(self, name: str, path: str, *, follow: bool, flags: int = _PATH) -> Directory:
        """Open the directory `name` in this one. `path` is for messages."""
        return Directory(_open_directory(name, self.descriptor, path, flags, follow=follow))

    def status(self, name: str) -> os.stat_result:
        """Return the status of an entry. A symbolic link is not followed."""
        return os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)

    def open(self, name: str, flags: int = os.O_RDONLY, mode: int = 0o600) -> int:
        """Open or create an entry, which must not be a link; return its descriptor."""
        return os.open(name, flags | QUIET, mode, dir_fd=self.descriptor)

    def open_to_read(self, name: str, path: str, *, follow: bool = True) -> int:
        """Open a regular file for reading by the rule about links; a device is never opened."""
        status = self.status(name)
        if not stat.S_ISLNK(status.st_mode):
            check_regular(status, path)
            return self.open(name)
        if not follow:
            raise link_in_the_way(path)
        return _open_target_of(name, self.descriptor, path)

    def rename(self, name: str, to: Directory, new_name: str) -> None:
        """Rename an entry, also into another directory."""
        os.rename(name, new_name, src_dir_fd=self.descriptor, dst_dir_fd=to.descriptor)

    def close(self) -> None:
        """Close it."""
        os.close(self.descriptor)

    def __enter__(self) -> Directory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _open_directory(name: str, directory: int | None, path: str, flags: int, *, follow: bool) -> int:
    try:
        return os.open(name, _DIRECTORY | os.O_NOFOLLOW | flags, dir_fd=directory)
    except OSError as error:  # Linux reports ENOTDIR for a link if a directory is requested
        if error.errno not in (errno.ENOTDIR, errno.ELOOP) or not _is_link(name, directory):
            raise
        if not follow:
            raise link_in_the_way(path) from error
    target, _, owner_ids = _follow(name, directory, path)
    try:
        _check_owners(owner_ids, os.fstat(target), path, "directory")
        return os.dup(target) if flags & _PATH else os.open(".", _DIRECTORY | flags, dir_fd=target)
    finally:
        os.close(target)


def _open_target_of(name: str, directory: int, path: str) -> int:
    target, target_name, owner_ids = _follow(name, directory, path)
    try:
        status = os.fstat(target)
        check_regular(status, path)
        _check_owners(owner_ids, status, path, "file")
        kind = classify_file(name).kind
        if kind is not FileKind.OTHER and classify_file(target_name).kind is not kind:
            reason = f"it is a symbolic link to a file with another kind of name ({target_name}), and is not followed"
            reason += f"; find out who made it; {moved_aside(path)} moves it away"
            raise LinkNotFollowed(errno.ELOOP, reason, path)
        if not _PATH:
            return os.dup(target)
        return os.open(f"/proc/self/fd/{target}", os.O_RDONLY | QUIET & ~os.O_NOFOLLOW)
    except FileNotFoundError as error:
        reason = "it is a symbolic link, which is not followed where /proc is missing"
        raise OSError(errno.EACCES, reason, path) from error
    finally:
        os.close(target)


def _check_owners(owner_ids: set[int], status: os.stat_result, path: str, what: str) -> None:
    others = owner_ids - {0, os.geteuid(), status.st_uid}
    if others:
        reason = f"it is a symbolic link, made by another user ({min(others)}) than the owner of the {what} that it "
        raise LinkNotFollowed(errno.ELOOP, f"{reason}leads to, and is not followed", path)


def _follow(name: str, directory: int | None, path: str) -> tuple[int, str, set[int]]:
    """Follow a link, each component by the descriptor of its directory.

    Returns a descriptor of the target (by O_PATH: it permits no reading), its name, and the owners of all links.
    """
    folder, _, last = name.rpartition("/")
    at = os.open(folder or ("/" if name.startswith("/") else "."), _DIRECTORY | _PATH, dir_fd=directory)
    left, owner_ids, links = [last], set[int](), 0
    try:
        while True:
            name = left.pop()
            status = os.stat(name, dir_fd=at, follow_symlinks=False)
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | _PATH
            if stat.S_ISLNK(status.st_mode):
                links += 1
                if links > _MOST_LINKS:
                    raise link_in_the_way(path)
                text, owner_id = _read_link(name, at)
                owner_ids.add(owner_id)
                left += reversed([part for part in text.split("/") if part not in ("", ".")] or ["."])
                if not text.startswith("/"):
                    continue
                name, flags = "/", flags | os.O_DIRECTORY
            elif left:
                flags |= os.O_DIRECTORY
            else:
                if not _PATH and not stat.S_ISDIR(status.st_mode):
                    check_regular(status, path)  # without O_PATH this opens a device
                return os.open(name, flags if _PATH else flags | QUIET, dir_fd=at), name, owner_ids
            below = os.open(name, flags, dir_fd=at)
            os.close(at)
            at = below
    finally:
        os.close(at)


def _read_link(name: str, directory: int) -> tuple[str, int]:
    """Return text and owner of one and the same link, also if another link gets its name meanwhile."""
    if not _PATH:
        return os.readlink(name, dir_fd=directory), os.stat(name, dir_fd=directory, follow_symlinks=False).st_uid
    link = os.open(name, _PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    try:
        return os.readlink("", dir_fd=link), os.fstat(link).st_uid
    finally:
        os.close(link)


def _is_link(name: str, directory: int | None) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)
    except OSError:
        return False


class LockHandle(Protocol):
    """A lock that this process holds until `release` or until it ends. A forked child does not hold it."""

    def release(self) -> None:
        """Release the lock. A second call does nothing."""

    def __enter__(self) -> LockHandle:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.release()


class _HeldDirectory(LockHandle):
    def __init__(self, release: Callable[[], None]) -> None:
        self._release: Callable[[], None] | None = release

    def release(self) -> None:
        if self._release is not None:
            self._release()
            self._release = None


class HeldDirectories:
    """The held directories by path, with the number of their holders, and the look-up of all paths.

    A path that is neither below a held directory nor in a `.kafkalog` is looked up normally up to its parent.
    """

    def __init__(self) -> None:
        self._held: dict[str, tuple[Directory, int]] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[HeldDirectories], tuple[()]]:
        """Pickle no held directory: a copy in another process, such as a Spark task, starts with none."""
        return HeldDirectories, ()

    def hold(self, path: str, *also: str) -> LockHandle:
        """Open a directory and hold it under `path` and all `also`. Raises OSError (ELOOP if `path` is a link)."""
        keys = dict.fromkeys(map(_trimmed, (path, *also)))
        with self._lock:
            # It was resolved when it was first held, so its path may now be a link.
            known = self._held.get(_trimmed(path))
            with Directory(os.dup(known[0].descriptor)) if known else Directory.at(_trimmed(path), follow=False) as new:
                for key in keys:
                    held, holders = self._held.get(key) or (Directory(os.dup(new.descriptor)), 0)
                    self._held[key] = held, holders + 1
        return _HeldDirectory(lambda: self._give_up(*keys))

    def _give_up(self, *keys: str) -> None:
        with self._lock:
            for key in keys:
                held, holders = self._held.pop(key)
                if holders > 1:
                    self._held[key] = held, holders - 1
                else:
                    held.close()

    def is_held(self, path: str) -> bool:
        """Whether this directory itself is held."""
        return _trimmed(path) in self._held

    def is_guarded(self, path: str) -> bool:
        """Whether a path is below a held directory or in a `.kafkalog`."""
        return bool(self._held and self._prefix(_trimmed(path)) is not None) or is_own(path)

    @contextmanager
    def parent(self, path: str, *, to_read: bool = False) -> Iterator[tuple[Directory, str]]:
        """Open the directory that contains `path` and yield it with the last name. Raises OSError.

        From a held directory, or the directory of a `.kafkalog`, each component is opened by its directory, and a link
        raises ELOOP unless it is followed `to_read`.
        """
        trimmed = _trimmed(path)
        with self._lock:
            prefix = self._prefix(trimmed)
            at = None if prefix is None else Directory(os.dup(self._held[prefix][0].descriptor))
        names = trimmed.split("/")
        begin = -1
        if prefix is not None:
            begin = len(prefix.split("/"))
        elif is_own(path):
            begin = names.index(OWN_DIRECTORY)
        if at is None:
            at, _ = Directory.containing("/".join(names[: begin + 1] if begin >= 0 else names))
        try:
            for number, name in enumerate(names[begin:-1], begin + 1 if begin >= 0 else 0):
                follow = to_read and OWN_DIRECTORY not in names[begin:number]
                with _errors_with("/".join(names[:number])):
                    below = at.directory(_checked(name, path), path, follow=follow)
                at.close()
                at = below
            with _errors_with(path):
                yield at, _checked(names[-1], path)
        finally:
            at.close()

    def directory(self, path: str, *, to_read: bool = False) -> Directory:
        """Open the directory at `path` so that it can be listed and synced. Raises OSError as `parent`."""
        with self._lock:
            held = self._held.get(_trimmed(path))
            if held is not None:
                return held[0].directory(".", path, follow=False, flags=0)
        if not self.is_guarded(path):
            return Directory.at(_trimmed(path), flags=0)
        with self.parent(path, to_read=to_read) as (above, name):
            return above.directory(name, path, follow=to_read and not is_own(path), flags=0)

    def _prefix(self, path: str) -> str | None:
        """Return the longest path of a held directory that contains `path`; None if there is none."""
        at = path.rfind("/")
        while at > 0:
            if path[:at] in self._held:
                return path[:at]
            at = path.rfind("/", 0, at)
        return None


@contextmanager
def _errors_with(path: str) -> Iterator[None]:
    """Give errors of calls that know only the last name of `path` the whole path, for messages."""
    try:
        yield
    except OSError as error:
        if error.filename == path.rpartition("/")[2]:
            error.filename = path
        raise


def _checked(name: str, path: str) -> str:
    if name in {"", ".", ".."}:
        raise OSError(errno.EINVAL, "not the name of an entry", path)
    return name


def _trimmed(path: str) -> str:
    return path.rstrip("/") or "/"
