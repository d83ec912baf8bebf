"""The text and JSON output of cluster: the place of the state, its entries by part, the differences of two points."""

from collections.abc import Collection, Iterator, Sequence
from typing import Annotated, Any, TypedDict

from kafkalog_cli.ops.cluster import ClusterDescription, LocalBroker
from kafkalog_cli.ops.cluster_entries import (
    AclEntry,
    BrokerEntry,
    ClusterPart,
    ConfigEntry,
    ControllerEntry,
    Entry,
    PartitionEntry,
    QuotaEntry,
    ScramUserEntry,
    text_of,
)
from kafkalog_cli.ops.tables.cluster import Feature
from kafkalog_cli.output.human import NOTHING, TextColumn, TextTable, cell, iso_time, write_table
from kafkalog_cli.output.ndjson import Count, From, JsonLines, ObjectKind, PathText, keywords
from kafkalog_cli.output.stream import ResultStream, paint_of, printable

_TIMES = ("issued_ms", "expires_ms", "latest_ms")
_RANKS = {"incarnation_id": 9, "directories": 8, "partition_epoch": 7, "log_dirs": 7, "acl_id": 9, "last_known_elr": 6}
_RANKS |= {"adding_replicas": 6, "removing_replicas": 6, "recovering": 6, "elr": 3, "epoch": 4, "rack": 5}
_RANKS |= {"topic_id": 3, "leader_epoch": 2, "replication_factor": 1, "recovery_point": 5, "log_start": 4}
_OPTIONAL = frozenset({"adding_replicas", "removing_replicas", "recovering", "last_known_elr", "rack", "elr"})
"""Columns that no row may have a value for; such a column is left out."""


class ClusterText:
    """Writes a description."""

    def __init__(self, out: ResultStream) -> None:
        self._out = out
        self._paint = paint_of(out)

    def write(self, found: ClusterDescription, parts: Collection[ClusterPart]) -> None:
        """Write the parts; with changes, only the changes. Parts without entries are left out."""
        for line in _heading(found):
            self._line(self._paint.wrapped(printable(line), indent="  "))
        if found.changes is not None:
            self._changes(found, parts)
        elif found.entries is not None:
            for part in parts:
                self._table(part.value, [*found.entries[part].values()])
        self._table("partitions on disk", found.local_partitions)
        self._table("partitions on disk that the cluster does not give to their place", found.misplaced)

    def _line(self, text: str) -> None:
        self._out.write(f"{text}\n")

    def _changes(self, found: ClusterDescription, parts: Collection[ClusterPart]) -> None:
        changes = [one for one in found.changes or () if one.part in parts]
        self._line("")
        if not changes:
            self._line("no differences")
        for change in changes:
            self._line(printable(f"{change.part.value}: {change.name}: {change.change}"))
            for one in change.fields if change.change == "changed" else ():
                self._line(printable(f"  {one.field}: {one.before or NOTHING} -> {one.after or NOTHING}"))

    def _table(self, title: str, entries: Sequence[Entry | tuple[object, ...]]) -> None:
        if not entries:
            return
        names = entries[0]._fields  # type: ignore[union-attr]
        rows = [[_cell(name, value) for name, value in zip(names, entry, strict=True)] for entry in entries]
        kept = [at for at, name in enumerate(names) if name not in _OPTIONAL or any(row[at] != NOTHING for row in rows)]
        columns = [
            TextColumn(
                _title(names[at]), any(isinstance(one[at], int | float) for one in entries), _RANKS.get(names[at], 0)
            )
            for at in kept
        ]
        self._line("")
        self._line(self._paint.heading(title))
        write_table(self._out, TextTable(columns, [[row[at] for at in kept] for row in rows]))


def _title(name: str) -> str:
    return name.removesuffix("_ms").replace("_", "-").upper()


def _cell(name: str, value: object) -> str:
    if name in _TIMES and isinstance(value, int):
        return iso_time(value)
    if name == "value" and value is None:
        return "(sensitive)"
    if value is False:
        return NOTHING if name in _OPTIONAL else "no"
    return "yes" if value is True else cell(text_of(value) or None)


def _heading(found: ClusterDescription) -> Iterator[str]:
    metadata = found.metadata
    if metadata is None:
        yield "no metadata log: this is what the disk itself shows"
    else:
        snapshot = "" if metadata.snapshot is None else f", read from the snapshot at {metadata.snapshot.end_offset}"
        time = metadata.last_timestamp_ms
        at = "" if time is None or time < 0 else f", {iso_time(time)}"
        yield f"{metadata.path}: the state at offset {metadata.end_offset}{at}{snapshot}"
        leader = "unknown" if metadata.leader is None else f"{metadata.leader.leader_id}, epoch {metadata.leader.epoch}"
        voters = ", ".join(map(str, metadata.voters)) or "unknown"
        yield f"quorum: leader {leader}; voters {voters}"
        producer = metadata.registry.next_producer_id
        if producer is not None:
            yield f"next producer id: {producer}"
    for broker in found.brokers:
        node, cluster = cell(broker.node_id), cell(broker.cluster_id)
        yield f"{broker.path}: node {node} of cluster {cluster} ({_mode(broker, found)})"


def _mode(broker: LocalBroker, found: ClusterDescription) -> str:
    if broker.version:
        return "KRaft"
    # A broker that migrates to KRaft has a metadata log, and keeps the file of version 0 also after the migration.
    return "ZooKeeper" if found.metadata is None else "meta.properties of ZooKeeper"


class ClusterObject(TypedDict):
    """The state of a cluster at a point of its metadata log."""

    path: Annotated[PathText, "the metadata log"]
    end_offset: Annotated[int, "the state has all records below this offset"]
    last_timestamp_ms: Annotated[int | None, "of the last batch in the state"]
    snapshot_end_offset: Annotated[
        int | None, From("snapshot.end_offset"), "the snapshot from which the state was read; null: the log only"
    ]
    leader: Annotated[int | None, From("leader.leader_id"), "of the quorum, from the last leader change in the log"]
    leader_epoch: Annotated[int | None, From("leader.epoch")]
    voters: Annotated[list[int], "the controllers that vote"]
    next_producer_id: Annotated[int | None, From("registry.next_producer_id")]
    complete: Annotated[bool, From("is_complete"), "false: damage hides later records"]


class ClusterTopicObject(TypedDict):
    """A topic."""

    topic: str
    topic_id: str
    partitions: Count
    replication_factor: Annotated[Count, "the most replicas of a partition"]


class ClusterTokenObject(TypedDict):
    """A delegation token, without its secret."""

    token_id: str
    owner: str
    requester: str
    renewers: list[str]
    issued_ms: int
    expires_ms: int
    latest_ms: Annotated[int, "the time up to which it can be renewed"]


class FieldChangeObject(TypedDict):
    """A field with another value; both values are texts."""

    field: str
    before: str
    after: str


class ClusterChangeObject(TypedDict):
    """An entry that differs between two points."""

    part: ClusterPart
    name: str
    change: Annotated[str, keywords(enum=("added", "removed", "changed"))]
    fields: list[FieldChangeObject]


class MisplacedPartitionObject(TypedDict):
    """A partition on disk that the cluster does not give to this broker or log directory."""

    path: PathText
    topic: str
    partition: int
    reason: str


class LocalBrokerObject(TypedDict):
    """The identity of a log directory, from its meta.properties."""

    path: PathText
    version: Annotated[int, "0: a broker that was started with ZooKeeper"]
    cluster_id: str | None
    node_id: int | None
    directory_id: str | None


class LocalPartitionObject(TypedDict):
    """A partition on disk, with the lines of the checkpoints; listed where there is no metadata log."""

    topic: str
    partition: int
    topic_id: str | None
    log_start: int | None
    recovery_point: int | None
    high_watermark: int | None
    path: PathText


CLUSTER = ObjectKind("kafkalog.cluster/1", ClusterObject)
CLUSTER_BROKER: ObjectKind[Any] = ObjectKind("kafkalog.cluster-broker/1", BrokerEntry)
CLUSTER_CONTROLLER: ObjectKind[Any] = ObjectKind("kafkalog.cluster-controller/1", ControllerEntry)
CLUSTER_FEATURE: ObjectKind[Any] = ObjectKind("kafkalog.cluster-feature/1", Feature)
CLUSTER_TOPIC = ObjectKind("kafkalog.cluster-topic/1", ClusterTopicObject)
CLUSTER_PARTITION: ObjectKind[Any] = ObjectKind("kafkalog.cluster-partition/1", PartitionEntry)
CLUSTER_CONFIG: ObjectKind[Any] = ObjectKind("kafkalog.cluster-config/1", ConfigEntry)
CLUSTER_ACL: ObjectKind[Any] = ObjectKind("kafkalog.cluster-acl/1", AclEntry)
CLUSTER_SCRAM_USER: ObjectKind[Any] = ObjectKind("kafkalog.cluster-scram-user/1", ScramUserEntry)
CLUSTER_QUOTA: ObjectKind[Any] = ObjectKind("kafkalog.cluster-quota/1", QuotaEntry)
CLUSTER_TOKEN = ObjectKind("kafkalog.cluster-token/1", ClusterTokenObject)
CLUSTER_CHANGE = ObjectKind("kafkalog.cluster-change/1", ClusterChangeObject)
MISPLACED_PARTITION = ObjectKind("kafkalog.misplaced-partition/1", MisplacedPartitionObject)
LOCAL_BROKER = ObjectKind("kafkalog.local-broker/1", LocalBrokerObject)
LOCAL_PARTITION = ObjectKind("kafkalog.local-partition/1", LocalPartitionObject)

_KINDS: dict[ClusterPart, ObjectKind[Any]] = {
    ClusterPart.BROKERS: CLUSTER_BROKER,
    ClusterPart.CONTROLLERS: CLUSTER_CONTROLLER,
    ClusterPart.FEATURES: CLUSTER_FEATURE,
    ClusterPart.TOPICS: CLUSTER_TOPIC,
    ClusterPart.PARTITIONS: CLUSTER_PARTITION,
    ClusterPart.CONFIGS: CLUSTER_CONFIG,
    ClusterPart.ACLS: CLUSTER_ACL,
    ClusterPart.SCRAM_USERS: CLUSTER_SCRAM_USER,
    ClusterPart.QUOTAS: CLUSTER_QUOTA,
    ClusterPart.TOKENS: CLUSTER_TOKEN,
}


def write_objects(lines: JsonLines, found: ClusterDescription, parts: Collection[ClusterPart]) -> dict[str, int]:
    """Write the objects of the parts, and return the counts of the summary; with changes, only the changes."""
    if found.metadata is not None:
        lines.record(CLUSTER, found.metadata)
    for broker in found.brokers:
        lines.record(LOCAL_BROKER, broker)
    entries = _write_entries(lines, found, parts)
    for local in found.local_partitions:
        lines.record(LOCAL_PARTITION, local)
    for one in found.misplaced:
        lines.record(MISPLACED_PARTITION, one)
    return {"entries": entries, "misplaced": len(found.misplaced)}


def _write_entries(lines: JsonLines, found: ClusterDescription, parts: Collection[ClusterPart]) -> int:
    """Write the entries or the changes; return their number."""
    if found.changes is not None:
        changes = [change for change in found.changes if change.part in parts]
        for change in changes:
            lines.record(CLUSTER_CHANGE, change)
        return len(changes)
    count = 0
    for part in parts if found.entries is not None else ():
        assert found.entries is not None
        for entry in found.entries[part].values():
            count += 1
            lines.record(_KINDS[part], entry)
    return count
