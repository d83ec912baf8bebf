"""Logs for the comparison, written by an encoder of their own: batches v2, and indexes by the broker's rule."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

BASE_TIMESTAMP_MS = 1_700_000_000_000
RECORDS_PER_MS = 100
INDEX_INTERVAL_BYTES = 4096
DIFFERENT_BATCHES = 128
"""Record regions that are made; a log takes them in turn, each time with its own offsets, times and checksum."""

HEADER = struct.Struct(">qiibIhiqqqhii")
"""base offset, length, leader epoch, magic, crc, attributes, last offset delta, base timestamp, max timestamp,
producer id, producer epoch, base sequence, record count"""

_CHECKED = struct.Struct(">hiqqqhii")
"""The part of the header that the checksum covers."""

_CODECS = {"none": 0, "lz4": 3, "zstd": 4}
_TEXT = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma tau upsilon phi chi"
    " psi omega key: payload: value Größe 日本 spaces"
)
_WORDS = _TEXT.split()


class Log(NamedTuple):
    """One log to make: how much (bytes of the segment file), and what of."""

    name: str
    codec: str
    segment_bytes: int
    batch_bytes: int
    """Records are added to a batch until they take so many bytes uncompressed; 0 is one record a batch."""
    record: Callable[[random.Random], tuple[bytes | None, bytes]]


class _Region(NamedTuple):
    """The records of a batch as they stand behind its header, and how many they are."""

    data: bytes
    records_count: int


def text_record(source: random.Random) -> tuple[bytes | None, bytes]:
    """No key; 90 to 110 bytes of words, some of them not ASCII."""
    size = source.randint(90, 110)
    text = " ".join(source.choices(_WORDS, k=24)).encode()[:size]
    return None, text.decode("utf-8", "ignore").encode()


def json_record(smallest: int, largest: int, *, keyed: bool) -> Callable[[random.Random], tuple[bytes | None, bytes]]:
    """A JSON object of `smallest` to `largest` bytes, with a key of 13 bytes or none."""

    def make(source: random.Random) -> tuple[bytes | None, bytes]:
        size = source.randint(smallest, largest)
        key = b"user-%08x" % source.getrandbits(32) if keyed else None
        value = f'{{"id": {source.getrandbits(32):010d}, "user": "u{source.randint(0, 99999)}", "items": ['
        while len(value) < size - 50:
            word, number, quantity = source.choice(_WORDS[:24]), source.randint(0, 999), source.randint(0, 8)
            value += f'{{"sku": "{word}-{number}", "qty": {quantity}}}, '
        return key, f'{value}{{}}], "ok": {source.choice(("true", "false"))}}}'.encode()

    return make


def write_log(log: Log, directory: Path) -> Path:
    """Write the partition `<log.name>-0` below `directory`: a segment and its two indexes; the segment's path."""
    partition = directory / f"{log.name}-0"
    partition.mkdir(parents=True, exist_ok=True)
    path = partition / f"{0:020}.log"
    regions = _regions(log)
    with path.open("wb", buffering=1 << 20) as segment, Indexes(path) as indexes:
        _write_batches(log, regions, segment, indexes)
    return path


def _write_batches(log: Log, regions: list[_Region], segment: BinaryIO, indexes: Indexes) -> None:
    offset = position = turn = 0
    while True:
        region = regions[turn % len(regions)]
        if position + HEADER.size + len(region.data) > log.segment_bytes:
            return
        size, last_ms = _write_batch(log, region, offset, segment)
        offset += region.records_count
        indexes.appended(offset - 1, position, size, last_ms)
        position += size
        turn += 1


def _write_batch(log: Log, region: _Region, offset: int, segment: BinaryIO) -> tuple[int, int]:
    """Write one batch; its size and its largest timestamp."""
    import crc32c

    data, count = region
    first_ms = BASE_TIMESTAMP_MS + offset // RECORDS_PER_MS
    last_ms = first_ms + (count - 1) // RECORDS_PER_MS
    checked = _CHECKED.pack(_CODECS[log.codec], count - 1, first_ms, last_ms, -1, -1, -1, count)
    crc = crc32c.crc32c(data, crc32c.crc32c(checked))
    size = HEADER.size + len(data)
    segment.write(struct.pack(">qiibI", offset, size - 12, 0, 2, crc) + checked)
    segment.write(data)
    return size, last_ms


def write_segment(log: Log, path: Path, records_count: int, source: random.Random) -> None:
    """Write a segment of so many records, none like another, which begins at the offset that its name says."""
    base_offset, written = int(path.stem), 0
    with path.open("wb", buffering=1 << 20) as segment, Indexes(path) as indexes:
        while written < records_count:
            region = _region(log, source, records_count - written)
            offset, position = base_offset + written, segment.tell()
            size, last_ms = _write_batch(log, region, offset, segment)
            written += region.records_count
            indexes.appended(base_offset + written - 1, position, size, last_ms)


_NUMBERED_RECORDS, _NUMBERED_BATCHES = 64, 1024
"""Records of a batch, so few that every delta takes one byte, and batches that are made at once."""


def write_numbered_keys(path: Path, records_count: int, keys: int) -> None:
    """Write a segment that begins at the offset that its name says: the record at an offset has the key of that number.

    The numbers begin again after `keys` of them; a key has 12 bytes, a value 16. Many millions, all batches alike but
    for the last.
    """
    import crc32c
    import numpy as np

    base_offset = int(path.stem)
    record = b"\0\0" + b"\0" + bytes([24]) + bytes(12) + bytes([32]) + b"sixteen bytes..." + b"\0"
    record = bytes([2 * len(record)]) + record
    deltas = np.arange(_NUMBERED_RECORDS)
    with path.open("wb", buffering=1 << 20) as segment, Indexes(path) as indexes:
        for begin in range(0, records_count, _NUMBERED_RECORDS * _NUMBERED_BATCHES):
            count = min(_NUMBERED_RECORDS * _NUMBERED_BATCHES, records_count - begin)
            numbers = (base_offset + begin + np.arange(count)) % keys
            made = np.tile(np.frombuffer(record, dtype=np.uint8), (count, 1))
            made[:, 3] = 2 * np.resize(deltas, count)
            digits = numbers[:, None] // 10 ** np.arange(11, -1, -1) % 10
            made[:, 5:17] = digits + ord("0")
            for first in range(0, count, _NUMBERED_RECORDS):
                data = made[first : first + _NUMBERED_RECORDS].tobytes()
                held = len(data) // len(record)
                offset, position = base_offset + begin + first, segment.tell()
                checked = _CHECKED.pack(0, held - 1, BASE_TIMESTAMP_MS, BASE_TIMESTAMP_MS, -1, -1, -1, held)
                crc = crc32c.crc32c(data, crc32c.crc32c(checked))
                size = HEADER.size + len(data)
                segment.write(struct.pack(">qiibI", offset, size - 12, 0, 2, crc) + checked + data)
                indexes.appended(offset + held - 1, position, size, BASE_TIMESTAMP_MS)


class Indexes:
    """The offset and the time index of one segment, entries as a broker adds them, batch by batch (since 4.1)."""

    def __init__(self, segment: Path) -> None:
        self._base_offset = int(segment.stem)
        self._offsets = segment.with_suffix(".index").open("wb")
        self._times = segment.with_suffix(".timeindex").open("wb")
        self._since_entry_bytes = 0
        self._max_timestamp = self._max_timestamp_offset = self._last_entry_timestamp = -1

    def appended(self, last_offset: int, position: int, size_bytes: int, max_timestamp: int) -> None:
        """A batch was appended: an entry of it once more than the interval lies before it."""
        if max_timestamp > self._max_timestamp:
            self._max_timestamp, self._max_timestamp_offset = max_timestamp, last_offset
        if self._since_entry_bytes > INDEX_INTERVAL_BYTES:
            self._offsets.write(struct.pack(">ii", last_offset - self._base_offset, position))
            self._add_time()
            self._since_entry_bytes = 0
        self._since_entry_bytes += size_bytes

    def _add_time(self) -> None:
        if self._max_timestamp > self._last_entry_timestamp:
            self._times.write(struct.pack(">qi", self._max_timestamp, self._max_timestamp_offset - self._base_offset))
            self._last_entry_timestamp = self._max_timestamp

    def __enter__(self) -> Indexes:
        return self

    def __exit__(self, *_: object) -> None:
        self._add_time()  # the entry that closes a segment
        self._offsets.close()
        self._times.close()


def _regions(log: Log) -> list[_Region]:
    source = random.Random(log.name)
    return [_region(log, source) for _ in range(DIFFERENT_BATCHES)]


def _region(log: Log, source: random.Random, most_records: int = 1 << 30) -> _Region:
    data, count = bytearray(), 0
    while not count or (len(data) < log.batch_bytes and count < most_records):
        key, value = log.record(source)
        data += _record(key, value, timestamp_delta=count // RECORDS_PER_MS, offset_delta=count)
        count += 1
    return _Region(_compressed(log.codec, bytes(data)), count)


def _record(key: bytes | None, value: bytes, *, timestamp_delta: int, offset_delta: int) -> bytes:
    body = b"".join((
        b"\x00",
        _varint(timestamp_delta),
        _varint(offset_delta),
        _varint(-1) if key is None else _varint(len(key)) + key,
        _varint(len(value)),
        value,
        _varint(0),
    ))  # fmt: skip
    return _varint(len(body)) + body


def _varint(value: int) -> bytes:
    return bytes(_varint_bytes(value << 1 if value >= 0 else (-value << 1) - 1))


def _varint_bytes(rest: int) -> Iterator[int]:
    while rest > 0x7F:
        yield rest & 0x7F | 0x80
        rest >>= 7
    yield rest


def _compressed(codec: str, data: bytes) -> bytes:
    """As Kafka's producers frame it: no content size; lz4 in independent blocks of 64 KiB."""
    if codec == "lz4":
        import lz4.frame

        return bytes(
            lz4.frame.compress(
                data, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False, store_size=False
            )
        )  # fmt: skip
    if codec == "zstd":
        import zstandard

        stream = zstandard.ZstdCompressor(level=3).compressobj()
        return stream.compress(data) + stream.flush()
    return data
