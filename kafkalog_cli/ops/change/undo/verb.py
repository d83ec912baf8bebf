"""The verb `undo`: undoes one run on all partitions that have it, the last change first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from kafkalog_cli.change.manifest import RunState, read_manifest
from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.errors import (
    ExitCode,
    KafkalogError,
    NothingSelected,
    UsageError,
    counted,
    shell_word,
)
from kafkalog_cli.log.partition import Partition
from kafkalog_cli.ops.call.call import Call, Run
from kafkalog_cli.ops.call.options import Path, VerbOptions
from kafkalog_cli.ops.call.target import Target
from kafkalog_cli.ops.change.undo.plan import UndoPlan, UndoResult, UndoStep, apply_undo, has_run, plan_undo
from kafkalog_cli.results import Hidden, PathName, of, result

if TYPE_CHECKING:
    from typing_extensions import Unpack


@result("kafkalog.undo/1")
@dataclass(frozen=True, slots=True)
class Undone:
    """A run on a partition that was undone, or would be. `result` is None in a dry run."""

    plan: Hidden[UndoPlan]
    result: Hidden[UndoResult | None]
    path: ClassVar[Annotated[PathName, "the partition directory"]] = of("plan.path")
    run: ClassVar[str] = of("plan.run_id")
    action: ClassVar[Annotated[str | None, "the command; null if the run ended before it changed anything"]] = of(
        "plan.manifest.run.action"
    )
    started_ms: ClassVar[int | None] = of("plan.manifest.run.now_ms")
    state: ClassVar[Annotated[RunState | None, "the progress of the run before the undo"]] = of("plan.manifest.state")
    dry_run: ClassVar[bool] = of(lambda done: done.result is None)
    undone: ClassVar[Annotated[bool, "whether this call undid it"]] = of(
        lambda done: done.result is not None and done.result.undone
    )
    steps: ClassVar[Annotated[tuple[UndoStep, ...], "last change first"]] = of("plan.steps")
    clean_shutdown_marker: ClassVar[
        Annotated[
            bool | None,
            "whether .kafka_cleanshutdown is back; null in a dry run, or if the run did not remove it",
        ]
    ] = of("result.marker")

    @property
    def has_work(self) -> bool:
        """Whether files are restored, or would be."""
        return self.plan.has_work and self.plan.manifest is not None

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to report."""
        return not self.plan.has_work

    @property
    def exit_code(self) -> ExitCode:
        """Always OK: if a run cannot be undone, an exception is raised."""
        return ExitCode.OK


def _partitions_to_undo(call: Call, run_id: str) -> list[Partition]:
    """Return the partitions under the path that have the run, the last change first.

    Raises UsageError without a run, NothingSelected if no partition has it, and the exceptions of `Call.partitions`.
    """
    path, found = call.paths[0], call.partitions()
    if not run_id:
        raise UsageError(reason=f"undo needs a RUN; {_runs_under(path, found)}")
    partitions = [partition for partition in found if has_run(call.fs, partition, run_id)]
    if not partitions:
        raise NothingSelected(reason=f"there is no run {run_id}; {_runs_under(path, found)}")
    return last_first(call.fs, partitions, run_id)


def last_first(fs: Filesystem, partitions: Sequence[Partition], run_id: str) -> list[Partition]:
    """Sort the partitions of a run, last change first: so each undo finds the checkpoints as its change left them."""

    def place(numbered: tuple[int, Partition]) -> tuple[int, int]:
        try:
            manifest = read_manifest(fs, numbered[1].path, run_id)
        except (KafkalogError, OSError):  # the error is reported when the partition is processed
            manifest = None
        return 0 if manifest is None else manifest.order, numbered[0]

    return [partition for _, partition in sorted(enumerate(partitions), key=place, reverse=True)]


MOST_RUNS = 5
"""Number of runs that a message names."""


def _runs_under(path: str, partitions: Sequence[Partition]) -> str:
    """List the runs under a path, newest first: a run's name starts with its time."""
    runs = Counter(run for partition in partitions for run in partition.runs)
    if not runs:
        return f"no partition under {path} has a run to undo"
    names = [f"{run} ({counted(runs[run], 'partition', 'partitions')})" for run in sorted(runs, reverse=True)]
    more = f" and {len(names) - MOST_RUNS} older runs" if len(names) > MOST_RUNS else ""
    newest = max(runs)
    last = f"`kafkalog undo {shell_word(path)} {shell_word(newest)}` undoes the last run"
    return f"runs under {path}: {', '.join(names[:MOST_RUNS])}{more}; {last}"


def undo(path: Path, run: str, **options: Unpack[VerbOptions]) -> Run[Undone]:
    """Undo a run on all partitions under `path` that have it, as `kafkalog undo` does. Raises as `recover`."""

    def undo_on_one(target: Target) -> Undone:
        with target.locked():
            plan = plan_undo(target.fs, target.partition, run, target.clock, target.places)
            target.warn(plan.warnings)
            return Undone(plan, None if target.dry_run else apply_undo(target.fs, plan))

    if "/" in run or run in (".", ".."):
        raise UsageError(reason=f"{run!r} is not a name of a run")
    call = Call("undo", path, options)
    return call.change_each(_partitions_to_undo(call, run), undo_on_one)
