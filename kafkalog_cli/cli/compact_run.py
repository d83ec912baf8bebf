"""One run of `kafkalog compact`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from kafkalog_cli.actions.append.reading import PieceLines, file_pieces
from kafkalog_cli.actions.apply_changes import Applied, Marker
from kafkalog_cli.actions.compact.apply import apply_compact, damaged, estimate, explain
from kafkalog_cli.actions.compact.choose import plan_compact
from kafkalog_cli.actions.compact.erasing import ErasureProof, KeyFile, read_keys, replication_words, with_holders
from kafkalog_cli.actions.compact.erasure import Erasure
from kafkalog_cli.actions.compact.plan import Choice, CompactPlan, CompactRequest
from kafkalog_cli.actions.refusals import Action
from kafkalog_cli.actions.retain.plan import RetainRequest
from kafkalog_cli.actions.retain.retain import apply_retain, partly, plan_retain
from kafkalog_cli.actions.root_state import Roots, RootState
from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.cli.log_run import LogRunOptions
from kafkalog_cli.cli.log_writer import Changed, LogWriter, delay_of
from kafkalog_cli.cli.partition_run import Work
from kafkalog_cli.errors import ExitCode, KafkalogError, Refused
from kafkalog_cli.output.compact_explain_text import explain_lines
from kafkalog_cli.output.compact_json import COMPACTION, compaction_fields
from kafkalog_cli.output.compact_text import compaction_undo_words, compaction_words, dry_run_table
from kafkalog_cli.output.erasure_text import erasure_lines
from kafkalog_cli.output.human import write_table
from kafkalog_cli.output.log_change_text import Said
from kafkalog_cli.output.recover_text import remark_lines
from kafkalog_cli.output.stream import printable
from kafkalog_cli.storage.changing.lock import log_dir_of
from kafkalog_cli.storage.changing.manifest import RunInfo, new_run_id
from kafkalog_cli.storage.cleaning.log import Damaged
from kafkalog_cli.storage.partition import Partition, open_partition


@dataclass(frozen=True, slots=True)
class CompactOptions(LogRunOptions):
    """The command line of compact, as it is."""

    force: bool = field(default=False, kw_only=True)
    estimate: bool = field(default=False, kw_only=True)
    memory_bytes: int = field(kw_only=True)
    passes: int | None = field(default=1, kw_only=True)
    explain: str | None = field(default=None, kw_only=True)
    erase_keys: str | None = field(default=None, kw_only=True)
    is_ndjson: bool = field(default=True, kw_only=True)
    delay: str | None = field(default=None, kw_only=True)


class CompactRun(LogWriter[CompactPlan]):
    """Compacts partitions, the dirtiest first."""

    verb = "compact"
    action = Action.COMPACT
    schema = COMPACTION

    def __init__(self, environment: Environment, options: CompactOptions) -> None:
        super().__init__(environment, options)
        self._compacting = options
        self.explains = options.explain is not None
        self._has_table = False
        self._rows: list[CompactPlan] = []
        self._delay_ms = delay_of(options.delay, keeps=False) if options.erase_keys is None else 0
        self._keys: KeyFile | None = None
        self.counts.update(cleaned=0, records_gone=0, bytes_read=0, bytes_written=0, unlinked_files=0, unlinked_bytes=0)
        self.counts.update(removed_segments=0, removed_bytes=0)
        if options.erase_keys is not None:
            self.counts.update(records_erased=0)

    def run_on(self, partitions: list[Partition]) -> int:
        """See LogRun; the dirtiest first, as a broker's cleaner picks them."""
        self._settings = self._source(partitions)
        self._keys = self._read_keys()
        self._has_table = self._writing.dry_run and not self.explains and self._keys is None and len(partitions) > 1
        ratios = {partition.path: self._ratio(partition) for partition in partitions} if len(partitions) > 1 else {}
        return super().run_on(sorted(partitions, key=lambda partition: -ratios.get(partition.path, 0.0)))

    def tell(self, plan: CompactPlan, done: Applied | None) -> None:
        """See LogWriter; a dry run of several partitions is a row each, when all are there.

        Nothing is said of a topic that is not compacted, unless the command line names it.
        """
        is_silent = plan.choice is Choice.NOT_COMPACTED and not plan.remarks
        if is_silent and plan.path not in self._named and plan.topic not in self._named_topics:
            return
        if not self._has_table:
            super().tell(plan, done)
            return
        self._rows.append(plan)
        for remark in plan.remarks:
            for line in remark_lines(plan.path, remark):
                self._out.write(f"{printable(plan.path)}:\n{line}\n")

    def after_all(self, code: ExitCode) -> ExitCode:
        """See LogRun."""
        if self._rows:
            write_table(self._out, dry_run_table(self._rows))
        return code

    def _ratio(self, partition: Partition) -> float:
        """How dirty a partition is, as far as that can be told; what is wrong with it is said when its turn comes."""
        fs = self._environment.fs
        try:
            root = self._roots.state(log_dir_of(fs, partition.path), partition)
            plan = plan_compact(fs, partition, root, self._request(), self._places)
        except (KafkalogError, OSError, Damaged):
            return 0.0
        return plan.dirt.ratio if plan.dirt is not None else 0.0

    def partition(self, work: Work) -> Changed[CompactPlan]:
        """See PartitionRun."""
        plan = self.plan(work, self.begin(work))
        try:
            if self._keys is not None and not plan.is_refused:
                plan = ErasureProof(work.fs, self._keys, self._request()).look(plan)
            if self._writing.dry_run:
                changed = Changed(self._looked_into(work, plan), None)
            else:
                changed = self.carry_out(work, plan)
        except Damaged as damage:
            return Changed(damaged(plan, damage), None)
        return replace(changed, plan=with_holders(changed.plan))

    def _looked_into(self, work: Work, plan: CompactPlan) -> CompactPlan:
        """The plan with what only reading the log tells, as far as it is asked for. Raises Damaged."""
        options = self._compacting
        if options.estimate:
            plan = estimate(work.fs, plan, self._request())
        if options.explain is not None:
            plan = explain(work.fs, plan, self._request(), os.fsencode(options.explain))
        return plan

    def plan(self, work: Work, root: RootState) -> CompactPlan:
        """See LogWriter."""
        facts = self.check(work)
        plan = plan_compact(work.fs, work.partition, root, self._request(), self._places)
        if self._keys is not None:
            known = replication_words(facts.replication, facts.unknown_because)
            plan = replace(plan, erasure=Erasure(known, len(self._keys.sought)))
        if plan.is_refused or not (facts.config.is_compacted and facts.config.is_deleted):
            return plan
        try:
            self.check(work, Action.RETAIN)
        except Refused as refused:
            work.tell("retention", f"only cleaned, nothing is deleted: {refused}", work.partition.path)
            return plan
        return plan.followed_by(plan_retain(work.fs, work.partition, root, self._retention(), self._places))

    def _retain(self, work: Work, plan: CompactPlan) -> CompactPlan:
        """What a broker does after it cleaned, where cleanup.policy has delete too: a run of its own."""
        if plan.retention is None:
            return plan
        partition = open_partition(work.fs, work.partition.path)
        root = Roots(work.fs).state(work.log_dir, partition)
        retention = plan_retain(work.fs, partition, root, self._retention(), self._places)
        run = replace(self.run_info(retention.settings), run_id=new_run_id("retain", self._clock.now_ms))
        done = apply_retain(work.fs, retention, run, self._retention(), held=work.lock)
        return replace(plan, retention=retention, retention_run=None if done is None else done.manifest.run.run_id)

    def apply(self, work: Work, plan: CompactPlan, run: RunInfo) -> Changed[CompactPlan]:
        """See LogWriter. Raises Damaged too."""
        made = apply_compact(work.fs, plan, run, self._request(), held=work.lock)
        if made is None:
            return Changed(plan, None)
        with partly(plan.path, is_begun=made.manifest is not None):
            plan = self._retain(work, replace(plan, outcome=made.compaction))
            if self._keys is not None:
                plan = ErasureProof(work.fs, self._keys, self._request()).look_again(plan)
        return Changed(plan, None if made.manifest is None else Applied(made.manifest, Marker.NONE))

    def said(self, plan: CompactPlan, done: Applied | None) -> Said:
        """See LogWriter."""
        return Said(compaction_words(plan), compaction_undo_words(plan, done))

    def drops(self, plan: CompactPlan) -> bool:
        """See LogWriter."""
        return plan.choice.is_cleaned or (plan.retention is not None and bool(plan.retention.removed))

    def fields(self, plan: CompactPlan) -> dict[str, Any]:
        """See LogWriter."""
        return compaction_fields(plan)

    def more_lines(self, plan: CompactPlan) -> Iterator[str]:
        """See LogWriter."""
        yield from explain_lines(plan)
        yield from erasure_lines(plan)

    def count(self, plan: CompactPlan, done: Applied | None) -> None:
        """See LogWriter."""
        del done
        outcome, due = plan.outcome, plan.due
        if outcome is not None:
            self.counts["cleaned"] += 1
            self.counts["records_gone"] += outcome.counts.records_read - outcome.counts.records_kept
            self.counts["bytes_read"] += outcome.counts.bytes_read
            self.counts["bytes_written"] += outcome.counts.bytes_written
        if plan.erasure is not None and plan.erasure.after is not None:
            self.counts["records_erased"] += sum(key.records for key in plan.erasure.keys)
        if plan.retention is not None:
            self.counts["removed_segments"] += len(plan.retention.removed)
            self.counts["removed_bytes"] += plan.retention.removed_bytes
        if due is not None:
            self.counts["unlinked_files"] += len(due.files)
            self.counts["unlinked_bytes"] += due.size_bytes

    def _read_keys(self) -> KeyFile | None:
        """What is to be erased. Raises BadInput, and as `open_read` does."""
        path = self._compacting.erase_keys
        if path is None:
            return None
        with self._environment.fs.open_read(path) as file:
            return read_keys(PieceLines(file_pieces(file)), path, is_ndjson=self._compacting.is_ndjson)

    def _retention(self) -> RetainRequest:
        return RetainRequest(
            self._clock.now_ms,
            self._settings,
            kernels=self._environment.kernels,
            delay_ms=self._delay_ms,
            now_is_given=self._clock.is_given,
        )

    def _request(self) -> CompactRequest:
        return CompactRequest(
            self._clock.now_ms,
            self._settings,
            kernels=self._environment.kernels,
            is_forced=self._compacting.force,
            memory_bytes=self._compacting.memory_bytes,
            delay_ms=self._delay_ms,
            now_is_given=self._clock.is_given,
            passes=self._compacting.passes,
            erased=None if self._keys is None else self._keys.sought,
        )
