"""`.kafka_cleanshutdown`, the marker of a clean shutdown. Its existence counts, not its contents."""

from __future__ import annotations

from typing import NamedTuple

from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.format.json_object import integer, read_json_object

UNKNOWN_BROKER_EPOCH = -1


class CleanShutdown(NamedTuple):
    """The contents since 3.7 (CleanShutdownFileHandler, KIP-966).

    `broker_epoch` is -1 if the broker did not know it.
    """

    version: int
    broker_epoch: int


def decode(data: bytes) -> tuple[CleanShutdown | None, list[Fault]]:
    """Return the contents, or None if the file is empty (3.6 and older) or unreadable, and the faults.

    If the contents cannot be read, there is a fault: a broker then starts as after any clean shutdown, but registers
    without its previous broker epoch.
    """
    if not data:
        return None, []
    content, problem = read_json_object(data.decode(errors="replace"))
    version, epoch = integer(content.get("version", 0), 32), integer(content.get("brokerEpoch"), 64)
    if problem or version is None or epoch is None:
        message = f"no broker epoch can be read: {problem or 'a field is missing or no integer'}"
        return None, [Fault(FaultKind.INVALID_ENTRY, 0, message, len(data))]
    return CleanShutdown(version, epoch), []
