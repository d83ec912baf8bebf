"""Collects the offsets that sidecar files need from a log before it is walked, so that one pass answers all."""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from kafkalog_cli.format.batch import Batch
from kafkalog_cli.log.log_end import LogBounds
from kafkalog_cli.log.partition import PartitionFile
from kafkalog_cli.ops.check.checks.segment_walk import BatchRun

if TYPE_CHECKING:
    from kafkalog_cli.ops.check.checks.producers import ProducerTrail


class Answer(NamedTuple):
    """The first batch that reaches an offset (None: no batch does), and whether it contains the offset.

    `is_damaged`: damaged bytes are between this batch and the batch before it, and may have contained the offset.
    """

    batch: Batch | None = None
    holds: bool = False
    is_damaged: bool = False


MOST_QUESTIONS = 150_000
"""The most offsets whose batches are in memory: some 900 bytes each."""


Ask = Callable[[int], Answer]


class LogQuestions:
    """The offsets whose batches sidecar files need. Ask first, then give `see` every BatchRun of the log in order.

    `log` has the offsets of the partition. `trail` follows its producers while `is_following`. `unasked` are the paths
    of files with too many entries to be compared with the log.
    """

    trail: "ProducerTrail"

    def __init__(self, log: LogBounds) -> None:
        self.log = log
        self.is_following = False
        self.unasked: set[str] = set()
        self._pending: list[int] = []
        self._answers: dict[int, Answer] = {}

    def ask(self, file: PartitionFile, offsets: Callable[[], Iterable[int]]) -> bool:
        """Request the batches of the entries of a file, unless memory lacks room for all; return whether it did."""
        room = max(0, MOST_QUESTIONS - len(self._answers))
        if len(list(islice(offsets(), room + 1))) > room:
            self.unasked.add(file.status.path)
            return False
        self.ask_all(offsets())
        return True

    def ask_all(self, offsets: Iterable[int]) -> None:
        """Request the batches of many offsets at once."""
        new = set(offsets).difference(self._answers)
        self._answers.update(dict.fromkeys(new, Answer()))
        self._pending = sorted([*self._pending, *new])

    def answer(self, offset: int) -> Answer:
        """Return the answer for an offset; an empty answer if it was not requested or not reached."""
        return self._answers.get(offset, Answer())

    @property
    def first_pending(self) -> int | None:
        """The least offset without an answer, None if there is none."""
        return self._pending[0] if self._pending else None

    def is_pending_below(self, offset: int) -> bool:
        """Whether an answer is missing that a segment below `offset` may give."""
        return bool(self._pending) and self._pending[0] < offset

    def see(self, batch_run: BatchRun) -> None:
        """Answer the pending offsets that `batch_run` reaches, and follow its producers."""
        end = bisect_left(self._pending, batch_run.last_reached + 1)
        for offset in self._pending[:end]:
            row = batch_run.first_reaching(offset)
            holds = batch_run.holds(row, offset)
            damaged = not holds and row == 0 and batch_run.is_after_damage
            self._answers[offset] = Answer(batch_run.batches.row(row), holds, damaged)
        del self._pending[:end]
        if self.is_following:
            self.trail.see(batch_run)
