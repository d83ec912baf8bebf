"""Choose the partition of each record as producers of Kafka and librdkafka do, and sort the input by partition."""

import zlib
from collections.abc import Iterable, Iterator, Sequence

from kafkalog_cli.disk.temporary import SpooledFile
from kafkalog_cli.errors import Refused
from kafkalog_cli.format import native
from kafkalog_cli.format.columns import Integers, as_array, column_of
from kafkalog_cli.format.records import field_bytes
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops.change.append.reading import Parse
from kafkalog_cli.ops.change.append.records import NewRecord, NewRecords, RecordOrigin, read_records, write_records
from kafkalog_cli.ops.choices import Hashing
from kafkalog_cli.ops.ownership import Places

_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Return the hash of `data` as an unsigned 32-bit number. Java's result is the signed one."""
    return native.murmur2(data, column_of((0,)), column_of((len(data),)))[0]


def fnv1a(data: bytes) -> int:
    """Return the hash of `data` as librdkafka has it: the absolute value of the signed number of 32 bits."""
    found = 0x811C9DC5
    for byte in data:
        found = ((found ^ byte) * 0x01000193) & _MASK
    return found if found < 1 << 31 else (1 << 32) - found


def partitions_of_keys(records: NewRecords, partitions: int, hashing: Hashing = Hashing.MURMUR2_RANDOM) -> Integers:
    """Return `partition_of_key` of the key of each record; a null is an empty key."""
    import numpy as np

    columns = records.columns
    if not hashing.value.startswith("murmur2"):
        keys = (
            field_bytes(memoryview(records.buffer), at, size) or b""
            for at, size in zip(columns.key_position, columns.key_size, strict=True)
        )
        return np.array([partition_of_key(key, partitions, hashing) for key in keys], np.int64)
    hashes = native.murmur2(records.buffer, columns.key_position, columns.key_size)
    return (as_array(hashes) & 0x7FFFFFFF) % partitions


def partition_of_key(key: bytes, partitions: int, hashing: Hashing = Hashing.MURMUR2_RANDOM) -> int:
    """Return the partition of a key in a topic with `partitions` partitions (BuiltInPartitioner.partitionForKey).

    librdkafka's are rd_kafka_msg_partitioner_consistent and _fnv1a, whose hashes are not made positive by a mask.
    """
    if hashing in (Hashing.CRC32, Hashing.CONSISTENT, Hashing.CONSISTENT_RANDOM):
        return zlib.crc32(key) % partitions
    if hashing in (Hashing.FNV1A, Hashing.FNV1A_RANDOM):
        return fnv1a(key) % partitions
    return (murmur2(key) & 0x7FFFFFFF) % partitions


class MisplacedKeys:
    """Counts records whose key belongs elsewhere than in `partition` of `count`, by Kafka's and librdkafka's hash.

    `count` None: none is counted.
    """

    def __init__(self, partition: int, count: int | None) -> None:
        self.records = 0
        self._partition, self._count = partition, count

    def counted(self, parts: Iterable[NewRecords]) -> Iterator[NewRecords]:
        """Yield the records."""
        for records in parts:
            if self._count is not None:
                elsewhere = partitions_of_keys(records, self._count) != self._partition
                elsewhere &= as_array(records.columns.key_size) >= 0
                if elsewhere.any():
                    elsewhere &= partitions_of_keys(records, self._count, Hashing.CRC32) != self._partition
                self.records += int(elsewhere.sum())
            yield records


_HELD_BYTES = 1 << 20


class Partitioner:
    """Chooses among the partitions `given` of a topic that has `count` partitions.

    A record with a key goes to the partition of its key (by `hashing`). A record without a key, if it is to be spread,
    goes to the partition it comes from, if the input names it and it is given. Other records go to one partition until
    they would fill a batch of `batch_bytes`, then to the next one. This simplifies KIP-794, where a producer chooses at
    random and by the brokers' load. `first` is the index of the given partition to start with.
    """

    def __init__(
        self, given: Sequence[int], count: int, batch_bytes: int, first: int = 0,
        hashing: Hashing = Hashing.MURMUR2_RANDOM,
    ) -> None:  # fmt: skip
        self._hashing = hashing
        self._given = sorted(given)
        self._is_given = frozenset(given)
        self._count = count
        self._batch_bytes = batch_bytes
        self._sticky_bytes, self._sticky = 0, first % len(self._given)

    def partition_of(self, record: NewRecord) -> int:
        """Return the partition's number. Raises ValueError if the key belongs to a partition that is not given."""
        if not self._hashing.is_spread(record.key):
            found = partition_of_key(record.key or b"", self._count, self._hashing)
            if found not in self._is_given:
                raise ValueError(f"its key belongs to partition {found} of {self._count}, which is not given")
            return found
        return self.without_key(record.origin.partition, len(record.value or b""))

    def without_key(self, own: int, value_bytes: int) -> int:
        """Return the number of the partition of a record without a key; `own`: the partition it comes from."""
        if own in self._is_given:
            return own
        if self._sticky_bytes >= self._batch_bytes:
            self._sticky_bytes, self._sticky = 0, (self._sticky + 1) % len(self._given)
        self._sticky_bytes += value_bytes
        return self._given[self._sticky]


class SortedRecords:
    """Records by partition; large amounts are in nameless temporary files."""

    def __init__(self, partitioner: Partitioner, numbers: Iterable[int]) -> None:
        self._partitioner = partitioner
        self._files = {number: SpooledFile(_HELD_BYTES) for number in numbers}

    def placing(self, parse: Parse) -> Parse:
        """Return `parse` with the partition to which each record goes; it raises ValueError as the partitioner, too."""

        def parse_and_place(line: bytes) -> NewRecord | None:
            record = parse(line)
            if record is None:
                return None
            number = self._partitioner.partition_of(record)
            origin = RecordOrigin._make((number, *record.origin[1:]))  # quicker than _replace
            return NewRecord._make((*record[:-1], origin))

        return parse_and_place

    def add(self, records: NewRecords) -> None:
        """Store records whose columns have their partitions. Raises OSError."""
        for number, own in records.groups(records.columns.partition):
            write_records(self._files[number], own)

    def of(self, number: int) -> Iterator[NewRecords]:
        """Yield the records of a partition, from the start."""
        file = self._files[number]
        file.seek(0)
        return read_records(file)

    @property
    def size_bytes(self) -> int:
        """The size of all records in bytes, after all were sorted."""
        return sum(file.tell() for file in self._files.values())

    def close(self) -> None:
        """Remove the temporary files."""
        for file in self._files.values():
            file.close()


def number_of_partitions(partitions: Sequence[Partition], known: int | None, places: Places) -> int:
    """Return the number of partitions of the topic of `partitions`.

    `known` is the number in the metadata log, None if not known. Without it, all partitions of the topic must be given.
    `places` are the partitions in the log directories. Raises Refused if the number cannot be found, since keys would
    go to wrong partitions.
    """
    topic, given = partitions[0].topic, {partition.number for partition in partitions}
    if known is not None:
        return known
    there = given | {number for name, number in places if name == topic}
    missing = sorted(set(range(max(there) + 1)) - given)
    if not missing:
        return len(given)
    numbers = ", ".join(map(str, missing[:5]))
    reason = f"how many partitions topic {topic} has is not known, and keys go by that"
    raise Refused(path=topic, reason=f"{reason}: give all of 0 to {max(there)} (missing: {numbers}), or --metadata")
