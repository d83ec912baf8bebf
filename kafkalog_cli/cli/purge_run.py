"""One run of `kafkalog purge`: what is due and old removed, partition by partition."""

from __future__ import annotations

from kafkalog_cli.actions.purge import apply_purge, plan_purge
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.partition_writer import PartitionWriter, WriterOptions
from kafkalog_cli.errors import ExitCode, UsageError
from kafkalog_cli.output.runs import PURGE, purge_lines, purge_object
from kafkalog_cli.storage.partition import Partition


class PurgeRun(PartitionWriter):
    """Removes `.deleted` files that are due and runs older than `older_than_ms`."""

    def __init__(self, environment: Environment, options: WriterOptions, older_than_ms: int) -> None:
        super().__init__(environment, options)
        self._older_than_ms = older_than_ms
        self._counts = {"files": 0, "runs": 0, "bytes": 0}

    def run(self, paths: list[str]) -> int:
        """Purge what `paths` name; the exit code."""
        if not paths:
            raise UsageError(reason="purge needs a PATH; see kafkalog purge --help")
        partitions = self.partitions(paths)
        code = self.work(partitions)
        if self._json is not None:
            self._json.summary(code, partitions=len(partitions), **self._counts)
        self._out.flush()
        return code

    def _locked(self, partition: Partition) -> None:
        """Without a trace where there is nothing to purge: a lock would make `.kafkalog`."""
        if partition.runs or partition.leftovers:
            super()._locked(partition)
        else:
            self._codes.append(self.partition(partition))

    def partition(self, partition: Partition) -> ExitCode:
        """See PartitionWriter."""
        plan = plan_purge(self._fs, partition, self._older_than_ms, self._clock, self._places)
        self._warn(plan.warnings)
        for kept in plan.kept:
            self._messages.tell("run-kept", f"run {kept.run_id} stays: {kept.reason}", path=plan.path)
        if plan.has_work and not self._options.dry_run:
            apply_purge(self._fs, plan)
        self._counts["files"] += len(plan.files)
        self._counts["runs"] += len(plan.runs)
        self._counts["bytes"] += plan.size_bytes
        if self._json is not None:
            self._json.object(PURGE, "purge", purge_object(plan, dry_run=self._options.dry_run))
        elif plan.has_work or not self._options.quiet:
            for line in purge_lines(plan, dry_run=self._options.dry_run):
                self._out.write(line + "\n")
        return ExitCode.WARNINGS if plan.kept else ExitCode.OK
