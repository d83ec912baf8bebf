"""The JSON of `ls --topics`, `--sort` and `--freeable`: raw bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafkalog_cli.ops.listing.listing import PartitionListing
from kafkalog_cli.ops.listing.root import LogDirRoot
from kafkalog_cli.ops.listing.usage import Freeable, TopicUsage, Usage
from kafkalog_cli.output.listing_json import LOGDIR, PARTITION, log_dir_object, partition_object
from kafkalog_cli.output.ndjson import JsonLines, json_path

TOPIC = "kafkalog.topic/1"


class UsageJson:
    """Writes an object per partition or topic, then one per log directory."""

    def __init__(self, lines: JsonLines) -> None:
        self._lines = lines

    def partitions(self, rows: Sequence[tuple[PartitionListing, Usage]]) -> None:
        """Write the objects of partitions, with what fills the disk."""
        for found, usage in rows:
            self._lines.object(PARTITION, "partition", {**partition_object(found), **_added(usage)})

    def topics(self, rows: Sequence[TopicUsage]) -> None:
        """Write the objects of topics."""
        for row in rows:
            self._lines.object(TOPIC, "topic", topic_object(row))

    def end(self, roots: Mapping[str, tuple[LogDirRoot, list[PartitionListing]]], sums: Mapping[str, Usage]) -> None:
        """Write the objects of log directories."""
        for path, (root, partitions) in roots.items():
            fields = {**log_dir_object(root, partitions), **_added(sums.get(path, Usage()))}
            self._lines.object(LOGDIR, "logdir", fields)


def topic_object(row: TopicUsage) -> dict[str, object]:
    """Return the fields of `kafkalog.topic/1`."""
    usage = row.usage
    return {
        **json_path(row.topic, "topic"),
        "log_dirs": [json_path(path) for path in row.log_dirs],
        "partitions": usage.partitions,
        "segments": usage.segments,
        "bytes": {**usage.sizes.by_name(), "total": usage.sizes.total},
        "allocated_bytes": usage.allocated_bytes,
        **_added(usage),
    }


def _added(usage: Usage) -> dict[str, object]:
    freeable = usage.freeable
    return {
        "run_bytes": usage.run_bytes,
        "run_allocated_bytes": usage.run_allocated_bytes,
        "freeable": None if freeable is None else freeable_object(freeable),
    }


def freeable_object(freeable: Freeable) -> dict[str, object]:
    """Return what could be freed; `bytes` is null if nothing of it is known."""
    known = freeable.known_bytes or not freeable.unknown_partitions
    return {
        "bytes": freeable.known_bytes if known else None,
        "due_bytes": freeable.due_bytes,
        "retention_bytes": freeable.retention_bytes,
        "compaction_bytes": freeable.compaction_bytes,
        "unknown_partitions": freeable.unknown_partitions,
        "unknown_because": list(freeable.unknown_because),
    }
