"""Choose the partition of each record as producers of Kafka and librdkafka do, and sort the input by partition."""

import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from kafkalog_cli.disk.temporary import SpooledFile
from kafkalog_cli.errors import Refused
from kafkalog_cli.format import native
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops.append.reading import NewRecord, Parse
from kafkalog_cli.ops.choices import Hashing
from kafkalog_cli.ops.ownership import Places

_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Return the hash of `data` as an unsigned 32-bit number. Java's result is the signed one."""
    return int.from_bytes(native.murmur2(data, array("q", [0, len(data)])), "little")


def fnv1a(data: bytes) -> int:
    """Return the hash of `data` as librdkafka has it: the absolute value of the signed number of 32 bits."""
    found = 0x811C9DC5
    for byte in data:
        found = ((found ^ byte) * 0x01000193) & _MASK
    return found if found < 1 << 31 else (1 << 32) - found


def partitions_of_keys(keys: Any, partitions: int, hashing: Hashing = Hashing.MURMUR2_RANDOM) -> Any:
    """Return `partition_of_key` of each key of an Arrow array of bytes, as numbers of NumPy; a null is an empty key."""
    import numpy as np
    import pyarrow as pa

    if not hashing.value.startswith("murmur2"):
        found = [partition_of_key(key or b"", partitions, hashing) for key in keys.to_pylist()]
        return np.array(found, np.int64)
    _, ends, data = keys.buffers()
    kind = np.int64 if pa.types.is_large_binary(keys.type) else np.int32
    bounds = np.frombuffer(ends, kind)[keys.offset : keys.offset + len(keys) + 1].astype(np.int64)
    hashes = np.frombuffer(native.murmur2(data or b"", bounds), np.int64)
    return (hashes & 0x7FFFFFFF) % partitions


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

    def counted(self, parts: Iterable[Any]) -> Iterator[Any]:
        """Yield the RecordBatches."""
        for part in parts:
            if self._count is not None and "key" in part.schema.names:
                keys = part.column("key")
                elsewhere = partitions_of_keys(keys, self._count) != self._partition
                elsewhere &= keys.is_valid().to_numpy(zero_copy_only=False)
                if elsewhere.any():
                    elsewhere &= partitions_of_keys(keys, self._count, Hashing.CRC32) != self._partition
                self.records += int(elsewhere.sum())
            yield part


_HELD_BYTES = 1 << 20
_PIECE_BYTES = 1 << 20


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

    def without_key(self, wanted: int | None, value_bytes: int) -> int:
        """Return the number of the partition of a record without a key; `wanted`: the partition it comes from."""
        if wanted is not None and wanted in self._is_given:
            return wanted
        if self._sticky_bytes >= self._batch_bytes:
            self._sticky_bytes, self._sticky = 0, (self._sticky + 1) % len(self._given)
        self._sticky_bytes += value_bytes
        return self._given[self._sticky]


class SortedLines:
    """Lines of an input, sorted by the partition of their record; large amounts are in nameless temporary files."""

    def __init__(self, partitioner: Partitioner, numbers: Iterable[int]) -> None:
        self._partitioner = partitioner
        self._files = {number: SpooledFile(_HELD_BYTES) for number in numbers}

    def sorting(self, parse: Parse) -> Callable[[bytes], None]:
        """Return a function that parses a line and stores it for its partition.

        It raises ValueError as `parse` and `Partitioner.partition_of` do, and OSError.
        """

        def sort(line: bytes) -> None:
            record = parse(line)
            if record is not None:
                self._files[self._partitioner.partition_of(record)].write(line + b"\n")

        return sort

    def pieces(self, number: int) -> Iterator[bytes]:
        """Yield the lines of a partition in pieces, from the start."""
        file = self._files[number]
        file.seek(0)
        while piece := file.read(_PIECE_BYTES):
            yield piece

    @property
    def size_bytes(self) -> int:
        """The size of all lines in bytes, after all were sorted."""
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
