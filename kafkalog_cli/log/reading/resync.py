"""Find the next good batch after damage: every byte is tried as the start of an entry."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from kafkalog_cli.disk.fs import Filesystem, ReadableFile, data_from
from kafkalog_cli.errors import KafkalogError
from kafkalog_cli.format import crc as checksums
from kafkalog_cli.format.batch import (
    CODEC_MASK,
    KEY_LENGTH_OFFSET,
    LOG_OVERHEAD_BYTES,
    MESSAGE_SEVEN_MAGIC0,
    MESSAGE_SEVEN_MAGIC1,
    MESSAGE_V0,
    MESSAGE_V1,
    MINIMUM_ENTRY_SIZE,
    MINIMUM_SEVEN_SIZE,
    NO_OFFSET,
    RECORD_BATCH,
)
from kafkalog_cli.format.columns import Flags, Integers, Octets
from kafkalog_cli.format.crc import CRC32_POLYNOMIAL, CRC32C_POLYNOMIAL, crc_after_every_byte, crc_of_ranges
from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits
from kafkalog_cli.log.partition import MAX_SEGMENT_BYTES
from kafkalog_cli.log.reading.scan import DEVICE_BLOCK_BYTES, read_readable

_FIRST_WINDOW_BYTES = 16 << 10
_WINDOW_BYTES = 1 << 20
_PIECE_BYTES = 1 << 20
_DIRECT_BYTES = 32 << 20
"""Bytes that may be read for the candidates of one window one by one. The rest is checked in one pass for all."""
_DENSE_BYTES = 128
"""If there is a border per fewer bytes than this, computing the CRC after every byte is fastest."""


def is_overtaken(  # noqa: PLR0913
    fs: Filesystem, path: str, size_bytes: int, position: int, limits: Limits = DEFAULT_LIMITS, *, seven: bool = False
) -> bool:
    """Whether a broker has truncated the log since it was read, so that the damage at byte `position` is gone.

    `size_bytes` is the file's size when it was read. A smaller file was truncated; in a file that has grown, there is
    now a good batch at `position`. A missing file is not evidence of truncation.

    A smaller file counts as truncated wherever `position` is, because batches written after the truncation may have
    other borders. Damage in a log that shrinks while it is read is a warning; `verify` checks again and decides.
    """
    found = fs.status(path)
    if found is None or found.size_bytes == size_bytes:
        return False
    try:
        with fs.open_read(path) as file:
            is_smaller = file.size_bytes < size_bytes
            return is_smaller or next_good_batch(file, position, limits, seven=seven) == position
    except (KafkalogError, OSError):
        return False


def next_good_batch(  # noqa: PLR0913
    file: ReadableFile,
    position: int,
    limits: Limits = DEFAULT_LIMITS,
    *,
    seven: bool = False,
    broken_at: int | None = None,
    end: int = MAX_SEGMENT_BYTES,
) -> int | None:
    """Return the position of the first batch at or after byte `position` with a right CRC; None if there is none.

    A candidate must look like an entry of v0, v1 or v2 (`seven`: of 0.7) before its CRC is computed. The time is linear
    in the file's size, whatever its bytes are. The search ends at the largest size of a segment: a larger file may be a
    hole of any size, and no broker reads it. Ranges that the device cannot read are skipped. `broken_at`: the start of
    the damaged entry; if it is a compressed set, its messages are not candidates. `end`: the end of the bytes that are
    searched for a header.
    """
    end = min(file.size_bytes, MAX_SEGMENT_BYTES, end)
    smallest = 4 + MINIMUM_SEVEN_SIZE if seven else LOG_OVERHEAD_BYTES + MINIMUM_ENTRY_SIZE
    enclosing = Enclosing() if broken_at is None else enclosing_entry(file, broken_at, seven=seven)
    find_candidates = seven_candidates if seven else batch_candidates
    wanted = _FIRST_WINDOW_BYTES
    while position + smallest <= end:
        buffer = memoryview(bytearray(min(wanted + HEADER_BYTES, end - position)))
        got, fault = read_readable(file, position, buffer)
        is_whole = got == wanted + HEADER_BYTES
        window = Window(file, position, buffer[:got])
        if window.data.any():  # a preallocated tail, or a hole, has no candidate but is slow to search
            found = _first_good(window, find_candidates(window, wanted if is_whole else got, limits, enclosing))
            if found is not None:
                return found
        if fault is not None:
            position = fault.position + (fault.size_bytes or DEVICE_BLOCK_BYTES)
        elif not is_whole:
            return None
        else:
            position += wanted
            position = max(position, data_from(file, position) - HEADER_BYTES)  # a header may begin with zeros
        wanted = min(2 * wanted, _WINDOW_BYTES)
    return None


def _first_good(window: Window, candidates: Candidates) -> int | None:
    """Return the start of the first candidate with a right CRC."""
    left_bytes = _DIRECT_BYTES
    for row, (start, crc_from, end, stored_crc, kind) in enumerate(candidates.rows()):
        left_bytes -= end - crc_from
        if left_bytes < 0:
            return _first_good_in_one_pass(window.file, candidates.taken(slice(row, None)))
        if _crc_of_range(window, crc_from, end, kind) == stored_crc:
            return start
    return None


def _crc32c(data: Any, before: int) -> int:
    return checksums.crc32c_function()(data, before)  # type: ignore[call-arg]


def _crc32(data: Any, before: int) -> int:
    return zlib.crc32(data, before)


_CHECKSUMS = (_crc32c, _crc32)
_POLYNOMIALS = (CRC32C_POLYNOMIAL, CRC32_POLYNOMIAL)


def _crc_of_range(window: Window, begin: int, end: int, kind: int) -> int | None:
    """Return the CRC of bytes `begin` to `end` of the file, or None if some of them cannot be read."""
    if end <= window.position + window.size:
        return _CHECKSUMS[kind](window.data[begin - window.position : end - window.position], 0)
    crc, done = 0, begin
    for at, piece in _pieces(window.file, begin, end):
        crc, done = _CHECKSUMS[kind](piece, crc), at + len(piece)
    return crc if done == end else None


def _first_good_in_one_pass(file: ReadableFile, candidates: Candidates) -> int | None:
    """As `_first_good`, with the running CRC at every border, so that overlapping ranges are read once."""
    good: list[int] = []
    for kind, polynomial in enumerate(_POLYNOMIALS):
        part = candidates.taken(candidates.crc_kind == kind)
        if not len(part.start):
            continue
        borders, crcs = _running_crcs(file, part, kind)
        part = part.taken(part.end <= borders[-1])  # a candidate that extends past an unreadable byte is not good
        before, after = (crcs[borders.searchsorted(at)] for at in (part.crc_from, part.end))
        holds = crc_of_ranges(before, after, part.end - part.crc_from, polynomial) == part.stored_crc
        good += part.start[holds].tolist()
    return min(good, default=None)


def _running_crcs(file: ReadableFile, candidates: Candidates, kind: int) -> tuple[Any, Any]:
    """Return the borders of the candidates up to the first unreadable byte, and the running CRC at each border.

    The running CRC is that of all bytes from the first border on.
    """
    import numpy as np

    borders = np.sort(np.concatenate((candidates.crc_from, candidates.end)))
    borders = borders[np.diff(borders, prepend=-1) > 0]  # np.unique hashes: slow for hostile numbers
    crcs, crc, row = np.zeros(len(borders), dtype=np.int64), 0, 1
    for at, piece in _pieces(file, int(borders[0]), int(borders[-1])):
        end = row + int(np.searchsorted(borders[row:], at + len(piece), side="right"))
        inside = borders[row:end] - at
        if len(inside) * _DENSE_BYTES > len(piece):
            every = crc_after_every_byte(
                np.frombuffer(piece, dtype=np.uint8), crc, _CHECKSUMS[kind], _POLYNOMIALS[kind]
            )
            crcs[row:end] = every[inside - 1]
            crc = int(every[-1])
        else:
            done = 0
            for index, border in enumerate(inside.tolist(), row):
                crc, done = _CHECKSUMS[kind](piece[done:border], crc), border
                crcs[index] = crc
            crc = _CHECKSUMS[kind](piece[done:], crc)
        row = end
    return borders[:row], crcs[:row]


def _pieces(file: ReadableFile, begin: int, end: int) -> Iterator[tuple[int, memoryview]]:
    """Yield (position, bytes) for bytes `begin` to `end`, up to the first unreadable byte. The buffer is reused."""
    buffer = memoryview(bytearray(min(_PIECE_BYTES, end - begin)))
    while begin < end:
        got, fault = read_readable(file, begin, buffer[: min(len(buffer), end - begin)])
        if got:
            yield begin, buffer[:got]
        if not got or fault is not None:
            return
        begin += got


HEADER_BYTES = RECORD_BATCH.size
"""Number of bytes that must be in memory to check a header: the size of the longest header."""

CASTAGNOLI, IEEE = 0, 1
"""The kinds of CRC: CASTAGNOLI in v2, IEEE in all older formats."""

_SEARCHED_BYTES = 1 << 20
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
        buffer = bytearray(_SEARCHED_BYTES if len(behind) else 0)
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
