"""Problems in message sets 0.7, v0 and v1 that Kafka's readers silently ignore: wrong lengths, lost messages."""

from __future__ import annotations

import struct

from kafkalog_cli.format.batch import CODEC_MASK, LOG_OVERHEAD_BYTES, MINIMUM_ENTRY_SIZE, Batch
from kafkalog_cli.format.legacy import KEY_LENGTH_OFFSET, MINIMUM_SEVEN_SIZE

_INT32 = struct.Struct(">i")
_OFFSET_AND_SIZE = struct.Struct(">qi")
_MAGIC_AT = 16
_MAX_MAGIC = 1


def problem_of_entry(view: memoryview, start: int, end: int, batch: Batch) -> str:
    """Return what is wrong with the lengths of the entry v0 or v1 `view[start:end]`, or ""."""
    problem = _problem_of_message(view, start, end)
    if not problem and batch.attributes & CODEC_MASK:
        key_size = _INT32.unpack_from(view, start + _key_length_offset(view, start))[0]
        return f"a message set with a key of {key_size} bytes" if key_size >= 0 else ""
    return problem


def problem_of_set(view: memoryview, batch: Batch) -> str:
    """Return what is wrong with the messages of the decompressed set of the wrapper `batch`, or "".

    Every byte must belong to a message. Kafka's iterator ends quietly at an incomplete last message.
    """
    position, number, end = 0, 0, len(view)
    while position + LOG_OVERHEAD_BYTES <= end:
        offset, size = _OFFSET_AND_SIZE.unpack_from(view, position)
        entry_end = position + LOG_OVERHEAD_BYTES + size
        if size < MINIMUM_ENTRY_SIZE:
            return f"message {number} inside says that it has {size} bytes"
        if entry_end > end:
            left = end - position - LOG_OVERHEAD_BYTES
            return f"message {number} inside says that it has {size} bytes, but {left} are left: it is lost"
        if view[position + _MAGIC_AT] > _MAX_MAGIC:
            return f"message {number} inside has magic {view[position + _MAGIC_AT]}"
        if not number and batch.magic == 1 and offset and batch.last_offset:
            return f"the relative offset of the first message inside is {offset}, not 0"
        problem = _problem_of_message(view, position, entry_end)
        if problem:
            return f"message {number} inside: {problem}"
        position, number = entry_end, number + 1
    return f"{end - position} bytes follow the last message inside" if position < end else ""


def problem_of_seven_set(view: memoryview) -> str:
    """Return what is wrong with the messages of a decompressed set of 0.7, or ""."""
    position, number, end = 0, 0, len(view)
    while position + _INT32.size <= end:
        size = _INT32.unpack_from(view, position)[0]
        left = end - position - _INT32.size
        if size < MINIMUM_SEVEN_SIZE or size > left:
            return f"message {number} inside says that it has {size} bytes, but {left} are left: it is lost"
        position, number = position + _INT32.size + size, number + 1
    if position < end:
        return f"{end - position} bytes follow the last message inside"
    return "" if number else "there is no message inside"


def _key_length_offset(view: memoryview, start: int) -> int:
    return KEY_LENGTH_OFFSET[1 if view[start + _MAGIC_AT] else 0]


def _problem_of_message(view: memoryview, start: int, end: int) -> str:
    position = start + _key_length_offset(view, start)
    for what in ("key", "value"):
        if position + _INT32.size > end:
            return f"there is no room for the length of its {what}"
        size = _INT32.unpack_from(view, position)[0]
        position += _INT32.size
        if size < -1:
            return f"the length of its {what} is {size}"
        if size > end - position:
            return f"the length of its {what} is {size}, and {end - position} bytes are left"
        position += max(size, 0)
    return f"{end - position} bytes follow its value" if position < end else ""
