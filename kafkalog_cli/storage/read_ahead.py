"""Scans chunks and reads their records ahead in threads, while the caller works on those before; order is kept."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from itertools import pairwise
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkalog_cli.format.batch import CODEC_MASK
from kafkalog_cli.format.limits import Limits
from kafkalog_cli.format.records import RecordBlock
from kafkalog_cli.storage.allowance import NOT_YET
from kafkalog_cli.storage.read import RecordReader
from kafkalog_cli.storage.scan import CHUNK_BYTES, Chunk, Scan

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

CHUNKS_AHEAD = 2
WINDOWS = CHUNKS_AHEAD + 3
"""Buffers of a scan: of the chunk in work, of those ahead, of the one being scanned, and of the one being read."""
MOST_THREADS = 4
SPARE_READERS = 2
TASK_BYTES = 256 << 10
"""Compressed bytes that a task takes: the more tasks, the better they spread; decompressed they make about a block."""

LARGE_CHUNK_BYTES = 4 * CHUNK_BYTES
"""What is larger than this, for its batch is, is the last that is scanned until it is done with: one such at a time."""

Rows = tuple[int, int]
ChunkBlocks = tuple[Chunk, Iterator[RecordBlock]]
Work = Callable[[Iterator[RecordBlock]], Iterator[RecordBlock]]
"""What the threads do to the blocks that they read; it is called in the caller's thread, its iterator in another."""


class _Task(NamedTuple):
    """Rows of a chunk that one reader reads: the first block in a thread, any others when they are asked for."""

    reader: RecordReader
    blocks: Iterator[RecordBlock]
    first: Future[RecordBlock | None]


class ReadAhead:
    """Iterate for the chunks of a scan (made with `buffers=WINDOWS`), each with its record blocks.

    `rows` tells which rows of a chunk are to be read (None: no records). A chunk lives until the next is asked
    for, and so does a block. Plain kernels hold the GIL, so threads start only with the first compiled chunk;
    from then on blocks come as `work` gives them.
    """

    def __init__(
        self, scan: Scan, limits: Limits, rows: Callable[[Chunk], list[Rows]] | None, work: Work | None = None
    ) -> None:
        self._chunks = iter(scan)
        self._limits = limits
        self._rows = rows
        self._work = work

    def __iter__(self) -> Iterator[ChunkBlocks]:
        try:
            yield from self._blocks()
        finally:
            self._chunks.close()  # whoever stops early closes the file next

    def _blocks(self) -> Iterator[ChunkBlocks]:
        reader = RecordReader(self._limits)
        for chunk in self._chunks:
            yield chunk, self._at_once(reader, chunk)
            if chunk.kernels is not None:
                break
        else:
            return
        del chunk  # it may be a large one
        from concurrent.futures import ThreadPoolExecutor

        threads = max(2, min(os.cpu_count() or 1, MOST_THREADS))
        with _PIPELINES as running, ThreadPoolExecutor(threads, "kafkalog-read") as pool:
            # Each has buffers of its own; of several logs at a time the later ones read ahead less.
            more = (threads + SPARE_READERS) // running - 1
            readers = [reader, *(RecordReader(self._limits) for _ in range(more))]
            try:
                yield from _Pipeline(pool, self._chunks, readers, self._rows, self._work)
            finally:
                pool.shutdown(cancel_futures=True)

    def _at_once(self, reader: RecordReader, chunk: Chunk) -> Iterator[RecordBlock]:
        for first, end in self._rows(chunk) if self._rows is not None else ():
            yield from reader.blocks(chunk, first, end)


class _Running:
    """Counts those that are at work in this process."""

    def __init__(self) -> None:
        self._count = 0
        self._lock = Lock()

    def __enter__(self) -> int:
        """How many there are with this one."""
        with self._lock:
            self._count += 1
            return self._count

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._count -= 1


_PIPELINES = _Running()


class _Pipeline:
    """The part of the work that threads do."""

    def __init__(
        self,
        pool: ThreadPoolExecutor,
        chunks: Iterator[Chunk],
        readers: list[RecordReader],
        rows: Callable[[Chunk], list[Rows]] | None,
        work: Work | None,
    ) -> None:
        self._pool = pool
        self._chunks = chunks
        self._free = readers
        self._rows = rows
        self._work = work
        self._scanning: Future[Chunk | None] | None = None
        self._ready: deque[tuple[Chunk, int]] = deque()
        self._waiting: deque[tuple[Chunk, Rows]] = deque()
        self._tasks: deque[_Task] = deque()
        self._scan()

    def __iter__(self) -> Iterator[ChunkBlocks]:
        while True:
            self._look_ahead(must_wait=not self._ready)
            if not self._ready:
                return
            chunk, tasks = self._ready.popleft()
            yield chunk, self._blocks(tasks)
            if len(chunk.view) > LARGE_CHUNK_BYTES:
                del chunk
                self._scan()

    def _scan(self) -> None:
        self._scanning = self._pool.submit(next, self._chunks, None)

    def _look_ahead(self, *, must_wait: bool = False) -> None:
        """Take in chunks that are scanned, have the next one scanned, and keep the readers busy."""
        while self._scanning is not None and len(self._ready) < CHUNKS_AHEAD:
            if not (must_wait or self._scanning.done()):
                break
            chunk = self._scanning.result()
            self._scanning = None
            if chunk is not None:
                if len(chunk.view) <= LARGE_CHUNK_BYTES:
                    self._scan()
                parts = [] if self._rows is None else list(_tasks_of(chunk, self._rows(chunk)))
                self._waiting.extend((chunk, part) for part in parts)
                self._ready.append((chunk, len(parts)))
            must_wait = False
        while self._waiting and self._free:
            chunk, (first, end) = self._waiting.popleft()
            reader = self._free.pop()
            blocks = reader.blocks(chunk, first, end, ahead=True)
            if self._work is not None:
                blocks = self._work(blocks)
            self._tasks.append(_Task(reader, blocks, self._pool.submit(next, blocks, None)))

    def _blocks(self, tasks: int) -> Iterator[RecordBlock]:
        for _ in range(tasks):
            self._look_ahead()
            task = self._tasks.popleft()
            block = self._result(task.first)
            if block is NOT_YET:
                block = next(task.blocks, None)
            while block is not None:
                yield block
                block = next(task.blocks, None)
            self._free.append(task.reader)
        self._look_ahead()

    def _result(self, first: Future[RecordBlock | None]) -> RecordBlock | None:
        """Wait for a block; what is scanned meanwhile is given to the readers at once."""
        from concurrent.futures import FIRST_COMPLETED, wait

        while not first.done() and self._scanning is not None and len(self._ready) < CHUNKS_AHEAD:
            either: tuple[Future[Any], ...] = (first, self._scanning)
            wait(either, return_when=FIRST_COMPLETED)
            self._look_ahead()
        return first.result()


def _tasks_of(chunk: Chunk, rows: list[Rows]) -> Iterator[Rows]:
    """`rows` cut to what one task takes: as they are where nothing is compressed."""
    import numpy as np

    for first, end in rows:
        part = chunk.batches.matrix[:, first:end]
        if not (part[7] & CODEC_MASK).any():
            yield first, end
            continue
        turns = (np.cumsum(part[1]) - part[1]) // TASK_BYTES
        edges = (np.flatnonzero(np.diff(turns)) + first + 1).tolist()
        yield from pairwise([first, *edges, end])
