"""View: how the results of a verb are shown, as lines of text, as JSON objects, as counts at the end and as metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kafkalog_cli.errors import ExitCode, counted
from kafkalog_cli.ops.session.work import Changed
from kafkalog_cli.output.progress import sized, spent
from kafkalog_cli.output.stream import NO_PAINT, Paint
from kafkalog_cli.results import object_of

if TYPE_CHECKING:
    from kafkalog_cli.ops.session.verb import Summary


ResultT = TypeVar("ResultT")


def one_object(result: Any, /, **given: object) -> list[tuple[Any, Mapping[str, object]]]:
    """Return the JSON object of a result; the fields that are `given` do not come from it."""
    return [(type(result).schema, object_of(result, **given))]


class Detail(str):
    """A line that is printed only with --verbose: a setting or a change of a dry run, a file that purge removes."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class View(Generic[ResultT]):
    """How the results of a verb are shown.

    `is_idle`: whether a result reports that nothing was done.
    `names` are the counts of the summary; `counts` returns a result's part of these, and of FAILED. `question`
    asks for consent to a plan, without a question mark. `has_work`: whether
    a result reports a change, also in a dry run; None: text output has no summary. `objects` returns the JSON objects
    of a result, each with its schema.
    """

    lines: Callable[[ResultT], Iterable[str]]
    names: tuple[str, ...] = ()
    counts: Callable[[ResultT], Mapping[str, int]] = lambda _: {}
    is_idle: Callable[[ResultT], bool] = lambda _: False
    question: Callable[[Any], str] = str
    has_work: Callable[[ResultT], bool] | None = None
    objects: Callable[[ResultT], Iterable[tuple[Any, Mapping[str, object]]]] = one_object


FAILURES = "failures"
"""The count of errors, in the summary of a view that names it."""

FAILED = "failed"
"""The count of refused partitions; it is in metrics but not in the summary."""


def change_counts(changed: Changed[Any], of_plan: Mapping[str, int]) -> dict[str, int]:
    """Return the counts of a log that was changed, or would be; only FAILED for a refused partition."""
    plan = changed.plan
    counted = {"changed": int(plan.has_work and not changed.is_dry_run), FAILED: int(plan.is_refused)}
    return counted if plan.is_refused else {**counted, **of_plan}


def change_has_work(changed: Changed[Any]) -> bool:
    """Whether a log is changed, or would be."""
    return bool(changed.plan.has_work and not changed.plan.is_refused)


def change_is_idle(changed: Changed[Any]) -> bool:
    """Whether a result reports neither a change nor a remark."""
    return not changed.plan.has_work and not changed.plan.remarks


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
        """Yield the last line of a dry run, if a single partition has work or there are several. `counts`: see View."""
        hint = "; --verbose lists each change" if self._has_hidden else ""
        if partitions > 1:
            would = f"{self._changed} of {counted(partitions, 'partition')} would be changed"
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
        yield f"{counted(segments, 'segment')} ({sized(counts.get('removed_bytes', 0))})", "removed"
    if files:
        yield f"{counted(files, 'old file')} ({sized(counts.get('unlinked_bytes', 0))})", "unlinked"
    if counts.get("cut_bytes"):
        yield sized(counts["cut_bytes"]), "cut"
    if counts.get("records_gone"):
        yield counted(counts["records_gone"], "record"), "removed"
    if counts.get("records"):
        yield counted(counts["records"], "record"), "appended"
    if counts.get("bytes"):
        yield sized(counts["bytes"]), "removed"


_COUNTS = {
    "partitions": "Partitions that the last run was given.",
    "changed": "Partitions that the last run changed.",
    "failed_partitions": "Partitions that were refused, locked, or failed.",
    "partitions_not_done": "Partitions that were not begun, as the time was over or the run interrupted.",
    "removed_segments": "Segments that the last run removed.",
    "removed_bytes": "Bytes of the logs of these segments.",
    "unlinked_files": "Files of earlier runs that the last run unlinked.",
    "unlinked_bytes": "Bytes of these files.",
    "rolled": "Partitions whose active segment was rolled.",
    "freed_bytes": "Bytes that were unlinked for --free-bytes.",
    "cut_bytes": "Bytes that were cut off segments that stay.",
    "cleaned": "Partitions that were compacted.",
    "records_gone": "Records that compaction left out.",
    "records_erased": "Records of erased keys that were taken out.",
    "bytes_read": "Bytes of logs that compaction read.",
    "bytes_written": "Bytes of logs that it wrote.",
    "records": "Records that the last run appended, with markers of transactions.",
    "batches": "Batches that these are in.",
    "appended_bytes": "Bytes of these batches.",
}


def metrics_text(command: str, ended_ms: int, seconds: float, exit_code: int, counts: Mapping[str, int]) -> str:
    """Return the whole file. Every metric is a gauge of the last run, with the command as its label."""
    label = f'{{command="{command}"}}'
    lines: list[str] = []

    def gauge(name: str, what: str, value: float) -> None:
        name = f"kafkalog_last_run_{name}"
        lines.extend((f"# HELP {name} {what}", f"# TYPE {name} gauge", f"{name}{label} {value!r}"))

    gauge("timestamp_seconds", "When the last run ended, in seconds since 1970.", ended_ms / 1000)
    gauge("duration_seconds", "How long the last run took.", round(seconds, 3))
    gauge("exit_code", "The exit code of the last run.", exit_code)
    for name, value in counts.items():
        gauge(name, _COUNTS[name], value)
    return "\n".join(lines) + "\n"
