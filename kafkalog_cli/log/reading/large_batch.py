"""The checksum of a batch that is too large to be loaded. Usually its length field is damaged."""

from __future__ import annotations

import zlib
from typing import Any

from kafkalog_cli.disk.fs import ReadableFile
from kafkalog_cli.format.batch import LOG_OVERHEAD_BYTES, RECORD_BATCH
from kafkalog_cli.format.crc import crc32c_function
from kafkalog_cli.format.legacy import MESSAGE_V1

PIECE_BYTES = 1 << 20


def is_large_batch_valid(log: ReadableFile, position: int) -> bool:
    """Whether the batch at byte `position` has the right CRC. The batch is read in pieces. Raises OSError."""
    header = bytearray(RECORD_BATCH.size)
    log.read_into(position, memoryview(header))
    _, batch_length, _, magic, crc, *_ = RECORD_BATCH.struct.unpack(header)
    end = position + LOG_OVERHEAD_BYTES + batch_length
    add: Any
    if magic >= 2:
        add, here = crc32c_function(), position + RECORD_BATCH.offset["attributes"]
    else:
        add, here = zlib.crc32, position + MESSAGE_V1.offset["magic"]
        crc = MESSAGE_V1.struct.unpack_from(header)[2]
    computed = 0
    while here < end:
        piece = bytearray(min(PIECE_BYTES, end - here))
        if log.read_into(here, memoryview(piece)) < len(piece):
            return False
        computed = add(bytes(piece), computed)
        here += len(piece)
    return bool(computed == crc)
