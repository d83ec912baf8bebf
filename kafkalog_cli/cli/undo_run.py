"""One run of `kafkalog undo`: each partition that has the run checked and taken back."""

from __future__ import annotations

from kafkalog_cli.actions.undo import apply_undo, has_run, plan_undo
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.partition_writer import PartitionWriter, WriterOptions
from kafkalog_cli.errors import ExitCode, NothingSelected, UsageError
from kafkalog_cli.output.runs import UNDO, undo_lines, undo_object
from kafkalog_cli.storage.partition import Partition


class UndoRun(PartitionWriter):
    """Takes one run back, on all partitions under a path that have it."""

    def __init__(self, environment: Environment, options: WriterOptions, run_id: str) -> None:
        super().__init__(environment, options)
        if not run_id or "/" in run_id or run_id in (".", ".."):
            raise UsageError(reason=f"{run_id!r} is no name of a run")
        self._run_id = run_id
        self._undone = 0

    def run(self, path: str) -> int:
        """Take the run back; the exit code."""
        partitions = [found for found in self.partitions([path]) if has_run(self._fs, found, self._run_id)]
        if not partitions:
            raise NothingSelected(reason=f"no partition under {path} has a run {self._run_id}")
        code = self.work(partitions[::-1])  # the last change first: each finds the checkpoints as it left them
        if self._json is not None:
            self._json.summary(code, partitions=len(partitions), undone=self._undone)
        self._out.flush()
        return code

    def partition(self, partition: Partition) -> ExitCode:
        """See PartitionWriter."""
        plan = plan_undo(self._fs, partition, self._run_id, self._clock, self._places)
        self._warn(plan.warnings)
        result = None if self._options.dry_run else apply_undo(self._fs, plan)
        self._undone += result is not None and result.undone
        if self._json is not None:
            self._json.object(UNDO, "undo", undo_object(plan, result))
        elif plan.has_work or not self._options.quiet:
            for line in undo_lines(plan, result):
                self._out.write(line + "\n")
        return ExitCode.OK
