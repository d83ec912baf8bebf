"""Directories that a writer holds open. Everything below them is reached through their descriptors, never by a link.

A log directory may belong to another user than that of this process, and may change at any time. If a path is looked
up twice, it may lead to two places. Therefore a given directory is resolved once and held open. From there each
component is opened with O_NOFOLLOW, and the last one is used relative to its parent (openat, unlinkat, renameat).
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import NamedTuple, Protocol

from kafkalog_cli.disk.followed_links import is_link_in, open_directory
from kafkalog_cli.disk.names import OWN_DIRECTORY

# O_PATH works without the right to read the directory. Systems without O_PATH need that right.
OPEN_TO_LOOK = getattr(os, "O_PATH", 0) | os.O_DIRECTORY | os.O_CLOEXEC
_READ = os.O_DIRECTORY | os.O_CLOEXEC
_NO_NAMES = frozenset({"", ".", ".."})


class HeldEntry(NamedTuple):
    """A name and the descriptor of its directory. `is_own`: the path leads to a `.kafkalog` or below it."""

    directory: int
    name: str
    is_own: bool

    def status(self) -> os.stat_result:
        """Return the status of the entry. A symbolic link is not followed. Raises OSError."""
        return os.stat(self.name, dir_fd=self.directory, follow_symlinks=False)


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


class _Held:
    """An open directory and the number of its holders."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.holders = 1


class HeldDirectory(LockHandle):
    """A directory that is held until `release`, under all paths that lead to it."""

    def __init__(self, directories: HeldDirectories, paths: Sequence[str]) -> None:
        self._directories = directories
        self._paths = tuple(paths)

    def release(self) -> None:
        """Release the directory. A second call does nothing."""
        paths, self._paths = self._paths, ()
        for path in paths:
            self._directories.give_up(path)


class HeldDirectories:
    """The held directories by path, and lookups of the paths below them. Threads may share it.

    A path outside of held directories is looked up normally up to its parent. In either case no link is followed
    from a `.kafkalog` on.
    """

    def __init__(self) -> None:
        self._held: dict[str, _Held] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[HeldDirectories], tuple[()]]:
        """Pickle no held directory: a copy in another process, such as a Spark task, starts with none."""
        return HeldDirectories, ()

    def hold(self, path: str, *also: str) -> HeldDirectory:
        """Open a directory and hold it under `path` and all `also`. Raises OSError (ELOOP if `path` is a link)."""
        keys = list(dict.fromkeys(_trimmed(one) for one in (path, *also)))
        with self._lock:
            known = self._held.get(keys[0])  # resolved when it was first held, so its path may now be a link
            descriptor = _opened(keys[0], None, path, OPEN_TO_LOOK) if known is None else os.dup(known.descriptor)
            try:
                for key in keys:
                    found = self._held.get(key)
                    if found is None:
                        self._held[key] = _Held(os.dup(descriptor))
                    else:
                        found.holders += 1
            finally:
                os.close(descriptor)
        return HeldDirectory(self, keys)

    def give_up(self, key: str) -> None:
        """See `HeldDirectory.release`."""
        with self._lock:
            found = self._held[key]
            found.holders -= 1
            if not found.holders:
                del self._held[key]
                os.close(found.descriptor)

    def is_guarded(self, path: str) -> bool:
        """Whether reading `path` needs a guarded lookup, because it is below a held directory or in a `.kafkalog`."""
        return bool(self._held and self._prefix(_trimmed(path)) is not None) or is_own(path)

    def is_held(self, path: str) -> bool:
        """Whether this directory itself is held."""
        return _trimmed(path) in self._held

    def entry(self, path: str) -> AbstractContextManager[HeldEntry]:
        """Look up the entry at `path` to change it. Raises OSError (ELOOP for a link among its guarded directories)."""
        return self._entry(path, lambda _: False)

    def entry_to_read(self, path: str) -> AbstractContextManager[HeldEntry]:
        """Look up the entry at `path` to read it. Raises OSError.

        Links to directories are followed where `followed_links` permits them, and never from a `.kafkalog` on.
        """
        return self._entry(path, lambda names: OWN_DIRECTORY not in names)

    @contextmanager
    def _entry(self, path: str, may_follow: Callable[[Sequence[str]], bool]) -> Iterator[HeldEntry]:
        entry = self._looked_up(path, may_follow)
        try:
            with _named(path):
                yield entry
        finally:
            os.close(entry.directory)

    @contextmanager
    def directory(self, path: str, *, to_read: bool = False) -> Iterator[int]:
        """Open the directory at `path` for reading and yield its descriptor. Raises OSError.

        Below a held directory no link is followed. With `to_read`, links are followed as in `entry_to_read`.
        """
        descriptor = self._open_held(path)
        if descriptor is None and not self.is_guarded(path):
            descriptor = open_directory(_trimmed(path), None, path, os.O_CLOEXEC)
        if descriptor is None:
            with self.entry_to_read(path) if to_read else self.entry(path) as entry:
                opened = open_directory if to_read and not entry.is_own else _opened
                descriptor = opened(entry.name, entry.directory, path, _READ)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _open_held(self, path: str) -> int | None:
        with self._lock:
            held = self._held.get(_trimmed(path))
            return None if held is None else os.open(".", os.O_RDONLY | _READ, dir_fd=held.descriptor)

    def _prefix(self, path: str) -> str | None:
        """Return the longest path of a held directory that contains `path`; None if there is none."""
        at = path.rfind("/")
        while at > 0:
            if path[:at] in self._held:
                return path[:at]
            at = path.rfind("/", 0, at)
        return None

    def _looked_up(self, path: str, may_follow: Callable[[Sequence[str]], bool]) -> HeldEntry:
        """Open the parent directory of `path` and return it with the last name of `path`.

        The guarded lookup starts at the nearest held directory, or at the directory that contains the `.kafkalog`.
        Otherwise the parent is opened by its path. `may_follow` is called with the names from the start to each
        directory, and returns whether that directory may be a link.
        """
        trimmed = _trimmed(path)
        with self._lock:
            prefix = self._prefix(trimmed)
            descriptor = None if prefix is None else os.dup(self._held[prefix].descriptor)
        names = trimmed.split("/")
        begin = len(prefix.split("/")) if prefix is not None else names.index(OWN_DIRECTORY) if is_own(path) else -1
        if descriptor is None:
            descriptor = os.open(
                "/".join(names[:begin]) or ("/" if path.startswith("/") else "."), os.O_RDONLY | OPEN_TO_LOOK
            )
        names = names[begin:]
        try:
            for at, name in enumerate(names[:-1]):
                opened = open_directory if may_follow(names[: at + 1]) else _opened
                with _named(trimmed.removesuffix("/".join(["", *names[at + 1 :]]))):
                    below = opened(_checked(name, path), descriptor, path, OPEN_TO_LOOK)
                os.close(descriptor)
                descriptor = below
            return HeldEntry(descriptor, _checked(names[-1], path), is_own(path))
        except BaseException:
            os.close(descriptor)
            raise


def is_own(path: str) -> bool:
    """Whether a path leads to a `.kafkalog` or below it."""
    return OWN_DIRECTORY in path and OWN_DIRECTORY in path.split("/")


@contextmanager
def _named(path: str) -> Iterator[None]:
    """Give errors of calls that know only the last name of `path` the whole path, for messages."""
    try:
        yield
    except OSError as error:
        if error.filename == path.rpartition("/")[2]:
            error.filename = path
        raise


def _opened(name: str, directory: int | None, path: str, flags: int) -> int:
    """Open a directory that must not be a link. Raises OSError."""
    try:
        return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | flags, dir_fd=directory)
    except NotADirectoryError as error:  # Linux reports this for a link if a directory is requested
        if is_link_in(name, directory):
            raise link_in_the_way(path) from error
        raise


def link_in_the_way(path: str) -> OSError:
    """Return the error to raise for a symbolic link that is not followed (ELOOP)."""
    return OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)


def _checked(name: str, path: str) -> str:
    if name in _NO_NAMES:
        raise OSError(errno.EINVAL, "not the name of an entry", path)
    return name


def _trimmed(path: str) -> str:
    return path.rstrip("/") or "/"
