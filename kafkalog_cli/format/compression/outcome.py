"""The faults of reading a compressed stream, without a position."""

from __future__ import annotations

from typing import NamedTuple

from kafkalog_cli.format.fault import FaultKind


class CompressionFault(NamedTuple):
    """The reason why a stream was not read to its end. The caller adds the position in the file.

    `kind` is DECOMPRESSION_FAILED (Kafka's own reader fails too), OUTPUT_TOO_LARGE (over a limit of `Limits`; Kafka has
    no limit) or UNKNOWN_CODEC. `message` is text for the user.
    """

    kind: FaultKind
    message: str


def failed(message: str) -> CompressionFault:
    """Return the fault of a stream that is damaged, cut off, or of a kind that Kafka does not read."""
    return CompressionFault(FaultKind.DECOMPRESSION_FAILED, message)


def unknown_codec(message: str) -> CompressionFault:
    """Return the fault of a codec id that Kafka does not know, or does not allow for this magic."""
    return CompressionFault(FaultKind.UNKNOWN_CODEC, message)
