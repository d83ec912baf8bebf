"""The tables of `kafkalog sql` besides the topics: their columns, and how they are read."""

import re
from collections.abc import Callable, Iterable, Iterator
from enum import Enum, unique
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.errors import DamagedLog
from kafkalog_cli.format.internal_topics.records import CLUSTER_METADATA, CONSUMER_OFFSETS, TRANSACTION_STATE
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
    """A table: `ddl` has its columns in the syntax of SQL, `row` is the class of its rows.

    It is read from the partitions of `topic`; None: of every topic.
    """

    name: str
    row: Any
    ddl: str
    topic: str | None
    task: Task
    rows: Rows

    @property
    def columns(self) -> tuple[SourceColumn, ...]:
        """The columns."""
        return tuple(SourceColumn(name, kind) for name, kind in _fields(self.ddl))

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


_NAMES = {"int": "integer", "bigint": "long"}
_FIELD = re.compile(r"(\w+):? ((?:[^,<>]|<(?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*>)+)(?:, )?")
"""A column or field and its type, in which `<` nest three deep."""


def _fields(ddl: str) -> Iterator[tuple[str, Any]]:
    """Iterate over columns or fields with their types in Spark's JSON."""
    return ((match[1], _type(match[2])) for match in _FIELD.finditer(ddl))


def _type(ddl: str) -> Any:
    kind, _, inner = ddl.removesuffix(">").partition("<")
    if kind == "array":
        return {"type": kind, "elementType": _type(inner), "containsNull": True}
    if kind == "struct":
        found = [{"name": name, "type": of, "nullable": True, "metadata": {}} for name, of in _fields(inner)]
        return {"type": kind, "fields": found}
    return _NAMES.get(kind, kind)


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


_WHERE = "log_partition int, log_offset bigint"
_COMMIT = (
    "group_id string, topic string, partition int, offset bigint, leader_epoch int, metadata string,"
    " commit_timestamp timestamp, expire_timestamp timestamp, topic_id string"
)

TABLES = {
    one.name: one
    for one in (
        Table(
            "committed_offsets", CommittedOffset, f"{_COMMIT}, {_WHERE}", CONSUMER_OFFSETS, Task.PARTITION,
            _of_coordinator(committed_offsets),
        ),
        Table(
            "offset_commits", OffsetCommit,
            f"{_COMMIT}, is_tombstone boolean, producer_id bigint, timestamp timestamp, {_WHERE}", CONSUMER_OFFSETS,
            Task.PARTITION, _of_coordinator(offset_commits, is_kept=False),
        ),
        Table(
            "groups", Group,
            "group_id string, group_type string, epoch int, protocol_type string, protocol string, leader string,"
            f" members int, state_timestamp timestamp, {_WHERE}", CONSUMER_OFFSETS, Task.PARTITION,
            _of_coordinator(groups),
        ),
        Table(
            "group_members", GroupMember,
            "group_id string, group_type string, member_id string, group_instance_id string, rack_id string,"
            " client_id string, client_host string, session_timeout_ms int, rebalance_timeout_ms int,"
            " member_epoch int, member_state string, subscribed_topics array<string>, subscribed_topic_regex string,"
            f" assignment array<struct<topic: string, topic_id: string, partitions: array<int>>>, {_WHERE}",
            CONSUMER_OFFSETS, Task.PARTITION, _of_coordinator(group_members),
        ),
        Table(
            "transactions", Transaction,
            "transactional_id string, producer_id bigint, producer_epoch int, state string, timeout_ms int,"
            " partitions array<struct<topic: string, partitions: array<int>>>, start_timestamp timestamp,"
            f" last_update_timestamp timestamp, {_WHERE}", TRANSACTION_STATE, Task.PARTITION,
            _of_coordinator(transactions),
        ),
        Table(
            "topics", cluster.Topic, "topic string, topic_id string, partitions int, replication_factor int",
            CLUSTER_METADATA, Task.EVERYTHING, _of_cluster(cluster.topics),
        ),
        Table(
            "partitions", cluster.TopicPartitionState,
            "topic string, topic_id string, partition int, leader int, leader_epoch int, partition_epoch int,"
            " replicas array<int>, isr array<int>, adding_replicas array<int>, removing_replicas array<int>,"
            " directories array<string>, is_recovering boolean", CLUSTER_METADATA, Task.EVERYTHING,
            _of_cluster(cluster.partitions),
        ),
        Table(
            "configs", cluster.ConfigSetting, "resource_type string, resource_name string, name string, value string",
            CLUSTER_METADATA, Task.EVERYTHING, _of_cluster(cluster.configs),
        ),
        Table(
            "brokers", BrokerState,
            "broker_id int, broker_epoch bigint, incarnation_id string, is_fenced boolean,"
            " in_controlled_shutdown boolean, log_dirs array<string>, rack string", CLUSTER_METADATA,
            Task.EVERYTHING, _of_cluster(cluster.brokers),
        ),
        Table(
            "features", cluster.Feature, "name string, level int", CLUSTER_METADATA, Task.EVERYTHING,
            _of_cluster(cluster.features),
        ),
        Table(
            "batches", BatchRow,
            "topic string, partition int, segment string, position bigint, size_bytes int, base_offset bigint,"
            " last_offset bigint, records int, magic int, codec string, timestamp_type string,"
            " max_timestamp timestamp, leader_epoch int, producer_id bigint, producer_epoch int, base_sequence int,"
            " transactional boolean, control boolean, delete_horizon timestamp, crc bigint, crc_valid boolean,"
            " log_dir string", None, Task.PARTITION, _batches,
        ),
        Table(
            "segments", SegmentRow,
            "topic string, partition int, segment string, base_offset bigint, first_offset bigint,"
            " next_offset bigint, size_bytes bigint, offset_index_bytes bigint, time_index_bytes bigint,"
            " txn_index_bytes bigint, first_timestamp timestamp, max_timestamp timestamp, format string,"
            " is_active boolean, modified timestamp, problems int, log_dir string", None, Task.MANY_PARTITIONS,
            _segments,
        ),
    )
}  # fmt: skip
"""The tables by name."""
