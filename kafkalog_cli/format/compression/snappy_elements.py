"""Snappy blocks that are longer than they have to be: literals in the place of copies, and literals in pieces."""

from __future__ import annotations

import struct
from typing import NamedTuple

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
    low = one.copy[1] if len(one.copy) > 1 else 0
    distance = (one.copy[0] >> 5) << 8 | low if one.copy[0] & 3 == 1 else int.from_bytes(one.copy[1:3], "little")
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
