"""How much a reader may take on trust from bytes that may be damaged."""

from typing import NamedTuple

MEBIBYTE = 1 << 20


class Limits(NamedTuple):
    """Caps on what damaged or hostile bytes can make a reader allocate.

    `max_batch_bytes`: the largest batch that is loaded. `max_output_bytes`: the most that one batch
    may decompress to. `max_ratio`: output over input, looked at once the output is over a mebibyte.
    Beyond one of them the batch is a `Fault`.
    """

    max_batch_bytes: int = 128 * MEBIBYTE
    max_output_bytes: int = 128 * MEBIBYTE
    max_ratio: int = 20_000


DEFAULT_LIMITS = Limits()
