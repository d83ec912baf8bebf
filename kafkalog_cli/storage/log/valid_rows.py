"""The valid batches of a chunk during recovery: their number, the byte where they end, and their leader epochs."""

from __future__ import annotations

from typing import Any

from kafkalog_cli.storage.log.leader_epochs import LeaderEpochs
from kafkalog_cli.storage.reading.scan import Chunk


def end_position(chunk: Chunk, rows: int) -> int:
    """Return the byte after the first `rows` batches of a chunk."""
    batches = chunk.batches
    return int(batches.position[rows - 1]) + int(batches.size_bytes[rows - 1]) if rows else int(batches.position[0])


def valid_rows(chunk: Chunk) -> int:
    """Return the number of batches before the first batch with a bad CRC."""
    batches: Any = chunk.batches
    if batches.matrix is not None:
        import numpy as np

        bad = np.flatnonzero(batches.valid != 1)
        return int(bad[0]) if len(bad) else len(batches)
    return next((row for row, valid in enumerate(batches.valid) if valid != 1), len(batches))


def assign_epochs(chunk: Chunk, rows: int, epochs: LeaderEpochs) -> None:
    """Assign each leader epoch that starts in the first `rows` batches; there are many only in a damaged log."""
    latest = -1 if epochs.latest_epoch is None else epochs.latest_epoch
    batches: Any = chunk.batches
    if batches.matrix is not None:
        later = ((batches.leader_epoch[:rows] > latest) & (batches.magic[:rows] >= 2)).nonzero()[0].tolist()
    else:
        later = [row for row in range(rows) if batches.leader_epoch[row] > latest and batches.magic[row] >= 2]
    for row in later:
        epoch = int(batches.leader_epoch[row])
        if epochs.latest_epoch is None or epoch > epochs.latest_epoch:
            epochs.assign(epoch, int(batches.base_offset[row]))
