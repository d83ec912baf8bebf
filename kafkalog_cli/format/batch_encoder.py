"""Encode record columns as v2 batches: compressed, with checksums, many batches per call."""

from collections.abc import Sequence
from itertools import compress as where
from typing import NamedTuple

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
from kafkalog_cli.format.columns import IntColumn, Integers, Octets
from kafkalog_cli.format.compression import compress
from kafkalog_cli.format.control import encode_marker
from kafkalog_cli.format.kernels import plain_encode
from kafkalog_cli.format.records import RecordArrays, RecordColumns

_SPARE_BYTES = 64 << 10
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
    begins: IntColumn
    ends: IntColumn
    keep: Sequence[int] | Octets | None = None


class BatchEncoder:
    """Encodes records as batches. It reuses its buffers: a result is valid until the next call.

    `level` is Kafka's compression level; None selects the codec's default.
    """

    def __init__(self, level: int | None = None) -> None:
        self._level = level
        self._bodies: Octets | None = None

    def encode(
        self, buffer: memoryview, records: RecordColumns, wanted: WantedBatches, position: int = 0
    ) -> EncodedBatches:
        """Encode the wanted batches of `records`, whose bytes are in `buffer`.

        `position` is the file position of the first batch. Record headers are copied as stored. A batch without records
        becomes the empty batch that the cleaner leaves: not compressed, no delete horizon. Compiled kernels are used if
        `records` came from compiled kernels.
        """
        if isinstance(records, RecordArrays) and len(wanted.begins):
            return self._compiled(buffer, records, wanted, position)
        return self._plain(buffer, records, wanted, position)

    def finish(self, header: Batch, bodies: Sequence[bytes | memoryview], position: int = 0) -> EncodedBatches:
        """Return the batch with the complete `header` whose records are `bodies`, the parts that `body` returned."""
        records = self._pack(header.attributes, b"".join(bodies))
        batch, head = plain_encode.finish_batch(header, records, position)
        return EncodedBatches(memoryview(head + records), BatchColumns.from_rows([batch]))

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

    # -- plain

    def _plain(
        self, buffer: memoryview, records: RecordColumns, wanted: WantedBatches, position: int
    ) -> EncodedBatches:
        all_rows = list(records.rows())
        out, found = bytearray(), []
        keep = wanted.keep
        for header, begin, end in zip(wanted.batches.rows(), wanted.begins, wanted.ends, strict=True):
            rows = all_rows[begin:end]
            body = plain_encode.encode_records(buffer, rows if keep is None else where(rows, keep[begin:end]), header)
            packed = self._pack(body.header.attributes, body.records)
            batch, head = plain_encode.finish_batch(body.header, packed, position + len(out))
            out += head
            out += packed
            found.append(batch)
        return EncodedBatches(memoryview(out), BatchColumns.from_rows(found))

    def _pack(self, attributes: int, records: bytes | memoryview) -> bytes:
        codec = attributes & CODEC_MASK
        return compress(codec, records, level=self._level) if codec else bytes(records)

    # -- compiled

    def _compiled(
        self, buffer: memoryview, records: RecordArrays, wanted: WantedBatches, position: int
    ) -> EncodedBatches:
        import numpy as np

        from kafkalog_cli.format.kernels import native

        encode = native.function(native.ENCODE_BATCHES)
        source = np.frombuffer(buffer, dtype=np.uint8)
        flags = np.empty(0, np.uint8) if wanted.keep is None else np.ascontiguousarray(wanted.keep, dtype=np.uint8)
        rows = [np.ascontiguousarray(column, dtype=np.int64) for column in (wanted.begins, wanted.ends)]
        found = wanted.batches.arrays().matrix.copy()  # the kernel completes it
        bodies = self._bodies if self._bodies is not None else np.empty(_SPARE_BYTES, np.uint8)
        done = at = 0
        while True:
            done, at = encode(source, records.matrix, flags, *rows, found, done, bodies, at)
            if done == len(rows[0]):
                break
            larger = np.empty(2 * len(bodies) + _SPARE_BYTES, np.uint8)
            larger[:at] = bodies[:at]
            bodies = larger
        self._bodies = bodies
        if not (found[7] & CODEC_MASK).any():
            found[0] += position
            return EncodedBatches(bodies.data[:at], BatchColumns.from_matrix(found))
        return self._packed(found, bodies.data, position)

    def _packed(self, matrix: Integers, bodies: memoryview, position: int) -> EncodedBatches:
        """Return the batches of `bodies`, and compress each batch that has a codec."""
        import numpy as np

        from kafkalog_cli.format.kernels import native

        out = bytearray()
        begins = []
        for at, size_bytes, attributes in zip(*matrix[[0, 1, 7]].tolist(), strict=True):
            begins.append(len(out))
            out += _NO_HEADER
            out += self._pack(attributes, bodies[at + RECORD_BATCH.size : at + size_bytes])
        matrix[0], matrix[1] = begins, np.diff([*begins, len(out)])
        native.function(native.FINISH_BATCHES)(np.frombuffer(out, dtype=np.uint8), matrix)
        matrix[0] += position
        return EncodedBatches(memoryview(out), BatchColumns.from_matrix(matrix))


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
    body = plain_encode.encode_records(memoryview(key + value), (row,), wanted)
    batch, head = plain_encode.finish_batch(body.header, body.records, header.position)
    return batch, head + body.records
