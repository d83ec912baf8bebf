"""The text and JSON output of cluster: the place of the state, its entries by part, the differences of two points."""

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import Any

from kafkalog_cli.ops.cluster import ClusterDescription, ClusterState, LocalBroker
from kafkalog_cli.ops.cluster_entries import ClusterPart, Entry, EntryChange, text_of
from kafkalog_cli.output.human import NOTHING, Column, cell, iso_time, write_table
from kafkalog_cli.output.ndjson import JsonLines
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
            changes = [one for one in found.changes or () if one.part in parts]
            self._line("")
            if not changes:
                self._line("no differences")
            for change in changes:
                self._line(printable(f"{change.part.value}: {change.name}: {change.change}"))
                for one in change.fields if change.change == "changed" else ():
                    self._line(printable(f"  {one.field}: {one.before or NOTHING} -> {one.after or NOTHING}"))
        elif found.entries is not None:
            for part in parts:
                self._table(part.value, [*found.entries[part].values()])
        self._table("partitions on disk", found.local_partitions)
        self._table("partitions on disk that the cluster does not give to their place", found.misplaced)

    def _line(self, text: str) -> None:
        self._out.write(f"{text}\n")

    def _table(self, title: str, entries: Sequence[Entry | tuple[object, ...]]) -> None:
        if not entries:
            return
        columns = [
            Column(_title(name), partial(_value, name), _RANKS.get(name, 0), is_number=_is_number(name, entries))
            for name in entries[0]._fields  # type: ignore[union-attr]
            if name not in _OPTIONAL or any(_value(name, entry) is not None for entry in entries)
        ]
        self._line("")
        self._line(self._paint.heading(title))
        write_table(self._out, columns, entries)


def _is_number(name: str, entries: Sequence[Any]) -> bool:
    return any(isinstance(getattr(entry, name), int | float) for entry in entries)


def _title(name: str) -> str:
    return name.removesuffix("_ms").replace("_", "-").upper()


def _value(name: str, entry: Any) -> str | None:
    value = getattr(entry, name)
    if name in _TIMES and isinstance(value, int):
        return iso_time(value)
    if name == "value" and value is None:
        return "(sensitive)"
    if value is False:
        return None if name in _OPTIONAL else "no"
    return "yes" if value is True else text_of(value) or None


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


def write_objects(lines: JsonLines, found: ClusterDescription, parts: Collection[ClusterPart]) -> dict[str, int]:
    """Write the objects of the parts, and return the counts of the summary; with changes, only the changes."""
    entries: list[Entry | EntryChange] = [change for change in found.changes or () if change.part in parts]
    if found.changes is None and found.entries is not None:
        entries = [entry for part in parts for entry in found.entries[part].values()]
    state = () if found.metadata is None else (ClusterState(found.metadata),)
    lines.results((*state, *found.brokers, *entries, *found.local_partitions, *found.misplaced))
    return {"entries": len(entries), "misplaced": len(found.misplaced)}
