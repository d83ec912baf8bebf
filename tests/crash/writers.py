"""The commands that change partitions, run on a disk in memory: the whole command line, without typer's start.

One that is new is a row of WRITERS; its kind says what the tests ask of a disk on which it was cut off.
"""

from __future__ import annotations

import functools
import io
from dataclasses import dataclass
from enum import Enum, unique
from itertools import count
from typing import NamedTuple
from unittest import mock

import typer
from log_directories import OWN, PARTITION, ROOT, log_directory
from memory_fs import SURVIVALS, MemoryFilesystem

from kafkalog_cli.cli.app import run
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.storage import journal
from kafkalog_cli.storage.kernels import KernelChoice

NOW_MS = 1_795_000_000_000
MONTH_MS = 30 * 86_400_000
SETTINGS = ("--config", "segment.index.bytes=4096", "--config", "index.interval.bytes=100")
RUN_ID = "20261118T110640.000Z-recover-0001"
OUT = "/out"
KEPT = SURVIVALS[0]

_PLAIN = KernelChoice(forced=False)
_get_command = functools.cache(typer.main.get_command)


class Outcome(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


def kafkalog(fs: object, *argv: str, now_ms: int = NOW_MS, token: str = "0001") -> Outcome:
    """Run a command line. Its run is named by the time and `token`: two runs at one time need two."""
    out, err = io.BytesIO(), io.BytesIO()
    environment = Environment(stdout=out, stderr=err, fs=fs, now_ms=lambda: now_ms, kernels=_PLAIN)
    with (
        mock.patch.object(typer.main, "get_command", _get_command),
        mock.patch("secrets.token_hex", return_value=token),
        mock.patch.object(journal, "_orders", count(1)),  # a process for each command
    ):
        code = run(list(argv), environment)
    outcome = Outcome(code, out.getvalue().decode(errors="replace"), err.getvalue().decode(errors="replace"))
    assert "internal error" not in outcome.err, outcome
    return outcome


@unique
class Kind(Enum):
    """What a command is, and so what another run, `recover` and `undo` must make of a disk on which it was cut off."""

    REPAIRS = "repairs"  # ends where the whole run would have, from wherever it was cut off
    CHANGES = "changes"  # with records that go, or a log start: before or after, `undo` gives back what was before
    UNDOES = "undoes"
    REMOVES = "removes"  # what nothing refers to any more
    COPIES = "copies"  # into a directory of its own; nothing else is touched


@dataclass(frozen=True)
class Writer:
    """A command: `argv` without options that do not matter; `codes` are the exit codes of a run that did it all."""

    name: str
    kind: Kind
    argv: tuple[str, ...]
    now_ms: int = NOW_MS
    codes: frozenset[int] = frozenset({0})

    def act(self, fs: object, *more: str, token: str = "0001") -> Outcome:
        return kafkalog(fs, *self.argv, *more, now_ms=self.now_ms, token=token)

    def disk(self, fixture: str) -> MemoryFilesystem:
        """A disk on which it has something to do: undo and purge need a run, purge one that is old."""
        return _disk(self, fixture).image(KEPT)


@functools.cache
def _disk(writer: Writer, fixture: str) -> MemoryFilesystem:
    fs = log_directory(fixture)
    if writer.kind in (Kind.UNDOES, Kind.REMOVES):
        assert RECOVER.act(fs).code == 0
        assert fs.status(f"{OWN}/{RUN_ID}") is not None
    if writer.kind is Kind.REMOVES:
        fs.add(f"{PARTITION}/{300:020d}.log.deleted", b"gone")
        fs.add(f"{PARTITION}/{300:020d}.index.deleted", b"")
    fs.settle()
    return fs


RECOVER = Writer("recover", Kind.REPAIRS, ("recover", ROOT, *SETTINGS))
LIKE_BROKER = Writer("like-broker", Kind.REPAIRS, ("recover", "--like-broker", ROOT, *SETTINGS))
INDEXES_ONLY = Writer("indexes-only", Kind.REPAIRS, ("recover", "--indexes-only", ROOT, *SETTINGS))
SALVAGE = Writer("salvage", Kind.COPIES, ("recover", "--salvage", OUT, ROOT, *SETTINGS), codes=frozenset({0, 3, 4}))
UNDO = Writer("undo", Kind.UNDOES, ("undo", ROOT, RUN_ID))
PURGE = Writer("purge", Kind.REMOVES, ("purge", ROOT), NOW_MS + MONTH_MS)
WRITERS = (RECOVER, LIKE_BROKER, INDEXES_ONLY, SALVAGE, UNDO, PURGE)


def runs_of(fs: MemoryFilesystem) -> list[str]:
    """The partition's runs, newest first."""
    if fs.status(OWN) is None:
        return []
    names = (entry.path.rpartition("/")[2] for entry in fs.list_directory(OWN) if entry.is_directory)
    return sorted(names, reverse=True)


def undo_all(fs: MemoryFilesystem) -> None:
    """Take all runs back, the newest first."""
    for run_id in runs_of(fs):
        outcome = kafkalog(fs, "undo", ROOT, run_id)
        assert outcome.code == 0, outcome
