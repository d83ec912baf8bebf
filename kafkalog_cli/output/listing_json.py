"""The JSON output of ls: objects for log directories, topics, partitions, segments and other files."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from kafkalog_cli.ops.listing.listing import PartitionListing
from kafkalog_cli.ops.listing.paths import Listing, LogDirListing
from kafkalog_cli.ops.listing.root import LogDirRoot
from kafkalog_cli.ops.listing.usage import TopicUsage, Usage
from kafkalog_cli.output.ndjson import JsonLines


class ListingJson:
    """Writes one object per row; a log directory's object comes after its partitions."""

    def __init__(self, lines: JsonLines, *, segments: bool) -> None:
        self._lines = lines
        self._segments = segments

    def listing(self, listing: Listing) -> None:
        """Write everything found under one path."""
        for one in (*listing.files, *(() if self._segments else listing.partitions), *listing.segments):
            self._lines.result(one)
        if listing.log_dir is not None:
            self._lines.result(LogDirListing(listing.log_dir, listing.partitions))

    def end(self) -> None:
        """Do nothing: every object is already written."""


class UsageJson:
    """Writes an object per partition or topic, then one per log directory."""

    def __init__(self, lines: JsonLines) -> None:
        self._lines = lines

    def partitions(self, rows: Sequence[tuple[PartitionListing, Usage]]) -> None:
        """Write the objects of partitions, with what fills the disk."""
        for found, usage in rows:
            self._lines.result(replace(found, usage=usage))

    def topics(self, rows: Sequence[TopicUsage]) -> None:
        """Write the objects of topics."""
        for row in rows:
            self._lines.result(row)

    def end(self, roots: Mapping[str, tuple[LogDirRoot, list[PartitionListing]]], sums: Mapping[str, Usage]) -> None:
        """Write the objects of log directories."""
        for path, (root, partitions) in roots.items():
            self._lines.result(LogDirListing(root, partitions, sums.get(path, Usage())))
