"""Small logs of every generation and codec, made with struct and the codec libraries alone.

Every length and count can be made to lie: what a test does not say is worked out from the contents.
"""

from __future__ import annotations

import gzip
import random
import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import cramjam
import lz4.frame
import zstandard
from crc32c import crc32c

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")

LOG_APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 0x08, 0x10, 0x20, 0x40

START_MS = 1_600_000_000_000
MEBIBYTE = 1 << 20
RECORD_BATCH_BYTES = 61  # of the header, up to the records

Headers = Sequence[tuple[bytes, bytes | None]]


# -- varints and records of v2


def varint(value: int) -> bytes:
    """`value` zigzag encoded."""
    return unsigned_varint((value << 1) ^ (value >> 63) if value < 0 else value << 1)


def unsigned_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def record(delta: int, key: bytes | None, value: bytes | None, headers: Headers = (), *, ms: int = 0) -> bytes:
    body = b"".join((
        b"\0",
        varint(ms),
        varint(delta),
        sized(key),
        sized(value),
        varint(len(headers)),
        *(sized(name) + sized(content) for name, content in headers),
    ))  # fmt: skip
    return varint(len(body)) + body


MINIMAL_RECORD = record(0, None, None)
"""Seven bytes."""


# -- codecs


def xerial(data: bytes, block_bytes: int = 32 << 10) -> bytes:
    blocks = [
        bytes(cramjam.snappy.compress_raw(data[at : at + block_bytes])) for at in range(0, len(data), block_bytes)
    ]
    return b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01" + b"".join(struct.pack(">i", len(block)) + block for block in blocks)


def _lz4(data: bytes) -> bytes:
    packed: bytes = lz4.frame.compress(
        data, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False, store_size=False
    )
    return packed


def _gzip(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


def _zstd(data: bytes) -> bytes:
    packer = zstandard.ZstdCompressor().compressobj()
    return packer.compress(data) + packer.flush()


PACK: tuple[Callable[[bytes], bytes], ...] = (bytes, _gzip, xerial, _lz4, _zstd)


# -- entries


def batch(
    base_offset: int,
    records: Sequence[bytes] | bytes,
    *,
    codec: int = NONE,
    attributes: int = 0,
    epoch: int = 3,
    base_ms: int = START_MS,
    max_ms: int | None = None,
    producer: tuple[int, int, int] = (-1, -1, -1),
    delta: int | None = None,
    count: int | None = None,
    length: int | None = None,
    magic: int = 2,
    crc: int | None = None,
    packed: bytes | None = None,
) -> bytes:
    """A record batch v2; `packed` are the records as they shall stand in it."""
    whole = records if isinstance(records, bytes) else b"".join(records)
    known = 1 if isinstance(records, bytes) else len(records)
    count = known if count is None else count
    delta = max(known - 1, 0) if delta is None else delta
    payload = packed if packed is not None else PACK[codec](whole) if whole else b""
    body = struct.pack(">hiqq", attributes | codec, delta, base_ms, base_ms + 7 if max_ms is None else max_ms)
    body += struct.pack(">qhii", *producer, count) + payload
    stored = crc32c(body) if crc is None else crc
    length = len(body) + 9 if length is None else length
    return struct.pack(">qiibI", base_offset, length, epoch, magic, stored) + body


def message(
    offset: int,
    key: bytes | None,
    value: bytes | None,
    *,
    magic: int,
    attributes: int = 0,
    ms: int = START_MS,
    size: int | None = None,
    key_size: int | None = None,
    value_size: int | None = None,
    crc: int | None = None,
) -> bytes:
    """An entry of a message set v0 or v1."""
    body = struct.pack(">bb", magic, attributes) + (struct.pack(">q", ms) if magic else b"")
    for data, said in ((key, key_size), (value, value_size)):
        real = -1 if data is None else len(data)
        body += struct.pack(">i", real if said is None else said) + (data or b"")
    stored = zlib.crc32(body) if crc is None else crc
    return struct.pack(">qiI", offset, len(body) + 4 if size is None else size, stored) + body


def wrapper(first: int, inner: Sequence[tuple[bytes | None, bytes | None]], *, magic: int, codec: int) -> bytes:
    """A compressed message set: inner offsets absolute under magic 0, relative under magic 1."""
    start = 0 if magic else first
    packed = PACK[codec](
        b"".join(message(start + i, *pair, magic=magic, ms=START_MS + i) for i, pair in enumerate(inner))
    )
    return message(first + len(inner) - 1, None, packed, magic=magic, attributes=codec, ms=START_MS + len(inner) - 1)


def seven(payload: bytes, *, codec: int | None = None, size: int | None = None, crc: int | None = None) -> bytes:
    """A message of Kafka 0.7: magic 0 without `codec`, else magic 1."""
    stored = struct.pack(">I", zlib.crc32(payload) if crc is None else crc)
    body = (b"\0" if codec is None else bytes((1, codec))) + stored + payload
    return struct.pack(">i", len(body) if size is None else size) + body


def seven_set(payloads: Sequence[bytes], codec: int) -> bytes:
    return seven(PACK[codec](b"".join(seven(payload) for payload in payloads)), codec=codec)


# -- whole files


@dataclass(frozen=True)
class SmallLog:
    """A well-formed file of some entries, from base offset 0."""

    name: str
    entries: tuple[bytes, ...]
    suffix: str = ".log"
    data: bytes = field(init=False)
    starts: tuple[int, ...] = field(init=False)
    """Where each entry starts, and where the last one ends."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "data", b"".join(self.entries))
        object.__setattr__(self, "starts", (0, *accumulate(map(len, self.entries))))

    @property
    def file_name(self) -> str:
        return f"{0:020d}{self.suffix}"

    @property
    def is_v07(self) -> bool:
        return self.suffix == ".kafka"

    def entry_of(self, position: int) -> int:
        """Number of the entry that has the byte at `position`."""
        return next(index for index, start in enumerate(self.starts[1:]) if position < start)

    def flipped(self, bit: int) -> bytes:
        """The file with one bit the other way, counted from the lowest of byte 0."""
        damaged = bytearray(self.data)
        damaged[bit >> 3] ^= 1 << (bit & 7)
        return bytes(damaged)


def words(rng: random.Random, count: int) -> bytes:
    """Text of which a compressor keeps about half."""
    return b" ".join(b"%x" % rng.getrandbits(24) for _ in range(count))


def log_v2(codec: int, words_each: int) -> SmallLog:
    """Plain, with headers and nulls, idempotent, transactional, its marker, emptied, broker's clock, delete horizon."""
    rng = random.Random(codec)
    pairs = [(words(rng, 1), words(rng, words_each)) for _ in range(10)]
    marker = record(0, struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 5))
    entries = (
        batch(0, [record(i, *pairs[i], ms=i) for i in range(3)], codec=codec),
        batch(
            3,
            [record(0, None, pairs[3][1], [(b"h", b"1"), (b"h", None), (b"", b"")]), record(1, b"", None)],
            codec=codec,
        ),
        batch(
            5, [record(i, *pairs[4 + i]) for i in range(2)], codec=codec, attributes=TRANSACTIONAL, producer=(9, 1, 4)
        ),
        batch(7, [marker], attributes=TRANSACTIONAL | CONTROL, producer=(9, 1, -1)),
        batch(8, b"", codec=codec, delta=3, count=0, producer=(9, 1, 6)),
        batch(12, [record(i, *pairs[6 + i]) for i in range(2)], codec=codec, attributes=LOG_APPEND_TIME),
        batch(
            14, [record(0, pairs[8][0], None), record(4, *pairs[9])], codec=codec, attributes=DELETE_HORIZON, delta=4
        ),
    )
    return SmallLog(f"v2-{CODEC_NAMES[codec]}", entries)


def log_legacy(magic: int, codec: int, words_each: int) -> SmallLog:
    """Single messages with nulls, and three compressed sets where there is a codec."""
    rng = random.Random(10 + codec)
    pairs: list[tuple[bytes | None, bytes | None]] = [(words(rng, 1), words(rng, words_each)) for _ in range(9)]
    pairs[1], pairs[5] = (None, pairs[1][1]), (pairs[5][0], None)
    single = [message(i, *pairs[i], magic=magic, ms=START_MS + i) for i in range(2)]
    if codec:
        rest = [wrapper(2 + 3 * i, pairs[3 * i : 3 * i + 3], magic=magic, codec=codec) for i in range(3)]
    else:
        rest = [message(i, *pairs[i], magic=magic, attributes=LOG_APPEND_TIME * magic * (i & 1)) for i in range(2, 9)]
    return SmallLog(f"v{magic}-{CODEC_NAMES[codec]}", (*single, *rest))


def log_seven(codec: int, words_each: int) -> SmallLog:
    rng = random.Random(20 + codec)
    payloads = [words(rng, words_each) for _ in range(10)]
    plain = (seven(payloads[0]), seven(payloads[1], codec=0), seven(b""))
    if not codec:
        return SmallLog("seven-none", (*plain, *(seven(payload, codec=0 if i & 1 else None) for i, payload in enumerate(payloads[2:]))),
                        ".kafka")  # fmt: skip
    nested = seven(PACK[codec](seven(payloads[5]) + seven_set(payloads[6:8], codec)), codec=codec)
    packed = (seven_set(payloads[2:5], codec), nested, seven_set(payloads[8:], codec))
    return SmallLog(f"seven-{CODEC_NAMES[codec]}", (*plain, *packed), ".kafka")


LOGS = (
    *(log_v2(codec, size) for codec, size in zip(range(5), (24, 38, 23, 24, 39), strict=True)),
    *(
        log_legacy(magic, codec, size)
        for magic in (0, 1)
        for codec, size in zip(range(4), (34, 37, 26, 26), strict=True)
    ),
    *(log_seven(codec, size) for codec, size in ((NONE, 29), (GZIP, 38), (SNAPPY, 29))),
)
