"""A partition with files beside its logs that are much larger than brokers make them, and commands that change it."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c

from tests.damage.makers import START_MS, batch, record

PRODUCER_ENTRY = [
    ("producer_id", ">i8"),
    ("producer_epoch", ">i2"),
    ("last_sequence", ">i4"),
    ("last_offset", ">i8"),
    ("offset_delta", ">i4"),
    ("timestamp", ">i8"),
    ("coordinator_epoch", ">i4"),
    ("current_txn_first_offset", ">i8"),
]
"""Of a producer snapshot, for numpy."""
FIRST, SECOND = "0" * 20, f"{20:020}"
DELETES, COMPACTS = ("--config", "cleanup.policy=delete"), ("--config", "cleanup.policy=compact", "--force")
WRITERS = {
    "recover": (),
    "recover --indexes-only": (),
    "recover --like-broker": (),
    "append": ("--single-replica",),
    "roll": ("--force",),
    "truncate": ("--single-replica", "--to", "30"),
    "delete-records": ("--single-replica", "--before", "25"),
    "retain": (*DELETES, "--config", "retention.ms=1"),
    "compact": COMPACTS,
}
ENTRIES = {
    ".index": struct.pack(">ii", 19, 100),
    ".timeindex": struct.pack(">qi", START_MS, 19),
    ".txnindex": struct.pack(">hqqqq", 0, 5, 0, 3, 4),
}


def partition(path: Path) -> Path:
    """A partition of two segments of 20 batches each."""
    path.mkdir(parents=True)
    for name, first in ((FIRST, 0), (SECOND, 20)):
        batches = (batch(at, [record(0, b"k%d" % (at % 5), b"v" * 90)]) for at in range(first, first + 20))
        (path / f"{name}.log").write_bytes(b"".join(batches))
        for index in (".index", ".timeindex"):
            (path / f"{name}{index}").touch()
    return path


def sparse(path: Path, size_bytes: int, start: bytes = b"", end: bytes = b"") -> None:
    with path.open("wb") as file:
        file.write(start)
        file.truncate(size_bytes)
        file.seek(size_bytes - len(end))
        file.write(end)


def command(name: str, path: Path) -> tuple[str, ...]:
    verb, *options = name.split()
    inputs = [str(path.parents[1] / "in.ndjson")] if verb == "append" else []
    return verb, *options, *WRITERS[name], str(path), *inputs


def snapshot(count: int) -> bytes:
    """A snapshot of producers that never expire, whose batches have been deleted."""
    np = pytest.importorskip("numpy")
    rows = {"producer_id": np.arange(count), "last_offset": 5, "coordinator_epoch": -1, "current_txn_first_offset": -1}
    return producers(count, rows)


def producers(count: int, columns: dict[str, Any]) -> bytes:
    """A snapshot of `count` producers that never expire; a column that is not given is 0."""
    np = pytest.importorskip("numpy")
    rows = np.zeros(count, PRODUCER_ENTRY)
    for name, values in {"timestamp": 1 << 60, **columns}.items():
        rows[name] = values
    body = struct.pack(">i", count) + rows.tobytes()
    return struct.pack(">hI", 1, crc32c(body)) + body
