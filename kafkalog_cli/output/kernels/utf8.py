"""Compiled check of strict UTF-8, block by block."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
from __future__ import annotations

import numpy as np

from kafkalog_cli.format.kernels.compiling import inlined, kernel
from kafkalog_cli.output.kernels.memory import BLOCK_BYTES, first_mark, marks

UTF8_WRONG, UTF8_RIGHT, UTF8_SPECIAL = -1, 0, 1
"""What a block may be; special: it holds C1 controls, U+2028 or U+2029, which JSON text has escaped."""

_SPECIAL_LEADS = (0xC2, 0xC2, 0xE0, 0xE0, 0xE2, 0xE2, 0xED, 0xED)
"""Ranges of leads, besides those of four, behind which not every byte may follow, or not as it is."""


@kernel
def _check_second_bytes(buffer, here, leads):
    """What sequences with a marked lead come to, whose second byte matters.

    One may be cut off by the end of the field, which is wrong then, whatever follows it here.
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
    """What the bytes of a block that are not ASCII come to, and the `owed` of the next block.

    `inside` marks what belongs to the field, `wide` what of it is not ASCII, `owed` where sequences of the block
    before must go on.
    """
    followers = marks(buffer, here, (0x80, 0xBF)) & inside
    two = marks(buffer, here, (0xC2, 0xDF)) & inside
    three = marks(buffer, here, (0xE0, 0xEF)) & inside
    four = marks(buffer, here, (0xF0, 0xF4)) & inside
    longer = three | four
    leads = two | longer
    owed |= (leads << np.uint64(1)) | (longer << np.uint64(2)) | (four << np.uint64(3))
    # What is owed behind the end of the field has no follower either.
    if (owed ^ followers) | (wide ^ (leads | followers)):
        return UTF8_WRONG, np.uint64(0)
    owed = (leads >> np.uint64(63)) | (longer >> np.uint64(62)) | (four >> np.uint64(61))
    special = four | marks(buffer, here, _SPECIAL_LEADS)
    special &= inside
    return _check_second_bytes(buffer, here, special) if special else UTF8_RIGHT, owed


@inlined
def inside_marks(size):
    """Marks for the first `size` bytes of a block, at least one."""
    return ~np.uint64(0) >> np.uint64(BLOCK_BYTES - size)
