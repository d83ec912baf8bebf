"""The last line of a command that changes logs: how many partitions were changed, or would be in a dry run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalog_cli.errors import ExitCode, counted
from kafkalog_cli.output.paint import NO_PAINT, Paint
from kafkalog_cli.output.progress import sized, spent
from kafkalog_cli.output.views import FAILED

if TYPE_CHECKING:
    from kafkalog_cli.ops.session.verb import Summary


@dataclass(slots=True)
class RunCounts:
    """Counts the partitions that were changed, or would be, and remembers whether details were left out."""

    _changed: int = 0
    _has_hidden: bool = False

    def add(self, *, has_work: bool) -> None:
        """Count a partition."""
        self._changed += has_work

    def hide(self) -> None:
        """Note that a detail was left out."""
        self._has_hidden = True

    def planned(self, partitions: int, counts: Mapping[str, int]) -> Iterator[str]:
        """Return the end of a dry run; nothing for a single partition without work. `counts` are those of the View."""
        hint = "; --verbose lists each change" if self._has_hidden else ""
        if partitions > 1:
            would = f"{self._changed} of {counted(partitions, 'partition', 'partitions')} would be changed"
            parts = [would, *(f"{amount} would be {verb}" for amount, verb in _amounts(counts))]
            refused = [f"{counts[FAILED]} refused"] if counts.get(FAILED) else []
            yield f"dry run: {', '.join([*parts, *refused])}. Nothing was changed{hint}"
        elif self._changed:
            yield f"dry run: nothing was changed{hint}"

    def done(
        self, partitions: int, counts: Mapping[str, int], summary: Summary, seconds: float, paint: Paint = NO_PAINT
    ) -> Iterator[str]:
        """Return the end of a run on several partitions; nothing for a single partition, which has its own line."""
        if partitions < 2:
            return
        not_done, bad = len(summary.not_done), counts.get(FAILED, 0) + summary.failed
        refused = min(bad, summary.codes.count(ExitCode.REFUSED))
        unchanged = partitions - self._changed - bad - not_done
        parts = [f"{self._changed} changed"]
        parts += [f"{unchanged} unchanged"] if unchanged > 0 else []
        others = ((refused, "refused"), (bad - refused, "failed"), (not_done, "not done"))
        parts += [paint.bad(f"{count} {word}") for count, word in others if count]
        parts += [f"{amount} {verb}" for amount, verb in _amounts(counts)]
        yield f"{partitions} partitions: {', '.join([*parts, spent(seconds)])}"


def _amounts(counts: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """Yield the amounts of data with the verbs of the changes."""
    segments, files = counts.get("removed_segments", 0), counts.get("unlinked_files", 0)
    if segments:
        yield f"{counted(segments, 'segment', 'segments')} ({sized(counts.get('removed_bytes', 0))})", "removed"
    if files:
        yield f"{counted(files, 'old file', 'old files')} ({sized(counts.get('unlinked_bytes', 0))})", "unlinked"
    if counts.get("cut_bytes"):
        yield sized(counts["cut_bytes"]), "cut"
    if counts.get("records_gone"):
        yield counted(counts["records_gone"], "record", "records"), "removed"
    if counts.get("records"):
        yield counted(counts["records"], "record", "records"), "appended"
    if counts.get("bytes"):
        yield sized(counts["bytes"]), "removed"
