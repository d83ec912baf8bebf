"""Compiled pieces of JSON: strings as `json_text` writes them, strict UTF-8, base64."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
from __future__ import annotations

import numpy as np

from kafkalog_cli.format.kernels.compiling import inlined, kernel
from kafkalog_cli.output.kernels.memory import BLOCK_BYTES, copy_block, first_mark, marks, put
from kafkalog_cli.output.kernels.text import constant

ESCAPED_BYTES = 6
"""Bytes that one byte of a string becomes at most."""
FIELD_BYTES = 96
"""Room for what stands around the contents of a field."""

_HEX = constant("0123456789abcdef")
_UTF8 = constant('{"encoding":"utf-8","data":"')
_BASE64 = constant('{"encoding":"base64","data":"')
_END = constant('"}')
_NULL = constant("null")

_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_PAIRS = np.frombuffer(b"".join(bytes((a, b)) for a in _ALPHABET for b in _ALPHABET), dtype=np.uint8)
"""The two characters of twelve bits."""

_SHORT = np.zeros(128, dtype=np.uint8)
"""Bytes that follow a backslash as one character."""
for _byte, _letter in zip(b'"\\\b\f\n\r\t', b'"\\bfnrt', strict=True):
    _SHORT[_byte] = _letter


@kernel
def _put_escape(out, at, code):
    out[at] = 92
    if code < 128 and _SHORT[code]:
        out[at + 1] = _SHORT[code]
        return at + 2
    out[at + 1] = 117
    out[at + 2] = _HEX[code >> 12]
    out[at + 3] = _HEX[(code >> 8) & 15]
    out[at + 4] = _HEX[(code >> 4) & 15]
    out[at + 5] = _HEX[code & 15]
    return at + 6


@inlined
def _continues(buffer, here, end):
    return here < end and (buffer[here] & 0xC0) == 0x80


@kernel
def _character_bytes(buffer, here, end):
    """Length of the character at `here` in strict UTF-8, 0 if there is none."""
    first = buffer[here]
    if first < 0x80:
        return 1
    if first < 0xC2 or first > 0xF4 or not _continues(buffer, here + 1, end):
        return 0
    if first < 0xE0:
        return 2
    second = buffer[here + 1]
    if not _continues(buffer, here + 2, end):
        return 0
    if first < 0xF0:
        overlong, surrogate = first == 0xE0 and second < 0xA0, first == 0xED and second >= 0xA0
        return 0 if overlong or surrogate else 3
    overlong, beyond = first == 0xF0 and second < 0x90, first == 0xF4 and second > 0x8F
    return 0 if overlong or beyond or not _continues(buffer, here + 3, end) else 4


_AS_IT_IS = -1


@inlined
def _escaped_code(buffer, here, size):
    """The code point of a character of `size` bytes if it is escaped, else _AS_IT_IS.

    JSON wants it for C0 controls, quotes and backslashes; DEL, C1 controls, U+2028 and U+2029 are ours.
    """
    byte = np.int64(buffer[here])
    if size == 1 and (byte < 0x20 or byte in (0x22, 0x5C, 0x7F)):
        return byte
    if size == 2 and byte == 0xC2 and buffer[here + 1] < 0xA0:
        return np.int64(buffer[here + 1])
    if size == 3 and byte == 0xE2 and buffer[here + 1] == 0x80 and (buffer[here + 2] | 1) == 0xA9:
        return np.int64(0x2000) + np.int64(buffer[here + 2]) - 0x80
    return np.int64(_AS_IT_IS)


@kernel
def _put_slowly(out, at, buffer, here, end):
    """The inside of a JSON string, byte by byte; the next position, -1 where the bytes are not UTF-8."""
    while here < end:
        size = _character_bytes(buffer, here, end)
        if size == 0:
            return np.int64(-1)
        code = _escaped_code(buffer, here, size)
        if code == _AS_IT_IS:
            for index in range(size):
                out[at + index] = buffer[here + index]
            at += size
        else:
            at = _put_escape(out, at, code)
        here += size
    return at


@kernel
def _put_with_escapes(out, at, buffer, start, size, escapes):
    """A block whose ASCII bytes that JSON escapes are marked."""
    here = np.int64(0)
    while escapes:
        place = first_mark(escapes)
        at = _put_escape(out, at + place - here, np.int64(buffer[start + place]))
        here = place + 1
        copy_block(out, at, buffer, start + here)
        escapes &= escapes - np.uint64(1)
    return at + size - here


@inlined
def _marks_up_to(size):
    return (np.uint64(1) << np.uint64(size)) - np.uint64(1)


_UTF8_WRONG, _UTF8_RIGHT, _UTF8_ESCAPED = -1, 0, 1


@kernel
def _check_utf8(buffer, here, inside, behind):
    """Whether a block of a field is strict UTF-8 so far; if so, whether a sequence of several bytes is escaped.

    `inside` marks what belongs to the field; `behind` too, without its first, second and third byte if the block
    is the first: what their bytes follow is not of the field.
    """
    leads = marks(buffer, here, 0xC2, 0xF4)
    followers = marks(buffer, here, 0x80, 0xBF) & inside
    expected = marks(buffer, here - 1, 0xC2, 0xF4) & behind[0]
    expected |= marks(buffer, here - 2, 0xE0, 0xF4) & behind[1]
    expected |= marks(buffer, here - 3, 0xF0, 0xF4) & behind[2]
    wrong = (expected ^ followers) | ((marks(buffer, here, 0x80, 0xFF) ^ (leads | followers)) & inside)
    # Overlong sequences, surrogates, and what is beyond U+10FFFF: told by the second byte.
    second = followers & behind[0]
    low = marks(buffer, here, 0x80, 0x9F)
    lowest = marks(buffer, here, 0x80, 0x8F)
    wrong |= marks(buffer, here - 1, 0xE0, 0xE0) & second & low
    wrong |= marks(buffer, here - 1, 0xED, 0xED) & second & ~low
    wrong |= marks(buffer, here - 1, 0xF0, 0xF0) & second & lowest
    wrong |= marks(buffer, here - 1, 0xF4, 0xF4) & second & ~lowest
    if wrong:
        return _UTF8_WRONG
    escaped = marks(buffer, here - 1, 0xC2, 0xC2) & second & low
    separators = marks(buffer, here - 2, 0xE2, 0xE2) & marks(buffer, here - 1, 0x80, 0x80) & behind[1]
    escaped |= separators & marks(buffer, here, 0xA8, 0xA9)
    return _UTF8_ESCAPED if escaped else _UTF8_RIGHT


@kernel
def _ends_in_sequence(buffer, start, end):
    """Whether the last sequence of a field lacks bytes."""
    if buffer[end - 1] >= 0xC0:
        return True
    if end - 2 >= start and buffer[end - 2] >= 0xE0:
        return True
    return end - 3 >= start and buffer[end - 3] >= 0xF0


@kernel
def _put_escaped(out, at, buffer, start, end):
    """The inside of a JSON string; the next position, -1 where the bytes are not UTF-8.

    Loads and stores whole blocks, past the end of the field too: `out` has room for one more.
    """
    if start < 3 or end + BLOCK_BYTES > len(buffer):
        return _put_slowly(out, at, buffer, start, end)
    first = at
    is_wide = False
    for here in range(start, end, BLOCK_BYTES):
        copy_block(out, at, buffer, here)
        size = min(end - here, BLOCK_BYTES)
        inside = _marks_up_to(size)
        if is_wide or marks(buffer, here, 0x80, 0xFF) & inside:
            new = ~np.uint64(0) if here > start else ~np.uint64(7)
            behind = inside & (new | np.uint64(6)), inside & (new | np.uint64(4)), inside & new
            answer = _check_utf8(buffer, here, inside, behind)
            if answer == _UTF8_WRONG:
                return np.int64(-1)
            if answer == _UTF8_ESCAPED:
                return _put_slowly(out, first, buffer, start, end)
            is_wide = True
        escapes = marks(buffer, here, 0x00, 0x1F) | marks(buffer, here, 0x22, 0x22)
        escapes |= marks(buffer, here, 0x5C, 0x5C) | marks(buffer, here, 0x7F, 0x7F)
        escapes &= inside
        at = _put_with_escapes(out, at, buffer, here, size, escapes) if escapes else at + size
    return np.int64(-1) if is_wide and _ends_in_sequence(buffer, start, end) else at


@kernel
def _put_base64(out, at, buffer, start, end):
    here = start
    while here + 3 <= end:
        bits = (np.int64(buffer[here]) << 16) | (np.int64(buffer[here + 1]) << 8) | np.int64(buffer[here + 2])
        high, low = (bits >> 12) * 2, (bits & 0xFFF) * 2
        out[at] = _PAIRS[high]
        out[at + 1] = _PAIRS[high + 1]
        out[at + 2] = _PAIRS[low]
        out[at + 3] = _PAIRS[low + 1]
        here += 3
        at += 4
    if here < end:
        bits = np.int64(buffer[here]) << 16
        if here + 1 < end:
            bits |= np.int64(buffer[here + 1]) << 8
        high, low = (bits >> 12) * 2, (bits & 0xFFF) * 2
        out[at] = _PAIRS[high]
        out[at + 1] = _PAIRS[high + 1]
        out[at + 2] = _PAIRS[low] if here + 1 < end else 61
        out[at + 3] = 61
        at += 4
    return at


@kernel
def put_field(out, at, buffer, start, size):
    """Bytes as an object: text where they are UTF-8, else base64; null for a negative size."""
    if size < 0:
        return put(out, at, _NULL)
    end = _put_escaped(out, put(out, at, _UTF8), buffer, start, start + size)
    if end < 0:
        end = _put_base64(out, put(out, at, _BASE64), buffer, start, start + size)
    return put(out, end, _END)


@inlined
def field_room(size):
    """Bytes that a field of this size takes at most."""
    return FIELD_BYTES + ESCAPED_BYTES * max(size, 0)


@kernel
def measured_room(buffer, start, size):
    """Bytes that a field needs, by its contents: for a field that is too large to reserve the most."""
    room = np.int64(FIELD_BYTES)
    here, end = start, start + size
    while here < end:
        good = _character_bytes(buffer, here, end)
        if good == 0:
            break
        room += good if _escaped_code(buffer, here, good) == _AS_IT_IS else ESCAPED_BYTES
        here += good
    return max(room, FIELD_BYTES + size * 4 // 3 + 4)
