"""Planned changes of the files of a partition directory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kafkalog_cli.disk.durable import Content


@dataclass(frozen=True, slots=True)
class Cut:
    """Shorten `name` in place, from `from_bytes` to `to_bytes`."""

    name: str
    from_bytes: int
    to_bytes: int


@dataclass(frozen=True, slots=True)
class Move:
    """Rename the file `name`, which an earlier Put may have written, to `new_name`, which is free at that time."""

    name: str
    new_name: str


@dataclass(frozen=True, slots=True)
class Drop:
    """Remove the file."""

    name: str


@dataclass(frozen=True, slots=True)
class Put:
    """Write a file. `replaces`: the file replaces an existing file of this name; otherwise the name is free."""

    name: str
    content: Content
    replaces: bool

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the name and the size but not the content: the process that makes the bytes also writes them."""
        return Put, (self.name, Staged(self.name, self.content.size_bytes), self.replaces)


@dataclass(frozen=True, slots=True)
class Staged(Content):
    """Content that a run has already written into its own directory, as a file called `name`."""

    name: str
    size_bytes: int

    def pieces(self) -> Iterator[bytes]:
        """Raise NotImplementedError: the journal renames the staged file and never reads its bytes here."""
        raise NotImplementedError


Change = Cut | Move | Drop | Put
"""One change of a plan. The changes are made in the order of the plan."""
