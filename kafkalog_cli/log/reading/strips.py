"""Scan a long chain of batches in strips side by side, in threads, where only the columns are wanted.

A strip begins at a batch with a right CRC, which is searched for. It counts only if the chain before it ends there. So
the batches are those of a single scan, even if the search finds what only looks like a batch.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import NamedTuple

from kafkalog_cli.format.batch import BatchColumns
from kafkalog_cli.log.reading.resync import next_good_batch
from kafkalog_cli.log.reading.scan import Chunk, Scan
from kafkalog_cli.log.reading.threads import started_pool

STRIP_BYTES = 64 << 20
STRIP_ROWS = 100_000
"""The most batches of a strip, by the size of the batches before it: their columns are held until its turn comes."""
SEARCHED_BYTES = 1 << 20
"""The bytes in which a batch must begin, for a strip to begin there."""
MOST_THREADS = 4

_TURN = Lock()
"""Is held while strips are scanned: logs that are scanned at the same time have threads already."""


def in_strips(scan: Scan) -> Iterator[Chunk]:
    """Yield the chunks of a scan of columns: in strips after the first chunk, as far as strips serve."""
    chunks = iter(scan)
    for chunk in chunks:
        yield chunk
        if chunk.is_large:
            break
    else:
        return
    chunks.close()
    first = chunk.batches
    batch_bytes = (first.end_position - int(first.position[0])) // len(first)
    yield from map(scan.take, Strips(scan, min(STRIP_BYTES, STRIP_ROWS * batch_bytes)))
    yield from scan


class _Strip(NamedTuple):
    start: int
    end: int
    batches: list[BatchColumns]


class Strips:
    """Iterates over the batches from where a scan is now, as far as strips fit together. That may be none at all."""

    def __init__(self, scan: Scan, strip_bytes: int) -> None:
        self._scan = scan
        self._strip_bytes = strip_bytes
        self._start = scan.valid_bytes

    def __iter__(self) -> Iterator[BatchColumns]:
        threads = min(os.cpu_count() or 1, MOST_THREADS)
        if threads == 1 or not _TURN.acquire(blocking=False):
            return
        try:
            pool = started_pool(threads, "kafkalog-strip")
            if pool is not None:
                with pool:
                    yield from self._joined(self._ahead(pool, threads))
        finally:
            _TURN.release()

    def _joined(self, strips: Generator[_Strip | None, None, None]) -> Iterator[BatchColumns]:
        at = self._start
        for strip in strips:
            if strip is None:
                return
            between = self._scanned(at, strip.start)
            if between.end != strip.start:
                return
            yield from between.batches
            yield from strip.batches
            at = strip.end

    def _ahead(self, pool: ThreadPoolExecutor, threads: int) -> Generator[_Strip | None, None, None]:
        """Yield the strips in order, None for one without a beginning. As many as there are threads are ahead."""
        waiting: deque[Future[_Strip | None]] = deque()
        try:
            for start in range(self._start, self._scan.end, self._strip_bytes):
                waiting.append(pool.submit(self._strip, start))
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()

    def _strip(self, start: int) -> _Strip | None:
        end = min(start + self._strip_bytes, self._scan.end)
        begin: int | None = start
        if start != self._start:
            begin = next_good_batch(
                self._scan.file, start, self._scan.limits, end=min(start + SEARCHED_BYTES, self._scan.end)
            )
        return None if begin is None or begin > end else self._scanned(begin, end)

    def _scanned(self, start: int, end: int) -> _Strip:
        """Scan from byte `start`. A batch that goes beyond `end` is left to whoever joins the strips."""
        if start == end:
            return _Strip(start, end, [])
        scan = self._scan.part(start, end)
        batches = [chunk.batches for chunk in scan]
        return _Strip(start, scan.valid_bytes, batches)
