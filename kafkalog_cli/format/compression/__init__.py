"""The codecs of Kafka: a table by id of how the records of a batch are packed and read back.

Reading mirrors Kafka's own streams (org.apache.kafka.common.compress) drained to their end, which is what
its iterators do: after the last record DefaultRecordBatch asks for one more byte. Damage is a value.
"""

from __future__ import annotations

from enum import IntEnum, unique
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_cli.format.compression import gzip, lz4, snappy, zstd
from kafkalog_cli.format.compression.arena import Arena
from kafkalog_cli.format.compression.outcome import CompressionFault, unknown_codec

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
    """Kafka's name of a codec, lower-case; None for an id that is none (5 to 7 can stand in a batch)."""
    functions = _CODECS.get(id)
    return functions.name if functions else None


def decompress(codec: int, data: Bytes, *, magic: int, limits: Limits) -> bytes | CompressionFault:
    """What the stream `data` of a batch or message of `magic` holds, or why it cannot be read in full.

    Never raises for what `data` holds, and takes no more memory than the output and a few MiB.
    """
    buffer = bytearray()
    outcome = decompress_into(codec, data, buffer, 0, magic=magic, limits=limits)
    return outcome if isinstance(outcome, CompressionFault) else bytes(memoryview(buffer)[:outcome])


def decompress_into(  # noqa: PLR0913 - the two of the arena could only be one tuple
    codec: int, data: Bytes, out: bytearray, position: int, *, magic: int, limits: Limits
) -> int | CompressionFault:
    """As `decompress`, into `out` from `position` on; the number of bytes written.

    `out` grows when needed and never shrinks, so one buffer serves many batches. Its bytes from `position`
    on are undefined after a fault and behind the output. It must have no exported views when it has to grow
    (BufferError). Threads may call this at once, each with its own `out`; the work is done without the GIL.
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
    """`data` packed as Kafka's Java writes it: the same framing, and the same bytes where the libraries agree.

    (They do for gzip and lz4, but for lz4's levels 1 and 2, which liblz4 1.10 has made anew; snappy and zstd choose
    matches differently from one version to the next.)
    `level` is Kafka's (`compression.gzip.level` and so on), None its default. Raises ValueError for a codec or
    level that is none: the caller's mistake.
    """
    functions = _CODECS.get(codec)
    if functions is None:
        raise ValueError(f"unknown compression type id {codec}")
    return functions.compress(data, level, magic)
