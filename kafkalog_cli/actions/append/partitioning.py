"""Which of a topic's partitions a record goes to, as Kafka's producer has it, and the input sorted out by that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from tempfile import SpooledTemporaryFile

from kafkalog_cli.actions.append.reading import NewRecord, Parse
from kafkalog_cli.actions.partition_facts import Places
from kafkalog_cli.errors import Refused
from kafkalog_cli.format.murmur2 import partition_of_key
from kafkalog_cli.storage.partition import Partition

_HELD_BYTES = 1 << 20
_PIECE_BYTES = 1 << 20


class Partitioner:
    """Chooses among the partitions `given` of a topic that has `count` of them.

    By the key where there is one (murmur2, as BuiltInPartitioner); without one, the partition that the record says it
    comes from, if it is given; else one partition gets what fills a batch of `batch_bytes`, then the next one does
    (a simplification of KIP-794: a producer chooses that by chance, and by the load of brokers). `first`: which of
    those given that begins with.
    """

    def __init__(self, given: Sequence[int], count: int, batch_bytes: int, first: int = 0) -> None:
        self._given = sorted(given)
        self._is_given = frozenset(given)
        self._count = count
        self._batch_bytes = batch_bytes
        self._sticky_bytes, self._sticky = 0, first % len(self._given)

    def partition_of(self, record: NewRecord) -> int:
        """The number of the partition. Raises ValueError where the key belongs to one that is not given."""
        if record.key is not None:
            found = partition_of_key(record.key, self._count)
            if found not in self._is_given:
                raise ValueError(f"its key belongs to partition {found} of {self._count}, which is not given")
            return found
        wanted = record.origin.partition
        if wanted in self._is_given:
            return wanted
        if self._sticky_bytes >= self._batch_bytes:
            self._sticky_bytes, self._sticky = 0, (self._sticky + 1) % len(self._given)
        self._sticky_bytes += len(record.value or b"")
        return self._given[self._sticky]


class SortedLines:
    """Lines of an input by the partition of their record; what is much lies in nameless temporary files."""

    def __init__(self, partitioner: Partitioner, numbers: Iterable[int]) -> None:
        self._partitioner = partitioner
        self._files = {number: SpooledTemporaryFile(_HELD_BYTES) for number in numbers}  # noqa: SIM115

    def sorting(self, parse: Parse) -> Callable[[bytes], None]:
        """As `parse`, but the line goes to its partition. Raises ValueError as that does, OSError."""

        def sort(line: bytes) -> None:
            record = parse(line)
            if record is not None:
                self._files[self._partitioner.partition_of(record)].write(line + b"\n")

        return sort

    def pieces(self, number: int) -> Iterator[bytes]:
        """What a partition got, from the start."""
        file = self._files[number]
        file.seek(0)
        while piece := file.read(_PIECE_BYTES):
            yield piece

    @property
    def size_bytes(self) -> int:
        """Of all lines, once all are sorted."""
        return sum(file.tell() for file in self._files.values())

    def close(self) -> None:
        """The temporary files go."""
        for file in self._files.values():
            file.close()


def number_of_partitions(partitions: Sequence[Partition], known: int | None, places: Places) -> int:
    """How many partitions the topic of `partitions` has: `known` by the metadata log, or all of them are given.

    `places`: what lies beside them. Raises Refused where that is not known: a key would go to a wrong partition.
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
