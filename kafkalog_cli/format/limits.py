"""Limits on the memory that a reader allocates for bytes that may be damaged."""

from typing import NamedTuple

MEBIBYTE = 1 << 20

MOST_CHECKPOINT_BYTES = 8 * MEBIBYTE
"""The largest checkpoint that is read: more than 30,000 lines with the longest names of topics."""
MOST_PROPERTIES_BYTES = MEBIBYTE
"""The largest properties file that is read, such as `server.properties`, and the largest other file of a few words."""
MOST_DOCUMENT_BYTES = 32 * MEBIBYTE
"""The largest JSON file of kafkalog that is read and written. Python needs several times its size for the objects."""
MOST_INDEX_BYTES = 32 * MEBIBYTE
"""The largest offset or time index that is read as a whole. Brokers make them of 10 MiB at most by default."""
MOST_DATA_BYTES = 64 * MEBIBYTE
"""The largest other file beside a log that is read as a whole."""
MOST_INPUT_LINE_BYTES = 64 * MEBIBYTE
"""The longest line of an input of records, which is held in memory as a whole."""
MOST_FILE_FIELD_BYTES = 16 * MEBIBYTE
"""A key or value of a Parquet file that is written. PyArrow copies it several times."""
MOST_IMPORTED_FIELD_BYTES = 128 * MEBIBYTE
"""A key or value of a file that is imported, which may take seven times its size of memory: the most of a batch."""
MOST_JSON_LINE_BYTES = 32 * MEBIBYTE
"""The longest line of NDJSON. It is held in memory as bytes, as text and as the values of its fields."""
MOST_WIDE_JSON_LINE_BYTES = 16 * MEBIBYTE
"""The same if it has characters that are not ASCII: Python's text then takes up to four bytes for each character."""
MOST_JSON_LINE_VALUES = 250_000
"""The most lists, objects and values in a line of NDJSON, such as headers."""
MOST_PRODUCERS = 2_000_000
"""The most producers of a partition whose state is held in memory. Brokers forget one after a day of silence."""
MOST_PRODUCERS_AT_ONCE = 3_000_000
"""The most producers in memory if the state of some is held twice, as of producers that write after the snapshot.

A transaction that is open takes as much memory as five producers.
"""


class Limits(NamedTuple):
    """Limits on the memory that damaged or hostile bytes can make a reader allocate.

    `max_batch_bytes`: size of the largest batch that is loaded. `max_output_bytes`: largest decompressed size of one
    batch. `max_ratio`: largest ratio of output to input, checked when the output exceeds 1 MiB. A batch that exceeds a
    limit becomes a `Fault`.
    """

    max_batch_bytes: int = 128 * MEBIBYTE
    max_output_bytes: int = 128 * MEBIBYTE
    max_ratio: int = 20_000


DEFAULT_LIMITS = Limits()


MOST_PAYLOAD_BYTES = 8 << 20
"""The largest payload that is decoded."""

MOST_VALUES = 400_000
"""The most values (fields, items, messages) of one payload; each is an object of Python."""

MOST_DEPTH = 100
"""The deepest nesting of a value; the same limit as that of Protobuf's libraries."""
