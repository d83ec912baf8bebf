"""Directories that a writer holds open: whatever lies below is reached through their descriptors, never by a link.

A log directory may belong to somebody else than the user who runs us, and may change at any time. A path that is
looked up twice may lead to two places. So the directory that is given is resolved once, and held; from there each
component is opened with O_NOFOLLOW, and the last one is used relative to its parent (openat, unlinkat, renameat).
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import NamedTuple

from kafkalog_cli.storage.names import OWN_DIRECTORY

# O_PATH needs no right to read the directory; systems without it need that right.
_LOOK = getattr(os, "O_PATH", 0) | os.O_DIRECTORY | os.O_CLOEXEC
_READ = os.O_DIRECTORY | os.O_CLOEXEC
_NO_NAMES = frozenset({"", ".", ".."})


class Entry(NamedTuple):
    """A name and the descriptor of the directory that it is looked up in. `is_own`: `.kafkalog`, or below it."""

    directory: int
    name: str
    is_own: bool

    def status(self) -> os.stat_result:
        """What has the name; a symbolic link is not followed."""
        return os.stat(self.name, dir_fd=self.directory, follow_symlinks=False)


class _Held:
    """An open directory, and how often it is held."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.holders = 1


class HeldDirectory:
    """One directory that is held until `release`, under the paths that lead to it."""

    def __init__(self, directories: HeldDirectories, paths: Sequence[str]) -> None:
        self._directories = directories
        self._paths = tuple(paths)

    def release(self) -> None:
        """Give it up; a second call does nothing."""
        paths, self._paths = self._paths, ()
        for path in paths:
            self._directories.give_up(path)

    def __enter__(self) -> HeldDirectory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.release()


class HeldDirectories:
    """The directories that are held, by path, and the way to what lies below them. For any number of threads.

    What lies in no held directory is looked up as any path is, up to its parent; from a `.kafkalog` on no link is
    followed either way.
    """

    def __init__(self) -> None:
        self._held: dict[str, _Held] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[HeldDirectories], tuple[()]]:
        """A copy in another process, such as a task of Spark, holds no directory yet."""
        return HeldDirectories, ()

    def hold(self, path: str, *also: str) -> HeldDirectory:
        """Open a directory, which `also` lead to from now on too. Raises OSError, also where `path` is a link."""
        keys = list(dict.fromkeys(_trimmed(one) for one in (path, *also)))
        with self._lock:
            known = self._held.get(keys[0])  # was resolved when it was held, though its path may be a link
            descriptor = (
                _opened(keys[0], None, path, _LOOK | os.O_NOFOLLOW) if known is None else os.dup(known.descriptor)
            )
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
        """Whether reading `path` needs a way of its own: it lies in a held directory, or in a `.kafkalog`."""
        return bool(self._held and self._prefix(_trimmed(path)) is not None) or is_own(path)

    def is_held(self, path: str) -> bool:
        """Whether just this directory is held."""
        return _trimmed(path) in self._held

    @contextmanager
    def entry(self, path: str) -> Iterator[Entry]:
        """The entry that is to be changed at `path`. Raises OSError: ELOOP for a link among the directories below."""
        with _closed_after(self._way(path, _no_link)) as way:
            yield Entry(way.descriptor, way.name, is_own(path))

    @contextmanager
    def entry_to_read(self, path: str) -> Iterator[Entry]:
        """The entry to be read at `path`; outside of a `.kafkalog` links are followed."""
        with _closed_after(self._way(path, _link_outside)) as way:
            yield Entry(way.descriptor, way.name, is_own(path))

    @contextmanager
    def directory(self, path: str, *, to_read: bool = False) -> Iterator[int]:
        """A descriptor of the directory at `path`, open for reading. Of a path in a held one no link is followed.

        `to_read`: only in a `.kafkalog` no link is followed.
        """
        descriptor = self._open_held(path)
        if descriptor is None and not self.is_guarded(path):
            descriptor = os.open(path, os.O_RDONLY | _READ)
        if descriptor is None:
            with self.entry_to_read(path) if to_read else self.entry(path) as entry:
                follows = to_read and not entry.is_own
                descriptor = _opened(entry.name, entry.directory, path, _READ | (0 if follows else os.O_NOFOLLOW))
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _open_held(self, path: str) -> int | None:
        with self._lock:
            held = self._held.get(_trimmed(path))
            return None if held is None else os.open(".", os.O_RDONLY | _READ, dir_fd=held.descriptor)

    def _prefix(self, path: str) -> str | None:
        """The longest path of a held directory that `path` lies in."""
        at = path.rfind("/")
        while at > 0:
            if path[:at] in self._held:
                return path[:at]
            at = path.rfind("/", 0, at)
        return None

    def _way(self, path: str, may_follow: Callable[[Sequence[str]], bool]) -> _Way:
        """From the directory to begin at to the one that the last name of `path` is looked up in."""
        trimmed = _trimmed(path)
        with self._lock:
            prefix = self._prefix(trimmed)
            descriptor = None if prefix is None else os.dup(self._held[prefix].descriptor)
        names = trimmed.split("/")
        begin = len(prefix.split("/")) if prefix is not None else names.index(OWN_DIRECTORY) if is_own(path) else -1
        if descriptor is None:
            descriptor = os.open("/".join(names[:begin]) or ("/" if path.startswith("/") else "."), os.O_RDONLY | _LOOK)
        names = names[begin:]
        try:
            for at, name in enumerate(names[:-1]):
                flags = _LOOK | (0 if may_follow(names[: at + 1]) else os.O_NOFOLLOW)
                below = _opened(_checked(name, path), descriptor, path, flags)
                os.close(descriptor)
                descriptor = below
            return _Way(descriptor, _checked(names[-1], path))
        except BaseException:
            os.close(descriptor)
            raise


class _Way(NamedTuple):
    descriptor: int
    name: str


def is_own(path: str) -> bool:
    """Whether a path leads to a `.kafkalog`, or to what lies in it."""
    return OWN_DIRECTORY in path and OWN_DIRECTORY in path.split("/")


@contextmanager
def _closed_after(way: _Way) -> Iterator[_Way]:
    try:
        yield way
    finally:
        os.close(way.descriptor)


def _no_link(names: Sequence[str]) -> bool:
    del names
    return False


def _link_outside(names: Sequence[str]) -> bool:
    return OWN_DIRECTORY not in names


def _opened(name: str, directory: int | None, path: str, flags: int) -> int:
    try:
        return os.open(name, os.O_RDONLY | flags, dir_fd=directory)
    except NotADirectoryError as error:  # what Linux says of a link, where a directory is asked for
        if _is_link(name, directory):
            raise link_in_the_way(path) from error
        raise


def _is_link(name: str, directory: int | None) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)
    except OSError:
        return False


def link_in_the_way(path: str) -> OSError:
    """What to raise for a symbolic link where none is followed."""
    return OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)


def _checked(name: str, path: str) -> str:
    if name in _NO_NAMES:
        raise OSError(errno.EINVAL, "not the name of an entry", path)
    return name


def _trimmed(path: str) -> str:
    return path.rstrip("/") or "/"
