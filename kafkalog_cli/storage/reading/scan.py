"""From the bytes of a segment to batch columns and faults, in chunks of a reused buffer."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from enum import Enum, unique
from typing import Any, cast

from kafkalog_cli.format.batch import Batch, BatchColumns
from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.format.kernels import Scanned, plain, plain_seven
from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits
from kafkalog_cli.storage.fs import ReadableFile
from kafkalog_cli.storage.kernels import LOADED_ROWS, KernelChoice

CHUNK_BYTES = 2 << 20
FIRST_CHUNK_BYTES = 128 << 10
"""Enough to see how many batches or records a byte holds, and so which kernels shall do the rest."""
DEVICE_BLOCK_BYTES = 4096
SECTOR_BYTES = 512
LINEAR_BLOCKS = 64


@unique
class Generation(Enum):
    """How a segment's entries are laid out."""

    SEVEN = "0.7"
    SINCE_EIGHT = "0.8+"


@dataclass(frozen=True, slots=True, eq=False)
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

    They are filled in turn: what was handed out may be overwritten when `advance` was called as often as
    there are buffers. Whoever scans reads too, so that its processor has the bytes at hand.
    """

    def __init__(self, file: ReadableFile, position: int, end: int, chunk_bytes: int, buffers: int = 1) -> None:
        self.position = position
        self.fault: Fault | None = None
        self.is_short = False
        self._file = file
        self._end = end
        self._chunk_bytes = chunk_bytes
        self._buffer = bytearray(max(0, min(chunk_bytes, end - position)))
        self._filled = 0
        self._others: deque[bytearray] = deque(bytearray() for _ in range(buffers - 1))

    def fill(self, wanted: int) -> memoryview:
        """The next `wanted` bytes as far as the file and the device give them."""
        wanted = min(wanted, self._end - self.position)
        if wanted > len(self._buffer):
            larger = bytearray(wanted)
            larger[: self._filled] = memoryview(self._buffer)[: self._filled]
            self._buffer = larger
        if wanted > self._filled:
            part = memoryview(self._buffer)[self._filled : wanted]
            got, self.fault = read_readable(self._file, self.position + self._filled, part)
            self._filled += got
        self.is_short = self._filled < wanted
        return memoryview(self._buffer)[: self._filled]

    def advance(self, consumed: int) -> None:
        """Go on behind the first `consumed` bytes."""
        rest = memoryview(self._buffer)[consumed : self._filled]
        self.position += consumed
        self._filled = len(rest)
        if consumed and self._others:
            self._turn(rest)
        elif consumed and rest:
            self._buffer[: len(rest)] = bytes(rest)

    def _turn(self, rest: memoryview) -> None:
        """Take the next buffer, with `rest` in front."""
        # One that grew for a large batch is not kept.
        self._others.append(self._buffer if len(self._buffer) <= self._chunk_bytes else bytearray())
        self._buffer = self._others.popleft()
        if len(self._buffer) < max(len(rest), min(self._chunk_bytes, self._end - self.position)):
            self._buffer = bytearray(max(len(rest), self._chunk_bytes))
        self._buffer[: len(rest)] = rest


class Scan:
    """The batches of one segment file from `start` to `end` (bytes; default: all of it), read in parts of
    `chunk_bytes`, or as large as a batch that is larger.

    Iterate for chunks; afterwards `fault` says what ended the chain of batches (None: the end of the
    file) and `valid_bytes` where (position in the file); `good_bytes` is where the last batch ends whose CRC holds
    (`start`: there is none): a damaged length leads the chain across good batches. Mirrors FileRecords.batches.
    Nothing is raised on damage; a device error is a fault with its range.
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
        chunk_bytes: int | None = None,
    ) -> None:
        self.file = file
        self.start = start
        self.end = file.size_bytes if end is None else min(end, file.size_bytes)
        self.limits = limits
        self.valid_bytes = self.good_bytes = start
        self.fault: Fault | None = None
        self.generation = Generation.SINCE_EIGHT if seven_base_offset is None else Generation.SEVEN
        self._seven_base_offset = seven_base_offset
        self._choice = choice or KernelChoice()
        self._deep = deep
        self.buffers = 1
        """How many chunks may be looked at, with the one that is being scanned."""
        self._chunk_bytes = CHUNK_BYTES if chunk_bytes is None else chunk_bytes
        self._kernels: Any = None
        if seven_base_offset is None:
            self._kernels = self._choice.from_the_start(self.end - start)

    def __iter__(self) -> Generator[Chunk, None, None]:
        window = _Window(self.file, self.valid_bytes, self.end, self._chunk_bytes, self.buffers)
        wanted = min(FIRST_CHUNK_BYTES, self._chunk_bytes)
        chosen = False
        while True:
            view = window.fill(wanted)
            scanned = self._scan(view, window.position)
            if self._deep and not chosen and scanned.consumed_bytes and _has_many_records(scanned.batches):
                # First batches with so many that those are worth a choice.
                self._choose(scanned, self.end - window.position, is_done=False)
                if self._kernels is not None:
                    chosen, scanned = True, self._scan(view, window.position)
            self.valid_bytes = window.position + scanned.consumed_bytes
            if len(scanned.batches):
                self.good_bytes = _good_end(scanned.batches, self.good_bytes)
                yield Chunk(view, window.position, scanned.batches, self.generation, self._kernels)
            if scanned.fault is not None or not scanned.needed_bytes:
                self.fault = scanned.fault
                return
            if window.is_short and len(view) - scanned.consumed_bytes < scanned.needed_bytes:
                self.fault = window.fault or _shrunk(window.position + len(view), self.end)
                return
            if scanned.consumed_bytes and not chosen:
                self._choose(scanned, self.end - self.valid_bytes)
                chosen = True
            usual = self._chunk_bytes if chosen else min(FIRST_CHUNK_BYTES, self._chunk_bytes)
            wanted = max(usual, scanned.needed_bytes)
            window.advance(scanned.consumed_bytes)

    def _choose(self, scanned: Scanned, left: int, *, is_done: bool = True) -> None:
        """Which kernels do the bytes that are left, by what the rows just scanned tell of the rows in them.

        `is_done`: these rows are not among those left.
        """
        if self._kernels is not None or self._seven_base_offset is not None:
            return
        rows = len(scanned.batches)
        if self._deep:
            pairs = zip(scanned.batches.records_count, scanned.batches.valid, strict=True)
            rows += sum(count for count, valid in pairs if valid and count > 0)
        self._kernels = self._choice.compiled(rows if is_done else 0, rows * left // scanned.consumed_bytes, left)

    def _scan(self, view: memoryview, position: int) -> Scanned:
        if self._kernels is not None:
            return cast(Scanned, self._kernels.scan(view, position, self.end, self.limits))
        if self._seven_base_offset is not None:
            return plain_seven.scan_seven(view, position, self.end, self.limits, self._seven_base_offset)
        return plain.scan(view, position, self.end, self.limits)


def _good_end(batches: BatchColumns, before: int) -> int:
    """Where the last of the batches ends whose CRC holds; `before` if none does."""
    for row in range(len(batches) - 1, -1, -1):
        if batches.valid[row]:
            return int(batches.position[row]) + int(batches.size_bytes[row])
    return before


def scan_of(file: ReadableFile, batch: Batch, limits: Limits = DEFAULT_LIMITS) -> Scan:
    """The scan of one batch, of which position and size are known."""
    return Scan(file, start=batch.position, end=batch.position + batch.size_bytes, limits=limits)


def read_readable(file: ReadableFile, position: int, buffer: memoryview) -> tuple[int, Fault | None]:
    """Read what the device gives from `position` on: (bytes, the fault with the range that it does not give).

    Where it fails is narrowed down by halves to a sector: few reads fail, which on a dying disk take seconds each.
    """
    try:
        return file.read_into(position, buffer), None
    except OSError as error:
        reason = error.strerror or str(error)
    done, failed = 0, len(buffer)
    while done < len(buffer):
        border = SECTOR_BYTES - (position + done) % SECTOR_BYTES
        half = (failed - done) // 2
        end = done + max(border, half - (position + done + half) % SECTOR_BYTES) if border < failed - done else failed
        try:
            got = file.read_into(position + done, buffer[done:end])
        except OSError:
            if end - done <= border:
                break
            failed = end
            continue
        done += got
        if done < end:
            return done, None
        if done == failed:  # it can be read now
            failed = len(buffer)
    else:
        return done, None
    bad = _unreadable_bytes(file, position + done)
    return done, Fault(FaultKind.UNREADABLE, position + done, f"cannot be read: {reason}", bad)


def unreadable_ranges(file: ReadableFile, begin: int, end: int) -> Iterator[Fault]:
    """What the device does not give of bytes `begin` to `end`."""
    buffer = bytearray(max(0, min(CHUNK_BYTES, end - begin)))
    while begin < end:
        got, fault = read_readable(file, begin, memoryview(buffer)[: end - begin])
        if fault is not None:
            yield fault
            begin = fault.position + (fault.size_bytes or SECTOR_BYTES)
        elif got:
            begin += got
        else:
            return


def _unreadable_bytes(file: ReadableFile, position: int) -> int:
    """How many bytes from `position` on, which the device refuses, it refuses in a row.

    Block by block at first, then in leaps, which may pass over something; the end to a sector.
    """
    bad, here, blocks = position, position, 0
    while here == position or not _is_readable(file, here):
        bad, blocks = here, blocks + 1
        leap = DEVICE_BLOCK_BYTES << max(0, blocks - LINEAR_BLOCKS)
        here += leap - here % DEVICE_BLOCK_BYTES
        if here >= file.size_bytes:
            here = file.size_bytes
            break
    while here - bad > SECTOR_BYTES - bad % SECTOR_BYTES:
        half = max(bad + SECTOR_BYTES, (bad + here) // 2)
        half -= half % SECTOR_BYTES
        bad, here = (bad, half) if _is_readable(file, half) else (half, here)
    return here - position


def _is_readable(file: ReadableFile, position: int) -> bool:
    try:
        file.read_into(position, memoryview(bytearray(1)))
    except OSError:
        return False
    return True


def _has_many_records(batches: BatchColumns) -> bool:
    """Whether batches that may be few have more records than usual, if what they say of them can be trusted."""
    pairs = zip(batches.records_count, batches.valid, strict=True)
    return any(valid and count >= LOADED_ROWS for count, valid in pairs)


def _shrunk(position: int, end: int) -> Fault:
    return Fault(FaultKind.TRAILING_BYTES, position, "the file became shorter while it was read", end - position)
