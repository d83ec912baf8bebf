"""Sort records by partition into files that have the records of one partition each, and merge files by offset."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import BufferedReader
from secrets import token_hex
from typing import NamedTuple

from kafkalog_cli.change.new_partition import make_directory_of_partition
from kafkalog_cli.change.new_partitions import staged_name
from kafkalog_cli.change.removal import try_to_remove_directory
from kafkalog_cli.disk.durable import StagedFile, attributes_in
from kafkalog_cli.disk.fs import FileAttributes, RealFilesystem, WritableFilesystem
from kafkalog_cli.disk.lock import LockPolicy, lock_log_dir
from kafkalog_cli.errors import BadInput, UsageError
from kafkalog_cli.format import native
from kafkalog_cli.format.columns import Integers, any_row, as_array, rows_in_order
from kafkalog_cli.ops.change.append.partitioning import Partitioner, partitions_of_keys
from kafkalog_cli.ops.change.append.records import UNKNOWN, NewRecords, join_records, read_records, write_records
from kafkalog_cli.ops.move.importing.sources import NO_OFFSET, ImportRequest, InputFile, ReadableStream

PENDING_BYTES = 32 << 20
"""The size in bytes of the records pending in memory before they are written."""
_WRITTEN_RECORDS = (1 << 14) + 64
"""Records of a file that are written, and later read, at once: as many as an ArrowReader yields."""
_WRITTEN_BYTES = 8 << 20
"""The size in bytes of large records that are written, and later read, at once."""
_BUFFER_BYTES = 1 << 20
_MOST_PARTITION = (1 << 31) - 1
_ROWS = "kafkalog-rows"
"""The topic in the names of directories that hold rows of several partitions."""


class SortedFile(NamedTuple):
    """A file with records of one partition; `order` sorts the files of the same partition.

    `offsets` are the smallest and the largest offset; None if records have none.
    """

    topic: str
    partition: int
    order: tuple[int, int]
    path: str
    size_bytes: int
    rows: int
    offsets: tuple[int, int] | None

    @property
    def has_offsets(self) -> bool:
        """Whether records have offsets."""
        return self.offsets is not None

    def offset_range(self) -> tuple[int, int] | None:
        """Return the smallest and the largest offset."""
        return self.offsets

    def records(self, now_ms: int) -> Iterator[NewRecords]:
        """Yield the records. Raises OSError."""
        del now_ms  # each record has its time
        stream = ReadableStream(RealFilesystem().open_read(self.path))
        with BufferedReader(stream, _BUFFER_BYTES) as file:
            yield from read_records(file)


class Staging(NamedTuple):
    """The log directory, the run, and the policy for the lock that keeps brokers out."""

    log_dir: str
    run: str
    policy: LockPolicy = LockPolicy()

    @contextmanager
    def staged(self, fs: WritableFilesystem, topic: str, partition: int) -> Iterator[str]:
        """Yield a name for a staging directory of one attempt of a task; it is removed after an exception.

        Spark may run a task twice at the same time. The log directory is locked meanwhile.
        """
        name = staged_name(topic, partition, self.run, token_hex())
        with lock_log_dir(fs, self.log_dir, self.policy):
            try:
                yield name
            except BaseException:
                try_to_remove_directory(fs, f"{self.log_dir}/{name}")
                raise


class Scatter:
    """Splits the records of one input by partition.

    `number` is that of the input, `name` is for messages. `topic` and `partition` are for records that name none. With
    `request.partitions` records go to one of that many partitions by their keys. Records without a key go where they
    say, else they are spread as by a producer. With `is_column_first` records with a key go where they say, too.

    If all records of a file have offsets, they are sorted by them, even if new offsets are assigned (without
    `keeps_offsets`). Else the order is that of the input.
    """

    def __init__(  # noqa: PLR0913
        self,
        request: ImportRequest,
        number: int,
        name: str,
        *,
        topic: str | None = None,
        partition: int | None = None,
        keeps_offsets: bool,
        is_column_first: bool = False,
    ) -> None:
        self._request = request
        self._number = number
        self._name = name
        self._topic = topic if request.topic is None else request.topic
        self._partition = partition
        self._keeps_offsets = keeps_offsets
        self._is_column_first = is_column_first
        self._pending: dict[tuple[str, int], list[NewRecords]] = {}
        self._pending_bytes = self._files = 0
        count = request.partitions
        self._partitioner = (
            None if count is None else Partitioner(range(count), count, request.batch_bytes, first=number)
        )

    def write(self, staging: Staging, records: Iterable[NewRecords], topics: Sequence[str]) -> list[SortedFile]:
        """Write the records to files by partition, and return these.

        The column topic of a record is the index of its name in `topics`, which may grow meanwhile. Raises BadInput,
        UsageError, Locked, OSError, SyncFailed.
        """
        fs, files = RealFilesystem(), list[SortedFile]()
        with staging.staged(fs, _ROWS, self._number) as name:
            directory = f"{staging.log_dir}/{name}"
            make_directory_of_partition(fs, directory)
            attributes = attributes_in(fs, staging.log_dir)
            for found in records:
                self._check_topics(found)
                as_array(found.columns.partition)[:] = self._numbers(found)
                for topic, of_topic in self._by_topic(found, topics):
                    for number, own in of_topic.groups(of_topic.columns.partition):
                        self._pending.setdefault((topic, number), []).append(own)
                self._pending_bytes += found.size_bytes + 8 * native.NEW_COLUMNS * len(found)
                if self._pending_bytes >= PENDING_BYTES:
                    files += self._write_pending(fs, directory, attributes)
            return [*files, *self._write_pending(fs, directory, attributes)]

    def _check_topics(self, records: NewRecords) -> None:
        """Raise BadInput for a record without a topic, if none is known for such records."""
        if self._topic is None and UNKNOWN in records.columns.topic:
            raise BadInput(path=self._name, reason="a row has no topic")

    def _by_topic(self, records: NewRecords, topics: Sequence[str]) -> Iterator[tuple[str, NewRecords]]:
        """Yield the records of each topic."""
        if self._request.topic is not None:
            yield self._request.topic, records
            return
        for index, own in records.groups(records.columns.topic):
            yield self._topic or "" if index == UNKNOWN else topics[index], own

    def _numbers(self, records: NewRecords) -> Integers:
        """Return the partition of each record."""
        own = as_array(records.columns.partition)
        if self._partitioner is not None:
            return self._by_key(records, own, self._partitioner)
        missing = own == UNKNOWN
        if missing.any():
            if self._partition is None:
                reason = (
                    f"{self._name} does not name the partition of its rows: --partitions N chooses it by their keys"
                )
                raise UsageError(reason=reason)
            own[missing] = self._partition
        if not 0 <= int(own.min()) <= int(own.max()) <= _MOST_PARTITION:
            raise BadInput(path=self._name, reason=f"{own.min()} to {own.max()} are not partition numbers")
        return own

    def _by_key(self, records: NewRecords, own: Integers, partitioner: Partitioner) -> Integers:
        import numpy as np

        hashing, count, columns = self._request.hashing, self._request.partitions, records.columns
        assert count is not None
        numbers = partitions_of_keys(records, count, hashing)
        sizes = as_array(columns.key_size)
        of_null, of_empty, of_others = (hashing.is_spread(key) for key in (None, b"", b"key"))
        rows = np.flatnonzero(np.select([sizes < 0, sizes == 0], [of_null, of_empty], of_others))
        value_bytes = np.maximum(as_array(columns.value_size)[rows], 0)
        numbers[rows] = [*map(partitioner.without_key, own[rows].tolist(), value_bytes.tolist())]
        if not self._is_column_first:
            return numbers
        if int(own.max()) >= count:
            raise BadInput(path=self._name, reason=f"a row is for partition {own.max()}, and there are {count}")
        return np.where(own >= 0, own, numbers)

    def _write_pending(
        self, fs: WritableFilesystem, directory: str, attributes: FileAttributes
    ) -> Iterator[SortedFile]:
        pending, self._pending, self._pending_bytes = self._pending, {}, 0
        for (topic, number), parts in pending.items():
            order = (self._number, self._files)
            file = StagedFile(fs, f"{directory}/{self._number}-{self._files}.records", attributes)
            try:
                yield self._write(file, topic, number, order, parts)
            except BaseException:
                file.drop()
                raise
            self._files += 1

    def _write(
        self, file: StagedFile, topic: str, number: int, order: tuple[int, int], parts: list[NewRecords]
    ) -> SortedFile:  # fmt: skip
        import numpy as np

        offsets, ends = np.concatenate([as_array(part.columns.offset) for part in parts]), None
        if (offsets != UNKNOWN).all():
            ends = (int(offsets.min()), int(offsets.max()))
            if (offsets[1:] < offsets[:-1]).any():
                parts = [_sort(parts)]
        elif self._keeps_offsets:
            raise BadInput(path=self._name, reason=NO_OFFSET)
        for portion in _portions(parts):
            write_records(file, portion)
        return SortedFile(topic, number, order, file.path, file.finish(is_kept=False), len(offsets), ends)


def _portions(parts: Iterable[NewRecords]) -> Iterator[NewRecords]:
    """Yield the same records in portions that are neither small nor too large; usual ones are not copied."""
    pending: list[NewRecords] = []
    count = size_bytes = 0
    for part in parts:
        begin, first = part.columns.begin, 0
        while first < len(part):
            end = bisect_right(begin, begin[first] + _WRITTEN_BYTES, first, min(first + _WRITTEN_RECORDS, len(part)))
            pending.append(part.part(first, end))
            count += end - first
            size_bytes += pending[-1].size_bytes
            if count >= _WRITTEN_RECORDS // 2 or size_bytes >= _WRITTEN_BYTES // 2:
                yield join_records(pending)
                pending, count, size_bytes = [], 0, 0
            first = end
    if pending:
        yield join_records(pending)


def in_offset_order(files: Sequence[InputFile | SortedFile], now_ms: int) -> Iterator[NewRecords]:
    """Yield the records of files in the order of offsets. Raises BadInput.

    Within each file, records must be in that order if its offsets overlap with another file's. Memory holds some
    thousand records of each overlapping file.
    """
    ranges = [(found, file) for file in files if (found := file.offset_range()) is not None]
    ranges.sort(key=lambda one: one[0])
    group: list[InputFile | SortedFile] = []
    last = -1
    for (first, end), file in ranges:
        if group and first > last:
            yield from _merge(group, now_ms)
            group = []
        group.append(file)
        last = max(last, end)
    yield from _merge(group, now_ms)


def _merge(files: Sequence[InputFile | SortedFile], now_ms: int) -> Iterator[NewRecords]:
    if len(files) == 1:
        yield from files[0].records(now_ms)
        return
    sources = [_ascending(file, now_ms) for file in files]
    heads = [(records, rest) for rest in sources if (records := next(rest, None)) is not None]
    while heads:
        bound = min(records.columns.offset[-1] for records, _ in heads)
        earlier: list[NewRecords] = []
        later: list[tuple[NewRecords, Iterator[NewRecords]]] = []
        for records, rest in heads:
            count = bisect_right(records.columns.offset, bound)
            if count:
                earlier.append(records.part(0, count))
            following = records.part(count, len(records)) if count < len(records) else next(rest, None)
            if following is not None:
                later.append((following, rest))
        yield _sort(earlier)
        heads = later


def _ascending(file: InputFile | SortedFile, now_ms: int) -> Iterator[NewRecords]:
    """Yield the records of a file. Raises BadInput if their offsets do not ascend."""
    last = -1
    for records in file.records(now_ms):
        offsets = records.columns.offset
        if offsets[0] < last or any_row(lambda before, at: at < before, offsets[:-1], offsets[1:]):
            reason = "its offsets do not ascend, and another file has some between them: sort it by the column offset"
            raise BadInput(path=file.path, reason=reason)
        last = offsets[-1]
        yield records


def _sort(parts: list[NewRecords]) -> NewRecords:
    """Return the records in the order of offsets; of equal offsets, the earlier file's record is first."""
    records = join_records(parts)
    return records.chosen(rows_in_order(records.columns.offset))
