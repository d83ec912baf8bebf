"""A naive model of segments and their indexes: bytes by struct alone, entries by each style's rule, look-ups as brokers'.

Independent of the program: it shares no code with what it is to judge.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from dataclasses import dataclass

from crc32c import crc32c

FIRST_OFFSET, APPEND_CALL, PER_BATCH = "first-offset", "append-call", "per-batch"
NO_OFFSET = -1
LOG_APPEND_TIME = 0x08


@dataclass(frozen=True)
class Written:
    """A batch in the file: of a compressed message set too, its first offset is known here."""

    position: int
    data: bytes
    first: int
    last: int
    timestamp: int

    @property
    def end(self) -> int:
        return self.position + len(self.data)


@dataclass(frozen=True)
class Spec:
    """A batch to write: a record for each timestamp, `gap` offsets left out before it, `cut` taken off its end.

    `cut`: offsets at the end whose records were compacted away. `magic` 0 or 1: a message, or with `packed` a set.
    """

    timestamps: tuple[int, ...]
    padding: int = 0
    gap: int = 0
    cut: int = 0
    magic: int = 2
    packed: bool = False
    attributes: int = 0


def write(base_offset: int, calls: list[list[Spec]]) -> tuple[bytes, list[list[Written]]]:
    """The log of some append calls, and its batches by call."""
    offset, position, data, written = base_offset, 0, b"", []
    for call in calls:
        batches = []
        for spec in call:
            offset += spec.gap
            count = len(spec.timestamps)
            last = offset + count - 1 + spec.cut
            raw = _entry(offset, spec)
            batches.append(Written(position, raw, offset, last, max(spec.timestamps) if spec.magic else -1))
            position, data, offset = position + len(raw), data + raw, last + 1
        written.append(batches)
    return data, written


def _entry(offset: int, spec: Spec) -> bytes:
    if spec.magic == 2:
        return batch_v2(offset, spec.timestamps, b"x" * spec.padding, spec.cut, spec.attributes)
    if not spec.packed:
        assert len(spec.timestamps) == 1
        return message(offset, spec.timestamps[0], b"x" * spec.padding, spec.magic, spec.attributes)
    start = 0 if spec.magic else offset
    inner = [message(start + i, t, b"x" * spec.padding, spec.magic) for i, t in enumerate(spec.timestamps)]
    packed = gzip.compress(b"".join(inner), mtime=0)
    last = offset + len(spec.timestamps) - 1
    return message(last, max(spec.timestamps), packed, spec.magic, spec.attributes | 1)


def message(offset: int, timestamp: int, value: bytes, magic: int, attributes: int = 0) -> bytes:
    stamp = struct.pack(">q", timestamp) if magic else b""
    body = struct.pack(">bb", magic, attributes) + stamp + struct.pack(">ii", -1, len(value)) + value
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def varint(value: int) -> bytes:
    value, out = (value << 1) ^ (value >> 63), bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def batch_v2(offset: int, timestamps: tuple[int, ...], value: bytes, cut: int = 0, attributes: int = 0, epoch: int = -1,
             producer: tuple[int, int, int] = (-1, -1, -1), keys: tuple[bytes, ...] = ()) -> bytes:  # fmt: skip
    records = b""
    for delta, timestamp in enumerate(timestamps):
        key = keys[delta] if keys else None
        sized = varint(-1) if key is None else varint(len(key)) + key
        body = b"\0" + varint(timestamp - timestamps[0]) + varint(delta) + sized + varint(len(value)) + value + b"\0"
        records += varint(len(body)) + body
    largest = max(timestamps, default=-1)
    first = timestamps[0] if timestamps else -1
    last_delta = max(len(timestamps) - 1, 0) + cut
    body = struct.pack(">hiqq", attributes, last_delta, first, largest)
    body += struct.pack(">qhii", *producer, len(timestamps)) + records
    return struct.pack(">qiibI", offset, len(body) + 9, epoch, 2, crc32c(body)) + body


Entries = tuple[list[tuple[int, int]], list[tuple[int, int]]]


def indexes(calls: list[list[Written]], style: str, interval: int, restarts: frozenset[int] = frozenset()) -> Entries:
    """(offset, position) and (timestamp, offset) entries as a broker of that style writes them.

    `restarts`: call numbers before which the broker stopped cleanly. The last call is followed by a clean stop.
    """
    offsets: list[tuple[int, int]] = []
    times: list[tuple[int, int]] = []
    since, largest = 0, (-1, NO_OFFSET)

    def close() -> None:
        if largest[0] > (times[-1][0] if times else -1):
            times.append(largest)

    for number, call in enumerate(calls):
        if number in restarts:
            close()
            since = 0
        for unit in [[batch] for batch in call] if style == PER_BATCH else [call]:
            for batch in unit:
                if batch.timestamp > largest[0]:
                    largest = (batch.timestamp, batch.last)
            if since > interval:
                offsets.append((unit[0].first if style == FIRST_OFFSET else unit[-1].last, unit[0].position))
                close()
                since = 0
            since += sum(len(batch.data) for batch in unit)
    close()
    return offsets, times


def offset_index(base_offset: int, entries: list[tuple[int, int]]) -> bytes:
    return b"".join(struct.pack(">ii", offset - base_offset, position) for offset, position in entries)


def time_index(base_offset: int, entries: list[tuple[int, int]]) -> bytes:
    return b"".join(struct.pack(">qi", timestamp, offset - base_offset) for timestamp, offset in entries)


# ---- look-ups, as OffsetIndex.lookup, LogSegment.translateOffset and findOffsetByTimestamp do them


def floor(keys: list[int], target: int) -> int:
    """The slot that Kafka's binary search finds, -1 if the first key is above the target."""
    if not keys or keys[0] > target:
        return -1
    low, high = 0, len(keys) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if keys[middle] > target:
            high = middle - 1
        elif keys[middle] < target:
            low = middle
        else:
            return middle
    return low


def position_of(offsets: list[tuple[int, int]], target: int) -> int:
    slot = floor([offset for offset, _ in offsets], target)
    return 0 if slot < 0 else offsets[slot][1]


def chain_from(batches: list[Written], position: int) -> list[Written] | None:
    """The batches from `position` on; None where none starts there, so that a broker would read rubbish."""
    rows = [row for row, batch in enumerate(batches) if batch.position == position]
    if not rows:
        return [] if batches and position == batches[-1].end else None
    return batches[rows[0] :]


def find_offset(batches: list[Written], offsets: list[tuple[int, int]], target: int) -> Written | str | None:
    chain = chain_from(batches, position_of(offsets, target))
    if chain is None:
        return "rubbish"
    return next((batch for batch in chain if batch.last >= target), None)


def find_time(
    batches: list[Written], offsets: list[tuple[int, int]], times: list[tuple[int, int]], base_offset: int, target: int
) -> Written | str | None:
    slot = floor([timestamp for timestamp, _ in times], target)
    start = base_offset if slot < 0 else times[slot][1]
    chain = chain_from(batches, position_of(offsets, start))
    if chain is None:
        return "rubbish"
    return next((batch for batch in chain if batch.timestamp >= target), None)
