"""What the library makes of some bytes, as one comparable value, and a deadline that no reading may miss."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from kafkalog_cli.disk.kernels import KernelChoice
from kafkalog_cli.format.batch import Batch
from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits
from kafkalog_cli.format.records import Header, RecordBlock, field_bytes, read_headers
from kafkalog_cli.log.reading.read import RecordReader
from kafkalog_cli.log.reading.scan import Scan
from tests.support.faulty_fs import BytesFile

PLAIN = KernelChoice(forced=False)
COMPILED = KernelChoice(forced=True)


class Fact(NamedTuple):
    """A fault without its prose: kind, position and size in bytes."""

    kind: str
    position: int
    size_bytes: int


class Seen(NamedTuple):
    """A record and where its batch stands."""

    batch_position: int
    offset: int
    timestamp: int
    sequence: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    crc: int
    valid: int


class Outcome(NamedTuple):
    """All that a reader of a segment learns."""

    batches: list[Batch]
    records: list[Seen]
    record_faults: list[Fact]
    chain_fault: Fact | None
    valid_bytes: int
    messages: list[str]

    @property
    def faults(self) -> list[Fact]:
        return self.record_faults + ([] if self.chain_fault is None else [self.chain_fault])

    @property
    def is_clean(self) -> bool:
        """Whether nothing of the damage was seen."""
        return not self.faults and all(batch.valid for batch in self.batches) and all(r.valid for r in self.records)


def read(data: bytes, *, seven: bool = False, compiled: bool = False, limits: Limits = DEFAULT_LIMITS) -> Outcome:
    """Scan and decode all of a segment."""
    scan = Scan(
        BytesFile(data),
        limits=limits,
        seven_base_offset=0 if seven else None,
    )
    scan._is_large = compiled and not seven
    return outcome_of(scan, limits)


def outcome_of(scan: Scan, limits: Limits = DEFAULT_LIMITS) -> Outcome:
    reader = RecordReader(limits)
    batches: list[Batch] = []
    records: list[Seen] = []
    faults: list[Any] = []
    for chunk in scan:
        rows = len(chunk.batches)
        batches += chunk.batches.rows()
        read_rows = 0
        for block in reader.blocks(chunk):
            assert len(block.record_ends) == block.end_row - block.first_row
            assert all(block.first_row <= row < block.end_row for row in block.faults)
            read_rows += block.batch_count
            records += _records(block)
            faults += block.faults.values()
        assert read_rows == rows
    chain = None if scan.fault is None else Fact(scan.fault.kind.value, scan.fault.position, scan.fault.size_bytes)
    facts = [Fact(fault.kind.value, fault.position, fault.size_bytes) for fault in faults]
    messages = [fault.message for fault in (*faults, *([scan.fault] if scan.fault else []))]
    return Outcome(batches, records, facts, chain, scan.valid_bytes, messages)


def _records(block: RecordBlock) -> Iterator[Seen]:
    # RecordBlock.rows gives the same with whole batches, in twice the time.
    buffer, rows, begin = block.buffer, block.records.rows(), 0
    for index, end in enumerate(block.record_ends, block.first_row):
        position = int(block.batches.position[index])
        for _ in range(begin, int(end)):
            offset, timestamp, sequence, key_at, key_size, value_at, value_size, headers_at, count, crc, valid = next(
                rows
            )
            key, value = field_bytes(buffer, key_at, key_size), field_bytes(buffer, value_at, value_size)
            headers = tuple(read_headers(buffer, headers_at, count)) if count else ()
            yield Seen(position, offset, timestamp, sequence, key, value, headers, crc, valid)
        begin = int(end)


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Raise where it does not end, instead of hanging the suite. The seconds are of CPU: a busy machine is no reason."""

    def late(signum: int, frame: object) -> None:
        raise TimeoutError(f"not done after {seconds} s of CPU")

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
