"""Makes logs for tests with struct alone: nothing of the code under test."""

import gzip
import struct
import zlib
from functools import partial
from typing import NamedTuple

import crc32c
import lz4.frame
import snappy
import xxhash
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


def lz4_frame(data):
    return lz4.frame.compress(data, block_size=4, block_linked=False, store_size=False)


def lz4_frame_of_old(data):
    """The frame of message sets v0: its header checksum is of the magic number too (KAFKA-3160)."""
    frame = bytearray(lz4_frame(data))
    frame[6] = xxhash.xxh32_intdigest(bytes(frame[:6])) >> 8 & 0xFF
    return bytes(frame)


def xerial(data):
    parts = [b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)]
    for at in range(0, len(data), 32768):
        block = snappy.compress(data[at : at + 32768])
        parts.append(struct.pack(">i", len(block)) + block)
    return b"".join(parts)


COMPRESS = {
    0: bytes,
    1: partial(gzip.compress, mtime=0),  # bytes, and the names of tests with them, are the same each second
    2: xerial,
    3: lz4_frame,
    4: zstandard.ZstdCompressor(write_content_size=False).compress,
}


LOG_APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 8, 0x10, 0x20, 0x40


def batch_v2(
    records, codec=0, base=None, last=None, producer=(-1, -1, -1), epoch=0, bits=0, max_timestamp=None, horizon=None
):
    """A record batch v2; `bits` are attribute bits besides the codec; `horizon` sets the one of the delete horizon."""
    base = records[0].offset if base is None else base
    last = records[-1].offset if last is None else last
    first = records[0].timestamp if records else -1
    if horizon is not None:
        first, bits = horizon, bits | DELETE_HORIZON
    parts = []  # joined at the end: bytes that grow by each record take time with the square of their number
    for r in records:
        fields = b"\0" + zigzag(r.timestamp - first) + zigzag(r.offset - base) + sized(r.key) + sized(r.value)
        fields += zigzag(len(r.headers)) + b"".join(sized(k) + sized(v) for k, v in r.headers)
        parts += (zigzag(len(fields)), fields)
    largest = max((r.timestamp for r in records), default=-1) if max_timestamp is None else max_timestamp
    tail = struct.pack(">hiqqqhii", codec | bits, last - base, first, largest, *producer, len(records))
    tail += COMPRESS[codec](b"".join(parts)) if records else b""
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


def message_set(records, magic, codec, append_time=None, wrapper_offset=None):
    """A compressed set: inner offsets absolute in v0, relative in v1 (with the gaps that compaction leaves).

    `append_time`: the broker's clock in the wrapper, which is then every record's timestamp. `wrapper_offset` 0
    is what librdkafka once produced.
    """
    base = records[0].offset if magic else 0
    inner = b"".join(message(r._replace(offset=r.offset - base), magic) for r in records)
    packed = lz4_frame_of_old(inner) if (magic, codec) == (0, 3) else COMPRESS[codec](inner)
    timestamp = max(r.timestamp for r in records) if append_time is None else append_time
    offset = records[-1].offset if wrapper_offset is None else wrapper_offset
    return message(R(offset, timestamp, None, packed), magic, codec, timestamp_type=append_time is not None)


def end_marker(offset, timestamp, producer, commits, coordinator_epoch=0):
    """The control batch that ends a transaction; `producer` is (id, epoch)."""
    record = R(offset, timestamp, struct.pack(">hh", 0, commits), struct.pack(">hi", 0, coordinator_epoch))
    return batch_v2([record], producer=(*producer, -1), bits=TRANSACTIONAL | CONTROL)


def aborted_txns(entries):
    """A .txnindex of (producer id, first offset, last offset, last stable offset)."""
    return b"".join(struct.pack(">hqqqq", 0, *entry) for entry in entries)


def producer_snapshot(entries):
    """A .snapshot of (producer id, epoch, last sequence, last offset, offset delta, timestamp, coordinator epoch,
    first offset of the open transaction)."""
    body = struct.pack(">i", len(entries)) + b"".join(struct.pack(">qhiqiqiq", *entry) for entry in entries)
    return struct.pack(">hI", 1, crc32c.crc32c(body)) + body


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


def offset_index(entries, base):
    """The bytes of a trimmed `.index` file with (offset, position) entries."""
    return b"".join(struct.pack(">ii", offset - base, position) for offset, position in entries)


def time_index(entries, base):
    """The bytes of a trimmed `.timeindex` file with (timestamp, offset) entries."""
    return b"".join(struct.pack(">qi", timestamp, offset - base) for timestamp, offset in entries)
