"""Encode record columns as v2 batches in plain Python (DefaultRecord.writeTo, MemoryRecordsBuilder)."""

from collections.abc import Iterable
from typing import NamedTuple

from kafkalog_cli.format.batch import (
    CODEC_MASK,
    DELETE_HORIZON_MASK,
    LOG_OVERHEAD_BYTES,
    NO_TIMESTAMP,
    RECORD_BATCH,
    TIMESTAMP_TYPE_MASK,
    Batch,
)
from kafkalog_cli.format.crc import crc32c
from kafkalog_cli.format.records import OUTSIDE, Row, headers_end
from kafkalog_cli.format.varint import encode_zigzag

_CRC_START = RECORD_BATCH.offset["attributes"]
_NULL = encode_zigzag(-1)
_MAGIC = 2


class Body(NamedTuple):
    """The uncompressed records of a batch, and the header that describes them."""

    header: Batch
    records: bytes


def encode_records(buffer: memoryview, rows: Iterable[Row], header: Batch) -> Body:
    """Encode the records of one batch. `rows` are rows of RecordColumns over `buffer`; `header` is the wanted header.

    The base timestamp is set to the first record's, unless it is a delete horizon. The largest timestamp is set to that
    of the records, unless it is the append time. Without records the header is that of a batch which the cleaner
    emptied.
    """
    pieces: list[bytes | memoryview] = []
    has_base = header.attributes & DELETE_HORIZON_MASK != 0
    base_timestamp, largest, count = header.base_timestamp, NO_TIMESTAMP, 0
    for row in rows:
        if not has_base:
            base_timestamp, has_base = row[1], True
        _put_record(pieces, buffer, row, header.base_offset, base_timestamp)
        largest = max(largest, row[1])
        count += 1
    if not count:
        attributes = header.attributes & ~(CODEC_MASK | DELETE_HORIZON_MASK)
        return Body(header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, records_count=0), b"")
    if not header.attributes & TIMESTAMP_TYPE_MASK:
        header = header._replace(max_timestamp=largest)
    return Body(header._replace(base_timestamp=base_timestamp, records_count=count), b"".join(pieces))


def finish_batch(header: Batch, records: bytes | memoryview, position: int) -> tuple[Batch, bytes]:
    """Return a batch at `position` and the 61 bytes of its header; `records` are its records as stored."""
    size_bytes = RECORD_BATCH.size + len(records)
    fields = header._replace(position=position, size_bytes=size_bytes, magic=_MAGIC, crc=0, valid=1)
    crc = crc32c(b"".join((_pack(fields)[_CRC_START:], records)))
    fields = fields._replace(crc=crc)
    return fields, _pack(fields)


def _pack(batch: Batch) -> bytes:
    return RECORD_BATCH.struct.pack(
        batch.base_offset,
        batch.size_bytes - LOG_OVERHEAD_BYTES,
        batch.leader_epoch,
        batch.magic,
        batch.crc,
        batch.attributes,
        batch.last_offset - batch.base_offset,
        batch.base_timestamp,
        batch.max_timestamp,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.records_count,
    )


def _put_record(
    pieces: list[bytes | memoryview], buffer: memoryview, row: Row, base_offset: int, base_timestamp: int
) -> None:
    offset, timestamp, _, key_at, key_size, value_at, value_size, headers_at, count, *_ = row
    parts: list[bytes | memoryview] = [
        b"\0" + encode_zigzag(timestamp - base_timestamp) + encode_zigzag(offset - base_offset)
    ]
    for at, size in ((key_at, key_size), (value_at, value_size)):
        if size < 0:
            parts.append(_NULL)
        else:
            stored = 0 if at == OUTSIDE else size
            parts += (encode_zigzag(stored), buffer[at : at + stored])
    parts.append(encode_zigzag(count))
    if count:
        parts.append(buffer[headers_at : headers_end(buffer, headers_at, count)])
    pieces.append(encode_zigzag(sum(map(len, parts))))
    pieces += parts
