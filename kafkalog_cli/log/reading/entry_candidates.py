"""Find candidates for the start of an entry in arbitrary bytes, by their headers, before CRCs are computed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kafkalog_cli.disk.fs import ReadableFile
from kafkalog_cli.format.batch import CODEC_MASK, LOG_OVERHEAD_BYTES, MINIMUM_ENTRY_SIZE, NO_OFFSET, RECORD_BATCH
from kafkalog_cli.format.columns import Flags, Integers, Octets
from kafkalog_cli.format.legacy import KEY_LENGTH_OFFSET, MESSAGE_V0, MESSAGE_V1
from kafkalog_cli.format.limits import Limits
from kafkalog_cli.format.seven import MESSAGE_SEVEN_MAGIC0, MESSAGE_SEVEN_MAGIC1, MINIMUM_SEVEN_SIZE
from kafkalog_cli.log.reading.scan import DEVICE_BLOCK_BYTES, read_readable

HEADER_BYTES = RECORD_BATCH.size
"""Number of bytes that must be in memory to check a header: the size of the longest header."""

CASTAGNOLI, IEEE = 0, 1
"""The kinds of CRC: CASTAGNOLI in v2, IEEE in all older formats."""

_PIECE_BYTES = 1 << 20
_UNREADABLE = -2
_ROWS_AT_ONCE = 256


class Candidates(NamedTuple):
    """Candidates as columns: start of the entry, range of its CRC, stored CRC, kind of CRC.

    Positions are in the file. The starts ascend.
    """

    start: Integers
    crc_from: Integers
    end: Integers
    stored_crc: Integers
    crc_kind: Integers

    def taken(self, rows: Flags | slice) -> Candidates:
        """Return the candidates that a mask or slice selects."""
        return Candidates(*(column[rows] for column in self))

    def rows(self) -> Iterator[tuple[int, ...]]:
        """Yield the candidates as plain integers, converted in small groups, because often the first one is right."""
        for begin in range(0, len(self.start), _ROWS_AT_ONCE):
            part = self.taken(slice(begin, begin + _ROWS_AT_ONCE))
            yield from zip(*(column.tolist() for column in part), strict=True)


class Window:
    """A part of a file in memory: its bytes from `position` on, followed by zeros in case a header is cut off."""

    def __init__(self, file: ReadableFile, position: int, view: memoryview) -> None:
        import numpy as np

        self.file = file
        self.position = position
        self.size = len(view)
        bytes_in_sight = np.frombuffer(view, dtype=np.uint8)
        self.data = np.concatenate((bytes_in_sight, np.zeros(HEADER_BYTES, dtype=np.uint8)))

    def int32(self, at: Integers) -> Integers:
        """Return the 32-bit integers at `at`, positions in the window."""
        return _int32(self.data, at)

    def int64(self, at: Integers) -> Integers:
        """Return the 64-bit integers at `at`, positions in the window. The integers must not be negative."""
        return (self.int32(at) << 32) + (self.int32(at + 4) & 0xFFFFFFFF)

    def int32_anywhere(self, at: Integers) -> Integers:
        """Return the 32-bit integers at `at`, counted from the window's start; read them if they are after the window.

        An integer that cannot be read becomes -2.
        """
        import numpy as np

        values = np.full(len(at), _UNREADABLE, dtype=np.int64)
        inside = at + 4 <= self.size
        values[inside] = self.int32(at[inside])
        behind = np.flatnonzero(~inside)
        behind = behind[np.argsort(at[behind], kind="stable")]
        sorted_at = at[behind]
        buffer = bytearray(_PIECE_BYTES if len(behind) else 0)
        row = 0
        while row < len(behind):
            begin = int(sorted_at[row])
            got, _ = read_readable(self.file, self.position + begin, memoryview(buffer))
            end = int(np.searchsorted(sorted_at, begin + got - 4, side="right"))
            if end > row:
                values[behind[row:end]] = _int32(np.frombuffer(buffer, dtype=np.uint8), sorted_at[row:end] - begin)
            row = max(end, int(np.searchsorted(sorted_at, begin + DEVICE_BLOCK_BYTES)) if got < 4 else row + 1)
        return values


class Enclosing(NamedTuple):
    """A damaged entry that is a compressed set, whose messages can look like entries if little of it was compressible.

    For v0 and v1, the offsets of the set's messages are at most its own offset, `last_offset` (-1: not a set). 0.7 has
    no offsets: after a damaged compressed message, a message can be distinguished from its contents only if it is
    compressed too.
    """

    last_offset: int = NO_OFFSET
    is_compressed_seven: bool = False


def enclosing_entry(file: ReadableFile, position: int, *, seven: bool) -> Enclosing:
    """Return what the header of the entry at `position` says, as far as it can be read."""
    header = bytearray(MESSAGE_V0.offset["key_length"])
    got, _ = read_readable(file, position, memoryview(header))
    if got < len(header):
        return Enclosing()
    if seven:
        return Enclosing(is_compressed_seven=header[4] == 1 and header[5] in (1, 2))
    magic, codec = header[MESSAGE_V0.offset["magic"]], header[MESSAGE_V0.offset["attributes"]] & CODEC_MASK
    is_set = magic <= 1 and codec in (1, 2, 3)
    return Enclosing(int.from_bytes(header[:8], "big", signed=True)) if is_set else Enclosing()


def batch_candidates(window: Window, count: int, limits: Limits, enclosing: Enclosing) -> Candidates:
    """Return the positions in the first `count` bytes that could be headers of a batch v2 or a message v0 or v1."""
    import numpy as np

    data = window.data
    magic = data[16 : 16 + count]
    starts = np.flatnonzero((magic <= 2) & (data[:count] < 0x80) & (data[8 : 8 + count] < 0x80))
    size = window.int32(starts + 8)
    fits = (size >= MINIMUM_ENTRY_SIZE) & (size + LOG_OVERHEAD_BYTES <= limits.max_batch_bytes)
    fits &= starts + window.position + LOG_OVERHEAD_BYTES + size <= window.file.size_bytes
    starts, size = starts[fits], size[fits]
    magic = data[starts + 16]
    good = (magic == 2) & _looks_like_v2(window, starts, size)
    for old in (0, 1):
        rows = np.flatnonzero(magic == old)
        rows = rows[window.int64(starts[rows]) > enclosing.last_offset]
        good[rows] = _looks_like_message(window, starts[rows], size[rows], old)
    starts, size, magic = starts[good], size[good], magic[good]
    is_new, at = magic == 2, starts + window.position
    return Candidates(
        at,
        at + np.where(is_new, RECORD_BATCH.offset["attributes"], MESSAGE_V0.offset["magic"]),
        at + LOG_OVERHEAD_BYTES + size,
        window.int32(starts + np.where(is_new, RECORD_BATCH.offset["crc"], MESSAGE_V0.offset["crc"])) & 0xFFFFFFFF,
        np.where(is_new, CASTAGNOLI, IEEE),
    )


def _looks_like_v2(window: Window, starts: Integers, size: Integers) -> Flags:
    attributes = starts + RECORD_BATCH.offset["attributes"]
    delta = window.int32(starts + RECORD_BATCH.offset["last_offset_delta"])
    count = window.int32(starts + RECORD_BATCH.offset["records_count"])
    codec = window.data[attributes + 1] & 7
    fits: Flags = (
        (size >= RECORD_BATCH.size - LOG_OVERHEAD_BYTES)
        & (window.data[attributes] == 0)
        & (window.data[attributes + 1] < 0x80)
        & (codec <= 4)
        & (delta >= 0)
        & (count >= 0)
        & (count <= delta + 1)
    )
    return fits


def _looks_like_message(window: Window, starts: Integers, size: Integers, magic: int) -> Flags:
    """Whether key and value fill each message exactly."""
    import numpy as np

    layout, most_attributes = (MESSAGE_V1, 0x0F) if magic else (MESSAGE_V0, 0x07)
    key_size = window.int32(starts + KEY_LENGTH_OFFSET[magic])
    value_size_at = starts + layout.size + np.maximum(key_size, 0)
    end = starts + LOG_OVERHEAD_BYTES + size
    good = (key_size >= -1) & (value_size_at + 4 <= end) & (window.data[starts + 17] <= most_attributes)
    value_size_at = value_size_at[good]
    value_size = window.int32_anywhere(value_size_at)
    good[good] = (value_size >= -1) & (value_size_at + 4 + np.maximum(value_size, 0) == end[good])
    return good


def seven_candidates(window: Window, count: int, limits: Limits, enclosing: Enclosing) -> Candidates:
    """Return the positions in the first `count` bytes that could be headers of a message of 0.7."""
    import numpy as np

    data = window.data
    starts = np.flatnonzero((data[4 : 4 + count] <= 1) & (data[:count] < 0x80))
    size = window.int32(starts)
    magic = data[starts + 4]
    good = (size >= MINIMUM_SEVEN_SIZE + magic) & (size + 4 <= limits.max_batch_bytes)
    codec = np.where(magic == 1, data[starts + 5], 0)
    is_gzip = (data[starts + 10] == 0x1F) & (data[starts + 11] == 0x8B)
    good &= (codec == 2) | ((codec == 1) & is_gzip) | ((codec == 0) & (not enclosing.is_compressed_seven))
    good &= starts + window.position + 4 + size <= window.file.size_bytes
    starts, size, magic = starts[good], size[good], magic[good]
    at = starts + window.position
    crc_at = np.where(magic == 1, MESSAGE_SEVEN_MAGIC1.offset["crc"], MESSAGE_SEVEN_MAGIC0.offset["crc"])
    stored_crc = window.int32(starts + crc_at) & 0xFFFFFFFF
    return Candidates(at, at + crc_at + 4, at + 4 + size, stored_crc, np.full(len(starts), IEEE))


def _int32(data: Octets, at: Integers) -> Integers:
    import numpy as np

    word = (data[at].astype(np.int64) << 24) | (data[at + 1].astype(np.int64) << 16)
    word |= (data[at + 2].astype(np.int64) << 8) | data[at + 3]
    return np.where(word >= 1 << 31, word - (1 << 32), word)
