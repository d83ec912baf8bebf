"""Limits on the memory that a reader allocates for bytes that may be damaged."""

from typing import NamedTuple

MEBIBYTE = 1 << 20


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
