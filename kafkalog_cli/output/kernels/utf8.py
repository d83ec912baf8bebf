"""Compiled check of strict UTF-8, block by block."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
from __future__ import annotations

import numpy as np

from kafkalog_cli.format.kernels.compiling import inlined, kernel
from kafkalog_cli.output.kernels.memory import BLOCK_BYTES, first_mark, marks

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
