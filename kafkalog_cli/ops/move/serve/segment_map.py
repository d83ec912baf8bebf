"""The contents of a segment: its ranges of good batches, the damage between them, and positions to start reading from.

All bytes of a segment are read once, and their CRCs checked, before they are served, as far as clients read.
"""

from __future__ import annotations

import errno
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator
from threading import RLock
from typing import NamedTuple

from kafkalog_cli.format.batch import CONTROL_MASK, NO_OFFSET, TRANSACTIONAL_MASK, Batch, BatchColumns
from kafkalog_cli.format.columns import any_row
from kafkalog_cli.log.reading.header import Headers
from kafkalog_cli.log.reading.scan import CHUNK_BYTES, DamagePolicy, Scan
from kafkalog_cli.ops.move.serve.as_of import CutFile
from kafkalog_cli.ops.move.serve.open_files import OpenFile

_STEP_BYTES = 16 << 10
"""Distance of two positions in the map: more of them need more memory, fewer need longer walks over headers."""
_READ_BYTES = 512 << 10
"""Bytes that are read at a time, or more if a client requests more: it does not wait for the end of a segment."""


class DamagedRange(NamedTuple):
    """Bytes `start` to `end` of the segment at `path` that are not served, and the reason."""

    path: str
    start: int
    end: int
    reason: str


class RecordsRange(NamedTuple):
    """Whole batches in a segment, of which a client requested `most_bytes`. `next_offset` follows the last batch.

    It is empty if the batch at byte `position` does not fit.
    """

    position: int
    size_bytes: int
    next_offset: int
    segment: SegmentMap
    most_bytes: int

    @property
    def file(self) -> OpenFile:
        """The file with the batches."""
        return self.segment.file

    @property
    def first(self) -> Batch:
        """The header of the first batch, also of a batch that does not fit. Raises OSError if it is there no more."""
        for batch in self.segment.headers(self.position, self.file.size_bytes):
            return batch
        raise OSError(errno.EIO, "the log was cut while it was served", self.file.path)

    @property
    def batches(self) -> Iterator[Batch]:
        """The headers of the batches. Raises as `read_into`."""
        return self.segment.headers(self.position, self.position + self.size_bytes)

    def before(self, is_refused: Callable[[Batch], bool]) -> RecordsRange:
        """Return the batches before the first that is refused; none may be left. Raises as `read_into`."""
        end, following = self.position, self.next_offset
        for batch in self.batches:
            if is_refused(batch):
                return self._replace(size_bytes=end - self.position, next_offset=following)
            end, following = batch.position + batch.size_bytes, batch.last_offset + 1
        return self

    def read_ahead(self) -> None:
        """Read and check what follows: the client probably requests it next."""
        self.segment.read_ahead(self.position + self.size_bytes, self.most_bytes)


class _BatchRange:
    """Good batches without a break. Before step `i`, at byte `positions[i]`, all offsets are below `offsets[i]`."""

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
    """The map of one segment, which grows with each request. Threads share it. Methods raise as `read_into`."""

    def __init__(self, file: OpenFile, v07_base_offset: int | None = None) -> None:
        """`v07_base_offset`: the first offset of a segment of Kafka 0.7, whose offsets are positions of bytes."""
        self.file = file
        self._v07_base_offset = v07_base_offset
        self._damage: list[DamagedRange] = []
        self._ranges: list[_BatchRange] = []
        self.is_transactional = False
        """Whether a batch belongs to a transaction, as far as the segment was read."""
        self._reached = -1
        self._at = 0
        self._is_done = False
        self._reading = RLock()

    @property
    def damage(self) -> list[DamagedRange]:
        """The ranges that are not served, in the order of the file, as far as it was read."""
        with self._reading:
            return [*self._damage]

    @property
    def next_offset(self) -> int | None:
        """The offset after the last good batch, None without any."""
        with self._reading:
            self._read_all()
            return self._ranges[-1].next_offset if self._ranges else None

    def damage_at(self, offset: int) -> list[DamagedRange]:
        """Return the damage that a reader at `offset` meets before the next good batch."""
        with self._reading:
            number = self._range_at(offset)
            if number < len(self._ranges) and offset >= self._ranges[number].first_offset:
                return []
            return self._damage_before(number)

    def holes(self, base_offset: int) -> list[tuple[int, int | None]]:
        """Return the offsets, from and up to, of which damage hides records; None where nothing follows.

        The segment begins at `base_offset`.
        """
        with self._reading:
            self._read_all()
            starts = [base_offset, *(batches.next_offset for batches in self._ranges)]
            ends = [*(batches.first_offset for batches in self._ranges), None]
            return [hole for number, hole in enumerate(zip(starts, ends, strict=True)) if self._damage_before(number)]

    def _damage_before(self, number: int) -> list[DamagedRange]:
        """Return the damage between the range before this number, and the range of this number or the segment's end."""
        start = self._ranges[number - 1].end if number else 0
        end = self._ranges[number].positions[0] if number < len(self._ranges) else self.file.size_bytes
        return [damaged for damaged in self._damage if start <= damaged.start < end]

    def slice(self, offset: int, end_offset: int, most_bytes: int, *, first_is_whole: bool) -> RecordsRange | None:
        """Return the whole batches from the batch with `offset` (or the next one) on, below `end_offset`.

        They have at most `most_bytes`; `first_is_whole`: the first batch is returned even if it is larger. They do not
        cross damage. The result is empty if the first batch is not below `end_offset` or too large. None if the segment
        has no such batch.
        """
        with self._reading:
            number = self._range_at(offset)
            if number == len(self._ranges):
                return None
            batches = self._ranges[number]
            step = max(0, bisect_right(batches.offsets, offset) - 1)
            walk = self.headers(batches.positions[step], batches.end)
            first = next((batch for batch in walk if batch.last_offset >= offset), None)
            if first is None:
                return None
            start, limit = first.position, first.position + most_bytes
            end, following = start + first.size_bytes, first.last_offset + 1
            if first.last_offset >= end_offset or (end > limit and not first_is_whole):
                return RecordsRange(start, 0, offset, self, most_bytes)
            self._read_until(lambda: batches is not self._ranges[-1] or batches.end >= limit, limit)
            step = min(bisect_right(batches.positions, limit), bisect_right(batches.offsets, end_offset)) - 1
            end, following = max((end, following), (batches.positions[step], batches.offsets[step]))
            for batch in self.headers(end, batches.end):
                if batch.position + batch.size_bytes > limit or batch.last_offset >= end_offset:
                    break
                end, following = batch.position + batch.size_bytes, batch.last_offset + 1
            return RecordsRange(start, end - start, following, self, most_bytes)

    def good_bytes(self, position: int, most_bytes: int) -> RecordsRange | None:
        """Return at most `most_bytes` bytes of good messages of Kafka 0.7 from a byte on; None if the byte is damaged.

        A client of 0.7 ignores an incomplete message at the end.
        """
        assert self._v07_base_offset is not None
        with self._reading:
            limit = position + max(1, most_bytes)
            self._read_until(lambda: self._at >= limit, limit)
            batches = next((each for each in self._ranges if each.positions[0] <= position < each.end), None)
            if batches is None:
                return None
            end = min(batches.end, position + most_bytes)
            return RecordsRange(position, end - position, self._v07_base_offset + end, self, most_bytes)

    def read_ahead(self, position: int, most_bytes: int) -> None:
        """Read as far as `most_bytes` from a byte need."""
        limit = position + most_bytes
        with self._reading:
            self._read_until(lambda: self._at >= limit, limit)

    def _range_at(self, offset: int) -> int:
        """Return the number of the range that ends after `offset`; the number of ranges if there is none."""
        self._read_until(lambda: bool(self._ranges) and self._ranges[-1].next_offset > offset)
        return next((i for i, batches in enumerate(self._ranges) if batches.next_offset > offset), len(self._ranges))

    def headers(self, position: int, end: int) -> Iterator[Batch]:
        """Yield the headers of the batches in good bytes of the segment."""
        return iter(Headers(CutFile(self.file, end), position))

    def _read_all(self) -> None:
        self._read_until(lambda: False, self.file.size_bytes)

    def _read_until(self, is_enough: Callable[[], bool], limit: int = 0) -> None:
        """Read until it is enough, which is about byte `limit`."""
        while not self._is_done and not is_enough():
            self._read_next(min(max(_READ_BYTES, limit - self._at), CHUNK_BYTES))

    def _read_next(self, size_bytes: int) -> None:
        """Read the next bytes. They end after a good batch, from which the search after damage could go on too."""
        reader = Scan(
            self.file, DamagePolicy.RESYNC, start=self._at,
            v07_base_offset=self._v07_base_offset, chunk_bytes=size_bytes,
        )  # fmt: skip
        for chunk in reader:
            batches = chunk.batches
            if chunk.damage is not None:
                self._note(self._at, self._at, chunk.damage.fault.message)
            if batches.position[0] > self._at:
                self._note(self._at, batches.position[0], "these bytes are not batches")
            self._add(batches)
            self._at = batches.end_position
            if batches.last_valid_row() == len(batches) - 1:
                return
            del chunk  # the memory of a large batch is free before the next is read
        if reader.damage is not None:
            self._note(reader.end_position, reader.end_position, reader.damage.message)
        if reader.fault is not None and self._at < self.file.size_bytes:
            self._note(self._at, self.file.size_bytes, "the last bytes are not whole batches")
        self._is_done = True

    def _note(self, start: int, end: int, reason: str) -> None:
        last = self._damage[-1] if self._damage else None
        if last is not None and last.start == start:
            self._damage[-1] = last._replace(end=max(last.end, end))  # the first reason is the more exact
        else:
            self._damage.append(DamagedRange(self.file.path, start, end, reason))

    def _add(self, batches: BatchColumns) -> None:
        columns = (batches.position, batches.size_bytes, batches.base_offset, batches.last_offset, batches.valid)
        is_v07 = self._v07_base_offset is not None
        for position, size, base, ending, valid in zip(*columns, strict=True):
            first = ending if base == NO_OFFSET else base
            last = first + size - 1 if is_v07 else ending
            if not valid or first <= self._reached or last < first:
                what = "are out of order" if valid else "have a wrong CRC"
                self._note(position, position + size, f"the offsets {first} to {last} {what}")
                continue
            if not self._ranges or self._ranges[-1].end != position:
                self._ranges.append(_BatchRange(position, first))
            self._ranges[-1].extend(position, position + size, last)
            self._reached = last
        mask = TRANSACTIONAL_MASK | CONTROL_MASK
        self.is_transactional = self.is_transactional or any_row(
            lambda bits, magic, valid: (bits & mask == TRANSACTIONAL_MASK) & (magic >= 2) & (valid != 0),
            batches.attributes, batches.magic, batches.valid,
        )  # fmt: skip
