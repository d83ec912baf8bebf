"""Compiled pieces of text: decimal numbers, constants, and UTF-8 as Java decodes it."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

import numpy as np

from kafkalog_cli.format.kernels.compiling import inlined, kernel
from kafkalog_cli.format.kernels.memory import copy
from kafkalog_cli.output.kernels.memory import BLOCK_BYTES, copy_block, first_mark, marks, put, store_u64_le

UTF8_WRONG, UTF8_RIGHT, UTF8_SPECIAL = -1, 0, 1
"""The results for a block; special: it has C1 controls, U+2028 or U+2029, which JSON text escapes."""

_SPECIAL_LEADS = (0xC2, 0xC2, 0xE0, 0xE0, 0xE2, 0xE2, 0xED, 0xED)
"""Ranges of lead bytes after which not every byte is valid or may stay unescaped (besides leads of four bytes)."""


@kernel
def _check_second_bytes(buffer, here, leads):
    """Check the second bytes of sequences with a marked lead; return UTF8_WRONG, UTF8_RIGHT or UTF8_SPECIAL.

    A sequence may be cut off by the end of the field; it is wrong then, whatever the result here.
    """
    answer = UTF8_RIGHT
    while leads:
        lead = here + first_mark(leads)
        first, second = buffer[lead], buffer[lead + 1]
        overlong = (first == 0xE0 and second < 0xA0) or (first == 0xF0 and second < 0x90)
        surrogate_or_beyond = (first == 0xED and second >= 0xA0) or (first == 0xF4 and second >= 0x90)
        if overlong or surrogate_or_beyond:
            return UTF8_WRONG
        separator = first == 0xE2 and second == 0x80 and (buffer[lead + 2] | 1) == 0xA9
        if separator or (first == 0xC2 and second < 0xA0):
            answer = UTF8_SPECIAL
        leads &= leads - np.uint64(1)
    return answer


@kernel
def check_utf8(buffer, here, inside, wide, owed):
    """Check the bytes of a block that are not ASCII; return the result, and the `owed` of the next block.

    `inside` marks the bytes of the field, `wide` its bytes that are not ASCII, `owed` the places where sequences of the
    previous block must continue.
    """
    followers = marks(buffer, here, (0x80, 0xBF)) & inside
    two = marks(buffer, here, (0xC2, 0xDF)) & inside
    three = marks(buffer, here, (0xE0, 0xEF)) & inside
    four = marks(buffer, here, (0xF0, 0xF4)) & inside
    longer = three | four
    leads = two | longer
    owed |= (leads << np.uint64(1)) | (longer << np.uint64(2)) | (four << np.uint64(3))
    # Bytes owed after the end of the field have no follower there either.
    if (owed ^ followers) | (wide ^ (leads | followers)):
        return UTF8_WRONG, np.uint64(0)
    owed = (leads >> np.uint64(63)) | (longer >> np.uint64(62)) | (four >> np.uint64(61))
    special = four | marks(buffer, here, _SPECIAL_LEADS)
    special &= inside
    return _check_second_bytes(buffer, here, special) if special else UTF8_RIGHT, owed


@inlined
def inside_marks(size):
    """Return marks for the first `size` bytes of a block, at least one."""
    return ~np.uint64(0) >> np.uint64(BLOCK_BYTES - size)


_PAIRS = np.frombuffer(b"".join(b"%02d" % number for number in range(100)), dtype=np.uint8)
_TEN, _HUNDRED, _EIGHT_DIGITS = np.uint64(10), np.uint64(100), np.uint64(100_000_000)
_ASCII_ZEROS = np.uint64(0x3030303030303030)
_LAST_DIGIT = np.uint64(1 << 56)
"""Set in the last digit even if it is 0, so that it is never taken for a leading zero."""


def constant(text: str) -> np.ndarray:
    """Return text as an array that a kernel can hold."""
    return np.frombuffer(text.encode(), dtype=np.uint8)


_TRUE, _FALSE = constant("true"), constant("false")
_NONE, _GZIP, _SNAPPY = constant("none"), constant("gzip"), constant("snappy")
_LZ4, _ZSTD = constant("lz4"), constant("zstd")
_MAX_INT32 = (1 << 31) - 1


@inlined
def put_bool(out, at, value):
    """Append true or false; return the next position."""
    return put(out, at, _TRUE) if value else put(out, at, _FALSE)


@kernel
def put_codec(out, at, codec):
    """Append the name of a codec; return the next position."""
    if codec == 0:
        return put(out, at, _NONE)
    if codec == 1:
        return put(out, at, _GZIP)
    if codec == 2:
        return put(out, at, _SNAPPY)
    if codec == 3:
        return put(out, at, _LZ4)
    return put(out, at, _ZSTD)


@kernel
def last_sequence(batches, row):
    """Return the sequence of the last record of a v2 batch, which starts again at 0 after the largest int32."""
    sequence = batches[12, row]
    delta = batches[3, row] - batches[2, row]
    if sequence < 0:
        return sequence
    return delta - (_MAX_INT32 - sequence) - 1 if sequence > _MAX_INT32 - delta else sequence + delta


@inlined
def put_number_inline(out, at, value):
    """Inlined `put_number`, for the few places that write most of the numbers."""
    rest = np.uint64(value)
    if value < 0:
        out[at] = 45
        at += 1
        rest = np.uint64(0) - rest
    if rest < _HUNDRED:
        if rest < _TEN:
            out[at] = np.uint8(48 + rest)
            return at + 1
        copy(out, at, _PAIRS, np.int64(rest) * 2, 2)
        return at + 2
    if rest < _EIGHT_DIGITS:
        return _put_to_eight(out, at, rest)
    high = rest // _EIGHT_DIGITS
    at = _put_to_eight(out, at, high) if high < _EIGHT_DIGITS else _put_large(out, at, high)
    store_u64_le(out, at, _digits(rest - high * _EIGHT_DIGITS) | _ASCII_ZEROS)
    return at + 8


@kernel
def put_number(out, at, value):
    """Append an int64 in decimal; return the next position. Stores up to 8 bytes after it: `out` needs that room."""
    return put_number_inline(out, at, value)


@kernel
def _put_large(out, at, rest):
    """Append all but the last eight digits of a number with more than sixteen; `rest` lacks those eight already."""
    high = rest // _EIGHT_DIGITS
    at = _put_to_eight(out, at, high)
    store_u64_le(out, at, _digits(rest - high * _EIGHT_DIGITS) | _ASCII_ZEROS)
    return at + 8


@inlined
def _put_to_eight(out, at, rest):
    """Append a number of one to eight digits."""
    digits = _digits(rest)
    zeros = first_mark(digits | _LAST_DIGIT) >> 3
    store_u64_le(out, at, (digits | _ASCII_ZEROS) >> np.uint64(zeros << 3))
    return at + 8 - zeros


@inlined
def _digits(rest):
    """Return the eight digits of a number below 10^8, one per byte, the first in the lowest byte."""
    # Two numbers of four digits in one word, then four of two, then eight of one.
    high = rest // np.uint64(10000)
    pair = high | ((rest - high * np.uint64(10000)) << np.uint64(32))
    hundreds = ((pair * np.uint64(10486)) >> np.uint64(20)) & np.uint64(0x0000007F0000007F)
    pair = hundreds | ((pair - hundreds * np.uint64(100)) << np.uint64(16))
    tens = ((pair * np.uint64(103)) >> np.uint64(10)) & np.uint64(0x000F000F000F000F)
    return tens | ((pair - tens * np.uint64(10)) << np.uint64(8))


@kernel
def put_java_string(out, at, buffer, start, size):
    """Append buffer[start:start+size] as `new String(bytes, UTF_8)` prints it; at most 3 bytes per byte.

    Stores up to a block after it: `out` needs that room.
    """
    end = start + size
    if end + BLOCK_BYTES > len(buffer):
        return _put_decoded(out, at, buffer, start, end)
    owed = np.uint64(0)
    for here in range(start, end, BLOCK_BYTES):
        copy_block(out, at + here - start, buffer, here)
        inside = inside_marks(min(end - here, BLOCK_BYTES))
        wide = marks(buffer, here, (0x80, 0xFF)) & inside
        if wide | owed:
            answer, owed = check_utf8(buffer, here, inside, wide, owed)
            if answer == UTF8_WRONG:
                return _put_decoded(out, at, buffer, start, end)
    return _put_decoded(out, at, buffer, start, end) if owed else at + size


@kernel
def _put_decoded(out, at, buffer, here, end):
    """Append bytes character by character, with U+FFFD where Java replaces malformed bytes."""
    while here < end:
        byte = buffer[here]
        if byte < 0x80:
            out[at] = byte
            at += 1
            here += 1
            continue
        good = _sequence_bytes(buffer, here, end)
        if good > 0:
            for index in range(good):
                out[at + index] = buffer[here + index]
            at += good
            here += good
        else:
            out[at] = 0xEF
            out[at + 1] = 0xBF
            out[at + 2] = 0xBD
            at += 3
            here -= good
    return at


@inlined
def continues(buffer, here, end):
    """Whether a byte that continues a UTF-8 character is at `here`."""
    return here < end and (buffer[here] & 0xC0) == 0x80


@kernel
def _sequence_bytes(buffer, here, end):
    """Return the length of the multi-byte sequence at `here`; negative: malformed bytes that are replaced together."""
    first = np.int64(buffer[here])
    second = np.int64(buffer[here + 1]) if here + 1 < end else np.int64(-1)
    if 0xC2 <= first <= 0xDF:
        return 2 if continues(buffer, here + 1, end) else -1
    if (first & 0xF0) == 0xE0:
        second_good = second >= 0 and (second & 0xC0) == 0x80 and not (first == 0xE0 and second < 0xA0)
        if not second_good:
            return -1
        if not continues(buffer, here + 2, end):
            return -2
        return -3 if first == 0xED and second >= 0xA0 else 3
    if (first & 0xF8) == 0xF0 and first <= 0xF4:
        second_good = second >= 0 and (second & 0xC0) == 0x80
        if (first == 0xF0 and second < 0x90) or (first == 0xF4 and second > 0x8F):
            second_good = False
        if not second_good:
            return -1
        if not continues(buffer, here + 2, end):
            return -2
        return 4 if continues(buffer, here + 3, end) else -3
    return -1
