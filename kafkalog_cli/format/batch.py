"""Record batches v2 (DefaultRecordBatch) and older messages: the header as a table, its bits, and batches as columns.

The columns contain batches of every generation. A row is a record batch v2, an entry of a message set v0 or v1
(LegacyRecord), or a message of Kafka 0.7.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from kafkalog_cli.format import native
from kafkalog_cli.format.columns import Column, Matrix, all_set, rows_where
from kafkalog_cli.format.layout import Field, Layout

RECORD_BATCH = Layout(
    "Record batch v2",
    "org.apache.kafka.common.record.DefaultRecordBatch",
    Field("base_offset", "q", "offset of the first record that was in the batch; kept by compaction"),
    Field("batch_length", "i", "bytes after this field"),
    Field("partition_leader_epoch", "i", "leader epoch, -1 unknown; outside the CRC"),
    Field("magic", "b", "2"),
    Field("crc", "I", "CRC-32C of the bytes from attributes to the end"),
    Field("attributes", "h", "bits 0-2 codec, 3 timestamp type, 4 transactional, 5 control, 6 delete horizon"),
    Field("last_offset_delta", "i", "last offset = base offset + delta"),
    Field("base_timestamp", "q", "of the first record, ms; the delete horizon where bit 6 is set"),
    Field("max_timestamp", "q", "largest timestamp, ms; the append time where bit 3 is set"),
    Field("producer_id", "q", "-1 none"),
    Field("producer_epoch", "h", "-1 none"),
    Field("base_sequence", "i", "-1 none"),
    Field("records_count", "i", "0 in a batch that the cleaner emptied"),
)

LOG_OVERHEAD_BYTES = 12
"""Bytes of the offset and size fields before every entry since 0.8 (Records.LOG_OVERHEAD)."""

HEADER_SIZE_UP_TO_MAGIC_BYTES = 17
"""Bytes of an entry that must be readable to know its generation (Records.HEADER_SIZE_UP_TO_MAGIC)."""

MINIMUM_ENTRY_SIZE = 14
"""Smallest legal size field: a v0 message without key and value (LegacyRecord.RECORD_OVERHEAD_V0)."""

CODEC_MASK = 0x07
TIMESTAMP_TYPE_MASK = 0x08
TRANSACTIONAL_MASK = 0x10
CONTROL_MASK = 0x20
DELETE_HORIZON_MASK = 0x40

RECORD_BATCH_MAGIC = 2
"""Magic of record batches. Messages of the older formats have 0 or 1."""

NO_OFFSET = -1
NO_TIMESTAMP = -1
NO_SEQUENCE = -1

CRC_BAD, CRC_GOOD = 0, 1


class Batch(NamedTuple):
    """One row of `BatchColumns`, for display and for code outside the hot path.

    `position` and `size_bytes` are bytes in the file; `size_bytes` includes the 12 bytes of overhead. `valid` is 1 if
    the CRC is correct, else 0. `attributes` is the low byte: the broker uses no other bits.

    In v0, v1 and 0.7, `records_count` is 1, or -1 for a compressed set. In v0 and v1, `base_offset` of a compressed set
    is -1, because it is known only after decompression.
    """

    position: int
    size_bytes: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int
    valid: int

    @property
    def codec(self) -> int:
        """Codec id, 0 to 7 (5 to 7 are not assigned)."""
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        """Whether every record has the timestamp `max_timestamp`, from the broker's clock."""
        return self.magic > 0 and self.attributes & TIMESTAMP_TYPE_MASK != 0

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return self.magic >= 2 and self.attributes & TRANSACTIONAL_MASK != 0

    @property
    def is_control(self) -> bool:
        """Whether the records are control records, not data."""
        return self.magic >= 2 and self.attributes & CONTROL_MASK != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """Time (ms) from which the cleaner may remove the batch's tombstones and markers (KIP-534), None if not set."""
        return self.base_timestamp if self.magic >= 2 and self.attributes & DELETE_HORIZON_MASK else None

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record, -1 if the batch has no sequence."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset - self.base_offset)

    @property
    def timestamp_type(self) -> str:
        """Kafka's name of the timestamp type (TimestampType)."""
        if self.magic == 0:
            return "NoTimestampType"
        return "LogAppendTime" if self.attributes & TIMESTAMP_TYPE_MASK else "CreateTime"


class BatchSurvey(NamedTuple):
    """What is true of all of some batches: the least and the largest of each field, and how many are unusual.

    `gaps` are batches whose offsets do not follow those of the batch before directly. `disordered` begin at or below
    the last offset of the batch before, or above their own. `uneven` have another number of records than offsets.
    """

    least: Batch
    largest: Batch
    gaps: int
    disordered: int
    uneven: int


class BatchColumns(Matrix):
    """Batches as columns of equal length: the fields of `Batch`."""

    _survey: BatchSurvey | None = None
    names = Batch._fields

    position, size_bytes, base_offset, last_offset, leader_epoch, magic, crc, attributes = map(Column, range(8))
    base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence, records_count, valid = map(
        Column, range(8, 15)
    )

    def rows(self, first: int = 0, end: int | None = None) -> Iterator[Batch]:
        """Iterate over the rows `first` to `end` (exclusive)."""
        return map(partial(tuple.__new__, Batch), self.tuples(first, end))  # as Batch._make, without its check

    def row(self, index: int) -> Batch:
        """Return one row."""
        return Batch._make(self.values(index))

    def move_to(self, position: int) -> BatchColumns:
        """Return the columns of consecutive batches, of which the first shall begin at `position`, in bytes."""
        shift = position - self.position[0]
        return self.replace(position=[before + shift for before in self.position])

    @property
    def survey(self) -> BatchSurvey:
        """What is true of all batches, of which there must be at least one."""
        if self._survey is None:
            numbers, fields = native.survey(self), len(self.names)
            least, largest = Batch._make(numbers[:fields]), Batch._make(numbers[fields : 2 * fields])
            self._survey = BatchSurvey(least, largest, *numbers[2 * fields :])
        return self._survey

    def for_clients(self) -> BatchColumns:
        """Return these batches as a client takes them: not valid if their magic is above 2 (ByteBufferLogInputStream).

        A broker accepts such a batch if its CRC is right.
        """
        if not len(self) or self.survey.largest.magic <= RECORD_BATCH_MAGIC:
            return self
        marks = zip(self.valid, self.magic, strict=True)
        return self.replace(valid=[CRC_BAD if magic > RECORD_BATCH_MAGIC else valid for valid, magic in marks])

    def all_valid(self) -> bool:
        """Whether no batch has a bad CRC."""
        return not len(self) or self.survey.least.valid > 0 or all_set(self.valid)  # it is -1 if no CRC was checked

    def last_valid_row(self) -> int | None:
        """Return the row of the last batch with a right CRC, None if there is none."""
        valid = self.valid
        if len(valid) and valid[-1]:
            return len(valid) - 1
        return next((row for row in range(len(valid) - 1, -1, -1) if valid[row]), None)

    @property
    def end_position(self) -> int:
        """The byte after the last batch."""
        return self.position[-1] + self.size_bytes[-1]

    def in_transactions(self) -> list[int]:
        """Return the rows of transactional batches and of control batches."""
        mask = TRANSACTIONAL_MASK | CONTROL_MASK
        if not len(self) or self.survey.largest.attributes < TRANSACTIONAL_MASK:
            return []
        return rows_where(lambda bits, magic: (bits & mask != 0) & (magic >= 2), self.attributes, self.magic)

    def of_transactions(self, *, only_valid: bool = False) -> Iterator[Batch]:
        """Iterate over the transactional batches and control batches, with `only_valid` if their CRCs are right."""
        rows = self.in_transactions()
        if only_valid and not self.all_valid():
            rows = [row for row in rows if self.valid[row]]
        return self.select(rows).rows()


_MAX_INT32 = (1 << 31) - 1


def increment_sequence(sequence: int, increment: int) -> int:
    """Add `increment` to a sequence, a 31-bit counter that wraps to 0 (DefaultRecordBatch.incrementSequence).

    The arithmetic is that of Java's int throughout, so that damaged headers give the values that Kafka's tool prints.
    """
    increment = wrap_int32(increment)
    if sequence > wrap_int32(_MAX_INT32 - increment):
        return wrap_int32(increment - wrap_int32(_MAX_INT32 - sequence) - 1)
    return wrap_int32(sequence + increment)


def wrap_int32(value: int) -> int:
    """Wrap `value` to Java's int."""
    return ((value + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)


def wrap_int64(value: int) -> int:
    """Wrap `value` to Java's long."""
    return ((value + (1 << 63)) & 0xFFFFFFFFFFFFFFFF) - (1 << 63)


_ENTRY = (
    Field("offset", "q", "offset; of the last inner message if the message is a compressed set"),
    Field("message_size", "i", "bytes after this field"),
    Field("crc", "I", "CRC-32 (IEEE) of the bytes from magic to the end"),
    Field("magic", "b", "0 or 1"),
    Field("attributes", "b", "bits 0-2 codec; bit 3 (v1) timestamp type"),
)

MESSAGE_V0 = Layout(
    "Message v0, up to the key",
    "org.apache.kafka.common.record.LegacyRecord",
    *_ENTRY,
    Field("key_length", "i", "-1 null; the key follows, then an int32 value length (-1 null) and the value"),
)

MESSAGE_V1 = Layout(
    "Message v1, up to the key",
    "org.apache.kafka.common.record.LegacyRecord",
    *_ENTRY,
    Field("timestamp", "q", "ms, -1 none"),
    Field("key_length", "i", "-1 null; the key follows, then an int32 value length (-1 null) and the value"),
)

KEY_LENGTH_OFFSET = (MESSAGE_V0.offset["key_length"], MESSAGE_V1.offset["key_length"])
"""Offset of the key length in an entry, by magic."""


MESSAGE_V07_MAGIC0 = Layout(
    "Message of 0.7, magic 0",
    "kafka.message.Message (0.7.2)",
    Field("size", "i", "bytes after this field, at least 5"),
    Field("magic", "b", "0"),
    Field("crc", "I", "CRC-32 (IEEE) of the payload"),
)

MESSAGE_V07_MAGIC1 = Layout(
    "Message of 0.7, magic 1",
    "kafka.message.Message (0.7.2)",
    Field("size", "i", "bytes after this field, at least 6"),
    Field("magic", "b", "1"),
    Field("attributes", "b", "bits 0-1 codec: 0 none, 1 gzip, 2 snappy"),
    Field("crc", "I", "CRC-32 (IEEE) of the payload"),
)

V07_CODEC_MASK = 0x03
MINIMUM_V07_SIZE = 5


MESSAGE_SET_SEND = Layout(
    "Fetch response of 0.7, up to the messages",
    "kafka.server.MessageSetSend (0.7.2)",
    Field("size", "i", "bytes after this field: 2 and those of the messages; of several sets, of all their responses"),
    Field("error_code", "h", "0 none, -1 unknown, 1 offset out of range, 2 invalid message, 3 wrong partition, 4 size"),
)

_AFTER_SIZE = MESSAGE_SET_SEND.size - MESSAGE_SET_SEND.offset["error_code"]
MOST_BYTES = (1 << 31) - 1 - _AFTER_SIZE
"""Largest size of the messages in one response, in bytes."""


def encode_start(messages_bytes: int, error_code: int = 0) -> bytes:
    """Return the bytes before `messages_bytes` bytes of messages, or of whole responses (MultiMessageSetSend).

    Raises ValueError if that is more than a response can contain.
    """
    if not 0 <= messages_bytes <= MOST_BYTES:
        raise ValueError(f"{messages_bytes} bytes do not fit into a fetch response")
    return MESSAGE_SET_SEND.struct.pack(_AFTER_SIZE + messages_bytes, error_code)
