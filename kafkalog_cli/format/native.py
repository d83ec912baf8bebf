"""The library of C kernels (native/kafkalog.h), declared to Python. No other module knows ctypes.

A buffer is bytes, bytearray, a contiguous memoryview or a contiguous array. Calls release the GIL.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import zlib
from array import array as integers
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkalog_cli.errors import KafkalogError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias

    Buffer: TypeAlias = Any  # collections.abc.Buffer of Python 3.12

BATCH_COLUMNS, RECORD_COLUMNS = 15, 11
SCAN_ROWS = RECORD_ROWS = (1 << 16) + 64
"""Largest number of rows that one call returns. With a power of two, all columns would share a part of the cache."""
SMALLEST_ENTRY_BYTES = 26

_FOLDER = os.path.dirname(__file__)
_INSTALL = "python -m pip install --force-reinstall kafkalog-cli"
_BUILD = "python native/build.py"

_INT, _BYTES = ctypes.c_int64, ctypes.c_void_p


def _load() -> Any:
    """Load the library. Raises KafkalogError if there is none, or if it was built of other sources."""
    if sys.byteorder != "little":
        raise KafkalogError(reason="kafkalog runs on little-endian processors only")
    path = f"{_FOLDER}/native.lib"
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
        function.restype, function.argtypes = result, arguments
    return library


def _digest_of_sources() -> str | None:
    """Return the digest of the sources in a clone, as native/build.py computes it; None in an installation."""
    found, folder = 0, f"{_FOLDER}/../../native"
    try:
        for name in sorted(os.listdir(folder)):
            if name.endswith((".c", ".h")):
                with open(f"{folder}/{name}", "rb") as file:
                    found = zlib.crc32(file.read(), zlib.crc32(name.encode(), found))
    except OSError:
        return None
    return f"{found:08x}"


_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "kafkalog_crc32c": (ctypes.c_uint32, [_BYTES, _INT, ctypes.c_uint32]),
    "kafkalog_crc32c_by_table": (ctypes.c_uint32, [_BYTES, _INT, ctypes.c_uint32]),
    "kafkalog_crc32": (ctypes.c_uint32, [_BYTES, _INT, ctypes.c_uint32]),
    "kafkalog_take_rows": (None, [_BYTES, _INT, _INT, _INT, _INT, _BYTES]),
    "kafkalog_decode_batches": (None, [_BYTES, _INT, _BYTES, _BYTES, _INT, _BYTES, _INT, _BYTES, _INT, _BYTES, _BYTES]),
    "kafkalog_decode_stored": (None, [_BYTES, _INT, _INT, _INT, _INT, _BYTES, _INT, _BYTES, _INT, _BYTES, _BYTES]),
    "kafkalog_decode_records": (None, [_BYTES, _INT, _INT, _INT, _INT, _BYTES, _INT, _BYTES, _INT, _BYTES]),
    "kafkalog_scan": (None, [_BYTES, _INT, _INT, _INT, _INT, ctypes.c_int, _BYTES, _INT, _BYTES]),
    "kafkalog_render": (_INT, [_BYTES, _BYTES, _BYTES, _INT]),
}


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

    __slots__ = ("_held", "address", "size")

    def __init__(self, buffer: Buffer) -> None:
        self._held = _Buffer()
        _get_buffer(buffer, ctypes.byref(self._held), 0)  # raises BufferError if it is not contiguous
        self.address: int = self._held.buf or 0
        self.size: int = self._held.len

    def __del__(self, release: Any = _release_buffer, pointer: Any = ctypes.byref) -> None:
        release(pointer(self._held))  # by arguments: at the end of the process the module's names are gone already


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


class _Scratch:
    """Memory of one thread for the results of a call: the system would clear new memory at each call."""

    def __init__(self) -> None:
        self.results = (ctypes.c_int64 * 8)()
        self.results_at = ctypes.addressof(self.results)
        self.batches = Memory(bytearray(BATCH_COLUMNS * SCAN_ROWS * 8))


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
    rows = scratch.batches.address
    kernels.kafkalog_scan(
        *(source.address, source.size, end - position, position, max_batch_bytes, check),
        *(rows, capacity, scratch.results_at),
    )
    count, consumed, needed, why, *_ = scratch.results
    columns = bytearray(BATCH_COLUMNS * count * 8)
    if count:
        target = Memory(columns)
        kernels.kafkalog_take_rows(rows, capacity, BATCH_COLUMNS, 0, count, target.address)
    return ScannedRows(columns, count, consumed, needed, why)


class Matrix(NamedTuple):
    """Columns of 64-bit integers in memory: column c of row r is at [c * stride + r] from `address` on."""

    memory: object
    """What keeps the memory in its place."""
    address: int
    stride: int
    rows: int

    def at(self, row: int) -> int:
        """Return the address of a row in the first column."""
        return self.address + 8 * row


def new_matrix(columns: int, rows: int) -> tuple[bytearray, Matrix]:
    """Return memory for `rows` rows, and the matrix in it."""
    data = bytearray(8 * columns * rows)
    memory = Memory(data)
    return data, Matrix(memory, memory.address, rows, rows)


def matrix_of(columns: Sequence[Any], array: Any = None) -> Matrix:
    """Return columns of 64-bit integers as a matrix: `array`, if they are its rows, otherwise a copy."""
    if array is not None:
        array = array if array.strides[1] == array.itemsize else array.copy()
        return Matrix(array, array.__array_interface__["data"][0], array.strides[0] // array.itemsize, array.shape[1])
    memory = Memory(b"".join(each if isinstance(each, memoryview) else integers("q", each) for each in columns))
    return Matrix(memory, memory.address, len(columns[0]), len(columns[0]))


class DecodedRows(NamedTuple):
    """How many batches were decoded, into how many records; `ends` is the number of records up to each batch's end."""

    batches: int
    records: int
    ends: memoryview


def decode_stored(
    source: Memory, position: int, most: int, batches: Matrix, first: int, end: int, out: Matrix
) -> DecodedRows:
    """Decode the batches `first` to `end` as stored, up to an unusual one. See kafkalog_decode_stored."""
    results, ends = _scratch(), bytearray(8 * (end - first))
    library().kafkalog_decode_stored(
        *(source.address, source.size, position, most, end - first, batches.at(first), batches.stride),
        *(out.address, out.stride, Memory(ends).address, results.results_at),
    )
    done, records, *_ = results.results
    return DecodedRows(done, records, memoryview(ends).cast("q")[:done])


def decode_batches(
    source: Memory, starts: Buffer, ends: Buffer, batches: Matrix, first: int, out: Matrix
) -> DecodedRows:
    """Decode consecutive batches from `first` on, whose records are at 64-bit `starts` and `ends`, up to a bad one."""
    results, begin, end = _scratch(), Memory(starts), Memory(ends)
    count = begin.size // 8
    record_ends = bytearray(8 * count)
    library().kafkalog_decode_batches(
        *(source.address, source.size, begin.address, end.address, count, batches.at(first), batches.stride),
        *(out.address, out.stride, Memory(record_ends).address, results.results_at),
    )
    done, records, *_ = results.results
    return DecodedRows(done, records, memoryview(record_ends).cast("q")[:done])


BAD_SHORT, BAD_VARINT, BAD_SIZE, BAD_LENGTH, BAD_HEADER_COUNT, BAD_HEADER_KEY = range(-1, -7, -1)


class DecodedPart(NamedTuple):
    """Records of a batch: their number, the position after them, and why the next is bad (0: it was not asked for)."""

    records: int
    position: int
    why: int
    details: tuple[int, int]


def decode_records(source: Memory, at: int, end: int, count: int, header: Buffer, out: Matrix | None) -> DecodedPart:
    """Decode records of the batch with the columns `header`; without `out`, only check them."""
    results = _scratch()
    address, stride = (0, 0) if out is None else (out.address, out.stride)
    library().kafkalog_decode_records(
        *(source.address, source.size, at, end, count, Memory(header).address, 1, address, stride, results.results_at)
    )
    records, position, why, first, second, *_ = results.results
    return DecodedPart(records, position, why, (first, second))


def crc32c(data: Buffer, before: int = 0, *, by_table: bool = False) -> int:
    """Return the CRC-32C of `data` after bytes with the CRC `before`; `by_table`: without the instruction for it."""
    kernels, source = library(), Memory(data)
    function = kernels.kafkalog_crc32c_by_table if by_table else kernels.kafkalog_crc32c
    return int(function(source.address, source.size, before))


# ---- lines of text


class _RenderInput(ctypes.Structure):
    """RenderInput of native/render.h."""

    _fields_ = (
        *(("buffer", _BYTES), ("buffer_size", _INT)),
        *(("batches", _BYTES), ("batch_stride", _INT), ("batch_count", _INT)),
        *(("record_ends", _BYTES), ("records", _BYTES), ("record_stride", _INT), ("record_count", _INT)),
        *(("ready", _BYTES), ("ready_columns", _INT), ("ready_first", _INT), ("ready_count", _INT)),
        *(("ready_text", _BYTES), ("ready_size", _INT)),
        *(("ops", _BYTES), ("batch_ops", _INT), ("op_count", _INT), ("text", _BYTES), ("text_size", _INT)),
    )


class _RenderState(ctypes.Structure):
    """RenderState of native/render.h."""

    _fields_ = tuple(
        (name, _INT)
        for name in (
            *("status", "batch", "record", "in_records", "op", "position", "mode"),
            *("header", "header_at", "key_at", "key_size", "value_at", "value_size"),
        )
    )


RENDER_MORE, RENDER_DONE, RENDER_STOPPED, RENDER_NEEDS_READY = range(4)
LEAST_OUTPUT_BYTES = 256


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
        batches: Matrix,
        record_ends: Buffer,
        records: Matrix,
        *,
        ready_columns: int = 0,
        skips_batch_line: bool = False,
    ) -> None:
        contents, ends = Memory(buffer), Memory(record_ends)
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
        places, texts = Memory(ranges), Memory(text)
        self._owners[5:] = [places, texts]
        self._input.ready, self._input.ready_first, self._input.ready_count = places.address, first, count
        self._input.ready_text, self._input.ready_size = texts.address, texts.size

    def into(self, output: Memory) -> int:
        """Render into `output` until it is full or nothing is left; return the number of bytes. Raises ValueError."""
        state, data = ctypes.addressof(self.state), ctypes.addressof(self._input)
        size = int(self._render(data, state, output.address, output.size))
        if size < 0:
            raise ValueError("columns and contents of records contradict each other")
        return size
