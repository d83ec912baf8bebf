"""Zstandard frames as Kafka writes and reads them (zstd-jni's ZstdInputStreamNoFinalizer)."""

from __future__ import annotations

import struct
import threading
from typing import TYPE_CHECKING, Final

from kafkalog_cli.format.compression.outcome import Arena, CompressionFault, failed

if TYPE_CHECKING:
    import zstandard


DEFAULT_LEVEL: Final = 3
_MIN_LEVEL, _MAX_LEVEL = -(1 << 17), 22

_PREFIX: Final = struct.Struct("<IB")
"""The magic and the first byte (descriptor) of the frame header."""

_FRAME: Final = 0xFD2FB528
_SKIPPABLE: Final = 0x184D2A50
_SINGLE_SEGMENT, _CHECKSUM = 0x20, 0x04
_RLE_BLOCK, _RESERVED_BLOCK = 1, 3
_DICTIONARY_ID_BYTES: Final = (0, 1, 2, 4)
_CONTENT_SIZE_BYTES: Final = (0, 2, 4, 8)

_READ_BYTES: Final = (128 << 10) + 3
"""Number of bytes that zstd-jni reads at a time (ZSTD_DStreamInSize)."""

_CUT_OFF: Final = -1
_per_thread = threading.local()


def decompress_into(source: memoryview, arena: Arena, magic: int) -> CompressionFault | None:
    """Decompress the frames of `source` and append the result to `arena`. Skippable frames have no contents.

    As in Kafka, content checksums are verified, and an empty source gives an empty output. A frame that is cut off is a
    fault, unless zstd-jni treats it as the end of the stream (see `_is_taken_for_the_end`).
    """
    position = 0
    while position < len(source):
        end = _frame_end(source, position)
        if end == _CUT_OFF:
            if not _is_taken_for_the_end(position, len(source)):
                return failed("zstd frame ended prematurely")
            break
        position = end
    return _decode(source, arena)


def _frame_end(source: memoryview, start: int) -> int:
    """Return the end of the frame at `start` according to its block headers; `_CUT_OFF` if it is beyond the source.

    If the start is not a frame, or a block has a reserved type, the end of the source is returned: the decoder then
    reports what is wrong.
    """
    size = len(source)
    if size - start < _PREFIX.size:
        return _CUT_OFF
    magic, descriptor = _PREFIX.unpack_from(source, start)
    if magic != _FRAME:
        return _skippable_end(source, start) if magic & ~0x0F == _SKIPPABLE else size
    position = start + _PREFIX.size + _DICTIONARY_ID_BYTES[descriptor & 0x03] + _CONTENT_SIZE_BYTES[descriptor >> 6]
    if not (descriptor & _SINGLE_SEGMENT and descriptor >> 6):
        position += 1  # the window descriptor, or a content size of one byte
    last = 0
    while not last:
        if size - position < 3:
            return _CUT_OFF
        header = source[position] | source[position + 1] << 8 | source[position + 2] << 16
        last, kind = header & 1, header >> 1 & 3
        if kind == _RESERVED_BLOCK:
            return size
        position += 3 + (1 if kind == _RLE_BLOCK else header >> 3)
    end = position + (4 if descriptor & _CHECKSUM else 0)
    return end if end <= size else _CUT_OFF


def _skippable_end(source: memoryview, start: int) -> int:
    if len(source) - start < 8:
        return _CUT_OFF
    end = start + 8 + int.from_bytes(source[start + 4 : start + 8], "little")
    return end if end <= len(source) else _CUT_OFF


def _is_taken_for_the_end(frames_end: int, size: int) -> bool:
    """Whether zstd-jni ends the stream without an error in a frame that is cut off after complete frames.

    zstd-jni forgets that a frame ended only when it reads more input. If the cut-off frame came in the same read as the
    end of the frame before it, it is decompressed as far as possible.
    """
    read_end = -(-frames_end // _READ_BYTES) * _READ_BYTES
    return 0 < frames_end < read_end and size <= read_end


def _decode(source: memoryview, arena: Arena) -> CompressionFault | None:
    decompressor, error = _decoder()
    reader = decompressor.stream_reader(source, read_across_frames=True)
    while True:
        with arena.rest() as room:
            try:
                size = reader.readinto(room)
            except error as reason:
                return failed(f"zstd frame does not decompress: {reason}")
            full = size == len(room)
        fault = arena.advance(size)
        if fault is not None or not full:
            return fault


def _decoder() -> tuple[zstandard.ZstdDecompressor, type[Exception]]:
    """Return this thread's decompressor.

    It serves one stream at a time. Creating it costs as much as a small frame.
    """
    try:
        decoder: tuple[zstandard.ZstdDecompressor, type[Exception]] = _per_thread.decoder
    except AttributeError:
        import zstandard

        decoder = _per_thread.decoder = (zstandard.ZstdDecompressor(), zstandard.ZstdError)
    return decoder


def compress(data: bytes | bytearray | memoryview, level: int | None, magic: int) -> bytes:
    """Return one frame without content size and checksum, as Kafka's producers write.

    `level` is -131072 to 22, or None for 3. Raises ValueError for any other level, and for magic 0 and 1.
    """
    import zstandard

    if magic < 2:
        raise ValueError(f"zstd is not a codec of magic {magic}")
    level = DEFAULT_LEVEL if level is None else level
    if not _MIN_LEVEL <= level <= _MAX_LEVEL:
        raise ValueError(f"zstd doesn't support given compression level: {level}")
    encoder = _compressor(level).compressobj()
    if not len(data):
        return encoder.flush()
    # Kafka's writer flushes before it closes, so the last block is always empty
    pieces = (encoder.compress(data), encoder.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK), encoder.flush())
    return b"".join(pieces)


def _compressor(level: int) -> zstandard.ZstdCompressor:
    """Return this thread's compressor, created again when the level changes."""
    known: tuple[int, zstandard.ZstdCompressor] | None = getattr(_per_thread, "compressor", None)
    if known is None or known[0] != level:
        import zstandard

        known = _per_thread.compressor = (level, zstandard.ZstdCompressor(level=level, write_checksum=False))
    return known[1]
