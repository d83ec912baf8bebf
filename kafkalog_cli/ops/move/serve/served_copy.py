"""One copy of a partition, as it is served: whole batches from an offset on, and where damage hides batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum, unique
from threading import RLock
from typing import NamedTuple

from kafkalog_cli.broker.leader_epochs import LeaderEpochs
from kafkalog_cli.broker.load_error import LoadFailed
from kafkalog_cli.disk.fs import FileStatus, Filesystem
from kafkalog_cli.errors import ExitCode, KafkalogError, NotLookedUp
from kafkalog_cli.format.batch import NO_OFFSET, Batch
from kafkalog_cli.format.fault import unreadable
from kafkalog_cli.log.partition import Partition, read_leader_epochs
from kafkalog_cli.ops.call.observer import Note
from kafkalog_cli.ops.move.serve.open_files import OpenFilesystem
from kafkalog_cli.ops.move.serve.segment_map import DamagedRange, RecordsRange, SegmentMap

_V2 = 2
_CUT = (
    "another program cut it while it was served: for its records, consumers get the error KAFKA_STORAGE_ERROR."
    " Start serve again to serve the log as it is now"
)


@unique
class NoRecords(Enum):
    """The reason why a fetch has no records."""

    OUT_OF_RANGE = "out-of-range"
    DAMAGED = "damaged"
    CUT_OFF = "cut-off"
    NEWER_FORMAT = "newer-format"
    MISSING = "missing"
    """No segment has the offset, and the topic is not compacted. Consumers pass over such offsets."""


class CopyBatches(NamedTuple):
    """The batches of a copy from an offset on: `batches`, which may be empty, or None if no good batch follows.

    `loss` is the reason why records between the offset and the batches may be missing, and `damage` the damaged bytes
    there. `segments` are the numbers of the segments that were searched.
    """

    batches: RecordsRange | None
    loss: NoRecords | None
    damage: Sequence[DamagedRange]
    segments: range

    def first_offset(self, otherwise: int) -> int:
        """Return the offset with which the batches begin. Only the last offset of an old compressed set is known."""
        if self.batches is None:
            return otherwise
        first = self.batches.first
        return first.last_offset if first.base_offset == NO_OFFSET else first.base_offset

    def answer(self, *, skips: bool) -> RecordsRange | NoRecords | None:
        """Return the answer: the batches, the loss before them if it is not passed over, or None if no batch fits."""
        if self.loss is NoRecords.CUT_OFF or (self.loss is NoRecords.DAMAGED and not skips):
            return self.loss
        return self.batches if self.batches is not None and self.batches.size_bytes else None


class ServedCopy:
    """A copy of a partition. Its segments are read and checked at the first request that needs them, after `open`.

    Other methods raise as `read_into`. `report` gets what cannot be served of it.
    """

    def __init__(self, fs: OpenFilesystem, copy: Partition, report: Callable[[Note], None], *, has_gaps: bool) -> None:
        """`has_gaps`: offsets may be missing between segments, as in a compacted topic."""
        self.copy = copy
        self.segments = copy.segments
        self.start = copy.bounds.start
        self.next_offset = copy.bounds.next_offset
        self.epochs = LeaderEpochs()
        self._fs = fs
        self._report = report
        self._has_gaps = has_gaps
        self._maps: dict[int, SegmentMap] = {}
        self._cut: set[str] = set()
        self._building = RLock()
        self._last_batch = b""
        self._is_open = False

    def open_logs(self) -> bool:
        """Open the logs, if they are not open; they stay open. Return False, and report the reason, if that fails."""
        if self._is_open:
            return True
        try:
            self._fs.keep_open(self.copy)
            self.epochs = _leader_epochs_of(self._fs, self.copy)
            last = self._fs.open_file(self.segments[-1].log.path)
            self._last_batch = last.batch_mark(self.copy.bounds.last_position)
        except (KafkalogError, OSError) as error:
            message = f"not served: {unreadable(error).message}"
            self._report(Note("unreadable", message, self.path, is_error=True, exit_code=ExitCode.PARTIAL))
            return False
        self._is_open = True
        return True

    @property
    def path(self) -> str:
        """The directory of the copy."""
        return self.copy.path

    def map(self, number: int) -> SegmentMap:
        """Return the map of a segment."""
        with self._building:
            if number not in self._maps:
                segment = self.segments[number]
                seven = segment.base_offset if segment.is_v07 else None
                self._maps[number] = SegmentMap(self._fs.open_file(segment.log.path), seven)
            return self._maps[number]

    def batches_from(self, offset: int, end_offset: int, most_bytes: int, *, first_is_whole: bool) -> CopyBatches:
        """Return the whole batches from the batch with `offset`, or the next one, on, below `end_offset`.

        `first_is_whole`: the first batch is returned even if it is larger than `most_bytes`.
        """
        loss = NoRecords.MISSING if offset < self.start else None
        damage: list[DamagedRange] = []
        batches: RecordsRange | None = None
        at = number = self.segment_at(offset)
        for number in range(at, len(self.segments)):
            mapped = self.map(number)
            hidden = mapped.damage_at(offset)
            found = mapped.slice(offset, end_offset, most_bytes, first_is_whole=first_is_whole)
            if self.is_cut(number):  # after the map, which may have read the changed file
                loss = NoRecords.CUT_OFF
                break
            if hidden:
                loss, damage = NoRecords.DAMAGED, [*damage, *hidden]
            if found is not None:
                batches = found
                break
            if not self._has_gaps:
                loss = loss or NoRecords.MISSING
        return CopyBatches(batches, loss, damage, range(at, number + 1))

    def holes(self, number: int) -> Iterator[tuple[int, int]]:
        """Yield the offsets of a segment that damage hides, and those missing between it and the next segment."""
        mapped, base_offset = self.map(number), self.segments[number].base_offset
        following = self.segments[number + 1].base_offset if number + 1 < len(self.segments) else self.next_offset
        has_bad_end = not self._has_gaps
        for first, until in mapped.holes(base_offset):
            if until is None:
                has_bad_end = True
            else:
                yield first, until
        reached = mapped.next_offset
        first = base_offset if reached is None else reached
        if has_bad_end:
            yield first, following

    def bytes_at(self, offset: int, most_bytes: int) -> RecordsRange | NoRecords:
        """Return bytes of a log of Kafka 0.7 from an offset on; the offset is a position of a byte."""
        number = self.segment_at(offset)
        records = self.map(number).good_bytes(offset - self.segments[number].base_offset, most_bytes)
        if self.is_cut(number):
            return NoRecords.CUT_OFF
        return NoRecords.DAMAGED if records is None else records

    def is_cut(self, number: int) -> bool:
        """Whether another program has cut batches off a segment since the start, and may have appended others since.

        The last segment may grow, and a torn end of it may be cut off: its last batch stays. Other files stay the same.
        """
        path = self.segments[number].log.path
        if path in self._cut:
            return True
        if self._is_as_before(number):
            return False
        self._cut.add(path)
        self._report(Note("damage", _CUT, path, exit_code=ExitCode.CORRUPTION))
        return True

    def _is_as_before(self, number: int) -> bool:
        log = self.segments[number].log
        now = self._status_of_open(log)
        if now is not None and (now.mtime_ms, now.size_bytes) == (log.mtime_ms, log.size_bytes):
            return True
        file = self._fs.open_file(log.path)
        if number + 1 == len(self.segments):
            return self._last_batch == file.batch_mark(self.copy.bounds.last_position)
        is_written = now is not None and now.mtime_ms != log.mtime_ms
        return not is_written and file.reaches(log.size_bytes)

    def _status_of_open(self, log: FileStatus) -> FileStatus | None:
        """Return the status of an open log, None if its path leads to it no more, or cannot be looked up."""
        try:
            now = self._fs.status(log.path)
        except NotLookedUp:
            return None
        return now if now is not None and now.inode == log.inode else None

    def has(self, batches: RecordsRange) -> bool:
        """Whether the batches are in a segment of this copy."""
        return batches.file.path.rpartition("/")[0] == self.path

    def segment_at(self, offset: int) -> int:
        """Return the number of the last segment that begins at or below `offset`."""
        return max((i for i, segment in enumerate(self.segments) if segment.base_offset <= offset), default=0)

    def common_batches(self, other: ServedCopy, batches: RecordsRange) -> RecordsRange:
        """Return the first batches of another copy that belong to this log; see `agrees`."""
        return batches.before(lambda batch: not self.agrees(other, batch))

    def agrees(self, other: ServedCopy, batch: Batch) -> bool:
        """Whether a batch of another copy belongs to this log.

        The leader of an epoch writes an offset once, so the leader epoch of the offset must be the same. Where this log
        has no epochs, as before Kafka 0.11, replicas agree below the high watermark.
        """
        epoch = self.epochs.epoch_of(batch.last_offset)
        if epoch is not None:
            return batch.magic >= _V2 and batch.leader_epoch == epoch
        marks = (self.copy.bounds.high_watermark, other.copy.bounds.high_watermark)
        has_no_epoch = other.epochs.epoch_of(batch.last_offset) is None
        return has_no_epoch and all(mark is not None and batch.last_offset < mark for mark in marks)


def _leader_epochs_of(fs: Filesystem, copy: Partition) -> LeaderEpochs:
    """Return the epochs that a broker has after it loaded a partition. A file that it refuses gives no epochs.

    Epochs that begin after the end of the log are left out. Raises as `open_read`.
    """
    entries, faults = read_leader_epochs(fs, copy)
    try:
        known = LeaderEpochs(() if faults else entries)
    except LoadFailed:
        return LeaderEpochs()
    known.truncate_from_end(copy.bounds.next_offset + 1)
    known.truncate_from_start(copy.bounds.start)
    return known
