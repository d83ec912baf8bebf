"""File systems around another one: every call recorded, a look after each change, the n-th call failing."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tests.support.product import NotLookedUp, ReadableFile, RealFilesystem, Unreadable

CHANGES = frozenset(
    {
        *("create", "write", "truncate", "sync", "rename", "link", "unlink"),
        *("make_directory", "remove_directory", "sync_directory", "set_attributes"),
    }
)
READS = frozenset({"open_read", "read", "status", "list_directory", "attributes"})
TAKES_ROOM = frozenset({"create", "write", "truncate", "sync", "rename", "link", "make_directory", "lock"})
FAULTS = {
    "EIO": (errno.EIO, CHANGES | READS | {"open_write", "lock"}),
    "ENOSPC": (errno.ENOSPC, TAKES_ROOM),
    "EINTR": (errno.EINTR, CHANGES),
    "EACCES": (errno.EACCES, CHANGES - {"write", "sync"} | {"open_read", "open_write", "list_directory", "lock"}),
    "short write": (errno.ENOSPC, frozenset({"write"})),
}
"""What can go wrong, and with which calls. EINTR is retried by Python and can come back all the same, from a signal
handler that raises."""


class Call(NamedTuple):
    """One call: `to` is the new name of a rename or link, `detail` what there is besides paths."""

    name: str
    path: str
    to: str = ""
    detail: Any = None


class WatchedFilesystem:
    """Passes everything on to `below`. `before(call)` may raise, or return a replacement; `after(call)` sees it done."""

    def __init__(self, below: Any) -> None:
        self.below = below

    def before(self, call: Call) -> None:
        pass

    def after(self, call: Call) -> None:
        pass

    def perform(self, call: Call, action: Callable[[], Any]) -> Any:
        self.before(call)
        result = action()
        self.after(call)
        return result

    def open_read(self, path: str) -> Any:
        return WatchedReader(self, self.perform(Call("open_read", path), lambda: self.below.open_read(path)))

    def status(self, path: str) -> Any:
        return self.perform(Call("status", path), lambda: self.below.status(path))

    def list_directory(self, path: str) -> Any:
        return self.perform(Call("list_directory", path), lambda: self.below.list_directory(path))

    def hold_directory(self, path: str, *also: str) -> Any:
        """No call of its own: it changes nothing, and what comes through it is seen."""
        return self.below.hold_directory(path, *also)

    def create(self, path: str, attributes: Any = None) -> Any:
        call = Call("create", path, detail=attributes)
        return WatchedWriter(self, self.perform(call, lambda: self.below.create(path, attributes)))

    def open_write(self, path: str, *, most_links: int = 1) -> Any:
        call = Call("open_write", path)
        return WatchedWriter(self, self.perform(call, lambda: self.below.open_write(path, most_links=most_links)))

    def rename(self, old: str, new: str) -> None:
        self.perform(Call("rename", old, new), lambda: self.below.rename(old, new))

    def link(self, old: str, new: str) -> None:
        self.perform(Call("link", old, new), lambda: self.below.link(old, new))

    def unlink(self, path: str) -> None:
        self.perform(Call("unlink", path), lambda: self.below.unlink(path))

    def make_directory(self, path: str, attributes: Any = None) -> None:
        self.perform(Call("make_directory", path), lambda: self.below.make_directory(path, attributes))

    def remove_directory(self, path: str) -> None:
        self.perform(Call("remove_directory", path), lambda: self.below.remove_directory(path))

    def sync_directory(self, path: str) -> None:
        self.perform(Call("sync_directory", path), lambda: self.below.sync_directory(path))

    def attributes(self, path: str) -> Any:
        return self.perform(Call("attributes", path), lambda: self.below.attributes(path))

    def set_attributes(self, path: str, attributes: Any) -> None:
        call = Call("set_attributes", path, detail=attributes)
        self.perform(call, lambda: self.below.set_attributes(path, attributes))

    def room(self, path: str) -> Any:
        return self.perform(Call("room", path), lambda: self.below.room(path))

    def lock(self, path: str, *, first_byte: int, exclusive: bool) -> Any:
        call = Call("lock", path, detail=(first_byte, exclusive))
        return self.perform(call, lambda: self.below.lock(path, first_byte=first_byte, exclusive=exclusive))


class _Watched:
    def __init__(self, fs: WatchedFilesystem, file: Any) -> None:
        self.fs = fs
        self.file = file
        self.path = file.path

    def close(self) -> None:
        self.file.close()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


class WatchedReader(_Watched):
    def data_from(self, position: int) -> int:
        return self.file.data_from(position)

    send_to = ReadableFile.send_to

    @property
    def size_bytes(self) -> int:
        return self.file.size_bytes

    def read_into(self, position: int, buffer: memoryview) -> int:
        call = Call("read", self.path, detail=(position, len(buffer)))
        return self.fs.perform(call, lambda: self.file.read_into(position, buffer))


class WatchedWriter(_Watched):
    def write(self, position: int, data: bytes | memoryview) -> None:
        call = Call("write", self.path, detail=(position, bytes(data)))
        self.fs.perform(call, lambda: self.file.write(position, data))

    def truncate(self, size_bytes: int) -> None:
        self.fs.perform(Call("truncate", self.path, detail=size_bytes), lambda: self.file.truncate(size_bytes))

    def sync(self) -> None:
        self.fs.perform(Call("sync", self.path), self.file.sync)


class RecordingFilesystem(WatchedFilesystem):
    """`calls`: everything that was asked, in order. `watch(call)` is told of each change after it was made."""

    def __init__(self, below: Any, watch: Callable[[Call], None] | None = None) -> None:
        super().__init__(below)
        self.calls: list[Call] = []
        self.watch = watch

    def after(self, call: Call) -> None:
        self.calls.append(call)
        if self.watch is not None and call.name in CHANGES | {"lock"}:
            self.watch(call)

    @property
    def changes(self) -> list[Call]:
        return [call for call in self.calls if call.name in CHANGES]


class FailingFilesystem(WatchedFilesystem):
    """The n-th call (from 0) that can fail so does; `for_ever`: so do all after it."""

    def __init__(self, below: Any, fault: str, n: int, *, for_ever: bool = False) -> None:
        super().__init__(below)
        self.fault = fault
        self.n = n
        self.for_ever = for_ever
        self.failed: list[Call] = []
        self.calls_after: list[Call] = []
        self.passed: list[Call] = []  # those that could have failed
        self._count = 0

    @property
    def fired(self) -> bool:
        return bool(self.failed)

    @property
    def candidates(self) -> int:
        """How many calls came that could fail so."""
        return self._count

    def perform(self, call: Call, action: Callable[[], Any]) -> Any:
        number, names = FAULTS[self.fault]
        is_candidate = call.name in names
        if is_candidate and (self._count == self.n or (self.for_ever and self._count > self.n)):
            self._count += 1
            self.failed.append(call)
            if self.fault == "short write":
                position, data = call.detail
                with self.below.open_write(call.path) as file:
                    file.write(position, data[: len(data) // 2])
            error = OSError(number, os.strerror(number), call.path)
            if call.name in ("open_read", "list_directory", "status"):
                kind = NotLookedUp if call.name == "status" else Unreadable
                raise kind(path=call.path, reason=error.strerror) from error
            raise error
        self._count += is_candidate
        if is_candidate:
            self.passed.append(call)
        if self.failed:
            self.calls_after.append(call)
        return action()


def every_fault(below: Callable[[], Any], faults: tuple[str, ...] = tuple(FAULTS)) -> Iterator[FailingFilesystem]:
    """A failing file system for each call, kind of fault and duration, each around a disk that `below` makes.

    Drive each to its end before the next is asked for: a kind is through when a whole run had no fault.
    """
    for fault in faults:
        for for_ever in (False, True):
            n = 0
            while True:
                fs = FailingFilesystem(below(), fault, n, for_ever=for_ever)
                yield fs
                if not fs.fired:
                    assert n > 0, f"no call can fail with {fault}"
                    break
                n += 1


class Swapping(WatchedFilesystem):
    """Before the n-th call, `swap` puts another directory, a link or nothing in a name's place."""

    def __init__(self, n, swap):
        super().__init__(RealFilesystem())
        self.calls = 0
        self._n, self._swap = n, swap

    def before(self, call):
        del call
        if self.calls == self._n:
            self._swap()
        self.calls += 1
