"""Messages v0 and v1 marked as uncompressed whose values are nevertheless compressed message sets.

A message set looks like this after its codec bits were cleared and its checksum was recomputed. Kafka's iterator treats
it as one record (AbstractLegacyRecordBatch.iterator checks only the codec bits).
"""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_right
from collections.abc import Iterator

from kafkalog_cli.format.batch import LOG_OVERHEAD_BYTES, MINIMUM_ENTRY_SIZE, RECORD_BATCH_MAGIC
from kafkalog_cli.format.columns import least_and_largest, rows_where
from kafkalog_cli.format.compression import CompressionFault, codec_name, decompress_into
from kafkalog_cli.format.limits import MEBIBYTE, Limits
from kafkalog_cli.format.records import RecordBlock

_MAGIC_OF_CODEC = ((1, b"\x1f\x8b\x08"), (2, b"\x82SNAPPY\0"), (3, b"\x04\x22\x4d\x18"))
"""The codec ids, with the first bytes of a stream of gzip, of Java's snappy and of lz4."""
_FIRST_BYTES = frozenset(start[0] for _, start in _MAGIC_OF_CODEC)
_LIMITS = Limits(max_output_bytes=16 * MEBIBYTE)
_ENTRY = struct.Struct(">qiIb")


def packed_values(block: RecordBlock) -> Iterator[tuple[int, str]]:
    """Yield the row of each such message, and a description of the problem.

    Values that only begin like a compressed stream are left out.
    """
    magics = block.batches.magic[block.first_row : block.end_row]
    if block.begun or least_and_largest(magics)[0] >= RECORD_BATCH_MAGIC:
        return
    records, ends = block.records, block.record_ends
    for number in _candidates(block):
        row = block.first_row + bisect_right(ends, number)
        batch = block.batches.row(row)
        if batch.magic < RECORD_BATCH_MAGIC and not batch.codec:
            at, size = int(records.value_position[number]), int(records.value_size[number])
            message = _of_value(block, row, block.buffer[at : at + size])
            if message:
                yield row, message


def _candidates(block: RecordBlock) -> Iterator[int]:
    """Yield the records without a key whose values begin with the first byte of a compressed stream."""
    records = block.records
    for row in rows_where(
        lambda key_size, position, size: (key_size < 0) & (position >= 0) & (size > LOG_OVERHEAD_BYTES),
        records.key_size, records.value_position, records.value_size,
    ):  # fmt: skip
        if block.buffer[int(records.value_position[row])] in _FIRST_BYTES:
            yield row


def _of_value(block: RecordBlock, row: int, value: memoryview) -> str:
    codec = next((codec for codec, start in _MAGIC_OF_CODEC if value[: len(start)] == start), 0)
    if not codec:
        return ""
    batch, inner = block.batches.row(row), bytearray()
    size = decompress_into(codec, value, inner, 0, magic=batch.magic, limits=_LIMITS)
    if isinstance(size, CompressionFault):
        return ""
    offsets = _offsets_of_set(memoryview(inner)[:size], batch.magic)
    if not offsets or (batch.magic == 0 and offsets[-1] != batch.last_offset):
        return ""
    many = f"{len(offsets)} messages" if len(offsets) > 1 else "1 message"
    return f"a message whose value is a set of {many} compressed with {codec_name(codec)}, and that does not say so"


def _offsets_of_set(view: memoryview, magic: int) -> list[int]:
    """Return the offsets of the messages in a set; [] if the set is incomplete, damaged or out of order."""
    position, offsets = 0, list[int]()
    while position < len(view):
        if len(view) - position < LOG_OVERHEAD_BYTES + MINIMUM_ENTRY_SIZE:
            return []
        offset, size, crc, own_magic = _ENTRY.unpack_from(view, position)
        end = position + LOG_OVERHEAD_BYTES + size
        is_next = not offsets or offset > offsets[-1]
        if size < MINIMUM_ENTRY_SIZE or end > len(view) or own_magic != magic or not is_next:
            return []
        if zlib.crc32(view[position + LOG_OVERHEAD_BYTES + 4 : end]) != crc:
            return []
        offsets.append(offset)
        position = end
    return offsets
