"""Follows transactions through a log as the cleaner does: aborted batches, and removable markers (KIP-98)."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kafkalog_cli.format.batch import Batch
from kafkalog_cli.format.control import ABORT, COMMIT
from kafkalog_cli.format.txnindex import AbortedTxn


class _Ongoing:
    """An aborted transaction before its marker; `is_observed`: the log still has a batch of its data."""

    __slots__ = ("is_observed", "txn")

    def __init__(self, txn: AbortedTxn) -> None:
        self.txn = txn
        self.is_observed = False


class CleanedTransactions:
    """The transactions of a log that is read in order (CleanedTransactionMetadata).

    `kept` has the entries for the new transaction index.
    """

    def __init__(self) -> None:
        self.kept: list[AbortedTxn] = []
        self._committed: set[int] = set()
        self._aborted: dict[int, _Ongoing] = {}
        self._coming: list[tuple[int, int, AbortedTxn]] = []
        self._count = 0

    def expect(self, aborted: Iterable[AbortedTxn]) -> None:
        """Add entries of transaction indexes; an entry may be added again for each segment that it reaches into."""
        for txn in aborted:
            self._count += 1
            heapq.heappush(self._coming, (txn.first_offset, self._count, txn))

    def take_kept(self) -> list[AbortedTxn]:
        """Return the entries kept since the last call."""
        kept, self.kept = self.kept, []
        return kept

    def pass_data(self, last_offset: int, producer_id: int, *, is_transactional: bool) -> bool:
        """Process a data batch; return whether its transaction was aborted."""
        self._begin_up_to(last_offset)
        if not is_transactional:
            return False
        ongoing = self._aborted.get(producer_id)
        if ongoing is None:
            self._committed.add(producer_id)
            return False
        ongoing.is_observed = True
        return True

    def pass_control(self, batch: Batch, control_type: int | None) -> bool:
        """Process a control batch; return whether it may be removed. `control_type` is None if the batch is empty."""
        self._begin_up_to(batch.last_offset)
        if control_type is None:
            return True
        if control_type == ABORT:
            ongoing = self._aborted.pop(batch.producer_id, None)
            if ongoing is not None and ongoing.is_observed:
                self.kept.append(ongoing.txn)
                return False
            return True
        if control_type == COMMIT:
            was_seen = batch.producer_id in self._committed
            self._committed.discard(batch.producer_id)
            return not was_seen
        return False

    def _begin_up_to(self, offset: int) -> None:
        while self._coming and self._coming[0][0] <= offset:
            _, _, txn = heapq.heappop(self._coming)
            self._aborted.setdefault(txn.producer_id, _Ongoing(txn))


class SegmentAborts(NamedTuple):
    """The entries of a segment's transaction index."""

    base_offset: int
    entries: Sequence[AbortedTxn]


def aborted_between(indexes: Sequence[SegmentAborts], from_offset: int, to_offset: int) -> list[AbortedTxn]:
    """Return the aborted transactions that overlap the range, as a broker finds them (collectAbortedTransactions).

    The search covers entries from the segment with `from_offset` on. It ends at the first entry whose last stable
    offset is at least `to_offset`: all transactions before `to_offset` had ended.
    """
    first = max((at for at, index in enumerate(indexes) if index.base_offset <= from_offset), default=0)
    found = []
    for index in indexes[first:]:
        for txn in index.entries:
            if txn.last_offset >= from_offset and txn.first_offset < to_offset:
                found.append(txn)
            if txn.last_stable_offset >= to_offset:
                return found
    return found
