"""Find the next good batch after damage: every byte is tried as the start of an entry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kafkalog_cli.disk.fs import Filesystem, ReadableFile, data_from
from kafkalog_cli.errors import KafkalogError
from kafkalog_cli.format import crc as checksums
from kafkalog_cli.format.batch import LOG_OVERHEAD_BYTES, MINIMUM_ENTRY_SIZE
from kafkalog_cli.format.crc_ranges import CRC32_POLYNOMIAL, CRC32C_POLYNOMIAL, crc_after_every_byte, crc_of_ranges
from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits
from kafkalog_cli.format.seven import MINIMUM_SEVEN_SIZE
from kafkalog_cli.log.partition import MAX_SEGMENT_BYTES
from kafkalog_cli.log.reading.entry_candidates import (
    HEADER_BYTES,
    Candidates,
    Enclosing,
    Window,
    batch_candidates,
    enclosing_entry,
    seven_candidates,
)
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


def next_good_batch(
    file: ReadableFile,
    position: int,
    limits: Limits = DEFAULT_LIMITS,
    *,
    seven: bool = False,
    broken_at: int | None = None,
) -> int | None:
    """Return the position of the first batch at or after byte `position` with a right CRC; None if there is none.

    A candidate must look like an entry of v0, v1 or v2 (`seven`: of 0.7) before its CRC is computed. The time is linear
    in the file's size, whatever its bytes are. The search ends at the largest size of a segment: a larger file may be a
    hole of any size, and no broker reads it. Ranges that the device cannot read are skipped. `broken_at`: the start of
    the damaged entry; if it is a compressed set, its messages are not candidates.
    """
    end = min(file.size_bytes, MAX_SEGMENT_BYTES)
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
    import zlib

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
