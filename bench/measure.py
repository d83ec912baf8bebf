"""Runs two commands in turn: wall time and peak memory of each, and what the pairs say."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # each start would compile the sources, NumPy's too
MANY_PAIRS_SECONDS = 2.0
"""A pair that takes less is run `MORE` times as often."""
OUR_CODES = (0, 3)
"""verify warns of logs that have no leader epochs."""
LONG_SECONDS = 5.0
"""After a peer that took longer than this, what we use has left the caches."""
RUNS_AFTER_LONG = 3
MORE = 3
LEAST_PAIRS = 3
MUCH_LONGER = 2
"""After so many times the seconds of a row, fewer pairs than `LEAST_PAIRS` are enough."""


class Failed(Exception):
    """A measured command ended with another code than 0."""


class Run(NamedTuple):
    """One run of a command. `peak_bytes` is the largest resident set of the process itself."""

    seconds: float
    peak_bytes: int
    cpu_seconds: float
    """User and system."""
    written_bytes: int
    """Bytes that it made dirty in the page cache of files, as Linux counts them."""


@dataclass(slots=True)
class Pairs:
    """The runs of one row; `peer` stays empty where there is none."""

    ours: list[Run] = field(default_factory=list)
    peer: list[Run] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        return median(run.seconds for run in self.ours)

    @property
    def peer_seconds(self) -> float:
        return median(run.seconds for run in self.peer)

    @property
    def ratio(self) -> float:
        """How many of our medians the peer's median is."""
        return self.peer_seconds / self.seconds

    @property
    def ratios(self) -> list[float]:
        """The same for each pair of runs, sorted."""
        return sorted(peer.seconds / ours.seconds for ours, peer in zip(self.ours, self.peer, strict=True))

    @property
    def peak_bytes(self) -> int:
        return max(run.peak_bytes for run in self.ours)

    @property
    def peer_peak_bytes(self) -> int:
        return max(run.peak_bytes for run in self.peer)


def run(command: Sequence[str], codes: Sequence[int] = (0,)) -> Run:
    """Run `command` with its output thrown away. Raises Failed, with what it said, for another code than these."""
    with tempfile.TemporaryFile() as errors:
        begin = time.perf_counter()
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors, cwd=ROOT)
        _, status, usage = os.wait4(child.pid, 0)  # the usage of this child alone, not the largest of all so far
        seconds = time.perf_counter() - begin
        child.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        if child.returncode not in codes:
            raise Failed(f"exit {child.returncode}: {_last_line(errors.read())}")
    return Run(seconds, usage.ru_maxrss << 10, usage.ru_utime + usage.ru_stime, usage.ru_oublock << 9)


def run_pairs(
    ours: Sequence[str],
    peer: Sequence[str] | None,
    pairs: int,
    most_seconds: float,
    prepare: Callable[[], None] = lambda: None,
) -> Pairs:
    """Run peer, ours, peer, ours …: `LEAST_PAIRS` times or more until `most_seconds` are used up.

    `prepare` is called before each run. After a long run of the peer ours is run once unmeasured, as its libraries and
    the file have left the caches, and then a few times, of which the median counts: both are measured warm. Raises
    Failed.
    """
    done = Pairs()
    prepare()
    run(ours, OUR_CODES)  # not measured: fills the page cache
    begin = time.perf_counter()
    while len(done.ours) < pairs:
        if peer is not None:
            prepare()
            done.peer.append(run(peer))
        done.ours.append(_run_ours(ours, prepare, waited_seconds=done.peer[-1].seconds if done.peer else 0.0))
        used = time.perf_counter() - begin
        if len(done.ours) == 1 and used < MANY_PAIRS_SECONDS:
            pairs *= MORE
        if used > most_seconds * (1 if len(done.ours) >= LEAST_PAIRS else MUCH_LONGER):
            break
    return done


def _run_ours(ours: Sequence[str], prepare: Callable[[], None], *, waited_seconds: float) -> Run:
    runs = []
    for _ in range(1 if waited_seconds <= LONG_SECONDS else 1 + RUNS_AFTER_LONG):
        prepare()
        runs.append(run(ours, OUR_CODES))
    return sorted(runs[1:])[RUNS_AFTER_LONG // 2] if runs[1:] else runs[0]


def same_output(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether both commands print the same bytes."""
    return _digest(one) == _digest(other)


def _digest(command: Sequence[str]) -> str:
    digest = hashlib.blake2b()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT) as child:
        assert child.stdout is not None
        while data := child.stdout.read(1 << 20):
            digest.update(data)
    return digest.hexdigest()


def smallest_peak_bytes() -> int:
    """What a child that does nothing is charged with: it starts as a copy of this process, which must be small."""
    return run(["true"]).peak_bytes


def _last_line(text: bytes) -> str:
    lines = text.decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else "no message"
