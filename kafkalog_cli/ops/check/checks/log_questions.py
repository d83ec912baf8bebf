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
    """Whether a batch of the log contains an offset.

    `is_damaged`: none does, and damaged bytes may have contained the offset. `batch`: the first that reaches the
    offset, if it was asked for. None: no batch does.
    """

    holds: bool = False
    is_damaged: bool = False
    batch: Batch | None = None


MOST_QUESTIONS = 150_000
"""The most offsets that are in memory, with the last batches of producers: some 900 bytes each."""


Ask = Callable[[int], Answer]


class LogQuestions:
    """The offsets that sidecar files name. Ask first, then give `see` every BatchRun of the log in order.

    `log` has the offsets of the partition. `trail` follows its producers while `is_following`. `unasked` are the paths
    of files with too many entries to be compared with the log.
    """

    trail: "ProducerTrail"

    def __init__(self, log: LogBounds) -> None:
        self.log = log
        self.is_following = False
        self.unasked: set[str] = set()
        self._with_batches: set[int] = set()
        self._pending: list[int] = []
        self._answers: dict[int, Answer] = {}

    def ask(self, file: PartitionFile, offsets: Callable[[], Iterable[int]]) -> bool:
        """Ask for the offsets in the entries of a file, unless memory lacks room for all; return whether it did."""
        room = max(0, MOST_QUESTIONS - len(self._answers))
        if len(list(islice(offsets(), room + 1))) > room:
            self.unasked.add(file.status.path)
            return False
        self._ask_all(offsets())
        return True

    def ask_for_batches(self, offsets: Iterable[int]) -> None:
        """Request also the batches at some offsets."""
        self._with_batches.update(offsets)
        self._ask_all(self._with_batches)

    def _ask_all(self, offsets: Iterable[int]) -> None:
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
            batch = batch_run.batches.row(row) if offset in self._with_batches else None
            self._answers[offset] = Answer(holds, damaged, batch)
        del self._pending[:end]
        if self.is_following:
            self.trail.see(batch_run)
