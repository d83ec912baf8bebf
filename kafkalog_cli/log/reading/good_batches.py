"""Finds the batches with right CRCs among those of a chunk, and joins the columns of small chunks."""

from __future__ import annotations

from collections.abc import Iterator

from kafkalog_cli.format.batch import BatchArrays, BatchColumns
from kafkalog_cli.log.reading.scan import Chunk, Rows

GATHERED_ROWS = 4_000
"""The number of batches at which checks of whole columns reach full speed; a chunk may have only 200."""


def good_rows(chunk: Chunk) -> list[Rows]:
    """Return runs of batches with right CRCs."""
    valid = chunk.batches.valid
    if chunk.batches.all_valid():
        return [(0, len(valid))]
    runs: list[Rows] = []
    for row, good in enumerate(valid):
        if good and runs and runs[-1][1] == row:
            runs[-1] = (runs[-1][0], row + 1)
        elif good:
            runs.append((row, row + 1))
    return runs


def gathered(chunks: Iterator[BatchColumns]) -> Iterator[BatchColumns]:
    """Yield the same batches, with columns of compiled kernels joined until array operations pay off."""
    waiting: list[BatchArrays] = []
    rows = 0
    for batches in chunks:
        if isinstance(batches, BatchArrays):
            waiting.append(batches)
            rows += len(batches)
            if rows < GATHERED_ROWS:
                continue
        yield from _joined(waiting)
        waiting, rows = [], 0
        if not isinstance(batches, BatchArrays):
            yield batches
    yield from _joined(waiting)


def _joined(parts: list[BatchArrays]) -> Iterator[BatchColumns]:
    if len(parts) > 1:
        import numpy as np

        yield BatchColumns.from_matrix(np.concatenate([part.matrix for part in parts], axis=1))
    else:
        yield from parts
