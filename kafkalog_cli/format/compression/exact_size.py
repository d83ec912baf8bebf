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
    found = compress(codec, data, magic=magic)
    if padded is None or len(found) == size_bytes:
        return found
    if len(found) > size_bytes:
        found = compress(codec, data, level=_STRONGEST[Codec(codec)], magic=magic)
    return found if len(found) > size_bytes else padded(found, size_bytes - len(found))


def _gzip(found: bytes, pad: int) -> bytes:
    if not pad:
        return found
    head = found[:3] + bytes((found[3] | _GZIP_NAME,)) + found[4:_GZIP_HEAD]
    return head + b"x" * (pad - 1) + b"\0" + found[_GZIP_HEAD:]


def _zstd(found: bytes, pad: int) -> bytes:
    if pad >= 8:
        return found + struct.pack("<II", _SKIPPABLE, pad - 8) + bytes(pad - 8)
    empty_blocks, dictionary = divmod(pad, 3)  # a dictionary id 0 of one or two bytes: no dictionary
    head = found[:4] + bytes((found[4] | dictionary,)) + found[5:_ZSTD_HEAD] + bytes(dictionary)
    return head + bytes(3 * empty_blocks) + found[_ZSTD_HEAD:]


_PADDED = {Codec.GZIP: _gzip, Codec.ZSTD: _zstd}
