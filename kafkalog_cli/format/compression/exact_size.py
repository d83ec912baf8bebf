"""Compresses to a given number of bytes: valid streams that are longer than they have to be.

gzip gets a file name in its header, and zstd a skippable frame or empty blocks. Kafka's Java reads all of them.
"""

import struct

from kafkalog_cli.format.compression import Codec, compress

_STRONGEST = {Codec.GZIP: 9, Codec.ZSTD: 19}
_GZIP_HEAD, _GZIP_NAME = 10, 0x08
_ZSTD_HEAD, _SKIPPABLE = 6, 0x184D2A50


def compress_to(codec: int, data: bytes, size_bytes: int, *, magic: int) -> bytes:
    """Return `data` compressed by gzip or zstd to `size_bytes` where that is possible, and otherwise as it comes."""
    padded = _PADDED.get(Codec(codec))
    compressed = compress(codec, data, magic=magic)
    if padded is None or len(compressed) == size_bytes:
        return compressed
    if len(compressed) > size_bytes:
        compressed = compress(codec, data, level=_STRONGEST[Codec(codec)], magic=magic)
    return compressed if len(compressed) > size_bytes else padded(compressed, size_bytes - len(compressed))


def _gzip(compressed: bytes, pad: int) -> bytes:
    if not pad:
        return compressed
    head = compressed[:3] + bytes((compressed[3] | _GZIP_NAME,)) + compressed[4:_GZIP_HEAD]
    return head + b"x" * (pad - 1) + b"\0" + compressed[_GZIP_HEAD:]


def _zstd(compressed: bytes, pad: int) -> bytes:
    if pad >= 8:
        return compressed + struct.pack("<II", _SKIPPABLE, pad - 8) + bytes(pad - 8)
    empty_blocks, dictionary = divmod(pad, 3)  # a dictionary id 0 of one or two bytes: no dictionary
    head = compressed[:4] + bytes((compressed[4] | dictionary,)) + compressed[5:_ZSTD_HEAD] + bytes(dictionary)
    return head + bytes(3 * empty_blocks) + compressed[_ZSTD_HEAD:]


_PADDED = {Codec.GZIP: _gzip, Codec.ZSTD: _zstd}
