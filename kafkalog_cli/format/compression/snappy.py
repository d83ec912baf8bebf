"""Snappy as Kafka writes and reads it: xerial's stream of blocks, or one bare block (SnappyInputStream)."""

from __future__ import annotations

import struct
from functools import cache
from typing import TYPE_CHECKING, Final

from kafkalog_cli.format.compression.outcome import Arena, CompressionFault, failed
from kafkalog_cli.format.layout import Field, Layout

if TYPE_CHECKING:
    from collections.abc import Callable


XERIAL_HEADER = Layout(
    "Header of a snappy stream",
    "org.xerial.snappy.SnappyCodec",
    Field("magic", "Q", "0x82 'SNAPPY' 0x00"),
    Field("version", "i", "1"),
    Field("compatible_version", "i", "1"),
)

_MAGIC: Final = b"\x82SNAPPY\x00"
_MAGIC_HEAD: Final = int.from_bytes(_MAGIC[:4], "big")
_HEADER: Final = XERIAL_HEADER.struct.pack(int.from_bytes(_MAGIC, "big"), 1, 1)
_LENGTH: Final = struct.Struct(">I")
_BLOCK_BYTES: Final = 32 << 10
_MAX_CHUNK_BYTES: Final = 512 << 20
"""SnappyInputStream.MAX_CHUNK_SIZE."""

_MOST_EXPANSION: Final = 22
"""Upper bound of output bytes per input byte: no element of a block makes more than 64 bytes from 3."""


def decompress_into(source: memoryview, arena: Arena, magic: int) -> CompressionFault | None:
    """Decompress `source` and append the result to `arena`.

    As in Kafka, a source without a complete header with xerial's magic is one bare block. Blocks may have any size. 1
    to 3 bytes after the last block are ignored. A header between blocks is skipped.
    """
    if len(source) < len(_HEADER) or bytes(source[:8]) != _MAGIC:
        return _append_block(source, arena) if len(source) else failed("cannot decompress an empty snappy stream")
    position, end = len(_HEADER), len(source)
    while end - position >= 4:
        size = _LENGTH.unpack_from(source, position)[0]
        position += 4
        if size == _MAGIC_HEAD:
            fault = _check_repeated_header(source[position - 4 : position - 4 + len(_HEADER)])
            size = len(_HEADER) - 4
        elif size > _MAX_CHUNK_BYTES:
            fault = failed(f"snappy block size {size} is negative or exceeds {_MAX_CHUNK_BYTES}")
        elif size > end - position:
            fault = failed(f"snappy block of {size} bytes is cut off after {end - position}")
        else:
            fault = _append_block(source[position : position + size], arena)
        if fault is not None:
            return fault
        position += size
    return None


def _check_repeated_header(header: memoryview) -> CompressionFault | None:
    """Return a fault unless Kafka continues after the header of a stream that was appended to another.

    If the header is not xerial's after all, Kafka's read stops there, but its next read continues after it. In practice
    Kafka therefore continues: the stream ends only if the output so far fills whole reads.
    """
    if len(header) < len(_HEADER):
        return failed("insufficient header size in a concatenated snappy block")
    if bytes(header[:8]) == _MAGIC:
        version = XERIAL_HEADER.struct.unpack(header)[1]
        if version < 1:
            return failed(f"snappy stream with an incompatible version {version}, at least 1 is required")
    return None


def _append_block(block: memoryview, arena: Arena) -> CompressionFault | None:
    declared = _declared_size(block)
    if declared is None:
        return failed("snappy block without a valid uncompressed length")
    fault = arena.claim(declared)
    if fault is not None:
        return fault
    if declared > len(block) * _MOST_EXPANSION:
        return failed(f"snappy block of {len(block)} bytes cannot decompress to the declared {declared}")
    decode, error = _block_decoder()
    with arena.window(declared) as room:
        try:
            size = decode(block, room)
        except error as reason:
            return failed(f"snappy block does not decompress: {reason}")
    return arena.advance(size)


def _declared_size(block: memoryview) -> int | None:
    """Return the varint of at most 32 bits at the start of a block, or None if there is none."""
    size = shift = 0
    for byte in block[:5]:
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            return size if size < 1 << 32 else None
        shift += 7
    return None


@cache
def _block_decoder() -> tuple[Callable[[memoryview, memoryview], int], type[Exception]]:
    # the decoder that python-snappy calls too, but cramjam decompresses directly into the arena
    import cramjam

    return cramjam.snappy.decompress_raw_into, cramjam.DecompressionError


def compress(data: bytes | bytearray | memoryview, level: int | None, magic: int) -> bytes:
    """Return a xerial stream with blocks of 32 KiB, as Kafka's producers write.

    Snappy has no levels: raises ValueError for any `level` but None.
    """
    import snappy

    if level is not None:
        raise ValueError("snappy has no compression levels")
    source = memoryview(data)
    pieces = [_HEADER]
    for begin in range(0, len(source), _BLOCK_BYTES):
        block = snappy.compress(source[begin : begin + _BLOCK_BYTES])
        pieces += (int.to_bytes(len(block), 4, "big"), block)
    return b"".join(pieces)
