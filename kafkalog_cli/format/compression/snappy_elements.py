"""Snappy blocks that are longer than they have to be: literals in the place of copies, and literals in pieces."""

from __future__ import annotations

import struct

_HEADER_BYTES = 16
_BLOCK_BYTES = 32 << 10

_Element = tuple[int, int]
"""An element: its bytes of output, and its own size as a copy; 0 for a literal."""


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
    elements, room = _elements(block, at), 0
    pieces: list[_Element] = []
    for size, copy in elements:
        if copy and room < pad and (growth := size + _tag(size) - copy) <= pad - room:
            pad, copy = pad - growth, 0
        room += 0 if copy else _most_pieces(size)
        pieces.append((size, copy))
    return block[:at] + _written(block, at, raw, pieces, elements, pad)


def _written(block: bytes, at: int, raw: bytes, pieces: list[_Element], elements: list[_Element], pad: int) -> bytes:  # noqa: PLR0913, PLR0917
    out, position = bytearray(), 0
    for (size, copy), (_, old_copy) in zip(pieces, elements, strict=True):
        old = old_copy or size + _tag(size)
        if copy:
            out += block[at : at + copy]
        else:
            single = min(pad, _most_pieces(size))  # each literal of one byte adds its tag
            pad -= single + (_tag(size - single) - _tag(size))
            for byte in raw[position : position + single]:
                out += bytes((0, byte))
            out += _literal(raw[position + single : position + size])
        at += old
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
            found.append((size, 0))
            at += 1 + more + size
        else:
            width = (0, 2, 3, 5)[kind]
            found.append(((upper & 7) + 4 if kind == 1 else upper + 1, width))
            at += width
    return found
