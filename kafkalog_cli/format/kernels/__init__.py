"""The hot loops: scan (bytes to batch columns), decode (bytes to record columns), and the reverse, encode.

Each of the three exists twice, and both versions pass the same contract test. The plain version (`plain`,
`plain_records`, `plain_encode`; for 0.7 only `plain_seven`) is plain Python and starts at once. The compiled version
(`compiled_*`) pays off from some hundred thousand batches or records on; `disk.kernels` chooses.

`compiled` is the module that callers of compiled kernels import. `compiling` sets Numba's options, `machine` and
`memory` give kernels machine instructions, and `native` loads kernels as machine code without importing Numba.

A compiled kernel processes only common input. At anything unusual, such as damage, it stops, and its plain twin
continues.
"""

from typing import NamedTuple, Protocol

from kafkalog_cli.format.batch import BatchColumns
from kafkalog_cli.format.fault import Fault
from kafkalog_cli.format.limits import Limits


class Scanned(NamedTuple):
    """The result of scanning one buffer.

    `consumed_bytes`: size of the part of the buffer that the batches cover. `needed_bytes`: number of bytes from there
    that the next scan needs. It is 0 if the scan is complete, at the end of the file or at `fault`.
    """

    batches: BatchColumns
    consumed_bytes: int
    needed_bytes: int
    fault: Fault | None


class Kernels(Protocol):
    """The module `compiled`, as callers see it that must not import it before it is chosen."""

    def scan(self, view: memoryview, file_position: int, file_end: int, limits: Limits, /) -> Scanned:
        """Scan as `plain.scan` does."""
