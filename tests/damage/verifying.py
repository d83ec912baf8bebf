"""Verifies a small log in memory, with the files beside it that a broker would have."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from tests.damage.makers import SmallLog
from tests.support.commands import json_of
from tests.support.faulty_fs import FaultyFilesystem
from tests.support.logs import indexes
from tests.support.naive_reader import read_batches

FOLDER = "/topic-0"
NOW_MS = 1_700_000_000_000
LEVELS = ("quick", "normal", "deep")


class Finding(NamedTuple):
    """A line of `verify --format json`, its path without the folder."""

    kind: str
    severity: str
    path: str
    position: int | None
    first_offset: int | None
    last_offset: int | None
    expected: str | None
    got: str | None
    message: str
    broker_effect: str
    next_step: str


class Told(NamedTuple):
    """A finding without its prose."""

    kind: str
    position: int | None
    message: str


@cache
def beside(log: SmallLog) -> dict[str, bytes]:
    """Offset index with an entry a batch, time index, leader epochs."""
    if log.is_v07:
        return {}
    batches = list(read_batches(log.data))
    written = [(log.data[b.position : b.position + b.size_bytes], b.last_offset, b.max_timestamp) for b in batches]
    index, times = indexes(written, 0, 0)
    epochs = sorted({b.leader_epoch for b in batches if b.leader_epoch >= 0})
    lines = "".join(f"{epoch} 0\n" for epoch in epochs)
    return {
        f"{0:020}.index": index,
        **({} if batches[0].magic == 0 else {f"{0:020}.timeindex": times}),
        "leader-epoch-checkpoint": f"0\n{len(epochs)}\n{lines}".encode(),
    }


def verified(files: dict[str, bytes], level: str = "deep", *options: str) -> tuple[Finding, ...]:
    """What `verify` finds in a partition of such files; `level` is quick, normal or deep."""
    lines = verification(files, level, *options)
    return tuple(
        Finding(**{name: line[name] for name in Finding._fields}) for line in lines if line["type"] == "finding"
    )


def verification(files: dict[str, bytes], level: str = "deep", *options: str) -> list[dict[str, Any]]:
    """All that `verify` prints of it."""
    fs = FaultyFilesystem({f"{FOLDER}/{name}": data for name, data in files.items()})
    words = ("verify", FOLDER, "--level", level, *options)
    _, lines, _ = json_of(*words, fs=fs, now_ms=lambda: NOW_MS, sleep=lambda _: None)
    return lines


def bad(findings: tuple[Finding, ...]) -> set[Told]:
    """The findings from a warning on."""
    return {Told(found.kind, found.position, found.message) for found in findings if found.severity != "info"}
