"""The JSON output of look-ups: the record as dump-log prints it, its batch, and how they were found."""

from typing import Annotated, Any, TypedDict

from kafkalog_cli.format.batch import NO_OFFSET
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops.lookup_offset import Found
from kafkalog_cli.ops.lookup_time import BrokerAnswer
from kafkalog_cli.output.lookup_text import how
from kafkalog_cli.output.ndjson import Count, From, NotRequired, ObjectKind, PathText, Rendered, same_fields
from kafkalog_cli.output.record_json import RecordJson, RecordJsonOptions, SegmentContext, topic_decode


class AskedPartitionObject(TypedDict):
    """The partition of an answer for one of several partitions."""

    topic: NotRequired[Annotated[str | None, "in the answer for one of several partitions"]]
    partition: NotRequired[Annotated[int | None, "in the answer for one of several partitions"]]


class FoundBatchObject(TypedDict):
    """The header of a batch."""

    base_offset: Annotated[int | None, "null for a compressed message set whose records were not read"]
    last_offset: int
    position: Annotated[Count, "the byte of the segment"]
    size: Annotated[Count, From("size_bytes"), "in bytes, with the header"]
    magic: int
    crc_valid: Annotated[bool | None, "null if it was not checked"]


class UsedIndexEntryObject(TypedDict):
    """An entry of an offset index."""

    offset: int
    position: int


class UsedTimeIndexEntryObject(TypedDict):
    """An entry of a time index."""

    timestamp_ms: Annotated[int, From("timestamp")]
    offset: int


class BrokerAnswerObject(TypedDict):
    """A broker's answer to the same question about time."""

    broker_offset: NotRequired[Annotated[int | None, "a broker's answer if it differs; -1: no such record"]]
    broker_error: NotRequired[Annotated[str, "the error of a broker's answer"]]


class FoundRecordObject(TypedDict):
    """A record with its batch, and how they were found."""

    path: Annotated[PathText, From("segment.log.path"), "the segment"]
    record: Annotated[dict[str, Any] | None, "a kafkalog.record/1; null if only a batch was requested or readable"]
    batch: FoundBatchObject
    index_entry: Annotated[
        UsedIndexEntryObject | None, From("start.entry"), "the entry of the offset index that was used"
    ]
    time_index_entry: Annotated[
        UsedTimeIndexEntryObject | None, From("time_entry"), "the entry of the time index that was used"
    ]
    notes: Annotated[list[str], "oddities of the answer"]
    how: Annotated[str, "a sentence"]


class LookupObject(AskedPartitionObject, FoundRecordObject, BrokerAnswerObject):
    """An answer of lookup-offset or lookup-time: a record with its batch, or an offset."""


class LookupOffsetObject(AskedPartitionObject):
    """An answer that is an offset."""

    offset: Annotated[int | None, "null if one of several partitions has no such record"]
    offsets: NotRequired[Annotated[list[int], "for --before with several partitions"]]
    high_watermark: NotRequired[Annotated[int, "from the checkpoint"]]
    notes: NotRequired[Annotated[list[str], "oddities of the answer"]]


LOOKUP: ObjectKind[Any] = ObjectKind("kafkalog.lookup/1", LookupObject, other=LookupOffsetObject)


def found_object(found: Found, partition: Partition) -> FoundRecordObject:
    """Return the fields of a look-up; `record` is None if only a batch was requested or could be read."""
    name = found.segment.log.path.rpartition("/")[2]
    batch = found.batch
    record: Any = None
    if found.block is not None:
        directory = partition.directory
        context = SegmentContext(directory.topic, directory.partition, name, found.segment.is_seven)
        options = RecordJsonOptions(with_batches=False, decode=topic_decode(directory.topic))
        pieces = RecordJson(context, options).block(found.block)
        record = Rendered(piece.removesuffix("\n") for piece in pieces)  # JSON strings have no raw line ends
    header = same_fields(
        FoundBatchObject,
        batch,
        base_offset=None if batch.base_offset == NO_OFFSET else batch.base_offset,
        crc_valid=None if batch.valid < 0 else bool(batch.valid),
    )
    return same_fields(FoundRecordObject, found, record=record, batch=header, how=how(found))


def broker_fields(answer: BrokerAnswer | None) -> BrokerAnswerObject:
    """Return a broker's answer if it differs: -1 for none; null for the same answer or an error (in `broker_error`)."""
    if answer is None:
        return {"broker_offset": None}
    if answer.failure:
        return {"broker_offset": None, "broker_error": answer.failure}
    return {"broker_offset": -1 if answer.offset is None else answer.offset}
