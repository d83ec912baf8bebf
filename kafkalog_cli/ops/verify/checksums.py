"""The two checksums of a batch that differ: the one in its header, and the one computed from its bytes."""

from __future__ import annotations

import struct
from typing import NamedTuple

from kafkalog_cli.disk.fs import ReadableFile
from kafkalog_cli.format.batch import RECORD_BATCH, RECORD_BATCH_MAGIC
from kafkalog_cli.format.crc import crc32, crc32c
from kafkalog_cli.format.legacy import MESSAGE_V0
from kafkalog_cli.format.seven import MESSAGE_SEVEN_MAGIC0, MESSAGE_SEVEN_MAGIC1
from kafkalog_cli.log.reading.scan import read_readable

_CRC = struct.Struct(">I")
_SEVEN = (MESSAGE_SEVEN_MAGIC0, MESSAGE_SEVEN_MAGIC1)


class BadBatch(NamedTuple):
    """A batch whose checksums differ: its position and size in bytes, and the offsets concerned.

    `is_seven`: the batch is a message of Kafka 0.7, whose `magic` means another layout.
    """

    position: int
    size_bytes: int
    magic: int
    offsets: tuple[int, int] | None = None
    is_seven: bool = False

    @property
    def crc_position(self) -> int | None:
        """The position of the checksum within the batch, in bytes. None if no format has this magic."""
        if self.is_seven:
            return _SEVEN[self.magic].offset["crc"] if 0 <= self.magic < len(_SEVEN) else None
        if self.magic < 0:
            return None
        return (RECORD_BATCH if self.is_record_batch else MESSAGE_V0).offset["crc"]

    @property
    def is_record_batch(self) -> bool:
        """Whether a broker takes the batch for format v2."""
        return not self.is_seven and self.magic >= RECORD_BATCH_MAGIC


class Checksums(NamedTuple):
    """Checksums as text for a finding: `computed` from the bytes, `stored` in the header; "" if not known."""

    computed: str = ""
    stored: str = ""


def checksums_of(file: ReadableFile, bad: BadBatch) -> Checksums:
    """Read the batch again and return its checksums.

    Both are unknown if the device does not return all of its bytes.
    """
    at = bad.crc_position
    if at is None or bad.size_bytes < at + _CRC.size:
        return Checksums()
    buffer = bytearray(bad.size_bytes)
    got, _ = read_readable(file, bad.position, memoryview(buffer))
    if got < bad.size_bytes:
        return Checksums()
    (stored,) = _CRC.unpack_from(buffer, at)
    crc = crc32c if bad.is_record_batch else crc32
    return Checksums(str(crc(memoryview(buffer)[at + _CRC.size :])), str(stored))
