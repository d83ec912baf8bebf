"""Iterate over the records of one batch of a replica, for a comparison with the other replica's records."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import NamedTuple

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.errors import KafkalogError
from kafkalog_cli.format.batch import NO_OFFSET, Batch
from kafkalog_cli.format.limits import Limits
from kafkalog_cli.format.records import Record
from kafkalog_cli.log.reading.segment_reader import SegmentReader


class _Unreadable(Exception):
    """Some records cannot be read, or their offsets do not ascend; never leaves this module."""


_PROBLEMS = (_Unreadable, KafkalogError, OSError)


_KEPT_RECORDS = 1_000_000
"""The most records of a batch of which the facts are kept: they take 24 bytes each."""
_FACTS = struct.Struct(">q16s")


class RecordFacts(NamedTuple):
    """The offset of a record, and a digest of its timestamp, key, value and headers."""

    offset: int
    digest: bytes


class ReplicaRecords:
    """The records of `batch` in the file `path`; `record` is the current one, None after the last.

    `first_offset` is that of the first record, None if it cannot be read.

    `can_be_read`: all records can be read, and their offsets ascend. Of each record only the facts are kept, since two
    large batches would take much memory. Records of a batch that has very many are read one after the other.
    """

    def __init__(self, fs: Filesystem, path: str, batch: Batch, limits: Limits) -> None:
        self.batch = batch
        self.path = path
        self.record: RecordFacts | None = None
        self.first_offset: int | None = None
        self.can_be_read = True
        self._fs = fs
        self._limits = limits
        self._records: Iterator[RecordFacts] = iter(())
        try:
            kept = self._kept()
        except _PROBLEMS:
            self.can_be_read = False
        else:
            self._records = self._read() if kept is None else map(RecordFacts._make, _FACTS.iter_unpack(kept))
            self.step()
            self.first_offset = None if self.record is None else self.record.offset

    def step(self) -> None:
        """Go to the next record; a record that cannot be read ends the iteration."""
        try:
            self.record = next(self._records, None)
        except _PROBLEMS:
            self.record = None

    def close(self) -> None:
        """Stop reading."""
        self._records = iter(())  # a generator that nothing refers to closes its file

    def _kept(self) -> bytes | None:
        """Read all records, and return their facts, None if there are too many. Raises as `_read` does."""
        kept: bytearray | None = bytearray()
        with closing(self._read()) as records:
            for record in records:
                if kept is not None:
                    kept += _FACTS.pack(*record)
                    if len(kept) > _KEPT_RECORDS * _FACTS.size:
                        kept = None
        return None if kept is None else bytes(kept)

    def _read(self) -> Generator[RecordFacts, None, None]:
        last = NO_OFFSET
        with self._fs.open_read(self.path) as file:
            for block in SegmentReader.of_batch(file, self.batch, self._limits).blocks():
                if block.faults:
                    raise _Unreadable
                for record in block.rows():
                    if record.offset <= last:
                        raise _Unreadable
                    last = record.offset
                    yield RecordFacts(record.offset, _digest(record))


def first_different(ours: ReplicaRecords, theirs: ReplicaRecords) -> int | None:
    """Return the first offset at which both have a record but with different contents, None if there is none.

    Both iterations end up at that offset, or at the end of one of them.
    """
    while ours.record is not None and theirs.record is not None:
        one, other = ours.record, theirs.record
        if one.offset == other.offset and one.digest != other.digest:
            return one.offset
        if one.offset <= other.offset:
            ours.step()
        if other.offset <= one.offset:
            theirs.step()
    return None


def _digest(record: Record) -> bytes:
    fields = (record.key, record.value, *(field for header in record.headers for field in header))
    found = hashlib.blake2b(b"%d %d " % (record.timestamp, len(fields)), digest_size=16)
    for field in fields:
        found.update(b" " if field is None else b"%d " % len(field))
    for field in fields:
        found.update(field or b"")
    return found.digest()
