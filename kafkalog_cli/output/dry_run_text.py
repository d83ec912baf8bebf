"""The summary of a dry run as text: how many partitions would be changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kafkalog_cli.ops.reports.index_verdict import counted
from kafkalog_cli.output.progress import sized
from kafkalog_cli.output.views import FAILED


@dataclass(slots=True)
class DryRunCounts:
    """Counts the partitions that would be changed, and remembers whether details were left out."""

    _changed: int = 0
    _has_hidden: bool = False

    def add(self, *, has_work: bool) -> None:
        """Count a partition."""
        self._changed += has_work

    def hide(self) -> None:
        """Note that a detail was left out."""
        self._has_hidden = True

    def lines(self, partitions: int, counts: Mapping[str, int]) -> Iterator[str]:
        """Return the summary; nothing for a single partition without work. `counts` are those of the View."""
        hint = "; --verbose lists each change" if self._has_hidden else ""
        if partitions > 1:
            would = f"{self._changed} of {counted(partitions, 'partition', 'partitions')} would be changed"
            yield f"dry run: {', '.join([would, *_parts(counts)])}. Nothing was changed{hint}"
        elif self._changed:
            yield f"dry run: nothing was changed{hint}"


def _parts(counts: Mapping[str, int]) -> Iterator[str]:
    segments, files = counts.get("removed_segments", 0), counts.get("unlinked_files", 0)
    if segments:
        removed = counted(segments, "segment", "segments")
        yield f"{removed} ({sized(counts.get('removed_bytes', 0))}) would be removed"
    if files:
        unlinked = counted(files, "old file", "old files")
        yield f"{unlinked} ({sized(counts.get('unlinked_bytes', 0))}) would be unlinked"
    if counts.get(FAILED):
        yield f"{counts[FAILED]} refused"
