"""The verb `undo`: undoes one run on all partitions that have it, the last change first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kafkalog_cli.change.manifest import read_manifest
from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.errors import (
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
from kafkalog_cli.ops.change.undo.plan import Undo, apply_undo, has_run, plan_undo

if TYPE_CHECKING:
    from typing_extensions import Unpack


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


def undo(path: Path, run: str, **options: Unpack[VerbOptions]) -> Run[Undo]:
    """Undo a run on all partitions under `path` that have it, as `kafkalog undo` does. Raises as `recover`."""

    def undo_on_one(target: Target) -> Undo:
        with target.locked():
            plan = plan_undo(target.fs, target.partition, run, target.clock, target.places)
            target.warn(plan.warnings)
            return plan if target.dry_run else apply_undo(target.fs, plan)

    if "/" in run or run in (".", ".."):
        raise UsageError(reason=f"{run!r} is not a name of a run")
    call = Call("undo", path, options)
    return call.change_each(_partitions_to_undo(call, run), undo_on_one)
