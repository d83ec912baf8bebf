"""Changes of the files of a partition directory that are planned and not yet made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol


class Content(Protocol):
    """The bytes of a file that is to be written, given out piece by piece."""

    @property
    def size_bytes(self) -> int:
        """How many bytes there are."""

    def pieces(self) -> Iterator[bytes]:
        """All bytes, in order; may be called again."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Shorten `name` in place, from `from_bytes` to `to_bytes`."""

    name: str
    from_bytes: int
    to_bytes: int


@dataclass(frozen=True, slots=True)
class Move:
    """Rename `name`, also of a file that was just put, to `new_name`, where nothing is at that time."""

    name: str
    new_name: str


@dataclass(frozen=True, slots=True)
class Drop:
    """Take the file away."""

    name: str


@dataclass(frozen=True, slots=True)
class Put:
    """Write a file, new or (`replaces`) in the place of the one that has the name."""

    name: str
    content: Content
    replaces: bool

    def __reduce__(self) -> tuple[object, ...]:
        """To another process goes what is said of it, not the bytes: they are written where they are made."""
        return Put, (self.name, Staged(self.name, self.content.size_bytes), self.replaces)


@dataclass(frozen=True, slots=True)
class Staged(Content):
    """What a run has written into its own directory already, as a file of this name."""

    name: str
    size_bytes: int

    def pieces(self) -> Iterator[bytes]:
        """Nobody writes it again."""
        raise NotImplementedError


Change = Cut | Move | Drop | Put
"""They are made in the order in which a plan has them."""
