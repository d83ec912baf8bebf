"""A disk for tests: files in memory or real ones, with faults that are put in by name and must fire.

Only what the product's Filesystem promises is used, so nothing in the program knows of it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import pytest

from tests.support.product import (
    FileStatus,
    Filesystem,
    KafkalogError,
    NotKafkaLayout,
    PathNotFound,
    ReadableFile,
    Unreadable,
    WritableFilesystem,
)

MTIME_MS = 1_600_000_000_000


@dataclass
class Injection:
    """One fault: `strike` may raise OSError or change what is read; `times` None: always."""

    what: str
    path: str
    times: int | None = None
    begin: int = 0
    end: int = 0
    error: int = 0
    refusal: KafkalogError | None = None
    contents: bytes | None = None
    fired: int = 0

    def is_due(self) -> bool:
        return self.times is None or self.fired < self.times


CHANGES = {name for name in vars(WritableFilesystem).keys() - vars(Filesystem).keys() if not name.startswith("_")}


class FaultyFilesystem:
    """`files` by path in memory (their directories exist with them); other paths are those of `below`, if any."""

    def __init__(self, files: dict[str, bytes] | None = None, below: Filesystem | None = None) -> None:
        self.files = dict(files or {})
        self.below = below
        self.injections: list[Injection] = []
        self.reads = 0
        self.bytes_read = 0

    def __getattr__(self, name: str) -> Callable[..., None]:
        """Return a change that fails: who only reads may ask for it, and does not call it."""
        if name not in CHANGES:
            raise AttributeError(name)
        return partial(pytest.fail, f"{name} of a file system that is only read")

    # -- faults

    def fail_read(
        self, path: str, begin: int, end: int, *, times: int | None = None, error: int = errno.EIO
    ) -> Injection:
        """Reads that touch bytes `begin` to `end` of `path` raise; a read gives nothing of what it asked for."""
        return self._inject(Injection("read", path, times, begin, end, error))

    def refuse_open(self, path: str, *, error: int = errno.EACCES, times: int | None = None) -> Injection:
        """Opening `path` (or listing it, if a directory) is refused."""
        refusal = Unreadable(path=path, reason=os.strerror(error))
        return self._inject(Injection("open", path, times, refusal=refusal))

    def change_while_read(self, path: str, contents: bytes, *, begin: int = 0) -> Injection:
        """The first read that touches bytes from `begin` on, and all after it, see `contents` (shorter, longer, other)."""
        return self._inject(Injection("change", path, 1, begin, 1 << 62, contents=contents))

    def _inject(self, injection: Injection) -> Injection:
        self.injections.append(injection)
        return injection

    def unfired(self) -> list[Injection]:
        return [injection for injection in self.injections if not injection.fired]

    # -- Filesystem

    def open_read(self, path: str) -> ReadableFile:
        self._strike_open(path)
        data = self.files.get(path)
        if data is not None:
            return _FaultyFile(self, path, len(data), None)
        if self._is_directory(path):
            raise NotKafkaLayout(path=path, reason="is a directory")
        if self.below is None:
            raise PathNotFound(path=path)
        real = self.below.open_read(path)
        return _FaultyFile(self, path, real.size_bytes, real)

    def status(self, path: str) -> FileStatus | None:
        data = self.files.get(path)
        if data is not None:
            return _status(path, len(data))
        if self._is_directory(path):
            return _status(path, None)
        return None if self.below is None else self.below.status(path)

    def list_directory(self, path: str) -> list[FileStatus]:
        self._strike_open(path)
        if not self._is_directory(path):
            if self.below is None:
                raise PathNotFound(path=path)
            return self.below.list_directory(path)
        start = path.rstrip("/") + "/"
        names = {name.removeprefix(start).partition("/")[0] for name in self.files if name.startswith(start)}
        found = [self.status(start + name) for name in sorted(names)]
        return [status for status in found if status is not None]

    # -- what the files do

    def read(self, path: str, real: ReadableFile | None, position: int, buffer: memoryview) -> int:
        self.reads += 1
        end = position + len(buffer)
        for injection in self.injections:
            if injection.path != path or not injection.is_due() or injection.begin >= end or position >= injection.end:
                continue
            if injection.what == "read":
                injection.fired += 1
                raise OSError(injection.error, os.strerror(injection.error), path)
            if injection.what == "change" and injection.contents is not None:
                injection.fired += 1
                self.files[path] = injection.contents
        data = self.files.get(path)
        if data is None:
            assert real is not None
            return real.read_into(position, buffer)
        part = data[position:end]
        buffer[: len(part)] = part
        self.bytes_read += len(part)
        return len(part)

    def _strike_open(self, path: str) -> None:
        for injection in self.injections:
            if injection.what == "open" and injection.path == path and injection.is_due():
                injection.fired += 1
                assert injection.refusal is not None
                raise injection.refusal

    def _is_directory(self, path: str) -> bool:
        start = path.rstrip("/") + "/"
        return any(name.startswith(start) for name in self.files)


class _FaultyFile(ReadableFile):
    def __init__(self, fs: FaultyFilesystem, path: str, size_bytes: int, real: ReadableFile | None) -> None:
        self.path = path
        self.size_bytes = size_bytes
        self._fs = fs
        self._real = real

    def read_into(self, position: int, buffer: memoryview) -> int:
        return self._fs.read(self.path, self._real, position, buffer)

    def close(self) -> None:
        if self._real is not None:
            self._real.close()


@dataclass
class BytesFile(ReadableFile):
    """An open file of bytes: what `Scan` and the others need, without a disk."""

    data: bytes
    path: str = "00000000000000000000.log"
    size_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        self.size_bytes = len(self.data)

    def read_into(self, position: int, buffer: memoryview) -> int:
        part = self.data[position : position + len(buffer)]
        buffer[: len(part)] = part
        return len(part)

    def close(self) -> None:
        pass


@contextmanager
def short_preads(monkeypatch_setattr: Callable[..., None], most_bytes: int) -> Iterator[list[int]]:
    """The operating system gives at most `most_bytes` a call; the list grows by what each call gave."""
    real, given = os.preadv, []

    def preadv(descriptor: int, buffers: list[memoryview], offset: int) -> int:
        count = real(descriptor, [buffers[0][:most_bytes]], offset)
        given.append(count)
        return count

    monkeypatch_setattr(os, "preadv", preadv)
    yield given
    assert given, "no read was cut short"


def _status(path: str, size_bytes: int | None) -> FileStatus:
    return FileStatus(
        path, size_bytes or 0, MTIME_MS, 1, size_bytes is None, size_bytes is not None, False, size_bytes or 0
    )
