"""`kafkalog ls --topics`, `--sort` and `--freeable`: what fills the disk, after all paths were listed."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalog_cli.errors import ExitCode, KafkalogError, UsageError
from kafkalog_cli.ops.listing.usage import SortKey, Usage, by_log_dir, by_topic, in_order, usage_of

if TYPE_CHECKING:
    from kafkalog_cli.cli.environment import Environment
    from kafkalog_cli.ops.listing.listing import PartitionListing
    from kafkalog_cli.ops.listing.paths import Listing
    from kafkalog_cli.ops.listing.root import LogDirRoot
    from kafkalog_cli.ops.listing.usage import Freeable
    from kafkalog_cli.ops.session.options import SessionOptions
    from kafkalog_cli.output.ndjson import JsonLines
    from kafkalog_cli.output.stream import ResultStream


@dataclass(frozen=True, slots=True)
class UsageOptions:
    """`planning` are the options under which retention and compaction are planned, None if nothing is planned."""

    topics: bool
    sort: SortKey
    planning: SessionOptions | None
    paths: tuple[str, ...]


class UsageRun:
    """Keeps all listings, and prints what fills the disk when the last path was listed."""

    def __init__(
        self,
        environment: Environment,
        options: UsageOptions,
        out: ResultStream,
        lines: JsonLines | None,
        fail: Callable[[KafkalogError], None],
    ) -> None:
        self._environment = environment
        self._options = options
        self._out = out
        self._lines = lines
        self._fail = fail
        self._found: dict[str, PartitionListing] = {}
        self._roots: dict[str, tuple[LogDirRoot, list[PartitionListing]]] = {}
        self._total = Usage()

    def listing(self, listing: Listing) -> None:
        """Add everything found under one path. A partition that was found before counts once."""
        if listing.files or listing.segments:
            raise UsageError(reason=f"{listing.path} is a file: --topics, --sort and --freeable are about partitions")
        if listing.log_dir is not None:
            self._roots.setdefault(listing.log_dir.path, (listing.log_dir, listing.partitions))
        for found in listing.partitions:
            self._found.setdefault(os.path.realpath(found.partition.path), found)

    def end(self) -> ExitCode:
        """Print everything. Returns INTERRUPTED if not all partitions were planned. Raises as `Session.settings`."""
        freeable, code = self._freeable()
        rows = []
        for found in self._found.values():
            try:
                usage = usage_of(self._environment.fs, found, freeable.get(found.partition.path))
            except KafkalogError as error:
                self._fail(error)
                continue
            rows.append((found, usage))
        if rows or self._roots:
            self._print(rows)
        return ExitCode.INTERRUPTED if code is ExitCode.INTERRUPTED else ExitCode.OK

    @property
    def counts(self) -> dict[str, int]:
        """The sums for the last line of the JSON output."""
        total, freeable = self._total, self._total.freeable
        counts = {
            "allocated_bytes": total.allocated_bytes,
            "run_bytes": total.run_bytes,
            "run_allocated_bytes": total.run_allocated_bytes,
        }
        if freeable is None:
            return counts
        return counts | {
            "freeable_bytes": freeable.known_bytes,
            "freeable_unknown_partitions": freeable.unknown_partitions,
        }

    def _freeable(self) -> tuple[dict[str, Freeable], ExitCode]:
        if self._options.planning is None or not self._found:
            return {}, ExitCode.OK
        from kafkalog_cli.cli.groups import Printing
        from kafkalog_cli.cli.options import OutputFormat
        from kafkalog_cli.cli.verbs import begin
        from kafkalog_cli.ops.listing.freeable import FREEABLE, freeable_of
        from kafkalog_cli.output.listing_records import PARTITION
        from kafkalog_cli.output.views import View

        output = OutputFormat.TEXT if self._lines is None else OutputFormat.JSON
        # The session only reports progress and notes: its results come back as values.
        view: View[object] = View(PARTITION, lambda _: {}, lambda _: ())
        session = begin(self._environment, FREEABLE, view, self._options.planning, Printing(output=output)).session
        session.shared.named_paths = frozenset(path.rstrip("/") for path in self._options.paths)
        return freeable_of(session, [found.partition for found in self._found.values()])

    def _print(self, rows: list[tuple[PartitionListing, Usage]]) -> None:
        options = self._options
        log_dirs = by_log_dir(rows)
        topics = by_topic(rows, options.sort)
        self._total = sum(log_dirs.values(), Usage())
        if self._lines is not None:
            from kafkalog_cli.output.listing_json import UsageJson

            json = UsageJson(self._lines)
            json.topics(topics) if options.topics else json.partitions(in_order(rows, options.sort))
            json.end(self._roots, log_dirs)
            return
        from kafkalog_cli.output.listing import UsageText

        text = UsageText(self._out, shows_freeable=options.planning is not None)
        if options.topics:
            text.topics(topics)
        else:
            text.partitions(in_order(rows, options.sort), one_log_dir=len(log_dirs) == 1)
        text.end(log_dirs, len(topics))
