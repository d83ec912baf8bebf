"""One run of `kafkalog purge`: what is due and old removed, partition by partition."""

from __future__ import annotations

from threading import Lock

from kafkalog_cli.actions.purge import PurgePlan, apply_leftover, apply_purge, plan_purge
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.partition_run import Work
from kafkalog_cli.cli.partition_writer import PartitionWriter, WriterOptions
from kafkalog_cli.errors import ExitCode, UsageError
from kafkalog_cli.output.runs import PURGE, purge_lines, purge_object, purge_words
from kafkalog_cli.storage.partition import Partition
from kafkalog_cli.storage.publishing.new_partitions import is_staged


class PurgeRun(PartitionWriter[PurgePlan]):
    """Removes `.deleted` files that are due and runs older than `older_than_ms`."""

    verb = "purge"

    def __init__(self, environment: Environment, options: WriterOptions, older_than_ms: int) -> None:
        super().__init__(environment, options)
        self._older_than_ms = older_than_ms
        self._counts = {"files": 0, "runs": 0, "leftovers": 0, "bytes": 0}
        self._one_leftover = Lock()

    def run(self, paths: list[str]) -> int:
        """Purge what `paths` name; the exit code."""
        if not paths:
            raise UsageError(reason="purge needs a PATH; see kafkalog purge --help")
        partitions = self.partitions(paths)
        code = self.work(partitions)
        self.summary(code, partitions=len(partitions), **self._counts)
        return code

    def locks_first(self, partition: Partition) -> bool:
        """Without a trace where there is nothing to purge: a lock would make `.kafkalog`."""
        return bool(partition.runs or partition.leftovers) and not is_staged(partition.directory.name)

    def partition(self, work: Work) -> PurgePlan:
        """See PartitionRun."""
        plan = plan_purge(work.fs, work.partition, self._older_than_ms, self._clock, self._places)
        work.warn(plan.warnings)
        for kept in plan.kept:
            work.tell("run-kept", f"run {kept.run_id} stays: {kept.reason}", plan.path)
        if plan.leftover is not None and not self._writing.dry_run:
            with self._one_leftover:  # their lock is the log directory's
                apply_leftover(work.fs, plan, self._policy)
        elif plan.has_work and not self._writing.dry_run:
            self.confirm(work, purge_words(plan))
            apply_purge(work.fs, plan)
        return plan

    def show(self, result: PurgePlan) -> ExitCode:
        """See PartitionRun."""
        self._counts["files"] += len(result.files)
        self._counts["runs"] += len(result.runs)
        self._counts["leftovers"] += result.leftover is not None
        self._counts["bytes"] += result.size_bytes
        dry_run = self._writing.dry_run
        if self._json is not None:
            self._json.object(PURGE, "purge", purge_object(result, dry_run=dry_run))
        elif result.has_work or not self._options.quiet:
            for line in purge_lines(result, dry_run=dry_run):
                self._out.write(line + "\n")
        return ExitCode.WARNINGS if result.kept else ExitCode.OK
