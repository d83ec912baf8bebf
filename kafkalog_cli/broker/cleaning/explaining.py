"""Explains why each record of a key stays or is removed, by reading the log for that key only; writes nothing."""

from bisect import bisect_right
from collections.abc import Iterator
from enum import Enum, unique
from typing import Annotated, NamedTuple

from kafkalog_cli.broker.cleaning.key_table import SoughtKeys
from kafkalog_cli.broker.cleaning.log import (
    CleanableLog,
    CleanedTransactions,
    SegmentChunks,
    sound,
)
from kafkalog_cli.broker.cleaning.marking import MarkingRequest
from kafkalog_cli.format.batch import Batch
from kafkalog_cli.format.records import RecordBlock
from kafkalog_cli.log.partition import Segment
from kafkalog_cli.log.reading.records import RecordReader


@unique
class Reason(Enum):
    """Why a record stays or is removed when the log is cleaned. The value is the word in JSON output."""

    LAST = "last-of-its-key"
    TOMBSTONE = "tombstone"  # the last record of its key, without a value: removed after its delete horizon
    NOT_CLEANABLE = "not-cleanable"  # after the part of the log that may be cleaned
    SUPERSEDED = "superseded"
    EXPIRED = "tombstone-expired"
    ABORTED = "transaction-aborted"

    @property
    def goes(self) -> bool:
        """Whether the record is removed."""
        return self in (Reason.SUPERSEDED, Reason.EXPIRED, Reason.ABORTED)


class RecordFate(NamedTuple):
    """A record of the explained key, and whether a cleaning removes it."""

    base_offset: Annotated[int, "of its segment"]
    offset: int
    timestamp_ms: Annotated[int, "-1: none"]
    value_bytes: Annotated[int | None, "the size of the value; null: the record is a tombstone"]
    reason: Reason
    by_offset: Annotated[int | None, "the later record that supersedes it"] = None
    due_ms: Annotated[int | None, "from then on a cleaning removes the tombstone; null: no cleaning has set it"] = None

    @property
    def goes(self) -> Annotated[bool, "whether it is removed"]:
        """Whether the reason removes it."""
        return self.reason.goes


class _Found(NamedTuple):
    """A record of the key, with its segment and batch."""

    segment: Segment
    offset: int
    timestamp_ms: int
    value_size: int
    batch: Batch
    is_aborted: bool


def explain_key(log: CleanableLog, request: MarkingRequest, key: bytes) -> Iterator[RecordFate]:
    """Yield each record of `key` in log order, including the active segment. Raises Damaged, and errors of reading."""
    search = _Search(log, request, key)
    last = max((found.offset for found in search if search.is_known(found)), default=-1)
    for found in search:
        yield search.fate(found, last)


class _Search:
    """The records of a key; each iteration reads the log."""

    def __init__(self, log: CleanableLog, request: MarkingRequest, key: bytes) -> None:
        self._log = log
        self._request = request
        self._finder = SoughtKeys([key]).finder()
        self._reader = RecordReader(log.limits)
        self._aborted = log.aborted_from(0)

    def __iter__(self) -> Iterator[_Found]:
        transactions = CleanedTransactions()
        transactions.expect(self._aborted)
        for segment in self._log.segments:
            for chunk in SegmentChunks(self._log, segment):
                aborted = set(transactions.unkeyed_rows(self._reader, chunk, segment.log.path))
                for block in sound(self._reader.blocks(chunk), segment.log.path):
                    yield from self._in_block(segment, block, aborted)

    def is_known(self, found: _Found) -> bool:
        """Whether a broker's key table contains the record."""
        request = self._request
        return not found.is_aborted and request.first_dirty <= found.offset < request.first_uncleanable

    def fate(self, found: _Found, last: int) -> RecordFate:
        """Return whether and why a record is removed; `last` is the key's offset in the table, -1 if it has none."""
        is_null = found.value_size < 0
        fate = RecordFate(
            found.segment.base_offset,
            found.offset,
            found.timestamp_ms,
            None if is_null else found.value_size,
            Reason.LAST,
        )
        if found.offset >= self._request.first_uncleanable:
            return fate._replace(reason=Reason.NOT_CLEANABLE)
        if found.is_aborted:
            return fate._replace(reason=Reason.ABORTED)
        if found.offset < last:
            return fate._replace(reason=Reason.SUPERSEDED, by_offset=last)
        if not is_null:
            return fate
        horizon_ms = found.batch.delete_horizon_ms
        is_over = (
            found.segment.log.mtime_ms <= self._request.legacy_horizon_ms
            if found.batch.magic < 2
            else horizon_ms is not None and horizon_ms <= self._request.now_ms
        )
        return fate._replace(reason=Reason.EXPIRED if is_over else Reason.TOMBSTONE, due_ms=horizon_ms)

    def _in_block(self, segment: Segment, block: RecordBlock, aborted: set[int]) -> Iterator[_Found]:
        columns = block.records
        for row in self._finder.rows(block):
            batch_row = block.first_row + bisect_right(block.record_ends, row)
            batch = block.batches.row(batch_row)
            if not batch.is_control:
                offset, timestamp_ms = int(columns.offset[row]), int(columns.timestamp[row])
                size = int(columns.value_size[row])
                yield _Found(segment, offset, timestamp_ms, size, batch, batch_row in aborted)
