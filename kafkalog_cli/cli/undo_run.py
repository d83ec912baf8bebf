"""One run of `kafkalog undo`: each partition that has the run checked and taken back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from kafkalog_cli.actions.reports.index_verdict import counted
from kafkalog_cli.actions.undo import UndoPlan, UndoResult, apply_undo, has_run, last_first, plan_undo
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.partition_run import Work
from kafkalog_cli.cli.partition_writer import PartitionWriter, WriterOptions
from kafkalog_cli.errors import ExitCode, NothingSelected, UsageError
from kafkalog_cli.output.runs import UNDO, undo_lines, undo_object
from kafkalog_cli.storage.partition import Partition

MOST_RUNS = 5
"""Runs that a message names."""


class _Undone(NamedTuple):
    plan: UndoPlan
    result: UndoResult | None


class UndoRun(PartitionWriter[_Undone]):
    """Takes one run back, on all partitions under a path that have it; one after the other, the last change first."""

    verb = "undo"

    def __init__(self, environment: Environment, options: WriterOptions, run_id: str) -> None:
        super().__init__(environment, options)
        if "/" in run_id or run_id in (".", ".."):
            raise UsageError(reason=f"{run_id!r} is no name of a run")
        self._run_to_undo = run_id
        self._undone = 0

    def run(self, path: str) -> int:
        """Take the run back; the exit code."""
        found = self.partitions([path])
        if not self._run_to_undo:
            raise UsageError(reason=f"undo needs the name of a RUN; {_runs_under(path, found)}")
        partitions = [one for one in found if has_run(self._fs, one, self._run_to_undo)]
        if not partitions:
            raise NothingSelected(reason=f"no run {self._run_to_undo}; {_runs_under(path, found)}")
        code = self.work(last_first(self._fs, partitions, self._run_to_undo))
        self.summary(code, partitions=len(partitions), undone=self._undone)
        return code

    def partition(self, work: Work) -> _Undone:
        """See PartitionRun."""
        plan = plan_undo(work.fs, work.partition, self._run_to_undo, self._clock, self._places)
        work.warn(plan.warnings)
        return _Undone(plan, None if self._writing.dry_run else apply_undo(work.fs, plan))

    def show(self, result: _Undone) -> ExitCode:
        """See PartitionRun."""
        plan, undone = result
        self._undone += undone is not None and undone.undone
        if self._json is not None:
            self._json.object(UNDO, "undo", undo_object(plan, undone))
        elif plan.has_work or not self._options.quiet:
            for line in undo_lines(plan, undone):
                self._out.write(line + "\n")
        return ExitCode.OK


def _runs_under(path: str, partitions: Sequence[Partition]) -> str:
    """Which runs there are, the latest first: their names begin with their time."""
    runs = Counter(run for partition in partitions for run in partition.runs)
    if not runs:
        return f"no partition under {path} has any"
    names = [f"{run} ({counted(runs[run], 'partition', 'partitions')})" for run in sorted(runs, reverse=True)]
    more = f" and {len(names) - MOST_RUNS} older ones" if len(names) > MOST_RUNS else ""
    return f"under {path} there are: {', '.join(names[:MOST_RUNS])}{more}"
