"""Read the header of one batch at a position of a segment, without the batch's contents."""

from collections.abc import Iterator
from zlib import crc32

from kafkalog_cli.disk.fs import ReadableFile
from kafkalog_cli.format import native
from kafkalog_cli.format.batch import (
    CODEC_MASK,
    CRC_GOOD,
    HEADER_SIZE_UP_TO_MAGIC_BYTES,
    LOG_OVERHEAD_BYTES,
    MESSAGE_V0,
    MESSAGE_V1,
    MINIMUM_ENTRY_SIZE,
    NO_OFFSET,
    NO_TIMESTAMP,
    RECORD_BATCH,
    Batch,
    BatchColumns,
    wrap_int64,
)
from kafkalog_cli.format.control import CONTROL_RECORD_KEY, END_TXN_MARKER, ControlRecord, control_type, decode_control
from kafkalog_cli.format.fault import Fault, FaultKind, incomplete_batch
from kafkalog_cli.format.varint import BadVarint, decode_zigzag_64
from kafkalog_cli.log.reading.readable import read_readable

UNCHECKED = -1
"""`Batch.valid` of a batch whose contents were not read."""


def header_at(file: ReadableFile, position: int, end: int | None = None) -> Batch | Fault | None:
    """Return the header of the batch at byte `position`, or None if no complete batch follows before `end`.

    Mirrors FileLogInputStream.nextBatch and FileChannelRecordBatch.loadBatchHeader. Only the header is read, so the CRC
    is not checked (`valid` is `UNCHECKED`). A damaged or unreadable header gives a fault.
    """
    end = file.size_bytes if end is None else end
    if position >= end - HEADER_SIZE_UP_TO_MAGIC_BYTES:
        return None
    buffer = bytearray(RECORD_BATCH.size)
    got, fault = read_readable(file, position, memoryview(buffer))
    if got < HEADER_SIZE_UP_TO_MAGIC_BYTES:
        return fault
    offset, size, _, magic = _START.unpack_from(buffer)
    if size < MINIMUM_ENTRY_SIZE:
        message = f"Found record size {size} smaller than minimum record overhead ({MINIMUM_ENTRY_SIZE})"
        expected = f"at least {MINIMUM_ENTRY_SIZE}"
        return Fault(FaultKind.SIZE_TOO_SMALL, position, message, expected=expected, got=str(size))
    if position > end - LOG_OVERHEAD_BYTES - size:
        return None
    if magic < 0:
        return Fault(FaultKind.INVALID_MAGIC, position, f"Invalid magic {magic}", got=str(magic), base_offset=offset)
    wanted = RECORD_BATCH.size if magic >= 2 else (MESSAGE_V1 if magic else MESSAGE_V0).offset["key_length"]
    if got < wanted:
        return fault or Fault(FaultKind.HEADER_CUT_OFF, position, "the header reaches past the end of the file", got)
    if magic < 2:
        return _legacy(buffer, position)
    (base, _, epoch, _, crc, attributes, delta, base_timestamp, max_timestamp, producer_id, producer_epoch,
     base_sequence, count) = RECORD_BATCH.struct.unpack(buffer)  # fmt: skip
    return Batch(position, LOG_OVERHEAD_BYTES + size, base, wrap_int64(base + delta), epoch, magic, crc,
                 attributes & 0xFF, base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence,
                 count, UNCHECKED)  # fmt: skip


class Headers:
    """The headers of a segment's batches from byte `start` on, up to the first break. No CRC is checked.

    Iterate for batches, or over `columns`. Afterwards `end_position` is the byte after the last batch, and `fault` the
    reason why the chain ended there (None: the end of the file).
    """

    def __init__(self, file: ReadableFile, start: int = 0) -> None:
        self.file = file
        self.end_position = start
        self.fault: Fault | None = None

    def __iter__(self) -> Iterator[Batch]:
        for columns in self._columns(_WINDOW_BYTES):
            for header in columns.rows():
                self.end_position = header.position + header.size_bytes
                yield header

    def columns(self) -> Iterator[BatchColumns]:
        """Yield the batches as columns: many at once where they are small."""
        return self._columns(0)

    def _columns(self, size_bytes: int) -> Iterator[BatchColumns]:
        """Yield the batches, after a batch of `size_bytes` bytes."""
        buffer = memoryview(bytearray())
        while True:
            if size_bytes < _WINDOW_BYTES // _FEW_BATCHES:
                buffer = buffer or memoryview(bytearray(_WINDOW_BYTES))
                got, _ = read_readable(self.file, self.end_position, buffer)
                data = buffer[:got]
                found = native.scan(data, self.end_position, self.file.size_bytes, _WINDOW_BYTES, check=False)
                if found.rows:
                    self.end_position += found.consumed_bytes
                    size_bytes = found.consumed_bytes // found.rows
                    yield BatchColumns(found.columns, found.rows, found.rows)
                    continue
            header = header_at(self.file, self.end_position)
            if not isinstance(header, Batch):
                break
            size_bytes = header.size_bytes
            self.end_position += size_bytes
            yield BatchColumns.from_rows([header])
        rest = self.file.size_bytes - self.end_position
        fault = header or (incomplete_batch(self.end_position, rest) if rest > 0 else None)
        if fault is not None:
            from kafkalog_cli.log.reading.unused_end import is_unused_end

            self.fault = None if is_unused_end(self.file, fault) else fault


_WINDOW_BYTES = 64 << 10
_FEW_BATCHES = 4
"""The fewest batches for which a window is read: of larger batches, only the headers."""


def first_timestamp(log: ReadableFile) -> int:
    """Return the largest timestamp of a log's first batch, -1 without a batch (LogSegment.loadFirstBatchTimestamp)."""
    first = header_at(log, 0)
    return first.max_timestamp if isinstance(first, Batch) else NO_TIMESTAMP


def control_type_at(file: ReadableFile, position: int) -> int | None:
    """Return the type of the control record in the batch v2 at byte `position`, or None if it cannot be read.

    Only the bytes up to the record's key are read: control batches have one record and are not compressed.
    """
    found = _control_key(file, position)
    return None if found is None else control_type(found[0])


def control_record_at(file: ReadableFile, position: int) -> ControlRecord | Fault:
    """Return the control record in the batch v2 at byte `position`, or the fault for which Kafka's reader throws.

    Of a value only the fields of a transaction marker are read.
    """
    found = _control_key(file, position)
    if found is None:
        return Fault(FaultKind.INVALID_CONTROL_RECORD, position, "its control record cannot be read")
    key, rest = found
    size = decode_zigzag_64(rest, 0)
    value = None if isinstance(size, BadVarint) or size[0] < 0 else rest[size[1] :][: min(size[0], END_TXN_MARKER.size)]
    return decode_control(key, value)


def _control_key(file: ReadableFile, position: int) -> tuple[bytes | None, bytes] | None:
    """Return the key of the control record in the batch v2 at byte `position`, and what was read of the bytes after it.

    None if the record cannot be read.
    """
    buffer = bytearray(_CONTROL_BYTES)
    got, _ = read_readable(file, position, memoryview(buffer))
    data = bytes(buffer[RECORD_BATCH.size : got])
    at = value = 0
    for field in range(4):  # length, timestamp, offset, size of the key
        at += field == 1  # the attributes, one byte
        found = decode_zigzag_64(data, at)
        if isinstance(found, BadVarint):
            return None
        value, at = found
    if value < 0:
        return None, data[at:]
    return data[at : at + min(CONTROL_RECORD_KEY.size, value)], data[at + value :]


_CONTROL_BYTES = RECORD_BATCH.size + 48
"""Bytes to read of a control batch: the header, and the record as brokers write it."""

_START = RECORD_BATCH.struct_of("base_offset", "batch_length", "partition_leader_epoch", "magic")


def _legacy(buffer: bytearray, position: int) -> Batch:
    offset, size, crc, magic, attributes, timestamp, _ = MESSAGE_V1.struct.unpack_from(buffer)
    if not magic:
        timestamp = NO_TIMESTAMP
    compressed = attributes & CODEC_MASK
    return Batch(position, LOG_OVERHEAD_BYTES + size, NO_OFFSET if compressed else offset, offset, -1, magic, crc,
                 attributes & 0xFF, timestamp, timestamp, -1, -1, -1, -1 if compressed else 1, UNCHECKED)  # fmt: skip


def of_negative_magic(log: ReadableFile, position: int) -> Batch:
    """Return the batch at byte `position`, whose magic is below 0. A broker reads it as a message v1.

    Raises OSError.
    """
    buffer = bytearray(MESSAGE_V1.size)
    log.read_into(position, memoryview(buffer))
    offset, size, crc, magic, attributes, *_ = MESSAGE_V1.struct.unpack(buffer)
    base = NO_OFFSET if attributes & CODEC_MASK else offset
    return Batch(
        position, LOG_OVERHEAD_BYTES + size, base, offset, -1, magic, crc, attributes & 0xFF, -1, -1, -1, -1, -1, -1, -1
    )


def checked_negative_magic(log: ReadableFile, position: int) -> Batch | None:
    """Return the batch at `position` with its timestamp; None if it is incomplete or its CRC as a message is wrong.

    The magic of the batch is below 0. LegacyRecord.ensureValid checks only the size and the CRC, and
    FileLogInputStream.nextBatch treats every magic below 2, which is signed, as an old message's. Raises OSError.
    """
    header = of_negative_magic(log, position)
    if position + header.size_bytes > log.size_bytes or header.size_bytes < MESSAGE_V1.offset["key_length"]:
        return None
    checksum = 0
    at, end = position + MESSAGE_V1.offset["magic"], position + header.size_bytes
    buffer = memoryview(bytearray(min(_PIECE_BYTES, header.size_bytes)))
    while at < end:
        part = buffer[: end - at]
        got, _ = read_readable(log, at, part)
        if not got:
            return None
        checksum = crc32(part[:got], checksum)
        at += got
    if checksum != header.crc:
        return None
    log.read_into(position, buffer[: MESSAGE_V1.size])
    timestamp = MESSAGE_V1.struct.unpack_from(buffer[: MESSAGE_V1.size].tobytes().ljust(MESSAGE_V1.size, b"\0"))[5]
    count = NO_OFFSET if header.base_offset == NO_OFFSET else 1
    return header._replace(base_timestamp=timestamp, max_timestamp=timestamp, records_count=count, valid=CRC_GOOD)


_PIECE_BYTES = 64 << 10
