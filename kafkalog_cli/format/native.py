"""The library of C kernels (native/kafkalog.h), declared to Python. No other module knows ctypes.

A buffer is bytes, bytearray, a contiguous memoryview or a contiguous array. Calls release the GIL.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import threading
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkalog_cli.errors import KafkalogError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    from kafkalog_cli.format.columns import IntColumn, Matrix

    Buffer: TypeAlias = Any  # collections.abc.Buffer of Python 3.12

BATCH_COLUMNS, RECORD_COLUMNS, NEW_COLUMNS = 15, 11, 19
SCAN_ROWS = RECORD_ROWS = (1 << 16) + 64
"""Largest number of rows that one call returns. With a power of two, all columns would share a part of the cache."""
SMALLEST_ENTRY_BYTES = 26

_FOLDER = os.path.dirname(__file__)
_INSTALL = "python -m pip install --force-reinstall kafkalog-cli"
_BUILD = "python native/build.py"

_INT, _BYTES = ctypes.c_int64, ctypes.c_void_p


def _load(path: str = f"{_FOLDER}/native.lib") -> Any:
    """Load the library. Raises KafkalogError if there is none, or if it was built of other sources."""
    if sys.byteorder != "little":
        raise KafkalogError(reason="kafkalog runs on little-endian processors only")
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        command = _INSTALL if _digest_of_sources() is None else _BUILD
        raise KafkalogError(reason=f"the library of kernels does not load ({error}): {command}") from error
    library.kafkalog_sources.restype = ctypes.c_char_p
    built = library.kafkalog_sources().decode().rpartition(":")[2]
    if _digest_of_sources() not in (None, built):
        raise KafkalogError(reason=f"{path} was not built of the sources in this clone: {_BUILD}")
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = _TYPES[result], [_TYPES[letter] for letter in arguments]
    return library


def _digest_of_sources() -> str | None:
    """Return the digest of the sources in a clone, as native/build.py computes it; None in an installation."""
    digest, folder = 0, f"{_FOLDER}/../../native"
    try:
        for name in sorted(os.listdir(folder)):
            if name.endswith((".c", ".h")):
                with open(f"{folder}/{name}", "rb") as file:
                    digest = zlib.crc32(file.read(), zlib.crc32(name.encode(), digest))
    except OSError:
        return None
    return f"{digest:08x}"


_FUNCTIONS = {
    "kafkalog_crc32c": ("u", "piu"),
    "kafkalog_crc32c_by_table": ("u", "piu"),
    "kafkalog_crc32": ("u", "piu"),
    "kafkalog_decode_batches": ("", "pippiiipipipp"),
    "kafkalog_decode_records": ("", "piiiipipip"),
    "kafkalog_encode_batches": ("", "pipiipppipipiip"),
    "kafkalog_finish_batches": ("i", "pipi"),
    "kafkalog_put_keys": ("", "ppipiiiiiipip"),
    "kafkalog_mark_keys": ("i", "ppipiiiiiipi"),
    "kafkalog_fill_slots": ("", "p"),
    "kafkalog_copy_fields": ("i", "pippippi"),
    "kafkalog_copy_headers": ("i", "pippipp"),
    "kafkalog_join_columns": ("i", "pppipppipip"),
    "kafkalog_read_lines": ("", "piiipiipiip"),
    "kafkalog_copy_records": ("i", "pipiipipiipi"),
    "kafkalog_batch_ends": ("i", "piiiiicpp"),
    "kafkalog_scan": ("", "piiiicpip"),
    "kafkalog_search": ("i", "ppic"),
    "kafkalog_index_batches": ("", "ppppicppp"),
    "kafkalog_index_columns": ("i", "piiicppp"),
    "kafkalog_survey": ("", "piip"),
    "kafkalog_contradiction": ("i", "piippiiip"),
    "kafkalog_match_positions": ("i", "ppipiip"),
    "kafkalog_match_times": ("i", "ppipiii"),
    "kafkalog_extremes": ("", "pip"),
    "kafkalog_gaps": ("i", "ppip"),
    "kafkalog_malformed_bytes": ("i", "pi"),
    "kafkalog_murmur2": ("i", "pippip"),
    "kafkalog_render": ("i", "pppi"),
}
"""The result and the arguments of each function of the header, by _TYPES."""
_TYPES = {"i": _INT, "p": _BYTES, "u": ctypes.c_uint32, "c": ctypes.c_int, "": None}


class _Buffer(ctypes.Structure):
    """Py_buffer of CPython, which also knows the address of memory that must not be written to."""

    _fields_ = (
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.py_object),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    )


_get_buffer, _release_buffer = ctypes.pythonapi.PyObject_GetBuffer, ctypes.pythonapi.PyBuffer_Release
_get_buffer.argtypes = [ctypes.py_object, ctypes.c_void_p, ctypes.c_int]
_release_buffer.argtypes = [ctypes.c_void_p]
_release_buffer.restype = None


class Memory:
    """The address and size of a buffer, which stays in place until this object is deleted."""

    __slots__ = ("_buffer", "address", "size")

    def __init__(self, buffer: Buffer) -> None:
        view = memoryview(buffer)
        self.size: int = view.nbytes
        self._buffer: object
        self.address: int
        if view.readonly or not self.size:
            self._buffer = read_only = _ReadOnly(buffer)
            self.address = read_only.address
        else:  # this takes a fifth of the time
            self._buffer = first = ctypes.c_char.from_buffer(buffer)
            self.address = ctypes.addressof(first)


class _ReadOnly:
    """As `Memory`, for memory that must not be written to, or has no byte."""

    __slots__ = ("_buffer", "address")

    def __init__(self, buffer: Buffer) -> None:
        self._buffer = _Buffer()
        _get_buffer(buffer, ctypes.byref(self._buffer), 0)  # raises BufferError if it is not contiguous
        self.address: int = self._buffer.buf or 0

    def __del__(self, release: Any = _release_buffer, pointer: Any = ctypes.byref) -> None:
        release(pointer(self._buffer))  # by arguments: at the end of the process the module's names are gone already


def _sized(buffer: Buffer, integers_needed: int) -> Memory:
    """Return the memory of 64-bit integers. Raises ValueError if there are fewer than the call will use."""
    memory = Memory(buffer)
    if memory.size < 8 * integers_needed:
        raise ValueError(f"{memory.size} bytes where {integers_needed} integers are needed")
    return memory


_library: Any = None
_loading = threading.Lock()
_of_thread = threading.local()


def library() -> Any:
    """Return the library. Raises KafkalogError if it does not load."""
    global _library  # noqa: PLW0603  (a process has one)
    if _library is None:
        with _loading:
            if _library is None:
                _library = _load()
    return _library


def _untouched(size_bytes: int) -> mmap.mmap:
    """Return memory of which only the pages that a call writes to are taken. A fork does not share them."""
    return mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


class _Scratch:
    """Memory of one thread for the results of a call: the system would clear new memory at each call."""

    def __init__(self) -> None:
        self.results = (ctypes.c_int64 * 8)()
        self.results_at = ctypes.addressof(self.results)
        self.survey = (ctypes.c_int64 * (2 * BATCH_COLUMNS + 3))()
        self.survey_at = ctypes.addressof(self.survey)
        self.batches = memoryview(_untouched(BATCH_COLUMNS * SCAN_ROWS * 8))
        self.batches_memory = Memory(self.batches)


def _scratch() -> _Scratch:
    scratch: _Scratch | None = getattr(_of_thread, "scratch", None)
    if scratch is None:
        scratch = _of_thread.scratch = _Scratch()
    return scratch


class ScannedRows(NamedTuple):
    """The result of kafkalog_scan; `columns` has the columns of `rows` batches, one column after another."""

    columns: bytearray
    rows: int
    consumed_bytes: int
    needed_bytes: int
    why: int


SCAN_CONTINUES, SCAN_END, SCAN_TRAILING, SCAN_TOO_SMALL, SCAN_TOO_LARGE, SCAN_HEADER = range(6)


def scan(data: Buffer, position: int, end: int, max_batch_bytes: int, *, check: bool = True) -> ScannedRows:
    """Find the batches in `data`, which contains the log that ends at byte `end` from byte `position` on."""
    kernels, scratch, source = library(), _scratch(), Memory(data)
    capacity = min(SCAN_ROWS, source.size // SMALLEST_ENTRY_BYTES + 1)
    kernels.kafkalog_scan(
        *(source.address, source.size, end - position, position, max_batch_bytes, check),
        *(scratch.batches_memory.address, capacity, scratch.results_at),
    )
    count, consumed, needed, why, *_ = scratch.results
    starts = range(0, 8 * BATCH_COLUMNS * capacity, 8 * capacity)
    columns = bytearray().join(scratch.batches[start : start + 8 * count] for start in starts)
    return ScannedRows(columns, count, consumed, needed, why)


def _fields(names: str) -> tuple[tuple[str, Any], ...]:
    """Return the fields of a struct of the header in their order; a name after `*` is that of a pointer."""
    return tuple((name.lstrip("*"), _BYTES if name.startswith("*") else _INT) for name in names.split())


class _SearchLane(ctypes.Structure):
    """The struct search_lane."""

    _fields_ = (*_fields("*heap count position"), ("crc", ctypes.c_uint32))


class _Search(ctypes.Structure):
    """The struct search."""

    _fields_ = (
        *_fields("is_v07 is_in_compressed last_offset largest header_end file_end capacity position found resume"),
        ("lanes", _SearchLane * 2),
    )


SEARCH_DONE, SEARCH_FREE, SEARCH_PENDING = range(3)
_CANDIDATE_BYTES = 32


class BatchSearch:
    """A search for the first right batch, see kafkalog_search. The bytes of the next `add` begin at `position`."""

    def __init__(self, position: int, capacity: int, **given: int) -> None:
        self._heaps = [Memory(_untouched(_CANDIDATE_BYTES * capacity)) for _ in range(2)]
        lanes = [_SearchLane(heap=heap.address) for heap in self._heaps]
        self._state = _Search(position=position, found=-1, resume=-1, capacity=capacity, lanes=tuple(lanes), **given)

    @property
    def position(self) -> int:
        """Where the search goes on."""
        return int(self._state.position)

    def skip_to(self, position: int) -> None:
        """Go on at `position`. No candidate may be pending."""
        self._state.position = position

    @property
    def found(self) -> int | None:
        """The start of the batch, None if there is none so far."""
        return None if self._state.found < 0 else int(self._state.found)

    def add(self, data: Buffer, *, is_last: bool) -> int:
        """Search in the next bytes; return SEARCH_*."""
        source = Memory(data)
        return int(library().kafkalog_search(ctypes.addressof(self._state), source.address, source.size, is_last))


class Columns(NamedTuple):
    """Columns of 64-bit integers: column c of row r is at [c * stride + r] from `address` on."""

    owner: object
    """What keeps the memory in its place."""
    address: int
    stride: int
    rows: int

    def at(self, row: int) -> int:
        """Return the address of a row in the first column."""
        return self.address + 8 * row

    def check(self, end: int) -> None:
        """Raises ValueError if there are fewer rows."""
        if end > self.rows:
            raise ValueError(f"{self.rows} rows where {end} are needed")


def new_matrix(columns: int, rows: int) -> tuple[bytearray, Columns]:
    """Return memory for `rows` rows, and the matrix in it."""
    data = bytearray(8 * columns * rows)
    return data, _columns_in(data, rows)


def new_record_rows() -> tuple[memoryview, Columns]:
    """Return memory for RECORD_ROWS records, and the matrix in it; a merge has one for each partition."""
    data = memoryview(_untouched(8 * RECORD_COLUMNS * RECORD_ROWS))
    return data, _columns_in(data, RECORD_ROWS)


def _columns_in(data: bytearray | memoryview, rows: int) -> Columns:
    memory = Memory(data)
    return Columns(memory, memory.address, rows, rows)


def columns_of(matrix: Matrix) -> Columns:
    """Return the columns of a matrix for a call."""
    memory = Memory(matrix.data)
    first, stride = matrix.address_rows
    return Columns(memory, memory.address + 8 * first, stride, len(matrix))


class DecodedRows(NamedTuple):
    """How many batches were decoded, into how many records; `ends` is the number of records up to each batch's end."""

    batches: int
    records: int
    ends: memoryview


def decode_stored(
    source: Memory, position: int, most: int, batches: Columns, first: int, end: int, out: Columns
) -> DecodedRows:
    """Decode the batches `first` to `end` as stored, up to an unusual one. See kafkalog_decode_batches."""
    return _decode_batches(source, (0, 0, position, most), batches, first, end - first, out)


def decode_batches(
    source: Memory, starts: Buffer, ends: Buffer, batches: Columns, first: int, out: Columns
) -> DecodedRows:
    """Decode consecutive batches from `first` on, whose records are at 64-bit `starts` and `ends`, up to a bad one."""
    begin = Memory(starts)
    count = begin.size // 8
    end = _sized(ends, count)
    return _decode_batches(source, (begin.address, end.address, 0, 0), batches, first, count, out)


def _decode_batches(
    source: Memory, where: tuple[int, int, int, int], batches: Columns, first: int, count: int, out: Columns
) -> DecodedRows:
    results, record_ends = _scratch(), bytearray(8 * count)
    batches.check(first + count)
    library().kafkalog_decode_batches(
        *(source.address, source.size, *where, count, batches.at(first), batches.stride),
        *(out.address, out.stride, Memory(record_ends).address, results.results_at),
    )
    done, records, *_ = results.results
    return DecodedRows(done, records, memoryview(record_ends).cast("q")[:done])


BAD_SHORT, BAD_VARINT, BAD_SIZE, BAD_LENGTH, BAD_HEADER_COUNT, BAD_HEADER_KEY = range(-1, -7, -1)


class DecodedRecords(NamedTuple):
    """Records of a batch: their number, the position after them, and why the next is bad (0: it was not asked for)."""

    records: int
    position: int
    why: int
    details: tuple[int, int]


def decode_records(
    source: Memory, at: int, end: int, count: int, header: Buffer, out: Columns | None
) -> DecodedRecords:
    """Decode records of the batch with the columns `header`; without `out`, only check them."""
    results = _scratch()
    address, stride = (0, 0) if out is None else (out.address, out.stride)
    library().kafkalog_decode_records(
        *(source.address, source.size, at, end, count, _sized(header, BATCH_COLUMNS).address, 1),
        *(address, stride, results.results_at),
    )
    records, position, why, first, second, *_ = results.results
    return DecodedRecords(records, position, why, (first, second))


def encode_batches(
    data: Buffer, records: Columns, keep: Buffer | None, begins: Buffer, ends: Buffer, headers: Buffer, first: int,
    out: bytearray, at: int,
) -> tuple[int, int]:  # fmt: skip
    """Write batches from number `first` on: return how many are done, and the position after them.

    See kafkalog_encode_batches; `headers` are their columns. Raises ValueError for a field outside of `data`.
    """
    scratch, source, begin = _scratch(), Memory(data), Memory(begins)
    count = begin.size // 8
    flags = None if keep is None else Memory(keep)
    if flags is not None and flags.size < records.rows:
        raise ValueError("fewer flags than records")
    room = Memory(out)
    library().kafkalog_encode_batches(
        *(source.address, source.size, records.address, records.stride, records.rows),
        *(None if flags is None else flags.address, begin.address, _sized(ends, count).address, count),
        *(_sized(headers, BATCH_COLUMNS * count).address, first, room.address, room.size, at, scratch.results_at),
    )
    done, end, is_bad, *_ = scratch.results
    if is_bad:
        raise ValueError("a field of a record is outside of its bytes")
    return done, end


def finish_batches(out: bytearray, headers: Buffer) -> None:
    """Write the headers of batches whose records are in `out`. See kafkalog_finish_batches."""
    room, columns = Memory(out), Memory(headers)
    count = columns.size // (8 * BATCH_COLUMNS)
    if library().kafkalog_finish_batches(room.address, room.size, columns.address, count) != count:
        raise ValueError("a batch is outside of its bytes")


class _KeyTable(ctypes.Structure):
    """The struct key_table."""

    _fields_ = _fields("*slots *entries *arena slot_count entry_count arena_bytes count used")


def murmur2(data: Buffer, at: Buffer, sizes: Buffer) -> IntColumn:
    """Return the hashes of keys of `data`. See kafkalog_murmur2."""
    source, begins = Memory(data), Memory(at)
    rows = begins.size // 8
    hashes = bytearray(8 * rows)
    if library().kafkalog_murmur2(
        *(source.address, source.size, begins.address, _sized(sizes, rows).address, rows, Memory(hashes).address)
    ) != rows:  # fmt: skip
        raise ValueError("a key is outside of its bytes")
    return memoryview(hashes).cast("q")


class IndexState(ctypes.Structure):
    """The struct growing_indexes."""

    _fields_ = _fields(
        "base_offset interval most_offsets most_times indexed_position max_timestamp offset_of_max"
        " offsets last_offset times last_time last_time_offset"
    )


INDEX_ADDED, INDEX_OUT_OF_RANGE, INDEX_FULL, INDEX_NOT_ABOVE, INDEX_TIMES_FULL, INDEX_TIME_BELOW = range(6)


class NewEntries(NamedTuple):
    """The number of batches that were added, why the next was refused (INDEX_*), and the entries of both indexes."""

    batches: int
    why: int
    offsets: memoryview
    times: memoryview


def index_batches(
    state: IndexState, positions: Buffer, last_offsets: Buffer, timestamps: Buffer, *, is_last: bool = False
) -> NewEntries:
    """Append batches to indexes. See kafkalog_index_batches."""
    scratch, columns = _scratch(), [Memory(column) for column in (positions, last_offsets, timestamps)]
    rows = min(column.size for column in columns) // 8
    offsets, times = bytearray(8 * rows), bytearray(12 * (rows + 1))
    library().kafkalog_index_batches(
        *(ctypes.addressof(state), *(column.address for column in columns), rows, is_last),
        *(Memory(offsets).address, Memory(times).address, scratch.results_at),
    )
    done, why, offset_bytes, time_bytes, *_ = scratch.results
    return NewEntries(done, why, memoryview(offsets)[:offset_bytes], memoryview(times)[:time_bytes])


class IndexColumns(NamedTuple):
    """The two columns of the entries of an index, and how each rises (see kafkalog_extremes); 1 without an entry."""

    first: IntColumn
    second: IntColumn
    first_rise: int = 1
    second_rise: int = 1


def index_columns(data: Buffer, rows: int, base_offset: int, *, is_time_index: bool) -> IndexColumns:
    """Return the two columns of the entries of an index. See kafkalog_index_columns."""
    scratch, source, columns = _scratch(), Memory(data), bytearray(16 * rows)
    first_at = Memory(columns).address
    read = library().kafkalog_index_columns(
        *(source.address, source.size, rows, base_offset, is_time_index),
        *(first_at, first_at + 8 * rows, scratch.results_at),
    )
    if read != rows:
        raise ValueError(f"{rows} entries are not inside of {source.size} bytes")
    rises = scratch.results[:2] if rows else ()
    view = memoryview(columns).cast("q")
    return IndexColumns(view[:rows], view[rows:], *rises)


def survey(batches: Matrix) -> list[int]:
    """Return what is true of one or more batches. See kafkalog_survey."""
    scratch, columns = _scratch(), columns_of(batches)
    columns.check(1)
    library().kafkalog_survey(columns.address, columns.stride, columns.rows, scratch.survey_at)
    return scratch.survey[:]


class Contradiction(NamedTuple):
    """A batch whose records contradict its header. `largest_timestamp` is that of the records."""

    number: int
    has_wrong_offsets: bool
    has_other_timestamp: bool
    largest_timestamp: int


def contradictions(records: Matrix, record_ends: IntColumn, batches: Matrix) -> Iterator[Contradiction]:
    """Yield the batches whose records contradict their headers. See kafkalog_contradiction."""
    scratch, columns, rows = _scratch(), columns_of(batches), columns_of(records)
    ends, number = _sized(record_ends, columns.rows), 0
    while True:
        number = library().kafkalog_contradiction(
            *(rows.address, rows.stride, rows.rows, ends.address),
            *(columns.address, columns.stride, columns.rows, number, scratch.results_at),
        )
        if number >= columns.rows:
            return
        has_wrong_offsets, has_other_timestamp, largest, *_ = scratch.results
        yield Contradiction(number, bool(has_wrong_offsets), bool(has_other_timestamp), largest)
        number += 1


def match_positions(offsets: IntColumn, positions: IntColumn, batches: Matrix) -> bytearray:
    """Return the marks of the first entries of an offset index, as many as fit. See kafkalog_match_positions."""
    rows, columns, single = len(positions), columns_of(batches), bytearray(len(positions))
    count = library().kafkalog_match_positions(
        *(_sized(offsets, rows).address, _sized(positions, rows).address, rows),
        *(columns.address, columns.stride, columns.rows, Memory(single).address),
    )
    return single[:count]


def match_times(timestamps: IntColumn, offsets: IntColumn, batches: Matrix, largest: int) -> int:
    """Return how many of the first entries of a time index fit. See kafkalog_match_times."""
    rows, columns = len(offsets), columns_of(batches)
    count: int = library().kafkalog_match_times(
        *(_sized(timestamps, rows).address, _sized(offsets, rows).address, rows),
        *(columns.address, columns.stride, columns.rows, largest),
    )
    return count


def extremes(column: IntColumn) -> tuple[int, int, int, int]:
    """Return the least and the largest of one or more integers, how they rise, their bits. See kafkalog_extremes."""
    scratch, rows = _scratch(), len(column)
    values = _sized(column, max(1, rows))
    library().kafkalog_extremes(values.address, rows, scratch.results_at)
    least, largest, rise, bits = scratch.results[:4]
    return least, largest, rise, bits


def gaps(lasts: IntColumn, firsts: IntColumn) -> list[int]:
    """Return the rows whose first offset does not follow the last offset without a gap."""
    rows, last = len(firsts), Memory(lasts)
    first, rows_found = _sized(firsts, rows), bytearray(8 * rows)
    if last.size < first.size:
        raise ValueError("fewer last offsets than first offsets")
    count = library().kafkalog_gaps(last.address, first.address, rows, Memory(rows_found).address)
    return memoryview(rows_found).cast("q")[:count].tolist()


KEYS_DONE, KEYS_NEED_SLOTS, KEYS_NEED_ARENA, KEYS_OUTSIDE = range(4)


class KeyTable:
    """A hash table of keys, see keys.c: a power of two of slots, and fewer entries than slots."""

    def __init__(self, slots: int, entries: int, arena_bytes: int) -> None:
        self._table = _KeyTable()
        self._at = ctypes.addressof(self._table)
        self._slots, self._entries, self._arena = bytearray(), bytearray(), bytearray()
        self.grow_arena(arena_bytes)
        self.grow_slots(slots, entries)

    @property
    def size_bytes(self) -> int:
        """The memory of the table."""
        return len(self._slots) + len(self._entries) + len(self._arena)

    @property
    def slots(self) -> int:
        """The number of slots."""
        return len(self._slots) // 8

    @property
    def arena_bytes(self) -> int:
        """The room for the bytes of keys."""
        return len(self._arena)

    def grow_slots(self, slots: int, entries: int) -> None:
        """Make room for more keys."""
        larger = bytearray(16 * entries)
        larger[: len(self._entries)] = self._entries
        self._entries, self._slots = larger, bytearray(8 * slots)
        self._owners = Memory(self._slots), Memory(self._entries)
        self._table.slots, self._table.entries = (memory.address for memory in self._owners)
        self._table.slot_count, self._table.entry_count = slots, entries
        library().kafkalog_fill_slots(self._at)

    def grow_arena(self, size_bytes: int) -> None:
        """Make room for more bytes of keys."""
        larger = bytearray(size_bytes)
        larger[: self._table.used] = memoryview(self._arena)[: self._table.used]
        self._arena = larger
        self._arena_owner = Memory(larger)
        self._table.arena, self._table.arena_bytes = self._arena_owner.address, size_bytes

    def put(
        self, data: Memory, records: Columns, first: int, end: int, first_flag: int, part: tuple[int, int],
        flags: Buffer,
    ) -> tuple[int, int]:  # fmt: skip
        """Add the keys of records: return the next row, and KEYS_*. `part` is a mask and a value of the hash."""
        records.check(end)
        scratch, marks = _scratch(), Memory(flags)
        library().kafkalog_put_keys(
            *(self._at, data.address, data.size, records.address, records.stride, first, end, first_flag, *part),
            *(marks.address, marks.size, scratch.results_at),
        )
        return scratch.results[0], scratch.results[1]

    def mark(
        self, data: Memory, records: Columns, first: int, end: int, first_flag: int, part: tuple[int, int],
        flags: Buffer,
    ) -> None:  # fmt: skip
        """Set bit 0 in the flags of the records whose key is in the table."""
        records.check(end)
        marks = Memory(flags)
        marked = library().kafkalog_mark_keys(
            *(self._at, data.address, data.size, records.address, records.stride, first, end, first_flag, *part),
            *(marks.address, marks.size),
        )
        if marked < 0:
            raise ValueError("a key or a flag is outside of its bytes")


def copy_fields(data: Buffer, at: Buffer, sizes: Buffer, ends: Buffer, out: Buffer) -> None:
    """Copy fields of `data` to `out`, one after another. See kafkalog_copy_fields."""
    source, begins, room = Memory(data), Memory(at), Memory(out)
    rows = begins.size // 8
    if library().kafkalog_copy_fields(
        *(source.address, source.size, begins.address, _sized(sizes, rows).address, rows),
        _sized(ends, rows + 1).address,
        *(room.address, room.size),
    ) < 0:  # fmt: skip
        raise ValueError("a field is outside of its bytes")


class _HeaderColumns(ctypes.Structure):
    """The struct header_columns."""

    _fields_ = _fields("*key_ends *value_ends *keys *values *valid key_bytes value_bytes most")


def header_bytes(data: Buffer, at: Buffer, counts: Buffer) -> tuple[int, int]:
    """Return the bytes of all header keys, and of all header values. See kafkalog_copy_headers."""
    return _copy_headers(data, at, counts, None)


def copy_headers(
    data: Buffer, at: Buffer, counts: Buffer, ends: tuple[Buffer, Buffer], out: tuple[Buffer, Buffer], valid: Buffer
) -> None:
    """Copy the keys and values of all headers. See kafkalog_copy_headers."""
    keys, values, flags = Memory(out[0]), Memory(out[1]), Memory(valid)
    key_ends, value_ends = (_sized(borders, flags.size + 1) for borders in ends)
    addresses = (memory.address for memory in (key_ends, value_ends, keys, values, flags))
    _copy_headers(data, at, counts, _HeaderColumns(*addresses, keys.size, values.size, flags.size))


def _copy_headers(data: Buffer, at: Buffer, counts: Buffer, out: _HeaderColumns | None) -> tuple[int, int]:
    scratch, source, begins = _scratch(), Memory(data), Memory(at)
    rows = begins.size // 8
    if library().kafkalog_copy_headers(
        *(source.address, source.size, begins.address, _sized(counts, rows).address, rows),
        *(None if out is None else ctypes.addressof(out), scratch.results_at),
    ) < 0:  # fmt: skip
        raise ValueError("headers are outside of their bytes")
    return scratch.results[0], scratch.results[1]


class _FieldColumn(ctypes.Structure):
    """The struct field_column."""

    _fields_ = _fields("*data size *ends *valid")


class FieldColumn:
    """A column of byte fields: their bytes, the start of each with the end of the last, and 0 for each null."""

    def __init__(self, data: Buffer, ends: Buffer, valid: Buffer | None) -> None:
        self._owners = Memory(data), Memory(ends), None if valid is None else Memory(valid)
        source, borders, flags = self._owners
        self.rows = borders.size // 8 - 1
        self.struct = _FieldColumn(source.address, source.size, borders.address, flags.address if flags else None)


def join_columns(
    fields: tuple[FieldColumn, FieldColumn], header_ends: Buffer, headers: tuple[FieldColumn, FieldColumn],
    timestamps: Buffer, out: Buffer, columns: Buffer,
) -> int:  # fmt: skip
    """Copy key, value and headers of each record into `out`; return the bytes. See kafkalog_join_columns."""
    times, room, structs = Memory(timestamps), Memory(out), [column.struct for column in (*fields, *headers)]
    rows = times.size // 8
    if min(fields[0].rows, fields[1].rows) < rows or headers[0].rows != headers[1].rows:
        raise ValueError("columns of different lengths")
    key, value, header_key, header_value = map(ctypes.addressof, structs)
    filled = int(library().kafkalog_join_columns(
        *(key, value, _sized(header_ends, rows + 1).address, headers[0].rows, header_key, header_value),
        *(times.address, rows, room.address, room.size, _sized(columns, NEW_COLUMNS * rows).address),
    ))  # fmt: skip
    if filled < 0:
        raise ValueError("a field is outside of its column")
    return filled


def read_lines(
    text: Buffer, at: int, now_ms: int, out: Buffer, to: int, columns: Buffer, row: int
) -> tuple[int, int, int, int]:  # fmt: skip
    """Read NDJSON lines: return the position after them, the end of the bytes in `out` and of the rows, the lines.

    See kafkalog_read_lines.
    """
    scratch, source, room, matrix = _scratch(), Memory(text), Memory(out), Memory(columns)
    library().kafkalog_read_lines(
        *(source.address, source.size, at, now_ms, room.address, room.size, to, matrix.address),
        *(matrix.size // (8 * NEW_COLUMNS), row, scratch.results_at),
    )
    end, filled, rows, lines, *_ = scratch.results
    return end, filled, rows, lines


def copy_records(
    data: Buffer, records: Columns, rows: Buffer | None, out: bytearray, to: int, target: Columns, row: int
) -> int:  # fmt: skip
    """Copy new records, all or `rows`, to `out` from byte `to` on, and to `target` from row `row` on.

    Returns where their bytes end. See kafkalog_copy_records.
    """
    source, room, row_numbers = Memory(data), Memory(out), None if rows is None else Memory(rows)
    count = records.rows if row_numbers is None else row_numbers.size // 8
    target.check(row + count)
    end = int(library().kafkalog_copy_records(
        *(source.address, source.size, records.address, records.stride, records.rows),
        *(None if row_numbers is None else row_numbers.address, count),
        *(room.address, to, room.size, target.at(row), target.stride),
    ))  # fmt: skip
    if end < 0:
        raise ValueError("a record is outside of its bytes")
    return end


KEEPS_CODECS, KEEPS_EPOCHS, KEEPS_OFFSETS = 1, 2, 4


def batch_ends(
    records: Columns, room: int, most: int, most_of_block: int, keeps: int, current: Buffer
) -> IntColumn:  # fmt: skip
    """Return the row after each batch of new records. See kafkalog_batch_ends."""
    ends = bytearray(8 * records.rows)
    count = library().kafkalog_batch_ends(
        *(records.address, records.stride, records.rows, room, most, most_of_block, keeps),
        *(_sized(current, 2).address, Memory(ends).address),
    )
    return memoryview(ends).cast("q")[:count]


def malformed_bytes(text: bytes) -> int:
    """Return how many bytes become one U+FFFD in Java; `text` is what follows the last character, 4 bytes at most."""
    source = Memory(text)
    return int(library().kafkalog_malformed_bytes(source.address, source.size))


# ---- lines of text


class _RenderInput(ctypes.Structure):
    """RenderInput of native/render.h."""

    _fields_ = _fields(
        "*buffer buffer_size *batches batch_stride batch_count *record_ends *records record_stride record_count"
        " *ready ready_columns ready_first ready_count *ready_text ready_size *ops batch_ops op_count *text text_size"
    )


class _RenderState(ctypes.Structure):
    """RenderState of native/render.h."""

    _fields_ = _fields(
        "status batch record in_records op position mode header header_at key_at key_size value_at value_size"
    )


RENDER_MORE, RENDER_DONE, RENDER_STOPPED, RENDER_NEEDS_READY = range(4)


class RenderProgram:
    """The operations for the lines of batches and of records (RenderOp, four integers each), and their texts."""

    def __init__(self, ops: Buffer, batch_ops: int, text: bytes) -> None:
        self.ops, self.batch_ops, self.text = Memory(ops), batch_ops, Memory(text)
        self.op_count = self.ops.size // 32


class Rendering:
    """Lines that are being rendered. `state.status` says what the last call did, and `state` where."""

    def __init__(
        self,
        program: RenderProgram,
        buffer: Buffer,
        batches: Columns,
        record_ends: Buffer,
        records: Columns,
        *,
        ready_columns: int = 0,
        skips_batch_line: bool = False,
    ) -> None:
        contents, ends = Memory(buffer), _sized(record_ends, batches.rows)
        self._render = library().kafkalog_render
        self._owners: list[object] = [program, contents, batches, ends, records]
        self.state = _RenderState(in_records=skips_batch_line)
        self._input = _RenderInput(
            *(contents.address, contents.size, batches.address, batches.stride, batches.rows, ends.address),
            *(records.address, records.stride, records.rows, 0, ready_columns, 0, 0, 0, 0),
            *(program.ops.address, program.batch_ops, program.op_count, program.text.address, program.text.size),
        )

    def set_ready(self, first: int, count: int, ranges: Buffer, text: bytes) -> None:
        """Set the ready texts of records: a row of starts and a row of sizes for each column of them."""
        range_numbers, texts = _sized(ranges, 2 * self._input.ready_columns * count), Memory(text)
        self._owners[5:] = [range_numbers, texts]
        self._input.ready, self._input.ready_first, self._input.ready_count = range_numbers.address, first, count
        self._input.ready_text, self._input.ready_size = texts.address, texts.size

    def into(self, output: Memory) -> int:
        """Render into `output` until it is full or nothing is left; return the number of bytes. Raises ValueError."""
        state, data = ctypes.addressof(self.state), ctypes.addressof(self._input)
        size = int(self._render(data, state, output.address, output.size))
        if size < 0:
            raise ValueError("columns and contents of records contradict each other")
        return size
