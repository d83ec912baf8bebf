"""Compiled pieces of text: decimal numbers, constants, and UTF-8 as Java decodes it."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
from __future__ import annotations

import numpy as np

from kafkalog_cli.format.kernels.compiling import inlined, kernel
from kafkalog_cli.output.kernels.memory import BLOCK_BYTES, copy_block, marks

_PAIRS = np.frombuffer(b"".join(b"%02d" % number for number in range(100)), dtype=np.uint8)

MOST_DIGITS = 20
"""Characters of the longest int64."""


def constant(text: str) -> np.ndarray:
    """Text as an array that a kernel can hold."""
    return np.frombuffer(text.encode(), dtype=np.uint8)


@kernel
def put_number(out, at, value):
    """Append an int64 in decimal; the next position."""
    if value < 0:
        out[at] = 45
        at += 1
        rest = np.uint64(0) - np.uint64(value)
    else:
        rest = np.uint64(value)
    digits = 1
    limit = np.uint64(10)
    while rest >= limit:
        digits += 1
        if digits == 20:
            break
        limit *= np.uint64(10)
    end = at + digits
    here = end
    while rest >= np.uint64(100):
        pair = np.int64(rest % np.uint64(100)) * 2
        rest //= np.uint64(100)
        here -= 2
        out[here] = _PAIRS[pair]
        out[here + 1] = _PAIRS[pair + 1]
    if here - at == 2:
        pair = np.int64(rest) * 2
        out[at] = _PAIRS[pair]
        out[at + 1] = _PAIRS[pair + 1]
    else:
        out[at] = np.uint8(48 + rest)
    return end


@kernel
def put_java_string(out, at, buffer, start, size):
    """Append buffer[start:start+size] as `new String(bytes, UTF_8)` prints it; at most 3 bytes per byte.

    `out` must have room for BLOCK_BYTES more.
    """
    end = start + size
    here = start
    while here < end and here + BLOCK_BYTES <= len(buffer):
        high = marks(buffer, here, 0x80, 0xFF)
        left = end - here
        if left < BLOCK_BYTES:
            high &= (np.uint64(1) << np.uint64(left)) - np.uint64(1)
        if high:
            return _put_malformed(out, at, buffer, here, end)
        copy_block(out, at, buffer, here)
        step = min(left, BLOCK_BYTES)
        at += step
        here += step
    return _put_malformed(out, at, buffer, here, end)


@kernel
def _put_malformed(out, at, buffer, here, end):
    """The same byte by byte, from the first that is not ASCII on."""
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
def _continues(buffer, here, end):
    return here < end and (buffer[here] & 0xC0) == 0x80


@kernel
def _sequence_bytes(buffer, here, end):
    """Length of the multi-byte sequence at `here`; negative: how many malformed bytes Java takes as one."""
    first = np.int64(buffer[here])
    second = np.int64(buffer[here + 1]) if here + 1 < end else np.int64(-1)
    if 0xC2 <= first <= 0xDF:
        return 2 if _continues(buffer, here + 1, end) else -1
    if (first & 0xF0) == 0xE0:
        second_good = second >= 0 and (second & 0xC0) == 0x80 and not (first == 0xE0 and second < 0xA0)
        if not second_good:
            return -1
        if not _continues(buffer, here + 2, end):
            return -2
        return -3 if first == 0xED and second >= 0xA0 else 3
    if (first & 0xF8) == 0xF0 and first <= 0xF4:
        second_good = second >= 0 and (second & 0xC0) == 0x80
        if (first == 0xF0 and second < 0x90) or (first == 0xF4 and second > 0x8F):
            second_good = False
        if not second_good:
            return -1
        if not _continues(buffer, here + 2, end):
            return -2
        return 4 if _continues(buffer, here + 3, end) else -3
    return -1
