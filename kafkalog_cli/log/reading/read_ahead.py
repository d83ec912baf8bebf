"""Scan chunks and read their records ahead in threads, while the caller works on earlier chunks. The order is kept."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from functools import partial
from itertools import pairwise
from threading import Condition, Lock, Thread
from typing import NamedTuple

from kafkalog_cli.format.batch import CODEC_MASK
from kafkalog_cli.format.compression import Codec
from kafkalog_cli.format.limits import Limits
from kafkalog_cli.format.records import RecordBlock
from kafkalog_cli.log.reading.allowance import ARENA_BYTES, NOT_YET
from kafkalog_cli.log.reading.read import RecordReader
from kafkalog_cli.log.reading.scan import CHUNK_BYTES, Chunk, Rows, Scan

CHUNKS_AHEAD = 2
"""Number of chunks whose records may be read before their turn."""
MOST_THREADS = 4
SPARE_READERS = 2
TASK_BYTES = ARENA_BYTES * 3 // 4
"""Decompressed bytes per task, by the expansion of the batches before it: a task is a block, with room for variation.

A thread reads only the first block of a task, so larger tasks leave work to the caller. Smaller tasks cost more Python:
with a third of these bytes, a log of lz4 took a fifth more processor time.
"""
FIRST_EXPANSION = 6.0
"""The expansion that is assumed until a block was decompressed."""
LEAST_PACKED_BYTES, MOST_PACKED_BYTES = 256 << 10, 1 << 20
"""Bounds of a task in the log: of bombs, few are decompressed at a time, and a chunk has work for two threads."""

SMALL_BATCH_BYTES = 8 << 10
"""Mean compressed size below which one thread is used.

Measured with batches of 5 KiB of lz4: cleaning a log is faster with one thread than with two, which wait for each
other.
"""

LARGE_CHUNK_BYTES = 4 * CHUNK_BYTES
"""Chunks larger than this, because of a large batch, are processed one at a time.

No further chunk is scanned until the caller has finished with the large one.
"""

ChunkBlocks = tuple[Chunk, Iterator[RecordBlock]]
Read = Callable[[], Iterator[RecordBlock]]
Work = Callable[[Read], Iterator[RecordBlock]]
"""The function that threads apply to blocks. It calls its argument to read them."""


class _Task:
    """Rows of a chunk that one reader reads: the first block in a thread, further blocks on request."""

    def __init__(self, chunk: Chunk, rows: Rows) -> None:
        self.chunk = chunk
        self.rows = rows
        self.blocks: Iterator[RecordBlock] = iter(())
        self.first: RecordBlock | None = None
        self.reader: RecordReader | None = None
        self.is_done = False
        self.error: BaseException | None = None


class _Scanned(NamedTuple):
    """A chunk and its tasks, or the error that ended the scan."""

    chunk: Chunk | None
    tasks: deque[_Task]
    error: BaseException | None = None


class ReadAhead:
    """Iterate over the chunks of a scan, each with its record blocks.

    A chunk is valid until the next is requested, and so is a block. All blocks of a chunk must be taken. Threads start
    after the first chunk if the log is large.

    `rows` returns the rows of a chunk to read. It is called for one chunk after another, but in a thread. `work` is
    applied to the blocks of large logs. `chosen` replaces the chunks of the scan by others: with fewer batches, or
    several per chunk. `strict` is passed to the RecordReader. Without `threads`, nothing is read before the caller
    requests it, so that many logs can be read side by side.
    """

    def __init__(  # noqa: PLR0913
        self,
        scan: Scan,
        limits: Limits,
        rows: Callable[[Chunk], list[Rows]],
        work: Work | None = None,
        chosen: Callable[[Scan], Generator[Chunk, None, None]] | None = None,
        *,
        strict: bool = False,
        threads: bool = True,
    ) -> None:
        # One buffer each for the chunk in use, the chunks ahead and the chunk being scanned.
        scan.buffers = CHUNKS_AHEAD + 2 if threads else 1
        self._chunks = iter(scan) if chosen is None else chosen(scan)
        self._limits = limits
        self._rows = rows
        self._work = work
        self._strict = strict
        self._threads = threads

    def __iter__(self) -> Iterator[ChunkBlocks]:
        try:
            yield from self._blocks()
        finally:
            self._chunks.close()  # a caller that stops early closes the file next

    def _blocks(self) -> Iterator[ChunkBlocks]:
        reader = RecordReader(self._limits, strict=self._strict)
        for chunk in self._chunks:
            yield chunk, self._read_here(reader, chunk)
            if chunk.is_large and self._threads:
                break
        else:
            return
        is_small = _packs_little(chunk)
        del chunk  # it may be a large one
        threads = 1 if is_small else max(2, min(os.cpu_count() or 1, MOST_THREADS))
        with _PIPELINES as running:
            # Each reader has its own buffers, so with several logs at a time, later logs get fewer readers.
            more = (threads + SPARE_READERS) // running - 1
            readers = [reader, *(RecordReader(self._limits, strict=self._strict) for _ in range(more))]
            pipeline = _Pipeline(self._chunks, readers, self._rows, self._work)
            try:
                if pipeline.start(threads):
                    yield from pipeline
            finally:
                pipeline.stop()
        for chunk in self._chunks:  # without a thread
            yield chunk, self._read_here(reader, chunk)

    def _read_here(self, reader: RecordReader, chunk: Chunk) -> Iterator[RecordBlock]:
        for first, end in self._rows(chunk):
            if self._work is None or not chunk.is_large:
                yield from reader.blocks(chunk, first, end)
            else:
                yield from self._work(partial(_blocks, reader, chunk, (first, end), ahead=False))


class _Running:
    """Counts the pipelines that are running in this process."""

    def __init__(self) -> None:
        self._count = 0
        self._lock = Lock()

    def __enter__(self) -> int:
        """Return the number of running pipelines, including this pipeline."""
        with self._lock:
            self._count += 1
            return self._count

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._count -= 1


_PIPELINES = _Running()


class _Pipeline:
    """The threads of a ReadAhead. Each thread takes the next work: the scan of a chunk, or a task of a chunk."""

    def __init__(
        self,
        chunks: Iterator[Chunk],
        readers: list[RecordReader],
        rows: Callable[[Chunk], list[Rows]],
        work: Work | None,
    ) -> None:
        self._chunks = chunks
        self._free = readers
        self._rows = rows
        self._work = work
        self._waiting: deque[_Task] = deque()
        self._scanned: deque[_Scanned] = deque()
        self._expansion = FIRST_EXPANSION
        self._held = 0
        """Number of chunks in use, including the chunk that is being scanned. A large chunk counts as all of them."""
        self._is_scanning = self._is_over = self._is_stopped = False
        self._lock = Lock()
        self._for_threads, self._for_caller = Condition(self._lock), Condition(self._lock)
        self._wanted: _Task | None = None
        self._is_waited = False
        self._threads: list[Thread] = []

    def start(self, threads: int) -> bool:
        """Start the threads, or as many as the system gives; return whether there is one."""
        with suppress(RuntimeError):  # "can't start new thread"
            for number in range(threads):
                thread = Thread(target=self._run, name=f"kafkalog-read_{number}")
                thread.start()
                self._threads.append(thread)
        return bool(self._threads)

    def stop(self) -> None:
        """Stop after the tasks in progress, and wait for the threads. Tasks that have not started are dropped."""
        with self._lock:
            self._is_stopped = True
            self._for_threads.notify_all()
        for thread in self._threads:
            thread.join()

    # -- in the caller's thread

    def __iter__(self) -> Iterator[ChunkBlocks]:
        while True:
            with self._lock:
                while not self._scanned:
                    self._wait_for(None)
                chunk, tasks, error = self._scanned.popleft()
            if error is not None:
                raise error
            if chunk is None:
                return
            yield chunk, self._blocks(tasks)
            size = self._weight(chunk)
            del chunk  # it may be a large one
            with self._lock:
                self._held -= size
                self._for_threads.notify()

    def _blocks(self, tasks: deque[_Task]) -> Iterator[RecordBlock]:
        while tasks:
            task = tasks.popleft()
            with self._lock:
                while not task.is_done:
                    self._wait_for(task)
            if task.error is not None:
                raise task.error
            block = task.first
            task.first = None
            if block is NOT_YET:
                block = next(task.blocks, None)
            while block is not None:
                yield block
                block = next(task.blocks, None)
            assert task.reader is not None
            with self._lock:
                self._free.append(task.reader)
                self._for_threads.notify()

    def _wait_for(self, wanted: _Task | None) -> None:
        self._wanted, self._is_waited = wanted, True
        self._for_caller.wait()
        self._is_waited = False

    def _tell(self, made: _Task | None) -> None:
        """Wake the caller if it is waiting for `made`."""
        if self._is_waited and self._wanted is made:
            self._for_caller.notify()

    # -- in the threads

    def _run(self) -> None:
        done: _Task | _Scanned | None = None
        while True:
            with self._lock:
                if isinstance(done, _Task):
                    done.is_done = True
                    self._tell(done)
                elif done is not None:
                    self._take_in(done)
                done = None  # a waiting thread must not keep a chunk alive
                while not (self._is_stopped or self._may_scan() or (self._waiting and self._free)):
                    self._for_threads.wait()
                if self._is_stopped:
                    return
                task = None
                if self._may_scan():
                    self._is_scanning = True
                    self._held += 1
                else:
                    task = self._waiting.popleft()
                    task.reader = self._free.pop()
            done = self._scan() if task is None else self._read(task)

    def _may_scan(self) -> bool:
        return not self._is_scanning and not self._is_over and self._held <= CHUNKS_AHEAD + 1

    def _take_in(self, scanned: _Scanned) -> None:
        self._is_scanning = False
        self._is_over = scanned.chunk is None
        if scanned.chunk is not None:
            self._held += self._weight(scanned.chunk) - 1
        self._scanned.append(scanned)
        self._waiting.extend(scanned.tasks)
        self._tell(None)
        self._for_threads.notify(len(scanned.tasks))

    def _scan(self) -> _Scanned:
        """Scan the next chunk."""
        try:
            chunk = next(self._chunks, None)
            parts = [] if chunk is None else list(self._tasks_of(chunk, self._rows(chunk)))
            return _Scanned(chunk, deque(_Task(chunk, part) for part in parts if chunk is not None))
        except BaseException as error:  # the caller's thread raises it when its turn comes
            return _Scanned(None, deque(), error)

    def _tasks_of(self, chunk: Chunk, rows: list[Rows]) -> Iterator[Rows]:
        """Split `rows` into rows per task. Rows are not split if no batch in them is compressed."""
        import numpy as np

        task_bytes = min(max(int(TASK_BYTES / self._expansion), LEAST_PACKED_BYTES), MOST_PACKED_BYTES)
        for first, end in rows:
            part = chunk.batches.part(first, end).arrays()
            if not (part.attributes & CODEC_MASK).any():
                yield first, end
                continue
            turns = (np.cumsum(part.size_bytes) - part.size_bytes) // task_bytes
            edges = (np.flatnonzero(np.diff(turns)) + first + 1).tolist()
            yield from pairwise([first, *edges, end])

    def _read(self, task: _Task) -> _Task:
        """Read the first block of a task."""
        assert task.reader is not None
        try:
            read = partial(_blocks, task.reader, task.chunk, task.rows)
            task.blocks = read() if self._work is None else self._work(read)
            task.first = next(task.blocks, None)
            self._expansion = task.reader.expansion or self._expansion
        except BaseException as error:  # as above
            task.error = error
        return task

    def _weight(self, chunk: Chunk) -> int:
        """Return how much a chunk adds to `_held`. A large chunk blocks further scans until it is finished."""
        return CHUNKS_AHEAD + 2 if len(chunk.view) > LARGE_CHUNK_BYTES else 1


def _packs_little(chunk: Chunk) -> bool:
    """Whether batches are small and use a fast codec.

    Decompression is then mostly Python, and threads block each other.
    """
    import numpy as np

    batches = chunk.batches.arrays()
    packed = batches.size_bytes[np.isin(batches.attributes & CODEC_MASK, (Codec.SNAPPY, Codec.LZ4))]
    return len(packed) > 0 and int(packed.mean()) < SMALL_BATCH_BYTES


def _blocks(reader: RecordReader, chunk: Chunk, rows: Rows, *, ahead: bool = True) -> Iterator[RecordBlock]:
    return reader.blocks(chunk, *rows, ahead=ahead)
