"""Compresses to a given number of bytes: valid streams that are longer than they have to be.

gzip gets a file name in its header, and zstd a skippable frame or empty blocks. Snappy and lz4 get literals in the
place of copies. Kafka's Java reads all of them.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from kafkalog_cli.format.compression import Codec, compress
from kafkalog_cli.format.compression.snappy_elements import grown_snappy

_STRONGEST = {Codec.GZIP: 9, Codec.ZSTD: 19, Codec.LZ4: 17, Codec.SNAPPY: None}
_GZIP_HEAD, _GZIP_NAME = 10, 0x08
_ZSTD_HEAD, _SKIPPABLE = 6, 0x184D2A50
_LZ4_HEAD, _LZ4_STORED, _LZ4_BLOCK = 7, 0x80000000, 64 << 10
_LEAST_MATCH, _LAST_MATCH_START = 4, 12


def compress_to(codec: int, data: bytes, size_bytes: int, *, magic: int, is_bare: bool = False) -> bytes | None:
    """Return `data` compressed to `size_bytes`, None if there is no way. `is_bare`: snappy without framing."""
    for level in (None, _STRONGEST[Codec(codec)]):
        found = compress(codec, data, level=level, magic=magic)
        if codec == Codec.SNAPPY:
            return grown_snappy(found, data, size_bytes, is_bare=is_bare)
        if codec == Codec.LZ4 and (stored := _stored_lz4(found, data)) and len(stored) == size_bytes:
            return stored
        if len(found) <= size_bytes:
            return _PADDED[Codec(codec)](found, data, size_bytes - len(found))
    return None


def _gzip(found: bytes, _: bytes, pad: int) -> bytes:
    if not pad:
        return found
    head = found[:3] + bytes((found[3] | _GZIP_NAME,)) + found[4:_GZIP_HEAD]
    return head + b"x" * (pad - 1) + b"\0" + found[_GZIP_HEAD:]


def _zstd(found: bytes, _: bytes, pad: int) -> bytes:
    if pad >= 8:
        return found + struct.pack("<II", _SKIPPABLE, pad - 8) + bytes(pad - 8)
    empty_blocks, dictionary = divmod(pad, 3)  # a dictionary id 0 of one or two bytes: no dictionary
    head = found[:4] + bytes((found[4] | dictionary,)) + found[5:_ZSTD_HEAD] + bytes(dictionary)
    return head + bytes(3 * empty_blocks) + found[_ZSTD_HEAD:]


def _stored_lz4(found: bytes, data: bytes) -> bytes:
    """Return a frame of blocks that are not compressed."""
    blocks = [data[at : at + _LZ4_BLOCK] for at in range(0, len(data), _LZ4_BLOCK)]
    return found[:_LZ4_HEAD] + b"".join(struct.pack("<I", len(one) | _LZ4_STORED) + one for one in blocks) + bytes(4)


class _Sequence(NamedTuple):
    """An lz4 sequence: literals, then a match; the last sequence of a block has no match (0)."""

    literals: int
    match: int
    distance: int


def _lz4(found: bytes, data: bytes, pad: int) -> bytes | None:
    out, position, start = bytearray(found[:_LZ4_HEAD]), _LZ4_HEAD, 0
    while size := int.from_bytes(found[position : position + 4], "little"):
        end = position + 4 + (size & ~_LZ4_STORED)
        block, raw = found[position + 4 : end], data[start : start + _LZ4_BLOCK]
        if pad and not size & _LZ4_STORED:
            grown = _grown_lz4(block, raw, min(pad, _LZ4_BLOCK - len(block)))
            pad -= len(grown) - len(block)
            block, size = grown, len(grown)
        out += struct.pack("<I", size) + block
        position, start = end, start + len(raw)
    return None if pad else bytes(out + found[position:])


def _grown_lz4(block: bytes, raw: bytes, pad: int) -> bytes:
    """Return a block of the same contents that is at most `pad` bytes longer: matches begin later, or are literals."""
    sequences = _sequences(block)
    start, at = 0, 0
    while pad and at < len(sequences) - 1:
        one = sequences[at]
        most = min(one.match - _LEAST_MATCH, len(raw) - _LAST_MATCH_START - start - one.literals)
        moved = _fitting_move(one, most, pad) if most > 0 else 0
        if moved:
            later = _Sequence(one.literals + moved, one.match - moved, one.distance)
            pad -= _size(later) - _size(one)
            sequences[at] = one = later
        following = sequences[at + 1]
        joined = _Sequence(one.literals + one.match + following.literals, following.match, following.distance)
        growth = _size(joined) - _size(one) - _size(following)
        if 0 <= growth <= pad:
            pad -= growth
            sequences[at : at + 2] = [joined]
        else:
            start += one.literals + one.match
            at += 1
    return _block(sequences, raw)


def _fitting_move(one: _Sequence, most: int, pad: int) -> int:
    """Return the most bytes of a match that may become literals, up to `most`, so that it grows by `pad` at most."""
    low, high = 0, min(most, pad + 1)
    while low < high:
        middle = (low + high + 1) // 2
        if _size(_Sequence(one.literals + middle, one.match - middle, 1)) - _size(one) <= pad:
            low = middle
        else:
            high = middle - 1
    return low


def _more(length: int) -> int:
    return 0 if length < 15 else 1 + (length - 15) // 255


def _size(one: _Sequence) -> int:
    size = 1 + _more(one.literals) + one.literals
    return size + 2 + _more(one.match - _LEAST_MATCH) if one.match else size


def _sequences(block: bytes) -> list[_Sequence]:
    found, at = [], 0
    while at < len(block):
        token = block[at]
        literals, at = _length(block, at + 1, token >> 4)
        at += literals
        if at >= len(block):
            found.append(_Sequence(literals, 0, 0))
            break
        distance = int.from_bytes(block[at : at + 2], "little")
        match, at = _length(block, at + 2, token & 15)
        found.append(_Sequence(literals, match + _LEAST_MATCH, distance))
    return found


def _length(block: bytes, at: int, length: int) -> tuple[int, int]:
    if length == 15:
        while block[at] == 255:
            length, at = length + 255, at + 1
        length, at = length + block[at], at + 1
    return length, at


def _block(sequences: list[_Sequence], raw: bytes) -> bytes:
    out, start = bytearray(), 0
    for one in sequences:
        match = one.match - _LEAST_MATCH if one.match else 0
        out.append(min(one.literals, 15) << 4 | min(match, 15))
        out += _extension(one.literals) + raw[start : start + one.literals]
        if one.match:
            out += one.distance.to_bytes(2, "little") + _extension(match)
        start += one.literals + one.match
    return bytes(out)


def _extension(length: int) -> bytes:
    if length < 15:
        return b""
    full, rest = divmod(length - 15, 255)
    return b"\xff" * full + bytes((rest,))


_PADDED = {Codec.GZIP: _gzip, Codec.ZSTD: _zstd, Codec.LZ4: _lz4}
