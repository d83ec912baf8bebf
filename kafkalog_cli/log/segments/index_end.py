"""Read the end of an index file only: its last entries, before or including the unused zero tail."""

from __future__ import annotations

from typing import Any, TypeVar

from kafkalog_cli.disk.fs import Filesystem, ReadableFile, check_size, read_all
from kafkalog_cli.errors import KafkalogError
from kafkalog_cli.format.fault import Fault, unreadable
from kafkalog_cli.format.index_entries import SegmentIndex
from kafkalog_cli.format.layout import Layout
from kafkalog_cli.log.reading.scan import read_readable

IndexT = TypeVar("IndexT", bound=SegmentIndex[Any])

WARM_ENTRIES = 8192 // 8 + 1
"""Number of entries that Kafka's search for the last entry reads in an undamaged offset index.

See AbstractIndex.warmEntries.
"""


def entries_in_use(fs: Filesystem, path: str, kind: type[IndexT], base_offset: int) -> tuple[IndexT, list[Fault]]:
    """Return the index without its unused zero tail, and a fault if it cannot be read. Never raises.

    The tail is found by bisection, so entries after a zero in a damaged index are not found. If too many entries are in
    use to be read, there is a fault.
    """
    try:
        with fs.open_read(path) as file:
            count = _count_in_use(file, kind.layout)
            check_size(path, count * kind.layout.size)
            return _read(file, kind, base_offset, 0, count)
    except KafkalogError as error:
        return kind(b"", base_offset), [unreadable(error)]


def last_entries(
    fs: Filesystem, path: str, kind: type[IndexT], base_offset: int, *, in_use: bool
) -> tuple[IndexT, list[Fault]]:
    """Return the last entries, at most `WARM_ENTRIES`, and a fault if they cannot be read. Never raises.

    `in_use`: the last entries before the zero tail. Otherwise they are the last entries in the file, whose length
    decides.
    """
    try:
        with fs.open_read(path) as file:
            count = _count_in_use(file, kind.layout) if in_use else file.size_bytes // kind.layout.size
            return _read(file, kind, base_offset, max(0, count - WARM_ENTRIES), count)
    except KafkalogError as error:
        return kind(b"", base_offset), [unreadable(error)]


def all_entries(fs: Filesystem, path: str, kind: type[IndexT], base_offset: int) -> tuple[IndexT, list[Fault]]:
    """Return every entry in the file, including the zero tail, and a fault if the file cannot be read. Never raises."""
    try:
        return kind(read_all(fs, path), base_offset), []
    except (KafkalogError, OSError) as error:
        return kind(b"", base_offset), [unreadable(error)]


def _read(file: ReadableFile, kind: type[IndexT], base_offset: int, first: int, end: int) -> tuple[IndexT, list[Fault]]:
    size = kind.layout.size
    buffer = bytearray((end - first) * size)
    got, fault = read_readable(file, first * size, memoryview(buffer))
    return kind(bytes(buffer[:got]), base_offset), [] if fault is None else [fault]


def _count_in_use(file: ReadableFile, layout: Layout) -> int:
    """Return the number of entries before the zero tail.

    The tail starts at the first entry, after entry 0, whose relative offset is 0. It is found by bisection.
    """
    low, high = 1, file.size_bytes // layout.size
    if high <= low or not _is_unused(file, layout, high - 1):
        return high
    high -= 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if _is_unused(file, layout, middle) else (middle + 1, high)
    return low


def _is_unused(file: ReadableFile, layout: Layout, slot: int) -> bool:
    buffer = bytearray(4)
    position = slot * layout.size + layout.offset["relative_offset"]
    read_readable(file, position, memoryview(buffer))
    return not any(buffer)
