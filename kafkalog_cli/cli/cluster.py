"""`kafkalog cluster`: the state of a cluster at any point of its metadata log, and the differences of two points."""

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import Annotated, Any

from typer import Context

from kafkalog_cli.cli.completion import complete_topics
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.exit_codes import READ, exit_codes
from kafkalog_cli.cli.options import TIME_HELP, Format, LogDirPaths, MetadataOption, Now, selection_option
from kafkalog_cli.cli.run import Run
from kafkalog_cli.errors import ExitCode
from kafkalog_cli.log.settings.cluster_metadata import MetadataPoint
from kafkalog_cli.ops.cluster.cluster import ClusterDescription, ClusterState, LocalBroker, describe_cluster
from kafkalog_cli.ops.cluster.cluster_entries import ClusterPart, Entry, EntryChange, text_of
from kafkalog_cli.ops.option_values import is_date
from kafkalog_cli.output.human import NOTHING, Column, cell, iso_time, write_table
from kafkalog_cli.output.ndjson import JsonLines
from kafkalog_cli.output.stream import ResultStream, paint_of, printable

EXAMPLES = {
    "Print the state of a cluster": "kafkalog cluster /var/lib/kafka",
    "Print the partitions of a topic as of an hour ago": ("kafkalog cluster /var/lib/kafka --at -1h --topic orders"),
    "Print the changes since midnight": "kafkalog cluster /var/lib/kafka --since 2026-11-23",
}
EXIT_CODES = READ | exit_codes(ExitCode.UNSUPPORTED)

POINT_HELP = f"An integer is an offset: all records below it count. A time: {TIME_HELP}"


def cluster(  # noqa: PLR0913, PLR0917 options
    context: Context,
    paths: LogDirPaths,
    at: Annotated[str | None, selection_option("--at", metavar="POINT",
        help=f"Print the state at this point. {POINT_HELP}.")] = None,
    since: Annotated[str | None, selection_option("--since", metavar="POINT",
        help="Print only the differences from this point to the other.")] = None,
    part: Annotated[list[ClusterPart] | None, selection_option("--part", metavar="PART",
        help="Print only this part: brokers, controllers, features, topics, partitions, configs, acls, scram-users,"
        " quotas or tokens. May be repeated.")] = None,
    topic: Annotated[list[str] | None, selection_option("--topic", metavar="TOPIC", autocompletion=complete_topics,
        help="Of topics, partitions and settings, print only this topic's; may be repeated.")] = None,
    metadata: MetadataOption = None,
    now: Now = None,
    output: Format = "text",
) -> int:  # fmt: skip
    """Print brokers, topics, settings, ACLs of the metadata log.

    The state is read from __cluster_metadata-0 and its snapshots. It has brokers, controllers, features, topics,
    partitions with leaders and in-sync replicas, settings, ACLs, SCRAM users, quotas and delegation tokens. Secrets are
    not printed. Of several replicas of the metadata log, the furthest is taken.

    Without --at, partitions on disk that the cluster does not give to this broker or log directory are listed. Without
    a metadata log, as in ZooKeeper clusters, meta.properties and the checkpoints are printed. Nothing is locked or
    changed.
    """
    run = Run(context, output)
    run.show_reads()
    points = (_point(run.environment, at, now), _point(run.environment, since, now))
    description = describe_cluster(run.fs, paths, metadata, *points, topics=frozenset(topic or ()))
    parts = [each for each in ClusterPart if not part or each in part]
    run.codes += description.codes
    counts = {}
    if run.lines is not None:
        counts = write_objects(run.lines, description, parts)
    else:
        write_text(run.out, description, parts)
    return run.end(description.notes, **counts)


def _point(environment: Environment, text: str | None, now: str | None) -> MetadataPoint | None:
    """Return the point of an option. Raises UsageError."""
    if text is None:
        return None
    if text.isdecimal() and not is_date(text):
        return MetadataPoint(int(text))
    return MetadataPoint(None, environment.time_ms(text, now))


_TIMES = ("issued_ms", "expires_ms", "latest_ms")
_RANKS = {"incarnation_id": 9, "directories": 8, "partition_epoch": 7, "log_dirs": 7, "acl_id": 9, "last_known_elr": 6}
_RANKS |= {"adding_replicas": 6, "removing_replicas": 6, "recovering": 6, "elr": 3, "epoch": 4, "rack": 5}
_RANKS |= {"topic_id": 3, "leader_epoch": 2, "replication_factor": 1, "recovery_point": 5, "log_start": 4}
_OPTIONAL = frozenset({"adding_replicas", "removing_replicas", "recovering", "last_known_elr", "rack", "elr"})
"""Columns that no row may have a value for; such a column is left out."""


def write_text(out: ResultStream, description: ClusterDescription, parts: Collection[ClusterPart]) -> None:
    """Write the parts; with changes, only the changes. Parts without entries are left out."""
    for line in _heading(description):
        out.write(f"{paint_of(out).wrapped(printable(line), indent='  ')}\n")
    if description.changes is not None:
        changes = [change for change in description.changes if change.part in parts]
        out.write("\n" if changes else "\nno differences\n")
        for change in changes:
            out.write(printable(f"{change.part.value}: {change.name}: {change.change}") + "\n")
            for field in change.fields if change.change == "changed" else ():
                out.write(printable(f"  {field.field}: {field.before or NOTHING} -> {field.after or NOTHING}") + "\n")
    elif description.entries is not None:
        for part in parts:
            _write_part(out, part.value, [*description.entries[part].values()])
    _write_part(out, "partitions on disk", description.local_partitions)
    _write_part(out, "partitions on disk that the cluster does not give to their place", description.misplaced)


def _write_part(out: ResultStream, title: str, entries: Sequence[Entry | tuple[object, ...]]) -> None:
    if not entries:
        return
    columns = [
        Column(_title(name), partial(_value, name), _RANKS.get(name, 0), is_number=_is_number(name, entries))
        for name in entries[0]._fields  # type: ignore[union-attr]
        if name not in _OPTIONAL or any(_value(name, entry) is not None for entry in entries)
    ]
    out.write(f"\n{paint_of(out).heading(title)}\n")
    write_table(out, columns, entries)


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


def _heading(description: ClusterDescription) -> Iterator[str]:
    metadata = description.metadata
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
    for broker in description.brokers:
        node, cluster = cell(broker.node_id), cell(broker.cluster_id)
        yield f"{broker.path}: node {node} of cluster {cluster} ({_mode(broker, description)})"


def _mode(broker: LocalBroker, description: ClusterDescription) -> str:
    if broker.version:
        return "KRaft"
    # A broker that migrates to KRaft has a metadata log, and keeps the file of version 0 also after the migration.
    return "ZooKeeper" if description.metadata is None else "meta.properties of ZooKeeper"


def write_objects(lines: JsonLines, description: ClusterDescription, parts: Collection[ClusterPart]) -> dict[str, int]:
    """Write the objects of the parts, and return the counts of the summary; with changes, only the changes."""
    entries: list[Entry | EntryChange] = [change for change in description.changes or () if change.part in parts]
    if description.changes is None and description.entries is not None:
        entries = [entry for part in parts for entry in description.entries[part].values()]
    state = () if description.metadata is None else (ClusterState(description.metadata),)
    lines.results((*state, *description.brokers, *entries, *description.local_partitions, *description.misplaced))
    return {"entries": len(entries), "misplaced": len(description.misplaced)}
