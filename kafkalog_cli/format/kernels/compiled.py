"""The compiled kernels as their callers use them, whether Numba or `native` provides them."""

import threading

import numpy as np

from kafkalog_cli.format.batch import BatchColumns
from kafkalog_cli.format.columns import Integers
from kafkalog_cli.format.kernels import Scanned, native, plain
from kafkalog_cli.format.limits import Limits

KEYS_DONE, KEYS_NEED_SLOTS, KEYS_BROKER_FULL = 0, 1, 3
"""The reason why `put_keys` ended; 2 is an arena that is full."""
KEYS_AHEAD = 16
"""Number of elements of the array `hashes` that the key kernels need."""
NDJSON_NAMES = (
    b'null true false utf-8" base64" record" batch" summary" progress" encoding" data" key" value" headers" type" '
    b'timestamp_ms" control" kafkalog. '
    b'schema" topic" partition" segment" position" offset" timestamp_type" batch_base_offset" codec" producer_id" '
    b'producer_epoch" sequence" leader_epoch" transactional" topic_b64" segment_b64" crc_valid" decoded" '
    b"        "
)
"""The words that `native.READ_LINES` compares with. From `schema` on they are fields of records that it skips.

These fields are in the order in which `read` prints them, and rare fields come last. The kernel reads up to 8 bytes
more than a word.
"""

SCAN_ROWS = 1 << 16
"""Largest number of batches that one call of the scan kernel returns."""
_scratch = threading.local()
RECORD_COLUMNS = 11
SMALLEST_RECORD_BYTES = 7
"""One byte each for length, attributes, timestamp delta, offset delta, key length, value length, header count."""


def scan(view: memoryview, file_position: int, file_end: int, limits: Limits) -> Scanned:
    """Scan as `plain.scan` does.

    Unusual input (the end of the file, damage, tiny v1 entries) is left to `plain.scan`.
    """
    buffer = np.frombuffer(view, dtype=np.uint8)
    rows = _scratch_rows()
    count, consumed, needed, stop = native.function(native.SCAN)(
        buffer, len(view), file_end - file_position, file_position, limits.max_batch_bytes, rows
    )
    if not stop:
        return Scanned(BatchColumns.from_matrix(rows[:, :count].copy()), consumed, needed, None)
    rest = plain.scan(view[consumed:], file_position + consumed, file_end, limits)
    found = rows[:, :count].copy()
    if len(rest.batches):
        found = np.concatenate((found, rest.batches.arrays().matrix), axis=1)
    return rest._replace(batches=BatchColumns.from_matrix(found), consumed_bytes=consumed + rest.consumed_bytes)


def _scratch_rows() -> Integers:
    """Return this thread's rows for one call of the scan kernel.

    They are reused, because the system would clear new memory at each call.
    """
    rows: Integers | None = getattr(_scratch, "rows", None)
    if rows is None:
        rows = _scratch.rows = np.empty((15, SCAN_ROWS), dtype=np.int64)
    return rows


def record_capacity(counts: Integers, starts: Integers, ends: Integers) -> int:
    """Return the largest number of rows that the records of these regions can need, whatever the headers state."""
    room = (ends - starts) // SMALLEST_RECORD_BYTES + 1
    return int(np.minimum(np.maximum(counts, 0), room).sum())
