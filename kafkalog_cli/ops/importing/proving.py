"""Read a new partition back, compare it with the rows that it was built from, and report the result of the import."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kafkalog_cli.change.publishing.new_partitions import Completed
from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.disk.kernels import KernelChoice
from kafkalog_cli.errors import ExitCode, NotSame
from kafkalog_cli.format.fault import Fault
from kafkalog_cli.log.partition import open_partition
from kafkalog_cli.log.reading.record_arrow import record_batches, record_schema
from kafkalog_cli.ops.append.arrow import as_records
from kafkalog_cli.ops.damage import damaged_log
from kafkalog_cli.ops.importing.building import Built
from kafkalog_cli.ops.importing.inputs import InputFile
from kafkalog_cli.ops.importing.planning import Job, TopicId
from kafkalog_cli.ops.read.log_read import LogRead
from kafkalog_cli.ops.read.request import ReadRequest, Start
from kafkalog_cli.ops.read.visible import ReadNote

_RECORD = ("timestamp", "key", "value", "headers")
_ROWS = 1 << 14


class Proof(NamedTuple):
    """The number of records compared, and their SHA-256; equal records have equal digests."""

    records: int
    digest: str


def prove(  # noqa: PLR0913, PLR0917
    fs: Filesystem, path: str, name: str, expected: Iterable[Any], now_ms: int, kernels: KernelChoice,
    *, with_offsets: bool, append_time_ms: int | None = None,
) -> Proof:  # fmt: skip
    """Compare the partition in `path` (`name` in messages) with the rows that it was built from.

    It compares timestamp, key, value and headers of all records in order and, with `with_offsets`, the offset.
    `append_time_ms` is the timestamp of all records if the topic has LogAppendTime, else None. Raises NotSame at the
    first difference, DamagedLog, and as reading does.
    """
    columns = (*(("offset",) if with_offsets else ()), *_RECORD)
    schema = record_schema(columns)
    wanted = _rows_of(as_records(expected, schema, now_ms, append_time_ms))
    found = _rows_of(_read(fs, path, schema, kernels))
    digest, count = hashlib.sha256(), 0
    while True:
        one, other = next(wanted, None), next(found, None)
        if one is None and other is None:
            return Proof(count, digest.hexdigest())
        if one is None or other is None or not one.equals(other):
            raise NotSame(path=name, reason=_difference(one, other, count))
        count += one.num_rows
        _add(digest, one)


def _read(fs: Filesystem, path: str, schema: Any, kernels: KernelChoice) -> Iterator[Any]:
    log = LogRead(fs, open_partition(fs, path), ReadRequest(Start.EARLIEST), kernels)
    for segment in log.segments():
        for found in segment.blocks():
            if isinstance(found, Fault):
                raise damaged_log(segment.segment.log.path, found)
            if len(found.records):
                yield from record_batches(found, schema)


def _rows_of(parts: Iterable[Any]) -> Iterator[Any]:
    """Yield the same rows as tables of equal size, except the last, with one chunk per column."""
    import pyarrow as pa

    held: list[Any] = []
    count = 0
    for part in parts:
        if part.num_rows:
            held.append(part)
            count += part.num_rows
        while count >= _ROWS:
            whole = pa.Table.from_batches(held)
            yield whole.slice(0, _ROWS).combine_chunks()
            rest = whole.slice(_ROWS)
            count = rest.num_rows
            held = rest.to_batches() if count else []
    if count:
        yield pa.Table.from_batches(held).combine_chunks()


def _difference(one: Any, other: Any, before: int) -> str:
    """Describe the first record that differs; `before` is the number of equal records."""
    wanted, found = ([] if table is None else table.to_pylist() for table in (one, other))
    for number, (first, second) in enumerate(zip(wanted, found, strict=False)):
        if first != second:
            names = ", ".join(name for name in first if first[name] != second[name])
            return f"record {before + number + 1} was read back with another {names}"
    what = f"{before + len(found)} records were read back, {before + len(wanted)} or more were written"
    return what if len(found) < len(wanted) else f"more than the {before + len(wanted)} records written were read back"


def _add(digest: Any, table: Any) -> None:
    """Add lengths and bytes of all columns to the digest; a null and an empty value differ in it."""
    for name in table.schema.names:
        for array in _flat(table.column(name).combine_chunks()):
            digest.update(array)


def _flat(array: Any) -> Iterator[bytes]:
    import numpy as np
    import pyarrow as pa

    valid: Any = array.is_valid().to_numpy(zero_copy_only=False)
    yield np.packbits(valid).tobytes()
    if pa.types.is_list(array.type):
        yield array.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64).tobytes()
        for field in array.flatten().flatten():
            yield from _flat(field)
    elif pa.types.is_binary(array.type):
        import pyarrow.compute as pc

        yield pc.binary_length(array).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64).tobytes()
        _, ends, data = array.buffers()
        bounds: Any = np.frombuffer(ends, np.int32)[array.offset : array.offset + len(array) + 1]
        if data is not None:
            yield memoryview(data)[int(bounds[0]) : int(bounds[-1])].tobytes()
    else:
        yield array.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64).tobytes()


class JobDone(NamedTuple):
    """A partition that is complete under the name `staged`; `proof` is None if it was not requested."""

    topic: str
    partition: int
    staged: str
    built: Built
    proof: Proof | None = None
    inode: int | None = None
    """The staged directory, by which it is known when it gets its place."""


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """The planned partitions. `jobs` is None if only the rows show which partitions. `ids` are by topic."""

    files: tuple[InputFile, ...]
    jobs: tuple[Job, ...] | None
    ids: dict[str, TopicId] = field(default_factory=dict)
    keep_offsets: bool = False


@dataclass(frozen=True, slots=True)
class ImportResult:
    """The partitions that were made, and remarks on them.

    `completed` is about an earlier run that was cut off after its commit.
    """

    plan: ImportPlan | None = None
    done: tuple[JobDone, ...] = ()
    notes: tuple[ReadNote, ...] = ()
    completed: Completed = field(default_factory=Completed)

    @property
    def exit_code(self) -> ExitCode:
        """FAILURE if partitions of a committed run are lost."""
        return ExitCode.FAILURE if self.completed.lost else ExitCode.OK
