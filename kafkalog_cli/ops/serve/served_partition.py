"""One partition as its leader would serve it: bounds, slices of records, transactions, offsets by time."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from enum import Enum, unique
from functools import cached_property
from threading import Lock, RLock
from typing import NamedTuple

from kafkalog_cli.disk.kernels import KernelChoice
from kafkalog_cli.format.limits import DEFAULT_LIMITS
from kafkalog_cli.format.producer_snapshot import ProducerEntry
from kafkalog_cli.ops.lookup_offset import Found
from kafkalog_cli.ops.lookup_time import TimeSearch, earliest_offsets, latest_offsets, offsets_before
from kafkalog_cli.ops.replicas import Copy
from kafkalog_cli.ops.serve.epochs import EpochHistory, leader_epochs_of
from kafkalog_cli.ops.serve.held_files import HeldFile, HeldFilesystem
from kafkalog_cli.ops.serve.producers import producers_of
from kafkalog_cli.ops.serve.segment_map import CheckedBytes, SegmentMap, headers_between
from kafkalog_cli.ops.serve.transactions import Aborted, aborted_transactions, first_open_offset

LATEST, EARLIEST = -1, -2
"""The words for the end and the start of a log, where a request has a time."""


@unique
class DamageAnswer(Enum):
    """The answer of a fetch at damaged bytes. STOP answers an error, SKIP continues with the next good batch."""

    STOP = "stop"
    SKIP = "skip"


@unique
class NoRecords(Enum):
    """The reason why a fetch has no records."""

    OUT_OF_RANGE = "out-of-range"
    DAMAGED = "damaged"
    CUT_OFF = "cut-off"
    NEWER_FORMAT = "newer-format"


class RecordsPart(NamedTuple):
    """Whole batches in a held file, of which a client wanted `most_bytes`. `next_offset` follows the last batch."""

    file: HeldFile
    position: int
    size_bytes: int
    next_offset: int
    segment: SegmentMap
    most_bytes: int

    def in_format(self, most_magic: int) -> RecordsPart | NoRecords:
        """Return the first batches up to a batch of a newer message format than `most_magic`. Raises as `read_into`."""
        end, following = self.position, self.next_offset
        for batch in headers_between(self.file, self.position, self.position + self.size_bytes):
            if batch.magic > most_magic:
                part = self._replace(size_bytes=end - self.position, next_offset=following)
                return part if part.size_bytes else NoRecords.NEWER_FORMAT
            end, following = batch.position + batch.size_bytes, batch.last_offset + 1
        return self

    def read_ahead(self) -> CheckedBytes | None:
        """Read and check the next part: the client probably asks for it next. See `SegmentMap.read_ahead`."""
        return self.segment.read_ahead(self.position + self.size_bytes, self.most_bytes)


TellDamage = Callable[[str, str], None]
"""Called with the path of a log, and what of it is not served."""
_SKIPPED = "are skipped"
_NOT_SERVED = "are not served: consumers get the error CORRUPT_MESSAGE there"


class ServedPartition:
    """A partition of the view. Its segments are read and checked at the first request that needs them."""

    def __init__(  # noqa: PLR0913, PLR0917
        self, fs: HeldFilesystem, copy: Copy, on_damage: DamageAnswer, tell: TellDamage, kernels: KernelChoice | None,
        decoding: Lock,
    ) -> None:  # fmt: skip
        """`decoding` is held while records are decoded. Raises as `open_read` and `read_into`."""
        self.copy = copy
        self.segments = copy.partition.segments
        self.start = copy.bounds.start
        self.epochs: EpochHistory = leader_epochs_of(fs, copy.partition, copy.bounds.next_offset)
        self._fs = fs
        self._on_damage = on_damage
        self._tell = tell
        self._kernels = kernels
        self._decoding = decoding
        self._maps: dict[int, SegmentMap] = {}
        self._told: dict[int, int] = {}
        self._cut: set[str] = set()
        self._building = RLock()
        self._last_batch = fs.held(self.segments[-1].log.path).batch_mark(copy.bounds.last_position)

    @cached_property
    def end(self) -> int:
        """The offset after the last record.

        Incomplete bytes at the end of the log are not records. With SKIP, damage at the end is left out as well, so
        that a consumer reaches the end.
        """
        end = max(self.start, self.copy.bounds.next_offset)
        if self._on_damage is DamageAnswer.STOP:
            return end
        good = self._map(len(self.segments) - 1).next_offset
        return end if good is None else min(max(good, self.start), end)

    @cached_property
    def high_watermark(self) -> int:
        """The offset up to which consumers read."""
        return max(self.start, min(self.copy.latest_offset, self.end))

    @cached_property
    def last_stable_offset(self) -> int:
        """The offset up to which read_committed consumers read."""
        with self._building:
            first = first_open_offset(self._fs, self.copy.partition, self.copy.bounds.next_offset, self._map)
        return self.high_watermark if first is None else max(self.start, min(first, self.high_watermark))

    def aborted(self, start: int, end: int) -> list[Aborted]:
        """Return the aborted transactions that may have records at offsets `start` to `end`, by first offset."""
        return [one for one in self._all_aborted if one.last_offset >= start and one.first_offset < end]

    @cached_property
    def _all_aborted(self) -> list[Aborted]:
        with self._building:
            return aborted_transactions(self._fs, self.copy.partition, self._map)

    def warm_up(self) -> None:
        """Read and check the first part of the log, so that the first fetch need not load the compiled kernels."""
        self._map(0).read_ahead(0, 1)

    def producers(self) -> Sequence[ProducerEntry]:
        """Return the producers at the end of the log. Raises as `producers_of`."""
        return producers_of(self._fs, self.copy.partition, self.copy.bounds.next_offset, self._kernels)

    def records(
        self, offset: int, end_offset: int, most_bytes: int, *, first_is_whole: bool
    ) -> RecordsPart | NoRecords | None:
        """Return whole batches from the batch with `offset` on, below `end_offset`; None if there are none.

        `first_is_whole`: the first batch is returned even if it is larger than `most_bytes`. Raises as `read_into`.
        """
        if not self.start <= offset <= self.end:
            return NoRecords.OUT_OF_RANGE
        if offset >= end_offset:
            return None
        for number in range(self._segment_at(offset), len(self.segments)):
            found = self._in_segment(number, offset, end_offset, most_bytes, first_is_whole=first_is_whole)
            self._tell_damage(number)
            if found is not None:
                return found
        return None

    def _in_segment(
        self, number: int, offset: int, end_offset: int, most_bytes: int, *, first_is_whole: bool
    ) -> RecordsPart | NoRecords | None:
        segment, mapped = self.segments[number], self._map(number)
        damage = mapped.damage_at(offset)
        found = mapped.slice(offset, end_offset, most_bytes, first_is_whole=first_is_whole)
        if self._is_cut(number):  # asked after the map, which may have read the changed file
            return NoRecords.CUT_OFF
        if damage is not None and self._on_damage is DamageAnswer.STOP and not self._is_torn_end(number, offset):
            return NoRecords.DAMAGED
        if found is None:
            return None
        file = self._fs.held(segment.log.path)
        return RecordsPart(file, found.start, found.end - found.start, found.next_offset, mapped, most_bytes)

    def _is_torn_end(self, number: int, offset: int) -> bool:
        """Whether damage after the last good batch of a segment hides no record.

        At the end of the log it is a torn end: a broker cuts it off. Elsewhere the next segment continues.
        """
        reached = self._map(number).next_offset
        if reached is None or offset < reached:
            return False
        if number + 1 < len(self.segments):
            return self.segments[number + 1].base_offset <= offset
        return offset >= self.copy.bounds.next_offset

    def bytes_at(self, offset: int, most_bytes: int) -> RecordsPart | NoRecords | None:
        """Return bytes of a log of Kafka 0.7 from an offset on, as `records` does; the offset is a position of a byte.

        As clients of 0.7 add up the sizes of messages, they cannot continue after damage. Raises as `read_into`.
        """
        if not self.start <= offset <= self.end:
            return NoRecords.OUT_OF_RANGE
        if offset == self.end:
            return None
        number = self._segment_at(offset)
        segment, mapped = self.segments[number], self._map(number)
        found = mapped.good_bytes(offset - segment.base_offset, max(0, min(most_bytes, self.end - offset)))
        self._tell_damage(number)
        if self._is_cut(number):
            return NoRecords.CUT_OFF
        if found is None:
            return NoRecords.DAMAGED
        file = self._fs.held(segment.log.path)
        return RecordsPart(file, found.start, found.end - found.start, found.next_offset, mapped, most_bytes)

    def offsets_before(self, time_ms: int, most: int, now_ms: int) -> list[int]:
        """Return at most `most` offsets before a time, or for the words EARLIEST and LATEST (getOffsetsBefore)."""
        partition, bounds, most = self.copy.partition, self.copy.bounds, max(0, most)
        if time_ms == LATEST:
            return latest_offsets(partition, most, bounds)
        if time_ms == EARLIEST:
            return earliest_offsets(partition, most, bounds)
        return offsets_before(partition, time_ms, most, bounds, now_ms)

    def first_at(self, timestamp_ms: int) -> Found | None:
        """Return the first record at or after a time, from the start of the log on. Raises OSError for a cut log."""
        self._check_whole()
        search = TimeSearch(self._fs, DEFAULT_LIMITS)
        found = (search.first(segment, timestamp_ms, self.start) for segment in self.segments)
        with self._decoding:
            return next((one for one in found if one is not None), None)

    def latest(self) -> Found | None:
        """Return the first record with the largest timestamp. Raises OSError for a cut log."""
        self._check_whole()
        search = TimeSearch(self._fs, DEFAULT_LIMITS)
        best: Found | None = None
        for segment in self.segments:
            with self._decoding:
                found = search.latest(segment)
            timestamp = -1 if found is None or found.record_timestamp is None else found.record_timestamp
            if timestamp > (-1 if best is None or best.record_timestamp is None else best.record_timestamp):
                best = found
        return best

    def _check_whole(self) -> None:
        """Raise OSError if another program has cut a segment: its indexes and maps are those of the start."""
        cut = next((one.log.path for number, one in enumerate(self.segments) if self._is_cut(number)), None)
        if cut is not None:
            raise OSError(errno.EIO, "the log was cut while it was served", cut)

    def _is_cut(self, number: int) -> bool:
        """Whether another program has cut batches off a segment since the start, and may have appended others since.

        The last segment may grow, and a torn end of it may be cut off: its last batch stays. Other files stay the same.
        """
        log = self.segments[number].log
        path, file = log.path, self._fs.held(log.path)
        if path in self._cut:
            return True
        if number + 1 < len(self.segments):
            now = self._fs.status(path)
            is_written = now is not None and now.inode == log.inode and now.mtime_ms != log.mtime_ms
            is_as_before = not is_written and file.reaches(log.size_bytes)
        else:
            is_as_before = self._last_batch == file.batch_mark(self.copy.bounds.last_position)
        if is_as_before:
            return False
        self._cut.add(path)
        self._tell(
            path,
            "another program cut it while it was served: for its records, consumers get the error"
            " KAFKA_STORAGE_ERROR. Start serve again to serve the log as it is now",
        )
        return True

    def _segment_at(self, offset: int) -> int:
        """Return the number of the last segment that begins at or below `offset`."""
        return max((i for i, segment in enumerate(self.segments) if segment.base_offset <= offset), default=0)

    def _map(self, number: int) -> SegmentMap:
        with self._building:
            if number not in self._maps:
                segment = self.segments[number]
                seven = segment.base_offset if segment.is_seven else None
                self._maps[number] = SegmentMap(self._fs.held(segment.log.path), self._kernels, seven)
            return self._maps[number]

    def _tell_damage(self, number: int) -> None:
        """Report the damage of a segment that was met and is not reported yet."""
        with self._building:
            found = self._map(number).damage
            told, self._told[number] = self._told.get(number, 0), len(found)
        what = _SKIPPED if self._on_damage is DamageAnswer.SKIP else _NOT_SERVED
        for start, end, reason in found[told:]:
            self._tell(self.segments[number].log.path, f"bytes {start} to {end} {what}: {reason}")
