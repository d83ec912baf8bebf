"""The library of C kernels (native/kafkalog.h), declared to Python. No other module knows ctypes.

A buffer is bytes, bytearray, a contiguous memoryview or a contiguous array. Calls release the GIL.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkalog_cli.errors import KafkalogError

if TYPE_CHECKING:
    from collections.abc import Buffer  # type: ignore[attr-defined, unused-ignore]

BATCH_COLUMNS = 15
SCAN_ROWS = 1 << 16
"""Largest number of batches that one call returns."""
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


class Columns(NamedTuple):
    """Columns in the memory of `owner`: where the first begins, the integers from one to the next, and the rows."""

    owner: object
    address: int
    stride: int
    rows: int


class Rendering:
    """Lines that are being rendered. `state.status` says what the last call did, and `state` where."""

    def __init__(  # noqa: PLR0913
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
