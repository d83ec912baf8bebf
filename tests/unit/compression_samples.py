"""Samples and shorthands for the tests of the codecs."""

from __future__ import annotations

import random
import struct

import cramjam

from kafkalog_cli.format.compression import Codec, CompressionFault, decompress
from kafkalog_cli.format.fault import FaultKind
from kafkalog_cli.format.limits import Limits

LIMITS = Limits()

NONE, GZIP, SNAPPY, LZ4, ZSTD = Codec
PACKING = (GZIP, SNAPPY, LZ4, ZSTD)

TEXT = b"".join(b'{"id":%d,"name":"user-%d","ok":true}' % (i * 7919 % 1000, i) for i in range(40))
LONG = random.Random(1).randbytes(150_000) + TEXT * 200
XERIAL_HEADER = bytes.fromhex("82534e4150505900 00000001 00000001")


def unpack(codec: int, data: bytes, magic: int = 2, limits: Limits = LIMITS) -> bytes:
    outcome = decompress(codec, data, magic=magic, limits=limits)
    assert isinstance(outcome, bytes), outcome
    return outcome


def kind_of(codec: int, data: bytes, magic: int = 2, limits: Limits = LIMITS) -> FaultKind:
    outcome = decompress(codec, data, magic=magic, limits=limits)
    assert isinstance(outcome, CompressionFault), f"read {len(outcome)} bytes"
    assert outcome.message
    return outcome.kind


def fails(codec: int, data: bytes, magic: int = 2) -> bool:
    return kind_of(codec, data, magic) is FaultKind.DECOMPRESSION_FAILED


def xerial(data: bytes, block_bytes: int) -> bytes:
    blocks = [bytes(cramjam.snappy.compress_raw(data[i : i + block_bytes])) for i in range(0, len(data), block_bytes)]
    return XERIAL_HEADER + b"".join(struct.pack(">i", len(block)) + block for block in blocks)
