"""Encode gathered records: what the batches of a run have in common, and the columns of their headers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from kafkalog_cli.disk.kernels import KernelChoice
from kafkalog_cli.format.batch import (
    NO_SEQUENCE,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
    Batch,
    BatchColumns,
    increment_sequence,
)
from kafkalog_cli.format.batch_encoder import BatchEncoder, EncodedBatches, WantedBatches
from kafkalog_cli.format.kernels import native
from kafkalog_cli.format.records import RecordArrays, RecordColumns
from kafkalog_cli.ops.append.reading import RecordOrigin


@dataclass(frozen=True, slots=True)
class BatchStyle:
    """The properties that all batches of a run have in common.

    `append_time_ms` is the broker's time, if the topic wants LogAppendTime. `batch_bytes` is the largest size of a
    batch of several records before compression. `keeps_codecs`: a batch is compressed with the codec of the batch that
    its records come from. This is also so if offsets are kept.
    """

    codec: int = 0
    level: int | None = None
    batch_bytes: int = 16_384
    leader_epoch: int = 0
    append_time_ms: int | None = None
    producer_id: int = -1
    producer_epoch: int = -1
    is_transactional: bool = False
    keeps_offsets: bool = False
    keeps_codecs: bool = False

    @property
    def follows_origins(self) -> bool:
        """Whether records from other batches keep some properties of those batches."""
        return self.keeps_offsets or self.keeps_codecs

    @property
    def attributes(self) -> int:
        """The attributes field of the batch headers."""
        bits = TIMESTAMP_TYPE_MASK if self.append_time_ms is not None else 0
        return self.codec | bits | (TRANSACTIONAL_MASK if self.is_transactional else 0)

    def of(self, origin: RecordOrigin, timestamp: int | None) -> BatchStyle:
        """Return the style of a batch for a record with this origin.

        If offsets are kept, its epoch, append time and codec are kept too.
        """
        if not self.follows_origins:
            return self
        if not self.keeps_offsets:
            return self if origin.codec in (None, self.codec) else replace(self, codec=origin.codec)
        epoch = self.leader_epoch if origin.leader_epoch is None else origin.leader_epoch
        append_time_ms = timestamp if origin.is_append_time else None
        codec = self.codec if origin.codec is None else origin.codec
        if (epoch, append_time_ms, codec) == (self.leader_epoch, self.append_time_ms, self.codec):
            return self
        return replace(self, leader_epoch=epoch, append_time_ms=append_time_ms, codec=codec)


class Block(NamedTuple):
    """Several whole batches of one style: the records and the end row of each batch.

    The offsets of the records are used only if offsets are kept.
    """

    buffer: memoryview
    records: RecordColumns
    ends: list[int]
    style: BatchStyle


class BatchMaker:
    """Encodes blocks; if there is a producer, `next_sequence` is the sequence of the next batch."""

    def __init__(
        self, style: BatchStyle, next_sequence: int = NO_SEQUENCE, kernels: KernelChoice | None = None
    ) -> None:
        self.style = style
        self.next_sequence = next_sequence
        self._encoder = BatchEncoder(style.level)
        self._kernels = kernels

    def encode(self, block: Block, base_offset: int) -> EncodedBatches:
        """Return the block's batches, the first at `base_offset`; they are valid until the next call.

        If offsets are kept, `base_offset` is ignored.
        """
        records, begins = block.records, [0, *block.ends[:-1]]
        if not isinstance(records, RecordArrays) and self._kernels is not None:
            self._kernels.need(native.ENCODE_BATCHES, native.FINISH_BATCHES)
            kernels = self._kernels.compiled(len(records), len(records))
            records = records if kernels is None else records.arrays()
        if not self.style.keeps_offsets:
            records = records.numbered(base_offset)
        headers = BatchColumns.from_rows(
            self._header(int(records.offset[begin]), int(records.offset[end - 1]), block.style)
            for begin, end in zip(begins, block.ends, strict=True)
        )
        return self._encoder.encode(block.buffer, records, WantedBatches(headers, begins, block.ends))

    def _header(self, first: int, last: int, style: BatchStyle) -> Batch:
        sequence = self.next_sequence
        if style.producer_id >= 0:
            self.next_sequence = increment_sequence(sequence, last - first + 1)
        timestamp = -1 if style.append_time_ms is None else style.append_time_ms
        producer = (style.producer_id, style.producer_epoch, sequence)
        return Batch(0, 0, first, last, style.leader_epoch, 2, 0, style.attributes, -1, timestamp, *producer, 0, 1)
