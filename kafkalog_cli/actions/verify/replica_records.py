"""Iterate over the records of one batch of a replica, for a comparison with the other replica's records."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing

from kafkalog_cli.errors import KafkalogError
from kafkalog_cli.format.batch import NO_OFFSET, Batch
from kafkalog_cli.format.limits import Limits
from kafkalog_cli.format.records import Record
from kafkalog_cli.storage.fs import Filesystem
from kafkalog_cli.storage.reading.read import BatchRecords


class _Unreadable(Exception):
    """Some records cannot be read, or their offsets do not ascend; never leaves this module."""


_PROBLEMS = (_Unreadable, KafkalogError, OSError)


class ReplicaRecords:
    """The records of `batch` in the file `path`; `record` is the current one, None after the last.

    `can_be_read`: all records can be read, and their offsets ascend. A batch may have many millions of records, so they
    are read one after the other and not kept.
    """

    def __init__(self, fs: Filesystem, path: str, batch: Batch, limits: Limits) -> None:
        self.batch = batch
        self.path = path
        self.record: Record | None = None
        self.can_be_read = True
        self._fs = fs
        self._limits = limits
        self._records = self._read()
        try:
            with closing(self._read()) as records:
                for _ in records:
                    pass
        except _PROBLEMS:
            self.can_be_read = False
        else:
            self.step()

    def step(self) -> None:
        """Go to the next record; a record that cannot be read ends the iteration."""
        try:
            self.record = next(self._records, None)
        except _PROBLEMS:
            self.record = None

    def close(self) -> None:
        """Stop reading."""
        self._records.close()

    def _read(self) -> Generator[Record, None, None]:
        last = NO_OFFSET
        with self._fs.open_read(self.path) as file:
            for block in BatchRecords(file, self.batch, self._limits):
                if block.faults:
                    raise _Unreadable
                for record in block.rows():
                    if record.offset <= last:
                        raise _Unreadable
                    last = record.offset
                    yield record


def first_different(ours: ReplicaRecords, theirs: ReplicaRecords) -> int | None:
    """Return the first offset at which both have a record but with different contents, None if there is none.

    Both iterations end up at that offset, or at the end of one of them.
    """
    while ours.record is not None and theirs.record is not None:
        one, other = ours.record, theirs.record
        if one.offset == other.offset and _contents(one) != _contents(other):
            return one.offset
        if one.offset <= other.offset:
            ours.step()
        if other.offset <= one.offset:
            theirs.step()
    return None


def _contents(record: Record) -> tuple[object, ...]:
    return record.timestamp, record.key, record.value, record.headers
