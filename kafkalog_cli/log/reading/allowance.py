"""How much memory a reader may use that runs ahead of its consumer, beside other readers."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition, get_ident

from kafkalog_cli.format.batch import BatchColumns
from kafkalog_cli.format.columns import column_of
from kafkalog_cli.format.fault import FaultKind
from kafkalog_cli.format.limits import Limits
from kafkalog_cli.format.records import NO_RECORDS, RecordBlock

LARGE_BYTES = 16 << 20
"""A larger batch, as stored or decompressed, needs the turn. Brokers take 1 MiB by default (message.max.bytes)."""


class LargeTurn:
    """The turn to have large buffers, of one job at a time; it may take it several times.

    A job is a task in a thread of its own that waits for no other job. Other threads never wait, because threads of a
    user may wait for each other. A reader works for the job in whose thread it was made, also in further threads.
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._jobs: set[int] = set()
        self._holder: int | None = None
        self._taken = 0

    @contextmanager
    def job(self) -> Iterator[None]:
        """Make the calling thread a job until the end, which also gives back the turn."""
        job = get_ident()
        with self._changed:
            self._jobs.add(job)
        try:
            yield
        finally:
            with self._changed:
                self._jobs.discard(job)
                self._leave(job)

    def current(self) -> int | None:
        """Return the job of the calling thread, None if it is none."""
        job = get_ident()
        return job if job in self._jobs else None

    def take(self, job: int | None) -> None:
        """Wait until no other job has the turn, and take it once more."""
        if job is None:
            return
        with self._changed:
            self._changed.wait_for(lambda: self._holder in (None, job) or job not in self._jobs)
            if job in self._jobs:  # else the job was ended meanwhile
                self._holder = job
                self._taken += 1

    def give(self, job: int | None) -> None:
        """Give back what was taken once."""
        if job is None:
            return
        with self._changed:
            if self._holder == job:
                self._taken -= 1
                if not self._taken:
                    self._leave(job)

    def _leave(self, job: int) -> None:
        if self._holder == job:
            self._holder, self._taken = None, 0
        self._changed.notify_all()


LARGE_TURN = LargeTurn()


ARENA_BYTES = 2 << 20
"""Number of decompressed bytes after which a block is complete."""
AHEAD_BYTES = LARGE_BYTES
"""Largest output of one batch that is decompressed ahead.

A larger batch is decompressed in its turn, so that its memory is used once and not once per thread.
"""
NOT_YET = RecordBlock(memoryview(b""), BatchColumns.from_rows([]), 0, 0, column_of(()), NO_RECORDS)
"""Placeholder for a block that must be requested again when its turn comes."""


class Allowance:
    """The limits that currently apply: reduced until the first block is out if blocks are read ahead, then complete."""

    def __init__(self, limits: Limits, *, ahead: bool) -> None:
        self._all = limits
        self._reduced = limits._replace(max_output_bytes=min(limits.max_output_bytes, AHEAD_BYTES))
        self.limits = self._reduced if ahead else limits

    def is_short(self, kind: FaultKind) -> bool:
        """Whether a fault of this kind may disappear with the complete limits, when it is the block's turn."""
        return kind is FaultKind.OUTPUT_TOO_LARGE and self.limits != self._all

    def grant(self) -> None:
        """Apply the complete limits: it is now the block's turn."""
        self.limits = self._all

    def reduce(self) -> None:
        """Apply the reduced limits again: the next large batch needs a turn of its own."""
        self.limits = self._reduced
