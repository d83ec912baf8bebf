"""The batches and records of one replica in log order, and the facts collected during the comparison."""

from __future__ import annotations

import hashlib
from array import array
from bisect import bisect_left
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.errors import KafkalogError, counted
from kafkalog_cli.format.batch import NO_OFFSET, Batch
from kafkalog_cli.format.limits import Limits
from kafkalog_cli.format.records import Record
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.log.reading.scan import Scan
from kafkalog_cli.ops.check.checks.gaps import cleaned_to
from kafkalog_cli.ops.check.checks.segment_walk import MAX_MAGIC, BatchRun, SegmentWalk

NO_EPOCH = -1
_DIGEST_BYTES = 16


@dataclass(slots=True)
class MissingHere:
    """Offsets that only the other replica has: the first range of them, and the counts of ranges and offsets."""

    ranges: int = 0
    offsets: int = 0
    first: int = 0
    last: int = 0
    reached: int = NO_OFFSET

    def add(self, first: int, last: int) -> None:
        """Add a batch of the other replica, by its first and last offset; batches must come in order."""
        if not self.ranges or first > self.reached + 1:
            self.ranges += 1
        if not self.offsets:
            self.first = first
        if self.ranges == 1:
            self.last = last
        self.offsets += last - first + 1
        self.reached = last


class Head(NamedTuple):
    """The next batch of a side, with the path of its file; `first` is its first offset, as far as known."""

    batch: Batch
    first: int
    path: str


@dataclass(slots=True)
class LogFacts:
    """What is known of the log of one replica, once all its batches are read.

    `host` is "" on the machine that compares. `end_offset` is the offset after the last batch whose CRC is right, as in
    Kafka, at least `named_end`: the offset in the name of the last segment, which the log reached even if that segment
    is empty. `last_epoch` is the largest leader epoch, -1 if unknown. `damaged` counts places without a valid batch.
    `is_empty`: there is no valid batch. `cleaned_to` is the offset after the last trace of the cleaner, 0 without one.
    """

    path: str
    start_offset: int
    named_end: int
    end_offset: int
    host: str = ""
    last_epoch: int = NO_EPOCH
    damaged: int = 0
    is_empty: bool = True
    cleaned_to: int = 0

    @classmethod
    def of(cls, partition: Partition) -> LogFacts:
        """Return what the names of the segments tell; `read_batches` adds the rest."""
        offsets = [segment.base_offset for segment in partition.segments] or [0]
        return cls(partition.path, offsets[0], offsets[-1], offsets[-1])

    def add(self, batch_run: BatchRun) -> None:
        """Add what batches tell."""
        batches = batch_run.batches
        self.is_empty = self.is_empty and not any(batches.valid)
        self.cleaned_to = max(self.cleaned_to, cleaned_to(batch_run))
        row = batches.last_valid_row()
        if row is not None:
            self.end_offset = max(self.end_offset, int(batches.last_offset[row]) + 1)
            self.last_epoch = max(self.last_epoch, int(batches.leader_epoch[row]))

    def end(self, walk: SegmentWalk) -> None:
        """Add what the walk through a segment tells at its end."""
        self.damaged += walk.damaged_count + walk.bad_crcs + (walk.fault is not None)

    @property
    def place(self) -> str:
        """The path as messages name it, as `scp` takes it for another host."""
        return f"{self.host}:{self.path}" if self.host else self.path

    @property
    def rank(self) -> tuple[bool, int, int, int]:
        """A key that is larger for the more complete replica.

        No damage counts first, then leader epoch and end as in Kafka's elections, then the smaller start offset.
        """
        return not self.damaged, self.last_epoch, self.end_offset, -self.start_offset

    @property
    def words(self) -> str:
        """The contents as text for messages."""
        damage = counted(self.damaged, "damaged place", "damaged places") if self.damaged else "no damage"
        epoch = "unknown" if self.last_epoch == NO_EPOCH else self.last_epoch
        return f"offsets {self.start_offset} to {self.end_offset}, leader epoch {epoch}, {damage}"


Batches = Generator[tuple[str, BatchRun], None, None]
"""The batches of a log in file order, with the path of their segment."""


def read_batches(partition: Partition, limits: Limits, log: LogFacts, *, headers_only: bool = False) -> Batches:
    """Yield the batches of a partition, segment after segment, and add to `log` what they tell."""
    for segment in partition.segments:
        try:
            file = partition.fs.open_read(segment.log.path)
        except KafkalogError:
            log.damaged += 1
            continue
        with file:
            walk = SegmentWalk(file, limits, headers_only=headers_only)
            for batch_run in walk:
                log.add(batch_run)
                yield segment.log.path, batch_run
            log.end(walk)


class ReplicaSide:
    """The batches of one replica in log order; batches with a wrong CRC are left out.

    `only_here` counts batches that the other replica lacks although its log reaches their offsets, up to the point of
    divergence. `unexplained` counts offsets that only the other replica has, and that no cleaning or deletion explains.
    `log` is complete once the log is read to its end (`drain`). `read_digests` returns those of a batch's records.
    """

    def __init__(self, log: LogFacts, batches: Batches, read_digests: Callable[[Head], RecordDigests | None]) -> None:
        self.log = log
        self.only_here = self.shared = self.unexplained = 0
        self.missing = MissingHere()
        self.batch_run: BatchRun | None = None
        self.row = 0
        self._batches = batches
        self._read_digests = read_digests
        self._log_path = ""
        self._digested: tuple[Head, RecordDigests | None] | None = None
        self._next_batch_run()

    @classmethod
    def of(cls, partition: Partition, limits: Limits) -> ReplicaSide:
        """Return the side of a replica on this machine."""
        log = LogFacts.of(partition)
        digests = partial(RecordDigests.of, partition.fs, limits=limits)
        return cls(log, read_batches(partition, limits, log), digests)

    def __enter__(self) -> ReplicaSide:
        return self

    def __exit__(self, *_: object) -> None:
        self._batches.close()

    def _next_batch_run(self) -> None:
        self._log_path, self.batch_run = next(self._batches, ("", None))
        self.row = 0

    def head(self) -> Head | None:
        """Return the next valid batch, None at the end of the log."""
        while self.batch_run is not None:
            if self.row == len(self.batch_run.batches):
                self._next_batch_run()
                continue
            batch = self.batch_run.batches.row(self.row)
            if batch.valid and batch.magic <= MAX_MAGIC:
                is_set = batch.base_offset == NO_OFFSET
                first = self.batch_run.offset_before(self.row) + 1 if is_set else batch.base_offset
                return Head(batch, first, self._log_path)
            self.row += 1
        return None

    def exact(self, head: Head) -> Head:
        """Return a batch of this side with its true first offset, which a compressed message set has in its records."""
        if head.batch.base_offset != NO_OFFSET:
            return head
        digests = self.digests_of(head)
        return head._replace(first=digests.offsets[0]) if digests and digests.offsets else head

    def step(self, rows: int = 1) -> None:
        """Skip this number of batches of the run."""
        self.row += rows

    def drain(self) -> None:
        """Read to the end of the log."""
        while self.batch_run is not None:
            self._next_batch_run()

    @property
    def words(self) -> str:
        """The contents as text for messages."""
        missing = f", {counted(self.unexplained, 'offset', 'offsets')} missing" if self.unexplained else ""
        return f"{self.log.words}{missing}"

    def lacks(self, head: Head) -> bool:
        """Note that this replica lacks a batch of the other replica.

        Returns False, without noting anything, if the batch lies before the start of this log.
        """
        if head.first < self.log.start_offset:
            return False
        self.missing.add(head.first, head.batch.last_offset)
        return True

    def digests_of(self, head: Head) -> RecordDigests | None:
        """Return the digests of a batch's records. Those of the last batch are kept: it may overlap several others."""
        known = self._digested
        if known is None or (known[0].path, known[0].batch) != (head.path, head.batch):
            known = self._digested = head, self._read_digests(head)
        return known[1]


_MOST_RECORDS = 4_000_000
"""The most records of a batch that are compared: they take 24 bytes each. No producer writes so many."""


class RecordDigests:
    """The offsets of the records of a batch, and digests of their timestamps, keys, values and headers.

    A digest for each record, since the records of two large batches would take much memory.
    """

    def __init__(self) -> None:
        self.offsets = array("q")
        self._digests = bytearray()

    @classmethod
    def of(cls, fs: Filesystem, head: Head, limits: Limits) -> RecordDigests | None:
        """Return those of a batch; None if it has too many, if not all can be read, or if offsets do not ascend."""
        found = cls()
        try:
            with fs.open_read(head.path) as file:
                for block in Scan.of_batch(file, head.batch, limits).blocks():
                    if block.faults or len(found.offsets) > _MOST_RECORDS:
                        return None
                    for record in block.rows():
                        if found.offsets and record.offset <= found.offsets[-1]:
                            return None
                        found.offsets.append(record.offset)
                        found._digests += _digest(record)
        except (KafkalogError, OSError):
            return None
        return found

    def digest(self, row: int) -> bytearray:
        """Return the digest of a record."""
        return self._digests[row * _DIGEST_BYTES : (row + 1) * _DIGEST_BYTES]

    def first_different(self, other: RecordDigests) -> int | None:
        """Return the first offset at which both have a record but with different contents, None if there is none."""
        fewer, more = sorted((self, other), key=lambda one: len(one.offsets))
        for row, offset in enumerate(fewer.offsets):
            at = bisect_left(more.offsets, offset)
            is_in_both = at < len(more.offsets) and more.offsets[at] == offset
            if is_in_both and more.digest(at) != fewer.digest(row):
                return offset
        return None


def _digest(record: Record) -> bytes:
    fields = (record.key, record.value, *(field for header in record.headers for field in header))
    found = hashlib.blake2b(b"%d %d " % (record.timestamp, len(fields)), digest_size=_DIGEST_BYTES)
    for field in fields:
        found.update(b" " if field is None else b"%d " % len(field))
    for field in fields:
        found.update(field or b"")
    return found.digest()
