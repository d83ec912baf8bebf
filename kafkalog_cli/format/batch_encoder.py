"""Encode record columns as v2 batches: compressed, with checksums, many batches per call."""

from array import array
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kafkalog_cli.format import native
from kafkalog_cli.format.batch import (
    CODEC_MASK,
    CONTROL_MASK,
    DELETE_HORIZON_MASK,
    NO_SEQUENCE,
    RECORD_BATCH,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
    Batch,
    BatchColumns,
)
from kafkalog_cli.format.columns import Octets
from kafkalog_cli.format.compression import compress
from kafkalog_cli.format.control import encode_marker
from kafkalog_cli.format.records import RecordColumns

_FIRST_BYTES = 64 << 10
_NO_HEADER = bytes(RECORD_BATCH.size)


class EncodedBatches(NamedTuple):
    """Encoded batches one after another, and their columns as a scan would return them."""

    data: memoryview
    batches: BatchColumns


class WantedBatches(NamedTuple):
    """The batches to encode. Batch i contains the records in rows `begins[i]` to `ends[i]` (exclusive).

    If `keep` is given, it has one element per row; rows where it is 0 are left out.

    `batches` gives the header fields: base and last offset, leader epoch, attributes with the codec, producer and base
    sequence. Its base timestamp is used only if it is a delete horizon; otherwise the first record decides. Its largest
    timestamp is used only if it is the append time; otherwise the records decide.
    """

    batches: BatchColumns
    begins: Iterable[int]
    ends: Iterable[int]
    keep: Sequence[int] | Octets | None = None


class BatchEncoder:
    """Encodes records as batches. It reuses its buffers: a result is valid until the next call.

    `level` is Kafka's compression level; None selects the codec's default.
    """

    def __init__(self, level: int | None = None) -> None:
        self._level = level
        self._bodies = bytearray(_FIRST_BYTES)

    def encode(
        self, buffer: memoryview, records: RecordColumns, wanted: WantedBatches, position: int = 0
    ) -> EncodedBatches:
        """Encode the wanted batches of `records`, whose bytes are in `buffer`.

        `position` is the file position of the first batch. Record headers are copied as stored. A batch without records
        becomes the empty batch that the cleaner leaves: not compressed, no delete horizon.
        """
        batches = BatchColumns.from_columns(wanted.batches.columns())
        columns = native.columns_of(records)
        keep = wanted.keep if wanted.keep is None or hasattr(wanted.keep, "dtype") else bytes(wanted.keep)
        begins, ends = (array("q", column) for column in (wanted.begins, wanted.ends))
        done = at = 0
        while True:
            done, at = native.encode_batches(buffer, columns, keep, begins, ends, batches.data, done, self._bodies, at)
            if done == len(begins):
                break
            larger = bytearray(2 * len(self._bodies))
            larger[:at] = memoryview(self._bodies)[:at]
            self._bodies = larger
        data = memoryview(self._bodies)[:at]
        if any(attributes & CODEC_MASK for attributes in batches.attributes):
            data = self._packed(batches, data)
        if position:
            starts = batches.position
            for row, start in enumerate(starts):
                starts[row] = start + position
        return EncodedBatches(data, batches)

    def finish(self, header: Batch, bodies: Sequence[bytes | memoryview], position: int = 0) -> EncodedBatches:
        """Return the batch with the complete `header` whose records are `bodies`, the parts that `body` returned."""
        out = bytearray(_NO_HEADER) + self._pack(header.attributes, b"".join(bodies))
        batches = BatchColumns.from_rows([header._replace(position=0, size_bytes=len(out), magic=2, valid=1)])
        native.finish_batches(out, batches.data)
        batches.position[0] = position
        return EncodedBatches(memoryview(out), batches)

    def body(
        self,
        buffer: memoryview,
        records: RecordColumns,
        header: Batch,
        *,
        keep: Sequence[int] | Octets | None = None,
        base_timestamp: int | None = None,
    ) -> tuple[Batch, bytes]:
        """Encode a part of the records of a large batch: return (the header of a batch of this part alone, its bytes).

        The bytes are not compressed. `base_timestamp` is that of the first record of the whole batch, None if this part
        contains that record.
        """
        attributes = header.attributes & ~CODEC_MASK
        if base_timestamp is not None:
            attributes |= DELETE_HORIZON_MASK
            header = header._replace(base_timestamp=base_timestamp)
        alone = BatchColumns.from_rows([header._replace(attributes=attributes)])
        made = self.encode(buffer, records, WantedBatches(alone, (0,), (len(records),), keep))
        return made.batches.row(0), bytes(made.data[RECORD_BATCH.size :])

    def _pack(self, attributes: int, records: bytes | memoryview) -> bytes:
        codec = attributes & CODEC_MASK
        return compress(codec, records, level=self._level) if codec else bytes(records)

    def _packed(self, batches: BatchColumns, bodies: memoryview) -> memoryview:
        """Return the batches of `bodies`, each compressed if it has a codec, and update their columns."""
        out, position, size = bytearray(), batches.position, batches.size_bytes
        for row, attributes in enumerate(batches.attributes):
            begin, at, end = len(out), position[row] + RECORD_BATCH.size, position[row] + size[row]
            out += _NO_HEADER
            out += self._pack(attributes, bodies[at:end])
            position[row], size[row] = begin, len(out) - begin
        native.finish_batches(out, batches.data)
        return memoryview(out)


def encode_end_marker(type_id: int, coordinator_epoch: int, timestamp: int, header: Batch) -> tuple[Batch, bytes]:
    """Return the control batch that ends a transaction (MemoryRecords.writeEndTransactionalMarker).

    The result is its columns, as a scan would return them, and its bytes. `header` gives base offset, leader epoch,
    producer id and epoch, and whether `timestamp` is the append time.
    """
    key, value = encode_marker(type_id, coordinator_epoch)
    wanted = header._replace(
        last_offset=header.base_offset,
        attributes=TRANSACTIONAL_MASK | CONTROL_MASK | (header.attributes & TIMESTAMP_TYPE_MASK),
        base_sequence=NO_SEQUENCE,
        max_timestamp=timestamp,
    )
    row = (header.base_offset, timestamp, NO_SEQUENCE, 0, len(key), len(key), len(value), 0, 0, -1, 1)
    records = RecordColumns.from_rows([row])
    alone = WantedBatches(BatchColumns.from_rows([wanted]), (0,), (1,))
    made = BatchEncoder().encode(memoryview(key + value), records, alone, header.position)
    return made.batches.row(0), bytes(made.data)
