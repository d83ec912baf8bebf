"""Follow the sizes of batches from one to the next, without their headers."""

from __future__ import annotations

from kafkalog_cli.disk.fs import ReadableFile
from kafkalog_cli.format.batch import (
    HEADER_SIZE_UP_TO_MAGIC_BYTES,
    LOG_OVERHEAD_BYTES,
    MINIMUM_ENTRY_SIZE,
    RECORD_BATCH,
)
from kafkalog_cli.format.fault import Fault
from kafkalog_cli.log.reading.header import header_at
from kafkalog_cli.log.reading.scan import read_readable


class BatchChain:
    """The chains of batches of a segment, as FileLogInputStream.nextBatch follows them.

    `fault_from` is quick for the positions of a sound offset index, which ascend and lie on one chain. It then follows
    the segment to its end once, and a second time up to the last position.
    """

    def __init__(self, file: ReadableFile) -> None:
        self._file = file
        self._buffer = bytearray(_PIECE_BYTES)
        self._buffer_position = 0
        self._buffer_bytes = 0
        self._known: int | None = None
        self._fault: Fault | None = None

    def fault_from(self, position: int) -> Fault | None:
        """Return the fault where the batches from `position` to the segment's end cannot be followed, or None."""
        if self._known is None or self._follow(self._known, position) != position:
            found = self._follow(position, self._file.size_bytes)
            self._fault = found if isinstance(found, Fault) else None
        self._known = position
        return self._fault

    def _follow(self, position: int, end: int) -> int | Fault | None:
        """Return the first position from `position` on that is not below `end`, or the fault before it.

        None if no complete batch follows before `end`.
        """
        size_bytes = self._file.size_bytes
        unpack = _START.unpack_from
        while position < end:
            if position >= size_bytes - HEADER_SIZE_UP_TO_MAGIC_BYTES:
                return None
            at = position - self._buffer_position
            if not 0 <= at <= self._buffer_bytes - HEADER_SIZE_UP_TO_MAGIC_BYTES:
                got, fault = read_readable(self._file, position, memoryview(self._buffer))
                self._buffer_position, self._buffer_bytes, at = position, got, 0
                if got < HEADER_SIZE_UP_TO_MAGIC_BYTES:
                    return fault
            _, size = unpack(self._buffer, at)
            if size < MINIMUM_ENTRY_SIZE:
                found = header_at(self._file, position)
                return found if isinstance(found, Fault) else None
            if position > size_bytes - LOG_OVERHEAD_BYTES - size:
                return None
            position += LOG_OVERHEAD_BYTES + size
        return position


_PIECE_BYTES = 64 << 10
_START = RECORD_BATCH.struct_of("base_offset", "batch_length")
