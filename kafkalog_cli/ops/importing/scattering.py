"""Sort rows by partition into files that have the rows of one partition each, and merge the files by offset."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafkalog_cli.disk.durable import StagedFile
from kafkalog_cli.disk.fs import FileAttributes, WritableFilesystem
from kafkalog_cli.errors import BadInput, UsageError
from kafkalog_cli.ops.append.arrow import check_columns
from kafkalog_cli.ops.append.partitioning import Partitioner, partitions_of_keys
from kafkalog_cli.ops.choices import Hashing
from kafkalog_cli.ops.export_files import writer
from kafkalog_cli.ops.export_request import FileFormat
from kafkalog_cli.ops.importing.sources import NO_OFFSET, PLACE_COLUMNS, ImportRequest, InputFile, batches, offset_range

HELD_BYTES = 64 << 20
"""The size in bytes of the rows held in memory before they are written."""
_MOST_PARTITION = (1 << 31) - 1


class Part(NamedTuple):
    """A file with rows of one partition; `order` sorts the parts of the same partition."""

    topic: str
    partition: int
    order: tuple[int, int]
    file: InputFile


@dataclass(frozen=True, slots=True)
class Places:
    """The rules that assign rows to partitions.

    `topic` and `partition` are for rows without such a column, or with null in it. `is_topic_given`: `topic` is for all
    rows. `partitions`: rows go to one of that many partitions `hashing` of their key. Rows without a key go where their
    column says, else they are spread as by a producer. With `is_column_first` the column also decides for rows with a
    key, as in a producer.

    If all rows of a file have offsets, they are sorted by them, even if new offsets are assigned (without
    `keeps_offsets`). Else the offsets are dropped, and the order is that of the input.
    """

    topic: str | None = None
    partition: int | None = None
    partitions: int | None = None
    is_topic_given: bool = False
    is_column_first: bool = False
    keeps_offsets: bool = False
    batch_bytes: int = 16_384
    hashing: Hashing = Hashing.MURMUR2_RANDOM

    @classmethod
    def of(cls, request: ImportRequest, *, keeps_offsets: bool, is_column_first: bool = False) -> Places:
        """Return the rules of an import, before it is known what its files say about their rows."""
        by_key, is_given = request.partitions, request.topic is not None
        return cls(
            request.topic, None, by_key, is_given, is_column_first, keeps_offsets, request.batch_bytes, request.hashing
        )


class Scatter:
    """Splits the rows of the `number`-th input (`name` in messages) into files in `directory`."""

    def __init__(  # noqa: PLR0913, PLR0917
        self, fs: WritableFilesystem, directory: str, attributes: FileAttributes, places: Places, number: int, name: str
    ) -> None:
        self._fs = fs
        self._directory = directory
        self._attributes = attributes
        self._places = places
        self._number = number
        self._name = name
        self._held: dict[tuple[str, int], list[Any]] = {}
        self._held_bytes = self._files = 0
        count = places.partitions
        self._partitioner = (
            None if count is None else Partitioner(range(count), count, places.batch_bytes, first=number)
        )

    def run(self, parts: Iterable[Any]) -> Iterator[Part]:
        """Yield the files made. Raises BadInput, UsageError, OSError, SyncFailed."""
        for part in parts:
            check_columns(part.schema)
            if part.num_rows:
                self._take(part)
            if self._held_bytes >= HELD_BYTES:
                yield from self._written()
        yield from self._written()

    def _take(self, part: Any) -> None:
        import numpy as np
        import pyarrow as pa

        topics, numbers = self._topics(part), self._numbers(part)
        kept = part.select([name for name in part.schema.names if name not in PLACE_COLUMNS])
        for topic, mask in topics:
            of_topic = numbers if mask is None else np.where(mask, numbers, -1)
            for number in np.unique(of_topic):
                if number < 0:
                    continue
                rows = np.flatnonzero(of_topic == number)
                own = kept if len(rows) == kept.num_rows else kept.take(pa.array(rows))
                self._held.setdefault((topic, int(number)), []).append(own)
        self._held_bytes += part.nbytes

    def _topics(self, part: Any) -> list[tuple[str, Any]]:
        """Return each topic with the mask of its rows; None for all rows."""
        places = self._places
        if "topic" not in part.schema.names or places.is_topic_given:
            if places.topic is None:
                raise UsageError(reason=f"{self._name} does not name its topic: give --topic NAME")
            return [(places.topic, None)]
        import pyarrow.compute as pc

        column = part.column("topic")
        if column.null_count:
            if places.topic is None:
                raise BadInput(path=self._name, reason="a row has no topic")
            column = column.fill_null(places.topic)
        names = pc.unique(column).to_pylist()
        if len(names) == 1:
            return [(names[0], None)]
        return [(name, pc.equal(column, name).to_numpy(zero_copy_only=False)) for name in names]

    def _numbers(self, part: Any) -> Any:
        import numpy as np
        import pyarrow as pa

        given = part.column("partition").cast(pa.int64()) if "partition" in part.schema.names else None
        if self._partitioner is not None:
            return self._by_key(part, given)
        if given is None or given.null_count:
            if self._places.partition is None:
                reason = (
                    f"{self._name} does not name the partition of its rows: --partitions N chooses it by their keys"
                )
                raise UsageError(reason=reason)
            if given is None:
                return np.full(part.num_rows, self._places.partition, np.int64)
            given = given.fill_null(self._places.partition)
        numbers: Any = given.to_numpy(zero_copy_only=False)
        if len(numbers) and not 0 <= int(numbers.min()) <= int(numbers.max()) <= _MOST_PARTITION:
            raise BadInput(path=self._name, reason=f"{numbers.min()} to {numbers.max()} are not partition numbers")
        return numbers

    def _by_key(self, part: Any, given: Any) -> Any:
        import numpy as np
        import pyarrow as pa

        assert self._partitioner is not None
        assert self._places.partitions is not None
        keys = part.column("key") if "key" in part.schema.names else pa.nulls(part.num_rows, pa.binary())
        hashing = self._places.hashing
        numbers = partitions_of_keys(keys, self._places.partitions, hashing)
        may_spread = keys.null_count or not hashing.value.startswith(("murmur2", "fnv1a"))
        spread = [row for row, key in enumerate(keys) if hashing.is_spread(key.as_py())] if may_spread else []
        if spread:
            wanted_by_row = [None] * part.num_rows if given is None else given.to_pylist()
            sizes = _value_bytes(part)
            for row in spread:
                numbers[row] = self._partitioner.without_key(wanted_by_row[row], sizes[row])
        if given is None or not self._places.is_column_first:
            return numbers
        wanted: Any = given.fill_null(-1).to_numpy(zero_copy_only=False)
        if len(wanted) and int(wanted.max()) >= self._places.partitions:
            told = f"a row is for partition {wanted.max()}, and there are {self._places.partitions}"
            raise BadInput(path=self._name, reason=told)
        return np.where(wanted >= 0, wanted, numbers)

    def _written(self) -> Iterator[Part]:
        held, self._held, self._held_bytes = self._held, {}, 0
        for (topic, number), parts in held.items():
            yield Part(topic, number, (self._number, self._files), self._write(parts))
            self._files += 1

    def _write(self, parts: list[Any]) -> InputFile:
        import pyarrow as pa

        table, ends = pa.Table.from_batches(parts), None
        if "offset" in table.schema.names:
            if not table.column("offset").null_count:
                table = table.sort_by("offset")
                ends = (table.column("offset")[0].as_py(), table.column("offset")[-1].as_py())
            elif self._places.keeps_offsets:
                raise BadInput(path=self._name, reason=NO_OFFSET)
            else:
                table = table.drop_columns(["offset"])
        path = f"{self._directory}/{self._number}-{self._files}.arrow"
        file = StagedFile(self._fs, path, self._attributes)
        try:
            out = writer(FileFormat.ARROW, file, table.schema, "none")
            for batch in table.to_batches():
                out.write(batch)
            out.close()
            size_bytes = file.finish(is_kept=False)
        except BaseException:
            file.drop()
            raise
        columns = tuple(table.schema.names)
        return InputFile(path, FileFormat.ARROW, size_bytes, table.num_rows, columns=columns, offsets=ends)


def _value_bytes(part: Any) -> list[int]:
    import pyarrow.compute as pc

    if "value" not in part.schema.names:
        return [0] * part.num_rows
    sizes: list[int] = pc.binary_length(part.column("value")).fill_null(0).to_pylist()
    return sizes


def in_offset_order(files: Sequence[InputFile], columns: Collection[str]) -> Iterator[Any]:
    """Yield RecordBatches of these columns, which include the offset, in the order of offsets. Raises BadInput.

    Within each file, rows must be in that order if its offsets overlap with another file's. Memory holds one batch of
    each overlapping file.
    """
    ranges = [(found, file) for file in files if (found := offset_range(file)) is not None]
    ranges.sort(key=lambda one: one[0])
    group: list[InputFile] = []
    last = -1
    for (first, end), file in ranges:
        if group and first > last:
            yield from _merged(group, columns)
            group = []
        group.append(file)
        last = max(last, end)
    yield from _merged(group, columns)


def _merged(files: Sequence[InputFile], columns: Collection[str]) -> Iterator[Any]:
    if len(files) == 1:
        yield from batches(files[0], columns)
        return
    heads = [_Head(file.path, batches(file, columns)) for file in files]
    heads = [head for head in heads if head.has_rows]
    for head in heads:
        if not head.schema.equals(heads[0].schema):
            reason = f"its offsets overlap with those of {heads[0].path}: give both the same columns of the same types"
            raise BadInput(path=head.path, reason=reason)
    while heads := [head for head in heads if head.has_rows]:
        bound = min(head.last for head in heads)
        yield _sorted([head.taken(bound) for head in heads])


class _Head:
    """The next rows of a file."""

    def __init__(self, path: str, parts: Iterator[Any]) -> None:
        self.path = path
        self._parts = parts
        self._seen = -1
        self._next()

    def _next(self) -> None:
        self._part: Any = next((part for part in self._parts if part.num_rows), None)
        if self._part is None:
            return
        self._part = self._part.select(sorted(self._part.schema.names))
        self._offsets = self._part.column("offset").to_numpy(zero_copy_only=False)
        if int(self._offsets[0]) < self._seen or (self._offsets[1:] < self._offsets[:-1]).any():
            reason = "its offsets do not ascend, and another file has some between them: sort it by the column offset"
            raise BadInput(path=self.path, reason=reason)
        self._seen = int(self._offsets[-1])

    @property
    def schema(self) -> Any:
        """The columns of the current batch."""
        return self._part.schema

    @property
    def has_rows(self) -> bool:
        """Whether there are more rows."""
        return self._part is not None

    @property
    def last(self) -> int:
        """The last offset of the current batch."""
        return int(self._offsets[-1])

    def taken(self, bound: int) -> Any:
        """Remove and return the rows of the current batch up to the offset `bound`."""
        import numpy as np

        count = int(np.searchsorted(self._offsets, bound, side="right"))
        found, self._part = self._part.slice(0, count), self._part.slice(count)
        self._offsets = self._offsets[count:]
        if not self._part.num_rows:
            self._next()
        return found


def _sorted(parts: list[Any]) -> Any:
    """Return the rows as one batch in the order of offsets; of equal offsets, the earlier file's row is first."""
    import pyarrow as pa

    table = pa.Table.from_batches([part for part in parts if part.num_rows]).combine_chunks()
    order = table.column("offset").to_numpy().argsort(kind="stable")
    return table.take(pa.array(order)).combine_chunks().to_batches()[0]
