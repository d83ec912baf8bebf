"""Split a log into fetches as a consumer gets them: whole batches, as many as a chunk holds."""

from __future__ import annotations

from collections.abc import Iterator

from kafkalog_cli.format.fault import Fault
from kafkalog_cli.ops.read.log_read import LogRead, SegmentRead
from kafkalog_cli.ops.read.visible import VisibleChunk


class Fetch:
    """Batches byte for byte as they are in one segment.

    `parts` follow each other and are valid until the next fetch.
    """

    def __init__(self) -> None:
        self.parts: list[memoryview] = []
        self.size_bytes = 0
        self.batches = 0
        self._kept = 0

    def add(self, batch: memoryview) -> None:
        """Add a batch."""
        self.parts.append(batch)
        self.size_bytes += len(batch)
        self.batches += 1

    def keep(self) -> None:
        """Copy the batches added, because the buffer they are in is about to be overwritten."""
        if len(self.parts) > self._kept:
            self.parts[self._kept :] = [memoryview(b"".join(self.parts[self._kept :]))]
            self._kept = len(self.parts)


class Fetches:
    """Iterate over the fetches of one segment, and the Faults between them.

    A fetch has up to the request's `chunk_bytes`. If not even one batch fits, its size doubles until one does. (A
    broker also sends the beginning of the next batch, which no client can use.)
    """

    def __init__(self, log: LogRead, segment: SegmentRead) -> None:
        self._segment = segment
        self._chunk_bytes = log.request.chunk_bytes
        self._most_bytes = log.request.limits.max_batch_bytes

    def __iter__(self) -> Iterator[Fetch | Fault]:
        fetch, room = Fetch(), 0
        for chunk in self._segment.chunks():
            if isinstance(chunk, Fault):
                if fetch.batches:
                    yield fetch
                    fetch = Fetch()
                yield chunk
                continue
            for batch in _batches(chunk):
                if fetch.batches and fetch.size_bytes + len(batch) > room:
                    yield fetch
                    fetch = Fetch()
                if not fetch.batches:
                    room = self._room(len(batch))
                fetch.add(batch)
            fetch.keep()
        if fetch.batches:
            yield fetch

    def _room(self, size: int) -> int:
        room = self._chunk_bytes
        while room < size:
            room *= 2
        return min(room, max(self._most_bytes, size))


def _batches(chunk: VisibleChunk) -> Iterator[memoryview]:
    """Yield the bytes of each batch."""
    for position, size in zip(chunk.batches.position, chunk.batches.size_bytes, strict=True):
        begin = int(position) - chunk.position
        yield chunk.view[begin : begin + int(size)]
