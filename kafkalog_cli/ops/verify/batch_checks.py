"""Facts about batches for `verify`: impossible timestamps, differing checksums, unlisted aborted transactions."""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, unique
from typing import NamedTuple, Protocol

from kafkalog_cli.disk.fs import Filesystem, ReadableFile, read_all
from kafkalog_cli.disk.names import FileKind
from kafkalog_cli.errors import ExitCode, KafkalogError
from kafkalog_cli.format import txnindex
from kafkalog_cli.format.batch import (
    CODEC_MASK,
    CONTROL_MASK,
    HEADER_SIZE_UP_TO_MAGIC_BYTES,
    MESSAGE_SEVEN_MAGIC0,
    MESSAGE_SEVEN_MAGIC1,
    MESSAGE_V0,
    NO_TIMESTAMP,
    RECORD_BATCH,
    RECORD_BATCH_MAGIC,
    TRANSACTIONAL_MASK,
    BatchColumns,
)
from kafkalog_cli.format.columns import IntColumn, least_and_largest, rows_where
from kafkalog_cli.format.control import ABORT
from kafkalog_cli.format.crc import crc32, crc32c
from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.format.records import RecordBlock
from kafkalog_cli.log.partition import Segment
from kafkalog_cli.log.reading.header import control_record_at, negative_magics
from kafkalog_cli.log.reading.scan import read_readable
from kafkalog_cli.ops.checks.diagnose import Finding, finding
from kafkalog_cli.ops.checks.finding_kinds import FindingKind
from kafkalog_cli.ops.checks.log_questions import LogObserver
from kafkalog_cli.ops.checks.segment_walk import BatchRun, SegmentWalk

MAX_TOLD = 20
"""The largest number of findings of one kind per segment; further findings are only counted."""

NO_MARKER = "control batch has no transaction marker (IllegalArgumentException)"

TOLERATED_AHEAD_MS = 3_600_000
"""A clock that is wrong by less than an hour is not reported; message.timestamp.after.max.ms has the same default."""

_FIRST_SECOND, _LAST_SECOND = 1_000_000_000, 4_200_000_000
"""The years 2001 to 2103, in seconds.

A number between them is not meant as milliseconds: these would be in January or February 1970.
"""


@unique
class TimestampOddity(Enum):
    """The oddity of a timestamp. The value is the phrase for messages."""

    FUTURE = "in the future"
    SECONDS = "in seconds"
    MICROSECONDS = "in microseconds"
    NANOSECONDS = "in nanoseconds"
    NEGATIVE = "below zero"


OTHER_UNITS = (
    (TimestampOddity.SECONDS, _FIRST_SECOND, _LAST_SECOND),
    (TimestampOddity.MICROSECONDS, _FIRST_SECOND * 10**6, _LAST_SECOND * 10**6),
    (TimestampOddity.NANOSECONDS, _FIRST_SECOND * 10**9, _LAST_SECOND * 10**9),
)
_KINDS = {
    TimestampOddity.FUTURE: FindingKind.FUTURE_TIMESTAMP,
    TimestampOddity.NEGATIVE: FindingKind.NEGATIVE_TIMESTAMP,
}


def unit_of(timestamp_ms: int, now_ms: int) -> TimestampOddity | None:
    """Return what is odd about a timestamp, None if nothing is."""
    for unit, first, last in OTHER_UNITS:
        if first <= timestamp_ms < last:
            return unit
    if timestamp_ms > now_ms + TOLERATED_AHEAD_MS:
        return TimestampOddity.FUTURE
    return TimestampOddity.NEGATIVE if timestamp_ms < NO_TIMESTAMP else None


def other_unit_of(timestamp_ms: int) -> TimestampOddity | None:
    """Return the unit that a timestamp seems to be in, None if that is milliseconds."""
    return next((unit for unit, first, end in OTHER_UNITS if first <= timestamp_ms < end), None)


@dataclass(slots=True)
class _Seen:
    """The odd timestamps of one unit in a segment: the first, its position, the range of offsets, and the count."""

    first_timestamp: int
    position: int | None
    first_offset: int
    last_offset: int
    count: int = 1


class TimesSeen:
    """Collects the odd timestamps of one segment. `what` says what has them: "batch" or "record"."""

    def __init__(self, now_ms: int, what: str) -> None:
        self._now_ms = now_ms
        self._what = what
        self._plural = "es" if what.endswith("ch") else "s"
        self._seen: dict[TimestampOddity, _Seen] = {}

    def see(
        self,
        timestamps: IntColumn,
        offsets: IntColumn,
        positions: IntColumn | None,
        batch_timestamp: Callable[[int], int] | None = None,
    ) -> None:
        """Check columns of equal length: timestamps in ms, offsets, and positions in bytes (None: not known).

        `batch_timestamp` returns the largest timestamp of the batch of a row. If that timestamp is odd in the same way,
        the row is skipped, since the batch is already reported.
        """
        if not len(timestamps):
            return
        for row in self._suspects(timestamps):
            timestamp = int(timestamps[row])
            unit = unit_of(timestamp, self._now_ms)
            if unit is None or (batch_timestamp is not None and unit_of(batch_timestamp(row), self._now_ms) is unit):
                continue
            offset = int(offsets[row])
            seen = self._seen.get(unit)
            if seen is None:
                position = None if positions is None else int(positions[row])
                self._seen[unit] = _Seen(timestamp, position, offset, offset)
            else:
                seen.count += 1
                seen.last_offset = max(seen.last_offset, offset)

    def findings(self, path: str) -> Iterator[Finding]:
        """Yield one finding per unit."""
        for unit, seen in self._seen.items():
            kind = _KINDS.get(unit, FindingKind.TIMESTAMP_UNIT)
            many = f"{seen.count} {self._what}{'' if seen.count == 1 else self._plural} with a timestamp {unit.value}"
            message = f"{many}, the first is {seen.first_timestamp}"
            span = (seen.first_offset, seen.last_offset)
            expected = f"at most {self._now_ms}" if unit is TimestampOddity.FUTURE else "milliseconds since 1970"
            got = str(seen.first_timestamp)
            yield finding(kind, path, message, position=seen.position, expected=expected, got=got, offsets=span)

    def _suspects(self, timestamps: IntColumn) -> list[int]:
        """Return the rows that may be odd.

        For a normal log, the column's minimum and maximum show that there are none.
        """
        least, most = _LAST_SECOND, self._now_ms + TOLERATED_AHEAD_MS
        low, high = least_and_largest(timestamps)
        if low >= least and high <= most:
            return []
        return rows_where(lambda time: (time < least) & (time != NO_TIMESTAMP) | (time > most), timestamps)


_CRC = struct.Struct(">I")
_SEVEN = (MESSAGE_SEVEN_MAGIC0, MESSAGE_SEVEN_MAGIC1)


class BadBatch(NamedTuple):
    """A batch whose checksums differ: its position and size in bytes, and the offsets concerned.

    `is_seven`: the batch is a message of Kafka 0.7, whose `magic` means another layout.
    """

    position: int
    size_bytes: int
    magic: int
    offsets: tuple[int, int] | None = None
    is_seven: bool = False

    @property
    def crc_position(self) -> int | None:
        """The position of the checksum within the batch, in bytes. None if no format has this magic."""
        if self.is_seven:
            return _SEVEN[self.magic].offset["crc"] if 0 <= self.magic < len(_SEVEN) else None
        if self.magic < 0:
            return None
        return (RECORD_BATCH if self.is_record_batch else MESSAGE_V0).offset["crc"]

    @property
    def is_record_batch(self) -> bool:
        """Whether a broker takes the batch for format v2."""
        return not self.is_seven and self.magic >= RECORD_BATCH_MAGIC


class Checksums(NamedTuple):
    """Checksums as text for a finding: `computed` from the bytes, `stored` in the header; "" if not known."""

    computed: str = ""
    stored: str = ""


def checksums_of(file: ReadableFile, bad: BadBatch) -> Checksums:
    """Read the batch again and return its checksums.

    Both are unknown if the device does not return all of its bytes.
    """
    at = bad.crc_position
    if at is None or bad.size_bytes < at + _CRC.size:
        return Checksums()
    buffer = bytearray(bad.size_bytes)
    got, _ = read_readable(file, bad.position, memoryview(buffer))
    if got < bad.size_bytes:
        return Checksums()
    (stored,) = _CRC.unpack_from(buffer, at)
    crc = crc32c if bad.is_record_batch else crc32
    return Checksums(str(crc(memoryview(buffer)[at + _CRC.size :])), str(stored))


class Marker(NamedTuple):
    """A producer's control batch: its position in bytes, and the offsets of the transaction that it ends."""

    position: int
    producer_id: int
    first_offset: int | None
    """None if the log has no record of the transaction."""
    last_offset: int


class AbortedCheck:
    """Follows transactions through the segments of a partition; `see` takes their runs of batches, in order.

    Call `findings` after each segment. A transaction without records in the log (compacted away) needs no entry. With
    `tells_markers`, control batches at which a broker fails that replays them are found, too.
    """

    def __init__(self, fs: Filesystem, *, tells_markers: bool = False) -> None:
        self._fs = fs
        self._tells_markers = tells_markers
        self._open: dict[int, int] = {}
        self._ended: list[Marker] = []

    def see(self, batch_run: BatchRun) -> None:
        """Note the batches that belong to transactions."""
        batches = batch_run.batches
        for row in rows_where(lambda bits: bits & (TRANSACTIONAL_MASK | CONTROL_MASK) != 0, batches.attributes):
            if batches.magic[row] < 2 or not batches.valid[row]:
                continue
            producer = int(batches.producer_id[row])
            if producer < 0 or batches.records_count[row] <= 0:
                continue  # the cleaner emptied the batch: it neither has records of a transaction nor ends it
            if batches.attributes[row] & CONTROL_MASK:
                first = self._open.pop(producer, None)
                is_told = self._tells_markers and not batches.attributes[row] & CODEC_MASK
                if first is not None or is_told:
                    marker = int(batches.last_offset[row])
                    self._ended.append(Marker(int(batches.position[row]), producer, first, marker))
            elif batches.attributes[row] & TRANSACTIONAL_MASK:
                self._open.setdefault(producer, int(batches.base_offset[row]))

    def findings(self, log: ReadableFile) -> Iterator[Finding]:
        """Yield a finding per invalid marker, and one if the index of the segment `log` lacks aborted transactions."""
        ended, self._ended = self._ended, []
        aborted: list[Marker] = []
        invalid = 0
        for marker in ended:
            record = control_record_at(log, marker.position)
            if isinstance(record, Fault) or not record.is_marker:
                invalid += 1
                if self._tells_markers and invalid <= MAX_TOLD:
                    message = record.message if isinstance(record, Fault) else f"a producer's {NO_MARKER}"
                    offsets, position = (marker.last_offset, marker.last_offset), marker.position
                    yield finding(FindingKind.CONTROL_RECORD, log.path, message, position=position, offsets=offsets)
            elif record.type_id == ABORT and marker.first_offset is not None:
                aborted.append(marker)
        if self._tells_markers and invalid > MAX_TOLD:
            message = f"{invalid - MAX_TOLD} more batches of the same kind"
            yield finding(FindingKind.CONTROL_RECORD, log.path, message)
        if not aborted:
            return
        path = log.path.removesuffix(FileKind.LOG.value) + FileKind.TXN_INDEX.value
        known = self._indexed(path)
        missing = [each for each in aborted if known is not None and (each.producer_id, each.last_offset) not in known]
        if not missing:
            return
        _, producer, first, last = missing[0]
        message = f"no entry for an aborted transaction of producer {producer}, offsets {first} to {last}"
        if len(missing) > 1:
            message += f"; {len(missing) - 1} more are missing"
        yield finding(FindingKind.TXN_INDEX_WRONG, path, message, offsets=(first if first is not None else last, last))

    def _indexed(self, path: str) -> set[tuple[int, int]] | None:
        """Return the producer id and last offset of each entry.

        None if the file cannot be read, which another check reports.
        """
        try:
            if self._fs.status(path) is None:
                return set()
            entries, _ = txnindex.decode(read_all(self._fs, path), 0)
        except (KafkalogError, OSError):
            return None
        return {(entry.producer_id, entry.last_offset) for entry in entries}


class BatchListener(Protocol):
    """Receives the batches of a log in order; their CRCs may be unchecked, depending on the level.

    If `wants_records`, it also receives the records of batches whose CRCs are right, at any level. Records come before
    their batches.
    """

    wants_records: bool

    def batches(self, batches: BatchColumns) -> None:
        """Receive several batches."""

    def records(self, block: RecordBlock) -> None:
        """Receive the records of several batches."""


class BatchListeners:
    """A check and a listener as one LogObserver; the check receives the same calls as it would alone."""

    def __init__(self, check: LogObserver, listener: BatchListener) -> None:
        self.wants_records = check.wants_records or listener.wants_records
        self._check = check
        self._listener = listener

    def begin(self, segment: Segment, next_offset: int | None) -> bool:
        """See LogObserver."""
        return self._check.begin(segment, next_offset)

    def see(self, batch_run: BatchRun) -> None:
        """See LogObserver."""
        self._check.see(batch_run)
        self._listener.batches(batch_run.batches)

    def records(self, block: RecordBlock) -> None:
        """See LogObserver."""
        if self._check.wants_records:
            self._check.records(block)
        self._listener.records(block)

    def end(self, walk: SegmentWalk, code: ExitCode) -> None:
        """See LogObserver."""
        self._check.end(walk, code)


def range_kind(file: ReadableFile, start: int, end: int, *, is_tail: bool = False) -> FindingKind:
    """Return the kind of finding for bytes `start` to `end`, which are not a batch. `is_tail`: the log ends there."""
    zeroed = begins_with_zeros(file, start, end)
    if is_tail:
        return FindingKind.ZERO_TAIL if zeroed else FindingKind.TORN_TAIL
    return FindingKind.ZEROED_RANGE if zeroed else FindingKind.DAMAGED_RANGE


def negative_magic_findings(file: ReadableFile, path: str, start: int, end: int) -> Iterator[tuple[int, Finding]]:
    """Yield sizes and findings of consecutive messages with a magic below 0 and a right CRC, from `start` to `end`."""
    for message in negative_magics(file, start, end):
        yield (
            message.size_bytes,
            finding(
                FindingKind.UNKNOWN_MAGIC,
                path,
                f"a message with the magic {message.magic}, which no Kafka version writes, and a correct checksum",
                position=message.position,
                expected="0 to 2",
                got=str(message.magic),
                offsets=(message.last_offset, message.last_offset),
                broker_effect="a broker treats it as a message of an old format and keeps it, even after an unclean"
                " stop; consumers and the cleaner fail at it",
            ),
        )


_MID_LOG = {
    FindingKind.TORN_TAIL: FindingKind.DAMAGED_RANGE,
    FindingKind.ZERO_TAIL: FindingKind.ZEROED_RANGE,
    FindingKind.BAD_TAIL_BATCH: FindingKind.CRC_MISMATCH,
}


def as_mid_log(found: Finding) -> Finding:
    """Return a finding about a tail as a finding about the middle of the log, since valid batches follow."""
    offsets = None
    if found.first_offset is not None and found.last_offset is not None:
        offsets = (found.first_offset, found.last_offset)
    return finding(
        _MID_LOG.get(found.kind, found.kind),
        found.path,
        found.message,
        position=found.position,
        expected=found.expected,
        got=found.got,
        offsets=offsets,
    )


def end_kind(file: ReadableFile, fault: Fault, *, is_last: bool) -> FindingKind | None:
    """Return the kind of a fault with no valid batch after it in its segment, None if the fault's own kind decides."""
    if fault.kind in (FaultKind.UNREADABLE, FaultKind.BATCH_TOO_LARGE):
        return None
    return range_kind(file, fault.position, file.size_bytes, is_tail=is_last)


def in_words(fault: Fault, kind: FindingKind | None, size_bytes: int) -> Fault:
    """Return the fault, with Kafka's message of a record size of 0 replaced by one that reports zeros."""
    if kind not in (FindingKind.ZERO_TAIL, FindingKind.ZEROED_RANGE):
        return fault
    rest = size_bytes - fault.position
    message = f"zeros where a batch should be, {rest} bytes before the end of the file"
    return fault._replace(message=message, expected="a batch", got=f"{rest} bytes that begin with zeros")


def begins_with_zeros(file: ReadableFile, begin: int, end: int) -> bool:
    """Whether the first header in bytes `begin` to `end` is zeros, at least up to its magic.

    False if there are too few bytes for a header. A broker does not start with a batch header whose size is 0.
    """
    buffer = bytearray(HEADER_SIZE_UP_TO_MAGIC_BYTES)
    if end - begin <= len(buffer):
        return False
    got, fault = read_readable(file, begin, memoryview(buffer))
    return fault is None and got == len(buffer) == buffer.count(0)
