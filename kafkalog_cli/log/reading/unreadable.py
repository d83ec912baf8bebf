"""A file that cannot be opened or read, as a fault after which a listing can continue."""

from __future__ import annotations

from kafkalog_cli.errors import KafkalogError
from kafkalog_cli.format.fault import Fault, FaultKind


def unreadable(error: KafkalogError | OSError) -> Fault:
    """Return the fault for an error that `open_read` or `read_all` raised."""
    if isinstance(error, KafkalogError):
        reason = str(error.details.get("reason", "it is no longer there"))
    else:
        reason = error.strerror or str(error)
    return Fault(FaultKind.UNREADABLE, 0, f"cannot be read: {reason}")
