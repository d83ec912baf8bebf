"""Renders large keys, values and headers in pieces: a line of output is never in memory as a whole.

A batch may decompress to 128 MiB, and a single record may take all of it. Its JSON is up to six times as large, and
Python's copies of that text take several times more.
"""

from collections.abc import Iterator

from kafkalog_cli.format.java_text import java_string
from kafkalog_cli.format.records import OUTSIDE, RecordArrays, RecordBlock, headers_end

LARGE_BYTES = 1 << 20
"""A record is rendered in pieces if its key and value, or its headers, have more bytes than this."""

PIECE_BYTES = 3 << 16
"""The size of a piece of a field."""

_CONTINUATION_BYTES = 3
"""The most bytes after the first byte of a UTF-8 character."""


def is_large(buffer: memoryview, row: tuple[int, ...]) -> bool:
    """Whether a record must be rendered in pieces."""
    if len(buffer) <= LARGE_BYTES:
        return False
    key_at, key_size, value_at, value_size, headers_at, header_count = row[3:9]
    size = (key_size if key_at != OUTSIDE else 0) + (value_size if value_at != OUTSIDE else 0)
    return size > LARGE_BYTES or (
        header_count > 0 and headers_end(buffer, headers_at, header_count) - headers_at > LARGE_BYTES
    )


def has_large(block: RecordBlock) -> bool:
    """Whether a record of a block that compiled kernels read may be large."""
    columns = block.records
    if len(block.buffer) <= LARGE_BYTES or not isinstance(columns, RecordArrays) or not len(columns):
        return False
    if int(columns.value_size.max()) > LARGE_BYTES or int(columns.key_size.max()) > LARGE_BYTES:
        return True
    if not columns.header_count.any():
        return False
    import numpy as np

    # From one record's headers to the next record's, there are the first's headers and the second's contents.
    begins = np.append(columns.headers_position, len(block.buffer))
    return bool(((np.diff(begins) > LARGE_BYTES) & (columns.header_count > 0)).any())


def pieces(data: memoryview) -> Iterator[memoryview]:
    """Iterate over bytes in pieces of PIECE_BYTES."""
    return (data[start : start + PIECE_BYTES] for start in range(0, len(data), PIECE_BYTES))


def utf8_pieces(data: memoryview) -> Iterator[bytes]:
    """Iterate over pieces that split neither a UTF-8 character nor a sequence that Java replaces by one character."""
    start, size = 0, len(data)
    while start < size:
        end = min(start + PIECE_BYTES, size)
        first = end
        while end < size and end - first < _CONTINUATION_BYTES and data[end] & 0xC0 == 0x80:
            end += 1
        yield bytes(data[start:end])
        start = end


def java_pieces(data: memoryview) -> Iterator[str]:
    """Iterate over the text of `java_string` in pieces."""
    return map(java_string, utf8_pieces(data))
