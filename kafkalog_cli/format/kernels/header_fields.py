"""Compiled functions for record headers, which were checked when the records were decoded."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
import numpy as np

from kafkalog_cli.format.kernels.compiling import kernel


@kernel
def header_varint(buffer, here):
    """Return the size of a header's key or value, and the position after the varint."""
    value = np.uint64(0)
    shift = np.uint64(0)
    while True:
        byte = np.uint64(buffer[here])
        here += 1
        value |= (byte & np.uint64(0x7F)) << shift
        if byte < 0x80:
            value &= np.uint64(0xFFFFFFFF)
            return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1)), here
        shift += np.uint64(7)
