"""The commands that change partitions, run on a disk in memory: the whole command line, without typer's start."""

from __future__ import annotations

import functools
import io
from dataclasses import dataclass
from typing import NamedTuple
from unittest import mock

import typer
from log_directories import OWN, PARTITION, ROOT, log_directory
from memory_fs import MemoryFilesystem

from kafkalog_cli.cli.app import run
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.storage.kernels import KernelChoice

NOW_MS = 1_795_000_000_000
MONTH_MS = 30 * 86_400_000
SETTINGS = ("--config", "segment.index.bytes=4096", "--config", "index.interval.bytes=100")
RUN_ID = "20261118T110640.000Z-recover-0001"

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
    ):
        code = run(list(argv), environment)
    outcome = Outcome(code, out.getvalue().decode(errors="replace"), err.getvalue().decode(errors="replace"))
    assert "internal error" not in outcome.err, outcome
    return outcome


@dataclass(frozen=True)
class Writer:
    """A command: `argv` without options that do not matter, `recovers` if it is a kind of recover."""

    name: str
    argv: tuple[str, ...]
    now_ms: int = NOW_MS

    @property
    def recovers(self) -> bool:
        return self.argv[0] == "recover"

    def act(self, fs: object, *more: str, token: str = "0001") -> Outcome:
        return kafkalog(fs, *self.argv, *more, now_ms=self.now_ms, token=token)

    def disk(self, fixture: str) -> MemoryFilesystem:
        """A disk on which it has something to do: undo and purge need a run, purge one that is old."""
        fs = log_directory(fixture)
        if not self.recovers:
            assert RECOVER.act(fs).code == 0
            assert fs.status(f"{OWN}/{RUN_ID}") is not None
        if self.name == "purge":
            fs.add(f"{PARTITION}/{300:020d}.log.deleted", b"gone")
            fs.add(f"{PARTITION}/{300:020d}.index.deleted", b"")
        fs.settle()
        return fs


RECOVER = Writer("recover", ("recover", ROOT, *SETTINGS))
LIKE_BROKER = Writer("like-broker", ("recover", "--like-broker", ROOT, *SETTINGS))
INDEXES_ONLY = Writer("indexes-only", ("recover", "--indexes-only", ROOT, *SETTINGS))
UNDO = Writer("undo", ("undo", ROOT, RUN_ID))
PURGE = Writer("purge", ("purge", ROOT), NOW_MS + MONTH_MS)
WRITERS = (RECOVER, LIKE_BROKER, INDEXES_ONLY, UNDO, PURGE)


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
