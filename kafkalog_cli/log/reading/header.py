"""Read the header of one batch at a position of a segment, without the batch's contents."""

from collections.abc import Iterator

from kafkalog_cli.disk.fs import ReadableFile
from kafkalog_cli.format.batch import (
    CODEC_MASK,
    LOG_OVERHEAD_BYTES,
    MESSAGE_V1,
    NO_OFFSET,
    NO_TIMESTAMP,
    RECORD_BATCH,
    Batch,
    BatchColumns,
)
from kafkalog_cli.format.control import CONTROL_RECORD_KEY, END_TXN_MARKER, ControlRecord, control_type, decode_control
from kafkalog_cli.format.fault import Fault, FaultKind, incomplete_batch
from kafkalog_cli.format.limits import Limits
from kafkalog_cli.format.scan import Scanned, scan
from kafkalog_cli.format.varint import BadVarint, decode_zigzag_64
from kafkalog_cli.log.reading.readable import read_readable

UNCHECKED = -1
"""`Batch.valid` of a batch whose contents were not read."""


def header_at(file: ReadableFile, position: int, end: int | None = None) -> Batch | Fault | None:
    """Return the header of the batch at byte `position`, or None if no complete batch follows before `end`.

    Mirrors FileLogInputStream.nextBatch and FileChannelRecordBatch.loadBatchHeader. Only the header is read, so the CRC
    is not checked (`valid` is `UNCHECKED`). A damaged or unreadable header gives a fault.
    """
    scanned = _scan_headers(file, position, memoryview(bytearray(RECORD_BATCH.size)))
    if len(scanned.batches):
        batch = scanned.batches.row(0)
        return batch if end is None or batch.position + batch.size_bytes <= end else None
    return None if scanned.fault is None or scanned.fault.kind is FaultKind.TRAILING_BYTES else scanned.fault


def _scan_headers(file: ReadableFile, position: int, buffer: memoryview) -> Scanned:
    """Return the batches from byte `position` on whose headers `buffer` can hold; if there are none, the reason."""
    got, unreadable = read_readable(file, position, buffer)
    scanned = scan(buffer[:got], position, file.size_bytes, _ANY_SIZE, check=False)
    if len(scanned.batches) or not scanned.needed_bytes:
        return scanned
    return scanned._replace(fault=unreadable or incomplete_batch(position, file.size_bytes - position))


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
        header, window = memoryview(bytearray(RECORD_BATCH.size)), memoryview(b"")
        while True:
            is_small = size_bytes < _WINDOW_BYTES // _FEW_BATCHES
            if is_small and not window:
                window = memoryview(bytearray(min(_WINDOW_BYTES, max(1, self.file.size_bytes - self.end_position))))
            scanned = _scan_headers(self.file, self.end_position, window if is_small else header)
            if not len(scanned.batches):
                break
            self.end_position += scanned.consumed_bytes
            size_bytes = scanned.consumed_bytes // len(scanned.batches)
            yield scanned.batches
        if scanned.fault is not None:
            from kafkalog_cli.log.reading.unused_end import is_unused_end

            self.fault = None if is_unused_end(self.file, scanned.fault) else scanned.fault


_ANY_SIZE = Limits(max_batch_bytes=1 << 32)
_WINDOW_BYTES = 256 << 10
_FEW_BATCHES = 16
"""The fewest batches for which a window is read: of larger batches, only the headers."""


def first_timestamp(log: ReadableFile) -> int:
    """Return the largest timestamp of a log's first batch, -1 without a batch (LogSegment.loadFirstBatchTimestamp)."""
    first = header_at(log, 0)
    return first.max_timestamp if isinstance(first, Batch) else NO_TIMESTAMP


def control_type_at(file: ReadableFile, position: int) -> int | None:
    """Return the type of the control record in the batch v2 at byte `position`, or None if it cannot be read.

    Only the bytes up to the record's key are read: control batches have one record and are not compressed.
    """
    fields = _control_key(file, position)
    return None if fields is None else control_type(fields[0])


def control_record_at(file: ReadableFile, position: int) -> ControlRecord | Fault:
    """Return the control record in the batch v2 at byte `position`, or the fault for which Kafka's reader throws.

    Of a value only the fields of a transaction marker are read.
    """
    fields = _control_key(file, position)
    if fields is None:
        return Fault(FaultKind.INVALID_CONTROL_RECORD, position, "its control record cannot be read")
    key, rest = fields
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
        varint = decode_zigzag_64(data, at)
        if isinstance(varint, BadVarint):
            return None
        value, at = varint
    if value < 0:
        return None, data[at:]
    return data[at : at + min(CONTROL_RECORD_KEY.size, value)], data[at + value :]


_CONTROL_BYTES = RECORD_BATCH.size + 48
"""Bytes to read of a control batch: the header, and the record as brokers write it."""


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
