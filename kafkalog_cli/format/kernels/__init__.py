"""The hot loops: decode (bytes to record columns), and the reverse, encode.

Each exists twice, and both versions pass the same contract test. The plain version (`plain_records`, `plain_encode`;
for 0.7 only `plain_seven`) is plain Python and starts at once. The compiled version (`compiled_*`) pays off from some
hundred thousand records on; `disk.kernels` chooses.

`compiled` is the module that callers of compiled kernels import. `compiling` sets Numba's options, `machine` and
`memory` give kernels machine instructions, and `native` loads kernels as machine code without importing Numba.

A compiled kernel processes only common input. At anything unusual, such as damage, it stops, and its plain twin
continues.
"""

from typing import Protocol

from kafkalog_cli.format.columns import Integers


class Kernels(Protocol):
    """The module `compiled`, as callers see it that must not import it before it is chosen."""

    def record_capacity(self, counts: Integers, starts: Integers, ends: Integers, /) -> int:
        """Return the largest number of rows that the records of these regions can need."""
