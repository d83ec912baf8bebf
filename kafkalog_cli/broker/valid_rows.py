"""The valid batches of a chunk during recovery: number, end and leader epochs; and batches over the limits."""

import zlib
from typing import Any

from kafkalog_cli.broker.leader_epochs import LeaderEpochs
from kafkalog_cli.disk.fs import ReadableFile
from kafkalog_cli.format.batch import LOG_OVERHEAD_BYTES, MESSAGE_V1, RECORD_BATCH
from kafkalog_cli.format.columns import rows_where
from kafkalog_cli.format.crc import crc32c
from kafkalog_cli.log.reading.scan import Chunk


def end_position(chunk: Chunk, rows: int) -> int:
    """Return the byte after the first `rows` batches of a chunk."""
    batches = chunk.batches
    return int(batches.position[rows - 1]) + int(batches.size_bytes[rows - 1]) if rows else int(batches.position[0])


def valid_rows(chunk: Chunk) -> int:
    """Return the number of batches before the first batch with a bad CRC."""
    batches = chunk.batches
    if batches.all_valid():
        return len(batches)
    return next(row for row, valid in enumerate(batches.valid) if not valid)


def assign_epochs(chunk: Chunk, rows: int, epochs: LeaderEpochs) -> None:
    """Assign each leader epoch that starts in the first `rows` batches; there are many only in a damaged log."""
    latest = -1 if epochs.latest_epoch is None else epochs.latest_epoch
    batches = chunk.batches.part(0, rows)
    for row in rows_where(lambda epoch, magic: (epoch > latest) & (magic >= 2), batches.leader_epoch, batches.magic):
        epoch = int(batches.leader_epoch[row])
        if epochs.latest_epoch is None or epoch > epochs.latest_epoch:
            epochs.assign(epoch, int(batches.base_offset[row]))


PIECE_BYTES = 1 << 20


def is_large_batch_valid(log: ReadableFile, position: int) -> bool:
    """Whether the batch at byte `position` has the right CRC. The batch is read in pieces. Raises OSError."""
    header = bytearray(RECORD_BATCH.size)
    log.read_into(position, memoryview(header))
    _, batch_length, _, magic, crc, *_ = RECORD_BATCH.struct.unpack(header)
    end = position + LOG_OVERHEAD_BYTES + batch_length
    add: Any
    if magic >= 2:
        add, here = crc32c, position + RECORD_BATCH.offset["attributes"]
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
