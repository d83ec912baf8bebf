"""The open transactions of a log while its batches are followed: there may be millions, and then they are packed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, overload

from kafkalog_cli.errors import Unreadable
from kafkalog_cli.format.limits import MOST_PRODUCERS

_MOST_UNPACKED = 1 << 16
_PIECE_ROWS = 4096
_ROW = [("producer_id", "i8"), ("producer_epoch", "i2"), ("first_offset", "i8"), ("last_timestamp", "i8")]


class OpenTransaction(NamedTuple):
    """A transaction without a COMMIT or ABORT marker. `last_timestamp` (ms) is that of its last batch."""

    producer_id: int
    producer_epoch: int
    first_offset: int
    last_timestamp: int


class PackedTransactions(Sequence[OpenTransaction]):
    """Transactions in 26 bytes each, where objects would take 300. `rows` is an array of _ROW."""

    __slots__ = ("rows",)

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[OpenTransaction]:
        for first in range(0, len(self.rows), _PIECE_ROWS):
            yield from map(OpenTransaction._make, self.rows[first : first + _PIECE_ROWS].tolist())

    @overload
    def __getitem__(self, index: int) -> OpenTransaction: ...
    @overload
    def __getitem__(self, index: slice) -> PackedTransactions: ...
    def __getitem__(self, index: int | slice) -> OpenTransaction | PackedTransactions:
        if isinstance(index, slice):
            return PackedTransactions(self.rows[index])
        return OpenTransaction._make(self.rows[index].item())

    def sorted_by(self, field: str) -> PackedTransactions:
        """Return the transactions in the order of one of their fields."""
        return PackedTransactions(self.rows[self.rows[field].argsort(kind="stable")])


class TransactionsByProducer:
    """Open transactions by producer id; the newest changes are objects, all others are packed.

    `path` is that of the partition, for messages.
    """

    def __init__(self, path: str, known: Sequence[OpenTransaction] = ()) -> None:
        self._path = path
        self._packed: PackedTransactions | None = None
        self._changed: dict[int, OpenTransaction | None] = {}
        if isinstance(known, PackedTransactions):
            self._packed = known.sorted_by("producer_id")
        else:
            self._changed.update((transaction.producer_id, transaction) for transaction in known)

    def get(self, producer_id: int) -> OpenTransaction | None:
        """Return the open transaction of a producer, None if it has none."""
        changed = self._changed.get(producer_id)
        if changed is not None or self._packed is None or producer_id in self._changed:
            return changed
        ids = self._packed.rows["producer_id"]
        row = int(ids.searchsorted(producer_id))
        return self._packed[row] if row < len(ids) and ids[row] == producer_id else None

    def put(self, transaction: OpenTransaction) -> None:
        """Note the state of a producer's transaction. Raises Unreadable for too many transactions."""
        self._changed[transaction.producer_id] = transaction
        if len(self._changed) > _MOST_UNPACKED:
            self._pack()

    def end(self, producer_id: int) -> None:
        """Note that a producer has no open transaction."""
        if self._packed is None:
            self._changed.pop(producer_id, None)
        else:
            self._changed[producer_id] = None

    def by_first_offset(self) -> Sequence[OpenTransaction]:
        """Return the transactions that are open now, by first offset. Raises Unreadable for too many transactions."""
        if self._packed is None:
            return sorted(filter(None, self._changed.values()), key=lambda transaction: transaction.first_offset)
        return self._pack().sorted_by("first_offset")

    def _pack(self) -> PackedTransactions:
        import numpy as np

        rows = np.array([one for one in self._changed.values() if one is not None], dtype=_ROW)
        if self._packed is not None:
            old = self._packed.rows
            ids = np.fromiter(self._changed, np.int64, len(self._changed))
            rows = np.concatenate((old[~np.isin(old["producer_id"], ids)], rows))
        if len(rows) > MOST_PRODUCERS:
            raise Unreadable(path=self._path, reason=f"more than {MOST_PRODUCERS} transactions are open in it")
        self._changed.clear()
        self._packed = PackedTransactions(rows).sorted_by("producer_id")
        return self._packed
