"""Compiled pieces of JSON: strings as `json_text` writes them, strict UTF-8, base64."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
import numpy as np

from kafkalog_cli.format.kernels.compiling import inlined, kernel
from kafkalog_cli.format.kernels.machine import load_u64_be
from kafkalog_cli.format.kernels.memory import copy
from kafkalog_cli.output.kernels.memory import BLOCK_BYTES, copy_block, first_mark, marks, put, store_u64_le
from kafkalog_cli.output.kernels.text import UTF8_SPECIAL, UTF8_WRONG, check_utf8, constant, continues, inside_marks

ESCAPED_BYTES = 6
"""The most bytes that one byte of a string becomes."""
FIELD_BYTES = 96
"""Room for the text around the contents of a field."""

_UTF8 = constant('{"encoding":"utf-8","data":"')
_BASE64 = constant('{"encoding":"base64","data":"')
_END = constant('"}')
_NULL = constant("null")

_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_PAIRS = np.array([first | second << 8 for first in _ALPHABET for second in _ALPHABET], dtype=np.uint16)
"""The two characters of twelve bits, the first in the lower byte."""
_TWELVE_BITS = np.uint64(0xFFF)

_ESCAPES = np.zeros(0xA0, dtype=np.uint64)
_ESCAPE_SIZES = np.full(0xA0, ESCAPED_BYTES, dtype=np.int64)
"""The escape of a byte or C1 control, with its first byte in the lowest bits, and its length."""
for _code in range(0xA0):
    _ESCAPES[_code] = int.from_bytes(b"\\u%04x" % _code, "little")
for _code, _letter in zip(b'"\\\b\f\n\r\t', b'"\\bfnrt', strict=True):
    _ESCAPES[_code] = int.from_bytes((92, _letter), "little")
    _ESCAPE_SIZES[_code] = 2
_ESCAPED = (0x00, 0x1F, 0x22, 0x22, 0x5C, 0x5C, 0x7F, 0x7F)
"""Ranges of the ASCII bytes that are escaped."""
_SEPARATORS = constant("\\u2028\\u2029")


@inlined
def _put_escape(out, at, code):
    """Append an escape. Stores up to 8 bytes."""
    store_u64_le(out, at, _ESCAPES[code])
    return at + _ESCAPE_SIZES[code]


@kernel
def _put_escaped_code(out, at, code):
    if code < 0xA0:
        return _put_escape(out, at, code)
    copy(out, at, _SEPARATORS, (code & 1) * ESCAPED_BYTES, ESCAPED_BYTES)
    return at + ESCAPED_BYTES


@kernel
def _character_bytes(buffer, here, end):
    """Return the length of the character at `here` in strict UTF-8; 0 if there is none."""
    first = buffer[here]
    if first < 0x80:
        return 1
    if first < 0xC2 or first > 0xF4 or not continues(buffer, here + 1, end):
        return 0
    if first < 0xE0:
        return 2
    second = buffer[here + 1]
    if not continues(buffer, here + 2, end):
        return 0
    if first < 0xF0:
        overlong, surrogate = first == 0xE0 and second < 0xA0, first == 0xED and second >= 0xA0
        return 0 if overlong or surrogate else 3
    overlong, beyond = first == 0xF0 and second < 0x90, first == 0xF4 and second > 0x8F
    return 0 if overlong or beyond or not continues(buffer, here + 3, end) else 4


_AS_IT_IS = -1


@inlined
def _escaped_code(buffer, here, size):
    """Return the code point of a character of `size` bytes if it is escaped, else _AS_IT_IS.

    JSON requires this for C0 controls, quotes and backslashes; kafkalog adds DEL, C1 controls, U+2028 and U+2029.
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
    """Append the inside of a JSON string byte by byte; return the next position, -1 if the bytes are not UTF-8."""
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
            at = _put_escaped_code(out, at, code)
        here += size
    return at


@kernel
def _put_with_escapes(out, at, buffer, start, size, escapes):
    """Append a block whose ASCII bytes that need escapes are marked; it has already been copied without escapes."""
    here = np.int64(0)
    while escapes:
        place = first_mark(escapes)
        at = _put_escape(out, at + place - here, buffer[start + place])
        here = place + 1
        copy_block(out, at, buffer, start + here)
        escapes &= escapes - np.uint64(1)
    return at + size - here


@kernel
def _put_escaped(out, at, buffer, start, end):
    """Append the inside of a JSON string; return the next position, -1 if the bytes are not UTF-8.

    Loads and stores whole blocks, also past the end of the field: `out` needs room for one more block.
    """
    if end + BLOCK_BYTES > len(buffer):
        return _put_slowly(out, at, buffer, start, end)
    first = at
    owed = np.uint64(0)
    for here in range(start, end, BLOCK_BYTES):
        copy_block(out, at, buffer, here)
        size = min(end - here, BLOCK_BYTES)
        inside = inside_marks(size)
        wide = marks(buffer, here, (0x80, 0xFF)) & inside
        if wide | owed:
            answer, owed = check_utf8(buffer, here, inside, wide, owed)
            if answer == UTF8_WRONG:
                return np.int64(-1)
            if answer == UTF8_SPECIAL:
                return _put_slowly(out, first, buffer, start, end)
        escapes = marks(buffer, here, _ESCAPED)
        escapes &= inside
        at = _put_with_escapes(out, at, buffer, here, size, escapes) if escapes else at + size
    return np.int64(-1) if owed else at


@inlined
def _base64_pair(bits, shift):
    return np.uint64(_PAIRS[(bits >> np.uint64(shift)) & _TWELVE_BITS])


@inlined
def _base64_quad(bits, shift):
    """Return the four characters of the 24 bits from `shift` on."""
    return _base64_pair(bits, shift + 12) | (_base64_pair(bits, shift) << np.uint64(16))


@kernel
def _put_base64(out, at, buffer, start, end):
    """Append buffer[start:end] as base64; return the next position. Stores up to 8 bytes after it."""
    here = start
    while here + 6 <= end and here + 8 <= len(buffer):
        bits = load_u64_be(buffer, here) >> np.uint64(16)
        store_u64_le(out, at, _base64_quad(bits, 24) | (_base64_quad(bits, 0) << np.uint64(32)))
        here += 6
        at += 8
    while here < end:
        bits = np.uint64(buffer[here]) << np.uint64(16)
        if here + 1 < end:
            bits |= np.uint64(buffer[here + 1]) << np.uint64(8)
        if here + 2 < end:
            bits |= np.uint64(buffer[here + 2])
        store_u64_le(out, at, _base64_quad(bits, 0))
        here += 3
        at += 4
    for index in range(here - end):
        out[at - 1 - index] = 61
    return at


@kernel
def put_field(out, at, buffer, start, size):
    """Append bytes as an object: text if they are UTF-8, else base64; null for a negative size."""
    if size < 0:
        return put(out, at, _NULL)
    end = _put_escaped(out, put(out, at, _UTF8), buffer, start, start + size)
    if end < 0:
        end = _put_base64(out, put(out, at, _BASE64), buffer, start, start + size)
    return put(out, end, _END)


@inlined
def field_room(size):
    """Return the most bytes that a field of this size can take."""
    return FIELD_BYTES + ESCAPED_BYTES * max(size, 0)


@kernel
def measured_room(buffer, start, size):
    """Return the bytes that a field needs for its contents: used if `field_room` is too much to reserve."""
    room = np.int64(FIELD_BYTES)
    here, end = start, start + size
    while here < end:
        good = _character_bytes(buffer, here, end)
        if good == 0:
            break
        room += good if _escaped_code(buffer, here, good) == _AS_IT_IS else ESCAPED_BYTES
        here += good
    return max(room, FIELD_BYTES + size * 4 // 3 + 4)
