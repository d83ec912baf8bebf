"""LZ4 frames as Kafka writes and reads them (Lz4BlockOutputStream, Lz4BlockInputStream)."""

from __future__ import annotations

import struct
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_cli.format.compression.outcome import Arena, CompressionFault, failed

if TYPE_CHECKING:
    from collections.abc import Callable


DEFAULT_LEVEL: Final = 9
"""Kafka's default level. Kafka uses the fast compressor for it, not level 9 of the high compressor."""

_LEAST_HIGH_LEVEL: Final = 3
"""Below this level the library uses the fast compressor, unlike Kafka."""

_MAGIC: Final = b"\x04\x22\x4d\x18"
_END_MARK: Final = bytes(4)
_STORED: Final = 0x80000000
_BLOCK_BYTES: Final = {4: 1 << 16, 5: 1 << 18, 6: 1 << 20, 7: 1 << 22}

# FLG, the first byte of the descriptor
_VERSION, _VERSION_MASK = 0x40, 0xC0
_RESERVED: Final = 0x03
_CONTENT_CHECKSUM: Final = 0x04
_CONTENT_SIZE: Final = 0x08
_BLOCK_CHECKSUM: Final = 0x10
_INDEPENDENT: Final = 0x20

_SHORT_HEAD_BYTES: Final = 7
_LONG_HEAD_BYTES: Final = 15
"""Size of magic, descriptor and header checksum together with the content size; `_SHORT_HEAD_BYTES` is without it."""

_LENGTH: Final = struct.Struct("<I")

_CUT_OFF: Final = "LZ4 frame ended prematurely"


class _Descriptor(NamedTuple):
    """The contents of the frame descriptor."""

    block_bytes: int
    content_checksum: bool
    one_block_header: bytes
    """If blocks have checksums: the header of a frame that contains one such block; otherwise empty."""


def decompress_into(source: memoryview, arena: Arena, magic: int) -> CompressionFault | None:
    """Decompress `source`, one LZ4 frame, and append the result to `arena`. Bytes after its end mark are ignored.

    As in Kafka, the content size is skipped, the content checksum is not verified, and block checksums are. For magic 0
    the header checksum is ignored (KAFKA-3160: old clients computed it over too many bytes).
    """
    head = bytes(source[: _LONG_HEAD_BYTES if len(source) > 4 and source[4] & _CONTENT_SIZE else _SHORT_HEAD_BYTES])
    descriptor = _parse_head(head, magic == 0)
    if isinstance(descriptor, CompressionFault):
        return descriptor
    position, end = len(head), len(source)
    checksum_bytes = 4 if descriptor.one_block_header else 0
    while end - position >= 4:
        begin = position
        size = _LENGTH.unpack_from(source, begin)[0] & ~_STORED
        position += 4 + size + checksum_bytes
        if size == 0:
            return failed(_CUT_OFF) if descriptor.content_checksum and end - begin < 8 else None
        if size > descriptor.block_bytes:
            return failed(f"LZ4 block size {size} exceeds the frame's maximum of {descriptor.block_bytes}")
        if position > end:
            break
        before = arena.position
        fault = _append_block(source[begin:position], descriptor, arena)
        # Kafka's stream ends at a block without output
        if fault is not None or arena.position == before:
            return fault
    return failed(_CUT_OFF)


@lru_cache(maxsize=64)
def _parse_head(head: bytes, ignore_checksum: bool) -> _Descriptor | CompressionFault:
    """Parse the frame from its magic to the header checksum; return a fault if it is wrong.

    The result is cached, because writers rarely vary these bytes.
    """
    if len(head) < _SHORT_HEAD_BYTES or (head[4] & _CONTENT_SIZE and len(head) < _LONG_HEAD_BYTES):
        return failed(_CUT_OFF)
    flags, block_code = head[4], head[5]
    block_bytes = _BLOCK_BYTES.get(block_code >> 4, 0)
    checks = (
        (head.startswith(_MAGIC), "stream unsupported (invalid magic bytes)"),
        (not flags & _RESERVED, "frame descriptor with a dictionary id or reserved bits is unsupported"),
        (flags & _INDEPENDENT, "frame with dependent blocks is unsupported"),
        (flags & _VERSION_MASK == _VERSION, f"frame version {flags >> 6} is unsupported"),
        (block_bytes and not block_code & 0x0F, f"frame with block size byte 0x{block_code:02x} is unsupported"),
        (ignore_checksum or head[-1] == _header_checksum(head[4:-1]), "frame descriptor with a wrong checksum"),
    )
    for holds, problem in checks:
        if not holds:
            return failed(f"LZ4 {problem}")
    checked = _VERSION | _INDEPENDENT | _BLOCK_CHECKSUM
    one_block = _frame_header(checked, block_code) if flags & _BLOCK_CHECKSUM else b""
    return _Descriptor(block_bytes, bool(flags & _CONTENT_CHECKSUM), one_block)


def _append_block(block: memoryview, descriptor: _Descriptor, arena: Arena) -> CompressionFault | None:
    """Append one block, given with its length field, its data, and its checksum if it has one."""
    if descriptor.one_block_header:
        return _append_checked(block, descriptor.one_block_header, arena)
    if block[3] & 0x80:
        return arena.append(block[4:])
    decode, error = _block_decoder()
    with arena.window(descriptor.block_bytes) as room:
        try:
            size = decode(block[4:], room, descriptor.block_bytes)
        except error as reason:
            return failed(f"LZ4 block does not decompress: {reason}")
    return arena.advance(size)


def _append_checked(block: memoryview, header: bytes, arena: Arena) -> CompressionFault | None:
    """Decompress one block as a frame of its own, so that the library verifies its checksum."""
    import lz4.frame

    try:
        data = lz4.frame.decompress(b"".join((header, block, _END_MARK)))
    except RuntimeError as reason:
        return failed(f"LZ4 block does not decompress or its checksum does not match: {reason}")
    return arena.append(data)


@cache
def _block_decoder() -> tuple[Callable[[memoryview, memoryview, int], int], type[Exception]]:
    # cramjam decompresses directly into the arena; lz4.block returns a new object per block (10 % slower)
    import cramjam

    return cramjam.lz4.decompress_block_into, cramjam.DecompressionError


def compress(data: bytes | bytearray | memoryview, level: int | None, magic: int) -> bytes:
    """Return one frame of independent 64 KiB blocks without content size and checksums, as Kafka's producers write.

    With magic 0 the frame has the wrong header checksum that readers of magic 0 expect. `level` is 1 to 17, or None for
    Kafka's default. Raises ValueError for any other level.
    """
    import lz4.frame

    level = DEFAULT_LEVEL if level is None else level
    if not 1 <= level <= 17:
        raise ValueError(f"lz4 doesn't support given compression level: {level}")
    frame: bytes = lz4.frame.compress(
        data,
        compression_level=0 if level == DEFAULT_LEVEL else max(level, _LEAST_HIGH_LEVEL),
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    if magic > 0:
        return frame
    return _frame_header(_VERSION | _INDEPENDENT, frame[5], over_magic=True) + frame[_SHORT_HEAD_BYTES:]


def _frame_header(flags: int, block_code: int, *, over_magic: bool = False) -> bytes:
    descriptor = bytes((flags, block_code))
    checksum = _header_checksum(_MAGIC + descriptor if over_magic else descriptor)
    return _MAGIC + descriptor + bytes((checksum,))


def _header_checksum(data: bytes) -> int:
    """Return the second byte of xxh32 (seed 0) of fewer than 16 bytes: the HC byte of a frame."""
    mask = 0xFFFFFFFF
    digest = 0x165667B1 + len(data)
    lanes_end = len(data) & ~3
    for at in range(0, lanes_end, 4):
        digest = (digest + int.from_bytes(data[at : at + 4], "little") * 0xC2B2AE3D) & mask
        digest = (digest << 17 | digest >> 15) * 0x27D4EB2F & mask
    for byte in data[lanes_end:]:
        digest = (digest + byte * 0x165667B1) & mask
        digest = (digest << 11 | digest >> 21) * 0x9E3779B1 & mask
    digest = (digest ^ digest >> 15) * 0x85EBCA77 & mask
    digest = (digest ^ digest >> 13) * 0xC2B2AE3D & mask
    return (digest ^ digest >> 16) >> 8 & 0xFF
