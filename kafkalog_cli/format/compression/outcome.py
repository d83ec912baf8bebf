"""What reading a compressed stream can come to other than its bytes: a fault without a position."""

from __future__ import annotations

from typing import NamedTuple

from kafkalog_cli.format.fault import FaultKind


class CompressionFault(NamedTuple):
    """A stream that is not read to its end, as a value; the caller adds where in the file it lies.

    `kind` is DECOMPRESSION_FAILED (Kafka's own reader fails too), OUTPUT_TOO_LARGE (over a cap of `Limits`;
    Kafka has none) or UNKNOWN_CODEC. `message` is for people.
    """

    kind: FaultKind
    message: str


def failed(message: str) -> CompressionFault:
    """The stream is damaged, cut off or of a kind that Kafka does not read."""
    return CompressionFault(FaultKind.DECOMPRESSION_FAILED, message)


def unknown_codec(message: str) -> CompressionFault:
    """The codec id is none of Kafka's, or not one for this magic."""
    return CompressionFault(FaultKind.UNKNOWN_CODEC, message)
