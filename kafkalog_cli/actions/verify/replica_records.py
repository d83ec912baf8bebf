"""The records of one batch of a replica, one after the other, to be compared with those of another."""

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
    """The records are not all there, or their offsets do not go up; never leaves this module."""


_PROBLEMS = (_Unreadable, KafkalogError, OSError)


class ReplicaRecords:
    """The records of `batch`, which lies in the file `path`: `record` is the current one, None behind the last.

    `can_be_read`: all of them, with offsets that go up. A batch may have many millions: they are not kept.
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
        """Go on to the next record; what cannot be read any more ends them."""
        try:
            self.record = next(self._records, None)
        except _PROBLEMS:
            self.record = None

    def close(self) -> None:
        """No more records are wanted."""
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
    """The first offset that both have, with other contents; the records up to it, or to an end, are gone by then."""
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
