"""The values of an erasure: the erased keys, and the files that still contain them."""

from __future__ import annotations

from enum import Enum, unique
from typing import NamedTuple

MOST_OFFSETS = 1000
"""Number of offsets reported per key: the first. The number of records is always complete."""


@unique
class RecordPlace(Enum):
    """Where records are. The value is the word in machine output."""

    CLEANED = "cleaned-part"
    UNCLEANABLE = "uncleanable-part"  # at or past the last stable offset or the high watermark, or too young
    ACTIVE = "active-segment"
    WAITING = "waiting-file"  # `.deleted` files of a run or a broker
    RUN = "run"  # files that an earlier run keeps for undo
    DIRECTORY = "directory"  # another directory of the partition: -delete, -future, -stray


class ErasedKey(NamedTuple):
    """Records of a key in the cleaned part of the log. `line` is the key's line in the file of keys, from 1 on."""

    line: int
    records: int
    offsets: tuple[int, ...]
    last_offset: int | None


class LogDigest(NamedTuple):
    """A log of the partition, and the number of its records that have one of the keys."""

    name: str
    size_bytes: int
    sha256: str
    records: int


class Holder(NamedTuple):
    """A file that contains records of the keys, or may contain them because it cannot be read to its end (`unread`)."""

    path: str
    place: RecordPlace
    records: int
    unread: str | None = None


class Erasure(NamedTuple):
    """The proof of an erasure. `after` is None if nothing was erased.

    `wanted` is the number of requested keys. `replication` describes what is known of other replicas. `holders` are the
    files that contain records of the keys afterwards.
    """

    replication: str
    wanted: int
    keys: tuple[ErasedKey, ...] = ()
    before: tuple[LogDigest, ...] = ()
    after: tuple[LogDigest, ...] | None = None
    holders: tuple[Holder, ...] = ()
