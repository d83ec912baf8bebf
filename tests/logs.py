"""Makes logs for tests with struct alone: nothing of the code under test."""

import gzip
import struct
import zlib
from typing import NamedTuple

import crc32c
import lz4.frame
import snappy
import zstandard

BASE_TIME_MS = 1_700_000_000_000


class R(NamedTuple):
    """A record to write: offset and timestamp absolute."""

    offset: int
    timestamp: int
    key: bytes | None = None
    value: bytes | None = b""
    headers: tuple = ()


def zigzag(value):
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def sized(data):
    return zigzag(-1) if data is None else zigzag(len(data)) + data


def xerial(data):
    parts = [b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)]
    for at in range(0, len(data), 32768):
        block = snappy.compress(data[at : at + 32768])
        parts.append(struct.pack(">i", len(block)) + block)
    return b"".join(parts)


COMPRESS = {
    0: bytes,
    1: gzip.compress,
    2: xerial,
    3: lambda data: lz4.frame.compress(data, block_size=4, block_linked=False, store_size=False),
    4: zstandard.ZstdCompressor(write_content_size=False).compress,
}


def batch_v2(records, codec=0, base=None, last=None, producer=(-1, -1, -1), epoch=0, bits=0, max_timestamp=None):
    """A record batch v2; `bits` are attribute bits besides the codec."""
    base = records[0].offset if base is None else base
    last = records[-1].offset if last is None else last
    first = records[0].timestamp if records else -1
    body = b""
    for r in records:
        fields = b"\0" + zigzag(r.timestamp - first) + zigzag(r.offset - base) + sized(r.key) + sized(r.value)
        fields += zigzag(len(r.headers)) + b"".join(sized(k) + sized(v) for k, v in r.headers)
        body += zigzag(len(fields)) + fields
    largest = max((r.timestamp for r in records), default=-1) if max_timestamp is None else max_timestamp
    tail = struct.pack(">hiqqqhii", codec | bits, last - base, first, largest, *producer, len(records))
    tail += COMPRESS[codec](body) if records else b""
    return struct.pack(">qiibI", base, len(tail) + 9, epoch, 2, crc32c.crc32c(tail)) + tail


def message(record, magic, codec=0, value=None, timestamp_type=0):
    """One entry of a message set v0 or v1."""
    value = record.value if value is None else value
    head = struct.pack(">bb", magic, codec | timestamp_type << 3)
    if magic:
        head += struct.pack(">q", record.timestamp)
    for data in (record.key, value):
        head += struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data
    return struct.pack(">qiI", record.offset, len(head) + 4, zlib.crc32(head)) + head


def message_set(records, magic, codec):
    """A compressed set: inner offsets absolute in v0, relative in v1."""
    inner = b"".join(message(r if magic == 0 else r._replace(offset=i), magic) for i, r in enumerate(records))
    wrapper = R(records[-1].offset, max(r.timestamp for r in records), None, COMPRESS[codec](inner))
    return message(wrapper, magic, codec)


def indexes(batches, base, interval=4096):
    """Bytes of .index and .timeindex for (bytes, last offset, max timestamp) batches, by the 4.1 rule and a clean stop."""
    index, times = b"", b""
    position = since = 0
    largest, largest_offset, indexed = -1, base, -1
    for data, last, timestamp in batches:
        if timestamp > largest:
            largest, largest_offset = timestamp, last
        if since > interval:
            index += struct.pack(">ii", last - base, position)
            if largest > indexed:
                times += struct.pack(">qi", largest, largest_offset - base)
                indexed = largest
            since = 0
        since += len(data)
        position += len(data)
    if largest > indexed:
        times += struct.pack(">qi", largest, largest_offset - base)
    return index, times


def write_segment(folder, base, batches, interval=4096):
    """Write a segment of (bytes, last offset, max timestamp) batches with its indexes."""
    index, times = indexes(batches, base, interval)
    for suffix, data in ((".log", b"".join(b[0] for b in batches)), (".index", index), (".timeindex", times)):
        (folder / f"{base:020d}{suffix}").write_bytes(data)
