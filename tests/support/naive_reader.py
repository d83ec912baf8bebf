"""A second reader of segments, as naive as the format allows: struct and the codec libraries, nothing of the code under test.

It reads what is well formed, and raises on what is not. Names are those of `Batch` and `Record`.
"""

import gzip
import io
import struct
import zlib
from typing import NamedTuple

import lz4.frame
import snappy
import xxhash
import zstandard


class NaiveBatch(NamedTuple):
    position: int
    size_bytes: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int
    valid: int


class NaiveRecord(NamedTuple):
    offset: int
    timestamp: int
    sequence: int
    key: bytes | None
    value: bytes | None
    headers: tuple
    crc: int
    valid: int


CASTAGNOLI = []
for _byte in range(256):
    for _ in range(8):
        _byte = _byte >> 1 ^ (0x82F63B78 if _byte & 1 else 0)
    CASTAGNOLI.append(_byte)


def crc32c(data):
    value = 0xFFFFFFFF
    for byte in data:
        value = value >> 8 ^ CASTAGNOLI[(value ^ byte) & 0xFF]
    return value ^ 0xFFFFFFFF


def unpack_xerial(data):
    if not data.startswith(b"\x82SNAPPY\0"):
        return snappy.uncompress(data)
    out, at = b"", 16
    while at < len(data):
        size = struct.unpack_from(">i", data, at)[0]
        out += snappy.uncompress(data[at + 4 : at + 4 + size])
        at += 4 + size
    return out


def unpack(codec, data, magic):
    if codec == 1:
        return gzip.decompress(data)
    if codec == 2:
        return unpack_xerial(data)
    if codec == 3:
        if magic == 0:  # KAFKA-3160: the checksum is not of the descriptor alone; put the right one there
            end = 6 + (8 if data[4] & 8 else 0)
            data = data[:end] + bytes([xxhash.xxh32_intdigest(data[4:end]) >> 8 & 0xFF]) + data[end + 1 :]
        return lz4.frame.decompress(data)
    if codec == 4:
        return zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data), read_across_frames=True).read()
    raise ValueError(f"codec {codec}")


class Cursor:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, size):
        if not 0 <= size <= len(self.data) - self.at:
            raise ValueError(f"{size} bytes wanted")
        self.at += size
        return self.data[self.at - size : self.at]

    def varint(self, bits=32):
        """A zigzag number. As in Java, what exceeds its bits is lost."""
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                value &= (1 << bits) - 1
                return (value >> 1) ^ -(value & 1)

    def sized(self):
        size = self.varint()
        return None if size < 0 else self.take(size)

    def sized_int32(self):
        size = struct.unpack(">i", self.take(4))[0]
        return None if size < 0 else self.take(size)


def wrapped(number):
    """Java's long."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def entries(data):
    """(position, offset, bytes after the size field) of each whole entry."""
    at = 0
    while at + 12 <= len(data):
        offset, size = struct.unpack_from(">qi", data, at)
        if size < 14 or at + 12 + size > len(data):
            return
        yield at, offset, data[at + 12 : at + 12 + size]
        at += 12 + size


def read_batches(data):
    """The batches of a segment up to its end, or to what is no batch."""
    for at, offset, rest in entries(data):
        magic = rest[4]
        if magic < 2:
            crc, _, attributes = struct.unpack_from(">Ibb", rest)
            timestamp = struct.unpack_from(">q", rest, 6)[0] if magic else -1
            packed = attributes & 7
            yield NaiveBatch(
                at, len(rest) + 12, -1 if packed else offset, offset, -1, magic, crc, attributes & 255, timestamp,
                timestamp, -1, -1, -1, -1 if packed else 1, int(zlib.crc32(rest[4:]) == crc),
            )  # fmt: skip
        else:
            epoch, _, crc, attributes, delta, first, largest, *producer, count = struct.unpack_from(
                ">ibIhiqqqhii", rest
            )
            yield NaiveBatch(  # type: ignore[call-arg]
                at, len(rest) + 12, offset, offset + delta, epoch, magic, crc, attributes & 255, first, largest,
                *producer, count, int(crc32c(rest[9:]) == crc),
            )  # fmt: skip


def first_right_batch(data, start):
    """The first byte from `start` on where a batch v2 or a message v0 or v1 with a right CRC begins: each is tried."""
    for at in range(start, len(data) - 25):
        size, magic = int.from_bytes(data[at + 8 : at + 12], "big", signed=True), data[at + 16]
        end = at + 12 + size
        if data[at] >= 0x80 or not 14 <= size <= len(data) - at - 12:
            continue
        if magic == 2 and size >= 49 and crc32c(data[at + 21 : end]) == int.from_bytes(data[at + 17 : at + 21], "big"):
            return at
        if magic < 2 and zlib.crc32(data[at + 16 : end]) == int.from_bytes(data[at + 12 : at + 16], "big"):
            return at
    return None


def read_records(data, batch):
    """The records of one batch of the segment."""
    whole = data[batch.position : batch.position + batch.size_bytes]
    if batch.magic >= 2:
        yield from _records_v2(whole[61:], batch)
    elif not batch.attributes & 7:
        yield _message(batch.last_offset, whole[12:], None)
    else:
        yield from _inner_messages(whole, batch)


def _records_v2(body, batch):
    codec = batch.attributes & 7
    cursor = Cursor(unpack(codec, body, 2) if codec and batch.records_count else body)
    for _ in range(batch.records_count):
        record = Cursor(cursor.take(cursor.varint()))
        record.take(1)
        timestamp, delta = wrapped(batch.base_timestamp + record.varint(64)), record.varint()
        key, value = record.sized(), record.sized()
        headers = tuple((record.take(record.varint()), record.sized()) for _ in range(record.varint()))
        assert record.at == len(record.data)
        timestamp = batch.max_timestamp if batch.attributes & 8 else timestamp
        sequence = -1 if batch.base_sequence < 0 else (batch.base_sequence + delta) % (1 << 31)
        yield NaiveRecord(wrapped(batch.base_offset + delta), timestamp, sequence, key, value, headers, -1, 1)
    assert cursor.at == len(cursor.data)


def _message(offset, rest, append_time):
    cursor = Cursor(rest)
    crc, magic, _ = struct.unpack(">Ibb", cursor.take(6))
    timestamp = struct.unpack(">q", cursor.take(8))[0] if magic else -1
    if magic and append_time is not None:
        timestamp = append_time
    key, value = cursor.sized_int32(), cursor.sized_int32()
    return NaiveRecord(offset, timestamp, -1, key, value, (), crc, int(zlib.crc32(rest[4:]) == crc))


def _inner_messages(whole, batch):
    cursor = Cursor(whole)
    cursor.take(26 if batch.magic else 18)
    assert cursor.sized_int32() is None
    inner = list(entries(unpack(batch.attributes & 7, cursor.sized_int32(), batch.magic)))
    base = batch.last_offset - inner[-1][1] if batch.magic and batch.last_offset else 0
    append_time = batch.max_timestamp if batch.magic and batch.attributes & 8 else None
    for _, offset, rest in inner:
        yield _message(base + offset, rest, append_time)


class Seven(NamedTuple):
    """A message of Kafka 0.7."""

    position: int
    size_bytes: int
    magic: int
    codec: int
    payload: bytes
    valid: int


def read_seven(data):
    """The whole messages of a .kafka file, or of a compressed set."""
    at = 0
    while at + 9 <= len(data):
        size, magic = struct.unpack_from(">ib", data, at)
        if size < 5 or at + 4 + size > len(data):
            return
        codec = data[at + 5] & 3 if magic else 0
        crc, payload = struct.unpack_from(">I", data, at + 5 + magic)[0], data[at + 9 + magic : at + 4 + size]
        yield Seven(at, size + 4, magic, codec, payload, int(zlib.crc32(payload) == crc))
        at += 4 + size


def seven_payloads(message):
    """Payloads of a message and of all that are packed in it, and whether their CRCs hold."""
    if not message.codec:
        return [(message.payload, message.valid)]
    inner = read_seven(unpack(message.codec, message.payload, 0))
    return [payload for packed in inner for payload in seven_payloads(packed)]
