"""Read small files for a listing: a file that cannot be read or decoded gives a fault, never an exception."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from kafkalog_cli.disk.fs import FileStatus, Filesystem, read_all
from kafkalog_cli.errors import KafkalogError
from kafkalog_cli.format.fault import Fault, unreadable

ValueT = TypeVar("ValueT")


@dataclass(frozen=True, slots=True)
class LocatedFault:
    """A fault, and the file or directory that has it.

    `is_corruption`: the bad bytes are before the end of the log, not at its tail or in a file beside it.
    """

    path: str
    fault: Fault
    is_corruption: bool = False


class FaultNotes:
    """Collects faults while files are read."""

    def __init__(self, fs: Filesystem) -> None:
        self.fs = fs
        self._found: list[LocatedFault] = []

    @property
    def found(self) -> tuple[LocatedFault, ...]:
        """The faults so far."""
        return tuple(self._found)

    def add(self, path: str, faults: Iterable[Fault], *, is_corruption: bool = False) -> None:
        """Note faults of one file."""
        self._found += [LocatedFault(path, fault, is_corruption) for fault in faults]

    def merge(self, others: Iterable[LocatedFault]) -> None:
        """Note faults that already have their paths."""
        self._found += others

    def read(self, path: str) -> bytes | None:
        """Return the bytes of a small file; None, with a fault noted, if it cannot be read."""
        try:
            return read_all(self.fs, path)
        except (KafkalogError, OSError) as error:
            self.add(path, [unreadable(error)])
            return None

    def decoded(
        self, status: FileStatus | None, decode: Callable[[bytes], tuple[ValueT, list[Fault]]]
    ) -> ValueT | None:
        """Decode a small file and note its faults; None if there is no file, or if it cannot be read."""
        data = None if status is None else self.read(status.path)
        if status is None or data is None:
            return None
        value, faults = decode(data)
        self.add(status.path, faults)
        return value
