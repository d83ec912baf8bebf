"""Kafka's compression codecs: a table by codec id of functions that compress and decompress a batch's records.

Each codec has a module: `gzip`, `snappy`, `lz4` and `zstd`. Decompression writes into an `Arena`, the free end of a
reused buffer with limits on its growth, and returns damage as a `CompressionFault`.

Decompression mirrors Kafka's own streams (org.apache.kafka.common.compress), read to their end. Kafka's iterators do
the same: after the last record DefaultRecordBatch asks for one more byte.
"""

from __future__ import annotations

from enum import IntEnum, unique
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_cli.format.compression import gzip, lz4, snappy, zstd
from kafkalog_cli.format.compression.outcome import Arena, CompressionFault, unknown_codec

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalog_cli.format.limits import Limits

__all__ = ["Codec", "CompressionFault", "codec_name", "compress", "decompress", "decompress_into"]

Bytes = bytes | bytearray | memoryview


@unique
class Codec(IntEnum):
    """Bits 0 to 2 of a batch's attributes (CompressionType)."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class _Functions(NamedTuple):
    name: str
    first_magic: int
    decompress_into: Callable[[memoryview, Arena, int], CompressionFault | None]
    compress: Callable[[Bytes, int | None, int], bytes]


def _copy_into(source: memoryview, arena: Arena, magic: int) -> None:
    arena.append(source)


def _copy(data: Bytes, level: int | None, magic: int) -> bytes:
    return bytes(data)


_CODECS: Final[dict[int, _Functions]] = {
    Codec.NONE: _Functions("none", 0, _copy_into, _copy),
    Codec.GZIP: _Functions("gzip", 0, gzip.decompress_into, gzip.compress),
    Codec.SNAPPY: _Functions("snappy", 0, snappy.decompress_into, snappy.compress),
    Codec.LZ4: _Functions("lz4", 0, lz4.decompress_into, lz4.compress),
    Codec.ZSTD: _Functions("zstd", 2, zstd.decompress_into, zstd.compress),
}


def codec_name(id: int) -> str | None:  # noqa: A002 - Kafka's word
    """Return Kafka's lower-case name of a codec, or None if `id` is not a codec (a batch can contain 5 to 7)."""
    functions = _CODECS.get(id)
    return functions.name if functions else None


def decompress(codec: int, data: Bytes, *, magic: int, limits: Limits) -> bytes | CompressionFault:
    """Return the decompressed `data` of a batch or message of `magic`, or why it cannot be read in full.

    Damaged `data` never raises. The memory used is the size of the output plus a few MiB.
    """
    buffer = bytearray()
    outcome = decompress_into(codec, data, buffer, 0, magic=magic, limits=limits)
    return outcome if isinstance(outcome, CompressionFault) else bytes(memoryview(buffer)[:outcome])


def decompress_into(  # noqa: PLR0913 - the two of the arena could only be one tuple
    codec: int, data: Bytes, out: bytearray, position: int, *, magic: int, limits: Limits
) -> int | CompressionFault:
    """Decompress `data` into `out` from `position` on; return the number of bytes written, or a fault.

    `out` grows when needed and never shrinks, so one buffer serves many batches. After a fault, its bytes from
    `position` on are undefined; otherwise only the bytes after the output are. It must have no exported views when it
    has to grow (BufferError). Threads may call this at the same time, each with its own `out`; the work is done without
    the GIL.
    """
    functions = _CODECS.get(codec)
    if functions is None:
        return unknown_codec(f"unknown compression type id {codec}")
    if magic < functions.first_magic:
        return unknown_codec(f"{functions.name} is not a codec of magic {magic}")
    arena = Arena(out, position, len(data), limits)
    fault = functions.decompress_into(memoryview(data), arena, magic)
    return fault if fault is not None else arena.position - position


def compress(codec: int, data: Bytes, *, level: int | None = None, magic: int = 2) -> bytes:
    """Return `data` compressed as Kafka's Java compresses it, in the same framing.

    `level` is Kafka's level (`compression.gzip.level` and so on); None selects its default. Raises ValueError for an
    unknown codec or an illegal level, which are mistakes of the caller.

    The bytes are the same as Kafka's where the libraries agree. They agree for gzip and for lz4, except lz4's levels 1
    and 2, which liblz4 1.10 has changed. The libraries of snappy and zstd choose different matches from version to
    version.
    """
    functions = _CODECS.get(codec)
    if functions is None:
        raise ValueError(f"unknown compression type id {codec}")
    return functions.compress(data, level, magic)
