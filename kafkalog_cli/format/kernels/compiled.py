"""The compiled kernels as their callers use them, whether Numba or `native` provides them."""

import numpy as np

from kafkalog_cli.format.columns import Integers

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

RECORD_COLUMNS = 11
SMALLEST_RECORD_BYTES = 7
"""One byte each for length, attributes, timestamp delta, offset delta, key length, value length, header count."""


def record_capacity(counts: Integers, starts: Integers, ends: Integers) -> int:
    """Return the largest number of rows that the records of these regions can need, whatever the headers state."""
    room = (ends - starts) // SMALLEST_RECORD_BYTES + 1
    return int(np.minimum(np.maximum(counts, 0), room).sum())
