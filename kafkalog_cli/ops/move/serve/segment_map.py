"""The contents of a segment: its runs of good batches, places to start reading from, and its transactions.

All bytes of a segment are read once, and their CRCs checked, before they are served: part by part, as clients read.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from enum import Enum, unique
from itertools import islice
from threading import RLock
from typing import NamedTuple

from kafkalog_cli.disk.fs import ReadableFile
from kafkalog_cli.format.batch import NO_OFFSET, Batch, BatchColumns
from kafkalog_cli.format.control import ABORT
from kafkalog_cli.log.open_transactions import transaction_steps
from kafkalog_cli.log.reading.header import control_type_at, header_at
from kafkalog_cli.log.reading.scan import CHUNK_BYTES, DamagePolicy, Scan

_STEP_BYTES = 16 << 10
"""Distance of two places in the map: more places need more memory, fewer need longer walks over headers."""
_PART_BYTES = 512 << 10
"""Bytes that are read at a time, or more if a client wants more: it does not wait for the end of a segment."""
_RECENT_BATCHES = 128
"""The number of the last batches that were read whose headers are kept: clients ask for these batches next."""


@unique
class TransactionEvent(Enum):
    """A transaction of a producer begins, or its marker ends it."""

    BEGIN = "begin"
    COMMIT = "commit"
    ABORT = "abort"


class Event(NamedTuple):
    """An event at an offset: the first batch of a transaction in this segment, or a marker."""

    offset: int
    producer_id: int
    kind: TransactionEvent


class PartNotServed(NamedTuple):
    """Bytes `start` to `end` of the segment at `path` that are not served, and the reason."""

    path: str
    start: int
    end: int
    reason: str


class Slice(NamedTuple):
    """Whole batches: bytes `start` to `end` of a segment, and the offset after the last batch.

    It is empty if the batch at byte `start` does not fit.
    """

    start: int
    end: int
    next_offset: int


class _Place(NamedTuple):
    """A good batch: bytes `start` to `end`, and its last offset."""

    start: int
    end: int
    last_offset: int


class _Run:
    """Good batches without a break. Before place `i`, at byte `positions[i]`, all offsets are below `offsets[i]`."""

    __slots__ = ("end", "first_offset", "next_offset", "offsets", "positions")

    def __init__(self, position: int, first_offset: int) -> None:
        self.positions = array("q", [position])
        self.offsets = array("q", [first_offset])
        self.first_offset = first_offset
        self.next_offset = first_offset
        self.end = position

    def extend(self, position: int, end: int, last_offset: int) -> None:
        if position - self.positions[-1] >= _STEP_BYTES:
            self.positions.append(position)
            self.offsets.append(self.next_offset)
        self.end = end
        self.next_offset = last_offset + 1


class SegmentMap:
    """The map of one segment, which grows as it is asked. Threads share it. Methods raise as `read_into`."""

    def __init__(self, file: ReadableFile, seven_base_offset: int | None = None) -> None:
        """`seven_base_offset`: the first offset of a segment of Kafka 0.7, whose offsets are positions of bytes."""
        self._file = file
        self._seven_base_offset = seven_base_offset
        self._damage: list[PartNotServed] = []
        self._events: list[Event] = []
        self._runs: list[_Run] = []
        self._recent: list[tuple[int, int, int]] = []  # the fields of a _Place
        self._open: set[int] = set()
        self.is_transactional = False
        """Whether a batch belongs to a transaction, as far as the segment was read."""
        self._reached = -1
        self._at = 0
        self._next = (-1, 0)
        self._continues = False
        self._is_done = False
        self._reading = RLock()

    @property
    def damage(self) -> list[PartNotServed]:
        """The places that are not served, in the order of the file, as far as it was read."""
        with self._reading:
            return [*self._damage]

    @property
    def events(self) -> list[Event]:
        """The beginnings and ends of transactions, in the order of the log."""
        with self._reading:
            self._read_all()
            return self._events

    @property
    def next_offset(self) -> int | None:
        """The offset after the last good batch, None without any."""
        with self._reading:
            self._read_all()
            return self._runs[-1].next_offset if self._runs else None

    def damage_at(self, offset: int) -> list[PartNotServed]:
        """Return the damage that a reader at `offset` meets before the next good batch."""
        with self._reading:
            run = self._run_at(offset)
            if run < len(self._runs) and offset >= self._runs[run].first_offset:
                return []
            return self._damage_before(run)

    def holes(self, base_offset: int) -> list[tuple[int, int | None]]:
        """Return the offsets, from and up to, of which damage hides records; None where nothing follows.

        The segment begins at `base_offset`.
        """
        with self._reading:
            self._read_all()
            starts = [base_offset, *(run.next_offset for run in self._runs)]
            ends = [*(run.first_offset for run in self._runs), None]
            return [one for run, one in enumerate(zip(starts, ends, strict=True)) if self._damage_before(run)]

    def _damage_before(self, run: int) -> list[PartNotServed]:
        """Return the damage between a run, or the end of the segment, and the run before it."""
        start = self._runs[run - 1].end if run else 0
        end = self._runs[run].positions[0] if run < len(self._runs) else self._file.size_bytes
        return [one for one in self._damage if start <= one.start < end]

    def slice(self, offset: int, end_offset: int, most_bytes: int, *, first_is_whole: bool) -> Slice | None:
        """Return the whole batches from the batch with `offset` (or the next one) on, below `end_offset`.

        They have at most `most_bytes`; `first_is_whole`: the first batch is returned even if it is larger. They do not
        cross damage. The slice is empty if the first batch is not below `end_offset` or too large. None if the segment
        has no such batch.
        """
        with self._reading:
            number = self._run_at(offset)
            if number == len(self._runs):
                return None
            run = self._runs[number]
            first = self._batch_from(run, offset)
            if first is None:
                return None
            start = first.start
            is_too_large = first.end - start > most_bytes
            if first.last_offset >= end_offset or (is_too_large and not first_is_whole):
                return Slice(start, start, offset)
            if is_too_large:
                return Slice(start, first.end, first.last_offset + 1)
            limit = start + most_bytes
            self._read_until(
                lambda: run is not self._runs[-1] or run.end >= limit or self._next_ends_after(limit), limit
            )
            return self._up_to(run, first, limit, end_offset)

    def good_bytes(self, position: int, most_bytes: int) -> Slice | None:
        """Return at most `most_bytes` bytes of good messages of Kafka 0.7 from a byte on; None if the byte is damaged.

        A client of 0.7 ignores an incomplete message at the end.
        """
        assert self._seven_base_offset is not None
        with self._reading:
            limit = position + max(1, most_bytes)
            self._read_until(lambda: self._at >= limit, limit)
            run = next((one for one in self._runs if one.positions[0] <= position < one.end), None)
            if run is None:
                return None
            end = min(run.end, position + most_bytes)
            return Slice(position, end, self._seven_base_offset + end)

    def read_ahead(self, position: int, most_bytes: int) -> None:
        """Read as far as a slice of `most_bytes` from a byte needs."""
        limit = position + most_bytes
        with self._reading:
            self._read_until(lambda: self._at >= limit or (self._at > position and self._next_ends_after(limit)), limit)

    def _up_to(self, run: _Run, first: _Place, limit: int, end_offset: int) -> Slice:
        """Return the batches of a run from `first` on that end at byte `limit` and below `end_offset`."""
        place = min(bisect_right(run.positions, limit), bisect_right(run.offsets, end_offset)) - 1
        after_first = first.end, first.last_offset + 1
        end, following = max(after_first, (run.positions[place], run.offsets[place]))
        for batch in self._batches(end, run.end):
            if batch.end > limit or batch.last_offset >= end_offset:
                break
            end, following = batch.end, batch.last_offset + 1
        return Slice(first.start, end, following)

    def _run_at(self, offset: int) -> int:
        """Return the number of the run that ends after `offset`; the number of runs if there is none."""
        self._read_until(lambda: bool(self._runs) and self._runs[-1].next_offset > offset)
        return next((i for i, run in enumerate(self._runs) if run.next_offset > offset), len(self._runs))

    def _batch_from(self, run: _Run, offset: int) -> _Place | None:
        place = max(0, bisect_right(run.offsets, offset) - 1)
        for batch in self._batches(run.positions[place], run.end):
            if batch.last_offset >= offset:
                return batch
        return None

    def _batches(self, position: int, end: int) -> Iterator[_Place]:
        """Yield the batches of a run from byte `position` up to byte `end`."""
        row = bisect_left(self._recent, (position,))
        if row < len(self._recent) and self._recent[row][0] == position:
            for batch in map(_Place._make, islice(self._recent, row, None)):
                if batch.start >= end:
                    return
                yield batch
            return
        for header in headers_between(self._file, position, end):
            yield _Place(header.position, header.position + header.size_bytes, header.last_offset)

    def _next_ends_after(self, position: int) -> bool:
        """Whether the next batch that is not read yet ends after a byte, by its header."""
        if self._seven_base_offset is not None:
            return False
        at, end = self._next
        if at != self._at:
            found = header_at(self._file, self._at)
            end = found.position + found.size_bytes if isinstance(found, Batch) else 0
            self._next = (self._at, end)
        return end > position

    def _read_all(self) -> None:
        self._read_until(lambda: False, self._file.size_bytes)

    def _read_until(self, is_enough: Callable[[], bool], limit: int = 0) -> None:
        """Read parts until it is enough, which is about byte `limit`."""
        while not self._is_done and not is_enough():
            self._read_part(min(max(_PART_BYTES, limit - self._at), CHUNK_BYTES))

    def _read_part(self, size_bytes: int) -> None:
        """Read the next part. It ends after a good batch, from which the search after damage could go on too."""
        reader = Scan(
            self._file, DamagePolicy.RESYNC, start=self._at,
            seven_base_offset=self._seven_base_offset, chunk_bytes=size_bytes,
        )  # fmt: skip
        for chunk in reader:
            batches = chunk.batches
            if chunk.damage is not None:
                self._note(self._at, self._at, chunk.damage.fault.message)
                self._continues = False
            if batches.position[0] > self._at:
                self._note(self._at, batches.position[0], "these bytes are not batches")
                self._continues = False
            self._continues = self._add(batches, continues=self._continues)
            self._at = batches.end_position
            if reader.next_bytes:
                self._next = self._at, self._at + reader.next_bytes
            if batches.last_valid_row() == len(batches) - 1:
                return
            del chunk  # the memory of a large batch is free before the next is read
        self._continues = False
        if reader.damage is not None:
            self._note(reader.end_position, reader.end_position, reader.damage.message)
        if reader.fault is not None and self._at < self._file.size_bytes:
            self._note(self._at, self._file.size_bytes, "the last bytes are not whole batches")
        self._is_done = True

    def _note(self, start: int, end: int, reason: str) -> None:
        last = self._damage[-1] if self._damage else None
        if last is not None and last.start == start:
            self._damage[-1] = last._replace(end=max(last.end, end))  # the first reason is the more exact
        else:
            self._damage.append(PartNotServed(self._file.path, start, end, reason))

    def _add(self, batches: BatchColumns, *, continues: bool) -> bool:
        """Add batches; return whether the next batches continue the last run."""
        columns = (batches.position, batches.size_bytes, batches.base_offset, batches.last_offset, batches.valid)
        is_seven = self._seven_base_offset is not None
        recent: list[tuple[int, int, int]] = []
        for position, size, base, ending, valid in zip(*columns, strict=True):
            first = ending if base == NO_OFFSET else base
            last = first + size - 1 if is_seven else ending
            if not valid or first <= self._reached or last < first:
                what = "are out of order" if valid else "have a wrong CRC"
                self._note(position, position + size, f"the offsets {first} to {last} {what}")
                continues = False
                continue
            if not continues:
                self._runs.append(_Run(position, first))
                continues = True
            self._runs[-1].extend(position, position + size, last)
            self._reached = last
            recent.append((position, position + size, last))
        self._recent = recent[-_RECENT_BATCHES:]
        self._add_events(batches)
        return continues

    def _add_events(self, batches: BatchColumns) -> None:
        for event in events_of(self._file, batches.of_transactions(only_valid=True)):
            if event.kind is not TransactionEvent.BEGIN:
                self._open.discard(event.producer_id)
            elif event.producer_id in self._open:
                continue
            else:
                self._open.add(event.producer_id)
                self.is_transactional = True
            self._events.append(event)


def events_of(file: ReadableFile, batches: Iterable[Batch]) -> Iterator[Event]:
    """Yield an event per marker and per batch of a transaction. Raises as `read_into`."""
    for batch, is_end in transaction_steps(batches):
        if not is_end:
            yield Event(batch.base_offset, batch.producer_id, TransactionEvent.BEGIN)
            continue
        aborts = control_type_at(file, batch.position) == ABORT
        kind = TransactionEvent.ABORT if aborts else TransactionEvent.COMMIT
        yield Event(batch.last_offset, batch.producer_id, kind)


def headers_between(file: ReadableFile, position: int, end: int) -> Iterator[Batch]:
    """Yield the headers of the batches in good bytes of a segment. Raises as `read_into`."""
    while position < end:
        batch = header_at(file, position)
        if not isinstance(batch, Batch):
            return
        yield batch
        position = batch.position + batch.size_bytes
