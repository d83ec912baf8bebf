"""The tables of `kafkalog sql` besides the topics: their columns, and how they are read."""

from collections.abc import Callable, Iterable, Iterator
from enum import Enum, unique
from itertools import islice
from typing import Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.errors import DamagedLog
from kafkalog_cli.format.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from kafkalog_cli.format.internal_topics.records import CLUSTER_METADATA
from kafkalog_cli.log.partition import open_partition
from kafkalog_cli.log.settings.cluster_metadata import ClusterMetadata
from kafkalog_cli.log.settings.metadata_image import BrokerState
from kafkalog_cli.ops.choices import Mode
from kafkalog_cli.ops.cluster.coordinators import HeldMemory
from kafkalog_cli.ops.cluster.tables import cluster
from kafkalog_cli.ops.cluster.tables.batches import BatchRow, SegmentRow, batches, segments
from kafkalog_cli.ops.cluster.tables.coordinator_log import (
    CommittedOffset,
    CoordinatorEntry,
    OffsetCommit,
    OnDamage,
    Transaction,
    committed_offsets,
    coordinator_entries,
    offset_commits,
    transactions,
)
from kafkalog_cli.ops.cluster.tables.groups import Group, GroupMember, group_members, groups
from kafkalog_cli.ops.scans.schema import MOST_MS, SourceColumn, arrow_schema
from kafkalog_cli.results import SqlType, not_none, split

MOST_ROWS = 1 << 13

Rows = Callable[[Filesystem, list[str], OnDamage], Iterator[Any]]
"""A function that returns rows of partition directories: NamedTuples with the table's columns, times in epoch ms."""


@unique
class Task(Enum):
    """How many partition directories one task reads."""

    PARTITION = 1
    MANY_PARTITIONS = 64
    EVERYTHING = 0


class Table(NamedTuple):
    """A table: `row` is the class of its rows, with the types of its columns.

    It is read from the partitions of `topic`; None: of every topic.
    """

    name: str
    row: Any
    topic: str | None
    task: Task
    rows: Rows

    @property
    def columns(self) -> tuple[SourceColumn, ...]:
        """The columns."""
        return _columns(self.row)

    def tasks(self, paths: list[str]) -> list[list[str]]:
        """Return the directories that each task reads."""
        many = self.task.value or len(paths) or 1
        return [paths[at : at + many] for at in range(0, len(paths), many)]

    def batches(self, fs: Filesystem, paths: list[str], mode: Mode) -> Iterator[Any]:
        """Iterate over the RecordBatches of a task. In every mode but failfast, unreadable data is left out."""

        def raise_it(damage: DamagedLog) -> None:
            if mode is Mode.FAILFAST:
                raise damage

        schema, waiting = arrow_schema(self.columns), iter(self.rows(fs, paths, raise_it))
        import pyarrow as pa

        while part := list(islice(waiting, MOST_ROWS)):
            columns = zip(*part, strict=True)
            arrays = [_array(values, field.type) for values, field in zip(columns, schema, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(values: tuple[Any, ...], kind: Any) -> Any:
    import pyarrow as pa

    if pa.types.is_timestamp(kind):
        return pa.array([None if one is None or abs(one) > MOST_MS else one * 1000 for one in values], kind)
    if pa.types.is_list(kind):
        return pa.array([_plain(one) for one in values], kind)
    return pa.array(values, kind)


def _plain(value: Any) -> Any:
    """Convert structs to the dicts that pyarrow takes."""
    if hasattr(value, "_asdict"):
        return {name: _plain(part) for name, part in value._asdict().items()}
    return [_plain(part) for part in value] if isinstance(value, tuple) else value


_PLAIN = {int: "long", str: "string", bool: "boolean"}


def _type(hint: Any) -> Any:
    """Return the type of a field in Spark's JSON."""
    (kind,) = not_none(hint)
    kind, notes = split(kind)
    if get_origin(kind) is tuple:
        return {"type": "array", "elementType": _type(get_args(kind)[0]), "containsNull": True}
    if hasattr(kind, "_fields"):
        fields = [
            {"name": column.name, "type": column.spark, "nullable": True, "metadata": {}} for column in _columns(kind)
        ]
        return {"type": "struct", "fields": fields}
    return next((note.name for note in notes if isinstance(note, SqlType)), _PLAIN[kind])


def _columns(row: Any) -> tuple[SourceColumn, ...]:
    return tuple(SourceColumn(name, _type(hint)) for name, hint in get_type_hints(row, include_extras=True).items())


_Row = TypeVar("_Row")


def _of_coordinator(make: Callable[[Iterable[CoordinatorEntry], int], Iterable[_Row]], *, is_kept: bool = True) -> Rows:
    """Return the rows of partitions. `is_kept`: `make` keeps the last record of each key, so its memory is limited."""

    def rows(fs: Filesystem, paths: list[str], on_damage: OnDamage) -> Iterator[_Row]:
        for path in paths:
            partition = open_partition(fs, path)
            entries = coordinator_entries(fs, partition, on_damage)
            yield from make(HeldMemory().counted(entries, path) if is_kept else entries, partition.number)

    return rows


def _of_cluster(make: Callable[[ClusterMetadata], Iterator[_Row]]) -> Rows:
    def rows(fs: Filesystem, paths: list[str], on_damage: OnDamage) -> Iterator[_Row]:
        metadata = cluster.furthest_metadata(fs, paths, on_damage)
        return iter(()) if metadata is None else make(metadata)

    return rows


def _batches(fs: Filesystem, paths: list[str], on_damage: OnDamage) -> Iterator[BatchRow]:
    return (row for path in paths for row in batches(fs, open_partition(fs, path), on_damage))


def _segments(fs: Filesystem, paths: list[str], _: OnDamage) -> Iterator[SegmentRow]:
    return (row for path in paths for row in segments(fs, open_partition(fs, path)))


TABLES = {
    one.name: one
    for one in (
        Table(
            "committed_offsets", CommittedOffset, CONSUMER_OFFSETS, Task.PARTITION, _of_coordinator(committed_offsets)
        ),
        Table(
            "offset_commits", OffsetCommit, CONSUMER_OFFSETS, Task.PARTITION,
            _of_coordinator(offset_commits, is_kept=False),
        ),
        Table("groups", Group, CONSUMER_OFFSETS, Task.PARTITION, _of_coordinator(groups)),
        Table("group_members", GroupMember, CONSUMER_OFFSETS, Task.PARTITION, _of_coordinator(group_members)),
        Table("transactions", Transaction, TRANSACTION_STATE, Task.PARTITION, _of_coordinator(transactions)),
        Table("topics", cluster.Topic, CLUSTER_METADATA, Task.EVERYTHING, _of_cluster(cluster.topics)),
        Table(
            "partitions", cluster.TopicPartitionState, CLUSTER_METADATA, Task.EVERYTHING,
            _of_cluster(cluster.partitions),
        ),
        Table("configs", cluster.ConfigSetting, CLUSTER_METADATA, Task.EVERYTHING, _of_cluster(cluster.configs)),
        Table("brokers", BrokerState, CLUSTER_METADATA, Task.EVERYTHING, _of_cluster(cluster.brokers)),
        Table("features", cluster.Feature, CLUSTER_METADATA, Task.EVERYTHING, _of_cluster(cluster.features)),
        Table("batches", BatchRow, None, Task.PARTITION, _batches),
        Table("segments", SegmentRow, None, Task.MANY_PARTITIONS, _segments),
    )
}  # fmt: skip
"""The tables by name."""
