"""The JSON output of stats: an object per partition, per topic, and one for all."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops.audit.keys import KeyTotal
from kafkalog_cli.ops.stats.contents import LogContents
from kafkalog_cli.output.records import CodecWord, Count, ObjectKind, PathText, RawBytes, same_fields


class CodecContentsObject(TypedDict):
    """The batches with one codec."""

    codec: CodecWord
    batches: Count
    bytes: Annotated[Count, "on disk"]
    raw_bytes: Annotated[Count, "keys and values after decompression"]


class LargeRecordObject(TypedDict):
    """One of the largest records."""

    topic: PathText
    partition: int
    offset: int
    bytes: Annotated[Count, "of the key and the value"]
    timestamp_ms: int | None


class FrequentKeyObject(TypedDict):
    """One of the most frequent keys."""

    key: Annotated[RawBytes, "the first 1024 bytes"]
    key_bytes: Count
    records: Count
    bytes: Annotated[Count, "of keys and values"]
    records_error: Annotated[Count, "the true number is at most so much higher"]


class ProducerCountsObject(TypedDict):
    """One of the producers with the most records."""

    producer_id: int
    epochs: Annotated[Count, "the number of different epochs; of several partitions the largest number"]
    batches: Count
    records: Count


class PeriodCountObject(TypedDict):
    """The records of a period."""

    start_ms: int
    records: Count


class StatsObject(TypedDict):
    """The contents of a partition, of a topic, or of all partitions together."""

    scope: Literal["partition", "topic", "total"]
    topic: Annotated[PathText | None, "null for the total"]
    partition: Annotated[int | None, "null for a topic and the total"]
    path: Annotated[PathText | None, "the partition's directory; null for a topic and the total"]
    partitions: Count
    bytes: Annotated[Count, "of the log files"]
    raw_bytes: Annotated[Count, "keys and values after decompression"]
    batches: Count
    records: Annotated[Count, "without control records"]
    control_records: Count
    codecs: Annotated[list[CodecContentsObject], "the codec with the most bytes first"]
    smallest_batch_bytes: int | None
    largest_batch_bytes: int | None
    most_batch_records: int | None
    keys: Annotated[Count, "different keys; those of several partitions are added up"]
    keys_relative_error: Annotated[float, "standard error of the estimate; 0: exact"]
    null_keys: Annotated[Count, "records without a key"]
    duplicates: Annotated[Count, "records with a key that an earlier record of the partition has"]
    tombstones: Annotated[Count, "records with a key and a null value"]
    frequent_keys: list[FrequentKeyObject]
    producers: Annotated[Count, "different producer ids; those of several partitions are added up"]
    more_producers: Annotated[bool, "whether a partition has more producers than were counted"]
    top_producers: list[ProducerCountsObject]
    first_timestamp_ms: int | None
    last_timestamp_ms: int | None
    out_of_order: Annotated[Count, "records with a timestamp below that of an earlier record of the partition"]
    largest_records: list[LargeRecordObject]
    period_ms: Annotated[Count, "the length of a period"]
    over_time: Annotated[list[PeriodCountObject], "periods with records"]


STATS = ObjectKind("kafkalog.stats/1", StatsObject)


def stats_object(
    contents: LogContents, partitions: int, top: int, topic: str | None = None, partition: Partition | None = None
) -> StatsObject:
    """Return the object of a partition, of a topic (without `partition`), or of all (without `topic`)."""
    period_ms = contents.times.period_ms
    return {
        "scope": "total" if topic is None else "topic" if partition is None else "partition",
        "topic": None if topic is None else PathText(topic),
        "partition": None if partition is None else partition.number,
        "path": None if partition is None else PathText(partition.path),
        "partitions": partitions,
        "bytes": contents.bytes,
        "raw_bytes": contents.raw_bytes,
        "batches": contents.batches,
        "records": contents.records,
        "control_records": contents.control_records,
        "codecs": [same_fields(CodecContentsObject, one) for one in contents.codecs],
        "smallest_batch_bytes": contents.smallest_batch,
        "largest_batch_bytes": contents.largest_batch,
        "most_batch_records": contents.most_batch_records,
        "keys": contents.keys,
        "keys_relative_error": contents.keys_relative_error,
        "null_keys": contents.null_keys,
        "duplicates": contents.duplicates,
        "tombstones": contents.tombstones,
        "frequent_keys": [_key(one) for one in contents.frequent_keys[:top]],
        "producers": contents.producers,
        "more_producers": contents.more_producers,
        "top_producers": [same_fields(ProducerCountsObject, one) for one in contents.top_producers[:top]],
        "first_timestamp_ms": contents.first_timestamp_ms,
        "last_timestamp_ms": contents.last_timestamp_ms,
        "out_of_order": contents.out_of_order,
        "largest_records": [
            {**same_fields(LargeRecordObject, one), "topic": PathText(one.topic)} for one in contents.largest
        ],
        "period_ms": period_ms,
        "over_time": [
            {"start_ms": period * period_ms, "records": count}
            for period, count in sorted(contents.times.counts.items())
        ],
    }


def _key(one: KeyTotal) -> FrequentKeyObject:
    return same_fields(FrequentKeyObject, one)
