"""What a host knows of its replica of a partition, to compare it with those of other hosts, and batches on demand.

Facts have a digest of each range of offsets, which does not depend on segments. All values can be pickled.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.format.batch import BatchColumns
from kafkalog_cli.format.checkpoint import EpochEntry
from kafkalog_cli.format.limits import Limits
from kafkalog_cli.log.partition import Partition, open_partition, try_leader_epochs
from kafkalog_cli.ops.check.checks.segment_walk import MAX_MAGIC, BatchRun, SegmentWalk
from kafkalog_cli.ops.check.verify.replica_side import Head, LogFacts, RecordDigests, read_batches
from kafkalog_cli.ops.look.listing.root import CheckpointedOffsets
from kafkalog_cli.ops.map_each import Advance, do_not_report

_SHIFT = 13
"""The narrowest ranges have 2^13 offsets, so that the batches of a range are few enough to be sent."""
_MOST_RANGES = 512
_DIGEST_BYTES = 16

Digests = dict[int, bytes]
"""By the number of the range: offset >> shift of the last offset of a batch."""


@dataclass(frozen=True, slots=True)
class ReplicaFacts:
    """What a host knows of its replica of a partition.

    `log_start` and `cleaned_to` also have the lines of the checkpoints. `is_compacted` is None if no source knows.
    `headers_only`: batches were read without their CRCs. `span` is the most offsets of a batch.
    """

    log: LogFacts
    topic: str
    partition: int
    topic_id: str | None
    epochs: tuple[EpochEntry, ...]
    high_watermark: int | None
    log_start: int
    is_compacted: bool | None
    cleaned_to: int
    headers_only: bool
    span: int
    shift: int
    digests: Digests


class Replica(NamedTuple):
    """A replica, with the name of its host. No two replicas have both the same host and the same path."""

    host: str
    facts: ReplicaFacts

    @property
    def key(self) -> ReplicaKey:
        """The replica in questions and answers."""
        return self.host, self.facts.log.path


ReplicaKey = tuple[str, str]
"""Host and path."""


class Question(NamedTuple):
    """Asks for the batches of ranges of a log, and for digests of the records in some of these ranges."""

    path: str
    shift: int
    ranges: frozenset[int]
    with_records: frozenset[int]
    headers_only: bool


class Rows(NamedTuple):
    """The batches of some ranges, each row with those beside it in the file, and digests of their records.

    `parts`: the path of a segment, the largest offset before the rows, and the rows as bytes of BatchColumns.
    """

    parts: list[tuple[str, int, bytes]]
    digests: dict[tuple[str, int], RecordDigests | None]


_IDENTITY = tuple(map(BatchColumns.names.index, ("size_bytes", "base_offset", "last_offset", "leader_epoch", "crc")))


class FactsInWalk:
    """Collects the facts of a replica while its check walks through the segments in order."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self._log = LogFacts.of(partition)
        self._segments = 0
        self._span = 1
        self._digests: dict[int, hashlib.blake2b] = {}

    def see(self, batch_run: BatchRun) -> None:
        """Digest the batches whose CRCs are right, by ranges of offsets.

        The first offset of a compressed message set is not known (-1): it may be any.
        """
        import numpy as np

        self._log.add(batch_run)
        columns = batch_run.batches.arrays()
        valid = columns.select((columns.valid != 0) & (columns.magic <= MAX_MAGIC))
        if not len(valid):
            return
        numbers, rows = valid.last_offset >> _SHIFT, np.ascontiguousarray(valid.matrix[[*_IDENTITY]].T)
        self._span = max(self._span, int((valid.last_offset - valid.base_offset).max()) + 1)
        edges = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(valid)]
        for begin, end in pairwise(edges):
            digest = self._digests.setdefault(int(numbers[begin]), hashlib.blake2b(digest_size=_DIGEST_BYTES))
            digest.update(rows[begin:end].tobytes())

    def end(self, walk: SegmentWalk) -> None:
        """See LogCheck."""
        self._log.end(walk)
        self._segments += 1

    def facts(self, lines: CheckpointedOffsets, is_compacted: bool | None, headers_only: bool) -> ReplicaFacts:
        """Return the facts, after the walk; `lines` are those of the checkpoints."""
        partition, log, shift = self._partition, self._log, _SHIFT
        log.damaged += len(partition.segments) - self._segments  # which could not be opened
        if is_compacted is None and lines.cleaner is not None:
            is_compacted = True
        digests = {number: one.digest() for number, one in self._digests.items()}
        while len(digests) > _MOST_RANGES:
            digests, shift = _widened(digests), shift + 1
        return ReplicaFacts(
            log,
            partition.topic,
            partition.number,
            partition.topic_id,
            tuple(try_leader_epochs(partition.fs, partition)[0]),
            lines.high_watermark,
            lines.log_start or 0,
            is_compacted,
            max(lines.cleaner or 0, log.cleaned_to),
            headers_only,
            self._span,
            shift,
            digests,
        )


def _widened(digests: Digests) -> Digests:
    """Return the digests of ranges that are twice as wide."""
    nothing = bytes(_DIGEST_BYTES)
    pairs = {half: [digests.get(2 * half + second, nothing) for second in (0, 1)] for half in {n >> 1 for n in digests}}
    return {half: hashlib.blake2b(b"".join(two), digest_size=_DIGEST_BYTES).digest() for half, two in pairs.items()}


def read_rows(limits: Limits, question: Question, _: Advance = do_not_report) -> Rows:
    """Answer a question. Raises PathNotFound, NotKafkaLayout, Unreadable for the directory."""
    fs, shift = RealFilesystem(), question.shift
    partition = open_partition(fs, question.path)
    found = Rows([], {})
    log = LogFacts.of(partition)
    for path, batch_run in read_batches(partition, limits, log, headers_only=question.headers_only):
        batches = batch_run.batches
        numbers = [offset >> shift for offset in batches.last_offset]
        edges = [0, *(row for row in range(1, len(numbers)) if numbers[row] != numbers[row - 1]), len(numbers)]
        for begin, end in pairwise(edges):
            number = numbers[begin]
            if number not in question.ranges:
                continue
            part = batches.part(begin, end)
            data = b"".join(column.tobytes() for column in part.columns())
            found.parts.append((path, batch_run.offset_before(begin), data))
            for batch in part.rows() if number in question.with_records else ():
                if batch.valid and batch.magic <= MAX_MAGIC:
                    digests = RecordDigests.of(fs, Head(batch, batch.base_offset, path), limits)
                    found.digests[path, batch.position] = digests
    return found


def digests_at(facts: ReplicaFacts, shift: int) -> Digests:
    """Return the digests of ranges of 2^`shift` offsets, which are at least as wide as those of the facts."""
    digests = facts.digests
    for _ in range(shift - facts.shift):
        digests = _widened(digests)
    return digests
