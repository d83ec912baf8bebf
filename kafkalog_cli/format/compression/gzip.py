"""Gzip as Kafka writes and reads it (GzipOutputStream, java.util.zip.GZIPInputStream)."""

from __future__ import annotations

import struct
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, cast

from kafkalog_cli.format.compression.outcome import Arena, CompressionFault, failed
from kafkalog_cli.format.layout import Field, Layout

if TYPE_CHECKING:
    from collections.abc import Callable


GZIP_HEADER = Layout(
    "Header of a gzip member",
    "java.util.zip.GZIPOutputStream",
    Field("magic", "H", "0x1f8b"),
    Field("method", "B", "8, deflate"),
    Field("flags", "B", "bit 1 header CRC, 2 extra field, 3 name, 4 comment; Kafka writes none"),
    Field("mtime", "I", "0"),
    Field("extra_flags", "B", "0"),
    Field("operating_system", "B", "255 unknown; 0 from a JDK before 16"),
)

_HEADER: Final = GZIP_HEADER.struct.pack(0x1F8B, 8, 0, 0, 0, 0xFF)
_TRAILER: Final = struct.Struct("<II")
"""CRC-32 of the output, and its size modulo 2^32, both little-endian."""

_HEADER_CRC, _EXTRA, _NAME, _COMMENT = 0x02, 0x04, 0x08, 0x10

_NO_ROOM_FOR_A_MEMBER_BYTES: Final = 26
"""With at most this many bytes after the deflated data, no further member follows.

These bytes are the trailer, and the header and trailer of a member without data. JDK 17 has this rule. JDK 25 looks for
a header nevertheless, and fails if a member of so few bytes is cut off.
"""

_INPUT_PIECE_BYTES: Final = 64 << 10
_OUTPUT_PIECE_BYTES: Final = 512 << 10

_CUT_OFF: Final = "gzip stream ended prematurely"


class _Inflater(Protocol):
    """The used part of a zlib decompression object."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    @property
    def unconsumed_tail(self) -> bytes: ...
    def decompress(self, data: memoryview | bytes, max_length: int, /) -> bytes: ...


class _Library(NamedTuple):
    inflater: Callable[[], _Inflater]
    crc32: Callable[[bytes | bytearray | memoryview, int], int]
    error: type[Exception]


def decompress_into(source: memoryview, arena: Arena, magic: int) -> CompressionFault | None:
    """Decompress the members of `source` and append them to `arena`.

    As in Kafka, header CRCs and trailers are verified. Bytes after a member are ignored if they are not a member: zero
    padding, bytes without a valid header, or too few bytes. A member that is cut off is a fault.
    """
    position = _header_end(source, 0)
    while not isinstance(position, CompressionFault):
        deflate_end = _inflate(source, position, arena)
        if isinstance(deflate_end, CompressionFault):
            return deflate_end
        if len(source) - deflate_end <= _NO_ROOM_FOR_A_MEMBER_BYTES:
            return None
        position = _header_end(source, deflate_end + _TRAILER.size)
        if isinstance(position, CompressionFault):
            return None
    return position


def _header_end(source: memoryview, start: int) -> int | CompressionFault:
    position = start + GZIP_HEADER.size
    if position > len(source):
        return failed(_CUT_OFF)
    if bytes(source[start : start + 2]) != _HEADER[:2]:
        return failed("not in gzip format")
    if source[start + 2] != 8:
        return failed(f"unsupported gzip compression method {source[start + 2]}")
    flags = source[start + 3]
    return position if not flags else _optional_fields_end(source, start, flags)


def _optional_fields_end(source: memoryview, start: int, flags: int) -> int | CompressionFault:
    position = start + GZIP_HEADER.size
    if flags & _EXTRA:
        position += 2 + int.from_bytes(source[position : position + 2], "little")
    for flag in (_NAME, _COMMENT):
        if flags & flag:
            while position < len(source) and source[position]:
                position += 1
            position += 1
    if flags & _HEADER_CRC:
        expected = _library().crc32(source[start:position], 0) & 0xFFFF
        if expected != int.from_bytes(source[position : position + 2], "little"):
            return failed("corrupt gzip header (CRC mismatch)")
        position += 2
    return position if position <= len(source) else failed(_CUT_OFF)


def _inflate(source: memoryview, position: int, arena: Arena) -> int | CompressionFault:
    """Append the data of one member and verify its trailer. Return the position of the trailer."""
    inflater, crc32, error = _library()
    decoder, checksum, before = inflater(), 0, arena.position
    piece: memoryview | bytes = source[position : position + _INPUT_PIECE_BYTES]
    position += len(piece)
    while True:
        try:
            data = decoder.decompress(piece, _OUTPUT_PIECE_BYTES)
        except error as reason:
            return failed(f"gzip data does not decompress: {reason}")
        checksum = crc32(data, checksum)
        fault = arena.append(data)
        if fault is not None:
            return fault
        if decoder.eof:
            break
        piece = decoder.unconsumed_tail
        # after a full piece of output the decoder may hold more output, with or without input
        if not piece and len(data) < _OUTPUT_PIECE_BYTES:
            piece = source[position : position + _INPUT_PIECE_BYTES]
            position += len(piece)
            if not piece:
                return failed(_CUT_OFF)
    deflate_end = position - len(decoder.unused_data)
    return _check_trailer(source, deflate_end, checksum, arena.position - before)


def _check_trailer(source: memoryview, start: int, checksum: int, size: int) -> int | CompressionFault:
    if len(source) - start < _TRAILER.size:
        return failed(_CUT_OFF)
    if _TRAILER.unpack_from(source, start) != (checksum, size & 0xFFFFFFFF):
        return failed("corrupt gzip trailer (CRC or size mismatch)")
    return start


@cache
def _library() -> _Library:
    try:
        from isal import isal_zlib
    except ImportError:  # no wheel for this platform; zlib takes three times as long
        import zlib

        return _Library(lambda: zlib.decompressobj(-zlib.MAX_WBITS), zlib.crc32, zlib.error)
    return _Library(
        lambda: isal_zlib.decompressobj(-isal_zlib.MAX_WBITS), isal_zlib.crc32, cast("type[Exception]", isal_zlib.error)
    )


def compress(data: bytes | bytearray | memoryview, level: int | None, magic: int) -> bytes:
    """Return one member with the header that Java writes.

    `level` is 1 to 9, or -1 or None for zlib's default (6). Raises ValueError for any other level.
    """
    import zlib

    level = -1 if level is None else level
    if level != -1 and not 1 <= level <= 9:
        raise ValueError(f"gzip doesn't support given compression level: {level}")
    encoder = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
    trailer = _TRAILER.pack(_library().crc32(data, 0), len(data) & 0xFFFFFFFF)
    return b"".join((_HEADER, encoder.compress(data), encoder.flush(), trailer))
