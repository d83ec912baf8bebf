"""The text output of cluster: a line about the state, a table per part, and the differences of two points."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from kafkalog_cli.ops.cluster.describe import ClusterDescription
from kafkalog_cli.ops.cluster.entries import Entry, text_of
from kafkalog_cli.ops.cluster.part import ClusterPart
from kafkalog_cli.output.human import NOTHING, TextColumn, TextTable, cell, iso_time, write_table
from kafkalog_cli.output.paint import paint_of
from kafkalog_cli.output.stream import ResultStream, printable

_TIMES = ("issued_ms", "expires_ms", "latest_ms")
_RANKS = {"incarnation_id": 9, "directories": 8, "partition_epoch": 7, "log_dirs": 7, "acl_id": 9, "last_known_elr": 6}
_RANKS |= {"adding_replicas": 6, "removing_replicas": 6, "recovering": 6, "elr": 3, "epoch": 4, "rack": 5}
_RANKS |= {"topic_id": 3, "leader_epoch": 2, "replication_factor": 1}
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
            TextColumn(_title(names[at]), isinstance(entries[0][at], int | float), _RANKS.get(names[at], 0))
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
        producer = None if metadata.registry is None else metadata.registry.next_producer_id
        if producer is not None:
            yield f"next producer id: {producer}"
    for broker in found.brokers:
        mode = "ZooKeeper" if broker.version == 0 else "KRaft"
        yield f"{broker.path}: node {cell(broker.node_id)} of cluster {cell(broker.cluster_id)} ({mode})"
