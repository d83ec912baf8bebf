"""From the bytes of a segment to batch columns and faults, in chunks of a reused buffer."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, unique
from typing import Any, cast

from kafkalog_cli.format.batch import BatchColumns
from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.format.kernels import Scanned, plain, plain_seven
from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits
from kafkalog_cli.storage.fs import ReadableFile
from kafkalog_cli.storage.kernels import KernelChoice

CHUNK_BYTES = 2 << 20
FIRST_CHUNK_BYTES = 128 << 10
"""Enough to see how many batches or records a byte holds, and so which kernels shall do the rest."""
DEVICE_BLOCK_BYTES = 4096


@unique
class Generation(Enum):
    """How a segment's entries are laid out."""

    SEVEN = "0.7"
    SINCE_EIGHT = "0.8+"


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some consecutive batches and the bytes that they lie in.

    `view` holds the file from byte `position` on, and is overwritten when the scan goes on. `kernels` is the
    module of compiled kernels where they made the columns.
    """

    view: memoryview
    position: int
    batches: BatchColumns
    generation: Generation
    kernels: Any = None


class _Window:
    """Reused buffers over a part of a file: bytes from `position` on; what is not consumed moves to the front.

    They are filled in turn: what was handed out is overwritten when `advance` was called as often as there are buffers.
    """

    def __init__(self, file: ReadableFile, position: int, end: int, buffers: int = 1) -> None:
        self.position = position
        self.fault: Fault | None = None
        self.is_short = False
        self._file = file
        self._end = end
        self._buffer = bytearray(max(0, min(CHUNK_BYTES, end - position)))
        self._filled = 0
        self._others: deque[bytearray] = deque(bytearray() for _ in range(buffers - 1))

    def fill(self, wanted: int) -> memoryview:
        """The next `wanted` bytes as far as the file and the device give them."""
        wanted = min(wanted, self._end - self.position)
        if wanted > len(self._buffer):
            self._buffer = self._buffer[: self._filled] + bytearray(wanted - self._filled)
        if wanted > self._filled:
            part = memoryview(self._buffer)[self._filled : wanted]
            got, self.fault = read_readable(self._file, self.position + self._filled, part)
            self._filled += got
        self.is_short = self._filled < wanted
        return memoryview(self._buffer)[: self._filled]

    def advance(self, consumed: int) -> None:
        """Go on behind the first `consumed` bytes."""
        rest = self._filled - consumed
        if consumed and self._others:
            before = self._buffer
            # One that grew for a large batch is not kept.
            self._others.append(before if len(before) <= CHUNK_BYTES else bytearray())
            self._buffer = self._others.popleft()
            if len(self._buffer) < max(rest, min(CHUNK_BYTES, self._end - self.position - consumed)):
                self._buffer = bytearray(max(rest, CHUNK_BYTES))
            self._buffer[:rest] = memoryview(before)[consumed : self._filled]
        elif consumed and rest:
            self._buffer[:rest] = self._buffer[consumed : self._filled]
        self.position += consumed
        self._filled = rest


class Scan:
    """The batches of one segment file from `start` to `end` (bytes; default: all of it).

    Iterate for chunks; afterwards `fault` says what ended the chain of batches (None: the end of the
    file) and `valid_bytes` where (position in the file). Mirrors FileRecords.batches. Nothing is raised
    on damage; a device error is a fault with its range.
    """

    def __init__(  # noqa: PLR0913
        self,
        file: ReadableFile,
        *,
        start: int = 0,
        end: int | None = None,
        limits: Limits = DEFAULT_LIMITS,
        seven_base_offset: int | None = None,
        choice: KernelChoice | None = None,
        deep: bool = False,
        buffers: int = 1,
    ) -> None:
        self.file = file
        self.end = file.size_bytes if end is None else min(end, file.size_bytes)
        self.limits = limits
        self.valid_bytes = start
        self.fault: Fault | None = None
        self.generation = Generation.SINCE_EIGHT if seven_base_offset is None else Generation.SEVEN
        self._seven_base_offset = seven_base_offset
        self._choice = choice or KernelChoice()
        self._deep = deep
        self._buffers = buffers
        self._kernels: Any = self._choice.from_the_start() if seven_base_offset is None else None

    def __iter__(self) -> Iterator[Chunk]:
        window = _Window(self.file, self.valid_bytes, self.end, self._buffers)
        wanted = FIRST_CHUNK_BYTES
        chosen = False
        while True:
            view = window.fill(wanted)
            scanned = self._scan(view, window.position)
            self.valid_bytes = window.position + scanned.consumed_bytes
            if len(scanned.batches):
                yield Chunk(view, window.position, scanned.batches, self.generation, self._kernels)
            if scanned.fault is not None or not scanned.needed_bytes:
                self.fault = scanned.fault
                return
            if window.is_short and len(view) - scanned.consumed_bytes < scanned.needed_bytes:
                self.fault = window.fault or _shrunk(window.position + len(view), self.end)
                return
            if scanned.consumed_bytes and not chosen:
                self._choose(scanned)
                chosen = True
            wanted = max(CHUNK_BYTES if chosen else FIRST_CHUNK_BYTES, scanned.needed_bytes)
            window.advance(scanned.consumed_bytes)

    def _choose(self, scanned: Scanned) -> None:
        """Which kernels do the rest, by what the rows just scanned tell of the rows to come."""
        if self._kernels is not None or self._seven_base_offset is not None:
            return
        rows = len(scanned.batches)
        if self._deep:
            rows += sum(count for count in scanned.batches.records_count if count > 0)
        left = self.end - self.valid_bytes
        self._kernels = self._choice.compiled(rows, rows * left // scanned.consumed_bytes)

    def _scan(self, view: memoryview, position: int) -> Scanned:
        if self._kernels is not None:
            return cast(Scanned, self._kernels.scan(view, position, self.end, self.limits))
        if self._seven_base_offset is not None:
            return plain_seven.scan_seven(view, position, self.end, self.limits, self._seven_base_offset)
        return plain.scan(view, position, self.end, self.limits)


def read_readable(file: ReadableFile, position: int, buffer: memoryview) -> tuple[int, Fault | None]:
    """Read what the device gives from `position` on: (bytes, the fault with the range that it does not give)."""
    try:
        return file.read_into(position, buffer), None
    except OSError as error:
        reason = error.strerror or str(error)
    done = 0
    while done < len(buffer):  # device block by device block, up to the bad one
        size = min(DEVICE_BLOCK_BYTES - (position + done) % DEVICE_BLOCK_BYTES, len(buffer) - done)
        try:
            got = file.read_into(position + done, buffer[done : done + size])
        except OSError:
            break
        if not got:
            return done, None
        done += got
    bad = _unreadable_bytes(file, position + done)
    return done, Fault(FaultKind.UNREADABLE, position + done, f"cannot be read: {reason}", bad)


def _unreadable_bytes(file: ReadableFile, position: int) -> int:
    """How many bytes from `position` on the device refuses in a row (looked at for a mebibyte)."""
    probe = memoryview(bytearray(1))
    here = position
    while here < min(file.size_bytes, position + (1 << 20)):
        try:
            file.read_into(here, probe)
        except OSError:
            here += DEVICE_BLOCK_BYTES - here % DEVICE_BLOCK_BYTES
        else:
            break
    return min(here, file.size_bytes) - position


def _shrunk(position: int, end: int) -> Fault:
    return Fault(FaultKind.TRAILING_BYTES, position, "the file became shorter while it was read", end - position)
