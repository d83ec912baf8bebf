"""`.kafka_cleanshutdown`: that the broker stopped in order. Being there is what counts, not what it says."""

from __future__ import annotations

from typing import NamedTuple

from kafkalog_cli.format.fault import Fault, FaultKind
from kafkalog_cli.format.json_object import integer, read_json_object

UNKNOWN_BROKER_EPOCH = -1


class CleanShutdown(NamedTuple):
    """The content since 3.7 (CleanShutdownFileHandler, KIP-966); `broker_epoch` -1: not known to the broker."""

    version: int
    broker_epoch: int


def decode(data: bytes) -> tuple[CleanShutdown | None, list[Fault]]:
    """The content; None if the file is empty (3.6 and older).

    With a fault where the content cannot be read: a broker then starts as after any clean shutdown, but
    registers without the old broker epoch.
    """
    if not data:
        return None, []
    content, problem = read_json_object(data.decode(errors="replace"))
    version, epoch = integer(content.get("version", 0), 32), integer(content.get("brokerEpoch"), 64)
    if problem or version is None or epoch is None:
        message = f"no broker epoch can be read: {problem or 'a field is missing or no integer'}"
        return None, [Fault(FaultKind.INVALID_ENTRY, 0, message, len(data))]
    return CleanShutdown(version, epoch), []


def encode(content: CleanShutdown | None) -> bytes:
    """The bytes that a broker writes: none at all for None, as 3.6 and older did."""
    if content is None:
        return b""
    return b'{"version":%d,"brokerEpoch":%d}' % content
