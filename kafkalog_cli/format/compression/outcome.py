"""Outcome of reading a compressed stream: bytes in a reused bytearray with limits on its growth, or a fault."""

from typing import NamedTuple

from kafkalog_cli.format.fault import FaultKind
from kafkalog_cli.format.limits import MEBIBYTE, Limits


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


_STEP_BYTES = 64 << 10
_MOST_GROWTH_BYTES = 16 * MEBIBYTE


class Arena:
    """The output of one stream in `buffer`, from `start` on. `position` is the position of the next byte.

    The buffer grows as bytes arrive, not by sizes that a stream only states, and never shrinks. It cannot grow while a
    view of it exists (BufferError), so release a view before asking for another.
    """

    __slots__ = ("allowed_end", "buffer", "limits", "position", "source_bytes", "start")

    def __init__(self, buffer: bytearray, start: int, source_bytes: int, limits: Limits) -> None:
        self.buffer = buffer
        self.start = start
        self.position = start
        self.source_bytes = source_bytes
        self.limits = limits
        self.allowed_end = start + min(limits.max_output_bytes, max(MEBIBYTE, source_bytes * limits.max_ratio))

    def window(self, size: int) -> memoryview:
        """Return a view of exactly `size` more bytes, whatever the limits, for a codec that limits its blocks."""
        end = self.position + size
        if end > len(self.buffer):
            self._grow(end)
        return memoryview(self.buffer)[self.position : end]

    def rest(self) -> memoryview:
        """Return a view of all free space: at least 1 byte, at most 1 byte over the limits.

        The byte over the limits makes an overrun visible.
        """
        if len(self.buffer) - self.position < _STEP_BYTES:
            self._grow(self.position + _STEP_BYTES)
        return memoryview(self.buffer)[self.position : self.allowed_end + 1]

    def advance(self, size: int) -> CompressionFault | None:
        """Add `size` bytes that were written into the last `window` or `rest`.

        Return a fault if the output now exceeds a limit.
        """
        self.position += size
        return self.claim(0) if self.position > self.allowed_end else None

    def append(self, data: bytes | memoryview) -> CompressionFault | None:
        """Copy `data` after the existing output. Return a fault if a limit is exceeded."""
        with self.window(len(data)) as room:
            room[:] = data
        return self.advance(len(data))

    def claim(self, size: int) -> CompressionFault | None:
        """Return a fault if `size` more bytes, announced by the stream, would exceed a limit."""
        end = self.position + size
        if end <= self.allowed_end:
            return None
        if end - self.start > self.limits.max_output_bytes:
            cap = f"the limit of {self.limits.max_output_bytes} bytes"
        else:
            cap = f"{self.limits.max_ratio} times its {self.source_bytes} bytes"
        return CompressionFault(FaultKind.OUTPUT_TOO_LARGE, f"decompresses to more than {cap}")

    def _grow(self, end: int) -> None:
        shortage = end - len(self.buffer)
        self.buffer += bytes(max(shortage, min(len(self.buffer), _MOST_GROWTH_BYTES)))
