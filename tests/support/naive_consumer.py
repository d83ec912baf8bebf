"""What a consumer gets of a log, by brute force: every batch of every segment is looked at, the markers decide.

Stands on the naive reader; nothing of the code under test.
"""

import struct
from typing import NamedTuple

from tests.support.naive_reader import read_batches, read_records

TRANSACTIONAL, CONTROL = 0x10, 0x20
ABORT, COMMIT = 0, 1


class Consumed(NamedTuple):
    """The records (offset, timestamp, key, value, headers), and the last stable offset: None if all is stable."""

    records: list
    last_stable_offset: int | None
    hidden_by: set
    """(producer, offset of the marker) of the aborted transactions that have records in the log."""


def consume(segments, first=0, end=1 << 63, until=None, most=None, committed=False):
    """`segments`: the bytes of each, in order."""
    batches = [(data, batch) for data in segments for batch in read_batches(data) if batch.valid]
    ends = [_ending(batches, at) for at in range(len(batches))]
    is_open = [batch.base_offset for (_, batch), ending in zip(batches, ends, strict=True) if ending == "open"]
    stable = min(is_open, default=None)
    found, hidden_by = [], set()
    for (data, batch), ending in zip(batches, ends, strict=True):
        if batch.magic >= 2 and batch.attributes & CONTROL:
            continue
        for record in read_records(data, batch):
            if not first <= record.offset < end or not record.valid:
                continue
            if until is not None and record.timestamp >= until:
                continue
            if committed and stable is not None and record.offset >= stable:
                continue
            if committed and isinstance(ending, int):
                hidden_by.add((batch.producer_id, ending))
                continue
            found.append((record.offset, record.timestamp, record.key, record.value, record.headers))
    return Consumed(found[:most], stable if committed else None, hidden_by)


def _ending(batches, at):
    """Of a transactional batch: the offset of the marker that aborts it, "open", or None if it is committed."""
    batch = batches[at][1]
    if batch.magic < 2 or not batch.attributes & TRANSACTIONAL or batch.attributes & CONTROL:
        return None
    for data, other in batches[at + 1 :]:
        is_marker = other.magic >= 2 and other.attributes & CONTROL and other.producer_id == batch.producer_id
        if is_marker and other.records_count:
            (record,) = read_records(data, other)
            return other.last_offset if struct.unpack(">hh", record.key)[1] == ABORT else None
    return "open"
