"""What becomes of batches, decided by whole columns, for some chunks ahead of where the cleaner writes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from enum import IntEnum
from itertools import pairwise
from typing import Any, NamedTuple

from kafkalog_cli.format.batch import DELETE_HORIZON_MASK, Batch, BatchColumns
from kafkalog_cli.storage.cleaning.log import in_transactions
from kafkalog_cli.storage.cleaning.marks import GONE, TOMBSTONE, Marks
from kafkalog_cli.storage.read_ahead import Rows
from kafkalog_cli.storage.scan import Chunk


class Fate(IntEnum):
    """What becomes of a batch."""

    COPY = 0
    REWRITE = 1
    EMPTY = 2
    DROP = 3


class Fates(NamedTuple):
    """Of the batches of a chunk: `fates` and, in `begins`, how many records come before each, by row.

    `records` are those of all batches, `kept` how many of them stay.
    """

    fates: Any
    begins: Any
    records: int
    kept: int

    def runs(self) -> Iterator[tuple[int, int, Fate]]:
        """(first row, row behind, fate) of batches with the same one behind the other."""
        import numpy as np

        edges = [0, *(np.flatnonzero(np.diff(self.fates)) + 1).tolist(), len(self.fates)]
        for first, end in pairwise(edges):
            yield first, end, Fate(self.fates[first])


class FatesAhead:
    """The fates of the chunks of a segment, whose first mark is at `place`: `rows` decides, `take` hands over in order.

    `may_stay` tells by row which batches may have to stay without records, `is_retained` whether one has to.
    """

    def __init__(
        self, marks: Marks, place: int, may_stay: Callable[[Any], Any], is_retained: Callable[[Batch], bool]
    ) -> None:
        self._marks = marks
        self._place: int | None = place
        self._may_stay = may_stay
        self._is_retained = is_retained
        self._decided: deque[Fates | None] = deque()

    def rows(self, chunk: Chunk) -> list[Rows]:
        """The batches of a chunk of which records are needed, if columns can tell; called for each chunk in order."""
        decided = self._fates(chunk.batches)
        self._decided.append(decided)
        return [] if decided is None else [(first, end) for first, end, fate in decided.runs() if fate is Fate.REWRITE]

    def take(self) -> Fates | None:
        """Those of the next chunk; None where its batches are to be looked at one by one."""
        return self._decided.popleft()

    def _fates(self, batches: BatchColumns) -> Fates | None:
        place = self._place
        if place is None:
            return None
        counts: Any = batches.records_count
        if batches.matrix is None:
            self._place = None if any(count < 0 for count in counts) else place + sum(counts)
            return None
        if (counts < 0).any():  # only the compressed set of old itself tells how many there are
            self._place = None
            return None
        self._place = place + int(counts.sum())
        columns: Any = batches
        if not len(batches) or (columns.magic < 2).any() or in_transactions(batches):
            return None
        return self._of_columns(columns, place)

    def _of_columns(self, batches: Any, place: int) -> Fates:
        import numpy as np

        counts = batches.records_count
        ends = np.cumsum(counts)
        begins, total = ends - counts, int(ends[-1])
        marks = np.frombuffer(self._marks.part(place, place + total), dtype=np.uint8)
        kept, tombstones = (
            found[ends] - found[begins]
            for found in (np.concatenate(([0], np.cumsum(each))) for each in (marks & GONE == 0, marks == TOMBSTONE))
        )
        lacks_horizon = (tombstones > 0) & (batches.attributes & DELETE_HORIZON_MASK == 0)
        fates = np.where((kept == counts) & ~lacks_horizon, Fate.COPY, Fate.REWRITE)
        fates[kept == 0] = Fate.DROP
        for row in np.flatnonzero((kept == 0) & self._may_stay(batches)).tolist():
            if self._is_retained(batches.row(row)):
                fates[row] = Fate.EMPTY
        return Fates(fates, begins, total, int(kept.sum()))
