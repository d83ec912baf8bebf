"""What there is to say of keys that were erased, and of what still holds them: values for plan, proof and output."""

from __future__ import annotations

from enum import Enum, unique
from typing import NamedTuple

MOST_OFFSETS = 1000
"""So many offsets are told of a key, the first ones; how many there are is told in any case."""


@unique
class Place(Enum):
    """Where records lie. The value is the word that machine output uses."""

    CLEANED = "cleaned-part"
    UNCLEANABLE = "uncleanable-part"  # at or past the last stable offset or the high watermark, or too young
    ACTIVE = "active-segment"
    WAITING = "waiting-file"  # what a run or a broker left to be unlinked
    RUN = "run"  # what an earlier run keeps for its undo
    DIRECTORY = "directory"  # another one of the partition: -delete, -future, -stray


class ErasedKey(NamedTuple):
    """Records of a key in the part that is cleaned; `line` is where the key stands in the file of keys, from 1 on."""

    line: int
    records: int
    offsets: tuple[int, ...]
    last_offset: int | None


class LogDigest(NamedTuple):
    """A log of the partition, and how many of its records have one of the keys."""

    name: str
    size_bytes: int
    sha256: str
    records: int


class Holder(NamedTuple):
    """A file that holds records of the keys, or that cannot be read to its end and may: `unread` says why."""

    path: str
    place: Place
    records: int
    unread: str | None = None


class Erasure(NamedTuple):
    """The proof of an erasure; without `after` nothing was erased.

    `wanted` is how many keys are asked for, `replication` what is known of other replicas. `holders` are what holds
    records of the keys when all is done.
    """

    replication: str
    wanted: int
    keys: tuple[ErasedKey, ...] = ()
    before: tuple[LogDigest, ...] = ()
    after: tuple[LogDigest, ...] | None = None
    holders: tuple[Holder, ...] = ()
