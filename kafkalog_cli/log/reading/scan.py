"""From the bytes of a segment to batch columns and faults, in chunks of a reused buffer."""

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from enum import Enum, unique

from kafkalog_cli.disk.fs import ReadableFile
from kafkalog_cli.format.batch import HEADER_SIZE_UP_TO_MAGIC_BYTES, BatchColumns
from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.format.legacy import scan_seven
from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits
from kafkalog_cli.format.scan import Scanned, scan
from kafkalog_cli.log.reading.allowance import LARGE_BYTES, LARGE_TURN

CHUNK_BYTES = 2 << 20
LARGE_LOG_BYTES = 16 << 20
MANY_BATCHES, MANY_RECORDS = 4_000, 60_000
"""From one of these on, questions about columns pay for NumPy, whose import takes longer than a dump of a small log."""
DEVICE_BLOCK_BYTES = 4096
SECTOR_BYTES = 512
LINEAR_BLOCKS = 64


@unique
class Generation(Enum):
    """The layout of a segment's entries."""

    SEVEN = "0.7"
    SINCE_EIGHT = "0.8+"


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """Consecutive batches and the bytes that contain them.

    `view` contains the file from byte `position` on. It is overwritten when the scan continues. `is_large`: the log has
    enough records for threads.
    """

    view: memoryview
    position: int
    batches: BatchColumns
    generation: Generation
    is_large: bool = False


Rows = tuple[int, int]
"""A run of rows of a chunk's batches: its first row, and the row after it."""


_kept = threading.local()


def keep_buffer(buffer: bytearray) -> None:
    """Keep a buffer for the next scan of this thread: new memory costs as much as reading a small segment."""
    if len(buffer) <= CHUNK_BYTES:
        _kept.buffer = buffer


class _Window:
    """Reused buffers over a part of a file: bytes from `position` on. Bytes that are not consumed move to the front.

    The buffers are filled in turn. Bytes that `fill` returned may be overwritten after as many calls of `advance` as
    there are buffers. The thread that scans also reads the file, so that its processor has the bytes in its cache.
    """

    def __init__(self, file: ReadableFile, position: int, end: int, chunk_bytes: int, buffers: int = 1) -> None:
        self.position = position
        self.fault: Fault | None = None
        self.is_short = False
        self._file = file
        self._end = end
        self._chunk_bytes = chunk_bytes
        self._buffer = self._of_earlier_scan(max(0, min(chunk_bytes, end - position)))
        self._filled = 0
        self._others: deque[bytearray] = deque(bytearray() for _ in range(buffers - 1))

    @staticmethod
    def _of_earlier_scan(size: int) -> bytearray:
        buffer: bytearray | None = _kept.__dict__.pop("buffer", None)
        return bytearray(size) if buffer is None or len(buffer) < size else buffer

    def keep_buffer(self) -> None:
        """See `keep_buffer`."""
        keep_buffer(self._buffer)

    def fill(self, wanted: int) -> memoryview:
        """Return the next `wanted` bytes, as far as the file has them and the device can read them."""
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
        """Continue after the first `consumed` bytes."""
        rest = memoryview(self._buffer)[consumed : self._filled]
        self.position += consumed
        self._filled = len(rest)
        if consumed and self._others:
            self._turn(rest)
        elif consumed and len(self._buffer) > max(self._chunk_bytes, LARGE_BYTES):
            self._buffer = bytearray(rest)  # one that grew for a large batch is not kept
        elif consumed and rest:
            self._buffer[: len(rest)] = bytes(rest)

    def _turn(self, rest: memoryview) -> None:
        """Switch to the next buffer, and copy `rest` to its front."""
        # A buffer that grew for a large batch is not kept.
        self._others.append(self._buffer if len(self._buffer) <= self._chunk_bytes else bytearray())
        self._buffer = self._others.popleft()
        wanted = max(len(rest), min(self._chunk_bytes, self._end - self.position))
        if len(self._buffer) < wanted:
            self._buffer = bytearray(wanted)
        self._buffer[: len(rest)] = rest


class _Turns:
    """Whether the scan has the turn for a large batch."""

    def __init__(self, job: int | None) -> None:
        self._job = job
        self._is_taken = False

    def take(self, wanted_bytes: int) -> None:
        """Take the turn for a buffer of `wanted_bytes` if it is large."""
        if wanted_bytes > LARGE_BYTES:
            LARGE_TURN.take(self._job)
            self._is_taken = True

    def give(self) -> None:
        """Give back the turn if it was taken."""
        if self._is_taken:
            self._is_taken = False
            LARGE_TURN.give(self._job)


class Scan:
    """The batches of one segment file from byte `start` to byte `end` (default: the end of the file).

    The file is read in parts of `chunk_bytes`, or larger parts for larger batches. Iterate over the scan for chunks.
    A second iteration continues after the last chunk of the first.
    Damage does not raise; a device error is a fault with its range. Mirrors FileRecords.batches. `is_end`: whether
    a fault after the last batch is only the end of the log.

    After the iteration, `fault` is the reason why the chain of batches ended (None: the end of the file), and
    `valid_bytes` the position where it ended. `good_bytes` is the end of the last batch with a right CRC (`start` if
    there is none). It can be lower, because a damaged length leads the chain across good batches.
    """

    def __init__(  # noqa: PLR0913
        self,
        file: ReadableFile,
        *,
        start: int = 0,
        end: int | None = None,
        limits: Limits = DEFAULT_LIMITS,
        seven_base_offset: int | None = None,
        chunk_bytes: int | None = None,
        is_end: Callable[[Fault], bool] = lambda _: False,
    ) -> None:
        self.file = file
        self.start = start
        self.end = file.size_bytes if end is None else min(end, file.size_bytes)
        self.limits = limits
        self.valid_bytes = self.good_bytes = start
        self.fault: Fault | None = None
        self.generation = Generation.SINCE_EIGHT if seven_base_offset is None else Generation.SEVEN
        self._seven_base_offset = seven_base_offset
        self._is_end = is_end
        self.buffers = 1
        """The number of chunks that may be in use at the same time, including the chunk that is being scanned."""
        self.columns_only = False
        """Whether the chunks have columns but no bytes: bytes of a large batch are then released at once."""
        self._chunk_bytes = CHUNK_BYTES if chunk_bytes is None else chunk_bytes
        self.next_bytes = 0
        """The size of the batch after the last chunk. 0 if the bytes that were read end before it says so."""
        self._is_large = seven_base_offset is None and self.end - start >= LARGE_LOG_BYTES
        self._job = LARGE_TURN.current()
        self.first_bytes = self._chunk_bytes
        """The bytes of the first chunk."""

    def __iter__(self) -> Generator[Chunk, None, None]:
        buffers = 1 if self.columns_only else self.buffers
        window = _Window(self.file, self.valid_bytes, self.end, self._chunk_bytes, buffers)
        turns = _Turns(self._job)
        try:
            yield from self._chunks(window, turns)
        finally:
            turns.give()
            if self.columns_only:
                window.keep_buffer()

    def part(self, start: int, end: int) -> "Scan":
        """Return the scan of the columns of a part of the same file."""
        scan = Scan(self.file, start=start, end=end, limits=self.limits, chunk_bytes=self._chunk_bytes)
        scan.columns_only = True
        scan._is_large = self._is_large
        return scan

    def take(self, batches: BatchColumns) -> Chunk:
        """Return batches that a part has scanned as the next chunk of this scan, which continues after them."""
        self.valid_bytes = batches.end_position
        self._note_good(batches)
        return Chunk(memoryview(b""), int(batches.position[0]), batches, self.generation, self._is_large)

    def _chunks(self, window: _Window, turns: _Turns) -> Generator[Chunk, None, None]:
        wanted = self.first_bytes
        while True:
            turns.take(wanted)
            view = window.fill(wanted)
            scanned = self._scan(view, window.position)
            position, read_bytes = window.position, len(view)
            self.valid_bytes = position + scanned.consumed_bytes
            if self.columns_only:
                view = memoryview(b"")
                window.advance(scanned.consumed_bytes)
            if len(scanned.batches):
                self._note_good(scanned.batches)
                self.next_bytes = scanned.needed_bytes if scanned.needed_bytes > HEADER_SIZE_UP_TO_MAGIC_BYTES else 0
                yield Chunk(view, position, scanned.batches, self.generation, self._is_large)
            if scanned.fault is not None or not scanned.needed_bytes:
                self.fault = self._unless_end(scanned.fault)
                return
            if window.is_short and read_bytes - scanned.consumed_bytes < scanned.needed_bytes:
                self.fault = self._unless_end(window.fault or _shrunk(position + read_bytes, self.end))
                return
            wanted = max(self._chunk_bytes if scanned.consumed_bytes else self.first_bytes, scanned.needed_bytes)
            if not self.columns_only:
                window.advance(scanned.consumed_bytes)
            del view
            turns.give()

    def _unless_end(self, fault: Fault | None) -> Fault | None:
        """Return the fault that ended the chain; None if the log ends there."""
        is_end = fault is not None and fault.position == self.valid_bytes and self._is_end(fault)
        return None if is_end else fault

    def _note_good(self, batches: BatchColumns) -> None:
        row = batches.last_valid_row()
        if row is not None:
            self.good_bytes = int(batches.position[row]) + int(batches.size_bytes[row])

    def _scan(self, view: memoryview, position: int) -> Scanned:
        if self._seven_base_offset is not None:
            return scan_seven(view, position, self.end, self.limits, self._seven_base_offset)
        found = scan(view, position, self.end, self.limits)
        self._is_large = self._is_large or _are_many(found.batches)
        return found


def read_readable(file: ReadableFile, position: int, buffer: memoryview) -> tuple[int, Fault | None]:
    """Read from `position` on as far as the device can: (number of bytes, fault with the unreadable range or None).

    The failing position is found by bisection, to a sector. So few reads fail: on a dying disk each failing read takes
    seconds.
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
        if done == failed:  # the range can be read now
            failed = len(buffer)
    else:
        return done, None
    bad = _unreadable_bytes(file, position + done)
    return done, Fault(FaultKind.UNREADABLE, position + done, f"cannot be read: {reason}", bad)


def unreadable_ranges(file: ReadableFile, begin: int, end: int) -> Iterator[Fault]:
    """Yield a fault for each range of bytes `begin` to `end` that the device cannot read. Holes can be read."""
    buffer = bytearray(max(0, min(CHUNK_BYTES, end - begin)))
    while (begin := file.data_from(begin)) < end:
        got, fault = read_readable(file, begin, memoryview(buffer)[: end - begin])
        if fault is not None:
            yield fault
            begin = fault.position + (fault.size_bytes or SECTOR_BYTES)
        elif got:
            begin += got
        else:
            return


def _unreadable_bytes(file: ReadableFile, position: int) -> int:
    """Return the size of the unreadable range that starts at `position`.

    The search goes block by block at first, and then in growing leaps, which may skip readable blocks. The end is exact
    to a sector.
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


def _are_many(batches: BatchColumns) -> bool:
    counts = zip(batches.records_count, batches.valid, strict=True)
    return len(batches) >= MANY_BATCHES or sum(count for count, valid in counts if valid) >= MANY_RECORDS


def _shrunk(position: int, end: int) -> Fault:
    return Fault(FaultKind.TRAILING_BYTES, position, "the file became shorter while it was read", end - position)


GATHERED_ROWS = 4_000
"""The number of batches at which checks of whole columns reach full speed; a chunk may have only 200."""


def good_rows(batches: BatchColumns) -> list[Rows]:
    """Return runs of valid batches."""
    valid = batches.valid
    if batches.all_valid():
        return [(0, len(valid))] if len(valid) else []
    runs: list[Rows] = []
    for row, good in enumerate(valid):
        if good and runs and runs[-1][1] == row:
            runs[-1] = (runs[-1][0], row + 1)
        elif good:
            runs.append((row, row + 1))
    return runs


def gathered(chunks: Iterator[BatchColumns]) -> Iterator[BatchColumns]:
    """Yield the same batches, joined until operations on them pay off."""
    waiting: list[BatchColumns] = []
    rows = 0
    for batches in chunks:
        waiting.append(batches)
        rows += len(batches)
        if rows >= GATHERED_ROWS:
            yield BatchColumns.joined(waiting)
            waiting, rows = [], 0
    if waiting:
        yield BatchColumns.joined(waiting)
