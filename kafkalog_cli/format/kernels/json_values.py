"""JSON values in text that ends in a newline (no value contains one): strings, base64, integers; compiled."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
import numpy as np

from kafkalog_cli.format.kernels.compiling import inlined, kernel
from kafkalog_cli.format.kernels.machine import load_u64_le, trailing_zeros
from kafkalog_cli.format.kernels.memory import copy

ODD = np.int64(-1)
"""Returned instead of a position: the text is wrong, or not as kafkalog prints it."""
QUOTE, BACKSLASH, COMMA, COLON, NEWLINE = ord('"'), ord("\\"), ord(","), ord(":"), ord("\n")
OPEN, CLOSE, OPEN_LIST, CLOSE_LIST = ord("{"), ord("}"), ord("["), ord("]")

_EACH, _HIGH = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_QUOTES, _BACKSLASHES = np.uint64(QUOTE) * _EACH, np.uint64(BACKSLASH) * _EACH
_BLANKS = np.uint64(32) * _EACH


@inlined
def behind_blanks(text, at):
    """Return the position after spaces, tabs and carriage returns."""
    while text[at] == 32 or text[at] == 9 or text[at] == 13:
        at += 1
    return at


@kernel
def behind(text, at, names, word):
    """Return the position after the word at `word` in `names`; ODD if the text has another word.

    A space ends each word. Eight bytes are compared at a time: a difference counts only before that space.
    """
    while True:
        here = load_u64_le(names, word)
        blanks = here ^ _BLANKS
        size = np.int64(trailing_zeros((blanks - _EACH) & ~blanks & _HIGH) >> np.uint64(3))
        if np.int64(trailing_zeros(here ^ load_u64_le(text, at)) >> np.uint64(3)) < size:
            return ODD
        at += size
        if size < 8:
            return np.int64(at)
        word += 8


@inlined
def behind_char(text, at, char):
    """Return the position after a character and the blanks around it; ODD if the text has another character."""
    at = behind_blanks(text, at)
    if text[at] != char:
        return ODD
    return np.int64(behind_blanks(text, at + 1))


@inlined
def plain_chars(text, at):
    """Return how many of the 8 bytes from `at` on come before a quote, a backslash, a control or a non-ASCII byte.

    The expression sets the highest bit of each such byte. The subtractions set it by a borrow: of a control, which is
    below 32, and of a byte whose xor with the quote or backslash is 0. A borrow can make a higher byte wrong, but the
    lowest set bit is right.
    """
    word = load_u64_le(text, at)
    found = word | (word - _BLANKS) | ((word ^ _QUOTES) - _EACH) | ((word ^ _BACKSLASHES) - _EACH)
    return np.int64(trailing_zeros(found & _HIGH) >> np.uint64(3))


@inlined
def _hex_digit(char):
    if 48 <= char <= 57:
        return np.int64(char) - 48
    if 97 <= char <= 102:
        return np.int64(char) - 87
    if 65 <= char <= 70:
        return np.int64(char) - 55
    return ODD


@inlined
def _unit(text, at):
    """Return the number that four hexadecimal digits spell; ODD if they are not hexadecimal digits."""
    value = np.int64(0)
    for index in range(4):
        digit = _hex_digit(text[at + index])
        if digit < 0:
            return ODD
        value = value * 16 + digit
    return value


@inlined
def _put_utf_8(out, to, point):
    if point < 0x80:
        out[to] = np.uint8(point)
        return to + 1
    if point < 0x800:
        out[to] = np.uint8(0xC0 | point >> 6)
        out[to + 1] = np.uint8(0x80 | point & 0x3F)
        return to + 2
    if point < 0x10000:
        out[to] = np.uint8(0xE0 | point >> 12)
        out[to + 1] = np.uint8(0x80 | point >> 6 & 0x3F)
        out[to + 2] = np.uint8(0x80 | point & 0x3F)
        return to + 3
    out[to] = np.uint8(0xF0 | point >> 18)
    out[to + 1] = np.uint8(0x80 | point >> 12 & 0x3F)
    out[to + 2] = np.uint8(0x80 | point >> 6 & 0x3F)
    out[to + 3] = np.uint8(0x80 | point & 0x3F)
    return to + 4


@kernel
def _escaped(text, at, out, to):
    """Write the character of the escape sequence at `at` to `out`.

    Returns (the position after it or ODD, the position in `out`).
    """
    char = text[at + 1]
    if char == 117:  # u
        point = _unit(text, at + 2)
        at += 6
        if point >= 0xDC00 and point <= 0xDFFF:
            return ODD, to
        if point >= 0xD800 and point <= 0xDBFF:
            if text[at] != BACKSLASH or text[at + 1] != 117:
                return ODD, to
            low = _unit(text, at + 2)
            if low < 0xDC00 or low > 0xDFFF:
                return ODD, to
            point = 0x10000 + ((point - 0xD800) << 10) + low - 0xDC00
            at += 6
        if point < 0:
            return ODD, to
        return np.int64(at), _put_utf_8(out, to, point)
    value = np.int64(-1)
    if char in (QUOTE, BACKSLASH, 47):
        value = np.int64(char)
    elif char == 98:
        value = np.int64(8)
    elif char == 102:
        value = np.int64(12)
    elif char == 110:
        value = np.int64(10)
    elif char == 114:
        value = np.int64(13)
    elif char == 116:
        value = np.int64(9)
    if value < 0:
        return ODD, to
    out[to] = np.uint8(value)
    return np.int64(at + 2), to + 1


@kernel
def _behind_sequence(text, at):
    """Return the position after a multi-byte character of UTF-8 (RFC 3629); ODD if the bytes are not one."""
    first, more = text[at], np.int64(1)
    low, high = np.uint8(0x80), np.uint8(0xBF)
    if 0xC2 <= first <= 0xDF:
        pass
    elif 0xE0 <= first <= 0xEF:
        more = np.int64(2)
        if first == 0xE0:
            low = np.uint8(0xA0)
        elif first == 0xED:  # surrogates are not legal in UTF-8
            high = np.uint8(0x9F)
    elif 0xF0 <= first <= 0xF4:
        more = np.int64(3)
        if first == 0xF0:
            low = np.uint8(0x90)
        elif first == 0xF4:
            high = np.uint8(0x8F)
    else:
        return ODD
    if text[at + 1] < low or text[at + 1] > high:
        return ODD
    for index in range(2, more + 1):
        if text[at + index] < 0x80 or text[at + index] > 0xBF:
            return ODD
    return np.int64(at + more + 1)


@kernel
def string(text, at, out, to):
    """Write the string that starts at `at`, after its quote: return (the position after it or ODD, that in `out`).

    Up to 8 bytes more than the string may be written to `out`.
    """
    while True:
        copy(out, to, text, at, 8)
        plain = plain_chars(text, at)
        at += plain
        to += plain
        char = text[at]
        if plain == 8:
            continue
        if char == QUOTE:
            return np.int64(at + 1), to
        if char < 32:
            return ODD, to
        if char == BACKSLASH:
            at, to = _escaped(text, at, out, to)
            if at < 0:
                return ODD, to
        else:
            end = _behind_sequence(text, at)
            if end < 0:
                return ODD, to
            while at < end:
                out[to] = text[at]
                at += 1
                to += 1


@inlined
def _sextet(char):
    if 65 <= char <= 90:
        return np.int64(char) - 65
    if 97 <= char <= 122:
        return np.int64(char) - 71
    if 48 <= char <= 57:
        return np.int64(char) + 4
    if char == 43:
        return np.int64(62)
    if char == 47:
        return np.int64(63)
    return ODD


@kernel
def base64(text, at, out, to):
    """Decode a base64 string as `string` does. All padding must be present, and unused bits must be 0."""
    while text[at] != QUOTE:
        first = _sextet(text[at])
        if first < 0:
            return ODD, to
        second = _sextet(text[at + 1])
        if second < 0:
            return ODD, to
        out[to] = np.uint8(first << 2 | second >> 4)
        to += 1
        if text[at + 2] == 61:  # =
            if text[at + 3] != 61 or text[at + 4] != QUOTE or second & 15:
                return ODD, to
            return np.int64(at + 5), to
        third = _sextet(text[at + 2])
        if third < 0:
            return ODD, to
        out[to] = np.uint8((second & 15) << 4 | third >> 2)
        to += 1
        if text[at + 3] == 61:
            if text[at + 4] != QUOTE or third & 3:
                return ODD, to
            return np.int64(at + 5), to
        fourth = _sextet(text[at + 3])
        if fourth < 0:
            return ODD, to
        out[to] = np.uint8((third & 3) << 6 | fourth)
        to += 1
        at += 4
    return np.int64(at + 1), to


@kernel
def number(text, at):
    """Parse an integer: return (the position after it or ODD, its value, its number of digits)."""
    is_negative = text[at] == 45
    if is_negative:
        at += 1
    start, value = at, np.int64(0)
    while 48 <= text[at] <= 57:
        value = value * 10 + np.int64(text[at]) - 48
        at += 1
    digits = np.int64(at - start)
    if digits == 0 or (text[start] == 48 and digits > 1) or text[at] in (46, 69, 101):  # . E e
        return ODD, value, digits
    return np.int64(at), -value if is_negative else value, digits
