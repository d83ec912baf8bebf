"""Finding the next good batch behind damage: every byte is tried as the start of an entry."""

from __future__ import annotations

from typing import Any

from kafkalog_cli.format.batch import LOG_OVERHEAD_BYTES, MINIMUM_ENTRY_SIZE, RECORD_BATCH
from kafkalog_cli.format.legacy import KEY_LENGTH_OFFSET, MESSAGE_V0, MESSAGE_V1
from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits
from kafkalog_cli.storage.fs import ReadableFile
from kafkalog_cli.storage.scan import DEVICE_BLOCK_BYTES, Scan, read_readable

_WINDOW_BYTES = 4 << 20
_TAIL_BYTES = 1 << 16
"""How much of a window is looked at again with the next, so that headers on the border are whole."""


def next_good_batch(file: ReadableFile, position: int, limits: Limits = DEFAULT_LIMITS) -> int | None:
    """Where the first batch at or after byte `position` starts whose CRC holds; None if there is none.

    A candidate must look like an entry of v0, v1 or v2 before its CRC is computed, so that a long run
    of damage costs one pass over it. Parts that the device does not give are passed over.
    """
    end = file.size_bytes
    buffer = bytearray(min(_WINDOW_BYTES, max(end - position, 0)))
    while position < end - LOG_OVERHEAD_BYTES - MINIMUM_ENTRY_SIZE + 1:
        view = memoryview(buffer)[: min(len(buffer), end - position)]
        got, fault = read_readable(file, position, view)
        for candidate in _candidates(view[:got], position, end, limits):
            if _is_good(file, candidate, limits):
                return candidate
        if fault is not None:
            position = fault.position + max(fault.size_bytes, DEVICE_BLOCK_BYTES)
        elif got < len(view) or position + got >= end:
            return None
        else:
            position += max(got - _TAIL_BYTES, 1)
    return None


def _is_good(file: ReadableFile, position: int, limits: Limits) -> bool:
    header = bytearray(LOG_OVERHEAD_BYTES)
    file.read_into(position, memoryview(header))
    size = int.from_bytes(header[8:], "big")
    scan = Scan(file, start=position, end=position + LOG_OVERHEAD_BYTES + size, limits=limits)
    return any(chunk.batches.row(0).valid for chunk in scan)


def _candidates(view: memoryview, position: int, end: int, limits: Limits) -> list[int]:
    """Positions in the file whose bytes could be the header of a batch or message."""
    import numpy as np

    data = np.frombuffer(view, dtype=np.uint8)
    count = len(data) - RECORD_BATCH.size
    if count <= 0 or position + len(view) >= end:  # the end of the file: pad, so that the last short messages are seen
        data = np.concatenate((data, np.zeros(RECORD_BATCH.size, dtype=np.uint8)))
        count = len(view)
    magic = data[16 : 16 + count]
    starts = np.flatnonzero((magic <= 2) & (data[:count] < 0x80) & (data[8 : 8 + count] < 0x80))
    size = _int32(data, starts + 8)
    fits = (size >= MINIMUM_ENTRY_SIZE) & (size + LOG_OVERHEAD_BYTES <= limits.max_batch_bytes)
    fits &= starts + position + LOG_OVERHEAD_BYTES + size <= end
    starts, size = starts[fits], size[fits]
    magic = data[starts + 16]
    good = np.where(magic == 2, _looks_like_v2(data, starts, size), False)
    for old in (0, 1):
        rows = np.flatnonzero(magic == old)
        good[rows] = _looks_like_message(data, starts[rows], size[rows], old)
    return [position + int(start) for start in starts[good]]


def _looks_like_v2(data: Any, starts: Any, size: Any) -> Any:
    attributes = starts + RECORD_BATCH.offset["attributes"]
    delta = _int32(data, starts + RECORD_BATCH.offset["last_offset_delta"])
    count = _int32(data, starts + RECORD_BATCH.offset["records_count"])
    codec = data[attributes + 1] & 7
    return (
        (size >= RECORD_BATCH.size - LOG_OVERHEAD_BYTES)
        & (data[attributes] == 0)
        & (data[attributes + 1] < 0x80)
        & (codec <= 4)
        & (delta >= 0)
        & (count >= 0)
        & (count <= delta + 1)
    )


def _looks_like_message(data: Any, starts: Any, size: Any, magic: int) -> Any:
    """Whether key and value fill the message exactly, as far as the window shows the value's length."""
    import numpy as np

    layout = MESSAGE_V1 if magic else MESSAGE_V0
    key_size = np.maximum(_int32(data, starts + KEY_LENGTH_OFFSET[magic]), 0)
    value_at = starts + layout.size + key_size
    inside = value_at + 4 <= len(data)
    value_size = np.zeros(len(starts), dtype=np.int64)
    value_size[inside] = np.maximum(_int32(data, value_at[inside]), 0)
    fills = value_at + 4 + value_size == starts + LOG_OVERHEAD_BYTES + size
    return (size >= layout.size - LOG_OVERHEAD_BYTES + 4) & np.where(inside, fills, key_size <= size)


def _int32(data: Any, at: Any) -> Any:
    import numpy as np

    word = (data[at].astype(np.int64) << 24) | (data[at + 1].astype(np.int64) << 16)
    word |= (data[at + 2].astype(np.int64) << 8) | data[at + 3]
    return np.where(word >= 1 << 31, word - (1 << 32), word)
