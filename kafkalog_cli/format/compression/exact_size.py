"""Compresses to a given number of bytes: valid streams that are longer than they have to be.

gzip gets a file name in its header, and zstd a skippable frame or empty blocks. Snappy and lz4 get literals in the
place of copies. Kafka's Java reads all of them.
"""

import struct
from typing import NamedTuple

from kafkalog_cli.format.compression import Codec, compress

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
        moved = _fitting_move(one, max(most, 0), pad)
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


_HEADER_BYTES = 16
_BLOCK_BYTES = 32 << 10


class _Element(NamedTuple):
    """A part of a block: its bytes of output, and its own bytes as a copy; b"" for a literal."""

    size: int
    copy: bytes


def grown_snappy(stream: bytes, data: bytes, size_bytes: int, *, is_bare: bool) -> bytes | None:
    """Return the stream of xerial's blocks of `data` with exactly `size_bytes`, or one block without framing.

    None if there is no way: it is too long already, or cannot be made so long.
    """
    if is_bare:
        blocks, head, frame = [_compressed(data)], b"", 0
        parts = [data]
    else:
        blocks, head, frame = _blocks(stream), stream[:_HEADER_BYTES], 4
        parts = [data[at : at + _BLOCK_BYTES] for at in range(0, len(data), _BLOCK_BYTES)]
    pad = size_bytes - len(head) - sum(len(block) + frame for block in blocks)
    if pad < 0 or len(blocks) != len(parts):
        return None
    out = bytearray(head)
    for block, raw in zip(blocks, parts, strict=True):
        grown = _grown(block, raw, pad) if pad else block
        pad -= len(grown) - len(block)
        out += (struct.pack(">I", len(grown)) if frame else b"") + grown
    return None if pad else bytes(out)


def _compressed(data: bytes) -> bytes:
    import cramjam

    return bytes(cramjam.snappy.compress_raw(data))


def _blocks(stream: bytes) -> list[bytes]:
    found, at = [], _HEADER_BYTES
    while at < len(stream):
        size = int.from_bytes(stream[at : at + 4], "big")
        found.append(stream[at + 4 : at + 4 + size])
        at += 4 + size
    return found


def _grown(block: bytes, raw: bytes, pad: int) -> bytes:
    """Return the block of `raw` with at most `pad` more bytes."""
    at = next(at for at, byte in enumerate(block) if byte < 0x80) + 1  # after the length of the output
    pieces: list[_Element] = []
    room = 0
    for one in _elements(block, at):
        made = [one]
        if one.copy and room < pad:
            made = _with_literal(one, pad)
        pad -= sum(map(_own_size, made)) - _own_size(one)
        room += sum(_most_pieces(each.size) for each in made if not each.copy)
        pieces += made
    return block[:at] + _written(pieces, raw, pad)


def _own_size(one: _Element) -> int:
    return len(one.copy) or one.size + _tag(one.size)


def _with_literal(one: _Element, pad: int) -> list[_Element]:
    """Return a copy as a literal, or a literal and the rest as a copy, with at most `pad` more bytes."""
    if one.size + _tag(one.size) - len(one.copy) <= pad:
        return [_Element(one.size, b"")]
    first = min(one.size - 1, 60, pad - 1 - (3 - len(one.copy)))
    if first < 1 or len(one.copy) > 3:
        return [one]
    distance = (
        (one.copy[0] >> 5) << 8 | one.copy[1] if one.copy[0] & 3 == 1 else int.from_bytes(one.copy[1:3], "little")
    )
    rest = bytes((one.size - first - 1 << 2 | 2,)) + distance.to_bytes(2, "little")
    return [_Element(first, b""), _Element(one.size - first, rest)]


def _written(pieces: list[_Element], raw: bytes, pad: int) -> bytes:
    out, position = bytearray(), 0
    for size, copy in pieces:
        if copy:
            out += copy
        else:
            single = min(pad, _most_pieces(size))  # each literal of one byte adds its tag
            pad -= single
            for byte in raw[position : position + single]:
                out += bytes((0, byte))
            out += _literal(raw[position + single : position + size])
        position += size
    return bytes(out)


def _most_pieces(size: int) -> int:
    """Return how many bytes of a literal may get a tag of their own, with no change of the size of its own tag."""
    least = {1: 1, 2: 61, 3: 257, 4: 65537}[_tag(size)]
    return size - least


def _tag(size: int) -> int:
    """Return the size of a literal's tag."""
    return 1 if size <= 60 else 2 if size <= 256 else 3 if size <= 65536 else 4


def _literal(data: bytes) -> bytes:
    length, tag = len(data) - 1, _tag(len(data))
    head = bytes((length << 2,)) if tag == 1 else bytes((58 + tag << 2,)) + length.to_bytes(tag - 1, "little")
    return head + data


def _elements(block: bytes, at: int) -> list[_Element]:
    found = []
    while at < len(block):
        kind, upper = block[at] & 3, block[at] >> 2
        if kind == 0:
            more = max(upper - 59, 0)
            size = (int.from_bytes(block[at + 1 : at + 1 + more], "little") if more else upper) + 1
            found.append(_Element(size, b""))
            at += 1 + more + size
        else:
            width = (0, 2, 3, 5)[kind]
            found.append(_Element((upper & 7) + 4 if kind == 1 else upper + 1, block[at : at + width]))
            at += width
    return found
