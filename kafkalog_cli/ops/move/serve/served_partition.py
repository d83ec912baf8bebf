"""One partition as its leader would serve it: bounds, slices of records, transactions, offsets by time."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from heapq import merge
from threading import Lock, RLock

from kafkalog_cli.disk.fs import ReadableFile
from kafkalog_cli.errors import ExitCode
from kafkalog_cli.format.batch import Batch
from kafkalog_cli.format.limits import DEFAULT_LIMITS
from kafkalog_cli.format.producer_snapshot import ProducerEntry
from kafkalog_cli.log.partition import Partition, Segment
from kafkalog_cli.log.reading.scan import DamagePolicy, Scan
from kafkalog_cli.ops.call.observer import Note
from kafkalog_cli.ops.choices import DamageAnswer
from kafkalog_cli.ops.look.lookup_offset import Found
from kafkalog_cli.ops.look.lookup_time import TimeSearch, offsets_before
from kafkalog_cli.ops.move.serve.open_files import OpenFilesystem
from kafkalog_cli.ops.move.serve.segment_map import DamagedRange, RecordsRange
from kafkalog_cli.ops.move.serve.served_copy import CopyBatches, NoRecords, ServedCopy
from kafkalog_cli.ops.move.serve.transactions import Aborted, aborted_transactions, first_open_offset, producers_of

_READ_BYTES = 1 << 20


_SKIPPED = "are skipped"
_NOT_SERVED = "are not served: consumers get the error CORRUPT_MESSAGE there"


class ServedPartition:
    """A partition of the view: the best copy of it, and other copies where this copy is damaged or has a gap."""

    def __init__(
        self, fs: OpenFilesystem, copies: Sequence[ServedCopy], on_damage: DamageAnswer,
        report: Callable[[Note], None], decoding: Lock,
    ) -> None:  # fmt: skip
        """`copies`: the best first, which is open. `decoding` is locked to decode records."""
        self.own, *self._other_copies = copies
        self.copy = self.own.copy
        self.segments = self.own.segments
        self.start = self.own.start
        self.epochs = self.own.epochs
        self.leader_epoch = self.epochs.latest_epoch or 0
        """The epoch of the leader. 0 for a log without epochs: librdkafka reads from no leader without an epoch."""
        self._fs = fs
        self._on_damage = on_damage
        self._report = report
        self._decoding = decoding
        self._reported: set[tuple[object, ...]] = set()
        self._building = RLock()

    @cached_property
    def others(self) -> list[ServedCopy]:
        """The other copies. They are opened when the first of them is needed."""
        with self._building:
            return [copy for copy in self._other_copies if copy.open_logs()]

    @cached_property
    def end(self) -> int:
        """The offset after the last record.

        Incomplete bytes at the end of the log are not records. With SKIP, damage at the end is left out as well, so
        that a consumer reaches the end.
        """
        end = max(self.start, self.own.next_offset)
        if self._on_damage is DamageAnswer.STOP:
            return end
        good = self.own.map(len(self.segments) - 1).next_offset
        if good is None or good >= end:
            return end
        ranges = self._batches_of_others(max(good, self.start), end)
        return max((batches.next_offset for batches in ranges), default=max(good, self.start))

    @cached_property
    def high_watermark(self) -> int:
        """The offset up to which consumers read."""
        return max(self.start, min(self.copy.latest_offset, self.end))

    @cached_property
    def last_stable_offset(self) -> int:
        """The offset up to which read_committed consumers read."""
        with self._building:
            first = first_open_offset(
                self._fs, self.copy, self.own.next_offset,
                lambda parts: (batch for _, batch in self._transactional([part.segment for part in parts])),
            )  # fmt: skip
        return self.high_watermark if first is None else max(self.start, min(first, self.high_watermark))

    def aborted(self, start: int, end: int) -> list[Aborted]:
        """Return the aborted transactions that may have records at offsets `start` to `end`, by first offset."""
        return [each for each in self._all_aborted if each.last_offset >= start and each.first_offset < end]

    @cached_property
    def _all_aborted(self) -> list[Aborted]:
        with self._building:
            return aborted_transactions(self._fs, self.copy, self._transactional(self.segments))

    def _transactional(self, segments: Sequence[Segment]) -> Iterator[tuple[ReadableFile, Batch]]:
        """Yield the batches of transactions, and those of other copies where this copy is damaged, with their files."""
        for segment in segments:
            if segment.is_v07:
                continue
            file = self._fs.open_file(segment.log.path)
            scanned = Scan(file, DamagePolicy.RESYNC).batches()
            own = ((file, batch) for batches in scanned for batch in batches.of_transactions(only_valid=True))
            holes = self.own.holes(self.segments.index(segment)) if self._other_copies else ()
            ranges = (batches for hole in holes for batches in self._batches_of_others(*hole))
            hidden = ((batches.file, batch) for batches in ranges for batch in batches.batches)
            yield from merge(own, hidden, key=lambda item: item[1].base_offset)

    def _batches_of_others(self, offset: int, end_offset: int | None) -> Iterator[RecordsRange]:
        """Yield the batches of other copies at offsets `offset` to `end_offset`, without it, where this copy has none.

        Where no copy has a batch, the search goes on with the next batch of any copy.
        """
        end = self.own.next_offset if end_offset is None else end_offset
        while offset < end:
            ranges = self._find(offset, end, _READ_BYTES, first_is_whole=True, skips=True)
            if not isinstance(ranges, RecordsRange):
                return
            yield ranges
            offset = ranges.next_offset

    def warm_up(self) -> None:
        """Read and check the first part of the log, before the first fetch."""
        self.own.map(0).read_ahead(0, 1)

    def producers(self) -> Sequence[ProducerEntry]:
        """Return the producers at the end of the log. Raises as `producers_of`."""
        return producers_of(self._fs, self.copy, self.own.next_offset)

    def records(
        self, offset: int, end_offset: int, most_bytes: int, *, first_is_whole: bool
    ) -> RecordsRange | NoRecords | None:
        """Return whole batches from the batch with `offset` on, below `end_offset`; None if there are none.

        `first_is_whole`: the first batch is returned even if it is larger than `most_bytes`. Raises as `read_into`.
        """
        if not self.start <= offset <= self.end:
            return NoRecords.OUT_OF_RANGE
        if offset >= end_offset:
            return None
        skips = self._on_damage is DamageAnswer.SKIP
        return self._find(offset, end_offset, most_bytes, first_is_whole=first_is_whole, skips=skips)

    def _find(
        self, offset: int, end_offset: int, most_bytes: int, *, first_is_whole: bool, skips: bool
    ) -> RecordsRange | NoRecords | None:
        own = self.own.batches_from(offset, end_offset, most_bytes, first_is_whole=first_is_whole)
        if not self._other_copies:
            for number in own.segments:
                self._report_damage(self.own.map(number).damage)
            return own.answer(skips=skips)
        if own.loss is None:
            return own.answer(skips=skips)
        until = min(own.first_offset(end_offset), end_offset)
        nearest, first_offset = own, until
        for other in self.others:
            theirs = other.batches_from(offset, until, most_bytes, first_is_whole=first_is_whole)
            if theirs.batches is None or not self.own.agrees(other, first := theirs.batches.first):
                continue
            batches = self.own.common_batches(other, theirs.batches)
            has_records = first.last_offset < until
            if theirs.loss is None:  # it has all records of these offsets, if there are any
                if has_records:
                    self._report_other(own, offset, until, other)
                    return batches if batches.size_bytes else None
                return own._replace(loss=None).answer(skips=skips)
            if has_records and theirs.first_offset(until) < first_offset:
                nearest, first_offset = own._replace(batches=batches), theirs.first_offset(until)
        self._report_damage(own.damage, "; no other copy has these records")
        return nearest.answer(skips=skips)

    def _report_damage(self, damage: Sequence[DamagedRange], also: str = "") -> None:
        """Report damage that is not reported yet, and the answer for its records."""
        what = _SKIPPED if self._on_damage is DamageAnswer.SKIP else _NOT_SERVED
        for path, start, end, reason in damage:
            self._report_once((path, start), path, f"bytes {start} to {end} {what}: {reason}{also}")

    def _report_other(self, own: CopyBatches, offset: int, until: int, other: ServedCopy) -> None:
        for path, start, end, reason in own.damage:
            message = f"bytes {start} to {end} are served from {other.path}: {reason}"
            self._report_once((path, start, other.path), path, message)
        if own.loss is NoRecords.MISSING:
            message = f"the offsets {offset} to {until - 1} are missing, and are served from {other.path}"
            self._report_once((until, other.path), self.own.path, message)

    def _report_once(self, key: tuple[object, ...], path: str, message: str) -> None:
        with self._building:
            is_new = key not in self._reported
            self._reported.add(key)
        if is_new:
            self._report(Note("damage", message, path, exit_code=ExitCode.CORRUPTION))

    def bytes_at(self, offset: int, most_bytes: int) -> RecordsRange | NoRecords | None:
        """Return bytes of a log of Kafka 0.7 from an offset on, as `records` does; the offset is a position of a byte.

        As clients of 0.7 add up the sizes of messages, they cannot continue after damage. Raises as `read_into`.
        """
        if not self.start <= offset <= self.end:
            return NoRecords.OUT_OF_RANGE
        if offset == self.end:
            return None
        records = self.own.bytes_at(offset, max(0, min(most_bytes, self.end - offset)))
        self._report_damage(self.own.map(self.own.segment_at(offset)).damage)
        return records

    def offsets_before(self, time_ms: int, most: int, now_ms: int) -> list[int]:
        """Return at most `most` offsets before a time. See `offsets_before` of lookup_time."""
        return offsets_before(self.copy, time_ms, max(0, most), self.copy.bounds, now_ms)

    def first_at(self, timestamp_ms: int) -> Found | None:
        """Return the first record at or after a time, from the start of the log on. Raises OSError for a cut log."""
        return self._best(lambda search, copy: search.first_in(copy, timestamp_ms, self.start), lambda _: 0)

    def latest(self) -> Found | None:
        """Return the first record with the largest timestamp. Raises OSError for a cut log."""
        return self._best(TimeSearch.latest_in, lambda record: record.record_timestamp or 0)

    def _best(
        self, find: Callable[[TimeSearch, Partition], Found | None], rank: Callable[[Found], int]
    ) -> Found | None:
        """Return the record with the highest rank of all copies, and of these the first.

        A record of another copy counts if it is served. Raises OSError if another program has cut a segment: its
        indexes and maps are those of the start.
        """
        cut = next((segment.log.path for number, segment in enumerate(self.segments) if self.own.is_cut(number)), None)
        if cut is not None:
            raise OSError(errno.EIO, "the log was cut while it was served", cut)
        best: Found | None = None
        for copy in (self.copy, *(other.copy for other in self._other_copies)):
            with self._decoding:
                record = find(TimeSearch(self._fs, DEFAULT_LIMITS), copy)
            if record is None or (
                best is not None and (rank(record), -_offset(record)) <= (rank(best), -_offset(best))
            ):
                continue
            if copy is self.copy or self._is_hidden(record):
                best = record
        return best

    def _is_hidden(self, record: Found) -> bool:
        """Whether a record of another copy is served because the best copy does not have its offset."""
        offset = _offset(record)
        if not self.start <= offset < self.end:
            return False
        batches = self._find(offset, self.end, 0, first_is_whole=True, skips=False)
        return isinstance(batches, RecordsRange) and batches.first.base_offset <= offset and not self.own.has(batches)


def _offset(record: Found) -> int:
    offset = record.record_offset
    return record.batch.last_offset if offset is None else offset
